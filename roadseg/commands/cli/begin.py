"""The commands to begin with: map, init, demo and doctor; bench and qgis install."""

from pathlib import Path
from typing import Any

import click

from roadseg.commands.cli.command import announce, load, require_images, show, shown
from roadseg.commands.cli.fetch import OF_IMAGES, take_fetch_options
from roadseg.commands.cli.group import OrderedGroup
from roadseg.commands.cli.options import (
    AREA,
    CONFIG,
    DEVICES,
    FILE,
    FOLDER,
    FORCE,
    JSON,
    LAUNCHING,
    ON_ERROR,
    PREDICTING_IN_MAP,
    SET,
    WORKERS,
    of_config,
    take_settings,
    together,
)
from roadseg.system.units import choose_units


@click.command()
@click.option(
    "--images",
    multiple=True,
    metavar="PATH",
    help="Images: folder, file or glob; may be repeated.",
)
@click.option(
    "--labels",
    multiple=True,
    metavar="PATH",
    help="Known roads: folder, file or glob; may be repeated.",
)
@click.option(
    "--city",
    "cities",
    multiple=True,
    metavar="[NAME=]FOLDER",
    help="Folder whose images and labels form one set; may be repeated.",
)
@AREA
@of_config("train", "--minutes")
@click.option(
    "--output",
    type=FILE,
    default=Path("roadseg.json"),
    show_default=True,
    help="Config file to write.",
)
@click.option("--force", is_flag=True, help="Overwrite an existing config file.")
@together(SET, shown)
def init(
    images: tuple[str, ...],
    labels: tuple[str, ...],
    cities: tuple[str, ...],
    output: Path,
    assignments: tuple[str, ...],
    *,
    force: bool,
    **values: Any,  # noqa: ANN401 - what is set in the config
) -> object:
    """Inspect images and road labels, and write a config for them.

    Without --images or --labels, roadseg looks for them in this folder and its subfolders. Each
    --city becomes a set with its own options.

    \b
    Examples:
      roadseg init --minutes 30
      roadseg init --images images/ --labels roads/ --force
      roadseg init --city san_diego/ --city tianjin/
    """
    from roadseg.commands.tools import init
    from roadseg.config import load_config

    settings = load_config(None, assignments + take_settings(values))
    choose_units(settings.compute.units)
    return init.run(images, labels, output, settings=settings, cities=cities, force=force)


@click.command("map")
@click.argument("images", nargs=-1, required=True)
@click.option(
    "--labels",
    multiple=True,
    metavar="PATH|SERVICE",
    help="Known roads: folder, file or glob; or overpass, which fetches them. May be repeated.",
)
@click.option(
    "--checkpoint",
    "checkpoints",
    type=FOLDER,
    multiple=True,
    help="Checkpoint folder of a trained network; may be repeated, to average several. "
    "[default: starter, the network that comes with roadseg]",
)
@click.option(
    "--adapt",
    is_flag=True,
    help="Without labels: let the network first learn from the roads of the images that it is sure "
    "of.",
)
@click.option(
    "--minutes",
    type=click.FloatRange(min=0.1),
    metavar="MINUTES",
    help="Time limit for the training. [default: that of the first call, or else 20 with --labels "
    "and 2 with --adapt]",
)
@click.option(
    "--output",
    type=FOLDER,
    default=Path("roadseg-map"),
    show_default=True,
    help="Folder for all outputs: config, graphs, report and others.",
)
@together(AREA, *OF_IMAGES, *PREDICTING_IN_MAP, WORKERS, ON_ERROR, *DEVICES, FORCE, SET, shown)
def map_images(
    images: tuple[str, ...],
    labels: tuple[str, ...],
    checkpoints: tuple[Path, ...],
    output: Path,
    assignments: tuple[str, ...],
    *,
    adapt: bool,
    minutes: float | None,
    force: bool,
    **values: Any,  # noqa: ANN401 - how to fetch and predict, and where to compute
) -> object:
    """Map the roads of IMAGES in one command.

    IMAGES are files, folders, globs or addresses of rasters. With --area, they may also be services
    from which images are fetched first, as by `roadseg fetch images`.

    At the end, the command reports how far you can trust the map. With --labels, such as the roads
    of OpenStreetMap, it trains a network on these images, and measures it on a held-out fifth of
    the ground. With --checkpoint, an existing network maps the images. With neither, it uses the
    starter, a small network that comes with roadseg and was trained on other places. With --adapt,
    these two learn for some minutes from their own first map of the images, which makes the map
    more accurate in most places. Run the same command to resume an interrupted map.

    \b
    Examples:
      roadseg map city.tif --output city-map
      roadseg map city.tif --adapt
      roadseg map images/ --labels roads.gpkg --minutes 12
      roadseg map city.tif --checkpoint run/checkpoints/fold-0
      roadseg map images/ --area area.geojson
      roadseg map 'https://a.org/{z}/{x}/{y}.jpg' --gsd-m 0.5 --area a.gpkg --labels overpass
    """
    from roadseg.config import load_config

    fetching = take_fetch_options(values)
    given = take_settings(values) + assignments
    load_config(None, given)  # Before torch is loaded.
    require_images(images)
    from roadseg.commands.tools import map as mapping

    return mapping.run(
        images,
        output,
        labels=labels,
        checkpoints=checkpoints,
        adapt=adapt,
        minutes=minutes,
        settings=given,
        service=fetching,
        force=force,
        say=announce,
    )


