"""Linking: continue the dead ends of a road graph across gaps to the road ahead.

From top to bottom: the rules and the choice of links, the candidates, and the graph with the links.
The least-cost paths of links are in `link_paths`.
"""

from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np
import shapely
from scipy.spatial import KDTree

from roadseg.arrays import Bools, Columns, Floats, Ints, Lines
from roadseg.raster.grid import Grid
from roadseg.roads.graph.cleaning import merge_chains
from roadseg.roads.graph.directions import cosine, end_steps
from roadseg.roads.graph.groups import greedy_matching
from roadseg.roads.graph.road_graph import (
    DECIMALS,
    RoadGraph,
    in_parts,
    is_off_grid,
    node_lines,
    with_vertices,
)
from roadseg.roads.graph.shortest_paths import RoadDistances
from roadseg.roads.logistic import LogisticModel, Terms, log_odds, read_packaged
from roadseg.roads.tracing.dead_ends import (
    SHARES,
    DeadEnds,
    are_clear,
    are_lone,
    find_dead_ends,
    link_costs,
    longest_links_m,
)
from roadseg.roads.tracing.link_paths import ReadRoad, TracedLinks, places_along, trace_links

INFERRED, CONFIDENCE = "inferred", "confidence"

_WIDE_SHARES = 1.5, 1.0  # `SHARES` with a model, which rejects wrong links itself.
_TARGETS = 2  # Cheapest candidates of a dead end whose paths are traced.
_FACING_COST = 0.5  # Factor of the cost of a link between two dead ends.
_DETOUR = 1.5  # Longest road, in lengths of the link, that makes the link unnecessary (rule 3).
_NEARBY_M = 5.0  # Metres from a landing to other dead ends whose turn counts as well (rule 5).
_ENDS_AT_ONCE = 2_000  # Dead ends whose landings are in memory together.
_BOTH = 2  # Ends of an edge.
_LEAVING_M = 5.0  # Metres of a path that give its heading at either end.
_LEAST_M = 0.1  # Metres; shorter lengths count as this, so that their logarithm is finite.


@dataclass(frozen=True)
class _Gaps:
    """Roads with their dead ends, and the limits of links between these.

    Attributes:
        graph: roads in metres.
        ends: their dead ends, as rows of this graph.
        max_gap_m: greatest distance between the ends of a link.
        grid: grid of the raster; None for straight links.
        read_road: reads a window of the raster.
        model: predicts the probability of links; None for costs of length and heading alone. It
            needs a raster; without one, it only widens the limits.
        min_probability: less probable links are dropped.
    """

    graph: RoadGraph
    ends: DeadEnds
    max_gap_m: float
    grid: Grid | None
    read_road: ReadRoad | None
    model: LogisticModel | None
    min_probability: float

    @cached_property
    def tree(self) -> shapely.STRtree:
        """Spatial index of the roads."""
        return shapely.STRtree(self.graph.lines)

    @cached_property
    def distances(self) -> RoadDistances:
        """Distances along the roads, from each dead end."""
        return RoadDistances(self.graph, self.ends.node, _DETOUR * self.max_gap_m)

    def cheapest(self, links: "_Links") -> "_Links":
        """Keep the few cheapest links of each dead end, whose paths are then traced."""
        order = np.lexsort([links.cost, links.end])
        end = links.end[order]
        return links.take(order[np.arange(len(end)) - np.searchsorted(end, end) < _TARGETS])


@dataclass(frozen=True)
class _Links(Columns):
    """Candidate links: from a dead end to a place on an edge, which may be a dead end too.

    Attributes:
        end: shape (k,), row of the dead end.
        facing: shape (k,), row of the dead end at the other end, -1 for the side of a road.
        edge: shape (k,), row of the edge on which the link lands.
        landing: shape (k, 2), x and y of the place there.
        cost: shape (k,), metres, more for turning and less where the raster shows road.
        line: shape (k,), LineStrings.
        confidence: shape (k,), 0 to 1.
    """

    end: Ints
    facing: Ints
    edge: Ints
    landing: Floats
    cost: Floats
    line: Lines
    confidence: Floats

    @property
    def is_facing(self) -> Bools:
        """Whether each link joins two dead ends."""
        return self.facing >= 0


