"""Roads drawn for tests by the vertices of their lines, in metres; masks and probabilities."""

import itertools
import json

import numpy as np
import shapely
from affine import Affine
from pyproj import CRS, Transformer

from roadseg.dataset.chips import ChipRecord
from roadseg.raster.grid import Grid
from roadseg.raster.images import read_grid
from roadseg.raster.windows import Window
from roadseg.roads.graph.road_graph import RoadGraph, graph_from_lines
from roadseg.roads.labels.roads import Roads
from roadseg.roads.labels.tags import Tags
from roadseg.roads.labels.traffic import read_traffic
from roadseg.roads.masks.mask_files import read_mask
from roadseg.roads.masks.probabilities import Probability, open_probability, write_probability
from roadseg.roads.metrics.pixels import LEVELS, Histogram
from roadseg.roads.speeds import DEFAULT_BINS

UTM = CRS.from_epsg(32611)
LAS_VEGAS = np.array([661300.0, 4005500.0])  # In this CRS.
PLACE = Affine(1, 0, 660000, 0, -1, 4000000)  # Near there, pixels of 1 m.


def grid_of(height, width):
    """Return a grid of pixels of 1 m."""
    return Grid(UTM, PLACE, height, width)


def pixels_of(text):
    """Return a mask that is drawn as words of "#" and ".", one a row."""
    return np.array([[mark == "#" for mark in row] for row in text.split()])


def labels_of(shapes, *, crs=UTM, speeds_mph=25.0, widths_m=4.0):
    """Return road labels of these shapes, whose speeds are stated in mph."""
    count = len(shapes)
    source = np.full(count, "speed_mph")
    return Roads(
        crs,
        np.array([*shapes, None], dtype=object)[:-1],
        speed_mph=np.broadcast_to(np.array(speeds_mph, dtype=float), count),
        speed_source=source,
        travel_time_s=np.full(count, np.nan),
        width_m=np.broadcast_to(np.array(widths_m, dtype=float), count),
        traffic=read_traffic(Tags({}, count), source, np.full(count, "")),
    )


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


def write_lines(path, lines, epsg, **facts):
    """Write lines, metres from a place in Las Vegas, as GeoJSON in any CRS; return the file."""
    move = Transformer.from_crs(UTM, epsg, always_xy=True)
    features = []
    for line in lines:
        xy = np.column_stack(move.transform(*(np.array(line) + LAS_VEGAS).T)).tolist()
        shape = {"type": "LineString", "coordinates": xy}
        features.append({"type": "Feature", "properties": facts, "geometry": shape})
    crs = {"type": "name", "properties": {"name": f"urn:ogc:def:crs:EPSG::{epsg}"}}
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"type": "FeatureCollection", "crs": crs, "features": features}))
    return path


def chip_at(
    name, x=0.0, y=0.0, *, side_m=100.0, scene=None, zone=32611, window=(0, 0, 9, 9), **shares
):
    """Return a chip that shows a square of ground, whose north-western corner lies at a place."""
    corners = ((x, y), (x + side_m, y), (x + side_m, y - side_m), (x, y - side_m))
    shares = {"road_share": 0.1, "valid_share": 1.0} | shares
    scene = scene or name.split("_")[0]
    return ChipRecord(name, scene, Window(*window), corners, zone, **shares)


def read_probability(path, *, gsd_m=None):
    """Read a probability raster, or a mask as certain probabilities, into memory."""
    opened = open_probability(path, gsd_m=gsd_m)
    pixels = opened.read_all(Window(0, 0, opened.grid.height, opened.grid.width))
    return Probability(
        opened.grid, *pixels, opened.speed_bins, opened.threshold, opened.edge_model, opened.extent
    )


def histogram(background, roads):
    """Return a histogram of two dictionaries from a byte to its pixels."""
    sides = np.zeros((2, LEVELS), dtype=np.int64)
    for side, pixels in zip(sides, (background, roads), strict=True):
        side[list(pixels)] = list(pixels.values())
    return Histogram(*sides)


def street_pieces(columns, rows):
    """Return the corners of a grid of streets, and straight and bowed pieces between them."""
    corners = list(itertools.product(columns, rows))
    straight = [
        [a, b]
        for a, b in itertools.combinations(corners, 2)
        if (a[0] == b[0] or a[1] == b[1]) and abs(a[0] - b[0]) < 130 and abs(a[1] - b[1]) < 100
    ]
    bowed = [[a, ((a[0] + b[0]) / 2 + 9, (a[1] + b[1]) / 2 + 9), b] for a, b in straight]
    return corners, straight + bowed


def predict_the_labels(workspace, scene, *, start=0.0, stop=1.0):
    """Write the mask of a scene, or a share of its rows, in place of what was predicted for it."""
    mask = read_mask(workspace.mask(scene))
    mask[: int(start * len(mask))] = mask[int(stop * len(mask)) :] = 0
    values = [*(mask == number for number in range(1, 8)), (mask > 0) & (mask < 255)]
    parts = [(0, np.stack(values).astype(np.float32), mask < 255)]
    grid = read_grid(workspace.mask(scene))
    path = workspace.probability(scene)
    write_probability(path, parts, grid, bins=DEFAULT_BINS, key="labels", tags={})
