"""Tables of a road graph: its nodes and its edges, with the names of OSMnx."""

from typing import Any

import geopandas as gpd
import numpy as np
import pandas as pd
import shapely

from roadseg.arrays import Array, Ints
from roadseg.roads.graph.road_graph import TRAVEL_TIME, RoadGraph

EDGE_COLUMNS = ("u", "v", "key", "length", "geometry")  # Columns that are not attributes.

_FILE_NAMES = {TRAVEL_TIME: "travel_time", "width_m": "width"}  # Attributes that OSMnx names so.
_OUR_NAMES = {theirs: ours for ours, theirs in _FILE_NAMES.items()}
_FLAGS = ("inferred", "speed_known")  # Attributes that are 0 or 1.
_OWN = {*EDGE_COLUMNS, "osmid"}


def node_table(graph: RoadGraph) -> gpd.GeoDataFrame:
    """Return the nodes: osmid (the row), x and y in metres, and street_count.

    street_count is the number of edge ends at the node.
    """
    x, y = graph.nodes.reshape(-1, 2).T
    columns = {
        "osmid": np.arange(len(x)),
        "x": x,
        "y": y,
        "street_count": graph.degree,
    }
    return gpd.GeoDataFrame(columns, geometry=shapely.points(x, y), crs=graph.crs)


def edge_table(graph: RoadGraph) -> gpd.GeoDataFrame:
    """Return the edges: osmid (the row), u, v, key, length in metres, the attributes, the line.

    u and v are the osmid of the first and last node of the line, key is 0, 1, ... among the edges
    of the same two nodes. Of the attributes travel_time_s is named travel_time, width_m width.

    Raises:
        ValueError: if an attribute has the name of one of these columns.
    """
    attributes = {_FILE_NAMES.get(name, name): col for name, col in graph.attributes.items()}
    reserved = sorted(_OWN & set(attributes))
    if reserved:
        raise ValueError(
            f"attributes cannot have the names {reserved}, which are columns of the file"
        )
    columns = {
        "osmid": np.arange(len(graph.lines)),
        "u": graph.ends[:, 0],
        "v": graph.ends[:, 1],
        "key": _keys(graph.ends),
        "length": graph.length_m,
        **attributes,
    }
    return gpd.GeoDataFrame(columns, geometry=graph.lines, crs=graph.crs)


def attributes_of(table: pd.DataFrame) -> dict[str, Array]:
    """Return the attributes that `edge_table` made columns of; texts that are missing are None.

    Columns with the names of its own in capitals are left out: a GeoPackage cannot hold both.
    """
    names = [name for name in table.columns if name.lower() not in _OWN]
    return {_OUR_NAMES.get(name, name): _values(name, table[name]) for name in names}


def _keys(ends: Ints) -> Ints:
    """Number the edges between the same two nodes, whatever their direction, from 0."""
    low, high = np.sort(ends, axis=1).T
    table = pd.DataFrame({"low": low, "high": high})
    return table.groupby(["low", "high"]).cumcount().to_numpy().astype(np.int64)


def _values(name: str, column: "pd.Series[Any]") -> Array:
    if name in _FLAGS:
        # Edges that were drawn by hand in other programs have no value, or one of their own.
        return (pd.to_numeric(column, errors="coerce").fillna(0) != 0).to_numpy(dtype=np.uint8)
    if pd.api.types.is_numeric_dtype(column):
        return column.to_numpy()
    texts = column.to_numpy(dtype=object, copy=True)
    texts[column.isna().to_numpy()] = None
    return texts
