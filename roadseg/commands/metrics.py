"""The commands that need no run folder: score and diff, roads against roads."""

import importlib
from pathlib import Path

import click

from roadseg.commands.making import stage
from roadseg.console import show
from roadseg.options import JSON, Option

_ROADS = click.Path(path_type=Path)


def _distance(name: str, default: float, meaning: str) -> Option:
    positive = click.FloatRange(min=0, min_open=True)
    return click.option(name, type=positive, default=default, show_default=True, help=meaning)


@click.command()
@click.argument("reference", type=_ROADS)
@click.argument("predicted", type=_ROADS)
@click.option(
    "--protocol",
    type=click.Choice(["spacenet", "sat2graph"]),
    default="spacenet",
    show_default=True,
    help="Whose definition of APLS.",
)
@_distance("--spacing-m", 50.0, "Control points on a road (spacenet).")
@_distance("--snap-m", 4.0, "How far a control point may lie from the other roads (spacenet).")
@_distance("--tolerance-m", 4.0, "Distance for correctness, completeness and quality.")
@click.option(
    "--image",
    type=click.Path(path_type=Path, exists=True),
    help="Image, or folder of images, that the pixels of a WKT CSV belong to.",
)
@click.option(
    "--gsd",
    "gsd_m",
    type=click.FloatRange(min=0, min_open=True),
    metavar="METRES",
    help="Size of a pixel of a WKT CSV without image, or of a raster without georeference.",
)
@click.option(
    "--csv",
    "table",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Table to write, a row for each pair and one for all.",
)
@JSON
def score(
    reference: Path,
    predicted: Path,
    *,
    protocol: str,
    spacing_m: float,
    snap_m: float,
    tolerance_m: float,
    image: Path | None,
    gsd_m: float | None,
    table: Path | None,
    as_json: bool,
) -> None:
    """Compare PREDICTED roads with the REFERENCE: APLS, TOPO.

    Each side is a file or a folder of files matched by name: lines in any format of OGR,
    GeoParquet, GraphML, SpaceNet's CSV of WKT in pixels, or masks and probabilities, which are
    traced. docs/metrics.md says what is measured, and how it compares to other scorers.

    \b
    Examples:
      roadseg score labels.geojson run/graphs/city.gpkg
      roadseg score truth.csv submission.csv --gsd 0.31 --json
      roadseg score labels/ predicted/ --protocol sat2graph --csv scores.csv
    """
    parameters = importlib.import_module("roadseg.core.comparison").Parameters(
        protocol=protocol, spacing_m=spacing_m, snap_m=snap_m, tolerance_m=tolerance_m
    )
    places = {"image": image, "gsd_m": gsd_m, "table": table}
    show(stage("score").run(reference, predicted, parameters=parameters, **places), as_json=as_json)


@click.command()
@click.argument("predicted", type=_ROADS)
@click.option("--reference", type=_ROADS, required=True, help="Roads that are known.")
@_distance("--tolerance-m", 8.0, "Distance up to which roads on both sides are the same.")
@click.option(
    "--min-length-m",
    type=click.FloatRange(min=0),
    default=20.0,
    show_default=True,
    help="Connected pieces shorter than this are left out.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="GeoPackage to write, a layer for what each side lacks.",
)
@JSON
def diff(
    predicted: Path,
    *,
    reference: Path,
    tolerance_m: float,
    min_length_m: float,
    output: Path | None,
    as_json: bool,
) -> None:
    """Find the roads that PREDICTED or the reference lacks.

    Each side is a file as `roadseg score` reads it. Layer missing_in_reference holds predicted
    roads to be added to a map, with their attributes; missing_in_predicted what was not found.

    \b
    Examples:
      roadseg diff run/graphs/city.gpkg --reference osm.geojson --output new.gpkg
      roadseg diff city.gpkg --reference roads.gpkg --tolerance-m 12 --json
    """
    limits = {"tolerance_m": tolerance_m, "min_length_m": min_length_m}
    show(stage("diff").run(predicted, reference, **limits, output=output), as_json=as_json)
