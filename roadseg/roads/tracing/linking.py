"""Linking: continue the dead ends of a road graph across gaps to the road ahead."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import shapely
from skimage.graph import MCP_Geometric

from roadseg.arrays import Bools, Bytes, Floats, Ints, Lines
from roadseg.raster.grid import Grid
from roadseg.raster.windows import CERTAIN, Window
from roadseg.roads.graph.cleaning import merge_chains
from roadseg.roads.graph.road_graph import (
    DECIMALS,
    RoadGraph,
    is_off_grid,
    lines_from,
    node_lines,
    with_vertices,
)
from roadseg.roads.tracing.dead_ends import (
    DeadEnds,
    Links,
    RoadsAhead,
    cosine,
    facing_links,
    find_dead_ends,
    link_cost,
    side_links,
    together,
)

INFERRED, CONFIDENCE = "inferred", "confidence"

_BOTH = 2  # Ends of an edge.
_TARGETS = 2  # Links of a dead end that are laid through the raster, the cheapest first.
_LEAVING_M = 5.0  # Metres of a link from which its own heading is taken.
_WINDING = 1.5  # A link through the raster is up to so many times as long as the longest gap.
_STEP_COST = 0.1  # Cost of a metre where road is certain; where none is seen it is 1 more.
_MARGIN_M = 3.0  # Metres by which a way may leave the box around its ends.
_WORTH = 0.9  # A way costs less than this part of the straight line, or the straight line is taken.
_TOLERANCE_PX = 1.5  # Pixels by which a way may lie off the line that is drawn of it.
_CELL_PX = 512  # Windows that start in one cell of this many pixels are read together.

ReadRoad = Callable[[Window], Bytes]


@dataclass(frozen=True)
class _Raster:
    """A raster of the probability of road, read by window."""

    grid: Grid
    read_road: ReadRoad


def link_gaps(
    graph: RoadGraph,
    *,
    max_gap_m: float,
    max_turn_deg: float = 60.0,
    min_probability: float = 0.0,
    grid: Grid | None = None,
    read_road: ReadRoad | None = None,
    border: shapely.Geometry | None = None,
    border_m: float = 0.0,
) -> RoadGraph:
    """Link dead ends to the road ahead of them, be it another dead end or the side of a road.

    A link keeps to these rules:

    1. Its ends are no further apart than `max_gap_m`.
    2. It turns off the headings of the dead ends that it joins by no more than `max_turn_deg`.
    3. No road of up to 1.5 times its length joins its ends already.
    4. To the side of a road it is at most three quarters as long as the edge that it continues,
       as a short edge tells little about where it heads, and 0.4 times as long if that edge ends
       at its other end too, as what is left between two gaps. Turning by 60 degrees counts as
       twice the length.
    5. To a road alongside, within 30 degrees of the same direction, it turns by 12 degrees at
       most, as where roads merge.
    6. Within 5 m of another dead end it also keeps to the greatest turn there.
    7. To the side of a road it meets no other road on its way. Between dead ends it may cross
       roads, and joins them.
    8. With a raster it follows the least cost over 1 less the probability of road
       (`trace_links`), is at most 1.5 times as long as `max_gap_m`, and has `min_probability`.
       Without a raster it is straight.
    9. A dead end is linked once, the cheapest links first. First come those between dead ends
       that face each other, at half their cost, unless the side of a road is cheaper for one of
       them; then those to the side of a road or of a link.
    10. A lone piece of road shorter than `max_gap_m` is linked at both its ends or not at all,
        and to another dead end at one of them: it is a rest between two gaps, or it is no road.

    Args:
        graph: roads in metres, without attributes, crossing each other at nodes only.
        max_gap_m: greatest distance between both ends of a link, which are ends of centrelines.
            0 links nothing.
        max_turn_deg: greatest angle between the heading of a dead end and its link, at the side
            of a road there is none.
        min_probability: least mean probability of road along a link, both ends included, 0 to 1;
            only with a raster. 0 also links where it shows nothing.
        grid: where the pixels of the raster lie, with the CRS of the graph as its metric CRS.
        read_road: reads a window of the raster: probability of any road, 255
            for certain; None for straight links.
        border: dead ends here go on outside and are not linked, such as the edge of the scene.
        border_m: distance from `border` up to which that holds.

    Returns:
        The roads and links with the attributes `inferred`, 1 for links and else 0, and
        `confidence`, which is NaN for roads. Of a link it is the mean probability along it where
        the raster has values other than 0 and 1 around it; elsewhere the mean cosine of its turns
        times a factor that falls from 1 to a half as its length grows to `max_gap_m`. Roads and
        links merge with their like only.

    Raises:
        ValueError: if the graph has attributes, or there is `read_road` without `grid`.

    Source: SpaceNet 5's winners link ends to ends, and ends to the sides of roads, by distance
    and heading (CRESI, ikibardin); the costs and their figures are ours.
    """
    if graph.attributes:
        raise ValueError(f"gaps are linked before edges get attributes: {sorted(graph.attributes)}")
    if read_road is not None and grid is None:
        raise ValueError("read_road needs the grid of its pixels")
    raster = None if grid is None or read_road is None else _Raster(grid, read_road)
    ends = find_dead_ends(graph, border, border_m)
    if max_gap_m <= 0 or len(ends.edge) == 0:
        return _as_roads(graph)
    least_cos = float(np.cos(np.radians(max_turn_deg)))
    roads = RoadsAhead.of(graph, ends, max_gap_m=max_gap_m, least_cos=least_cos)
    # Rule 9: dead ends that face each other come first.
    pairs = _choose_facing(roads, raster, min_probability)
    rest = np.setdiff1d(np.arange(len(ends.edge)), [pairs.end, pairs.facing])
    sides = pairs.take(rest[:0])
    if len(rest):
        bridged = _with_pairs(graph, ends, pairs)
        roads = RoadsAhead.of(bridged, ends, max_gap_m=max_gap_m, least_cos=least_cos)
        sides = _choose_sides(roads, rest, raster, min_probability)
    # Rule 10: both ends of a lone short piece are linked, or none.
    links = _without_strays(together([pairs, sides]), graph, ends, max_gap_m)
    linked = _join_links(graph, links)
    return merge_chains(linked)


def _choose_facing(roads: RoadsAhead, raster: _Raster | None, min_probability: float) -> Links:
    """Choose links between dead ends, the cheapest first, unless a side of a road is cheaper."""
    facing = facing_links(roads)
    if len(facing.end) == 0:
        return facing
    sides = side_links(roads, np.unique([facing.end, facing.facing]))
    links = _lay_links(_cheapest_targets(together([facing, sides])), roads, raster, min_probability)
    settled: set[int] = set()
    chosen = []
    for row in np.argsort(links.cost, kind="stable").tolist():
        members = {int(links.end[row]), int(links.facing[row])} - {-1}
        if settled.isdisjoint(members):
            settled |= members
            chosen.append(row)
    first = links.take(np.array(chosen, dtype=np.int64))
    return first.take(first.is_facing)


def _choose_sides(
    roads: RoadsAhead, rest: Ints, raster: _Raster | None, min_probability: float
) -> Links:
    """Choose for each of these dead ends the cheapest link to the side of a road."""
    links = _lay_links(_cheapest_targets(side_links(roads, rest)), roads, raster, min_probability)
    links = links.take(np.lexsort([links.cost, links.end]))
    links = links.take(np.unique(links.end, return_index=True)[1])
    own, other = roads.ends.edge[links.end].tolist(), links.edge.tolist()
    cost = dict(zip(zip(own, other, strict=True), links.cost.tolist(), strict=True))
    back = [cost.get(pair, np.inf) for pair in zip(other, own, strict=True)]
    # Of two links, one from either road to the side of the other, the cheaper one is enough.
    return links.take(links.cost <= back)


def _cheapest_targets(links: Links) -> Links:
    """Keep the few cheapest links of each dead end."""
    order = np.lexsort([links.cost, links.end])
    end = links.end[order]
    return links.take(order[np.arange(len(end)) - np.searchsorted(end, end) < _TARGETS])


def _lay_links(
    links: Links, roads: RoadsAhead, raster: _Raster | None, min_probability: float
) -> Links:
    """Lay links through the raster, set their cost and confidence, and drop those off limits."""
    ends, max_gap_m = roads.ends, roads.max_gap_m
    ways = _trace_all(links, ends, raster)
    length = shapely.length(ways.lines)
    forth = cosine(_leaving(ways.lines, 0), ends.heading[links.end])
    back = cosine(_leaving(ways.lines, -1), ends.heading[links.facing])
    back = np.where(links.is_facing, back, forth)
    turn = (forth + back) / 2
    shape = np.clip(turn, 0, 1) * (1 - np.minimum(length / max_gap_m, 1) / 2)
    laid = replace(
        links,
        line=ways.lines,
        cost=link_cost(ways.cost_m, turn, is_facing=links.is_facing),
        confidence=np.where(ways.is_informed, ways.probability, shape),
    )
    # Rule 8: the way winds little and shows road. Rules 2 and 7 hold for it, too.
    fits = (length <= _WINDING * max_gap_m) & (ways.probability >= min_probability)
    fits &= np.minimum(forth, back) >= roads.least_cos
    return laid.take(fits & (links.is_facing | laid.is_clear(roads.tree)))


def _trace_all(links: Links, ends: DeadEnds, raster: _Raster | None) -> "TracedLinks":
    """Trace links through the raster; without one they stay straight, as if road were certain."""
    if raster is None:
        certain, is_informed = np.ones(len(links.end)), np.zeros(len(links.end), dtype=bool)
        return TracedLinks(links.line, shapely.length(links.line), certain, is_informed)
    places = ends.place[links.end], links.landing
    return trace_links(*places, grid=raster.grid, read_road=raster.read_road)


def _leaving(lines: Lines, side: int) -> Floats:
    """Return the steps from one side of lines, 0 or -1, to a place a little along them."""
    metres = np.minimum(_LEAVING_M, shapely.length(lines))
    inside = shapely.line_interpolate_point(lines, metres if side == 0 else -metres)
    at_end = shapely.get_point(lines, side)
    return np.asarray(shapely.get_coordinates(inside) - shapely.get_coordinates(at_end))


def _with_pairs(graph: RoadGraph, ends: DeadEnds, pairs: Links) -> RoadGraph:
    """Return the graph with links between dead ends; where they cross roads is no node."""
    nodes = np.column_stack([ends.node[pairs.end], ends.node[pairs.facing]])
    lines = np.concatenate([graph.lines, pairs.line])
    return RoadGraph(graph.crs, graph.nodes, np.concatenate([graph.ends, nodes]), lines)


def _without_strays(links: Links, graph: RoadGraph, ends: DeadEnds, max_gap_m: float) -> Links:
    """Leave out the links of lone short pieces of road that are not linked at both ends.

    One of these links has to face another dead end: a patch between two roads is no road. Links
    that land on one left out go too.
    """
    roads = len(graph.lines)
    is_lone = np.bincount(ends.edge, minlength=roads) == _BOTH
    is_lone &= graph.length_m < max_gap_m
    while True:
        facing = np.concatenate([links.end[links.is_facing], links.facing[links.is_facing]])
        linked = np.concatenate([facing, links.end[~links.is_facing]])
        # A stray is linked at one end, or by no link that faces another dead end.
        is_stray = is_lone & (np.bincount(ends.edge[linked], minlength=roads) < _BOTH)
        is_stray |= is_lone & (np.bincount(ends.edge[facing], minlength=roads) == 0)
        # A link goes that starts on a stray, lands on one, or lands on a link that goes.
        on_stray = np.append(is_stray, np.zeros(len(links.end), dtype=bool))[links.edge]
        wrong = on_stray | is_stray[ends.edge[links.end]]
        wrong |= np.append(is_stray, wrong)[links.edge]
        if not wrong.any():
            return links
        rows = np.append(np.arange(roads), roads + np.cumsum(~wrong) - 1)
        links = replace(links, edge=rows[links.edge]).take(~wrong)


def _join_links(graph: RoadGraph, links: Links) -> RoadGraph:
    """Make one graph of roads and links, joined where they meet; most roads stay as they are."""
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


def _as_roads(graph: RoadGraph) -> RoadGraph:
    """Return the graph with the attributes of roads that are no links."""
    none, unknown = np.zeros(len(graph.lines), dtype=np.uint8), np.full(len(graph.lines), np.nan)
    return replace(graph, attributes={INFERRED: none, CONFIDENCE: unknown})


@dataclass(frozen=True)
class TracedLinks:
    """Ways between pairs of places.

    Attributes:
        lines: shape (k,), LineStrings in metres from each start to its goal.
        cost_m: shape (k,), metres weighted by 1.1 less the probability of road.
        probability: shape (k,), mean probability of road along each line, 0 to 1.
        is_informed: shape (k,), whether the raster around has values other than 0 and 1; a mask
            tells nothing about where the road goes on.
    """

    lines: Lines
    cost_m: Floats
    probability: Floats
    is_informed: Bools


@dataclass(frozen=True)
class _Way:
    pixels: Ints  # shape (n, 2), row and col in the window, first and last included
    cost_m: float
    probability: float
    is_informed: bool


def trace_links(starts: Floats, goals: Floats, *, grid: Grid, read_road: ReadRoad) -> TracedLinks:
    """Find the way from each start to its goal on which the raster shows most road.

    It is the way of least cost over 1 less the probability, plus 0.1, times metres; or the straight
    line if that costs at most a ninth more, or if the raster around holds nothing but 0 and 1.

    Args:
        starts: shape (k, 2), x and y in metres; from equal starts all ways are found at once.
        goals: shape (k, 2), likewise.
        grid: where the pixels of the raster lie.
        read_road: reads a window of it: probability of any road, 255 for certain. Windows lie
            inside the raster, are little larger than the links, and those of one neighbourhood are
            read at once.

    Source: minimum cost paths as in skimage.graph.MCP_Geometric; that roads are linked by paths of
    least cost over the probability is in MaGRoad (WildRoad). The costs and their figures are ours.
    """
    places = np.floor(grid.from_metric(np.concatenate([starts, goals]))).astype(np.int64)
    shape = np.array([grid.height, grid.width])
    pixels = np.clip(places, 0, shape - 1).reshape(2, -1, 2)
    pixel_m = grid.pixel_size_m[::-1]
    margin = np.ceil(_MARGIN_M / np.array(pixel_m)).astype(np.int64)
    _, start = np.unique(starts, axis=0, return_inverse=True)
    low, high = _boxes(pixels, start.ravel(), margin, shape)
    ways = [_Way(np.zeros((0, 2), dtype=np.int64), 0.0, 0.0, is_informed=False)] * len(starts)
    for (row, col), stop, links in _neighbourhoods(low, high, start.ravel()):
        road = read_road(Window(row, col, int(stop[0]) - row, int(stop[1]) - col))
        for link in np.split(links, np.flatnonzero(np.diff(start.ravel()[links])) + 1):
            first, last = low[link[0]], high[link[0]]
            (top, left), (bottom, right) = first - (row, col), last - (row, col)
            local = pixels[:, link] - first
            laid = _ways(road[top:bottom, left:right], local[0, 0], local[1], pixel_m)
            for i, way in zip(link.tolist(), laid, strict=True):
                ways[i] = way
    return TracedLinks(
        _draw_ways(ways, low, starts, goals, grid),
        np.array([way.cost_m for way in ways], dtype=np.float64),
        np.array([way.probability for way in ways], dtype=np.float64),
        np.array([way.is_informed for way in ways], dtype=bool),
    )


def _neighbourhoods(
    low: Ints, high: Ints, start: Ints
) -> Iterator[tuple[tuple[int, int], Ints, Ints]]:
    """Group windows that are read at once: those that start in the same cell of 512 pixels.

    Args:
        low: shape (k, 2), first row and col of each window.
        high: shape (k, 2), the row and col after its last.
        start: shape (k,), a number by which those of one cell are sorted.

    Yields:
        First pixel and stop of a window around several, and the rows of these.
    """
    cell = low // _CELL_PX
    order = np.lexsort([start, cell[:, 1], cell[:, 0]])
    new_cell = (np.diff(cell[order], axis=0) != 0).any(axis=1)
    for members in np.split(order, np.flatnonzero(new_cell) + 1) if len(order) else []:
        row, col = low[members].min(axis=0).tolist()
        yield (row, col), high[members].max(axis=0), members


def _boxes(pixels: Ints, start: Ints, margin: Ints, shape: Ints) -> tuple[Ints, Ints]:
    """Return the window of each link, alike for those of one start: first row and col, and stop."""
    low, high = pixels.min(axis=0), pixels.max(axis=0)
    if len(start) == 0:
        return low, high
    order = np.argsort(start, kind="stable")
    begin = np.flatnonzero(np.diff(start[order], prepend=-1))
    low = np.minimum.reduceat(low[order], begin)[start]
    high = np.maximum.reduceat(high[order], begin)[start]
    return np.maximum(low - margin, 0), np.minimum(high + margin + 1, shape)


def _ways(road: Bytes, start: Ints, goals: Ints, pixel_m: tuple[float, float]) -> list[_Way]:
    """Find the ways from one pixel of a window to others."""
    is_informed = bool(((road > 0) & (road < CERTAIN)).any())
    straight = [
        _straight_way(road, start, goal, pixel_m, is_informed=is_informed) for goal in goals
    ]
    if not is_informed:
        return straight
    search = MCP_Geometric(1 + _STEP_COST - road / CERTAIN, sampling=pixel_m)
    costs, _ = search.find_costs([tuple(start)], goals)
    least = costs[tuple(goals.T)].tolist()
    return [
        _winding_way(road, np.array(search.traceback(goal)), cost)
        if cost < _WORTH * way.cost_m
        else way
        for goal, cost, way in zip(goals, least, straight, strict=True)
    ]


def _straight_way(
    road: Bytes, start: Ints, goal: Ints, pixel_m: tuple[float, float], *, is_informed: bool
) -> _Way:
    step = goal - start
    along = np.linspace(0, 1, int(np.abs(step).max()) + 1)[:, None]
    rows, cols = np.rint(start + along * step).astype(np.int64).T
    probability = float(road[rows, cols].mean()) / CERTAIN
    cost_m = float(np.hypot(*(step * pixel_m))) * (1 + _STEP_COST - probability)
    return _Way(np.stack([start, goal]), cost_m, probability, is_informed)


def _winding_way(road: Bytes, pixels: Ints, cost_m: float) -> _Way:
    probability = float(road[tuple(pixels.T)].mean()) / CERTAIN
    return _Way(pixels, cost_m, probability, is_informed=True)


def _draw_ways(ways: list[_Way], low: Ints, starts: Floats, goals: Floats, grid: Grid) -> Lines:
    """Draw ways in metres, from start to goal exactly."""
    sizes = np.array([len(way.pixels) for way in ways], dtype=np.int64)
    pixels = np.concatenate([np.zeros((0, 2), dtype=np.int64), *(way.pixels for way in ways)])
    xy = grid.to_metric(pixels + np.repeat(low, sizes, axis=0) + 0.5)
    last = np.cumsum(sizes) - 1
    xy[last - sizes + 1], xy[last] = starts, goals
    tolerance_m = _TOLERANCE_PX * max(grid.pixel_size_m)
    return np.asarray(shapely.simplify(lines_from(xy, sizes), tolerance_m))
