"""The commands on results, from review to convert, on runs as a whole, and on their networks."""

import math
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from roadseg.commands.cli.command import announce, load, shown
from roadseg.commands.cli.options import (
    CONFIG,
    FILE,
    FOLDER,
    RUN,
    RUN_ARGUMENT,
    SET,
    Option,
    of_field,
    output_file,
    section,
    together,
)
from roadseg.system.units import Units, choose_units

if TYPE_CHECKING:
    from roadseg.learn.options import ComputeOptions
    from roadseg.roads.options import (
        AuditOptions,
        CompareOptions,
        ConflateOptions,
        DiffOptions,
        RouteOptions,
    )

_ROADS = click.Path(path_type=Path)


def _units(_ctx: click.Context, _param: click.Parameter, value: Units | None) -> None:
    """Choose the units of what a command without a config prints."""
    if value is not None:
        choose_units(value)


_IMAGE = click.option(
    "--image",
    type=click.Path(path_type=Path, exists=True),
    help="Image or folder of images for the pixel coordinates of a WKT CSV.",
)
_GSD = click.option(
    "--gsd-m",
    type=click.FloatRange(min=0, min_open=True),
    metavar="METRES",
    help="Pixel size in metres, for a WKT CSV without image or a raster without georeference.",
)
UNITS = of_field("learn", "ComputeOptions", "--units", callback=_units, expose_value=False)


@click.command()
@click.argument("reference", type=_ROADS)
@click.argument("predicted", type=_ROADS)
@section(*("options", "roads", "CompareOptions"), *("--spacing-m", "--snap-m", "--tolerance-m"))
@_IMAGE
@_GSD
@click.option(
    "--csv",
    "table",
    type=FILE,
    metavar="FILE",
    help="CSV table to write, with a row per pair of files and one for all.",
)
@section("compute", "learn", "ComputeOptions", "--workers")
@UNITS
@shown
def score(
    reference: Path,
    predicted: Path,
    *,
    image: Path | None,
    gsd_m: float | None,
    table: Path | None,
    options: "CompareOptions",
    compute: "ComputeOptions",
) -> object:
    """Compare PREDICTED roads with a REFERENCE (APLS, TOPO and more).

    Each side is a file, or a folder of files that are matched by name: lines in any OGR format,
    GeoParquet, GraphML, SpaceNet's CSV of WKT in pixels, or masks and probabilities, which are
    traced. Roads of the reference beyond the ground that was mapped count as not found, so cut it
    to that ground before. The page on metrics in the documentation explains the figures, and
    compares them with those of other scorers.

    \b
    Examples:
      roadseg score labels.geojson run/graphs/city.gpkg
      roadseg score truth.csv submission.csv --gsd-m 0.31 --json
      roadseg score labels/ predicted/ --csv scores.csv
    """
    from roadseg.commands.roads import score

    return score.run(
        reference,
        predicted,
        options=options,
        image=image,
        gsd_m=gsd_m,
        table=table,
        workers=compute.workers,
    )


@click.command()
@click.argument("source", type=_ROADS)
@click.argument("target", type=_ROADS)
@_IMAGE
@_GSD
@click.option(
    "--node", is_flag=True, help="Also join roads that cross or touch without a common vertex."
)
@UNITS
@shown
def convert(
    source: Path, target: Path, *, image: Path | None, gsd_m: float | None, node: bool
) -> object:
    """Convert roads from SOURCE into the format of TARGET.

    SOURCE is any file with roads that `roadseg score` reads. The suffix of TARGET chooses the
    format: .gpkg, .geojson, .parquet, .fgb, .shp (for GIS); .graphml (osmnx); .osm (JOSM); .pbf
    (routers). Lines are joined where they share a vertex. Roads without a speed get the usual one
    of their class, or 40 km/h.

    \b
    Examples:
      roadseg convert run/graphs/city.gpkg city.osm.pbf
      roadseg convert roads.geojson roads.graphml
    """
    from roadseg.commands.roads import convert

    return convert.run(source, target, image=image, gsd_m=gsd_m, node=node)


@click.command()
@click.argument("predicted", type=_ROADS)
@click.option("--reference", type=_ROADS, required=True, help="Known roads.")
@section("limits", "roads", "DiffOptions", "--tolerance-m", "--min-length-m")
@output_file("GeoPackage to write, with one layer for the roads missing on each side.")
@UNITS
@shown
def diff(predicted: Path, *, reference: Path, output: Path | None, limits: "DiffOptions") -> object:
    """Find the roads that are missing in PREDICTED or in the reference.

    Each side is a file in a format of `roadseg score`. The layer missing_in_reference contains
    predicted roads that could be added to a map, with their attributes; missing_in_predicted
    contains roads of the reference that were not found, also those beyond the ground that was
    mapped.

    \b
    Examples:
      roadseg diff run/graphs/city.gpkg --reference osm.geojson --output new.gpkg
      roadseg diff city.gpkg --reference roads.gpkg --tolerance-m 12 --json
    """
    from roadseg.commands.roads import diff

    return diff.run(predicted, reference, limits=limits, output=output)


