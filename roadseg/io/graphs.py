"""Graphs: GeoPackage (written and read), GeoJSON and GraphML (written)."""

import errno
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import geopandas as gpd
import networkx as nx
import numpy as np
import pandas as pd
import pyogrio
import shapely
from numpy.typing import NDArray
from pyogrio.errors import DataLayerError, DataSourceError, FeatureError
from pyproj import CRS

from roadseg.core.graphs import TRAVEL_TIME, Floats, Lines, RoadGraph
from roadseg.core.grid import DEGREES, LOCAL_CRS, transformer
from roadseg.core.roads import reproject
from roadseg.errors import DataError
from roadseg.io.files import whole, write_error

_DECIMALS = 9  # of a degree, in text: 0.1 mm; of a metre they do no harm
_FILE_NAMES = {TRAVEL_TIME: "travel_time"}  # osmnx's name for it
_OUR_NAMES = {theirs: ours for ours, theirs in _FILE_NAMES.items()}
_STRUCTURE = ("u", "v", "key", "length", "geometry")  # edge columns that are no attributes
_LINE = 1  # shapely type id of LineString


def write_gpkg(path: Path, graph: RoadGraph) -> None:
    """Write a graph as GeoPackage in its own CRS; that of a scene without georeference is local.

    Layer `nodes`: osmid (the row of the node), x and y in metres. Layer `edges`: u and v (osmid
    of the first and last node of the line), key (0, 1, ... among the edges of the same two
    nodes), length in metres, and the attributes, `travel_time_s` as travel_time.

    Raises:
        ValueError: if an attribute has the name of one of these columns.
        OutputError: if the file cannot be written.
    """
    with whole(path) as partial:
        _write(partial, _node_table(graph), "Point", driver="GPKG", layer="nodes")
        _write(partial, _edge_table(graph), "LineString", driver="GPKG", layer="edges", append=True)
        _require_whole(_has_indices(partial))


def write_graphs(folder: Path, name: str, graph: RoadGraph) -> None:
    """Write a graph in every format: `<name>.gpkg`, `<name>.geojson` and `<name>.graphml`.

    Raises:
        OutputError: if a file cannot be written.
    """
    for suffix, write in (
        (".gpkg", write_gpkg),
        (".geojson", write_geojson),
        (".graphml", write_graphml),
    ):
        write(folder / f"{name}{suffix}", graph)


def read_graph(path: Path) -> RoadGraph:
    """Read a graph that `write_gpkg` wrote: the same CRS, nodes, edges, lines and attributes.

    Raises:
        DataError: if the file cannot be read, or does not hold such a graph.
    """
    nodes = _read(path, "nodes", ("osmid", "x", "y", "geometry"))
    edges = _read(path, "edges", _STRUCTURE)
    osmid = pd.Index(nodes["osmid"])
    if not osmid.is_unique:
        raise DataError(f"{path}: layer nodes has two nodes of one osmid")
    ends = osmid.get_indexer(pd.Index(edges[["u", "v"]].to_numpy().ravel()))
    if np.any(ends < 0):
        raise DataError(f"{path}: layer edges names a node (u or v) that layer nodes does not have")
    if np.any(shapely.get_type_id(edges.geometry.to_numpy(dtype=object)) != _LINE):
        raise DataError(f"{path}: layer edges has a geometry that is no LineString")
    names = [name for name in edges.columns if name not in _STRUCTURE]
    return RoadGraph(
        crs=LOCAL_CRS if _is_local(edges.crs) else edges.crs,
        nodes=nodes[["x", "y"]].to_numpy(dtype=np.float64),
        ends=ends.reshape(-1, 2).astype(np.int64),
        lines=edges.geometry.to_numpy(dtype=object),
        attributes={_OUR_NAMES.get(name, name): edges[name].to_numpy() for name in names},
    )


def write_geojson(path: Path, graph: RoadGraph) -> None:
    """Write the edges of a graph as GeoJSON in degrees, with the columns of `write_gpkg`.

    Of a scene without georeference the coordinates are its metres as they are; the file cannot
    say so, and a program that takes it for degrees will show it in the wrong place.

    Source: RFC 7946: longitude first, WGS 84, no crs member, seven decimals.

    Raises:
        ValueError: if an attribute has the name of a column of the file.
        OutputError: if the file cannot be written.
    """
    table = _edge_table(graph)
    options = {"driver": "GeoJSON", "layer": "edges"}
    with whole(path) as partial:
        if _is_local(graph.crs):
            _write(partial, table, "LineString", **options)
        else:
            _write(partial, table.to_crs(DEGREES), "LineString", **options, RFC7946="YES")
        _require_whole(_tail(partial).endswith(b"]\n}"))


def write_graphml(path: Path, graph: RoadGraph) -> None:
    """Write a graph as GraphML for `osmnx.load_graphml`: a directed multigraph in degrees.

    Nodes have x and y (longitude and latitude). Every edge is written in both directions, a
    loop once, with osmid (the row of the edge), oneway, the columns of `write_gpkg`, and its line
    in its direction as WKT. Missing values are left out. All values are text, as osmnx expects.
    Of a scene without georeference the coordinates are its metres as they are, in a local CRS.

    Raises:
        ValueError: if an attribute has the name of a column of the file.
        OutputError: if the file cannot be written.
    """
    network = _network(graph)
    with whole(path) as partial:
        nx.write_graphml(network, partial)


