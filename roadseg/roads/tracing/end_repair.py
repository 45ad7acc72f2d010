"""Dead-end repair: undo the forks, bends and shortening of skeletons at the ends of roads.

The tip of a road is its last 1.6 half widths.
"""

from dataclasses import replace

import numpy as np
import shapely

from roadseg.arrays import Bools, Floats, Ints, Lines
from roadseg.roads.graph.cleaning import BRANCH_M, BRANCH_RADII, merge_chains
from roadseg.roads.graph.directions import cross, places_inside, unit
from roadseg.roads.graph.groups import group_means
from roadseg.roads.graph.road_graph import RoadGraph, lines_from, take_edges
from roadseg.roads.tracing.coarse_mask import CoarseMask
from roadseg.roads.tracing.dead_ends import BORDER_M, DeadEnds, are_lone, find_dead_ends, headings

_SIDE_RADII = 1.2  # The same for a branch beside a road that goes on.
# Rule 2 of `straighten_ends`, for right and for sharper corners: distance to the tip in radii of
# the largest disc of road, at most anywhere on a branch, and at least near its tip.
_CORNER_RADII = (2.0, 1.1), (2.5, 1.6)
# Shares of the way from the tip to the junction at which the two conditions are tested.
_CORNER_PARTS, _SHARP_PARTS = (1.0, 0.7, 0.4), (0.4, 0.25)
_TIPS_M = tuple(
    2.5 * 1.2**n for n in range(17)
)  # Metres; lengths of tips that are tried, up to 46.
_TIP_MARGIN = 1.25  # Factor by which a tip is taken longer, as smoothing has spread the bend.
_BEND_M = 1.5  # Metres; a tip closer to the line of its road is no bend.
_BASE_M = 15.0  # Metres of road before the tip that give this line.
_STRAIGHT_M = 0.5  # Metres; the middle of a straight road is at most this far from its line.
_LEAST_BASE_M = 5.0  # Metres; a shorter road gives no reliable line.
_NEAR_M = 6.0  # Metres from the border up to which ragged edges of a mask touch it.
_NARROW_M = 8.0  # Metres; half the width of the widest road that is repaired near the border.
_PATCH = 1.5  # Ratio of length to width up to which a lone piece has no direction.
_JUNCTION = 3  # Edges that meet at a junction, at least.


def straighten_ends(
    graph: RoadGraph,
    *,
    mask: CoarseMask,
    border: shapely.Geometry,
) -> RoadGraph:
    """Lead roads straight to their ends instead of into the corners, and remove side branches.

    The skeleton of a road with a blunt end forks, half the width before the end, into branches to
    both corners.

    1. A dead end at a junction, up to 50 m long, is a branch into a corner if the disc around the
       junction with a radius of its length / 1.6 is all road.
    2. It is also one if the road narrows steadily to the tip: everywhere on it the disc of road has
       at least a radius of 1 / 2 of the distance to the tip, but near the tip less than 1 / 1.1 of
       it; or, for sharper corners, at least 1 / 2.5 but less than 1 / 1.6.
    3. Near the border branches stay, unless they share their junction with one that ends elsewhere.
    4. Where only one other edge meets the branches, they become one edge that goes straight on, as
       far ahead as they reached.
    5. Beside a road that goes on, branches by rule 2 are removed, and other dead ends of up to 1.2
       half widths.
    6. An end that bends off a straight road within its last 1.6 half widths is moved back onto the
       line of the road, as far ahead as before.

    Rules 1 to 5 are repeated until no branch is left; rule 6 comes last.

    Do this before spurs are pruned, which would leave one of two branches.

    Args:
        graph: roads in metres as traced, without attributes.
        mask: what is road; the CRS of the graph is the metric CRS of its grid.
        border: a geometry, such as the outline of the scene, up to `BORDER_M` from which ends stay
            (rule 3).

    Returns:
        The graph with chains merged.

    Source: a skeleton branch inside the largest disc around its root is not significant for the
    shape, as is common in pruning (X. Bai, L. J. Latecki, W.-Y. Liu, PAMI 29(3), 2007).
    """
    # Rules 1 to 5: branches go until none is left.
    graph = _without_branches(graph, mask, border=border)
    # Rule 6: ends that bend.
    return _unbend_ends(graph, find_dead_ends(graph, border), mask)


