"""Dead-end repair: roads that end across their width, where skeletons fork and stop short."""

from dataclasses import replace

import numpy as np
import shapely

from roadseg.arrays import Bools, Floats, Ints, Lines
from roadseg.roads.graph.cleaning import merge_chains
from roadseg.roads.graph.directions import cross, places_inside, unit
from roadseg.roads.graph.groups import group_means
from roadseg.roads.graph.road_graph import RoadGraph, lead_to_nodes, lines_from, take_edges
from roadseg.roads.tracing.coarse_mask import CoarseMask, RoadRaster
from roadseg.roads.tracing.dead_ends import DeadEnds, are_lone, find_dead_ends, headings

_BRANCH_M = 50.0  # Metres; longer dead ends are roads.
_BRANCH_RADII = 1.6  # A branch is at most so many half widths long; to a corner it is 1.41.
_SIDE_RADII = 1.2  # The same for a branch beside a road that goes on.
# Half widths of road between a place on a branch and its tip: anywhere on it at most the first
# figure, and near the tip at least the second, as the end of a road is wider there. Sharper corners
# have larger figures.
_CORNER_RADII = (2.0, 1.1), (2.5, 1.6)
# Parts of the way back from the tip at which both are looked at.
_CORNER_PARTS, _SHARP_PARTS = (1.0, 0.7, 0.4), (0.4, 0.25)
_TIPS_M = tuple(
    2.5 * 1.2**n for n in range(17)
)  # Metres; lengths of tips that are tried, up to 46.
_TIP_MARGIN = 1.25  # A tip is taken longer by this factor, as lines are smooth.
_BEND_M = 1.5  # Metres; a tip that lies less beside the line of the road is left alone.
_BASE_M = 15.0  # Metres of road that show this line.
_STRAIGHT_M = 0.5  # Metres; the middle of a straight road lies no further beside its line.
_LEAST_BASE_M = 5.0  # Metres; a shorter road says little.
_NEAR_M = 6.0  # Metres from the border at which ragged edges of a mask touch it.
_NARROW_M = 8.0  # Metres; roads up to twice as wide are straightened near the border as well.
_PATCH = 1.5  # A lone piece at most so many times as long as wide has no direction.
_JUNCTION = 3  # Edges that meet at a junction, at least.


def straighten_ends(
    graph: RoadGraph,
    *,
    mask: CoarseMask,
    border: shapely.Geometry,
    border_m: float,
) -> RoadGraph:
    """Draw roads straight to their ends instead of into the corners, and leave out side branches.

    The skeleton of a road that ends across its width forks, half that width before the end, into
    branches to both corners.

    1. A dead end at a junction, of up to 50 m, is a branch into a corner if road surrounds the
       junction as far as 1 / 1.6 of its length.
    2. It is one as well if the road narrows steadily to the tip: everywhere on it road reaches as
       far as 1 / 2 of the way to the tip, but near the tip not as far as 1 / 1.1 of it; or as far
       as 1 / 2.5 but not 1 / 1.6, which are sharper corners.
    3. Near the border branches stay, unless they meet one that ends elsewhere.
    4. Where just one other edge meets branches into corners, these become one edge that goes
       straight on, as far ahead as they reached.
    5. Beside a road that goes on, branches into corners by rule 2 go, and other dead ends of up to
       1.2 half widths.
    6. An end that bends off a straight road within its last 1.6 half widths is put back onto the
       line of the road, as far ahead as it was.

    Rules 1 to 5 are applied again until no branch is left, and rule 6 at last.

    Do this before spurs are pruned, which would leave one of two branches.

    Args:
        graph: roads in metres as traced, without attributes.
        mask: what is road; the CRS of the graph is the metric CRS of its grid.
        border: a geometry, such as the outline of the scene, near which ends stay as they are, but
            for branches that meet one which ends elsewhere.
        border_m: up to this distance.

    Returns:
        The graph with chains merged.

    Source: that a skeleton branch inside the largest disc around its root shows no part of the
    shape is common in pruning (X. Bai, L. J. Latecki, W.-Y. Liu, PAMI 29(3), 2007).
    """
    pixels = RoadRaster(mask)
    # Rules 1 to 5: branches go until none is left.
    graph = _without_branches(graph, pixels, border=border, border_m=border_m)
    # Rule 6: ends that bend.
    return _unbend_ends(graph, find_dead_ends(graph, border, border_m), pixels)


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
        RoadRaster(mask),
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
    border_m: float,
) -> RoadGraph:
    """Lead dead ends straight on to where the road ends, which thinning has cut short.

    An end moves by half the width of its road at most. Lone pieces up to about 1.5 times as long as
    wide go: their skeleton may run across the road. Do this once ends are straight, before
    spurs are pruned: gaps that are linked later are then as long as they are in the mask.

    Args:
        graph: roads in metres, without attributes.
        mask: what is road; the CRS of the graph is the metric CRS of its grid.
        border: a geometry, such as the outline of the scene, near which ends stay as they are.
        border_m: up to this distance.
    """
    pixels = RoadRaster(mask)
    ends = find_dead_ends(graph, border, border_m)
    at_start = graph.ends[ends.edge, 0] == ends.node
    half_m = _tip_lengths(graph.lines[ends.edge], at_start, pixels) / _BRANCH_RADII
    reach_m = pixels.length_m(ends.place, ends.heading, half_m)
    nodes = graph.nodes.copy()
    nodes[ends.node] += reach_m[:, None] * ends.heading
    drawn = replace(graph, nodes=nodes)
    drawn = lead_to_nodes(drawn, np.unique(ends.edge))
    corners = nodes[graph.ends[ends.edge]]
    chord_m = np.hypot(*(corners[:, 1] - corners[:, 0]).T)
    is_patch = are_lone(graph, ends.edge) & (chord_m <= _PATCH * 2 * half_m)
    return take_edges(drawn, np.setdiff1d(np.arange(len(drawn.lines)), ends.edge[is_patch]))