def link_gaps(
    graph: RoadGraph,
    *,
    max_gap_m: float,
    min_probability: float = 0.0,
    grid: Grid | None = None,
    read_road: ReadRoad | None = None,
    model: LogisticModel | None = None,
    border: shapely.Geometry | None = None,
) -> RoadGraph:
    """Link dead ends to the road ahead of them, be it another dead end or the side of a road.

    Rules of a link:

    1. Its ends are at most `max_gap_m` apart.
    2. It turns by less than 90 degrees from the heading of each dead end that it joins. At the
       side of a road any angle is possible.
    3. No road of up to 1.5 times its length joins its ends already.
    4. To the side of a road it is at most 0.75 times as long as the edge that it continues, as the
       heading of a short edge is uncertain; 0.4 times if that edge has two dead ends, such as a
       piece between two gaps. With a model these are 1.5 and 1 times. A turn of 60 degrees counts
       as twice the length.
    5. If it lands within 5 m of another dead end, rule 2 holds there as well.
    6. To the side of a road it meets no other road on its way. Between dead ends it may cross
       roads, and is joined with them.
    7. With a raster it follows the least-cost path (`trace_links`), for which rules 2 and 6 hold
       as well. Without a raster it is straight. With a model its probability is at least
       `min_probability`.
    8. A dead end is linked once: the most probable links first or, without a model, the cheapest,
       where a second dead end halves the cost. Links between dead ends come first, unless the side
       of a road is better for either of them; then links to the side of a road or of a link.
    9. A lone piece of road shorter than `max_gap_m` is linked at both ends or not at all, and at
       one of them to another dead end: it is a remainder between two gaps, or no road.

    Args:
        graph: roads in metres, without attributes, crossing each other at nodes only.
        max_gap_m: greatest distance between both ends of a link, which are ends of centrelines.
            0 links nothing.
        min_probability: least probability of a link, 0 to 1; only with a model.
        grid: grid of the raster, with the CRS of the graph as its metric CRS; `read_road` needs it.
        read_road: reads a window of the raster: probability of any road, 255
            for certain; None for straight links.
        model: predicts the probability of links from the raster along them; None for masks of 0
            and 1, which show nothing in a gap.
        border: such as the edge of the scene; roads that end up to `BORDER_M` from it go on outside
            and get no link.

    Returns:
        The roads and links with the attributes `inferred`, 1 for links and else 0, and
        `confidence`, which is NaN for roads. Of links it is the probability by the model; without
        a model the mean probability along the link if the raster around has values other than 0
        and 1, else the mean cosine of its turns, times a factor that falls from 1 to 0.5 as its
        length grows to `max_gap_m`. Roads do not merge with links.

    Source: the winners of SpaceNet 5 link ends to ends, and ends to the sides of roads, by distance
    and heading (CRESI, ikibardin); the rules and costs are ours.
    """
    ends = find_dead_ends(graph, border)
    if max_gap_m <= 0 or len(ends.edge) == 0:
        unknown = np.full(len(graph.lines), np.nan)
        attributes = {INFERRED: np.zeros(len(graph.lines), dtype=np.uint8), CONFIDENCE: unknown}
        return replace(graph, attributes=attributes)
    gaps = _Gaps(graph, ends, max_gap_m, grid, read_road, model, min_probability)
    # Rule 8: dead ends that face each other come first.
    pairs = _choose_facing(gaps)
    rest = np.setdiff1d(np.arange(len(ends.edge)), [pairs.end, pairs.facing])
    sides = pairs.take(rest[:0])
    if len(rest):
        # Links between dead ends count as roads, without nodes where they cross others.
        nodes = np.column_stack([ends.node[pairs.end], ends.node[pairs.facing]])
        lines = np.concatenate([graph.lines, pairs.line])
        paired = RoadGraph(graph.crs, graph.nodes, np.concatenate([graph.ends, nodes]), lines)
        sides = _choose_sides(replace(gaps, graph=paired), rest)
    # Rule 9: both ends of a lone short piece are linked, or none.
    links = _without_strays(_Links.joined([pairs, sides]), graph, ends, max_gap_m)
    linked = _join_links(graph, links)
    return merge_chains(linked)


