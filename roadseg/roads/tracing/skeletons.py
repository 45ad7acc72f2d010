"""Skeletons: road mask -> one-pixel-wide skeleton -> pixel paths between nodes."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csgraph

from roadseg.arrays import Bools, Floats, Ints
from roadseg.roads.graph.groups import connected_groups, group_means
from roadseg.roads.tracing.mask_cleaning import NO_SIDES, Sides
from roadseg.roads.tracing.thinning import thin

_PAD_PX = 32  # Pixels of padding, so that roads up to twice as wide still reach the border.
_RAGGED_PX = 2  # Pixels from the border at which a ragged edge of the mask has its whole width.
_WHOLE = 0.9  # Share of that width which a road that crosses the border has there at least.
_THROUGH = 2  # Neighbours of a pixel inside a chain.


@dataclass(frozen=True)
class SkeletonPaths:
    """The pixel chains of a skeleton and the nodes between which they run.

    Every skeleton pixel belongs either to exactly one path or to one node. Loops and parallel
    paths are kept. Positions are (row, col) with pixel centres at +0.5.

    Attributes:
        nodes: shape (n, 2), position of each node: its pixel, or the mean of its pixels.
        ends: shape (m, 2), the rows of `nodes` at which each path starts and ends.
        points: shape (k, 2), positions along all paths, one path after the other, each
            with the positions of its nodes first and last.
        offsets: shape (m + 1,), path i is `points[offsets[i] : offsets[i + 1]]`.
    """

    nodes: Floats
    ends: Ints
    points: Floats
    offsets: Ints


def skeletonise(mask: NDArray[np.generic]) -> Bools:
    """Thin a mask to lines one pixel wide; roads that leave the scene reach its border.

    Thinning shortens a line by half the width of its road, so roads that cross the border are first
    continued outside. A road crosses the border if

    1. it is up to 64 px wide there,
    2. it goes on inwards for half of its width and one pixel, along the line a quarter of the width
       from either side; others run along the border, which would draw their skeleton out,
    3. it has at least 9/10 of the width that it has 2 px further in, less one pixel; others end
       before the border but for a ragged edge, which would draw their skeleton to one side.
    """
    roads = np.asarray(mask, dtype=bool)
    padded = np.pad(roads, _PAD_PX)
    inside = (slice(_PAD_PX, -_PAD_PX),) * 2
    for turns in range(4):
        crossing = _crosses_border(np.rot90(roads, turns))
        np.rot90(padded, turns)[:_PAD_PX, _PAD_PX:-_PAD_PX] = crossing
    return thin(padded)[inside].copy()


def trace_paths(skeleton: NDArray[np.generic], *, goes_on: Sides = NO_SIDES) -> SkeletonPaths:
    """Trace the pixel chains of a skeleton between its nodes.

    Two diagonal pixels count as neighbours only if no pixel touches both by a side, so that
    corners make no triangles. Nodes are pixels with one neighbour or none, clusters of touching
    pixels with three or more neighbours or in full 2 x 2 blocks, and one pixel of each closed
    ring. A node of a full block may have two paths only; `cleaning.merge_chains` dissolves it.

    Args:
        skeleton: shape (row, col).
        goes_on: every outer pixel at such a side is a node of its own, so that the paths beyond
            can be joined to it.

    Source: the neighbour rule is m-adjacency (Gonzalez and Woods, "Digital Image Processing");
    chains of a sparse pixel graph as in skan (Nunez-Iglesias et al., PeerJ 6:e4312, 2018).
    """
    positions, pairs, in_block = _pixel_graph(np.asarray(skeleton, dtype=bool))
    n = len(positions)
    degree = np.bincount(pairs.ravel(), minlength=n)
    is_seam = on_sides(positions, np.shape(skeleton), goes_on)
    is_junction = ((degree > _THROUGH) | in_block) & ~is_seam
    is_chain = (degree == _THROUGH) & ~in_block & ~is_seam
    # Pixels with two neighbours form chains. A closed ring has one of its pixels as its node.
    chain = connected_groups(pairs[is_chain[pairs].all(axis=1)], nodes=n)
    is_chain[_ring_starts(chain, is_chain, pairs)] = False

    # Touching pixels of a junction are one node, in their middle.
    cluster = connected_groups(pairs[is_junction[pairs].all(axis=1)], nodes=n)
    node_pixels = np.flatnonzero(~is_chain)
    _, node_of = np.unique(cluster[node_pixels], return_inverse=True)
    node = np.full(n, -1)
    node[node_pixels] = node_of
    nodes = group_means(positions[node_pixels] + 0.5, node_of)

    ends, pixels, offsets = _join_paths(pairs, chain, is_chain, node)
    # Nodes follow the pixels in reverse, so that ~i, counted from the end, is node i.
    places = np.concatenate([positions + 0.5, nodes[::-1]])
    return SkeletonPaths(nodes, ends, places[pixels], offsets)


def smooth_paths(paths: SkeletonPaths, *, reach_px: int) -> SkeletonPaths:
    """Smooth the pixel staircase of paths by a moving average; their ends stay in place.

    Every point moves to the mean of itself and its `reach_px` neighbours on either side, fewer
    and equally many near an end. The staircase makes a chain up to 8 % longer than its road.

    Args:
        paths: pixel chains, whose points are evenly spaced.
        reach_px: neighbours on either side; 0 changes nothing.
    """
    place = np.arange(len(paths.points))
    sizes = np.diff(paths.offsets)
    first = np.repeat(paths.offsets[:-1], sizes)
    last = np.repeat(paths.offsets[1:] - 1, sizes)
    reach = np.minimum(np.minimum(place - first, last - place), reach_px)
    sums = np.vstack([np.zeros((1, 2)), np.cumsum(paths.points, axis=0)])
    means = (sums[place + reach + 1] - sums[place - reach]) / (2 * reach + 1)[:, None]
    return replace(paths, points=np.where((reach == 0)[:, None], paths.points, means))


def _crosses_border(roads: Bools) -> Bools:
    """Return which pixels of the first row belong to roads that leave the scene across it."""
    first, stop = _runs(roads[0])
    width = stop - first
    # Rules 1 and 2 of `skeletonise`: the width, and how far the road goes on inwards.
    quarter_points = np.stack([first + width // 4, stop - 1 - width // 4])
    inwards = roads[: _PAD_PX + 1, quarter_points]
    depth = np.logical_and.accumulate(inwards, axis=0).sum(axis=0).max(axis=0)
    crosses = (width <= 2 * _PAD_PX) & (2 * depth >= width + 2)
    # Rule 3: the width a little further in.
    crosses &= width + 1 >= _WHOLE * _widths_beside(roads[: _RAGGED_PX + 1][-1], first, stop)
    turns = np.zeros(roads.shape[1] + 1, dtype=np.int64)
    turns[first] += crosses
    turns[stop] -= crosses
    return np.cumsum(turns)[:-1] > 0


def _runs(row: Bools) -> tuple[Ints, Ints]:
    """Return where runs of pixels start in a row, and where they stop."""
    steps = np.flatnonzero(np.diff(row, prepend=False, append=False))
    return steps[::2], steps[1::2]


def _widths_beside(row: Bools, first: Ints, stop: Ints) -> Ints:
    """Return the width of the widest run of a row in each span of pixels; 0 without a run."""
    starts, stops = _runs(row)
    widths = np.zeros(len(row) + 1, dtype=np.int64)
    widths[:-1][row] = np.repeat(stops - starts, stops - starts)
    return np.asarray(np.maximum.reduceat(widths, np.stack([first, stop], axis=1).ravel())[::2])


def _pixel_graph(skeleton: Bools) -> tuple[Ints, Ints, Bools]:
    """List skeleton pixels (row, col), pairs of neighbours, and which are in full blocks."""
    padded = np.pad(skeleton, 1)
    on, down = padded.ravel(), padded.shape[1]
    place = np.flatnonzero(on)
    pairs = neighbours(place, down, lambda step: on[place + step])
    full = place[on[place + 1] & on[place + down] & on[place + down + 1]]
    blocks = full[:, None] + np.array([0, 1, down, down + 1])
    in_block = np.zeros(len(place), dtype=bool)
    in_block[np.searchsorted(place, blocks.ravel())] = True
    positions = np.column_stack(np.divmod(place, down)) - 1
    return positions, pairs, in_block


def neighbours(place: Ints, down: int, is_on: Callable[[int], Bools]) -> Ints:
    """Return the rows of neighbouring pixels, shape (k, 2).

    Diagonal pixels are neighbours only if no pixel touches both by a side.

    Args:
        place: shape (n,), rising, numbers of pixels row by row, with a gap between rows.
        down: from the number of a pixel to that of the one below.
        is_on: returns for a step whether there is a pixel that many numbers further on, shape (n,).
    """
    right, below = is_on(1), is_on(down)
    links = {
        1: right,
        down: below,
        down + 1: is_on(down + 1) & ~right & ~below,
        down - 1: is_on(down - 1) & ~is_on(-1) & ~below,
    }
    pairs = [
        np.column_stack([np.flatnonzero(has), np.searchsorted(place, place[has] + step)])
        for step, has in links.items()
    ]
    return np.concatenate(pairs)


def on_sides(positions: Ints | Floats, shape: tuple[int, ...], sides: Sides) -> Bools:
    """Return which pixels, shape (n, 2) as row and col, lie at the chosen sides of an array."""
    row, col = positions.T
    last_row, last_col = shape[0] - 1, shape[1] - 1
    return np.asarray(
        (sides.top & (row == 0))
        | (sides.right & (col == last_col))
        | (sides.bottom & (row == last_row))
        | (sides.left & (col == 0))
    )


def _ring_starts(chain: Ints, is_chain: Bools, pairs: Ints) -> Ints:
    """Return the first pixel of every chain that is closed: as many pairs as pixels."""
    inner = pairs[is_chain[pairs].all(axis=1)]
    n_pairs = np.bincount(chain[inner[:, 0]], minlength=len(chain))
    n_pixels = np.bincount(chain[is_chain], minlength=len(chain))
    pixels = np.flatnonzero(is_chain & (n_pairs == n_pixels)[chain])
    return pixels[np.unique(chain[pixels], return_index=True)[1]]


def _join_paths(pairs: Ints, chain: Ints, is_chain: Bools, node: Ints) -> tuple[Ints, Ints, Ints]:
    """Join chains and nodes to paths: end nodes, pixels (node i is ~i), and offsets.

    A loop includes the pixels of its node that it touches; otherwise it could go out and come back
    on the same line.
    """
    first_px, last_px = _links(pairs, chain, is_chain)
    pixels = _order_chains(pairs, chain, is_chain, first_px[:, 0])
    n_chains = len(first_px)
    path_of_chain = np.zeros(len(chain), dtype=np.int64)
    path_of_chain[chain[first_px[:, 0]]] = np.arange(n_chains)

    both_nodes = pairs[(node[pairs] >= 0).all(axis=1)]
    # Nodes that touch each other are joined by a path without pixels.
    direct = node[both_nodes]
    direct = direct[direct[:, 0] != direct[:, 1]]
    chained = np.column_stack([node[first_px[:, 1]], node[last_px[:, 1]]])
    ends = np.concatenate([chained, direct])
    loops = np.flatnonzero(chained[:, 0] == chained[:, 1])
    every = np.arange(len(ends))
    path = np.concatenate([every, loops, path_of_chain[chain[pixels]], loops, every])
    order = np.argsort(path, kind="stable")
    parts = [~ends[:, 0], first_px[loops, 1], pixels, last_px[loops, 1], ~ends[:, 1]]
    offsets = np.concatenate([[0], np.cumsum(np.bincount(path, minlength=len(ends)))])
    return ends, np.concatenate(parts)[order], offsets


def _links(pairs: Ints, chain: Ints, is_chain: Bools) -> tuple[Ints, Ints]:
    """Return the first and the last link of each chain: its end pixel, and the node pixel."""
    mixed = pairs[is_chain[pairs].sum(axis=1) == 1]
    links = np.where(is_chain[mixed[:, :1]], mixed, mixed[:, ::-1])
    links = links[np.lexsort((links[:, 1], links[:, 0], chain[links[:, 0]]))]
    return links[::2], links[1::2]


def _order_chains(pairs: Ints, chain: Ints, is_chain: Bools, first_px: Ints) -> Ints:
    """List chain pixels chain by chain, each from its first pixel on.

    A breadth-first search from an extra vertex that is linked to all first pixels visits the pixels
    of every chain in order; a stable sort then separates the chains.
    """
    n = len(chain)
    inner = pairs[is_chain[pairs].all(axis=1)]
    starts = np.column_stack([np.full(len(first_px), n), first_px])
    both_ways = np.concatenate([inner, inner[:, ::-1], starts])
    ones = np.ones(len(both_ways), dtype=np.int8)
    matrix = sparse.csr_array((ones, (both_ways[:, 0], both_ways[:, 1])), shape=(n + 1, n + 1))
    order = csgraph.breadth_first_order(matrix, n, directed=True, return_predecessors=False)
    pixels = order[1:].astype(np.int64)
    return pixels[np.argsort(chain[pixels], kind="stable")]
