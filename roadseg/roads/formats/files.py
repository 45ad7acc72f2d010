"""Graphs as GeoPackage, written and read."""

from pathlib import Path
from xml.etree import ElementTree as ET

import geopandas as gpd
import numpy as np
import pandas as pd
import pyogrio
import shapely
from pyogrio.errors import DataLayerError, DataSourceError

from roadseg.errors import DataError
from roadseg.raster.grid import LOCAL_CRS, is_local
from roadseg.roads.formats.gpkg_styles import (
    STYLE_LAYER,
    edge_renderer,
    layer_styles,
    node_renderer,
)
from roadseg.roads.formats.layers import write_gpkg_layers
from roadseg.roads.formats.tables import EDGE_COLUMNS, attributes_of, edge_table, node_table
from roadseg.roads.graph.road_graph import RoadGraph
from roadseg.system.files import atomic_write
from roadseg.system.text import one_line

_EXPECTED = "expected a GeoPackage of `roadseg graph`"


def write_gpkg(
    path: Path,
    graph: RoadGraph,
    *,
    edge_style: ET.Element | None = None,
) -> None:
    """Write a graph as GeoPackage in its own CRS; that of a scene without georeference is local.

    Layer `nodes`: osmid (the row of the node), x and y in metres, street_count. Layer
    `edges`: osmid, u and v (osmid of the first and last node of the line), key (0, 1, ... among the
    edges of the same two nodes), length in metres, and the attributes, `travel_time_s` as
    travel_time and `width_m` as width. Table `layer_styles` tells QGIS how to show them.

    Args:
        edge_style: renderer of the edges; None for that of `edge_renderer`.

    Raises:
        ValueError: if an attribute has the name of one of these columns.
        OutputError: if the file cannot be written.
    """
    edges, nodes = edge_table(graph), node_table(graph)
    style = edge_renderer(edges) if edge_style is None else edge_style
    styles = layer_styles({"nodes": node_renderer(), "edges": style})
    layers = {"nodes": nodes, "edges": edges, STYLE_LAYER: styles}
    with atomic_write(path) as partial:
        write_gpkg_layers(partial, layers, geometry_types={"nodes": "Point"})


def read_gpkg(path: Path) -> RoadGraph:
    """Read a graph that `write_gpkg` wrote: the same CRS, nodes, edges, lines and attributes.

    Other programs may have written the file again: u, v and osmid may be texts or floats by now,
    and x and y those of another CRS, so that nodes are read from their points.

    Raises:
        DataError: if the file cannot be read, or does not hold such a graph.
    """
    nodes = _read(path, "nodes", ("osmid", "geometry"))
    edges = _read(path, "edges", EDGE_COLUMNS)
    # Edges name their nodes by osmid, which other programs may have made texts or floats.
    osmid, named = (
        pd.Index(pd.to_numeric(ids, errors="coerce"), dtype=np.float64)
        for ids in (nodes["osmid"].to_numpy(), edges[["u", "v"]].to_numpy().ravel())
    )
    ends = osmid.get_indexer(named) if osmid.is_unique else np.array([-1])
    lines = edges.geometry.to_numpy(dtype=object)
    # Other programs make collections of one line of lines.
    is_one = shapely.get_num_geometries(lines) == 1
    lines = np.where(is_one, shapely.get_geometry(lines, 0), lines)
    points = nodes.geometry.to_numpy(dtype=object)
    if not (
        np.all(ends >= 0)
        and not osmid.hasnans
        and np.all(shapely.get_type_id(lines) == shapely.GeometryType.LINESTRING)
        and np.all(shapely.get_type_id(points) == shapely.GeometryType.POINT)
        and not np.any(shapely.is_empty(points))
    ):
        raise DataError(
            f"{path}: its nodes and edges are not a graph; {_EXPECTED}, with a point for each node "
            "(osmid) and a line for each edge, from a node (u) to another (v)"
        )
    return RoadGraph(
        crs=LOCAL_CRS if is_local(edges.crs) else edges.crs,
        nodes=shapely.get_coordinates(points),
        ends=ends.reshape(-1, 2).astype(np.int64),
        lines=lines,
        attributes=attributes_of(edges),
    )


def is_traced(path: Path) -> bool:
    """Return whether a file is a GeoPackage of roads that roadseg has traced."""
    try:
        return "inferred" in pyogrio.read_info(path, layer="edges")["fields"]
    except (DataSourceError, DataLayerError):
        return False


def _read(path: Path, layer: str, columns: tuple[str, ...]) -> gpd.GeoDataFrame:
    try:
        table = pyogrio.read_dataframe(path, layer=layer)
    except (DataSourceError, DataLayerError, OverflowError, ValueError) as error:
        reason = one_line(error)
        raise DataError(
            f"{path}: layer {layer} cannot be read ({reason:.200}); {_EXPECTED}"
        ) from error
    missing = [name for name in columns if name not in table.columns]
    if missing:
        raise DataError(f"{path}: layer {layer} has no column {missing[0]}; {_EXPECTED}")
    if table.crs is None or not (table.crs.is_projected or is_local(table.crs)):
        raise DataError(f"{path}: layer {layer} is not in a metric CRS ({table.crs}); {_EXPECTED}")
    return table