def _choose_facing(gaps: _Gaps) -> _Links:
    """Choose links between dead ends, cheapest first, unless the side of a road is cheaper."""
    facing = _facing_links(gaps)
    if len(facing.end) == 0:
        return facing
    sides = _side_links(gaps, np.unique([facing.end, facing.facing]))
    links = _with_paths(gaps.cheapest(_Links.joined([facing, sides])), gaps)
    order = np.argsort(links.cost, kind="stable")
    # The first link of a dead end excludes its others, also if it goes to the side of a road.
    members = np.column_stack([links.end, np.where(links.is_facing, links.facing, links.end)])
    first = links.take(order[greedy_matching(members[order])])
    return first.take(first.is_facing)


def _choose_sides(gaps: _Gaps, rest: Ints) -> _Links:
    """Choose for each of these dead ends the cheapest link to the side of a road."""
    links = _with_paths(gaps.cheapest(_side_links(gaps, rest)), gaps)
    links = links.take(np.lexsort([links.cost, links.end]))
    return links.take(np.unique(links.end, return_index=True)[1])


def _with_paths(links: _Links, gaps: _Gaps) -> _Links:
    """Trace links through the raster, set cost and confidence, and drop those against the rules."""
    ends = gaps.ends
    if gaps.grid is None or gaps.read_road is None:
        paths = TracedLinks.straight(links.line)
    else:
        starts = ends.place[links.end]
        paths = trace_links(starts, links.landing, grid=gaps.grid, read_road=gaps.read_road)
    first, last = (
        -end_steps(paths.lines, np.full(len(paths.lines), at_start), over_m=_LEAVING_M)
        for at_start in (True, False)
    )
    forth, back = cosine(first, ends.heading[links.end]), cosine(last, ends.heading[links.facing])
    back = np.where(links.is_facing, back, forth)
    links = _with_costs(links, paths, gaps, turns=(forth, back))
    # Rules 2 and 6 hold for the path through the raster as well.
    fits = np.minimum(forth, back) > 0
    if gaps.model and gaps.read_road:
        fits &= links.confidence >= gaps.min_probability
    return links.take(fits & (links.is_facing | are_clear(links.line, gaps.tree)))


def _with_costs(
    links: _Links,
    paths: TracedLinks,
    gaps: _Gaps,
    *,
    turns: tuple[Floats, Floats],
) -> _Links:
    """Set the line, cost and confidence of links: by the model, or by length and heading.

    Args:
        turns: cosines of the turns at the dead end, and at the other end.
    """
    if gaps.model and gaps.read_road:
        probability = gaps.model.probability(link_terms(links, paths, gaps, turns))
        return replace(links, line=paths.lines, cost=1 - probability, confidence=probability)
    turn = (turns[0] + turns[1]) / 2
    length = shapely.length(paths.lines)
    shape = np.clip(turn, 0, 1) * (1 - np.minimum(length / gaps.max_gap_m, 1) / 2)
    return replace(
        links,
        line=paths.lines,
        cost=_link_cost(paths.cost_m, turn, is_facing=links.is_facing),
        confidence=np.where(paths.is_informed, paths.probability, shape),
    )


@cache
def general_link_model() -> LogisticModel:
    """Return the model that comes with the package; `scripts/fit_links.py` fits it."""
    return read_packaged("link_model.json")