def _without_branches(
    graph: RoadGraph,
    pixels: RoadRaster,
    *,
    border: shapely.Geometry,
    border_m: float,
    at_border: bool = False,
    within_m: float = np.inf,
) -> RoadGraph:
    """Leave out branches, where the road is not wider than twice `within_m`.

    Rules 3 and 5 spare dead ends near the border; or, `at_border`, rule 5 all others.
    """
    graph = merge_chains(graph)
    while True:
        ends = find_dead_ends(graph, None, 0.0)
        is_inner = np.isin(ends.node, find_dead_ends(graph, border, border_m).node)
        alone, beside = (np.ones_like(is_inner), ~is_inner) if at_border else (is_inner, is_inner)
        root = _roots(graph, ends)
        is_short = (graph.length_m[ends.edge] <= _BRANCH_M) & (graph.degree[root] >= _JUNCTION)
        if np.isfinite(within_m):
            is_short &= ~pixels.are_road(graph.nodes[root], np.full(len(root), within_m))
        short = np.flatnonzero(is_short)
        branches, others = _find_branches(
            graph, ends, short, pixels, goes_alone=alone, goes_beside=beside
        )
        if len(branches) == 0:
            return graph
        graph = merge_chains(_replace_branches(graph, ends, branches, root[branches], others))


def _roots(graph: RoadGraph, ends: DeadEnds) -> Ints:
    """Return the node at which the edge of each dead end starts."""
    return np.asarray(graph.ends[ends.edge].sum(axis=1) - ends.node)


def _find_branches(
    graph: RoadGraph,
    ends: DeadEnds,
    short: Ints,
    pixels: RoadRaster,
    *,
    goes_alone: Bools,
    goes_beside: Bools,
) -> tuple[Ints, Ints]:
    """Return which dead ends are branches, and how many other edges each node has.

    Args:
        graph: roads in metres.
        ends: their dead ends.
        short: rows of those that may be branches: they are short, and at a junction.
        pixels: what is road.
        goes_alone: whether each dead end lets the branches of its junction go (rule 3).
        goes_beside: whether each may go beside a road that goes on (rule 5).
    """
    root = _roots(graph, ends)
    # Rules 1 and 2: branches lie in the disc of road around their junction, or run into a corner.
    branches, beside = (
        short[_are_surrounded(graph, ends, short, pixels, part=1.0, radii=radii)]
        for radii in (_BRANCH_RADII, _SIDE_RADII)
    )
    corners = _run_into_corners(graph, ends, short, pixels)
    branches, beside = np.union1d(branches, corners), np.union1d(beside, corners)
    # Rule 3: one of the branches of a junction at least ends away from the border.
    branches = branches[np.isin(root, root[branches[goes_alone[branches]]])[branches]]
    # Rules 4 and 5: a junction with two other edges lies on a road that goes on.
    others = graph.degree - np.bincount(root[branches], minlength=len(graph.nodes))
    is_beside = goes_beside & np.isin(np.arange(len(root)), beside)
    branches = branches[(others[root[branches]] <= 1) | is_beside[branches]]
    return branches, graph.degree - np.bincount(root[branches], minlength=len(graph.nodes))


