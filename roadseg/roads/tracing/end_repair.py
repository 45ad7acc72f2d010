"""Dead-end repair: undo the forks and the shortening of skeletons at the ends of roads."""

from dataclasses import replace

import numpy as np
import shapely

from roadseg.arrays import Bools, Floats, Ints, Lines
from roadseg.roads.graph.cleaning import BRANCH_M, BRANCH_RADII, merge_chains
from roadseg.roads.graph.directions import places_inside, unit
from roadseg.roads.graph.groups import group_means
from roadseg.roads.graph.road_graph import RoadGraph, lines_from, vertices_along
from roadseg.roads.tracing.coarse_mask import CoarseMask
from roadseg.roads.tracing.dead_ends import BORDER_M, DeadEnds, find_dead_ends, headings

_SIDE_RADII = 1.2  # Longest branch beside a road that goes on, in half widths of the road.
# Rule 2 of `straighten_ends`, for right and for sharper corners: distance to the tip in radii of
# the largest disc of road, at most anywhere on a branch, and at least near its tip.
_CORNER_RADII = (2.0, 1.1), (2.5, 1.6)
# Shares of the way from the tip to the junction at which the two conditions are tested.
_CORNER_PARTS, _SHARP_PARTS = (1.0, 0.7, 0.4), (0.4, 0.25)
_WIDTHS_M = tuple(2.5 * 1.2**n / BRANCH_RADII for n in range(17))  # Half widths that are tried.
_LEAST_BASE_M = 5.0  # Metres; a shorter road gives no reliable line.
_NEAR_M = 6.0  # Metres from the border up to which ragged edges of a mask touch it.
_NARROW_M = 8.0  # Metres; half the width of the widest road that is repaired near the border.
_JUNCTION = 3  # Edges that meet at a junction, at least.


