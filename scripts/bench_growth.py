#!/usr/bin/env python
"""Measure how time and memory of the commands grow with the size of a scene.

    scripts/bench_growth.py --image city.tif [--side 2048] [--checkpoint FOLDER]

The scene is IMAGE, mirrored to --side, and to two and four times that: 1, 4 and 16 times the work.
Each command is a process of its own: predict (eager), graph, report of that folder, score and diff
of the graph against half of its roads, conflate of the graph into this half, audit of the graph by
the probabilities, and evaluate of the chips held out, after a short training with the graph as
labels. Prints CPU seconds, largest resident memory, and how often the seconds of the
scene before are in those of the next one, less the time of a start; above 4 is more than linear.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from bench_predict import mirrored

from roadseg.roads.formats.files import read_gpkg, write_gpkg
from roadseg.roads.graph.road_graph import take_edges

# A process counts the memory of the one that started it, which therefore has to be small.
SMALL = """
import resource, subprocess, sys
subprocess.run([sys.executable, *sys.argv[1:]], stdout=subprocess.DEVNULL, check=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime, used.ru_maxrss)
"""
TIMES = (1, 2, 4)  # The side of a scene, as multiples of the first one.


def main():
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--image", type=Path, required=True, help="what the scenes are made of")
    parser.add_argument("--checkpoint", default="starter", help="folder of the network")
    parser.add_argument("--side", type=int, default=2048, help="of the smallest scene, pixels")
    options = parser.parse_args()
    start_s, _ = measured("--version")
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for times in TIMES:
            place = Path(folder) / str(times)
            place.mkdir()
            image = mirrored(options.image, place / "city.tif", options.side * times)
            for name, used in figures(image, options.checkpoint).items():
                found.setdefault(name, []).append(used)
    print(
        f"{'CPU s':10}{'1':>8}{'4':>8}{'16':>8}{'growth':>14}   {'MB':8}{'1':>7}{'4':>7}{'16':>7}"
    )
    for name, each in found.items():
        seconds, memory = zip(*each, strict=True)
        work = [max(taken - start_s, 0.01) for taken in seconds]
        growth = [f"{work[1] / work[0]:.1f}", f"{work[2] / work[1]:.1f}"]
        print(
            f"{name:10}{''.join(f'{taken:8.1f}' for taken in seconds)}{', '.join(growth):>14}"
            f"     {''.join(f'{used:8.0f}' for used in memory)}",
            flush=True,
        )


def figures(image, checkpoint):
    """Return CPU seconds and megabytes of each command on a scene."""
    out = image.parent / "out"
    raster, graph, half = out / "city.tif", out / "city.gpkg", image.parent / "half.gpkg"
    used = {
        "predict": measured(
            *("predict", image, "--checkpoint", checkpoint, "--gsd", "auto"),
            *("--engine", "eager", "--output", out),
        ),
        "graph": measured("graph", raster, "--output", out),
        "report": measured("report", "--run", out),
    }
    roads = read_gpkg(graph)
    write_gpkg(half, take_edges(roads, np.arange(0, len(roads.lines), 2)))
    into = ("--into", half, "--output", image.parent / "merged")
    return {
        **used,
        "score": measured("score", half, graph),
        "diff": measured("diff", graph, "--reference", half),
        "conflate": measured("conflate", graph, *into),
        "audit": measured("audit", graph, "--probabilities", raster),
        "evaluate": evaluated(image, graph),
    }


def evaluated(image, roads):
    """Return what `evaluate` takes in a run with chips of a scene, on a fifth of them."""
    config = {
        "run": str(image.parent / "run"),
        "imagery": {"images": [str(image)], "chip_px": 256},
        "labels": {"roads": [str(roads)]},
        "split": {"block_m": 100},
        "train": {"epochs": 1, "windows_per_chip": 1, "window_px": 128},
    }
    path = image.parent / "roadseg.json"
    path.write_text(json.dumps(config))
    for stage in (("prepare",), ("split",), ("train", "--fold", 0), ("predict",), ("graph",)):
        measured(*stage, "--config", path)
    return measured("evaluate", "--config", path)


def measured(*words):
    """Run a command; return its CPU seconds and its largest resident memory in MB."""
    command = [sys.executable, "-c", SMALL, "-m", "roadseg", "-q", *map(str, words)]
    told = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout
    seconds, kib = map(float, told.split())
    return seconds, kib * 1024 / 1e6


if __name__ == "__main__":
    main()
