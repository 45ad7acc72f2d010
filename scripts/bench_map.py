#!/usr/bin/env python
"""Measure the way from an image to a road graph, network beside network.

    scripts/bench_map.py --image city.tif --checkpoint A B [--engine eager openvino] [--size 4096]

The scene is IMAGE, mirrored to --size. Every checkpoint maps it with every engine of --engine, in
turns; openvino is INT8 if `roadseg quantize` was run. `roadseg predict` and `roadseg
graph` are each a process of its own with all that it takes to start. Prints medians of the rounds:
seconds of both, megapixels a second, square kilometres an hour, times the first way, largest
memory, and watt-hours for a square kilometre where the machine counts the energy of its
processors (RAPL, /sys/class/powercap).
"""

import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from bench_predict import mirrored

from roadseg.raster.images import read_facts

POWERCAP = Path("/sys/class/powercap")


@dataclass(frozen=True)
class Run:
    """What one run of `predict` and `graph` took."""

    predict_s: float
    graph_s: float
    peak_mb: float
    joules: float | None

    @property
    def seconds(self):
        """Seconds of both."""
        return self.predict_s + self.graph_s


def main():
    """Measure and print."""
    options = parse()
    with tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
        folder = Path(scratch)
        image = mirrored(options.image, folder / "scene.tif", options.size)
        km2 = options.size**2 * math.prod(read_facts(image).grid.pixel_size_m) / 1e6
        ways = list(product(options.checkpoint, options.engine))
        runs = {way: [] for way in ways}
        for _, way in product(range(options.rounds), ways):
            checkpoint, engine = way
            runs[way].append(mapped(image, checkpoint, engine, folder / "out"))
    rows = [row(way, runs[way], runs[ways[0]], options.size**2 / 1e6, km2) for way in ways]
    report(rows, as_json=options.json)


def parse():
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--image", type=Path, required=True, help="what the scene is made of")
    parser.add_argument("--checkpoint", type=Path, nargs="+", required=True, help="folders")
    parser.add_argument("--engine", nargs="+", default=["eager"])
    parser.add_argument("--size", type=int, default=4096, help="side of the scene, pixels")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--scratch", type=Path, help="folder for the files; else that of the system"
    )
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def mapped(image, checkpoint, engine, out):
    """Map the scene once; return what it took."""
    shutil.rmtree(out, ignore_errors=True)
    before = energy_j()
    predicted = timed(
        "predict", "--engine", engine, "--checkpoint", checkpoint, "--output", out, image
    )
    traced = timed("graph", "--output", out / "graphs", out / image.name)
    after = energy_j()
    # A counter that began again at 0 meanwhile says nothing.
    spent = None if before is None or after < before else after - before
    return Run(predicted[0], traced[0], max(predicted[1], traced[1]), spent)


def timed(*words):
    """Run a command; return its seconds and its largest memory in MB."""
    begun = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "roadseg", "-q", *map(str, words)], stdout=subprocess.DEVNULL
    )
    _, status, used = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"roadseg {words[0]} ended with {os.waitstatus_to_exitcode(status)}")
    return time.perf_counter() - begun, used.ru_maxrss * 1024 / 1e6


def energy_j():
    """Return the joules that all processors have used, or None where they are not counted."""
    zones = [path.parent for path in POWERCAP.glob("intel-rapl:[0-9]*/energy_uj")]
    try:
        # Other zones are parts of a package, or the whole machine.
        packages = [z for z in zones if (z / "name").read_text().startswith("package")]
        used = [int((zone / "energy_uj").read_text()) for zone in packages]
        return sum(used) / 1e6 if used else None
    except PermissionError:
        return None


def row(way, runs, first, megapixels, km2):
    """Return the figures of a way."""
    checkpoint, engine = way
    seconds = statistics.median(run.seconds for run in runs)
    ratios = [theirs.seconds / ours.seconds for ours, theirs in zip(runs, first, strict=True)]
    joules = [run.joules for run in runs if run.joules is not None]
    return {
        "checkpoint": str(checkpoint),
        "engine": engine,
        "predict_s": statistics.median(run.predict_s for run in runs),
        "graph_s": statistics.median(run.graph_s for run in runs),
        "megapixels_per_s": megapixels / seconds,
        "km2_per_h": km2 / seconds * 3600,
        "times_the_first": statistics.median(ratios),
        "peak_mb": max(run.peak_mb for run in runs),
        "wh_per_km2": statistics.median(joules) / 3600 / km2 if joules else None,
    }


def report(rows, *, as_json):
    """Print a line a way."""
    for figures in rows:
        if as_json:
            print(json.dumps(figures))
            continue
        used = figures["wh_per_km2"]
        energy = "energy not counted here" if used is None else f"{used:.2f} Wh/km2"
        print(
            f"{figures['checkpoint']} {figures['engine']}: predict {figures['predict_s']:.1f} s, "
            f"graph {figures['graph_s']:.1f} s, {figures['megapixels_per_s']:.2f} megapixels/s, "
            f"{figures['km2_per_h']:.1f} km2/h, {figures['times_the_first']:.2f} times the first, "
            f"{figures['peak_mb']:.0f} MB, {energy}"
        )


if __name__ == "__main__":
    main()
