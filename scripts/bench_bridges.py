#!/usr/bin/env python
"""Measure how many bridges are marked in graphs traced on drawn roads, and how many are right.

Roads of OpenStreetMap, without tunnels, are drawn at 0.5 m with a width by their class and with
their speeds, clean or with the noise of `bench_noise.py`, in windows of 1 km, and traced. Where two
lines cross without a shared vertex, one passes over the other. A crossing is found if a marked node
lies within 12 m, and a mark is right if a crossing, also one of a tunnel, lies within 15 m.

    python scripts/bench_bridges.py OSM.geojson [--noise mild] [--windows 300]
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyogrio.raw
import shapely
from affine import Affine
from bench_noise import NOISE, OTHER_WIDTH_M, PIXEL_M, THRESHOLD, WIDTHS_M, Noise, Scene, burn, draw
from pyproj import CRS
from scipy.spatial import cKDTree

from roadseg.raster.grid import DEGREES, Grid, transformer, utm_epsg
from roadseg.roads.graph.crossings import likely_bridges
from roadseg.roads.graph.road_graph import RoadGraph, graph_from_lines
from roadseg.roads.masks.probabilities import Probability
from roadseg.roads.options import NO_ROADS, TraceOptions
from roadseg.roads.speeds import DEFAULT_BINS, KPH_PER_MPH
from roadseg.roads.tracing.trace import find_graph

SIDE_M, BORDER_M, LEAST_ROAD_M = 1000.0, 30.0, 300.0
FOUND_M, RIGHT_M, SAME_M = 12.0, 15.0, 0.005
CERTAIN = 255
UNLIMITED_KPH = 120.0  # of maxspeed=none
KPH = {
    "motorway": 110.0, "trunk": 90.0, "primary": 65.0, "secondary": 60.0, "tertiary": 50.0,
    "unclassified": 45.0, "residential": 30.0, "track": 20.0, "service": 15.0,
    "living_street": 10.0,
}  # fmt: skip
OTHER_KPH = 30.0


@dataclass(frozen=True)
class City:
    """Visible roads in metres, slow ones first; their crossings, and those with tunnels."""

    crs: CRS
    lines: np.ndarray
    widths_m: np.ndarray
    kph: np.ndarray
    crossings: np.ndarray
    below: np.ndarray


def read_city(path: Path) -> City:
    """Read the roads for cars of a file of OpenStreetMap."""
    name = f"/vsigzip/{path.resolve()}" if path.suffix == ".gz" else str(path)
    _, _, geometry, columns = pyogrio.raw.read(name, columns=["highway", "maxspeed", "tunnel"])
    lines = shapely.from_wkb(geometry)
    is_road = ~np.isin(columns[0], NO_ROADS) & (shapely.get_type_id(lines) == 1)
    kind, limit, tunnel = (column[is_road] for column in columns)
    crs = CRS.from_epsg(utm_epsg(*np.median(shapely.get_coordinates(lines), axis=0)))
    move = transformer(DEGREES, crs)
    lines = shapely.transform(
        lines[is_road], lambda xy: np.column_stack(move.transform(*xy.T)).round(3)
    )
    classes = [str(name).removesuffix("_link") for name in kind]
    kph = np.array([_kph(*pair) for pair in zip(classes, limit, strict=True)])
    widths = np.array([WIDTHS_M.get(name, OTHER_WIDTH_M) for name in classes])
    hidden = np.isin(tunnel, ["yes", "building_passage"])
    order = np.argsort(kph, kind="stable")
    order = order[~hidden[order]]
    seen = lines[order]
    pairs = shapely.STRtree(seen).query(seen, predicate="crosses")
    below = shapely.STRtree(seen).query(lines[hidden], predicate="crosses")
    return City(
        crs,
        seen,
        widths[order],
        kph[order],
        _crossings(seen, seen, pairs[:, pairs[0] < pairs[1]]),
        _crossings(lines[hidden], seen, below),
    )


def _kph(name: str, limit: object) -> float:
    try:
        return float(str(limit).split()[0])
    except (ValueError, IndexError):
        return UNLIMITED_KPH if limit == "none" else KPH.get(name, OTHER_KPH)


def _crossings(lines: np.ndarray, others: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """Return the points, shape (k, 2), at which pairs of lines cross without a shared vertex."""
    one, other = lines[pairs[0]], others[pairs[1]]
    points, row = shapely.get_parts(shapely.intersection(one, other), return_index=True)
    is_point = shapely.get_type_id(points) == 0
    points, row = points[is_point], row[is_point]
    shared = np.array(
        [
            all(shapely.distance(_vertices(line), point) < SAME_M for line in pair)
            for point, *pair in zip(points, one[row], other[row], strict=True)
        ],
        dtype=bool,
    )
    return shapely.get_coordinates(points[~shared])


def _vertices(line: shapely.LineString) -> shapely.MultiPoint:
    return shapely.multipoints(shapely.get_coordinates(line))


def windows(city: City) -> np.ndarray:
    """Return the corners of all windows with roads, in an order drawn by lot."""
    middles = shapely.line_interpolate_point(city.lines, 0.5, normalized=True)
    cells = np.unique(np.floor(shapely.get_coordinates(middles) / SIDE_M).astype(int), axis=0)
    return np.random.default_rng(0).permutation(cells) * SIDE_M


def trace(city: City, low: np.ndarray, noise: Noise | None, seed: int) -> RoadGraph | None:
    """Draw a window and find its graph; None if it has hardly any road."""
    box, size = shapely.box(*low, *(low + SIDE_M)), round(SIDE_M / PIXEL_M)
    grid = Grid(city.crs, Affine(PIXEL_M, 0, low[0], 0, -PIXEL_M, low[1] + SIDE_M), size, size)
    rows = np.flatnonzero(shapely.intersects(city.lines, box.buffer(20)))
    inside = shapely.intersection(city.lines[rows], box)
    if shapely.length(inside).sum() < LEAST_ROAD_M:
        return None
    widths = city.widths_m[rows]
    areas = shapely.buffer(city.lines[rows], widths / 2)
    numbers = burn(areas, grid, DEFAULT_BINS.bin_of(city.kph[rows] / KPH_PER_MPH).astype(float))
    road = np.where(numbers > 0, CERTAIN, 0).astype(np.uint8)
    if noise:
        whole = shapely.get_type_id(inside) == 1
        truth = graph_from_lines(inside[whole], city.crs)
        scene = Scene(numbers > 0, grid, truth, inside[whole], widths[whole])
        road = draw(scene, noise, np.random.default_rng([1, seed]))
    bins = [np.where(numbers == k + 1, road, 0) for k in range(DEFAULT_BINS.count)]
    probability = Probability(grid, road, np.stack(bins).astype(np.uint8), DEFAULT_BINS)
    return find_graph(probability, TraceOptions(threshold=THRESHOLD))


def within(places: np.ndarray, others: np.ndarray, metres: float) -> int:
    """Count the places that are near another one."""
    if len(places) == 0 or len(others) == 0:
        return 0
    return int((cKDTree(others).query(places)[0] <= metres).sum())


def main() -> None:
    """Read the options and measure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("roads", type=Path, metavar="OSM.geojson")
    parser.add_argument("--noise", choices=NOISE)
    parser.add_argument("--windows", type=int, help="as many windows; all if left out")
    options = parser.parse_args()
    city = read_city(options.roads)
    every = np.concatenate([city.crossings, city.below])
    marks = right = crossings = found = 0
    for seed, low in enumerate(windows(city)[: options.windows]):
        graph = trace(city, low, NOISE.get(options.noise), seed)
        if graph is None:
            continue
        inner = shapely.box(*(low + BORDER_M), *(low + SIDE_M - BORDER_M))
        marked = graph.nodes[likely_bridges(graph)]
        counted = marked[shapely.contains_xy(inner, marked)]
        here = city.crossings[shapely.contains_xy(inner, city.crossings)]
        marks, right = marks + len(counted), right + within(counted, every, RIGHT_M)
        crossings, found = crossings + len(here), found + within(here, marked, FOUND_M)
    print(f"precision {right}/{marks} {right / max(marks, 1):.3f}")
    print(f"recall {found}/{crossings} {found / max(crossings, 1):.3f}")


if __name__ == "__main__":
    main()
