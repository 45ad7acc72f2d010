"""Comparison of two road networks: scores, and what is missing on either side."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from roadseg.api.arguments import options_of, takes
from roadseg.api.graphs import AnyRoads, drawn_roads
from roadseg.roads.formats.any_roads import place_sides
from roadseg.roads.formats.tables import edge_table
from roadseg.roads.metrics.breaks import Breaks
from roadseg.roads.metrics.buffer import BufferMatch
from roadseg.roads.metrics.compare import Measures, compare
from roadseg.roads.metrics.pixels import Counts
from roadseg.roads.metrics.topo import Topo
from roadseg.roads.options import CompareOptions, DiffOptions
from roadseg.system.text import Summary

if TYPE_CHECKING:
    import geopandas as gpd


@dataclass(frozen=True)
class AplsScores:
    """APLS by length and by travel time, from 0 to 1."""

    length: float
    time: float


@dataclass(frozen=True)
class Scores(Summary):
    """Scores of the agreement between two road networks.

    Attributes:
        apls: by length and by travel time.
        measures: all measures of the roads, as values of `roadseg.roads.metrics`.
        pixels: precision, recall, F1 and IoU of the pixels if both sides are masks or probabilities
            of the same pixels, otherwise None.
    """

    apls: AplsScores
    measures: Measures = field(repr=False)
    pixels: Counts | None = field(default=None, repr=False)

    @property
    def topo(self) -> Topo | None:
        """Precision, recall and F1 of TOPO; None above 500 km of roads."""
        return self.measures.topo

    @property
    def buffer(self) -> BufferMatch:
        """Correctness, completeness and quality within the tolerance."""
        return self.measures.buffer

    @property
    def breaks(self) -> Breaks:
        """How often roads of the reference are interrupted, in all and per km."""
        return self.measures.breaks

    @property
    def table(self) -> dict[str, float | None]:
        """The figures by name."""
        pixels: dict[str, float | None] = {}
        if self.pixels:
            pixels = {"pixel_iou": self.pixels.iou, "pixel_f1": self.pixels.f1}
        return self.measures.figures | pixels

    def __str__(self) -> str:
        """Return the figures, one per line."""
        figures = {name: "-" if it is None else f"{it:.3f}" for name, it in self.table.items()}
        return "\n".join(f"{name:<20}{figure}" for name, figure in figures.items())


@dataclass(frozen=True)
class Differences:
    """Roads of one network that are missing in the other, in metres.

    Attributes:
        missing_in_reference: predicted roads that are missing in the reference.
        missing_in_predicted: roads of the reference that are missing in the prediction.
    """

    missing_in_reference: "gpd.GeoDataFrame"
    missing_in_predicted: "gpd.GeoDataFrame"

    def __repr__(self) -> str:
        """Return the length of the missing roads of each side."""
        km = {name: table.length.sum() / 1000 for name, table in vars(self).items()}
        return f"<Differences: {', '.join(f'{name} {each:.2f} km' for name, each in km.items())}>"


@takes(CompareOptions)
def score(
    reference: AnyRoads,
    predicted: AnyRoads,
    **options: Any,  # noqa: ANN401 - below
) -> Scores:
    """Compare a predicted network with a reference: APLS, TOPO, correctness, breaks.

    Args:
        reference: the known roads: anything that `read_graph` reads, including masks.
        predicted: likewise.
        options: `spacing_m`, `snap_m`, `tolerance_m`.

    Raises:
        DataError: if a file cannot be read, or the two sides are different places.
        ConfigError: if there is no such option.
    """
    from roadseg.commands.roads.score import compare_pixels

    comparing = options_of(CompareOptions, options)
    ours, theirs = drawn_roads(reference), drawn_roads(predicted)
    here, there = place_sides(str(theirs.source), ours, theirs)
    measures = compare(here, there, comparing)
    pixels = compare_pixels(str(theirs.source), ours, theirs)
    return Scores(AplsScores(measures.length.score, measures.time.score), measures, pixels)


@takes(DiffOptions)
def diff(
    predicted: AnyRoads,
    reference: AnyRoads,
    **options: Any,  # noqa: ANN401 - of one section
) -> Differences:
    """Find the roads that are missing in each of two networks.

    Args:
        predicted: a graph, or anything that `read_graph` reads.
        reference: likewise.
        options: `tolerance_m`, the distance up to which roads count as the same; `min_length_m`:
            shorter pieces are left out.
    """
    from roadseg.commands.roads.diff import IN_PREDICTED, IN_REFERENCE, find_missing

    limits = options_of(DiffOptions, options)
    _, missing = find_missing(drawn_roads(predicted), drawn_roads(reference), limits)
    return Differences(edge_table(missing[IN_REFERENCE]), edge_table(missing[IN_PREDICTED]))