def link_terms(
    links: _Links, paths: TracedLinks, gaps: _Gaps, turns: tuple[Floats, Floats]
) -> Terms:
    """Return the terms of the link model, which says how likely each link is a road.

    Args:
        turns: cosines of the turns at the dead end, and at the other end.

    Returns:
        Columns of shape (links,) by name.
    """
    own = gaps.ends.edge[links.end]
    length_m, straight_m, own_m = (
        np.maximum(metres, _LEAST_M)
        for metres in (
            shapely.length(paths.lines),
            np.hypot(*(links.landing - gaps.ends.place[links.end]).T),
            gaps.graph.length_m[own],
        )
    )
    turn, turn_facing = (np.arccos(np.clip(cosines, -1, 1)) for cosines in turns)
    return {
        "log length": np.log(length_m),
        "length": length_m,
        "log winding": np.log(length_m / straight_m),
        "turn": turn,
        "turn at the other dead end": np.where(links.is_facing, turn_facing, 0.0),
        "joins two dead ends": links.is_facing.astype(np.float64),
        "log length of its edge": np.log(own_m),
        "edge has two dead ends": are_lone(gaps.graph, own).astype(np.float64),
        "log odds of the mean": log_odds(paths.probability),
        "log odds of the lower quarter": log_odds(paths.quarter),
        "log odds of the lowest 5 m": log_odds(paths.lowest_5m),
        "log odds of the lowest": log_odds(paths.lowest),
    }


def _link_cost(metres: Floats, turn: Floats, *, is_facing: Bools | bool) -> Floats:
    """Return the cost by length and mean cosine of the turns; facing dead ends halve it."""
    return link_costs(metres, turn) * np.where(is_facing, _FACING_COST, 1)


def _facing_links(gaps: _Gaps) -> _Links:
    """List the candidates between facing dead ends, by rules 1 to 3 of `link_gaps`."""
    ends = gaps.ends
    # Rule 1: distance.
    pairs = KDTree(ends.place).query_pairs(gaps.max_gap_m, output_type="ndarray")
    left, right = pairs.T.astype(np.int64)
    steps = ends.place[right] - ends.place[left]
    gap = np.hypot(*steps.T)
    forth, back = cosine(steps, ends.heading[left]), cosine(-steps, ends.heading[right])
    cost = _link_cost(gap, (forth + back) / 2, is_facing=True)
    links = _straight(ends, left, right, ends.edge[right], landing=ends.place[right], cost=cost)
    # Rule 2: turns at both ends.
    ahead = np.minimum(forth, back) > 0
    # Rule 3: no short road joins them already.
    is_apart = gaps.distances.metres(left, ends.node[right]) > _DETOUR * gap
    return links.take(ahead & is_apart)


def _side_links(gaps: _Gaps, chosen: Ints) -> _Links:
    """List the cheapest link of the chosen dead ends to each edge ahead, by rules 1 to 6."""
    parts = in_parts(chosen, _ENDS_AT_ONCE)
    return _Links.joined([_part_of_side_links(gaps, part, chosen) for part in parts])


def _part_of_side_links(gaps: _Gaps, part: Ints, chosen: Ints) -> _Links:
    """List the links of a part of the chosen dead ends, see `_side_links`."""
    graph, ends, distances = gaps.graph, gaps.ends, gaps.distances
    places, edge, along = places_along(graph, gaps.tree, ends.place[part], gaps.max_gap_m)
    # Rule 1: distance.
    near = KDTree(ends.place[part]).sparse_distance_matrix(
        KDTree(places), gaps.max_gap_m, output_type="ndarray"
    )
    end, landing, gap = part[near["i"]], near["j"], near["v"]
    # Rule 2: turn at the dead end.
    turn = cosine(places[landing] - ends.place[end], ends.heading[end])
    ahead = (turn > 0) & (gap > 0)
    end, landing, gap, turn = end[ahead], landing[ahead], gap[ahead], turn[ahead]
    target, metres = edge[landing], along[landing]
    # Rule 3: no short road joins them already.
    by_start = distances.metres(end, graph.ends[target, 0]) + metres
    by_stop = distances.metres(end, graph.ends[target, 1]) + graph.length_m[target] - metres
    fits = np.minimum(by_start, by_stop) > _DETOUR * gap
    # Rule 4: length relative to the edge that it continues.
    cost = _link_cost(gap, turn, is_facing=False)
    shares = _WIDE_SHARES if gaps.model else SHARES
    longest_m = longest_links_m(graph, ends.edge[end], shares)
    fits &= cost <= np.minimum(gaps.max_gap_m, longest_m)
    # Rule 5: turns at other dead ends near the landing.
    fits &= ~_is_behind(places[landing], end, ends, chosen)
    # Only the cheapest link of a dead end to each edge is kept.
    rows = np.flatnonzero(fits)
    order = rows[np.argsort(cost[rows], kind="stable")]
    key = end[order] * len(graph.lines) + target[order]
    best = order[np.unique(key, return_index=True)[1]]
    end, none, target = end[best], np.full(len(best), -1), target[best]
    links = _straight(ends, end, none, target, landing=places[landing[best]], cost=cost[best])
    # Rule 6: no other road in between.
    return links.take(are_clear(links.line, gaps.tree))