def _run_into_corners(graph: RoadGraph, ends: DeadEnds, short: Ints, pixels: RoadRaster) -> Ints:
    """Return those of some dead ends along which road narrows to a corner."""
    corners = []
    for radii, sharp_radii in _CORNER_RADII:
        rows = short
        for part in _CORNER_PARTS:
            rows = rows[_are_surrounded(graph, ends, rows, pixels, part=part, radii=radii)]
        for part in _SHARP_PARTS:
            rows = rows[~_are_surrounded(graph, ends, rows, pixels, part=part, radii=sharp_radii)]
        corners.append(rows)
    return np.unique(np.concatenate(corners))


def _are_surrounded(
    graph: RoadGraph,
    ends: DeadEnds,
    rows: Ints,
    pixels: RoadRaster,
    *,
    part: float,
    radii: float,
) -> Bools:
    """Return where road surrounds a place at this part of the way from the tip to the root.

    It has to do so as far as the tip is away, divided by `radii`.
    """
    edge = ends.edge[rows]
    back_m = part * graph.length_m[edge]
    places = places_inside(graph.lines[edge], back_m, graph.ends[edge, 0] == ends.node[rows])
    return pixels.are_road(places, back_m / radii)


def _replace_branches(
    graph: RoadGraph, ends: DeadEnds, branches: Ints, root: Ints, others: Ints
) -> RoadGraph:
    """Leave out branches, and go on straight from the nodes where one other edge is left."""
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
    """Return where roads head at their forks; to the middle of the branches if they are short."""
    is_branch = np.isin(np.arange(len(graph.lines)), branches)
    edge, side = np.nonzero(np.isin(graph.ends, forks) & ~is_branch[:, None])
    # Forks are sorted, and have one other edge each.
    order = np.argsort(graph.ends[edge, side])
    edge, side = edge[order], side[order]
    is_long = graph.length_m[edge] >= _LEAST_BASE_M
    return np.where(is_long[:, None], headings(graph, edge, side == 0), middle)


def _unbend_ends(graph: RoadGraph, ends: DeadEnds, pixels: RoadRaster) -> RoadGraph:
    """Move ends that bend into a corner onto the line of the road before, by rule 6."""
    lines, length = graph.lines[ends.edge], graph.length_m[ends.edge]
    at_start = graph.ends[ends.edge, 0] == ends.node
    half_m = _tip_lengths(lines, at_start, pixels) / _BRANCH_RADII
    tip_m = _TIP_MARGIN * _BRANCH_RADII * half_m
    # Of an edge that ends twice, both tips are no part of the line.
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


def _tip_lengths(lines: Lines, at_start: Bools, pixels: RoadRaster) -> Floats:
    """Return the length of the tip of each road: 1.6 times half the width that it has there."""
    tip_m = np.zeros(len(lines))
    rows = np.arange(len(lines))
    for metres in _TIPS_M:
        back_m = np.minimum(metres, shapely.length(lines[rows]) / 2)
        places = places_inside(lines[rows], back_m, at_start[rows])
        rows = rows[pixels.are_road(places, np.full(len(rows), metres / _BRANCH_RADII))]
        tip_m[rows] = metres
    return tip_m


def redraw_tips(graph: RoadGraph, rows: Ints, tips: Floats) -> RoadGraph:
    """Lead tips of so many metres, shape (m, 2), of some edges straight to where the nodes are."""
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
