"""Blocks: the skeleton of a scene traced block by block, and the blocks joined at their seams."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import shapely

from roadseg.arrays import Bools, Bytes, Floats, Ints, Lines
from roadseg.raster.grid import Grid
from roadseg.raster.windows import Window
from roadseg.roads.graph.cleaning import (
    between_junctions,
    contract_edges,
    merge_chains,
)
from roadseg.roads.graph.road_graph import (
    DECIMALS,
    RoadGraph,
    in_parts,
    lines_from,
    take_edges,
)
from roadseg.roads.tracing.coarse_mask import CoarseMask, join_coarse_blocks, pack_block
from roadseg.roads.tracing.mask_cleaning import Sides, clean_mask, close_cracks
from roadseg.roads.tracing.skeletons import (
    SkeletonPaths,
    skeletonise,
    smooth_paths,
    trace_paths,
)

HALO_PX = 64  # Pixels around a block; thinning a road looks no further than about its width.
_SMOOTH_PX = 3  # Neighbours on either side over which the pixel staircase is evened out.
_FINE_PX = (
    0.2  # Pixels by which a line may move at once, so that straight roads lose vertices early.
)
_STEP_PX = 1.5  # Neighbouring pixels are no further from each other, in pixels.
_LINES_AT_ONCE = 2_000  # So many lines are smoothed together.
_RAW = "raw"  # Column that is true for edges that touch a seam; they are smoothed once whole.


@dataclass(frozen=True)
class BlockPaths:
    """The paths of a skeleton in one block of a scene.

    Attributes:
        nodes: shape (n, 2), position of each node in pixels of the scene (row, col).
        is_seam: shape (n,), whether the node is a pixel at the side of another block.
        ends: shape (m, 2), the rows of `nodes` at which each path starts and ends.
        points: shape (k, 2), x and y in metres along all paths, one path after the other: pixel by
            pixel where the path touches a seam, else smooth. As lines they take twice the room.
        sizes: shape (m,), number of points of each path.
        block: the block.
    """

    nodes: Floats
    is_seam: Bools
    ends: Ints
    points: Floats
    sizes: Ints
    block: Window


def widened(block: Window, *, height: int, width: int) -> Window:
    """Return a block with the pixels around it that thinning needs, within its scene."""
    row, col = max(block.row - HALO_PX, 0), max(block.col - HALO_PX, 0)
    stop_row = min(block.row + block.height + HALO_PX, height)
    stop_col = min(block.col + block.width + HALO_PX, width)
    return Window(row, col, stop_row - row, stop_col - col)


def trace_block(
    is_road: Bools,
    block: Window,
    grid: Grid,
    *,
    close_m: float,
    min_blob_m2: float,
    min_hole_m2: float,
) -> tuple[BlockPaths, Bytes]:
    """Thin the roads of one block of a scene and trace their paths.

    Args:
        is_road: roads on the block `widened`, shape (row, col).
        block: part of the scene.
        grid: of the scene.
        close_m: what parts roads by no more than this is closed.
        min_blob_m2: smaller patches of road are removed.
        min_hole_m2: smaller holes in roads are filled.

    Returns:
        The paths, and some of the pixels of the block, see `coarse_mask.pack_block`.
    """
    around = widened(block, height=grid.height, width=grid.width)
    across, down = grid.pixel_size_m
    pixel_m2 = across * down
    reach_px = round(close_m / 2 / down), round(close_m / 2 / across)
    # The mask is cleaned with the pixels around the block, so that seams leave no trace.
    cleaned = clean_mask(
        close_cracks(is_road, reach_px=reach_px),
        min_blob_px=int(np.ceil(min_blob_m2 / pixel_m2)),
        min_hole_px=int(np.ceil(min_hole_m2 / pixel_m2)),
        goes_on=_inner_sides(around, grid),
    )
    inside = block.within(around).slices
    thin = skeletonise(cleaned)[inside]
    sides = _inner_sides(block, grid)
    paths = trace_paths(thin, goes_on=sides)
    is_seam = _is_seam(paths.nodes, block, sides)
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
    # Paths of a city are large, so that each block is let go as soon as it is in the graph.
    in_turn = (paths.pop(0) for _ in range(len(paths)))
    return join_paths(in_turn, grid), mask


def join_paths(parts: Iterable[BlockPaths], grid: Grid) -> RoadGraph:
    """Join the paths of all blocks of a scene, see `join_blocks`."""
    nodes, is_seam, block, ends, lines = _stack(parts)
    steps = _seam_pairs(nodes, is_seam, block)
    ends = np.concatenate([ends, steps])
    nodes = grid.to_metric(nodes).round(DECIMALS)
    lines = np.concatenate([lines, lines_from(nodes[steps].reshape(-1, 2), np.full(len(steps), 2))])
    is_raw = np.asarray(is_seam[ends].any(axis=1))
    graph = RoadGraph(grid.metric_crs, nodes, ends, lines, {_RAW: is_raw})
    # A junction that a seam cuts has its pixels on both sides; they become one node again.
    whole = contract_edges(graph, _is_step(graph, grid))
    return _smooth_seams(whole, grid)


def _stack(parts: Iterable[BlockPaths]) -> tuple[Floats, Bools, Ints, Ints, Lines]:
    """Stack blocks: places of all nodes, whether at seams, and their block; ends and lines."""
    columns: list[tuple[Any, ...]] = []
    before = 0
    for number, part in enumerate(parts):
        block = np.full(len(part.nodes), number)
        lines = lines_from(part.points, part.sizes)
        columns.append((part.nodes, part.is_seam, block, part.ends + before, lines))
        before += len(part.nodes)
    nodes, is_seam, blocks, ends, made = map(np.concatenate, zip(*columns, strict=True))
    return nodes, is_seam, blocks, ends, made


def _inner_sides(window: Window, grid: Grid) -> Sides:
    return Sides(
        top=window.row > 0,
        right=window.col + window.width < grid.width,
        bottom=window.row + window.height < grid.height,
        left=window.col > 0,
    )


def _is_seam(nodes: Floats, block: Window, sides: Sides) -> Bools:
    """Return which nodes are pixels at a side beyond which the scene goes on.

    Other nodes never lie there: they are the mean of pixels further in.
    """
    row, col = nodes.T
    return np.asarray(
        (sides.top & (row == 0.5))  # noqa: PLR2004 - the centre of the first pixel
        | (sides.right & (col == block.width - 0.5))
        | (sides.bottom & (row == block.height - 0.5))
        | (sides.left & (col == 0.5))  # noqa: PLR2004
    )


def _lines(paths: SkeletonPaths) -> Lines:
    return lines_from(paths.points, np.diff(paths.offsets))


def _straighten(lines: Lines, tolerance: float) -> Lines:
    """Leave out vertices on straight pieces; a loop keeps all, or it could collapse."""
    simple = shapely.simplify(lines, tolerance, preserve_topology=False)
    return np.where(shapely.is_closed(lines), lines, simple)


def _seam_pairs(nodes: Floats, is_seam: Bools, block: Ints) -> Ints:
    """Pair the nodes of pixels that touch across a seam, as `trace_paths` pairs those within."""
    seam = np.flatnonzero(is_seam)
    if len(seam) == 0:
        return np.empty((0, 2), dtype=np.int64)
    pixel = np.floor(nodes[seam]).astype(np.int64)
    # Places are numbered row by row, with room so that no step leads from one row into the next.
    down = int(pixel[:, 1].max()) + 3
    place = pixel[:, 0] * down + pixel[:, 1]
    order = np.argsort(place)
    seam, place = seam[order], place[order]

    def at(step: int) -> tuple[Bools, Ints]:
        neighbour = np.minimum(np.searchsorted(place, place + step), len(place) - 1)
        return place[neighbour] == place + step, neighbour

    # Diagonal pixels are neighbours only where no pixel touches both of them by a side.
    (right, _), (below, _), (left, _) = at(1), at(down), at(-1)
    pairs = []
    for step, blocked in (
        (1, np.zeros(len(place), dtype=bool)),
        (down, np.zeros(len(place), dtype=bool)),
        (down + 1, right | below),
        (down - 1, left | below),
    ):
        touches, other = at(step)
        touches &= ~blocked & (block[seam] != block[seam[other]])
        pairs.append(np.column_stack([seam[touches], seam[other[touches]]]))
    return np.concatenate(pairs)


def _is_step(graph: RoadGraph, grid: Grid) -> Bools:
    """Return which edges only step from one pixel of a junction at a seam to the next."""
    short = graph.length_m <= _STEP_PX * max(grid.pixel_size_m)
    return np.asarray(short & between_junctions(graph) & graph.attributes[_RAW], dtype=bool)


def _smooth_seams(graph: RoadGraph, grid: Grid) -> RoadGraph:
    """Merge the chains at seams, and smooth the lines that were left as they were."""
    graph = merge_chains(graph)
    raw = np.flatnonzero(graph.attributes[_RAW])
    lines, tolerance_m = graph.lines.copy(), _FINE_PX * min(grid.pixel_size_m)
    for some in in_parts(raw, _LINES_AT_ONCE):
        sizes = shapely.get_num_coordinates(lines[some]).astype(np.int64)
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        points = shapely.get_coordinates(lines[some])
        paths = SkeletonPaths(graph.nodes, graph.ends[some], points, offsets, np.empty((0, 2), int))
        points = smooth_paths(paths, reach_px=_SMOOTH_PX).points.round(DECIMALS)
        lines[some] = _straighten(lines_from(points, sizes), tolerance_m)
    smoothed = RoadGraph(graph.crs, graph.nodes, graph.ends, lines)
    return take_edges(smoothed, np.arange(len(lines)))
