"""Cleaning: merge chains and junctions, prune spurs, drop components, simplify lines."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import shapely

from roadseg.arrays import Array, Bools, Floats, Ints, Lines
from roadseg.roads.graph.groups import connected_groups, group_means
from roadseg.roads.graph.road_graph import (
    TRAVEL_TIME,
    RoadGraph,
    in_parts,
    lines_from,
    ranges,
    take_edges,
)

BRANCH_M = 50.0  # Metres; longer dead ends are roads.
BRANCH_RADII = 1.6  # Longest branch of a skeleton in half widths of its road; to a corner: 1.41.
_THROUGH = 2  # Edge ends at a node in the middle of a road.
_JUNCTION = 3  # Edge ends at a node where roads meet.
_CHAINS_AT_ONCE = 2_000  # The coordinates of this many chains are in memory together.
_RING = 4  # Coordinates of the smallest closed line that encloses an area.

ContainsDiscs = Callable[[Floats, Floats], Bools]


def merge_chains(graph: RoadGraph) -> RoadGraph:
    """Join the two edges at every node where just two meet.

    An attribute is a claim on its whole edge, so edges merge only where all their attributes are
    equal (both missing counts as equal); of `travel_time_s`, which may differ, the sum is kept.
    A ring keeps one node, as the start and end of a loop. Nodes without an edge are dropped.
    A merged edge runs in the direction of the one of its edges from which its chain starts.
    """
    # Edge end 2 i + k is the end of edge i at its node k; a chain is a row of ends that it enters.
    halves, sizes = _chains(_mates(graph))
    first = np.cumsum(sizes) - sizes
    last = np.cumsum(sizes) - 1
    at_half = graph.ends.ravel()
    ends = np.column_stack([at_half[halves[first]], at_half[halves[last] ^ 1]])
    # Lone edges are entered where they start, so that their lines stay as they are.
    lines = graph.lines[halves[first] // 2]
    for some in in_parts(np.flatnonzero(sizes > 1), _CHAINS_AT_ONCE):
        entered = halves[ranges(first[some], sizes[some])]
        lines[some] = _concatenated(graph.lines, entered, sizes[some])
    attributes = {name: column[halves[first] // 2] for name, column in graph.attributes.items()}
    if TRAVEL_TIME in attributes:
        seconds = graph.attributes[TRAVEL_TIME][halves // 2]
        attributes[TRAVEL_TIME] = np.add.reduceat(seconds, first) if len(first) else seconds
    # Taking all edges drops the nodes in the middle of chains.
    merged = RoadGraph(graph.crs, graph.nodes, ends, lines, attributes)
    return take_edges(merged, np.arange(len(lines)))


def prune_spurs(
    graph: RoadGraph,
    *,
    min_spur_m: float,
    contains_discs: ContainsDiscs | None = None,
    border: shapely.Geometry | None = None,
    border_m: float = 0.0,
) -> RoadGraph:
    """Remove short dead ends that hang on a junction, and merge what they leave.

    In each round the shortest spur of every junction goes and chains merge, until none is left:
    so the longest of several short ends that meet survives as the end of the road. An edge whose
    both ends are free is not a spur.

    Args:
        min_spur_m: dead ends shorter than this go, one of just this length stays.
        contains_discs: returns which discs, of centres (k, 2) and radii (k,), are all road. A dead
            end below 50 m goes as well if the disc around its junction, with a radius of its
            length / 1.6, is, unless `border` is nearer to its free end than its junction: thinning
            draws such branches into the corners and bumps of wide roads.
        border: a geometry, such as the outline of the scene, where roads may end.
        border_m: a spur whose free end is no further than this from `border` stays, unless it
            is one of several at a junction: thinning splits the end of a wide road in two.
    """
    graph = merge_chains(graph)
    while len(spurs := _shortest_spurs(graph, min_spur_m, contains_discs, border, border_m)):
        keep = np.ones(len(graph.lines), dtype=bool)
        keep[spurs] = False
        graph = merge_chains(take_edges(graph, keep))
    return graph


def contract_edges(graph: RoadGraph, chosen: Bools) -> RoadGraph:
    """Take edges out and make one node of all the nodes that they joined, in their middle.

    The ends of the edges that stay are drawn to the new node. Edges whose both ends become one
    node stay as loops unless they were chosen.

    Args:
        chosen: shape (m,), the edges to contract.
    """
    if not chosen.any():
        return graph
    links = RoadGraph(graph.crs, graph.nodes, graph.ends[chosen], graph.lines[chosen])
    # Nodes that the chosen edges join are one group, and the new node lies in its middle.
    group = components(links)
    nodes = group_means(graph.nodes, group)
    ends = group[graph.ends]
    merged = (np.bincount(group) > 1)[group]
    lines = graph.lines.copy()
    touched = np.flatnonzero(merged[graph.ends].any(axis=1) & ~chosen)
    lines[touched] = _draw_to(graph, touched, nodes[ends[touched]])
    attributes = dict(graph.attributes)
    return take_edges(RoadGraph(graph.crs, nodes, ends, lines, attributes), ~chosen)


def merge_near_junctions(graph: RoadGraph, *, within_m: float) -> RoadGraph:
    """Make one junction of those that an edge shorter than `within_m` joins.

    Thinning draws the crossing of two wide roads as two junctions with a short edge in between.
    Dead ends are not junctions, and loops are not contracted.

    Args:
        within_m: edges of just this length stay; 0 merges nothing.
    """
    no_loop = graph.ends[:, 0] != graph.ends[:, 1]
    return contract_edges(graph, between_junctions(graph) & no_loop & (graph.length_m < within_m))


def between_junctions(graph: RoadGraph) -> Bools:
    """Return which edges join two junctions, shape (m,)."""
    return np.asarray((graph.degree[graph.ends] >= _JUNCTION).all(axis=1))


def drop_components(
    graph: RoadGraph,
    *,
    min_component_m: float,
    border: shapely.Geometry | None = None,
    border_m: float = 0.0,
) -> RoadGraph:
    """Drop connected parts whose edges add up to less than `min_component_m`; just that stays.

    Nodes without an edge are dropped.

    Args:
        min_component_m: least length of a part, metres.
        border: a geometry, such as the outline of the scene, beyond which roads go on.
        border_m: a part with a node no further than this from `border` stays.
    """
    component = components(graph)
    part = component[graph.ends[:, 0]]
    stays = np.bincount(part, graph.length_m, minlength=len(component)) >= min_component_m
    if border is not None:
        nodes = np.flatnonzero(~stays[component])
        goes_on = shapely.dwithin(shapely.points(graph.nodes[nodes]), border, border_m)
        stays[component[nodes[goes_on]]] = True
    return take_edges(graph, stays[part])


def simplify_lines(graph: RoadGraph, *, tolerance_m: float) -> RoadGraph:
    """Leave out vertices that lie within a tolerance of the simplified line; ends stay.

    A loop that would collapse to a line keeps all its vertices.

    Args:
        tolerance_m: greatest distance of a vertex left out.

    Source: D. Douglas and T. Peucker, "Algorithms for the reduction of the number of points
    required to represent a digitized line", Cartographica 10(2), 1973.
    """
    simple = shapely.simplify(graph.lines, tolerance_m, preserve_topology=False)
    is_loop = graph.ends[:, 0] == graph.ends[:, 1]
    collapsed = is_loop & (shapely.get_num_coordinates(simple) < _RING)
    return replace(graph, lines=np.where(collapsed, graph.lines, simple))


def _mates(graph: RoadGraph) -> Ints:
    """Pair the edge ends that merge, shape (2 m,): the other edge end, or -1.

    Edge end 2 i + k is the end of edge i at its node `ends[i, k]`.
    """
    # Sorted by their nodes, both edge ends at a node of two follow each other.
    halves = np.argsort(graph.ends.ravel(), kind="stable")
    degree = graph.degree
    start = (np.cumsum(degree) - degree)[degree == _THROUGH]
    left, right = halves[start], halves[start + 1]
    # Both ends of one edge are a loop, which has nothing to merge with.
    merges = left // 2 != right // 2
    for name, column in graph.attributes.items():
        if name != TRAVEL_TIME:
            merges &= _equal(column[left // 2], column[right // 2])
    mate = np.full(2 * len(graph.ends), -1)
    mate[left[merges]] = right[merges]
    mate[right[merges]] = left[merges]
    return mate


def _equal(left: Array, right: Array) -> Bools:
    missing = (left != left) & (right != right)  # noqa: PLR0124 - NaN, in columns of any type
    return np.asarray((left == right) | missing, dtype=bool)


def _chains(mate: Ints) -> tuple[Ints, Ints]:
    """Walk along mated edge ends; list the ends at which edges are entered, and chains' sizes.

    Open chains start at an end without a mate, rings at the first end of their first edge.
    """
    is_lone = (mate.reshape(-1, 2) < 0).all(axis=1)
    lone, rest = 2 * np.flatnonzero(is_lone), np.flatnonzero(~np.repeat(is_lone, 2))
    mates = dict(zip(rest.tolist(), mate[rest].tolist(), strict=True))
    entered: list[int] = []
    sizes: list[int] = []
    seen: set[int] = set()
    # Open chains come first: what is left of the edges then lies on rings.
    for start in [*rest[mate[rest] < 0].tolist(), *rest[::2].tolist()]:
        half, before = start, len(entered)
        while half >= 0 and half // 2 not in seen:
            seen.add(half // 2)
            entered.append(half)
            # The chain leaves this edge by its other end, and goes on at the mate of that.
            half = mates[half ^ 1]
        if len(entered) > before:
            sizes.append(len(entered) - before)
    halves = np.concatenate([entered, lone]).astype(np.int64)
    members = np.concatenate([sizes, np.ones_like(lone)]).astype(np.int64)
    first = np.cumsum(members) - members
    order = np.argsort(halves[first])
    return halves[ranges(first[order], members[order])], members[order]


def _concatenated(lines: Lines, halves: Ints, members: Ints) -> Lines:
    """Join lines, entered at the given ends, to one line per chain of this many `members`."""
    chain = np.repeat(np.arange(len(members)), members)
    rows, edge = np.unique(halves // 2, return_inverse=True)
    backwards = halves % 2
    xy = shapely.get_coordinates(lines[rows])
    counts = shapely.get_num_coordinates(lines[rows]).astype(np.int64)
    stop = np.cumsum(counts)
    sizes = counts[edge]
    # Rows of the vertices of each member, forwards and backwards.
    forth = ranges(stop[edge] - sizes, sizes)
    back = np.repeat(2 * stop[edge] - sizes - 1, sizes) - forth
    vertex = np.where(np.repeat(backwards == 1, sizes), back, forth)
    # The first vertex of a member that follows another is the last one of that.
    follows = np.diff(chain, prepend=-1) == 0
    is_joint = np.zeros(len(vertex), dtype=bool)
    is_joint[(np.cumsum(sizes) - sizes)[follows]] = True
    _, n_vertices = np.unique(np.repeat(chain, sizes)[~is_joint], return_counts=True)
    return lines_from(xy[vertex[~is_joint]], n_vertices)


def _shortest_spurs(
    graph: RoadGraph,
    min_spur_m: float,
    contains_discs: ContainsDiscs | None,
    border: shapely.Geometry | None,
    border_m: float,
) -> Ints:
    """Return the row of the shortest spur of each junction that has one."""
    degree = graph.degree[graph.ends]
    hangs = (degree == 1) & (degree[:, ::-1] > _THROUGH)
    length = graph.length_m
    most_m = min_spur_m if contains_discs is None else max(min_spur_m, BRANCH_M)
    spurs = np.flatnonzero(hangs.any(axis=1) & (length < most_m))
    side = hangs[spurs, 1].astype(np.int64)
    junction = graph.ends[spurs, 1 - side]
    ahead_m = np.full(len(spurs), np.inf)  # From the free end to the border.
    if border is not None:
        ahead_m = shapely.distance(shapely.points(graph.nodes[graph.ends[spurs, side]]), border)
    is_short = length[spurs] < min_spur_m
    if contains_discs is not None:
        others = np.flatnonzero(~is_short & (length[spurs] < ahead_m))
        radii_m = length[spurs[others]] / BRANCH_RADII
        is_short[others] = contains_discs(graph.nodes[junction[others]], radii_m)
    # A spur to the border is a road that goes on, unless thinning has split its end in two.
    goes_on = ahead_m <= border_m
    forks = np.bincount(junction[goes_on & is_short], minlength=len(graph.nodes)) > 1
    prunable = is_short & (~goes_on | forks[junction])
    spurs, junction = spurs[prunable], junction[prunable]
    # The first of each junction in this order is its shortest.
    order = np.lexsort((length[spurs], junction))
    return np.asarray(spurs[order[np.unique(junction[order], return_index=True)[1]]])


def _draw_to(graph: RoadGraph, rows: Ints, places: Floats) -> Lines:
    """Return lines that start and end at other places, shape (k, 2, 2).

    Vertices no further from the new end than the old end is are left out, so that the line does
    not turn back; loops keep all.
    """
    xy, line = shapely.get_coordinates(graph.lines[rows], return_index=True)
    sizes = np.bincount(line)
    last = np.cumsum(sizes) - 1
    first = last - sizes + 1
    stays = np.ones(len(xy), dtype=bool)
    for vertex, place in ((first, places[:, 0]), (last, places[:, 1])):
        moved = np.hypot(*(xy[vertex] - place).T)
        stays &= np.hypot(*(xy - place[line]).T) > moved[line]
    stays |= (graph.ends[rows, 0] == graph.ends[rows, 1])[line]
    stays[first] = stays[last] = True
    xy[first], xy[last] = places[:, 0], places[:, 1]
    return lines_from(xy[stays], np.bincount(line[stays]))


def components(graph: RoadGraph) -> Ints:
    """Number the connected parts of a graph, shape (number of nodes,)."""
    return connected_groups(graph.ends, nodes=len(graph.nodes))


def part_lengths(graph: RoadGraph) -> Floats:
    """Return the metres of road of each connected part that has roads, shape (parts,)."""
    _, part = np.unique(components(graph)[graph.ends[:, 0]], return_inverse=True)
    return np.bincount(part, weights=graph.length_m).astype(np.float64)
