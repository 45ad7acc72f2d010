"""diff: the roads that one network has and the other lacks. Reads both sides, writes layers."""

from dataclasses import dataclass, replace
from pathlib import Path

from roadseg.roads.colours import FALSE, MISSED
from roadseg.roads.formats.any_roads import DrawnRoads, place_sides, read_one_place
from roadseg.roads.formats.gpkg_styles import STYLE_LAYER, layer_styles, line_renderer
from roadseg.roads.formats.layers import write_gpkg_layers
from roadseg.roads.formats.tables import edge_table
from roadseg.roads.graph.road_graph import RoadGraph
from roadseg.roads.metrics.compare import Side
from roadseg.roads.metrics.differences import missing_roads
from roadseg.roads.options import DiffOptions
from roadseg.system.files import atomic_write, refuse_to_overwrite, require_suffix
from roadseg.system.progress import counted
from roadseg.system.text import Summary, count
from roadseg.system.units import road_unit, to_road_unit

IN_REFERENCE, IN_PREDICTED = "missing_in_reference", "missing_in_predicted"  # Layers.

_USUAL = DiffOptions()
_NO_ATTRIBUTES = ["osmid", "u", "v", "key"]


@dataclass(frozen=True)
class SideSummary(Summary):
    """Roads of one side.

    Attributes:
        common_km: length of roads that the other side has as well.
        pieces: number of missing pieces.
    """

    path: str
    road_km: float
    common_km: float
    only_km: float
    pieces: int


@dataclass(frozen=True)
class DiffSummary(Summary):
    """Differences of two networks in figures.

    Attributes:
        tolerance_m: distance up to which roads are the same.
        min_length_m: connected pieces shorter than this are left out.
    """

    predicted: SideSummary
    reference: SideSummary
    tolerance_m: float
    min_length_m: float
    output: str | None

    def __str__(self) -> str:
        """Return a table with a row for each side."""
        rows = [f"{'':<10}{road_unit():>10}{'in both':>10}{'only here':>11}"]
        for name, side in (("predicted", self.predicted), ("reference", self.reference)):
            lengths = (side.road_km, side.common_km, side.only_km)
            all_roads, common, only = map(to_road_unit, lengths)
            columns = f"{all_roads:>10.2f}{common:>10.2f}{only:>11.2f}"
            rows.append(f"{name:<10}{columns} in {count(side.pieces, 'piece')}")
        limits = (
            f"within {self.tolerance_m:g} m of the other side, or a piece shorter than "
            f"{self.min_length_m:g} m"
        )
        rows.append(f"\nin both: {limits}")
        return "\n".join([*rows, *([f"output: {self.output}"] if self.output else [])])


def run(
    predicted: Path,
    reference: Path,
    *,
    limits: DiffOptions = _USUAL,
    output: Path | None = None,
) -> DiffSummary:
    """Find the roads that each side lacks; see `roads.metrics.differences.missing_roads`.

    Args:
        predicted: file of roads in any format of `score`, except for lines in pixels.
        output: GeoPackage to write: layers missing_in_reference (predicted roads, with the
            attributes of their edges) and missing_in_predicted, in metres.

    Raises:
        DataError: a file cannot be read or used, or the places are not the same.
        ConfigError: `output` has another suffix than .gpkg, or is one of the two files.
        OutputError: the file cannot be written.
    """
    require_suffix(output, ".gpkg")
    refuse_to_overwrite(output, predicted, reference, option="--output")
    paths = counted((reference, predicted), "read", total=2, unit="sides")
    labels, prediction = [read_one_place(path) for path in paths]
    sides, missing = find_missing(prediction, labels, limits)
    if output is not None:
        tables = {
            name: edge_table(graph).drop(columns=_NO_ATTRIBUTES) for name, graph in missing.items()
        }
        # QGIS shows them in the colours of errors.
        styles = {IN_REFERENCE: line_renderer(FALSE), IN_PREDICTED: line_renderer(MISSED)}
        with atomic_write(output) as partial:
            write_gpkg_layers(partial, {**tables, STYLE_LAYER: layer_styles(styles)})
    return DiffSummary(
        predicted=_side(predicted, sides[0], missing[IN_REFERENCE]),
        reference=_side(reference, sides[1], missing[IN_PREDICTED]),
        output=None if output is None else str(output),
        tolerance_m=limits.tolerance_m,
        min_length_m=limits.min_length_m,
    )


def find_missing(
    predicted: DrawnRoads, reference: DrawnRoads, limits: DiffOptions
) -> tuple[tuple[RoadGraph, RoadGraph], dict[str, RoadGraph]]:
    """Find the roads that each side lacks.

    Returns:
        Both sides in one metric CRS, the predicted one first; and the missing roads by layer.

    Raises:
        DataError: a side cannot be used, or the places are not the same.
    """
    sides = place_sides(str(predicted.source), reference, predicted)
    known, found = map(_without_guesses, sides)
    pairs = {IN_REFERENCE: (found, known), IN_PREDICTED: (known, found)}
    missing = {
        layer: missing_roads(
            graph, other, tolerance_m=limits.tolerance_m, min_length_m=limits.min_length_m
        )
        for layer, (graph, other) in counted(
            pairs.items(), "compare", total=len(pairs), unit="sides"
        )
    }
    return (found, known), missing


def _without_guesses(side: Side) -> RoadGraph:
    """Leave out speeds and times unless the file states them for all roads."""
    return replace(side.graph, attributes={}) if side.assumed_m else side.graph


def _side(path: Path, graph: RoadGraph, missing: RoadGraph) -> SideSummary:
    road_km, only_km = float(graph.length_m.sum()) / 1000, float(missing.length_m.sum()) / 1000
    return SideSummary(str(path), road_km, road_km - only_km, only_km, len(missing.lines))
