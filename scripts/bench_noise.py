#!/usr/bin/env python
"""Measure road graphs found in drawn probabilities with correlated noise, trees and shadows.

Roads of OpenStreetMap are burnt at 0.5 m with a width by their class. The probability falls off
across their borders, and is disturbed as that of networks is: by noise that is alike over 3 to
15 m, roads that are faint as a whole, crowns of trees beside them, shadows across them, and blobs,
strips and driveways that are no road. The graph is scored against the lines, by APLS and as a user
sees it: breaks per km, the share of the largest connected part, and links that are false.

    python scripts/bench_noise.py OSM.geojson [--noise medium] [--set KEY=VALUE,KEY=VALUE ...]

Settings of `graph` given with --set are compared with the defaults on the same drawings.
"""

import argparse
import json
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyogrio.raw
import shapely
from affine import Affine
from bench_links import false_links
from pyproj import CRS
from rasterio.features import rasterize
from scipy import ndimage

from roadseg.raster.grid import DEGREES, Grid, transformer
from roadseg.roads.graph.cleaning import components
from roadseg.roads.graph.road_graph import RoadGraph, graph_from_lines
from roadseg.roads.masks.probabilities import Probability
from roadseg.roads.metrics.apls import apls
from roadseg.roads.options import NO_ROADS, TraceOptions
from roadseg.roads.tracing.trace import find_graph

PIXEL_M = 0.5
CERTAIN = 255
THRESHOLD = 0.4
WIDTHS_M = {
    "motorway": 11.0, "trunk": 10.0, "primary": 9.0, "secondary": 8.0, "tertiary": 7.0,
    "residential": 6.0, "unclassified": 5.5, "living_street": 5.0, "service": 4.0, "track": 3.5,
}  # fmt: skip
OTHER_WIDTH_M = 5.0


@dataclass(frozen=True)
class Noise:
    """How much a drawing is disturbed.

    Attributes:
        sigma: standard deviation of the noise, in logits.
        faint: share of roads that are faint as a whole, and by how many logits at most.
        trees: per km of road, beside it.
        shadows: per km of road, across it.
        blobs: false patches per square kilometre.
        strips: false strips and driveways per square kilometre.
    """

    sigma: float
    faint: tuple[float, float]
    trees: float
    shadows: float
    blobs: float
    strips: float


NOISE = {
    "mild": Noise(0.8, (0.15, 1.5), 6, 6, 20, 20),
    "medium": Noise(1.1, (0.25, 2.5), 14, 14, 50, 50),
    "heavy": Noise(1.4, (0.35, 3.0), 26, 26, 100, 100),
}


@dataclass(frozen=True)
class City:
    """Lines of roads in metres, and the width of each."""

    lines: np.ndarray
    widths_m: np.ndarray
    crs: CRS


@dataclass(frozen=True)
class Scene:
    """A window of a city; what `bench_links.false_links` asks for."""

    mask: np.ndarray
    grid: Grid
    truth: RoadGraph
    lines: np.ndarray
    widths_m: np.ndarray


