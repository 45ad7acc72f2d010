"""Roads drawn for tests by the vertices of their lines, in metres."""

import numpy as np
import shapely
from pyproj import CRS

from roadseg.roads.graph.road_graph import RoadGraph, graph_from_lines

UTM = CRS.from_epsg(32611)


def lines_of(*roads):
    """Return lines through vertices as an array."""
    return np.array([*map(shapely.LineString, roads), None], dtype=object)[:-1]


def drawn(*roads, crs=UTM, **columns):
    """Draw roads that are joined where they share a vertex."""
    return graph_from_lines(lines_of(*roads), crs, columns)


def edges_of(*roads, crs=UTM, **columns):
    """Draw a graph of one edge a road, with a node at each different end."""
    ends = np.array([point for road in roads for point in (road[0], road[-1])], dtype=float)
    nodes, rows = np.unique(ends.reshape(-1, 2), axis=0, return_inverse=True)
    return RoadGraph(crs, nodes, rows.reshape(-1, 2), lines_of(*roads), columns)


def vertices_of(graph):
    """Return the vertices of every edge, as `drawn` takes them."""
    return [shapely.get_coordinates(line).tolist() for line in graph.lines]
