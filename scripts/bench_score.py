#!/usr/bin/env python
"""Measure what APLS costs: on a chip, on the chip mirrored to a growing town, on a whole city.

    scripts/bench_score.py REFERENCE PREDICTED CITY [--plot FILE]

REFERENCE and PREDICTED are the label files of one SpaceNet chip and of a prediction for it, CITY is
a file of road lines; it is scored against itself with 5 % of its edges removed. Each row is
measured in a process of its own, after loading: CPU seconds, and the peak memory of the process.
Beside them stand the figures recorded from the reference scorers on a like chip and its mirror
tilings: CosmiQ/apls at 4a78807 (Python) and the SpaceNet 3 scorer (Java).
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pyogrio.raw
import shapely
from matplotlib.figure import Figure
from pyproj import CRS, Transformer
from pyproj.aoi import AreaOfInterest
from pyproj.database import query_utm_crs_info

from roadseg.roads.graph.road_graph import RoadGraph, graph_from_lines, take_edges
from roadseg.roads.metrics.apls import apls

TILES = (1, 2, 3, 4, 6, 10)
REMOVED = 0.05
ROUNDS = 21  # of a case that takes less than a second
# chips a side: CPU seconds and peak MB of the Python scorer, seconds of the Java scorer
RECORDED = {
    1: (0.8, 212, 0.09),
    2: (7.1, 272, 0.7),
    3: (40.7, 534, 2.1),
    4: (136.0, 1204, 5.4),
    6: (936.9, 4771, 28.6),
    10: (None, None, 292.0),
}


def read_lines(path: Path) -> np.ndarray:
    """Read the lines of a file, in degrees."""
    name = f"/vsigzip/{path.resolve()}" if path.suffix == ".gz" else path
    meta, _, wkb, _ = pyogrio.raw.read(name, columns=[])
    lines = shapely.get_parts(shapely.from_wkb(wkb))
    to_degrees = Transformer.from_crs(meta["crs"], 4326, always_xy=True)
    return _moved(lines[shapely.get_type_id(lines) == 1], to_degrees)


def graph_of(lines: np.ndarray, crs: CRS) -> RoadGraph:
    """Make a graph in metres of lines in degrees."""
    return graph_from_lines(_moved(lines, Transformer.from_crs(4326, crs, always_xy=True)), crs)


def metric_crs(lines: np.ndarray) -> CRS:
    """Return the UTM zone of lines in degrees."""
    x, y = shapely.get_coordinates(lines).mean(axis=0)
    return CRS.from_epsg(query_utm_crs_info("WGS 84", AreaOfInterest(x, y, x, y))[0].code)


def _moved(lines: np.ndarray, transformer: Transformer) -> np.ndarray:
    return shapely.transform(lines, lambda xy: np.column_stack(transformer.transform(*xy.T)))


def tiled(lines: np.ndarray, bounds: np.ndarray, side: int) -> np.ndarray:
    """Repeat lines on a square of tiles, every other one mirrored, so that roads go on."""
    low, size = bounds[:2], bounds[2:] - bounds[:2]
    tiles = []
    for tile in np.ndindex(side, side):
        flip = np.array(tile) % 2 == 1

        def move(xy, tile=tile, flip=flip):
            return low + size * tile + np.where(flip, low + size - xy, xy - low)

        tiles.append(shapely.transform(lines, move))
    return np.concatenate(tiles)


def load(options: argparse.Namespace) -> tuple[RoadGraph, RoadGraph]:
    """Make both graphs of a case."""
    if options.tiles:
        sides = [read_lines(options.reference), read_lines(options.predicted)]
        bounds, crs = shapely.total_bounds(np.concatenate(sides)), metric_crs(sides[0])
        reference, predicted = (graph_of(tiled(s, bounds, options.tiles), crs) for s in sides)
        return reference, predicted
    lines = read_lines(options.city)
    reference = graph_of(lines, metric_crs(lines))
    kept = np.random.default_rng(0).random(len(reference.lines)) >= REMOVED
    return reference, take_edges(reference, kept)


def measure(options: argparse.Namespace) -> None:
    """Score one case in this process; print what it took as JSON."""
    before = time.process_time()
    graphs = load(options)
    loaded = time.process_time() - before
    seconds = []
    while len(seconds) < ROUNDS and sum(seconds) < 1:
        before = time.process_time()
        score = apls(*graphs)
        seconds.append(time.process_time() - before)
    figures = {"edges": len(graphs[0].lines), "load_s": loaded, "cpu_s": statistics.median(seconds)}
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({**figures, "megabytes": megabytes, **asdict(score)}))


def measured(options: argparse.Namespace, tiles: int) -> dict:
    """Measure one case in a process of its own: so many tiles a side, or 0 for the city."""
    files = [str(options.reference), str(options.predicted), str(options.city)]
    words = [sys.executable, __file__, *files, "--tiles", str(tiles)]
    out = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    return json.loads(out)


def row(name: str, figures: dict, recorded: tuple) -> str:
    """Return a row of the table: what one case took, here and with the references."""
    points = figures["reference_points"] + figures["predicted_points"]
    sources = figures["reference_sources"] + figures["predicted_sources"]
    score = f"{figures['score']:.4f} +-{figures['score_margin']:.4f}"
    ours = (
        f"{points:>9,} {sources:>8,} {figures['cpu_s']:>9.4f} {figures['megabytes']:>6.0f}  {score}"
    )
    others = "".join(f"{'-' if value is None else value:>9}" for value in recorded)
    return f"{name:<14}{figures['edges']:>8,}{ours}{others}"


def draw(path: Path, cases: dict[int, dict]) -> None:
    """Draw how CPU seconds grow with the control points."""
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    points = {n: case["reference_points"] + case["predicted_points"] for n, case in cases.items()}
    axes.loglog([points[n] for n in TILES], [cases[n]["cpu_s"] for n in TILES], "o-", label="here")
    city = cases[0]["reference_sources"] + cases[0]["predicted_sources"]
    axes.loglog(points[0], cases[0]["cpu_s"], "s", label=f"here, a city, {city:,} sources")
    for column, label in ((0, "CosmiQ/apls (Python)"), (2, "SpaceNet 3 (Java)")):
        at = [n for n in TILES if RECORDED[n][column] is not None]
        axes.loglog([points[n] for n in at], [RECORDED[n][column] for n in at], "o--", label=label)
    axes.set_xlabel("control points of both graphs")
    axes.set_ylabel("CPU seconds after loading")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path)


def main() -> None:
    """Read the options and measure."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("reference", "predicted", "city"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--plot", type=Path, metavar="FILE")
    parser.add_argument("--tiles", type=int, help="measure this one case, 0 for the city")
    options = parser.parse_args()
    if options.tiles is not None:
        measure(options)
        return
    print(f"{'':<14}{'edges':>8}{'points':>9}{'sources':>9}{'CPU s':>10}{'MB':>7}", end="")
    print(f"  {'score, 95 %':<16}{'Python s':>9}{'MB':>9}{'Java s':>9}")
    cases = {}
    for tiles in (*TILES, 0):
        cases[tiles] = measured(options, tiles)
        name = f"chip, {tiles} x {tiles}" if tiles else "city"
        print(row(name, cases[tiles], RECORDED.get(tiles, (None,) * 3)), flush=True)
    if options.plot:
        draw(options.plot, cases)


if __name__ == "__main__":
    main()