@click.command()
@click.argument("predicted", type=_ROADS)
@click.option("--into", type=_ROADS, required=True, metavar="MAP", help="Map to extend.")
@click.option(
    "--output",
    type=FOLDER,
    required=True,
    help="Folder to write; the results of an earlier `conflate` are replaced.",
)
@section(
    *("options", "roads", "ConflateOptions"),
    *("--tolerance-m", "--min-length-m", "--max-gap-m", "--min-confidence"),
)
@UNITS
@shown
def conflate(predicted: Path, *, into: Path, output: Path, options: "ConflateOptions") -> object:
    """Add the PREDICTED roads that a map lacks, and connect them.

    PREDICTED is a file in a format of `roadseg score`. MAP is OpenStreetMap data as PBF or XML (it
    needs roadseg[osm]), or any file of lines, of which only the merged network is written. Ways of
    the map keep their ids and tags, and get nodes where roads are joined.

    \b
    The folder contains:
      merged.gpkg          the map around the prediction with the new roads
      merged.osm.pbf       the whole map with the changes
      changes.osc          the changes for OpenStreetMap (osmChange)
      review.osm           new roads, roads to check and ways that they touch, for JOSM
      new_roads.geojson    new roads and roads to check, the likely and long ones first

    Look at every road before you upload any of them.

    \b
    Examples:
      roadseg conflate run/graphs/city.gpkg --into city.osm.pbf --output conflated
      roadseg conflate city.gpkg --into roads.gpkg --output conflated --min-confidence 0.8
    """
    from roadseg.commands.roads import conflate

    return conflate.run(predicted, into, output=output, options=options)


@click.command()
@click.argument("roads", type=_ROADS)
@click.option(
    "--probabilities",
    type=_ROADS,
    required=True,
    metavar="PATH",
    help="Raster of `roadseg predict`, mask, VRT, folder of such files, or run folder.",
)
@section(*("options", "roads", "AuditOptions"), *("--threshold", "--min-shift-m", "--max-shift-m"))
@output_file("GeoPackage to write, with layers stretches and ways, and a table summary.")
@UNITS
@shown
def audit(
    roads: Path, *, probabilities: Path, output: Path | None, options: "AuditOptions"
) -> object:
    """Check the ROADS of a map against road probabilities of an image.

    ROADS is a file with lines in a format of `roadseg score`. Each way for cars is cut into
    stretches: confirmed, shifted (the road lies beside the way), not seen, or no data. Ids and
    attributes of the map are kept.

    \b
    Examples:
      roadseg audit map.geojson --probabilities run/probabilities --output audit.gpkg
      roadseg audit roads.gpkg --probabilities mask.tif --json
    """
    from roadseg.commands.roads import audit

    return audit.run(roads, probabilities, options=options, output=output)


def _place(_ctx: click.Context, _param: click.Parameter, value: str) -> tuple[float, float]:
    """Read a place such as "8.69,49.41"."""
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
@click.argument("graph", type=_ROADS)
@_end("--from", "start", "Start of the route.")
@_end("--to", "goal", "Destination of the route.")
@section("options", "roads", "RouteOptions", "--weight", "--snap-m")
@output_file("File to write, .geojson or .gpkg, with the route as one line.")
@UNITS
@shown
def route(
    graph: Path,
    *,
    start: tuple[float, float],
    goal: tuple[float, float],
    output: Path | None,
    options: "RouteOptions",
) -> object:
    """Find the fastest route in a GRAPH.

    GRAPH is a GeoPackage or GraphML of `roadseg graph`, a run folder, or any other file with road
    lines. Start and destination are joined to the nearest point on a road. For a graph without
    georeference they are x,y in its metres.

    \b
    Examples:
      roadseg route run/graphs/city.gpkg --from 8.69,49.41 --to 8.65,49.38
      roadseg route city.graphml --from -122.1,37.2 --to -122.2,37.3 --output way.geojson
    """
    from roadseg.commands.roads import route

    return route.run(graph, start, goal, options=options, output=output)


@click.command()
@click.argument("run_folder", metavar="[RUN]", type=FOLDER, required=False)
@click.option(
    "--export",
    type=FILE,
    metavar="FILE",
    help="Write the edited roads in the format of the suffix, and serve no page.",
)
@click.option(
    "--who", metavar="NAME", help="Name kept with your edits. [default: that of the user]"
)
@together(CONFIG, SET, shown)
def review(
    run_folder: Path | None,
    *,
    export: Path | None,
    who: str | None,
    config_path: Path | None,
    assignments: tuple[str, ...],
) -> object:
    """Accept, reject, draw and correct the roads of a RUN in a browser.

    RUN is a run folder (without it, that of the config), or a folder with graphs or probabilities.
    The page is served on this machine only, at an address that contains a secret. The roads that
    most need a look come first. Every edit is written to edits.gpkg in the folder before it is
    shown as done; QGIS can change that file as well. End with Finish or Ctrl+C, and resume at any
    time.

    \b
    Examples:
      roadseg review
      roadseg review roadseg-map --who Ana
      roadseg review roadseg-map --export corrected.gpkg
    """
    from roadseg.commands.tools import review
    from roadseg.system.workspace import Workspace

    config = load(config_path, assignments, run_folder, required=run_folder is None)
    folder = run_folder or config.run

    def say(text: str) -> None:
        click.echo(text, err=True)

    return review.run(config, Workspace(folder), who=who, export=export, say=say)


