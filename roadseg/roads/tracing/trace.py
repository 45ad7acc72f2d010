"""Trace: from the pixels of roads to a road graph with speeds, block by block."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Protocol, TypeVar

import numpy as np

from roadseg.arrays import Array, Bytes, Floats
from roadseg.raster.grid import Grid
from roadseg.raster.windows import Window, cut_blocks
from roadseg.roads.graph.road_graph import RoadGraph
from roadseg.roads.graph.travel import add_travel, vote_speeds
from roadseg.roads.labels.highways import highway_of
from roadseg.roads.options import TraceOptions
from roadseg.roads.speeds import KPH_PER_MPH, SpeedBins
from roadseg.roads.tracing.blocks import TracedBlock, join_blocks, trace_block, widened
from roadseg.roads.tracing.edge_statistics import (
    EdgeStatistics,
    SamplePointGroups,
    SamplePoints,
    add_up,
    margin_px,
    sample_edges,
)
from roadseg.roads.tracing.postprocessing import postprocess

_MOST_BLOCK_PX = 1536  # Pixels; side of the largest block of which all bands are read at once.

Item = TypeVar("Item")
Result = TypeVar("Result")


class Pixels(Protocol):
    """The probabilities of a scene, read by window: an array, or a file of any size."""

    @property
    def grid(self) -> Grid:
        """Where the pixels lie."""

    @property
    def speed_bins(self) -> SpeedBins | None:
        """Which speeds the bins stand for; None if there are no bins."""

    def opened(self) -> AbstractContextManager["Pixels"]:
        """Return the same, open for many reads; other processes open it themselves."""

    def read_road(self, window: Window) -> Bytes:
        """Return the probability of any road, shape (row, col), 255 for certain."""

    def read_all(self, window: Window) -> tuple[Bytes, Bytes | None]:
        """Return that, and the probability of each speed bin, shape (bin, row, col), if known."""


class Run(Protocol):
    """Do work for every item and return the results in the order of the items, as `map` does."""

    def __call__(
        self, work: Callable[[Item], Result], items: Sequence[Item], /
    ) -> Iterable[Result]:
        """Do the work for every item."""


def find_graph(pixels: Pixels, options: TraceOptions, *, run: Run = map) -> RoadGraph:
    """Find the road graph of a scene, in the scene's metric CRS.

    The scene is read in blocks, once to thin its roads and once for what lies along its edges;
    memory grows with the block and with the graph, not with the scene. Edges have the attributes
    `inferred` (1 for a link across a gap) and its `confidence`, `probability` and
    `min_probability` along them, `width_m`, `speed_kph`, `speed_known` (0 for the default speed),
    `highway`, the class of road that has such a speed, and `travel_time_s`.

    Args:
        pixels: the scene; pickled where blocks are the work of other processes.
        options: how roads are traced, linked and measured.
        run: does the work for all blocks; `map` does it here.
    """
    grid = pixels.grid
    blocks = cut_blocks(grid.height, grid.width, block_px=options.block_px)
    with pixels.opened() as source:
        traced, mask = join_blocks(run(partial(find_paths, source, options), blocks), grid)
        graph = postprocess(traced, options, mask=mask, grid=grid, read_road=source.read_road)
        return measure_edges(graph, source, options, run=run)


def find_paths(pixels: Pixels, options: TraceOptions, block: Window) -> TracedBlock:
    """Trace the roads in one block of a scene."""
    grid = pixels.grid
    around = widened(block, height=grid.height, width=grid.width)
    is_road = pixels.read_road(around) >= options.level
    return trace_block(
        is_road,
        block,
        grid,
        close_m=options.close_m,
        min_blob_m2=options.min_blob_m2,
        min_hole_m2=options.min_hole_m2,
    )


def measure_edges(
    graph: RoadGraph, pixels: Pixels, options: TraceOptions, *, run: Run = map
) -> RoadGraph:
    """Return the graph with what the pixels along its edges say, see `find_graph`."""
    block_px = min(options.block_px, _MOST_BLOCK_PX)
    groups = SamplePointGroups(graph, pixels.grid, block_px=block_px)
    parts = list(run(partial(read_group, pixels, options.level), groups))
    bins = pixels.speed_bins
    statistics = add_up(parts, len(graph.lines), bins.count if bins else 0)
    speed_kph = _speeds(statistics, bins)
    is_known = ~np.isnan(speed_kph)
    columns: dict[str, Array] = {
        "probability": statistics.probability,
        "min_probability": statistics.min_probability,
        "width_m": statistics.median_widths(),
        "speed_known": is_known.astype(np.uint8),
        "highway": np.where(is_known, highway_of(speed_kph), "road").astype(object),
    }
    graph = replace(graph, attributes={**graph.attributes, **columns})
    default_kph = options.default_speed_mph * KPH_PER_MPH
    return add_travel(graph, np.where(is_known, speed_kph, default_kph))


def read_group(pixels: Pixels, level: int, samples: SamplePoints) -> EdgeStatistics:
    """Read the pixels around sample points that lie in one block of a scene, and sum them up.

    Args:
        pixels: the scene.
        level: the lowest byte of probability that is road.
        samples: at least one.
    """
    grid, margin = pixels.grid, margin_px(pixels.grid)
    top, left = np.maximum(np.floor(samples.places.min(axis=0)).astype(int) - margin, 0).tolist()
    last_row, last_col = np.ceil(samples.places.max(axis=0)).astype(int).tolist()
    height = min(last_row + margin, grid.height) - top
    width = min(last_col + margin, grid.width) - left
    road, bins = pixels.read_all(Window(top, left, height, width))
    return sample_edges(samples, road, bins, origin=(top, left), level=level)


def _speeds(statistics: EdgeStatistics, bins: SpeedBins | None) -> Floats:
    """Return the speed of each edge in km/h, NaN where the bins show none."""
    if bins is None:
        return np.full(len(statistics.edge), np.nan)
    kph = np.array(bins.speeds_mph) * KPH_PER_MPH
    return vote_speeds(statistics.bin_probability, kph, default_kph=np.nan)
