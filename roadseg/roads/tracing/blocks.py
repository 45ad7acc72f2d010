"""Blocks: trace the skeleton of a scene block by block, and join the blocks at their seams."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import shapely

from roadseg.arrays import Bools, Bytes, Floats, Ints, Lines
from roadseg.raster.grid import Grid
from roadseg.raster.windows import Window
from roadseg.roads.graph.cleaning import between_junctions, contract_edges, merge_chains
from roadseg.roads.graph.road_graph import DECIMALS, RoadGraph, in_parts, lines_from, take_edges
from roadseg.roads.tracing.coarse_mask import CoarseMask, join_coarse_blocks, pack_block
from roadseg.roads.tracing.mask_cleaning import Sides, clean_mask
from roadseg.roads.tracing.skeletons import (
    SkeletonPaths,
    neighbours,
    on_sides,
    skeletonise,
    smooth_paths,
    trace_paths,
)

HALO_PX = 64  # Pixels around a block; thinning depends on pixels up to about a road's width away.
_MIN_BLOB_M2 = 30.0  # Smaller patches of road are removed.
_MIN_HOLE_M2 = 30.0  # Smaller holes in roads are filled.
_SMOOTH_PX = 3  # Neighbours on either side of a point in the moving average along a path.
_FINE_PX = 0.2  # Tolerance, in pixels, of the first simplification, which saves memory.
_STEP_PX = 1.5  # Largest distance of neighbouring pixels, diagonal ones included.
_LINES_AT_ONCE = 2_000  # Lines that are smoothed together, which limits memory.
_RAW = "raw"  # Attribute of edges: whether they touch a seam, and are still to be smoothed.


@dataclass(frozen=True)
class BlockPaths:
    """The paths of a skeleton in one block of a scene.

    Attributes:
        nodes: shape (n, 2), position of each node in pixels of the scene (row, col).
        is_seam: shape (n,), whether the node is a pixel at the border of another block.
        ends: shape (m, 2), the rows of `nodes` at which each path starts and ends.
        points: shape (k, 2), x and y in metres along all paths, one path after the other; pixel by
            pixel where the path touches a seam, else smoothed. (LineStrings need twice the memory.)
        sizes: shape (m,), number of points of each path.
    """

    nodes: Floats
    is_seam: Bools
    ends: Ints
    points: Floats
    sizes: Ints
    block: Window


def with_halo(block: Window, *, height: int, width: int) -> Window:
    """Return a block with `HALO_PX` pixels around it, as far as they lie in the scene."""
    row, col = max(block.row - HALO_PX, 0), max(block.col - HALO_PX, 0)
    stop_row = min(block.row + block.height + HALO_PX, height)
    stop_col = min(block.col + block.width + HALO_PX, width)
    return Window(row, col, stop_row - row, stop_col - col)


def trace_block(is_road: Bools, block: Window, grid: Grid) -> tuple[BlockPaths, Bytes]:
    """Thin the roads of one block of a scene and trace their paths.

    Args:
        is_road: roads on the block `with_halo`, shape (row, col).

    Returns:
        The paths, and the part of the coarse mask (`coarse_mask.pack_block`).
    """
    around = with_halo(block, height=grid.height, width=grid.width)
    pixel_m2 = math.prod(grid.pixel_size_m)
    # The halo is cleaned too, so that the result does not depend on the seams.
    cleaned = clean_mask(
        is_road,
        min_blob_px=int(np.ceil(_MIN_BLOB_M2 / pixel_m2)),
        min_hole_px=int(np.ceil(_MIN_HOLE_M2 / pixel_m2)),
        goes_on=_inner_sides(around, grid),
    )
    inside = block.within(around).slices
    thin = skeletonise(cleaned)[inside]
    sides = _inner_sides(block, grid)
    paths = trace_paths(thin, goes_on=sides)
    # Nodes at a side are pixels; others are means of pixels further inside.
    is_seam = on_sides(paths.nodes - 0.5, thin.shape, sides)
    # A path that touches a seam is part of a longer one, and is smoothed after it is joined.
    raw = is_seam[paths.ends].any(axis=1)
    smooth = smooth_paths(paths, reach_px=_SMOOTH_PX)
    lines = np.where(raw, _lines(paths), _straighten(_lines(smooth), _FINE_PX))
    offset = np.array([block.row, block.col], dtype=np.float64)
    points = grid.to_metric(shapely.get_coordinates(lines) + offset).round(DECIMALS)
    sizes = shapely.get_num_coordinates(lines).astype(np.int64)
    block_paths = BlockPaths(paths.nodes + offset, is_seam, paths.ends, points, sizes, block)
    return block_paths, pack_block(cleaned[inside], block, grid)


def join_blocks(
    parts: Iterable[tuple[BlockPaths, Bytes]], grid: Grid
) -> tuple[RoadGraph, CoarseMask]:
    """Join the blocks of a scene to its graph, in the metric CRS of the grid, and its coarse mask.

    Pixels that touch across a seam are joined by the same rule as within a block, so that the
    graph does not depend on where the seams lie.
    """
    paths: list[BlockPaths] = []

    def coarse_blocks() -> Iterator[tuple[Window, Bytes]]:
        for part, coarse in parts:
            paths.append(part)
            yield part.block, coarse

    mask = join_coarse_blocks(coarse_blocks(), grid)
    # The paths of a city are large: each block is freed as soon as it is in the graph.
    nodes, is_seam, block, ends, lines = _stack(paths.pop(0) for _ in range(len(paths)))
    steps = _seam_pairs(nodes, is_seam, block)
    ends = np.concatenate([ends, steps])
    nodes = grid.to_metric(nodes).round(DECIMALS)
    lines = np.concatenate([lines, lines_from(nodes[steps].reshape(-1, 2), np.full(len(steps), 2))])
    is_raw = np.asarray(is_seam[ends].any(axis=1))
    graph = RoadGraph(grid.metric_crs, nodes, ends, lines, {_RAW: is_raw})
    # A junction that a seam cuts has nodes on both sides, joined by short edges, which go.
    is_short = graph.length_m <= _STEP_PX * max(grid.pixel_size_m)
    whole = contract_edges(graph, is_short & between_junctions(graph) & is_raw)
    return _smooth_seams(whole, grid), mask


def _stack(parts: Iterable[BlockPaths]) -> tuple[Floats, Bools, Ints, Ints, Lines]:
    """Concatenate all blocks: of nodes the place, `is_seam` and the block; ends and lines."""
    columns: list[tuple[Any, ...]] = []
    before = 0
    for number, part in enumerate(parts):
        block = np.full(len(part.nodes), number)
        lines = lines_from(part.points, part.sizes)
        columns.append((part.nodes, part.is_seam, block, part.ends + before, lines))
        before += len(part.nodes)
    nodes, is_seam, blocks, ends, lines = map(np.concatenate, zip(*columns, strict=True))
    return nodes, is_seam, blocks, ends, lines


def _inner_sides(window: Window, grid: Grid) -> Sides:
    return Sides(
        top=window.row > 0,
        right=window.col + window.width < grid.width,
        bottom=window.row + window.height < grid.height,
        left=window.col > 0,
    )


def _lines(paths: SkeletonPaths) -> Lines:
    return lines_from(paths.points, np.diff(paths.offsets))


def _straighten(lines: Lines, tolerance: float) -> Lines:
    """Simplify lines, except for loops, which could collapse."""
    simple = shapely.simplify(lines, tolerance, preserve_topology=False)
    return np.where(shapely.is_closed(lines), lines, simple)


def _seam_pairs(nodes: Floats, is_seam: Bools, block: Ints) -> Ints:
    """Pair the nodes of pixels that touch across a seam, as `trace_paths` pairs those within."""
    seam = np.flatnonzero(is_seam)
    if len(seam) == 0:
        return np.empty((0, 2), dtype=np.int64)
    pixel = np.floor(nodes[seam]).astype(np.int64)
    # Pixels are numbered row by row, with a gap so that no step wraps into the next row.
    down = int(pixel[:, 1].max()) + 3
    place = pixel[:, 0] * down + pixel[:, 1]
    order = np.argsort(place)
    seam, place = seam[order], place[order]

    def is_on(step: int) -> Bools:
        nearest = np.minimum(np.searchsorted(place, place + step), len(place) - 1)
        return np.asarray(place[nearest] == place + step)

    pairs = neighbours(place, down, is_on)
    return np.asarray(seam[pairs[block[seam[pairs[:, 0]]] != block[seam[pairs[:, 1]]]]])


def _smooth_seams(graph: RoadGraph, grid: Grid) -> RoadGraph:
    """Merge the chains at seams, and smooth the lines that are still raw."""
    graph = merge_chains(graph)
    raw = np.flatnonzero(graph.attributes[_RAW])
    lines, tolerance_m = graph.lines.copy(), _FINE_PX * min(grid.pixel_size_m)
    for some in in_parts(raw, _LINES_AT_ONCE):
        sizes = shapely.get_num_coordinates(lines[some]).astype(np.int64)
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        points = shapely.get_coordinates(lines[some])
        paths = SkeletonPaths(graph.nodes, graph.ends[some], points, offsets)
        points = smooth_paths(paths, reach_px=_SMOOTH_PX).points.round(DECIMALS)
        lines[some] = _straighten(lines_from(points, sizes), tolerance_m)
    smoothed = RoadGraph(graph.crs, graph.nodes, graph.ends, lines)
    return take_edges(smoothed, np.arange(len(lines)))
