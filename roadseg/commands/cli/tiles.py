"""The commands on the tiles of the world: list, trace, cut and join."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from roadseg.commands.cli.command import show, stage_command
from roadseg.commands.cli.group import OrderedGroup
from roadseg.commands.cli.options import (
    FOLDER,
    FORCE,
    JSON,
    ON_ERROR,
    PRECISION,
    SCHEDULER,
    WORKERS,
    shard_of,
)
from roadseg.commands.cli.results import UNITS

if TYPE_CHECKING:
    from roadseg.config import Config
    from roadseg.system.workspace import Workspace

_PATH = click.Path(path_type=Path)
_KM = click.option(
    "--km",
    type=click.Choice(["1", "10", "100"]),
    default="10",
    show_default=True,
    callback=lambda _ctx, _param, value: int(value),
    help="Side of the tiles in kilometres.",
)
_BOX = "a vector file with polygons, or minx,miny,maxx,maxy in degrees."
_SOME_AREA = click.option(
    "--area", "ground", metavar="FILE|BOX", help=f"Only tiles that touch this area: {_BOX}"
)
_OUTPUT = click.option("--output", type=FOLDER, required=True, help="Folder for the tiles.")


@click.group(cls=OrderedGroup)
def tiles() -> None:
    """Make the network of a country tile by tile.

    Tiles are squares of 1, 10 or 100 km with the names of the Military Grid Reference System. They
    do not depend on images. Where a road crosses the border of a tile, both tiles have the same
    node, so that any tile can be made again alone.

    \b
    Examples:
      roadseg tiles list --area -115.3,36.1,-115.1,36.2
      roadseg tiles trace --output country --km 1 mask.tif
    """


@tiles.command("list")
@click.option("--area", "ground", required=True, metavar="FILE|BOX", help=f"The area: {_BOX}")
@_KM
@click.option("--folder", type=FOLDER, help="Also show which of the tiles are done in this folder.")
@click.option(
    "--output", type=_PATH, metavar="FILE", help=".gpkg or .geojson of the tiles to write."
)
@UNITS
@JSON
def list_tiles(
    *, ground: str, km: int, folder: Path | None, output: Path | None, as_json: bool
) -> None:
    """List the tiles that an area touches.

    \b
    Example: roadseg tiles list --area 8.6,49.3,8.8,49.5 --output tiles.gpkg
    """
    from roadseg.commands.tiles import listing

    show(listing.run(ground, km=km, folder=folder, output=output), as_json=as_json)


@stage_command(
    _OUTPUT,
    _SOME_AREA,
    click.option(
        "--tile", "names", multiple=True, metavar="ID", help="Only this tile; may be repeated."
    ),
    _KM,
    shard_of("tile"),
    PRECISION,
    WORKERS,
    SCHEDULER,
    ON_ERROR,
    click.argument("images", nargs=-1, required=True),
)
def trace(
    config: "Config",
    workspace: "Workspace",  # noqa: ARG001 - tiles belong to no run
    *,
    dry_run: bool,
    force: bool,
    output: Path,
    ground: str | None,
    names: tuple[str, ...],
    km: int,
    shard: tuple[int, int] | None,
    images: tuple[str, ...],
) -> object:
    """Trace the roads in IMAGES tile by tile.

    IMAGES are masks or probability rasters. Each tile becomes a GeoPackage (and other
    graph.formats) with a STAC item; collection.json lists them. Run the same command again to make
    only tiles that are missing, or whose images or settings have changed.

    \b
    Examples:
      roadseg tiles trace --output country --km 1 mask.tif
      roadseg tiles trace --output country --km 1 --shard 1/8 mask.tif
    """
    from roadseg.commands.tiles import tracing

    choice = tracing.TileChoice(ground, names, km, shard)
    trace = tracing.plan if dry_run else tracing.run
    return trace(config, images, output=output, choice=choice, force=force)


tiles.add_command(trace)


@tiles.command()
@click.argument("network", type=_PATH)
@_OUTPUT
@_KM
@FORCE
@UNITS
@JSON
def cut(network: Path, *, output: Path, km: int, force: bool, as_json: bool) -> None:
    """Cut the roads of a NETWORK into tiles.

    NETWORK is a file in a format of `roadseg score`. Attributes are kept.

    \b
    Example: roadseg tiles cut roads.geojson --output known --km 1
    """
    from roadseg.commands.tiles import cutting

    show(cutting.run(network, output=output, km=km, force=force), as_json=as_json)


@tiles.command()
@click.argument("folder", type=FOLDER)
@click.argument("target", type=_PATH)
@_SOME_AREA
@UNITS
@JSON
def join(folder: Path, target: Path, *, ground: str | None, as_json: bool) -> None:
    """Join the tiles in FOLDER into one network, TARGET.

    The suffix of TARGET chooses the format, as in `roadseg convert`.

    \b
    Example: roadseg tiles join country/ country.gpkg
    """
    from roadseg.commands.tiles import joining

    show(joining.run(folder, target, area=ground), as_json=as_json)
