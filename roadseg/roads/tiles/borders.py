"""Borders: networks cut at the borders of tiles, and the networks of tiles joined there.

Where an edge crosses a border, both tiles have a node with the same id and the same place. Its id
says where it is: zone and metres on the side of a square, or degrees on a meridian between zones.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray
from pyproj import CRS

from roadseg.arrays import Bools, Floats, Ints, Lines
from roadseg.errors import DataError
from roadseg.raster.grid import DEGREES, transformer
from roadseg.roads.graph.cleaning import merge_chains, nearest_pairs
from roadseg.roads.graph.joining import in_crs, side_by_side, unite
from roadseg.roads.graph.road_graph import (
    DECIMALS,
    RoadGraph,
    lead_to_nodes,
    part_attributes,
    take_edges,
    unique_pairs,
)
from roadseg.roads.tiles.tiling import (
    NORTHMOST,
    SOUTH_M,
    SOUTHMOST,
    ZONE_DEG,
    Tile,
    tile_cells,
    zone_epsg,
    zone_of,
    zones_at,
)

ON_BORDER_M = 0.0005  # Metres; half of the last decimal of a place on a border.
LAT_DECIMALS = 8  # Decimals of a degree on a meridian, about 1 mm.
_ON_MERIDIAN_DEG = 1e-9  # Degrees, about 0.1 mm.
_STEPS = 6  # Of the search for a meridian on a segment; each gains more than three digits.

_Points = list[tuple[float, Floats]]
_Cuts = Callable[[Floats], tuple[dict[int, _Points], Bools]]


@dataclass(frozen=True)
class JoinedTiles:
    """The networks of tiles as one.

    Attributes:
        graph: all of them.
        shared: number of nodes that both tiles beside a border had.
        near: number of ends at borders that were joined because they lay near each other.
        loose: number of ends at borders between these tiles that nothing was joined to.
    """

    graph: RoadGraph
    shared: int
    near: int
    loose: int


def cut_graph(graph: RoadGraph, *, km: int) -> dict[Tile, RoadGraph]:
    """Cut a graph at the borders of tiles, each part in the zone of its tile.

    Every piece of an edge is in one tile. What becomes of an edge depends on that edge alone, so
    that a part of a network is cut as the whole is. An attribute stays that of the edge; of
    `travel_time_s` a piece has its part by length.

    Args:
        graph: roads in a metric CRS on earth.
        km: side of the tiles.

    Raises:
        DataError: if a road lies beyond the latitudes that UTM covers.
    """
    tiles: dict[Tile, RoadGraph] = {}
    for (zone, is_south), part in _by_zone(graph):
        side_m = km * 1000.0
        pieces = _cut_at(part, partial(_square_cuts, side_m=side_m))
        cells = tile_cells(_middles(pieces), side_m, is_south=is_south)
        squares, owner = np.unique(cells, axis=0, return_inverse=True)
        for number, (col, row) in enumerate(squares.tolist()):
            tile = Tile(zone, is_south, km, col, row)
            tiles[tile] = take_edges(pieces, owner.ravel() == number)
    return dict(sorted(tiles.items()))


def border_ids(nodes: Floats, crs: CRS, *, km: int) -> NDArray[np.object_]:
    """Return the ids of nodes that lie on borders of tiles, "" for all others, shape (n,).

    Args:
        nodes: shape (n, 2), in metres of a zone of UTM.
        crs: this zone.
        km: side of the tiles.
    """
    ids = np.full(len(nodes), "", dtype=object)
    if len(nodes) == 0:
        return ids
    zone, is_south = zone_of(crs)
    side_m = km * 1000.0
    on_side = np.abs(nodes - np.round(nodes / side_m) * side_m) <= ON_BORDER_M
    for row in np.flatnonzero(on_side.any(axis=1)):
        x, y = nodes[row].round(DECIMALS) + 0.0
        # The equator is a border between the north and the south of a zone.
        if is_south and y == SOUTH_M:
            y, letter = 0.0, "N"
        else:
            letter = "S" if is_south else "N"
        ids[row] = f"{zone:02d}{letter} {x:.{DECIMALS}f} {y:.{DECIMALS}f}"
    lon, lat = transformer(crs, DEGREES).transform(*nodes.T)
    meridian = np.round(lon / ZONE_DEG) * ZONE_DEG
    for row in np.flatnonzero(np.abs(lon - meridian) <= _ON_MERIDIAN_DEG):
        degrees = (meridian[row] + 180) % 360 - 180
        ids[row] = f"{degrees:+04.0f} {lat[row]:+.{LAT_DECIMALS}f}"
    return ids


def join_tiles(tiles: Mapping[Tile, RoadGraph], *, crs: CRS, within_m: float) -> JoinedTiles:
    """Join the graphs of tiles at the nodes that they share.

    An end at a border which the other tile lacks is joined to the nearest such end in another
    tile, if that is near enough. Edges of equal attributes become one where two of them meet.

    Args:
        tiles: the graph of each, in the CRS of its zone, with equally large squares.
        crs: metric CRS of the result.
        within_m: how far ends at a border may be apart.
    """
    graphs = list(tiles.values())
    kms = [tile.km for tile in tiles]
    ids = np.concatenate(
        [
            np.zeros(0, dtype=object),
            *(border_ids(g.nodes, g.crs, km=km) for g, km in zip(graphs, kms, strict=True)),
        ]
    )
    if not graphs:
        empty = RoadGraph(crs, np.zeros((0, 2)), np.zeros((0, 2), int), np.array([], object))
        return JoinedTiles(empty, 0, 0, 0)
    graph, part = side_by_side([in_crs(graph, crs) for graph in _with_equal_columns(graphs)])
    graph, part, ids, shared = _share_nodes(graph, part, ids)
    ends = np.flatnonzero((ids != "") & (graph.degree == 1))
    pairs = ends[nearest_pairs(graph.nodes[ends], part[ends], within=within_m)]
    loose = len(ends) - 2 * len(pairs)
    graph = unite(graph, pairs) if len(pairs) else graph
    return JoinedTiles(merge_chains(graph), shared, len(pairs), loose)


def _with_equal_columns(graphs: Sequence[RoadGraph]) -> list[RoadGraph]:
    """Return graphs with the attributes of all; what one lacks is NaN, or None for texts."""
    kinds: dict[str, bool] = {}
    for graph in graphs:
        for name, column in graph.attributes.items():
            kinds[name] = kinds.get(name, True) and column.dtype.kind in "biuf"

    def columns(graph: RoadGraph) -> dict[str, NDArray[Any]]:
        lacks = {
            name: np.full(len(graph.lines), np.nan if is_number else None)
            for name, is_number in kinds.items()
        }
        return {name: graph.attributes.get(name, lacks[name]) for name in kinds}

    return [replace(graph, attributes=columns(graph)) for graph in graphs]


def move_ends(graph: RoadGraph, places: Floats) -> RoadGraph:
    """Move nodes, and with them the ends of edges; nodes that come to one place become one.

    Args:
        graph: roads in metres.
        places: shape (n, 2), where each node is to be.
    """
    moved = np.flatnonzero((places != graph.nodes).any(axis=1)[graph.ends].any(axis=1))
    first, node = unique_pairs(places)
    return lead_to_nodes(replace(graph, nodes=places[first], ends=node[graph.ends]), moved)


def _by_zone(graph: RoadGraph) -> Iterator[tuple[tuple[int, bool], RoadGraph]]:
    """Cut a graph at the borders of zones; yield each zone with its part in the CRS of the zone."""
    if len(graph.lines) == 0:
        return
    to_degrees = transformer(graph.crs, DEGREES)
    lon, lat = to_degrees.transform(*graph.nodes.T)
    if not (np.isfinite(lon).all() and lat.min() >= SOUTHMOST and lat.max() <= NORTHMOST):
        raise DataError(
            f"found roads from latitude {np.min(lat):.2f} to {np.max(lat):.2f}, expected "
            f"{SOUTHMOST:g} to {NORTHMOST:g}, which tiles cover; leave the others out"
        )
    pieces = _cut_at(graph, partial(_zone_cuts, crs=graph.crs))
    middles = np.column_stack(to_degrees.transform(*_middles(pieces).T))
    zones, is_south = zones_at(middles)
    number = zones * 2 + is_south
    for each in np.unique(number).tolist():
        zone, south = divmod(each, 2)
        crs = CRS.from_epsg(zone_epsg(zone, is_south=bool(south)))
        part = in_crs(take_edges(pieces, number == each), crs)
        yield (zone, bool(south)), part


def _cut_at(graph: RoadGraph, cuts: _Cuts) -> RoadGraph:
    """Return a graph whose edges are cut, with nodes there; ends that meet at a cut are one node.

    Args:
        graph: roads.
        cuts: returns for coordinates, shape (k, 2), the segments that are cut, each with the places
            on it, as its share and x and y; and which of the coordinates are cuts themselves.
    """
    xy, line = shapely.get_coordinates(graph.lines, return_index=True)
    inner, is_cut = cuts(xy)
    same = line[:-1] == line[1:]
    inner = {row: places for row, places in inner.items() if same[row]}
    is_end = np.ones(len(xy), dtype=bool)
    is_end[1:-1] = (line[1:-1] != line[:-2]) | (line[1:-1] != line[2:])
    touched = np.unique(line[[*inner, *np.flatnonzero(is_cut & ~is_end)]].astype(np.int64))
    if len(touched) == 0:
        return graph
    starts = np.searchsorted(line, touched)
    stops = np.searchsorted(line, touched, side="right")
    source, pieces = [], []
    for edge, start, stop in zip(touched.tolist(), starts.tolist(), stops.tolist(), strict=True):
        for piece in _pieces(xy[start:stop], start, inner, is_cut):
            source.append(edge)
            pieces.append(piece)
    return _with_pieces(graph, touched, np.array(source, dtype=np.int64), pieces)


def _pieces(xy: Floats, start: int, inner: Mapping[int, _Points], is_cut: Bools) -> list[Floats]:
    """Return the coordinates of the pieces of one line."""
    pieces: list[Floats] = []
    open_piece = [xy[0]]
    for step in range(1, len(xy)):
        for _, place in sorted(inner.get(start + step - 1, []), key=lambda cut: cut[0]):
            if (place != open_piece[-1]).any():
                open_piece.append(place)
            if len(open_piece) > 1:
                pieces.append(np.array(open_piece))
            open_piece = [place]
        if (xy[step] != open_piece[-1]).any():
            open_piece.append(xy[step])
        if (is_cut[start + step] or step == len(xy) - 1) and len(open_piece) > 1:
            pieces.append(np.array(open_piece))
            open_piece = [xy[step]]
    return pieces


def _with_pieces(
    graph: RoadGraph, touched: Ints, source: Ints, pieces: Sequence[Floats]
) -> RoadGraph:
    """Replace edges by pieces of them, which begin and end at nodes by their place."""
    whole = np.setdiff1d(np.arange(len(graph.lines)), touched)
    tips = np.array([piece[[0, -1]] for piece in pieces]).reshape(-1, 2)
    is_first = np.diff(source, prepend=-1) != 0
    is_last = np.diff(source, append=-1) != 0
    is_new = ~np.column_stack([is_first, is_last])
    first, number = unique_pairs(tips[is_new.ravel()])
    ends = graph.ends[source].copy()
    ends[is_new] = len(graph.nodes) + number
    lines: Lines = np.array([shapely.LineString(piece) for piece in pieces], dtype=object)
    length_m = shapely.length(lines)
    part = length_m / np.bincount(source, weights=length_m, minlength=len(graph.lines))[source]
    owner = np.concatenate([whole, source])
    cut = RoadGraph(
        graph.crs,
        np.concatenate([graph.nodes, tips[is_new.ravel()][first]]),
        np.concatenate([graph.ends[whole], ends]),
        np.concatenate([graph.lines[whole], lines]),
        part_attributes(graph.attributes, owner, np.concatenate([np.ones(len(whole)), part])),
    )
    return take_edges(cut, np.argsort(owner, kind="stable"))


def _square_cuts(xy: Floats, side_m: float) -> tuple[dict[int, _Points], Bools]:
    """Return where segments cross the sides of squares, see `_cut_at`."""
    cuts: dict[int, _Points] = {}
    is_cut = (np.abs(xy - np.round(xy / side_m) * side_m) <= ON_BORDER_M).any(axis=1)
    for axis in (0, 1):
        low = np.minimum(xy[:-1, axis], xy[1:, axis])
        high = np.maximum(xy[:-1, axis], xy[1:, axis])
        first, last = np.floor(low / side_m) + 1, np.ceil(high / side_m) - 1
        for row in np.flatnonzero(first <= last).tolist():
            for side in np.arange(first[row], last[row] + 1) * side_m:
                if min(side - low[row], high[row] - side) > ON_BORDER_M:
                    cuts.setdefault(row, []).append(_crossing(xy[row], xy[row + 1], axis, side))
    return cuts, np.asarray(is_cut)


def _crossing(start: Floats, end: Floats, axis: int, side: float) -> tuple[float, Floats]:
    """Return where a segment crosses a side: its share, and the place, in whole millimetres."""
    # Drawn the other way round, a segment crosses at the same place.
    a, b = sorted([start.tolist(), end.tolist()])
    share = (side - a[axis]) / (b[axis] - a[axis])
    place = np.array([side, side])
    place[1 - axis] = round(a[1 - axis] + share * (b[1 - axis] - a[1 - axis]), DECIMALS) + 0.0
    return (side - start[axis]) / (end[axis] - start[axis]), place


def _zone_cuts(xy: Floats, crs: CRS) -> tuple[dict[int, _Points], Bools]:
    """Return where segments cross the meridians between zones, or the equator, see `_cut_at`."""
    lon, lat = transformer(crs, DEGREES).transform(*xy.T)
    meridian = np.round(lon / ZONE_DEG) * ZONE_DEG
    is_cut = (np.abs(lon - meridian) <= _ON_MERIDIAN_DEG) | (np.abs(lat) <= _ON_MERIDIAN_DEG)
    cuts: dict[int, _Points] = {}
    off = is_cut[:-1] | is_cut[1:]
    zone = np.floor((lon + 180) / ZONE_DEG)
    for row in np.flatnonzero((zone[:-1] != zone[1:]) & ~off).tolist():
        a, b = sorted([xy[row].tolist(), xy[row + 1].tolist()])
        here = lon[[row, row + 1]]
        # On the date line degrees of one side go on beyond 180.
        here = np.where(here < 0, here + 360, here) if np.ptp(here) > 180 else here  # noqa: PLR2004
        at = np.floor(here.max() / ZONE_DEG) * ZONE_DEG
        if here.min() < at < here.max():
            cuts.setdefault(row, []).append(_on_meridian(xy[row], np.array([a, b]), at, crs))
    for row in np.flatnonzero(((lat[:-1] < 0) != (lat[1:] < 0)) & ~off).tolist():
        equator = SOUTH_M if zone_of(crs)[1] else 0.0
        cuts.setdefault(row, []).append(_crossing(xy[row], xy[row + 1], 1, equator))
    return cuts, np.asarray(is_cut)


def _on_meridian(start: Floats, ends: Floats, meridian: float, crs: CRS) -> tuple[float, Floats]:
    """Return where a segment crosses a meridian: its share, and the place in the CRS."""
    to_degrees = transformer(crs, DEGREES)

    def off(share: float) -> tuple[float, float]:
        lon, lat = to_degrees.transform(*(ends[0] + share * (ends[1] - ends[0])))
        return (lon - meridian + 180) % 360 - 180, lat

    low, high, share = 0.0, 1.0, 0.5
    for _ in range(_STEPS):
        (here, _), (there, _) = off(low), off(high)
        share = low if here == there else low - here * (high - low) / (there - here)
        low, high = (share, high) if abs(here) > abs(there) else (low, share)
    _, lat = off(share)
    place = place_on_meridian(meridian, lat, crs)
    is_turned = (ends[0] != start).any()
    return (1 - share if is_turned else share), place


def place_on_meridian(meridian: float, lat: float, crs: CRS) -> Floats:
    """Return the place of a node on a meridian between zones, its latitude rounded."""
    x, y = transformer(DEGREES, crs).transform(meridian, round(lat, LAT_DECIMALS))
    return np.array([x, y])


def _middles(graph: RoadGraph) -> Floats:
    """Return the place in the middle of the length of each edge, shape (m, 2)."""
    return shapely.get_coordinates(
        shapely.line_interpolate_point(graph.lines, 0.5, normalized=True)
    )


def _share_nodes(
    graph: RoadGraph, part: Ints, ids: NDArray[np.object_]
) -> tuple[RoadGraph, Ints, NDArray[np.object_], int]:
    """Make one node of those with the same id.

    Returns:
        The graph, the tile and the id of each of its nodes, and how many nodes were shared.
    """
    first: dict[str, int] = {}
    node = np.arange(len(graph.nodes))
    for row in np.flatnonzero(ids != "").tolist():
        node[row] = first.setdefault(ids[row], row)
    shared = len(np.unique(node[node != np.arange(len(node))]))
    moved = np.flatnonzero((node[graph.ends] != graph.ends).any(axis=1))
    used, ends = np.unique(node[graph.ends], return_inverse=True)
    joined = replace(graph, nodes=graph.nodes[used], ends=ends.reshape(-1, 2))
    # The ends lie there already, but for rounding between zones.
    return lead_to_nodes(joined, moved), part[used], ids[used], shared