@click.command()
@click.option(
    "--steps",
    type=click.IntRange(min=1),
    metavar="N",
    default=4,
    show_default=True,
    help="Steps per round.",
)
@click.option(
    "--rounds",
    type=click.IntRange(min=1),
    metavar="N",
    default=5,
    show_default=True,
    help="Rounds of each measurement.",
)
@together(*DEVICES, *LAUNCHING, CONFIG, SET, shown)
def bench(
    config_path: Path | None,
    assignments: tuple[str, ...],
    *,
    steps: int,
    rounds: int,
    **values: Any,  # noqa: ANN401 - how to start, and where to compute
) -> object:
    """Measure training, inference and maps on this machine.

    Measures the windows per second on random pixels in memory. Then the starter maps a drawn city
    from image to graph with each engine, for the square kilometres an hour and a plan. No data is
    needed.

    \b
    Examples:
      roadseg bench --set train.batch_size=4 --set train.encoder=resnet18
      roadseg bench --ncores 8 --allocator tcmalloc
    """
    assignments += take_settings(values)
    config = load(config_path, assignments, required=False)
    from roadseg.commands.tools import bench

    return bench.run(config, steps=steps, rounds=rounds)


@click.command()
@JSON
def doctor(*, as_json: bool) -> None:
    """Show what works on this machine, and what is missing.

    \b
    Example: roadseg doctor
    """
    from roadseg.commands.tools import doctor

    summary = doctor.run()
    show(summary, as_json=as_json)
    if summary.broken:
        click.get_current_context().exit(1)


@click.command()
@click.argument("folder", type=FOLDER, default="roadseg-demo")
@shown
def demo(folder: Path) -> object:
    """Draw a synthetic city, train on it, and map the held-out part.

    \b
    Example: roadseg demo
    """
    from roadseg.commands.tools import demo

    return demo.run_stages(folder, say=announce)


@click.group(cls=OrderedGroup)
def qgis() -> None:
    """Use roadseg in QGIS.

    \b
    Example: roadseg qgis install
    """


@qgis.command()
@click.option(
    "--profile",
    metavar="NAME",
    help="Profile of QGIS (Settings > User Profiles). [default: default]",
)
@shown
def install(*, profile: str | None) -> object:
    """Install the QGIS plugin for this user, or bring it up to date.

    The plugin adds eight algorithms to the toolbox of QGIS's Processing, which start this roadseg.
    Install it again after roadseg has moved to another environment.

    \b
    Examples:
      roadseg qgis install
      roadseg qgis install --profile work
    """
    from roadseg.commands.tools import qgis as plugin

    return plugin.run(profile)
