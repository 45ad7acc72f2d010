"""convert: roads from any file into any format of graphs. Reads one file, writes one."""

from dataclasses import dataclass
from pathlib import Path

from roadseg.roads.formats.any_roads import (
    DEFAULT_SPEED_MPH,
    common_crs,
    find_placement,
    place_roads,
    read_drawn,
)
from roadseg.roads.formats.by_suffix import format_of, write_graph
from roadseg.roads.formats.pairing import only_source
from roadseg.roads.graph.crossings import join_crossings
from roadseg.roads.labels.traffic import assumed_speeds
from roadseg.roads.speeds import KPH_PER_MPH
from roadseg.system.files import refuse_to_overwrite
from roadseg.system.progress import Progress
from roadseg.system.text import Summary, count
from roadseg.system.units import road_text, speed_unit, to_speed_unit

_LEAST_SHARE = 0.0005  # Of the length; less is nothing to speak of.


@dataclass(frozen=True)
class ConvertSummary(Summary):
    """A converted network in figures.

    Attributes:
        attributes: names of the attributes of edges in the graph.
        assumed_share: share of the length without a stated speed, for which that of the class of
            road, or else the default, is assumed.
    """

    source: str
    output: str
    road_km: float
    nodes: int
    edges: int
    attributes: list[str]
    assumed_share: float

    def __str__(self) -> str:
        """Return the figures in a sentence."""
        roads = f"{road_text(self.road_km)} of roads"
        parts = [f"{roads}: {count(self.nodes, 'node')}, {count(self.edges, 'edge')}", self.output]
        if self.assumed_share >= _LEAST_SHARE:
            usual = f"{to_speed_unit(DEFAULT_SPEED_MPH * KPH_PER_MPH):.0f} {speed_unit()}"
            parts.append(
                f"speeds are assumed on {self.assumed_share:.1%} of the length, where none is "
                f"stated: the usual one of the road class, or {usual}"
            )
        return "; ".join(parts)


def run(
    source: Path,
    target: Path,
    *,
    image: Path | None = None,
    gsd_m: float | None = None,
    node: bool = False,
) -> ConvertSummary:
    """Read roads, and write them as a graph.

    Lines are joined where they share vertices, in UTM. Lengths are measured, and speeds and travel
    times completed, as by `score` and `route`. All attributes that the target format can store are
    kept.

    Args:
        source: file of roads of one place, in any format of `score`.
        target: file or folder to write, in the format of its suffix; an earlier one is replaced.
        gsd_m: pixel size in metres, for a CSV without image or a raster without georeference.
        node: whether roads are also joined where they cross or touch without a common vertex, see
            `find_unjoined`.

    Raises:
        DataError: the source cannot be read, or has no georeference although the target needs it.
        ConfigError: no format has the suffix of the target, its package is missing, or it is the
            source itself.
        OutputError: the target cannot be written.
    """
    format_of(target)  # A suffix without a format is refused before anything is read.
    refuse_to_overwrite(target, source)
    with Progress("convert", total=3, unit="steps") as progress:
        roads = read_drawn(only_source(source), find_placement(image, gsd_m), every_column=True)
        progress.add()
        graph = place_roads(roads, common_crs(roads)).graph
        if node:
            graph = join_crossings(graph)
        progress.add()
        write_graph(target, graph, source=source)
    is_assumed = assumed_speeds(graph.attributes, len(graph.lines))
    return ConvertSummary(
        source=str(source),
        output=str(target),
        road_km=round(float(graph.length_m.sum()) / 1000, 3),
        nodes=len(graph.nodes),
        edges=len(graph.lines),
        attributes=sorted(graph.attributes),
        assumed_share=round(graph.share_of_length(is_assumed), 6),
    )