def straighten_ends(
    graph: RoadGraph, *, mask: CoarseMask, border: shapely.Geometry, at_border: bool = False
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
    5. Beside a road that goes on, branches by rule 2 are removed, and others of up to 1.2 half
       widths.

    The rules are repeated until no branch is left. Do this before spurs are pruned, which would
    leave one of two branches.

    The mask of a road that leaves the scene is often narrower at the border, so that thinning leads
    it into the corners there. Where a road runs along the border, ragged edges of its mask touch
    the border, and a branch leads to each of them; elsewhere a gap may begin at such a branch. With
    `at_border`, rule 3 does not hold, and rule 5 only up to 6 m from the border, for roads of up to
    16 m: within more road, branches cannot be told from roads that leave the scene.

    Args:
        graph: roads in metres as traced, without attributes.
        mask: what is road; the CRS of the graph is the metric CRS of its grid.
        border: a geometry, such as the outline of the scene, up to `BORDER_M` from which ends stay.
        at_border: whether branches near the border are removed, too.

    Returns:
        The graph with chains merged.

    Source: a skeleton branch inside the largest disc around its root is not significant for the
    shape, as is common in pruning (X. Bai, L. J. Latecki, W.-Y. Liu, PAMI 29(3), 2007).
    """
    graph = merge_chains(graph)
    while True:
        ends = find_dead_ends(graph, None)
        inner = find_dead_ends(graph, border, _NEAR_M if at_border else BORDER_M)
        is_inner = np.isin(ends.node, inner.node)
        root, length = _roots(graph, ends), graph.length_m[ends.edge]
        is_short = (length <= BRANCH_M) & (graph.degree[root] >= _JUNCTION)
        if at_border:
            is_short &= ~mask.contains_discs(graph.nodes[root], np.full(len(root), _NARROW_M))
        # Rules 1 and 2: branches lie in the disc around their junction, or run into a corner.
        short = np.flatnonzero(is_short)
        branches, beside = (
            short[_are_surrounded(graph, ends, short, mask, radii=radii)]
            for radii in (BRANCH_RADII, _SIDE_RADII)
        )
        corners = _run_into_corners(graph, ends, short, mask)
        branches, beside = np.union1d(branches, corners), np.union1d(beside, corners)
        # Rule 3: one of the branches of a junction at least ends away from the border.
        if not at_border:
            branches = branches[np.isin(root[branches], root[branches[is_inner[branches]]])]
        # Rules 4 and 5: a junction with two other edges lies on a road that goes on.
        others = graph.degree - np.bincount(root[branches], minlength=len(graph.nodes))
        is_beside = np.isin(branches, beside) & (is_inner[branches] != at_border)
        branches = branches[(others[root[branches]] <= 1) | is_beside]
        if len(branches) == 0:
            return graph
        graph = merge_chains(_replace_branches(graph, ends, branches, root[branches]))


def draw_out_ends(
    graph: RoadGraph,
    *,
    mask: CoarseMask,
    border: shapely.Geometry,
) -> RoadGraph:
    """Extend dead ends straight to the end of the road, which thinning has shortened.

    An end moves by at most half the width of its road. Do this once ends are straight, and before
    spurs are pruned, so that gaps are as long as in the mask when they are linked.

    Args:
        graph: roads in metres, without attributes.
        mask: what is road; the CRS of the graph is the metric CRS of its grid.
        border: a geometry, such as the outline of the scene, up to `BORDER_M` from which ends stay
            as they are.
    """
    ends = find_dead_ends(graph, border)
    at_start = graph.ends[ends.edge, 0] == ends.node
    half_m = _half_widths(graph.lines[ends.edge], at_start, mask)
    reach_m = mask.road_ahead_m(ends.place, ends.heading, half_m)
    nodes = graph.nodes.copy()
    nodes[ends.node] += reach_m[:, None] * ends.heading
    whole = np.zeros((len(graph.lines), 2))
    return redraw_tips(replace(graph, nodes=nodes), np.unique(ends.edge), whole)


def _roots(graph: RoadGraph, ends: DeadEnds) -> Ints:
    """Return the node at the other end of the edge of each dead end."""
    return np.asarray(graph.ends[ends.edge].sum(axis=1) - ends.node)


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
    part: float = 1.0,
    radii: float,
) -> Bools:
    """Return whether a disc around a place on each dead end is all road.

    The place is at this part of the way from the tip to the junction; the radius of the disc is its
    distance to the tip divided by `radii`.
    """
    edge = ends.edge[rows]
    back_m = part * graph.length_m[edge]
    places = places_inside(graph.lines[edge], back_m, graph.ends[edge, 0] == ends.node[rows])
    return mask.contains_discs(places, back_m / radii)


def _replace_branches(graph: RoadGraph, ends: DeadEnds, branches: Ints, root: Ints) -> RoadGraph:
    """Remove branches, and extend the road straight on where one other edge is left (rule 4)."""
    others = graph.degree - np.bincount(root, minlength=len(graph.nodes))
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


def _half_widths(lines: Lines, at_start: Bools, mask: CoarseMask) -> Floats:
    """Return half of the width of each road at its end in metres, 0 if it is not known.

    That is the radius of the largest disc of road that is 1.6 times as far from the end.
    """
    half_m = np.zeros(len(lines))
    rows = np.arange(len(lines))
    for metres in _WIDTHS_M:
        back_m = np.minimum(BRANCH_RADII * metres, shapely.length(lines[rows]) / 2)
        places = places_inside(lines[rows], back_m, at_start[rows])
        rows = rows[mask.contains_discs(places, np.full(len(rows), metres))]
        half_m[rows] = metres
    return half_m


def redraw_tips(graph: RoadGraph, rows: Ints, tips: Floats) -> RoadGraph:
    """Replace the first and last `tips` metres, shape (m, 2), of edges by lines to their nodes."""
    xy, line, since = vertices_along(graph.lines[rows])
    is_first = np.diff(line, prepend=-1) > 0
    is_last = np.diff(line, append=-1) != 0
    until = since[is_last][line] - since
    xy[is_first], xy[is_last] = graph.nodes[graph.ends[rows]].transpose(1, 0, 2)
    start_m, stop_m = tips[rows[line]].T
    keep = is_first | is_last | ((since >= start_m) & (until >= stop_m))
    lines = graph.lines.copy()
    lines[rows] = lines_from(xy[keep], np.bincount(line[keep]))
    return replace(graph, lines=lines)