def _network(graph: RoadGraph) -> "nx.MultiDiGraph[int]":
    table = _edge_table(graph)
    lines, nodes, crs = _for_text(graph)
    there = shapely.to_wkt(lines, rounding_precision=_DECIMALS)
    back = shapely.to_wkt(shapely.reverse(lines), rounding_precision=_DECIMALS)
    network: nx.MultiDiGraph[int] = nx.MultiDiGraph(crs=crs)
    for node, (x, y) in enumerate(nodes):
        network.add_node(node, x=f"{x:.{_DECIMALS}f}", y=f"{y:.{_DECIMALS}f}")
    for row, record in enumerate(table.drop(columns="geometry").to_dict("records")):
        u, v, key = (record.pop(name) for name in ("u", "v", "key"))
        facts = {name: str(value) for name, value in record.items() if not pd.isna(value)}
        facts |= {"osmid": str(row), "oneway": "False"}
        network.add_edge(u, v, key, **facts, geometry=there[row])
        if u != v:
            network.add_edge(v, u, key, **facts, geometry=back[row])
    return network


def _for_text(graph: RoadGraph) -> tuple[Lines, Floats, str]:
    """Return lines and nodes in degrees, or as they are in a local CRS, and that CRS as text."""
    if _is_local(graph.crs):
        return graph.lines, graph.nodes, graph.crs.to_wkt()
    lon_lat = np.column_stack(transformer(graph.crs, DEGREES).transform(*graph.nodes.T))
    return reproject(graph.lines, graph.crs, DEGREES), lon_lat, "epsg:4326"


def _is_local(crs: CRS) -> bool:
    return crs.type_name == LOCAL_CRS.type_name


def _node_table(graph: RoadGraph) -> gpd.GeoDataFrame:
    x, y = graph.nodes.reshape(-1, 2).T
    columns = {"osmid": np.arange(len(x)), "x": x, "y": y}
    return gpd.GeoDataFrame(columns, geometry=shapely.points(x, y), crs=graph.crs)


def _edge_table(graph: RoadGraph) -> gpd.GeoDataFrame:
    attributes = {_FILE_NAMES.get(name, name): col for name, col in graph.attributes.items()}
    reserved = sorted({*_STRUCTURE, "osmid", "oneway"} & set(attributes))
    if reserved:
        raise ValueError(f"attributes must not be named {reserved}, the file has such columns")
    columns = {
        "u": graph.ends[:, 0],
        "v": graph.ends[:, 1],
        "key": _keys(graph.ends),
        "length": graph.length_m,
        **attributes,
    }
    return gpd.GeoDataFrame(columns, geometry=graph.lines, crs=graph.crs)


def _keys(ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number the edges between the same two nodes, whatever their direction, from 0."""
    low, high = np.sort(ends, axis=1).T
    table = pd.DataFrame({"low": low, "high": high})
    return table.groupby(["low", "high"]).cumcount().to_numpy().astype(np.int64)


def _write(path: Path, table: gpd.GeoDataFrame, geometry_type: str, **options: Any) -> None:  # noqa: ANN401 - as pyogrio takes them
    try:
        pyogrio.write_dataframe(table, path, geometry_type=geometry_type, **options)
    except (DataSourceError, DataLayerError, FeatureError) as error:
        raise write_error(path, str(error)) from error  # `whole` adds the final name


def _has_indices(path: Path) -> bool:
    """Say whether the layers of a GeoPackage have their spatial indices, which come last."""
    with closing(sqlite3.connect(path)) as file:
        names = {name for (name,) in file.execute("SELECT name FROM sqlite_master")}
    return names >= {"rtree_nodes_geom", "rtree_edges_geom"}


def _tail(path: Path) -> bytes:
    with path.open("rb") as file:
        file.seek(-8, os.SEEK_END)
        return file.read().rstrip()


def _require_whole(is_whole: bool) -> None:  # noqa: FBT001 - what was found of a file just closed
    """Refuse a file whose end is missing: GDAL closes it without a word when the disk is full."""
    if not is_whole:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _read(path: Path, layer: str, columns: tuple[str, ...]) -> gpd.GeoDataFrame:
    expected = "expected a graph that roadseg wrote as GeoPackage; run `roadseg graph`"
    try:
        table = pyogrio.read_dataframe(path, layer=layer)
    except (DataSourceError, DataLayerError) as error:
        raise DataError(f"{path}: layer {layer} cannot be read ({error}); {expected}") from error
    missing = [name for name in columns if name not in table.columns]
    if missing:
        raise DataError(f"{path}: layer {layer} has no column {missing[0]}; {expected}")
    if table.crs is None or not (table.crs.is_projected or _is_local(table.crs)):
        raise DataError(f"{path}: layer {layer} is not in a metric CRS ({table.crs}); {expected}")
    return table
