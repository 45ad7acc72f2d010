"""The command that tries a finished road graph: route, the way between two places."""

import math
from pathlib import Path

import click

from roadseg.commands.making import stage
from roadseg.console import show
from roadseg.options import JSON, Option


def _place(_ctx: click.Context, _param: click.Parameter, value: str) -> tuple[float, float]:
    try:
        x, y = (float(part) for part in value.split(","))
    except ValueError:
        x = y = math.nan
    if math.isfinite(x) and math.isfinite(y):
        return x, y
    msg = f"expected longitude,latitude in degrees, such as 8.69,49.41, got {value!r}"
    raise click.BadParameter(msg)


def _end(option: str, name: str, meaning: str) -> Option:
    return click.option(
        option, name, metavar="LON,LAT", required=True, callback=_place, help=meaning
    )


@click.command()
@click.argument("graph", type=click.Path(path_type=Path))
@_end("--from", "start", "Where the way begins.")
@_end("--to", "goal", "Where it ends.")
@click.option(
    "--weight",
    type=click.Choice(["time", "length"]),
    default="time",
    show_default=True,
    help="What is to be least.",
)
@click.option(
    "--snap-m",
    type=click.FloatRange(min=0),
    default=500.0,
    show_default=True,
    help="How far start and goal may be from the nearest road.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Where to write the way as one line, .geojson or .gpkg.",
)
@JSON
def route(
    graph: Path,
    *,
    start: tuple[float, float],
    goal: tuple[float, float],
    weight: str,
    snap_m: float,
    output: Path | None,
    as_json: bool,
) -> None:
    """Find the fastest way on GRAPH, to try a result.

    GRAPH is a GeoPackage or GraphML that `roadseg graph` wrote, or any other file with road lines.
    Start and goal are joined to the nearest place on a road; of a graph without georeference they
    are x,y in its metres.

    \b
    Examples:
      roadseg route run/graphs/city.gpkg --from 8.69,49.41 --to 8.65,49.38
      roadseg route city.graphml --from -122.1,37.2 --to -122.2,37.3 --output way.geojson
    """
    found = stage("route").run(graph, start, goal, by=weight, snap_m=snap_m, output=output)
    show(found, as_json=as_json)
