"""Trace: from the pixels of roads to a road graph with speeds, block by block."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, TypeVar

import numpy as np
import shapely
from scipy.spatial import cKDTree

from roadseg.arrays import Array, Bytes
from roadseg.raster.extents import Extent, border_of
from roadseg.raster.grid import Grid
from roadseg.raster.windows import Window, cut_blocks
from roadseg.roads.graph.cleaning import (
    drop_components,
    merge_chains,
    merge_near_junctions,
    prune_spurs,
    simplify_lines,
)
from roadseg.roads.graph.road_graph import RoadGraph
from roadseg.roads.graph.travel import add_travel, vote_speeds
from roadseg.roads.labels.highways import highway_of
from roadseg.roads.logistic import EdgeModel, LogisticModel
from roadseg.roads.options import TraceOptions
from roadseg.roads.speeds import KPH_PER_MPH, SpeedBins
from roadseg.roads.tracing.blocks import BlockPaths, join_blocks, trace_block, with_halo
from roadseg.roads.tracing.coarse_mask import CoarseMask
from roadseg.roads.tracing.dead_ends import BORDER_M
from roadseg.roads.tracing.edge_confidence import (
    general_edge_model,
    keep_likely,
    with_confidence,
)
from roadseg.roads.tracing.edge_statistics import (
    EdgeStatistics,
    SamplePointGroups,
    SamplePoints,
    add_up,
    margin_px,
    sample_edges,
)
from roadseg.roads.tracing.end_repair import draw_out_ends, straighten_ends
from roadseg.roads.tracing.junctions import place_junctions
from roadseg.roads.tracing.link_paths import ReadRoad
from roadseg.roads.tracing.linking import CONFIDENCE, INFERRED, general_link_model, link_gaps

BLOCK_PX = 4096  # Side of the blocks in which roads are thinned.
_ALL_BANDS_PX = 1536  # Side of the blocks of which all bands are read at once.
_PART_M = 20.0  # Connected parts with less road go ...
_LONE_PART_M = 50.0  # ... and so do, in probabilities, those that do not reach the border.
_SIMPLIFY_M = 0.5  # Metres by which simplifying a line may move it.
MERGE_NODES_M = 4.0  # Metres; junctions that a shorter edge joins are one.
_FORK_M = 30.0  # Metres from the middle of a wide end within which its skeleton forks into corners.

Item = TypeVar("Item")
Result = TypeVar("Result")


class PixelSource(Protocol):
    """The probabilities of a scene, read by window: an array, or a file of any size."""

    @property
    def grid(self) -> Grid:
        """Grid of the pixels."""

    @property
    def extent(self) -> Extent | None:
        """The pixels in the area to work in; None for all of them."""

    @property
    def is_mask(self) -> bool:
        """Whether the pixels are those of a mask, which says nothing of what it does not show."""

    @property
    def speed_bins(self) -> SpeedBins | None:
        """Speeds that the bins stand for; None if there are no bins."""

    @property
    def threshold(self) -> float | None:
        """Threshold of the network, 0 to 1; None if not known."""

    @property
    def edge_model(self) -> EdgeModel | None:
        """Model of how probable the edges of the network are; None if not known."""

    def touches(self, window: Window) -> bool:
        """Return whether any pixel of a window may be road."""

    def opened(self) -> AbstractContextManager["PixelSource"]:
        """Open the source for many reads; a copy in another process is opened there."""

    def read_road(self, window: Window) -> Bytes:
        """Return the probability of any road, shape (row, col), 255 for certain."""

    def read_all(self, window: Window) -> tuple[Bytes, Bytes | None]:
        """Return `read_road`, and the probability of each speed bin, (bin, row, col), if known."""


class MapBlocks(Protocol):
    """`map`, or a parallel form of it that returns the results in the order of the items."""

    def __call__(
        self, work: Callable[[Item], Result], items: Sequence[Item], /
    ) -> Iterable[Result]:
        """Do the work for every item."""


def find_graph(
    pixels: PixelSource, options: TraceOptions, *, map_blocks: MapBlocks = map
) -> RoadGraph:
    """Find the road graph of a scene: `trace_and_measure`, then `rate_edges`."""
    return rate_edges(trace_and_measure(pixels, options, map_blocks=map_blocks), pixels, options)


def trace_and_measure(
    pixels: PixelSource, options: TraceOptions, *, map_blocks: MapBlocks = map
) -> RoadGraph:
    """Trace all roads of a scene, however sure they are, and measure them, in its metric CRS.

    The scene is read in blocks, once to thin its roads and once for what lies along its edges;
    memory grows with the block and with the graph, not with the scene. Edges have the attributes
    `inferred` (1 for a link across a gap), `confidence` (of links by the model of links, NaN for
    other edges; `rate_edges` replaces it for all), `probability` and `min_probability` along them,
    `width_m`, `speed_kph`, `speed_known` (0 for an assumed speed), `highway`, the class of road
    that has such a speed, and `travel_time_s`.

    Args:
        pixels: the scene; it is pickled if `map_blocks` uses other processes.
        options: how roads are traced, linked and measured.
        map_blocks: applies a function to all blocks; `map` does so in this process.
    """
    with pixels.opened() as source:
        graph = trace_graph(source, options, map_blocks=map_blocks)
        return measure_edges(graph, source, options, map_blocks=map_blocks)


def trace_graph(
    pixels: PixelSource,
    options: TraceOptions,
    *,
    window: Window | None = None,
    map_blocks: MapBlocks = map,
) -> RoadGraph:
    """Trace the roads of an open scene, without the attributes that `measure_edges` adds.

    Args:
        window: the part of the scene that is traced; None for all of it.
    """
    grid = pixels.grid
    blocks = [window] if window else cut_blocks(grid.height, grid.width, block_px=BLOCK_PX)
    blocks = [block for block in blocks if pixels.touches(block)] or blocks[:1]
    traced, mask = join_blocks(map_blocks(partial(find_paths, pixels, options), blocks), grid)
    return postprocess(traced, pixels, options, mask=mask)


def traced_level(pixels: PixelSource, options: TraceOptions) -> int:
    """Return the threshold of tracing as a byte: pixels of at least this value are road.

    If no threshold is given, it is that of the network, or the least one of its model of edges if
    that is higher.
    """
    own, model = options.threshold_for(pixels.threshold), pixels.edge_model
    if options.threshold != "auto" or model is None or model.least_threshold is None:
        return options.level_for(own)
    return options.level_for(max(own, model.least_threshold))


def find_paths(
    pixels: PixelSource, options: TraceOptions, block: Window
) -> tuple[BlockPaths, Bytes]:
    """Trace the roads in one block of a scene."""
    grid = pixels.grid
    window = with_halo(block, height=grid.height, width=grid.width)
    is_road = pixels.read_road(window) >= traced_level(pixels, options)
    return trace_block(is_road, block, grid)


def postprocess(
    graph: RoadGraph,
    pixels: PixelSource,
    options: TraceOptions,
    *,
    mask: CoarseMask,
) -> RoadGraph:
    """Prune traced roads, link them across gaps and simplify them.

    The edges have the attributes `inferred` and `confidence`.

    Args:
        graph: roads as traced, in the metric CRS of the scene, without attributes.
        options: how they are pruned, linked and simplified.
    """
    model = None if pixels.is_mask else general_link_model()
    scene = _Scene(pixels, border_of(pixels.grid, pixels.extent), options, mask, model)
    graph = scene.prune_and_link(merge_chains(graph))
    least_m = _PART_M if options.min_component_m == "auto" else options.min_component_m
    graph = drop_components(graph, min_component_m=least_m)
    if options.min_component_m == "auto" and not pixels.is_mask:
        graph = drop_components(
            graph, min_component_m=_LONE_PART_M, border=scene.border, border_m=BORDER_M
        )
    return simplify_lines(graph, tolerance_m=_SIMPLIFY_M)


@dataclass(frozen=True)
class _Scene:
    """The scene and the options that all steps of `postprocess` share."""

    pixels: PixelSource
    border: shapely.Geometry
    options: TraceOptions
    mask: CoarseMask
    link_model: LogisticModel | None

    def prune_and_link(self, graph: RoadGraph) -> RoadGraph:
        """Prune roads, repair the ends at which links start, place junctions, and link.

        Thinning ends a road half its width early and bends it into a corner, so links need repaired
        ends: straight, and extended to the end of the road.
        """
        graph = self._reach_outline(graph)
        graph = straighten_ends(graph, mask=self.mask, border=self.border, at_border=True)
        final = self.border
        if self._max_gap_m > 0:
            final = self._border_and_final_ends(graph)
            graph = self._repair_ends(graph, final)
        graph = place_junctions(self._prune(graph), mask=self.mask)
        graph = merge_near_junctions(graph, within_m=MERGE_NODES_M)
        return self._link(graph, final, read_road=self.pixels.read_road)

    def _reach_outline(self, graph: RoadGraph) -> RoadGraph:
        """Extend roads that the outline of an area cuts straight to it.

        At the edge of the raster, `skeletonise` does so.
        """
        edge = self.pixels.grid.footprint_m.exterior
        if shapely.equals(self.border, edge):
            return graph
        ends = shapely.points(graph.nodes[graph.degree == 1])
        cut = shapely.dwithin(ends, self.border, BORDER_M) & ~shapely.dwithin(ends, edge, BORDER_M)
        others = shapely.GeometryCollection([edge, *ends[~cut]])
        return self._repair_ends(graph, others)

    @property
    def _max_gap_m(self) -> float:
        return self.options.gap_for(is_mask=self.pixels.is_mask)

    def _repair_ends(self, graph: RoadGraph, border: shapely.Geometry) -> RoadGraph:
        straight = straighten_ends(graph, mask=self.mask, border=border)
        return draw_out_ends(straight, mask=self.mask, border=border)

    def _prune(self, graph: RoadGraph) -> RoadGraph:
        return prune_spurs(
            graph,
            min_spur_m=self.options.min_spur_m,
            contains_discs=self.mask.contains_discs if self.options.min_spur_m else None,
            border=self.border,
            border_m=BORDER_M,
        )

    def _link(
        self, graph: RoadGraph, border: shapely.Geometry, *, read_road: ReadRoad | None = None
    ) -> RoadGraph:
        return link_gaps(
            graph,
            max_gap_m=self._max_gap_m,
            min_probability=self.options.min_confidence,
            grid=self.pixels.grid,
            read_road=read_road,
            model=self.link_model,
            border=border,
        )

    def _border_and_final_ends(self, graph: RoadGraph) -> shapely.Geometry:
        """Return the border and the dead ends that are not repaired, because no link is near them.

        Links that are straight, and need no pixels, show where links start once all ends are
        repaired. The dead ends of short lone pieces are left out, so that patches are removed
        everywhere.
        """
        linked = self._link(self._prune(self._repair_ends(graph, self.border)), self.border)
        tips = linked.nodes[np.unique(linked.ends[linked.attributes[INFERRED] == 1])]
        is_end = graph.degree == 1
        is_lone = is_end[graph.ends].all(axis=1) & (graph.length_m < self._max_gap_m)
        is_end[graph.ends[is_lone]] = False
        ends = graph.nodes[is_end]
        if len(tips):
            ends = ends[cKDTree(tips).query(ends, distance_upper_bound=_FORK_M)[0] > _FORK_M]
        return shapely.GeometryCollection([self.border, *shapely.points(ends)])


def measure_edges(
    graph: RoadGraph, pixels: PixelSource, options: TraceOptions, *, map_blocks: MapBlocks = map
) -> RoadGraph:
    """Add the attributes of `trace_and_measure` that are read from the pixels along edges."""
    groups = SamplePointGroups(graph, pixels.grid, block_px=_ALL_BANDS_PX)
    level = traced_level(pixels, options)
    parts = list(map_blocks(partial(read_group, pixels, level), groups))
    bins = pixels.speed_bins
    statistics = add_up(parts, len(graph.lines), bins.count if bins else 0)
    speed_kph = np.full(len(statistics.edge), np.nan)
    if bins is not None:
        kph = np.array(bins.speeds_mph) * KPH_PER_MPH
        speed_kph = vote_speeds(statistics.bin_probability, kph)
    is_known = ~np.isnan(speed_kph) & (bins is not None and bins.are_known)
    columns: dict[str, Array] = {
        "probability": statistics.probability,
        "min_probability": statistics.min_probability,
        "width_m": statistics.median_widths(),
        "speed_known": is_known.astype(np.uint8),
        "highway": np.where(is_known, highway_of(speed_kph), "road").astype(object),
    }
    graph = replace(graph, attributes={**graph.attributes, **columns})
    default_kph = options.default_speed_mph * KPH_PER_MPH
    return add_travel(graph, np.where(np.isnan(speed_kph), default_kph, speed_kph))


def rate_edges(graph: RoadGraph, pixels: PixelSource, options: TraceOptions) -> RoadGraph:
    """Add the `confidence` of edges, and drop edges that are not confident enough.

    The confidence is the probability that an edge is a road, by the model that was calibrated for
    the network, or else by `general_edge_model`. On a mask of 0 and 1, the confidence of roads is
    the mean of the mask along them, that of links comes from `link_gaps`, and all edges stay.

    A calibrated model also rejects links and dead ends below `min_confidence`: it was fitted to
    edges of this network, while the link model was fitted to drawn streets.

    Args:
        pixels: the scene that they were traced on.
        options: `min_confidence`.
    """
    if pixels.edge_model is None and pixels.is_mask:
        confidence = graph.attributes[CONFIDENCE]
        confidence = np.where(np.isnan(confidence), graph.attributes["probability"], confidence)
        return replace(graph, attributes={**graph.attributes, CONFIDENCE: confidence})
    model = pixels.edge_model or general_edge_model()
    border = border_of(pixels.grid, pixels.extent)
    graph = with_confidence(graph, model, border)
    if pixels.edge_model is not None:
        graph = keep_likely(graph, border, min_confidence=options.min_confidence)
    return graph


def read_group(pixels: PixelSource, level: int, samples: SamplePoints) -> EdgeStatistics:
    """Read the pixels around the sample points of one block, and sum them up for each edge.

    Args:
        level: lowest byte of probability that counts as road.
        samples: at least one.
    """
    grid = pixels.grid
    margin = margin_px(grid)
    top, left = np.maximum(np.floor(samples.places.min(axis=0)).astype(int) - margin, 0).tolist()
    last_row, last_col = np.ceil(samples.places.max(axis=0)).astype(int).tolist()
    height = min(last_row + margin, grid.height) - top
    width = min(last_col + margin, grid.width) - left
    road, bins = pixels.read_all(Window(top, left, height, width))
    return sample_edges(samples, road, bins, origin=(top, left), level=level)