def read_city(path: Path) -> City:
    """Read the roads for cars of a file of OpenStreetMap."""
    name = f"/vsigzip/{path.resolve()}" if path.suffix == ".gz" else str(path)
    _, _, geometry, columns = pyogrio.raw.read(name, columns=["highway", "tunnel"])
    kind, tunnel = columns
    lines = shapely.from_wkb(geometry)
    is_road = ~np.isin(kind, NO_ROADS) & (shapely.get_type_id(lines) == 1)
    is_road &= ~np.isin(tunnel, ["yes", "building_passage"])
    lines, kind = lines[is_road], kind[is_road]
    middle = np.median(shapely.get_coordinates(lines), axis=0)
    crs = CRS.from_epsg(32600 + int((middle[0] + 180) // 6) + 1)
    to_metres = transformer(DEGREES, crs)
    moved = shapely.transform(lines, lambda xy: np.column_stack(to_metres.transform(*xy.T)))
    classes = [str(name).removesuffix("_link") for name in kind]
    widths = np.array([WIDTHS_M.get(name, OTHER_WIDTH_M) for name in classes])
    return City(moved, widths, crs)


def dense_windows(city: City, count: int, side_m: float) -> list[Scene]:
    """Return the windows that hold most road, apart from each other."""
    ends = shapely.get_coordinates(shapely.line_interpolate_point(city.lines, 0.5, normalized=True))
    cells, cell = np.unique(np.floor(ends / side_m).astype(int), axis=0, return_inverse=True)
    metres = np.bincount(cell.ravel(), weights=shapely.length(city.lines))
    chosen = np.argsort(-metres, kind="stable")[:count]
    return [_window(city, cells[row] * side_m, side_m) for row in chosen]


def _window(city: City, low: np.ndarray, side_m: float) -> Scene:
    box = shapely.box(*low, *(low + side_m))
    size = round(side_m / PIXEL_M)
    grid = Grid(city.crs, Affine(PIXEL_M, 0, low[0], 0, -PIXEL_M, low[1] + side_m), size, size)
    inside = shapely.intersects(city.lines, box)
    parts, row = shapely.get_parts(shapely.intersection(city.lines[inside], box), return_index=True)
    is_line = shapely.get_type_id(parts) == 1
    lines, widths = parts[is_line], city.widths_m[inside][row[is_line]]
    mask = burn(shapely.buffer(lines, widths / 2), grid)
    return Scene(mask, grid, graph_from_lines(lines, city.crs), lines, widths)


def burn(shapes: np.ndarray, grid: Grid, values: np.ndarray | None = None) -> np.ndarray:
    """Burn shapes in metres: booleans, or the values of the shapes, 0 elsewhere."""
    if len(shapes) == 0:
        return np.zeros((grid.height, grid.width), dtype=bool if values is None else np.float32)
    size = grid.height, grid.width
    if values is None:
        return rasterize(shapes, size, transform=grid.transform).astype(bool)
    pairs = list(zip(shapes, values.tolist(), strict=True))
    return rasterize(pairs, size, transform=grid.transform, dtype="float32")


def draw(scene: Scene, noise: Noise, rng: np.random.Generator) -> np.ndarray:
    """Draw the probability of road, bytes."""
    inside = ndimage.distance_transform_edt(scene.mask) * PIXEL_M
    outside = ndimage.distance_transform_edt(~scene.mask) * PIXEL_M
    logits = np.clip((inside - outside) * 1.2, -5, 2.5).astype(np.float32)
    logits = _false_roads(logits, scene, noise, rng)
    logits -= _faint(scene, noise, rng)
    hidden = _trees(scene, noise, rng) + _shadows(scene, noise, rng)
    logits -= ndimage.gaussian_filter(hidden, 2)
    for reach_m, share in ((3.0, 0.6), (15.0, 0.8)):
        waves = ndimage.gaussian_filter(
            rng.normal(size=scene.mask.shape).astype(np.float32), reach_m / PIXEL_M / 2
        )
        logits += noise.sigma * share * waves / waves.std()
    return np.rint(CERTAIN / (1 + np.exp(-logits))).astype(np.uint8)


def _false_roads(
    logits: np.ndarray, scene: Scene, noise: Noise, rng: np.random.Generator
) -> np.ndarray:
    """Raise blobs, strips and driveways that are no road."""
    low_x, low_y, high_x, high_y = scene.grid.footprint_m.bounds
    km2 = (high_x - low_x) * (high_y - low_y) / 1e6
    sites = rng.uniform((low_x, low_y), (high_x, high_y), (round(noise.blobs * km2), 2))
    blobs = shapely.buffer(shapely.points(sites), rng.uniform(2, 6, len(sites)))
    starts = rng.uniform((low_x, low_y), (high_x, high_y), (round(noise.strips * km2 / 2), 2))
    drives = _along(scene, round(noise.strips * km2 / 2), rng)[0]
    starts = np.concatenate([starts, drives])
    turn, reach = rng.uniform(0, 2 * np.pi, len(starts)), rng.uniform(8, 30, len(starts))
    goals = starts + reach[:, None] * np.column_stack([np.cos(turn), np.sin(turn)])
    strips = shapely.buffer(shapely.linestrings(np.stack([starts, goals], axis=1)), 1.5)
    shapes = np.concatenate([blobs, strips])
    raised = burn(shapes, scene.grid, rng.uniform(3, 6.5, len(shapes)))
    return np.minimum(logits + ndimage.gaussian_filter(raised, 1), 2.5)


def _faint(scene: Scene, noise: Noise, rng: np.random.Generator) -> np.ndarray:
    share, most = noise.faint
    is_faint = rng.random(len(scene.lines)) < share
    around = shapely.buffer(scene.lines[is_faint], scene.widths_m[is_faint] / 2 + 1, cap_style=2)
    depth = rng.uniform(0.5, 1, len(around)) * most
    return ndimage.gaussian_filter(burn(around, scene.grid, depth), 2)


def _along(scene: Scene, count: int, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Choose places along roads, by length: x and y, row of the line, direction across it."""
    lengths = shapely.length(scene.lines)
    row = rng.choice(len(lengths), count, p=lengths / lengths.sum())
    at = rng.random(count) * lengths[row]
    place = shapely.get_coordinates(shapely.line_interpolate_point(scene.lines[row], at))
    ahead = shapely.get_coordinates(shapely.line_interpolate_point(scene.lines[row], at + 1))
    behind = shapely.get_coordinates(
        shapely.line_interpolate_point(scene.lines[row], np.maximum(at - 1, 0))
    )
    step = ahead - behind
    step /= np.maximum(np.hypot(*step.T), 1e-9)[:, None]
    return place, row, np.column_stack([-step[:, 1], step[:, 0]])


def _trees(scene: Scene, noise: Noise, rng: np.random.Generator) -> np.ndarray:
    km = shapely.length(scene.lines).sum() / 1000
    place, row, across = _along(scene, round(noise.trees * km), rng)
    side = rng.choice([-1, 1], len(row)) * (scene.widths_m[row] / 2 + rng.uniform(-1, 2, len(row)))
    crowns = shapely.buffer(
        shapely.points(place + across * side[:, None]), rng.uniform(2, 6, len(row))
    )
    return burn(crowns, scene.grid, rng.uniform(2, 5, len(crowns)))


def _shadows(scene: Scene, noise: Noise, rng: np.random.Generator) -> np.ndarray:
    km = shapely.length(scene.lines).sum() / 1000
    place, row, across = _along(scene, round(noise.shadows * km), rng)
    reach = (scene.widths_m[row] / 2 + 3)[:, None] * across
    bars = shapely.linestrings(np.stack([place - reach, place + reach], axis=1))
    # Most shadows are short: 3 to 30 m along the road.
    metres = np.exp(rng.uniform(np.log(3), np.log(30), len(row)))
    shapes = shapely.buffer(bars, metres / 2, cap_style=2)
    return burn(shapes, scene.grid, rng.uniform(1.5, 5, len(shapes)))


def breaks_per_km(graph: RoadGraph, truth: RoadGraph) -> float:
    """Dead ends of the graph that lie on a road that goes on, per km of the reference."""
    ends = graph.nodes[graph.degree == 1]
    dead = truth.nodes[truth.degree == 1]
    tree = shapely.STRtree(truth.lines)
    near, _ = tree.query(shapely.points(ends), predicate="dwithin", distance=4.0)
    near = np.unique(near)
    at_end, _ = shapely.STRtree(shapely.points(dead)).query(
        shapely.points(ends[near]), predicate="dwithin", distance=12.0
    )
    return (len(near) - len(np.unique(at_end))) / (truth.length_m.sum() / 1000)


def largest_share(graph: RoadGraph) -> float:
    """Share of the length that the largest connected part has."""
    metres = np.bincount(components(graph)[graph.ends[:, 0]], weights=graph.length_m)
    return float(metres.max(initial=0) / max(metres.sum(), 1e-9))


def measure(scene: Scene, road: np.ndarray, settings: dict) -> dict[str, float]:
    """Find the graph of a drawing, and score it."""
    before = time.process_time()
    how = TraceOptions.model_validate({"threshold": THRESHOLD, **settings})
    graph = find_graph(Probability(scene.grid, road), how)
    cpu_s = time.process_time() - before
    is_false, _ = false_links(graph, scene.truth, scene)
    return {
        "APLS": apls(scene.truth, graph).score,
        "breaks/km": breaks_per_km(graph, scene.truth),
        "largest": largest_share(graph),
        "km": graph.length_m.sum() / 1000,
        "links": len(is_false),
        "false": int(is_false.sum()),
        "CPU s": cpu_s,
    }


def main() -> None:
    """Read the options and measure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("roads", type=Path, metavar="OSM.geojson")
    parser.add_argument("--noise", choices=NOISE, action="append")
    parser.add_argument("--windows", type=int, default=2)
    parser.add_argument("--side-m", type=float, default=1000.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE,KEY=VALUE",
        help="settings of graph to compare; may be repeated",
    )  # fmt: skip
    options = parser.parse_args()
    variants = {"defaults": {}} | {
        text: {k: json.loads(v) for k, v in (pair.split("=") for pair in text.split(","))}
        for text in options.set
    }
    scenes = dense_windows(read_city(options.roads), options.windows, options.side_m)
    for name in options.noise or NOISE:
        drawings = [
            draw(scene, NOISE[name], np.random.default_rng([options.seed, number]))
            for number, scene in enumerate(scenes)
        ]
        for variant, settings in variants.items():
            rows = [measure(s, road, settings) for s, road in zip(scenes, drawings, strict=True)]
            means = {key: float(np.mean([row[key] for row in rows])) for key in rows[0]}
            text = "  ".join(f"{key} {value:.3f}" for key, value in means.items())
            print(f"{name:<8}{variant:<40}{text}", flush=True)


if __name__ == "__main__":
    main()