@click.command()
@together(RUN_ARGUMENT, CONFIG, SET, RUN, shown)
def status(
    config_path: Path | None, assignments: tuple[str, ...], run_folder: Path | None
) -> object:
    """Show which stages of a RUN are done, changed, running or missing.

    A stage is changed if `roadseg run` would run it again, because its settings, its inputs or an
    earlier stage have changed since it ran.

    \b
    Examples:
      roadseg status
      roadseg status roadseg-map --set graph.threshold=0.4
    """
    from roadseg.commands.tools import status
    from roadseg.config import find_config

    config_file = find_config(config_path, run_folder, required=False)
    config = None
    if config_file or run_folder is None or assignments:
        config = load(config_path, assignments, run_folder)
    folder = run_folder or (config.run if config else Path())
    named = {"--config": [config_path], "--run": [run_folder], "--set": assignments}
    given = [(option, str(each)) for option, values in named.items() for each in values if each]
    return status.run(config, folder, options=shlex.join(word for pair in given for word in pair))


@click.command()
@click.argument("folders", metavar="RUN RUN...", type=FOLDER, nargs=-1, required=True)
@shown
def compare(folders: tuple[Path, ...]) -> object:
    """Compare the settings, metrics and times of runs.

    Changes are relative to the first RUN. A warning appears if folds, held-out chips or labels
    differ, so that the figures cannot be compared.

    \b
    Example: roadseg compare run/ other-run/
    """
    from roadseg.commands.tools import compare

    return compare.run(folders)


@click.command()
@click.argument("checkpoint", type=FOLDER)
@click.option("--output", type=FOLDER, required=True, help="Folder for the export.")
@click.option(
    "--batch-size",
    type=click.IntRange(min=1),
    metavar="N",
    help="Fixed number of windows per batch. [default: any number]",
)
@click.option("--force", is_flag=True, help="Replace an existing export.")
@together(CONFIG, SET, shown)
def export(
    config_path: Path | None,
    assignments: tuple[str, ...],
    checkpoint: Path,
    *,
    output: Path,
    batch_size: int | None,
    force: bool,
) -> object:
    """Write the network of a CHECKPOINT, or of the starter, as ONNX.

    The windows of the network have predict.window_px pixels (see the config), 1024 if it is null.

    \b
    Examples:
      roadseg export run/checkpoints/fold-0 --output city-onnx
      roadseg export starter --output starter-onnx
    """
    from roadseg.commands.tools import export

    return export.run(
        checkpoint,
        output,
        window_px=load(config_path, assignments, required=False).predict.largest_px,
        batch_size=batch_size,
        force=force,
    )


@click.command()
@click.argument("run_folder", metavar="RUN", type=FOLDER)
@click.option(
    "--minutes",
    metavar="MINUTES",
    type=click.FloatRange(min=0, min_open=True),
    default=2.0,
    show_default=True,
    help="Duration of the training.",
)
@click.option(
    "--checkpoint",
    type=FOLDER,
    help="Network to go on from. [default: that of the run, or the starter]",
)
@click.option(
    "--output", type=FOLDER, help="Folder of the new run. [default: RUN-2, or the next number]"
)
@together(CONFIG, SET, shown)
def improve(
    run_folder: Path,
    *,
    minutes: float,
    checkpoint: Path | None,
    output: Path | None,
    config_path: Path | None,
    assignments: tuple[str, ...],
) -> object:
    """Train on the edits of a review of RUN, and map its images again.

    Roads that people drew or accepted are labels, and those that they rejected are background. The
    rest is as the labels of the run have it. On images without labels, other roads of which the
    network is sure are labels as well, ground where it sees no road is background, and the rest is
    ignored. The new run shows how much of the roads on held-out chips the network found before and
    after. It keeps all edits.

    \b
    Examples:
      roadseg improve roadseg-map
      roadseg improve run --minutes 5 --output run-2
    """
    from roadseg.commands.tools import improve
    from roadseg.system.workspace import Workspace

    return improve.run(
        load(config_path, assignments, run_folder, required=False),
        Workspace(run_folder),
        output,
        minutes=minutes,
        checkpoint=checkpoint,
        say=announce,
    )


# In the order of their use.
OF_RUNS = [status, compare]
COMMANDS = [review, route, score, diff, convert, conflate, audit]