def straighten_forks(graph: RoadGraph, *, mask: CoarseMask, border: shapely.Geometry) -> RoadGraph:
    """Apply rules 1, 2 and 4 of `straighten_ends` to roads of up to 16 m, and rule 5 near a border.

    The mask of a road that leaves the scene is often narrower at the border, so that thinning leads
    it into the corners there. Where a road runs along the border, ragged edges of its mask touch
    the border, and a branch leads to each of them; elsewhere a gap may begin at such a branch.
    Wider roads are left alone: within so much road, branches cannot be told from roads that leave
    the scene.

    Args:
        graph: roads in metres as traced, without attributes.
        mask: what is road; the CRS of the graph is the metric CRS of its grid.
        border: a geometry, such as the outline of the scene, up to 6 m from which rule 5 holds.

    Returns:
        The graph with chains merged.
    """
    return _without_branches(
        graph,
        mask,
        border=border,
        border_m=_NEAR_M,
        at_border=True,
        within_m=_NARROW_M,
    )


def draw_out_ends(
    graph: RoadGraph,
    *,
    mask: CoarseMask,
    border: shapely.Geometry,
) -> RoadGraph:
    """Extend dead ends straight to the end of the road, which thinning has shortened.

    An end moves by at most half the width of its road. Lone pieces up to about 1.5 times as long as
    wide are removed, as their skeleton may run across the road. Do this once ends are straight, and
    before spurs are pruned, so that gaps are as long as in the mask when they are linked.

    Args:
        graph: roads in metres, without attributes.
        mask: what is road; the CRS of the graph is the metric CRS of its grid.
        border: a geometry, such as the outline of the scene, up to `BORDER_M` from which ends stay
            as they are.
    """
    ends = find_dead_ends(graph, border)
    at_start = graph.ends[ends.edge, 0] == ends.node
    half_m = _tip_lengths(graph.lines[ends.edge], at_start, mask) / BRANCH_RADII
    reach_m = mask.road_ahead_m(ends.place, ends.heading, half_m)
    nodes = graph.nodes.copy()
    nodes[ends.node] += reach_m[:, None] * ends.heading
    whole = np.zeros((len(graph.lines), 2))
    drawn = redraw_tips(replace(graph, nodes=nodes), np.unique(ends.edge), whole)
    ends_xy = nodes[graph.ends[ends.edge]]
    chord_m = np.hypot(*(ends_xy[:, 1] - ends_xy[:, 0]).T)
    is_patch = are_lone(graph, ends.edge) & (chord_m <= _PATCH * 2 * half_m)
    return take_edges(drawn, np.setdiff1d(np.arange(len(drawn.lines)), ends.edge[is_patch]))


def _without_branches(
    graph: RoadGraph,
    mask: CoarseMask,
    *,
    border: shapely.Geometry,
    border_m: float = BORDER_M,
    at_border: bool = False,
    within_m: float = np.inf,
) -> RoadGraph:
    """Apply rules 1 to 5 of `straighten_ends` to roads up to twice `within_m` wide.

    Rules 3 and 5 spare dead ends near the border; with `at_border`, rule 5 spares all others.
    """
    graph = merge_chains(graph)
    while True:
        ends = find_dead_ends(graph, None)
        is_inner = np.isin(ends.node, find_dead_ends(graph, border, border_m).node)
        alone, beside = (np.ones_like(is_inner), ~is_inner) if at_border else (is_inner, is_inner)
        root = _roots(graph, ends)
        is_short = (graph.length_m[ends.edge] <= BRANCH_M) & (graph.degree[root] >= _JUNCTION)
        if np.isfinite(within_m):
            is_short &= ~mask.contains_discs(graph.nodes[root], np.full(len(root), within_m))
        short = np.flatnonzero(is_short)
        branches, others = _find_branches(
            graph, ends, short, mask, goes_alone=alone, goes_beside=beside
        )
        if len(branches) == 0:
            return graph
        graph = merge_chains(_replace_branches(graph, ends, branches, root[branches], others))


