"""Extraction: from the pixels of roads to a road graph with speeds, block by block."""

from collections.abc import Callable, Iterable, Iterator, Sequence
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
from roadseg.roads.tracing.blocks import (
    BlockPaths,
    TracedBlock,
    join_blocks,
    trace_block,
    widened,
)
from roadseg.roads.tracing.coarse_mask import join_sketches
from roadseg.roads.tracing.edge_statistics import (
    Evidence,
    StationGroups,
    Stations,
    evidence_at,
    gather,
    margin_px,
)
from roadseg.roads.tracing.postprocessing import tidied

_MOST_BLOCK_PX = 1536  # of which all bands are read at once

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
        """Give the same for many reads; other processes open it themselves."""

    def read_road(self, window: Window) -> Bytes:
        """Return the probability of any road, shape (row, col), 255 for certain."""

    def read_all(self, window: Window) -> tuple[Bytes, Bytes | None]:
        """Return that, and the probability of each speed bin, shape (bin, row, col), if known."""


class Run(Protocol):
    """Do work for every item and give the results in the order of the items, as `map` does."""

    def __call__(
        self, work: Callable[[Item], Result], items: Sequence[Item], /
    ) -> Iterable[Result]:
        """Do it."""


def find_graph(pixels: Pixels, how: TraceOptions, *, run: Run = map) -> RoadGraph:
    """Find the road graph of a scene, in the scene's metric CRS.

    The scene is read in blocks, once to thin its roads and once for what lies along its edges;
    memory grows with the block and with the graph, not with the scene. Edges have the attributes
    `inferred` (1 for a link across a gap) and its `confidence`, `probability` and
    `min_probability` along them, `width_m`, `speed_kph`, `speed_known` (0 for the default speed),
    `highway`, the class of road that has such a speed, and `travel_time_s`.

    Args:
        pixels: the scene; pickled where blocks are the work of other processes.
        how: settings.
        run: does the work for all blocks; `map` does it here.
    """
    grid = pixels.grid
    blocks = cut_blocks(grid.height, grid.width, block_px=how.block_px)
    with pixels.opened() as source:
        parts = run(partial(find_paths, source, how), blocks)
        return measured(tidy(parts, source, how), source, how, run=run)


def find_paths(pixels: Pixels, how: TraceOptions, block: Window) -> TracedBlock:
    """Trace the roads in one block of a scene."""
    grid = pixels.grid
    around = widened(block, height=grid.height, width=grid.width)
    is_road = pixels.read_road(around) >= how.level
    return trace_block(
        is_road,
        block,
        grid,
        close_m=how.close_m,
        min_blob_m2=how.min_blob_m2,
        min_hole_m2=how.min_hole_m2,
    )


def tidy(parts: Iterable[TracedBlock], pixels: Pixels, how: TraceOptions) -> RoadGraph:
    """Join the blocks of a scene to its network, see `postprocessing.tidied`."""
    paths: list[BlockPaths] = []

    def sketches() -> Iterator[tuple[Window, Bytes]]:
        for part in parts:
            paths.append(part.paths)
            yield part.paths.block, part.sketch

    sketch = join_sketches(sketches(), pixels.grid)
    in_turn = (paths.pop(0) for _ in range(len(paths)))  # in a city they are large
    graph = join_blocks(in_turn, pixels.grid)
    return tidied(graph, how, sketch=sketch, grid=pixels.grid, read_road=pixels.read_road)


def measured(graph: RoadGraph, pixels: Pixels, how: TraceOptions, *, run: Run = map) -> RoadGraph:
    """Return the graph with what the pixels along its edges say, see `find_graph`."""
    groups = StationGroups(graph, pixels.grid, block_px=min(how.block_px, _MOST_BLOCK_PX))
    parts = list(run(partial(read_group, pixels, how), groups))
    bins = pixels.speed_bins
    found = gather(parts, len(graph.lines), bins.count if bins else 0)
    speed_kph = _speeds(found, bins)
    is_known = ~np.isnan(speed_kph)
    columns: dict[str, Array] = {
        "probability": found.probability,
        "min_probability": found.min_probability,
        "width_m": found.median_widths(),
        "speed_known": is_known.astype(np.uint8),
        "highway": np.where(is_known, highway_of(speed_kph), "road").astype(object),
    }
    graph = replace(graph, attributes={**graph.attributes, **columns})
    return add_travel(graph, np.where(is_known, speed_kph, how.default_speed_mph * KPH_PER_MPH))


def read_group(pixels: Pixels, how: TraceOptions, at: Stations) -> Evidence:
    """Look up stations that lie in one block of a scene."""
    grid, margin = pixels.grid, margin_px(pixels.grid)
    top, left = np.maximum(np.floor(at.places.min(axis=0)).astype(int) - margin, 0).tolist()
    last_row, last_col = np.ceil(at.places.max(axis=0)).astype(int).tolist()
    height = min(last_row + margin, grid.height) - top
    width = min(last_col + margin, grid.width) - left
    road, bins = pixels.read_all(Window(top, left, height, width))
    return evidence_at(at, road, bins, origin=(top, left), level=how.level)


def _speeds(found: Evidence, bins: SpeedBins | None) -> Floats:
    """Return the speed of each edge in km/h, NaN where the bins show none."""
    if bins is None:
        return np.full(len(found.edge), np.nan)
    kph = np.array(bins.speeds_mph) * KPH_PER_MPH
    return vote_speeds(found.bin_probability, kph, default_kph=np.nan)
