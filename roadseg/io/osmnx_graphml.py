"""OsmnxGraphml: a road graph as GraphML that `osmnx.load_graphml` reads."""

from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import shapely

from roadseg.core.graphs import Ints, Lines, RoadGraph
from roadseg.io.files import whole
from roadseg.io.graph_tables import edge_table, in_degrees, is_local, node_table
from roadseg.io.xml_text import xml_text

_DECIMALS = 9  # of a degree, in text: 0.1 mm; of a metre they do no harm
_HEAD = """<?xml version="1.0" encoding="UTF-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key id="crs" for="graph" attr.name="crs" attr.type="string"/>
<key id="geometry" for="edge" attr.name="geometry" attr.type="string"/>
"""
_TAIL = "</graph>\n</graphml>\n"
_ENDS = ["u", "v", "key"]


def write_graphml(path: Path, graph: RoadGraph) -> None:
    """Write a graph as GraphML for `osmnx.load_graphml`: a directed multigraph in degrees.

    Nodes have x and y (longitude and latitude), street_count and maybe_bridge. Every edge is
    written in both directions, a loop once, with osmid (the row of the edge), oneway, the columns
    of `write_gpkg`, and its line in its direction as WKT. Missing values and empty texts are left
    out. All values are text, as osmnx expects; it makes numbers of the columns that it knows, and
    of others where its `edge_dtypes` says so.
    Of a scene without georeference the coordinates are its metres as they are, in a local CRS.

    Raises:
        ValueError: if an attribute has the name of a column of the file.
        OutputError: if the file cannot be written.
    """
    edges = edge_table(graph)
    lines, places, crs = graph.lines, graph.nodes, graph.crs.to_wkt()
    if not is_local(graph.crs):
        (lines, places), crs = in_degrees(graph), "epsg:4326"
    x, y = ([f"{value:.{_DECIMALS}f}" for value in axis] for axis in places.T)
    nodes = node_table(graph)[["street_count", "maybe_bridge"]].assign(x=x, y=y)
    facts = edges.drop(columns=["geometry", *_ENDS]).assign(oneway="False")
    with whole(path) as partial, partial.open("w", encoding="utf-8", newline="\n") as file:
        file.write(_HEAD)
        file.writelines(_keys("node", nodes))
        file.writelines(_keys("edge", facts))
        file.write(f'<graph edgedefault="directed"><data key="crs">{xml_text(crs)}</data>\n')
        file.writelines(
            f'<node id="{node}">{data}</node>\n' for node, data in enumerate(_data("node", nodes))
        )
        file.writelines(_edges(edges[_ENDS].to_numpy(), _data("edge", facts), lines))
        file.write(_TAIL)


def _keys(part: str, table: pd.DataFrame) -> Iterator[str]:
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
            f'<data key="{part}{number}">{xml_text(value)}</data>' if is_told else ""
            for value, is_told in zip(column.tolist(), _is_told(column), strict=True)
        ]
        for number, (_, column) in enumerate(table.items())
    ]
    return map("".join, zip(*columns, strict=True))


def _is_told(column: "pd.Series[str]") -> "pd.Series[bool]":
    return column.notna() & (column != "")


def _edges(ends: Ints, facts: Iterator[str], lines: Lines) -> Iterator[str]:
    """Yield the edges in both directions, loops once."""
    there, back = (
        shapely.to_wkt(drawn, rounding_precision=_DECIMALS)
        for drawn in (lines, shapely.reverse(lines))
    )
    for (u, v, key), data, line, reverse in zip(ends.tolist(), facts, there, back, strict=True):
        yield _edge(u, v, key, data, line)
        if u != v:
            yield _edge(v, u, key, data, reverse)


def _edge(start: int, end: int, key: int, data: str, wkt: str) -> str:
    drawn = f'<data key="geometry">{wkt}</data>'
    return f'<edge source="{start}" target="{end}" id="{key}">{data}{drawn}</edge>\n'
