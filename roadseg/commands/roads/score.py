"""score: compare roads with roads, whatever files they are in. Reads both sides, writes a table."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from roadseg.arrays import Bools
from roadseg.errors import naming
from roadseg.raster.windows import Window
from roadseg.roads.formats.any_roads import (
    DEFAULT_SPEED_MPH,
    DrawnRoads,
    PixelPlacement,
    find_placement,
    place_sides,
    read_drawn,
)
from roadseg.roads.formats.pairing import RoadSource, find_sources, match_sources
from roadseg.roads.metrics.apls import Apls
from roadseg.roads.metrics.compare import TOPO_KM, Measures, compare, pool
from roadseg.roads.metrics.pixels import Counts, count_pixels
from roadseg.roads.options import CompareOptions, TraceOptions
from roadseg.roads.speeds import KPH_PER_MPH
from roadseg.system.files import is_mask_file, refuse_to_overwrite
from roadseg.system.parallel import in_order
from roadseg.system.records import by_dotted_key, write_csv
from roadseg.system.text import Summary, count, first
from roadseg.system.text import table as aligned
from roadseg.system.units import (
    per_road_unit,
    road_text,
    road_unit,
    speed_text,
    to_road_unit,
)
from roadseg.system.workspace import ROAD_NETWORK

if TYPE_CHECKING:
    from roadseg.roads.tracing.trace import PixelSource

_log = logging.getLogger(__name__)

Record = dict[str, Any]
_Sources = Mapping[str, tuple[RoadSource, RoadSource | None]]  # Both sides of each pair.

_SIDES = ("reference", "predicted")
_SHOWN_PAIRS = 20  # Up to this many pairs have rows of their own in the printed table.
# Headings of the printed table, and where the value of each is in a record.
_COLUMNS = {
    "APLS": "apls.length.score",
    "APLS time": "apls.time.score",
    "TOPO F1": "topo.f1",
    "correct": "buffer.correctness",
    "complete": "buffer.completeness",
    "quality": "buffer.quality",
    "breaks": "breaks.per_km",
    "IoU": "pixels.iou",
    "ref": "reference.road_km",
    "pred": "predicted.road_km",
}
_SHOWN_IN = {  # Columns in the units of the reader: what is shown, and the heading without unit.
    "breaks": (per_road_unit, "breaks/"),
    "ref": (to_road_unit, "ref "),
    "pred": (to_road_unit, "pred "),
}


@dataclass(frozen=True)
class ScoreSummary(Summary):
    """Measures of all pairs of reference and prediction.

    Attributes:
        parameters: distances of the metrics.
        pairs: a record for each place of the reference, with its name.
        missing: places of the reference without a prediction, which score 0.
        left_over: predictions without a reference, which are ignored.
    """

    parameters: dict[str, float]
    pairs: list[Record]
    pooled: Record
    missing: list[str]
    left_over: list[str]

    def __str__(self) -> str:
        """Return a table with a row for each pair, if these are few, and one for all."""
        few = self.pairs if len(self.pairs) <= _SHOWN_PAIRS else []
        rows = self.pairs if len(self.pairs) == 1 else [*few, {"name": "all", **self.pooled}]
        return "\n".join([*_aligned(rows), "", *_remarks(self)])


@dataclass(frozen=True)
class _Pair:
    """Measures of a pair, or of all pairs; pixels are None unless both sides are masks."""

    roads: Measures
    pixels: Counts | None = None


def run(
    reference: Path,
    predicted: Path,
    *,
    options: CompareOptions,
    image: Path | None = None,
    gsd_m: float | None = None,
    table: Path | None = None,
    workers: int = 1,
) -> ScoreSummary:
    """Compare every place of the reference with the prediction for it.

    The file of all touching scenes of a run is used only without its other graphs, which it
    contains.

    Args:
        image: image, or folder of images, for the pixel coordinates of a WKT CSV.
        gsd_m: pixel size in metres, for a WKT CSV without image or a raster without georeference.
        table: CSV file to write, with a row for each pair and one for all.
        workers: number of processes that compare pairs.

    Raises:
        DataError: a file cannot be read or used, or files do not belong together.
        ConfigError: lines are in pixels, but neither `image` nor `gsd_m` is given; or the table
            would replace one of the files.
        OutputError: the table cannot be written.
    """
    sides = find_sources(reference), find_sources(predicted)
    refuse_to_overwrite(
        table, *(each.path for side in sides for each in side.values()), option="--csv"
    )
    matched, unmatched = match_sources(*sides)
    # The network of a run holds its other graphs.
    left_over = [name for name in unmatched if name != ROAD_NETWORK]
    if any(other for name, other in matched.items() if name != ROAD_NETWORK):
        matched.pop(ROAD_NETWORK, None)
    if left_over:
        _log.warning("%s", _left_over_text(left_over))
    pixels = find_placement(image, gsd_m)
    to_compare = {
        name: (sides[0][name], None if other is None else sides[1][other])
        for name, other in matched.items()
    }
    pairs = in_order(
        partial(_measure, to_compare, pixels, options),
        list(to_compare),
        what="score",
        unit="pairs",
        workers=workers,
    )
    records = [
        {
            "name": name,
            "reference_path": str(sources[0]),
            "predicted_path": sources[1] and str(sources[1]),
            **_record(pair, options),
        }
        for (name, sources), pair in zip(to_compare.items(), pairs, strict=True)
    ]
    pooled = _record(_pool(pairs), options)
    if table is not None:
        flat = map(by_dotted_key, [*records, {"name": "pooled", **pooled}])
        write_csv(table, [{k.replace(".", "_"): v for k, v in row.items()} for row in flat])
    missing = [name for name, other in matched.items() if other is None]
    return ScoreSummary(options.model_dump(), records, pooled, missing, left_over)


def _measure(pairs: _Sources, pixels: PixelPlacement, options: CompareOptions, name: str) -> _Pair:
    """Read both sides of a pair, convert them to one CRS, and measure how well they agree."""
    left, right = pairs[name]
    reference, predicted = read_drawn(left, _beside(left, right, pixels)), None
    if right is not None:
        predicted = read_drawn(right, _beside(right, left, pixels))
    sides = place_sides(name, reference, predicted or reference)
    with naming(name):
        roads = compare(sides[0], sides[1] if predicted else None, options)
    return _Pair(roads, compare_pixels(name, reference, predicted))


def _beside(source: RoadSource, other: RoadSource | None, pixels: PixelPlacement) -> PixelPlacement:
    """Return the image for lines in pixels; if none is given, the mask on the other side."""
    if source.table and other and is_mask_file(other.path) and not pixels.images:
        return replace(pixels, images={source.image: other.path})
    return pixels


def compare_pixels(name: str, reference: DrawnRoads, predicted: DrawnRoads | None) -> Counts | None:
    """Compare the pixels of both sides, if they are masks on the same pixel grid.

    Args:
        reference: its pixels without data do not count.
        predicted: None if there is no prediction, so that no pixel is road.

    Returns:
        Counts of pixels; None if a side consists of lines, or the pixel grids differ.
    """
    if reference.raster is None or reference.valid is None:
        return None
    if predicted is None:
        road = _road(reference.raster)
        return count_pixels(road, np.zeros_like(road), reference.valid)
    if predicted.raster is None:
        return None
    if predicted.raster.grid != reference.raster.grid:
        _log.warning("%s: the masks differ in location or size, so pixels are not compared", name)
        return None
    return count_pixels(_road(reference.raster), _road(predicted.raster), reference.valid)


def _road(raster: "PixelSource") -> Bools:
    """Return which pixels are road, shape (row, col)."""
    road = raster.read_road(Window(0, 0, raster.grid.height, raster.grid.width))
    return np.asarray(road >= TraceOptions().level_for(raster.threshold))


def _pool(pairs: Sequence[_Pair]) -> _Pair:
    roads = pool([pair.roads for pair in pairs])
    pixels = [pair.pixels for pair in pairs if pair.pixels is not None]
    if len(pixels) < len(pairs):  # Those of some places say nothing of all.
        return _Pair(roads)
    return _Pair(roads, sum(pixels, Counts()))


def _record(pair: _Pair, options: CompareOptions) -> Record:
    """Return measures as `--json` prints them."""
    roads = pair.roads
    return {
        "apls": {
            "protocol": "spacenet",
            "length": _routes(roads.length),
            "time": _routes(roads.time),
        },
        "topo": roads.topo
        and {
            "protocol": "sat2graph",
            "radius_m": roads.topo_radius_m,
            **asdict(roads.topo),
            "f1": roads.topo.f1,
        },
        "buffer": {
            "tolerance_m": options.tolerance_m,
            **_facts(roads.buffer, "correctness", "completeness", "quality"),
        },
        "breaks": asdict(roads.breaks) | {"per_km": roads.breaks.per_km},
        "connectivity": roads.connectivity,
        "pixels": pair.pixels and _facts(pair.pixels, "iou", "precision", "recall", "f1"),
        "reference": asdict(roads.reference) | _facts(roads.reference, "largest_share"),
        "predicted": asdict(roads.predicted) | _facts(roads.predicted, "largest_share"),
    }


def _facts(measures: object, *names: str) -> Record:
    return {name: getattr(measures, name) for name in names}


def _routes(score: Apls) -> Record:
    return {
        **_facts(score, "score", "reference_to_predicted", "predicted_to_reference"),
        "interval": list(score.interval) if score.score_margin else None,
        **_facts(score, "reference_points", "predicted_points"),
        **_facts(score, "reference_sources", "predicted_sources"),
    }


def _aligned(records: Sequence[Record]) -> list[str]:
    """Return a line of titles and one for each record; columns without values are left out."""
    flat = [by_dotted_key(record) for record in records]
    columns = [["", *(row["name"] for row in flat)]]
    for heading, place in _COLUMNS.items():
        values = [row.get(place) for row in flat]
        if set(values) == {None}:
            continue
        shown, decimals = heading, 4
        if heading in _SHOWN_IN:
            convert, before = _SHOWN_IN[heading]
            shown, decimals = before + road_unit(), 2
            values = [None if value is None else convert(value) for value in values]
        cells = ("-" if value is None else f"{value:.{decimals}f}" for value in values)
        columns.append([shown, *cells])
    rows = [list(row) for row in zip(*columns, strict=True)]
    return aligned(rows, right=range(1, len(columns))).splitlines()


def _remarks(summary: ScoreSummary) -> Iterator[str]:
    """Yield remarks about the figures, one per line."""
    pooled, distances = summary.pooled, summary.parameters
    points = f"points every {distances['spacing_m']:g} m, snap {distances['snap_m']:g} m"
    yield f"APLS by protocol spacenet ({points}); {_topo_remark(pooled)}"
    yield f"correct, complete, quality: within {distances['tolerance_m']:g} m"
    if interval := pooled["apls"]["length"].get("interval"):
        low, high = interval
        yield f"APLS is sampled: {low:.4f} to {high:.4f} with 95 % confidence"
    for side in _SIDES:
        if assumed := pooled[side]["assumed_speed_km"]:
            of = f"{to_road_unit(assumed):.2f} of {road_text(pooled[side]['road_km'])}"
            default = speed_text(DEFAULT_SPEED_MPH * KPH_PER_MPH)
            yield f"travel time: {default} assumed on {of} of the {side} roads"
    yield f"connected parts: {', '.join(_parts_text(side, pooled) for side in _SIDES)}"
    if summary.missing:
        places = count(len(summary.missing), "place")
        yield f"scored 0, because no prediction matches: {places} ({first(summary.missing)})"
    if summary.left_over:
        yield _left_over_text(summary.left_over)


def _left_over_text(names: Sequence[str]) -> str:
    predictions = count(len(names), "prediction")
    return f"not scored, because no reference matches: {predictions} ({first(names)})"


def _parts_text(side: str, pooled: Record) -> str:
    share = pooled[side]["largest_share"]
    largest = "" if share is None else f" (largest {share:.1%} of its roads)"
    return f"{pooled[side]['components']} {side}{largest}"


def _topo_remark(pooled: Record) -> str:
    if pooled["topo"] is None:
        return f"TOPO is not measured above {road_text(TOPO_KM, 0)} of roads"
    return f"TOPO by protocol sat2graph (radius {pooled['topo']['radius_m']:g} m)"