def _roots(graph: RoadGraph, ends: DeadEnds) -> Ints:
    """Return the node at the other end of the edge of each dead end."""
    return np.asarray(graph.ends[ends.edge].sum(axis=1) - ends.node)


def _find_branches(
    graph: RoadGraph,
    ends: DeadEnds,
    short: Ints,
    mask: CoarseMask,
    *,
    goes_alone: Bools,
    goes_beside: Bools,
) -> tuple[Ints, Ints]:
    """Return the dead ends that are branches, and how many other edges each node has.

    Args:
        graph: roads in metres.
        short: rows of the candidates: those that are short and at a junction.
        goes_alone: whether each dead end is away from the border, as rule 3 asks of one branch.
        goes_beside: whether each may be removed beside a road that goes on (rule 5).
    """
    root = _roots(graph, ends)
    # Rules 1 and 2: branches lie in the disc of road around their junction, or run into a corner.
    branches, beside = (
        short[_are_surrounded(graph, ends, short, mask, part=1.0, radii=radii)]
        for radii in (BRANCH_RADII, _SIDE_RADII)
    )
    corners = _run_into_corners(graph, ends, short, mask)
    branches, beside = np.union1d(branches, corners), np.union1d(beside, corners)
    # Rule 3: one of the branches of a junction at least ends away from the border.
    branches = branches[np.isin(root, root[branches[goes_alone[branches]]])[branches]]
    # Rules 4 and 5: a junction with two other edges lies on a road that goes on.
    others = graph.degree - np.bincount(root[branches], minlength=len(graph.nodes))
    is_beside = goes_beside & np.isin(np.arange(len(root)), beside)
    branches = branches[(others[root[branches]] <= 1) | is_beside[branches]]
    return branches, graph.degree - np.bincount(root[branches], minlength=len(graph.nodes))


def _run_into_corners(graph: RoadGraph, ends: DeadEnds, short: Ints, mask: CoarseMask) -> Ints:
    """Return the rows of dead ends along which the road narrows to a corner (rule 2)."""
    corners = []
    for radii, sharp_radii in _CORNER_RADII:
        rows = short
        for part in _CORNER_PARTS:
            rows = rows[_are_surrounded(graph, ends, rows, mask, part=part, radii=radii)]
        for part in _SHARP_PARTS:
            rows = rows[~_are_surrounded(graph, ends, rows, mask, part=part, radii=sharp_radii)]
        corners.append(rows)
    return np.unique(np.concatenate(corners))


def _are_surrounded(
    graph: RoadGraph,
    ends: DeadEnds,
    rows: Ints,
    mask: CoarseMask,
    *,
    part: float,
    radii: float,
) -> Bools:
    """Return whether a disc around a place on each dead end is all road.

    The place is at this part of the way from the tip to the root; the radius of the disc is its
    distance to the tip divided by `radii`.
    """
    edge = ends.edge[rows]
    back_m = part * graph.length_m[edge]
    places = places_inside(graph.lines[edge], back_m, graph.ends[edge, 0] == ends.node[rows])
    return mask.contains_discs(places, back_m / radii)


def _replace_branches(
    graph: RoadGraph, ends: DeadEnds, branches: Ints, root: Ints, others: Ints
) -> RoadGraph:
    """Remove branches, and extend the road straight on where one other edge is left (rule 4)."""
    is_fork = others[root] == 1
    forks, fork = np.unique(root[is_fork], return_inverse=True)
    steps = ends.place[branches[is_fork]] - graph.nodes[root[is_fork]]
    middle = unit(group_means(unit(steps), fork))
    heading = _fork_headings(graph, forks, ends.edge[branches], middle)
    ahead = np.maximum(np.sum(group_means(steps, fork) * heading, axis=1), 0)
    places = graph.nodes[forks] + ahead[:, None] * heading
    keep = np.ones(len(graph.lines), dtype=bool)
    keep[ends.edge[branches]] = False
    moved = ahead > 0
    forks, places = forks[moved], places[moved]
    added = shapely.linestrings(np.stack([graph.nodes[forks], places], axis=1))
    new = np.column_stack([forks, len(graph.nodes) + np.arange(len(forks))])
    return replace(
        graph,
        nodes=np.concatenate([graph.nodes, places]),
        ends=np.concatenate([graph.ends[keep], new]),
        lines=np.concatenate([graph.lines[keep], added]),
    )