def _is_behind(landing: Floats, end: Ints, ends: DeadEnds, chosen: Ints) -> Bools:
    """Return which landings are near another dead end that would turn too far (rule 5)."""
    away, near = KDTree(ends.place[chosen]).query(landing, 2, distance_upper_bound=_NEARBY_M)
    other = np.append(chosen, -1)[near]
    turns = [cosine(ends.place[end] - ends.place[k], ends.heading[k]) for k in other.T]
    is_other = (away < np.inf) & (other != end[:, None])
    return np.asarray((is_other & (np.column_stack(turns) <= 0)).any(axis=1))


def _straight(
    ends: DeadEnds, end: Ints, facing: Ints, edge: Ints, *, landing: Floats, cost: Floats
) -> _Links:
    line = np.asarray(shapely.linestrings(np.stack([ends.place[end], landing], axis=1)))
    return _Links(end, facing, edge, landing, cost, line, np.zeros(len(end)))


def _without_strays(links: _Links, graph: RoadGraph, ends: DeadEnds, max_gap_m: float) -> _Links:
    """Drop the links of lone short pieces of road against rule 9, and links that land on them."""
    roads = len(graph.lines)
    is_lone = np.bincount(ends.edge, minlength=roads) == _BOTH
    is_lone &= graph.length_m < max_gap_m
    while True:
        facing = np.concatenate([links.end[links.is_facing], links.facing[links.is_facing]])
        linked = np.concatenate([facing, links.end[~links.is_facing]])
        # A stray is not linked at both ends, or at neither to another dead end.
        is_stray = is_lone & (np.bincount(ends.edge[linked], minlength=roads) < _BOTH)
        is_stray |= is_lone & (np.bincount(ends.edge[facing], minlength=roads) == 0)
        # Drop links that start on a stray, land on one, or land on a link that is dropped.
        on_stray = np.append(is_stray, np.zeros(len(links.end), dtype=bool))[links.edge]
        wrong = on_stray | is_stray[ends.edge[links.end]]
        wrong |= np.append(is_stray, wrong)[links.edge]
        if not wrong.any():
            return links
        rows = np.append(np.arange(roads), roads + np.cumsum(~wrong) - 1)
        links = replace(links, edge=rows[links.edge]).take(~wrong)


def _join_links(graph: RoadGraph, links: _Links) -> RoadGraph:
    """Make one graph of roads and links with nodes where they meet; most roads stay unchanged."""
    lines = np.concatenate([graph.lines, links.line])
    is_link = np.arange(len(lines)) >= len(graph.lines)
    changes = is_link | is_off_grid(lines)
    lines[changes] = shapely.transform(lines[changes], lambda xy: np.round(xy, DECIMALS))
    lines = with_vertices(lines, links.edge, links.landing)
    link, other = shapely.STRtree(lines).query(lines[is_link], predicate="crosses")
    link += len(graph.lines)
    crossings, at = shapely.get_coordinates(
        shapely.intersection(lines[link], lines[other]), return_index=True
    )
    crossed = np.concatenate([link[at], other[at]])
    lines = with_vertices(lines, crossed, np.tile(crossings.round(DECIMALS), (2, 1)))
    changes[links.edge] = changes[crossed] = True
    confidence = np.concatenate([np.full(len(graph.lines), np.nan), links.confidence])
    attributes = {INFERRED: is_link.astype(np.uint8), CONFIDENCE: confidence}
    return node_lines(graph, lines, attributes, changes)
