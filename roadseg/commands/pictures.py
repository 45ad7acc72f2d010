"""The command that draws pictures for print: plot."""

import importlib
from pathlib import Path

import click

from roadseg.commands.making import load, stage
from roadseg.console import show
from roadseg.options import CONFIG, JSON, RUN, SET, Option, together

_KINDS = ("scene", "graph", "errors", "speeds")


def _file(name: str, meaning: str) -> Option:
    path = click.Path(path_type=Path)
    return click.option(f"--{name}", name, type=path, metavar="FILE", help=meaning)


@click.command()
@click.argument("kinds", nargs=-1, type=click.Choice(_KINDS), metavar="[KIND]...")
@click.option("--scene", metavar="NAME", help="The only scene of the run to draw.")
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    help="Folder, or a .png, .pdf or .svg for one picture; else plots/ of the run.",
)
@_file("graph", "Draw this road graph or file of lines instead of a run.")
@_file("labels", "Draw these known roads with it.")
@_file("image", "Draw them over this image.")
@click.option(
    "--width",
    "width_in",
    type=click.FloatRange(min=2, max=12),
    default=7.0,
    show_default=True,
    metavar="INCHES",
    help="Width of a picture.",
)
@click.option(
    "--dpi",
    type=click.IntRange(min=50, max=600),
    default=300,
    show_default=True,
    help="Dots an inch.",
)
@together(CONFIG, SET, RUN, JSON)
def plot(
    kinds: tuple[str, ...],
    *,
    scene: str | None,
    output: Path | None,
    graph: Path | None,
    labels: Path | None,
    image: Path | None,
    width_in: float,
    dpi: int,
    config_path: Path | None,
    assignments: tuple[str, ...],
    run_folder: Path | None,
    as_json: bool,
) -> None:
    """Draw pictures for print of the scenes held out, or of any files.

    \b
    KIND is any of these, or else all of them:
      scene   the image, and the labels over it
      graph   the road graph coloured by speed, what was inferred dashed
      errors  what was found, what was missed, what is false
      speeds  kilometres of road by speed, labels beside prediction

    \b
    Examples:
      roadseg plot
      roadseg plot errors --scene city --output errors.pdf
      roadseg plot graph --graph city.gpkg --image city.tif --output city.png
    """
    paper = importlib.import_module("roadseg.io.figures").Paper(width_in, dpi)
    files = {"graph": graph, "labels": labels, "image": image}
    if any(files.values()):
        if output is None or scene is not None:
            msg = "--graph, --labels and --image go with --output, and without --scene"
            raise click.UsageError(msg)
        found = stage("plot").run_files(kinds=kinds, output=output, paper=paper, **files)
    else:
        config = load(config_path, assignments)
        workspace = importlib.import_module("roadseg.workspace").Workspace(run_folder or config.run)
        more = {"scene": scene, "output": output, "paper": paper}
        found = stage("plot").run(config, workspace, kinds=kinds or _KINDS, **more)
    show(found, as_json=as_json)