def _fork_headings(graph: RoadGraph, forks: Ints, branches: Ints, middle: Floats) -> Floats:
    """Return the heading of the road at each fork; a short road has that of the branches."""
    is_branch = np.isin(np.arange(len(graph.lines)), branches)
    edge, side = np.nonzero(np.isin(graph.ends, forks) & ~is_branch[:, None])
    # Forks are sorted, and have one other edge each.
    order = np.argsort(graph.ends[edge, side])
    edge, side = edge[order], side[order]
    is_long = graph.length_m[edge] >= _LEAST_BASE_M
    return np.where(is_long[:, None], headings(graph, edge, side == 0), middle)


def _unbend_ends(graph: RoadGraph, ends: DeadEnds, mask: CoarseMask) -> RoadGraph:
    """Move ends that bend into a corner back onto the line of their road (rule 6)."""
    lines, length = graph.lines[ends.edge], graph.length_m[ends.edge]
    at_start = graph.ends[ends.edge, 0] == ends.node
    half_m = _tip_lengths(lines, at_start, mask) / BRANCH_RADII
    tip_m = _TIP_MARGIN * BRANCH_RADII * half_m
    # If both ends of an edge are dead ends, neither tip belongs to its line.
    both = np.bincount(ends.edge, minlength=len(graph.lines))[ends.edge]
    base_m = np.minimum(length - both * tip_m, _BASE_M)
    foot, middle, far = (
        places_inside(lines, back_m, at_start)
        for back_m in (tip_m, tip_m + base_m / 2, tip_m + base_m)
    )
    heading = unit(foot - far)
    ahead = np.sum((ends.place - foot) * heading, axis=1)
    is_bent = (base_m >= _LEAST_BASE_M) & (ahead > 0)
    is_bent &= np.abs(cross(middle - far, heading)) <= _STRAIGHT_M
    is_bent &= np.abs(cross(ends.place - foot, heading)) > _BEND_M
    nodes = graph.nodes.copy()
    nodes[ends.node[is_bent]] = (foot + ahead[:, None] * heading)[is_bent]
    tips = np.zeros((len(graph.lines), 2))
    tips[ends.edge, np.where(at_start, 0, 1)] = np.where(is_bent, tip_m, 0)
    return redraw_tips(replace(graph, nodes=nodes), np.unique(ends.edge[is_bent]), tips)


def _tip_lengths(lines: Lines, at_start: Bools, mask: CoarseMask) -> Floats:
    """Return the length of the tip of each road: 1.6 times half of its width there."""
    tip_m = np.zeros(len(lines))
    rows = np.arange(len(lines))
    for metres in _TIPS_M:
        back_m = np.minimum(metres, shapely.length(lines[rows]) / 2)
        places = places_inside(lines[rows], back_m, at_start[rows])
        rows = rows[mask.contains_discs(places, np.full(len(rows), metres / BRANCH_RADII))]
        tip_m[rows] = metres
    return tip_m


def redraw_tips(graph: RoadGraph, rows: Ints, tips: Floats) -> RoadGraph:
    """Replace the first and last `tips` metres, shape (m, 2), of edges by lines to their nodes."""
    xy, line = shapely.get_coordinates(graph.lines[rows], return_index=True)
    steps = np.hypot(*np.diff(xy, axis=0, prepend=0.0).T)
    is_first = np.diff(line, prepend=-1) > 0
    is_last = np.diff(line, append=-1) != 0
    travelled = np.cumsum(np.where(is_first, 0.0, steps))
    since = travelled - travelled[is_first][line]
    until = travelled[is_last][line] - travelled
    xy[is_first], xy[is_last] = graph.nodes[graph.ends[rows]].transpose(1, 0, 2)
    start_m, stop_m = tips[rows[line]].T
    keep = is_first | is_last | ((since >= start_m) & (until >= stop_m))
    lines = graph.lines.copy()
    lines[rows] = lines_from(xy[keep], np.bincount(line[keep]))
    return replace(graph, lines=lines)
