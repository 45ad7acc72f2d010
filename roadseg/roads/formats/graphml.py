"""GraphML: the road graphs of osmnx, networkx and our own, read; our own, written."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import ParseError

import numpy as np
import pandas as pd
import shapely
from pyproj import CRS
from pyproj.exceptions import CRSError
from shapely.errors import ShapelyError

from roadseg.arrays import Array, Floats, Ints, Lines, Objects
from roadseg.errors import DataError
from roadseg.raster.grid import DEGREES, LOCAL_CRS, is_local, transformer, utm_epsg
from roadseg.roads.formats.osm_xml import xml_text
from roadseg.roads.formats.tables import attributes_of, edge_table, node_table
from roadseg.roads.graph.joining import to_crs
from roadseg.roads.graph.road_graph import (
    TRAVEL_TIME,
    RoadGraph,
    are_reversed,
    edge_keys,
    end_points,
    without_duplicate_edges,
)
from roadseg.roads.labels.schemes import OWN_SPEED, TIMES, stated_travel, wanted_keys
from roadseg.roads.labels.traffic import CARS, ONE_WAY, SPEED_SOURCE
from roadseg.roads.options import LabelOptions
from roadseg.system.files import atomic_write
from roadseg.system.text import first, one_line

_APART_M = 100.0  # Metres; an edge further than this from its nodes is in another CRS.
_PLACES = ("geometry", "id", "reversed")  # Attributes of edges that say where they are.

Network = Any  # One of the four classes of graphs in networkx.


def read_graphml(path: Path) -> RoadGraph:
    """Read the roads of a GraphML file, in metres.

    Nodes have x and y, edges a line as WKT in `geometry`, or none if they are straight. An edge
    that is there in both directions, or twice with the same line, is read once. Of its attributes
    speed (as `speed_kph`) and travel time (as `travel_time_s`) are read by the rules for labels
    (`schemes.stated_travel`), NaN where an edge has none, and classes, names and access as
    `traffic.Traffic` has them; all other attributes are numbers if all of their values are, else
    texts. `oneway` is 1 for an edge of a directed graph that is not there in the other direction;
    loops are one-way if they say so, and edges of an undirected graph never.

    Args:
        path: the file; the CRS is that of the graph's attribute `crs`. Without it x and y that can
            be degrees are taken for longitude and latitude.

    Returns:
        The graph in its own CRS if that is metric, else in UTM; its edges are sorted by their first
        nodes in the file.

    Raises:
        DataError: the file cannot be read, has nodes without x and y or edges with something else
            than lines, or its nodes and lines are in different CRSs.
    """
    import networkx as nx

    try:
        network = nx.read_graphml(path, force_multigraph=True)
    except (OSError, ParseError, nx.NetworkXError, LookupError, ValueError) as error:
        reason = one_line(error)
        raise DataError(
            f"{path}: cannot be read as GraphML ({type(error).__name__}: {reason:.200}); check "
            "that the file exists and is complete"
        ) from error
    return graph_of_network(network, str(path))


def graph_of_network(network: Network, name: str) -> RoadGraph:
    """Return the roads of a graph of networkx, as `read_graphml` does those of its file.

    Args:
        network: lines of edges are WKT or shapely's.
        name: of the file or of the graph, for errors.

    Raises:
        DataError: see `read_graphml`.
    """
    nodes = _nodes(name, network)
    row = {node: row for row, node in enumerate(network.nodes)}
    edges = list(network.edges(data=True))
    ends = np.array([(row[start], row[goal]) for start, goal, _ in edges], dtype=np.int64)
    ends, facts = ends.reshape(-1, 2), [each for *_, each in edges]
    others = sorted({key for each in facts for key in each if key.startswith("geometry_")})
    if others and not any("geometry" in each for each in facts):  # CRESI has several.
        raise DataError(
            f"{name}: the lines of edges are in {first(others)}, expected geometry in the CRS of "
            "the nodes; rename it"
        )
    lines = _lines(name, ends, nodes, [each.get("geometry") for each in facts])
    attributes = _attributes(facts)
    crs = _crs(name, network.graph.get("crs"), nodes)
    graph = RoadGraph(crs, nodes, ends, lines, attributes)
    attributes[ONE_WAY] = _one_way(graph, is_directed=network.is_directed())
    metric = _in_metres(name, graph)
    _check_ends(name, metric)
    return without_duplicate_edges(metric)


def _nodes(path: str, network: Network) -> Floats:
    """Return x and y of the nodes, shape (n, 2)."""
    facts = [each for _, each in network.nodes(data=True)]
    try:
        nodes = np.array([(each.get("x"), each.get("y")) for each in facts], dtype=np.float64)
    except (TypeError, ValueError):
        nodes = np.array([np.nan, np.nan])
    if not np.isfinite(nodes).all():
        raise DataError(
            f"{path}: a graph without geometry: not every node has numbers x and y; expected a "
            "graph such as osmnx.save_graphml writes"
        )
    return nodes.reshape(-1, 2)


def _crs(path: str, named: object, nodes: Floats) -> CRS:
    if named not in (None, ""):
        try:
            return CRS.from_user_input(named)
        except CRSError as error:
            raise DataError(f"{path}: its crs {named!s:.120} is unknown") from error
    if np.all(np.abs(nodes) <= [180, 90]):
        return DEGREES
    x, y = nodes[0]
    raise DataError(
        f"{path}: has no coordinate system, and x {x:.9g}, y {y:.9g} are not degrees; write it "
        "with a graph attribute crs, such as EPSG:32611"
    )


def _lines(path: str, ends: Ints, nodes: Floats, drawn: list[Any]) -> Lines:
    """Return the line of each edge, from its first node to its last; straight without one."""
    read = _column(drawn)
    is_text = np.array([isinstance(each, str) for each in drawn], dtype=bool)
    try:
        read[is_text] = shapely.from_wkt(read[is_text])
        is_drawn = ~shapely.is_missing(read)
        is_line = shapely.get_type_id(read[is_drawn]) == shapely.GeometryType.LINESTRING
    except (ShapelyError, TypeError):
        is_line = np.zeros(1, dtype=bool)
    if not np.all(is_line) or np.any(shapely.is_empty(read)):
        raise DataError(
            f"{path}: geometry of an edge is not a LineString (as WKT), expected centrelines of "
            "roads"
        )
    straight = shapely.linestrings(nodes[ends]) if len(ends) else read
    lines = np.where(is_drawn, np.asarray(shapely.force_2d(read)), np.asarray(straight))
    return np.where(are_reversed(lines, nodes[ends[:, 0]]), shapely.reverse(lines), lines)


def _attributes(facts: list[Mapping[str, Any]]) -> dict[str, Array]:
    """Return the speed, travel time and traffic of the edges, as far as they have them."""
    names = dict.fromkeys(key for edge in facts for key in edge)
    keys = wanted_keys(names, LabelOptions())
    columns = {key: _column([edge.get(key) for edge in facts]) for key in keys}
    speed_kph, seconds, traffic = stated_travel(columns, len(facts))
    stated = {OWN_SPEED: speed_kph, TRAVEL_TIME: seconds, ONE_WAY: traffic.one_way}
    stated |= traffic.attributes()
    read = {*TIMES, *_PLACES, ONE_WAY, CARS, SPEED_SOURCE, *stated}
    others = [key for key in names if key not in read]
    table = pd.DataFrame({key: _typed([edge.get(key) for edge in facts]) for key in others})
    return attributes_of(table) | stated


def _typed(values: list[Any]) -> Array:
    """Return values as numbers, if all that are there are numbers, else as texts; None for none."""
    texts = pd.Series([None if value is None else str(value) for value in values], dtype=object)
    numbers = pd.to_numeric(texts, errors="coerce")
    is_text = numbers.isna() & texts.notna() & (texts != "nan")
    return texts.to_numpy(dtype=object) if is_text.any() else numbers.to_numpy()


def _column(values: list[Any]) -> Objects:
    """Return values as they are, even lists."""
    return np.fromiter(values, dtype=object, count=len(values))


def _one_way(graph: RoadGraph, *, is_directed: bool) -> Ints:
    """Return 1 for each edge of a directed graph that is not there in the other direction, else 0.

    For loops counts what `oneway` says.
    """
    if not is_directed:
        return np.zeros(len(graph.ends), dtype=np.int64)
    (first, last), roads = graph.ends.T, edge_keys(graph)
    rises = (first < last).tolist()
    driven = set(zip(roads, rises, strict=True))
    is_alone = [(road, not up) not in driven for road, up in zip(roads, rises, strict=True)]
    stated = np.abs(graph.attributes[ONE_WAY])
    return np.where(first == last, stated, is_alone).astype(np.int64)


def _in_metres(path: str, graph: RoadGraph) -> RoadGraph:
    if is_local(graph.crs):
        return replace(graph, crs=LOCAL_CRS)
    is_metric = graph.crs.is_projected and graph.crs.axis_info[0].unit_name == "metre"
    if is_metric or len(graph.nodes) == 0:
        return graph
    middle = (graph.nodes.min(axis=0) + graph.nodes.max(axis=0)) / 2
    lon, lat = transformer(graph.crs, DEGREES).transform(*middle)
    if not (np.isfinite(lon) and abs(lat) <= 90):  # noqa: PLR2004 - degrees
        raise DataError(
            f"{path}: x {middle[0]:.9g}, y {middle[1]:.9g} is not a valid position in "
            f"{graph.crs.name}"
        )
    return to_crs(graph, CRS.from_epsg(utm_epsg(lon, lat)))


def _check_ends(path: str, graph: RoadGraph) -> None:
    """Refuse lines that do not lie at their nodes."""
    apart = end_points(graph.lines) - graph.nodes[graph.ends]
    away = np.hypot(apart[..., 0], apart[..., 1])
    if not np.all(away <= _APART_M):
        raise DataError(
            f"{path}: the line of an edge is {np.nanmax(away):.0f} m away from its node; expected "
            "nodes and geometry in one CRS, that of the graph's attribute crs"
        )


_DECIMALS = 9  # Decimals of a degree, which are 0.1 mm; for metres they do no harm.
_HEAD = """<?xml version="1.0" encoding="UTF-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key id="crs" for="graph" attr.name="crs" attr.type="string"/>
<key id="geometry" for="edge" attr.name="geometry" attr.type="string"/>
"""
_TAIL = "</graph>\n</graphml>\n"
_ENDS = ["u", "v", "key"]


def write_graphml(path: Path, graph: RoadGraph) -> None:
    """Write a graph as GraphML for `osmnx.load_graphml`: a directed multigraph in degrees.

    Nodes have x and y (longitude and latitude), and street_count. Every edge is
    written in both directions, a loop and a one-way road once, with osmid (the row of the edge),
    oneway, the columns of `write_gpkg`, and its line in its direction as WKT. Missing values and
    empty texts are left out. All values are text, as osmnx expects; it makes numbers of the columns
    that it knows, and of others where its `edge_dtypes` says so.
    Of a scene without georeference the coordinates are its metres as they are, in a local CRS.

    Raises:
        ValueError: if an attribute has the name of a column of the file.
        OutputError: if the file cannot be written.
    """
    edges = edge_table(graph)
    placed, crs = graph, graph.crs.to_wkt()
    if not is_local(graph.crs):
        placed, crs = to_crs(graph, DEGREES), "epsg:4326"
    x, y = ([f"{value:.{_DECIMALS}f}" for value in axis] for axis in placed.nodes.T)
    nodes = node_table(graph)[["street_count"]].assign(x=x, y=y)
    one_way = graph.column(ONE_WAY, 0.0)
    facts = edges.drop(columns=["geometry", *_ENDS])
    facts = facts.assign(**{ONE_WAY: (one_way != 0).astype(str)})
    with atomic_write(path) as partial, partial.open("w", encoding="utf-8", newline="\n") as file:
        file.write(_HEAD)
        file.writelines(_key_elements("node", nodes))
        file.writelines(_key_elements("edge", facts))
        file.write(f'<graph edgedefault="directed"><data key="crs">{xml_text(crs)}</data>\n')
        file.writelines(
            f'<node id="{node}">{data}</node>\n' for node, data in enumerate(_data("node", nodes))
        )
        rows = zip(edges[_ENDS].to_numpy().tolist(), one_way.tolist(), strict=True)
        file.writelines(_edge_elements(rows, _data("edge", facts), placed.lines))
        file.write(_TAIL)


def _key_elements(part: str, table: pd.DataFrame) -> Iterator[str]:
    """Yield the declarations of columns."""
    for number, name in enumerate(table.columns):
        yield (
            f'<key id="{part}{number}" for="{part}" attr.name="{xml_text(name)}"'
            ' attr.type="string"/>\n'
        )


def _data(part: str, table: pd.DataFrame) -> Iterator[str]:
    """Yield the values of each row that are not missing."""
    columns = [
        [
            f'<data key="{part}{number}">{xml_text(value)}</data>' if has_value else ""
            for value, has_value in zip(column, column.notna() & (column != ""), strict=True)
        ]
        for number, (_, column) in enumerate(table.items())
    ]
    return map("".join, zip(*columns, strict=True))


def _edge_elements(
    rows: Iterable[tuple[list[int], int]], facts: Iterator[str], lines: Lines
) -> Iterator[str]:
    """Yield the edges in the directions in which they are driven, loops once.

    Args:
        rows: first node, last node and key of each edge, and whether it is one-way.
        facts: elements of the attributes of each.
        lines: shape (m,), from the first node to the last.
    """
    there, back = (
        shapely.to_wkt(drawn, rounding_precision=_DECIMALS)
        for drawn in (lines, shapely.reverse(lines))
    )
    for ((u, v, key), one_way), data, line, reverse in zip(rows, facts, there, back, strict=True):
        if one_way >= 0:
            yield _edge(u, v, key, data, line)
        if one_way < 0 or (one_way == 0 and u != v):
            yield _edge(v, u, key, data, reverse)


def _edge(start: int, end: int, key: int, data: str, wkt: str) -> str:
    drawn = f'<data key="geometry">{wkt}</data>'
    return f'<edge source="{start}" target="{end}" id="{key}">{data}{drawn}</edge>\n'
