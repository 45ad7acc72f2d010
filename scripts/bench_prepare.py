#!/usr/bin/env python
"""Measure how fast masks are made: against a bare floor, with two workers, and over a whole city.

    scripts/bench_prepare.py chips IMAGE LABELS [IMAGE LABELS ...]
    scripts/bench_prepare.py city LABELS

`chips` repeats the given scenes to --count and compares, in rounds one after the other, the CPU
seconds a scene of four ways to the same masks: the floor (read the vector file, buffer, rasterise
once, write one compressed band), the masks of roadseg (that, and: attributes, nodata, chips,
counts, record), the same with the pixels sampled for the scaling, and the whole of `roadseg
prepare`. Then it times the whole with one worker and with two: as it is, and without the examples
of the quality report, which are as many for any number of scenes.

`city` burns the roads of a file over a quarter, a half and the whole of their extent, as a scene of
1 m pixels, each in a process of its own, and prints seconds and peak memory.
"""

import argparse
import gzip
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyogrio.raw
import rasterio
import shapely
from affine import Affine
from rasterio.features import rasterize

from roadseg.commands.stages import prepare
from roadseg.config import load_config
from roadseg.dataset import quality, scenes
from roadseg.dataset.scenes import SceneTask
from roadseg.raster.grid import DEGREES, Grid, transformer
from roadseg.raster.images import read_facts
from roadseg.raster.options import ImageryOptions
from roadseg.raster.pixels import OpenScene
from roadseg.roads.options import LabelOptions
from roadseg.system.workspace import Workspace

BUFFER_M = 2.0


def floor(image: Path, labels: Path, mask: Path) -> None:
    """Make a mask with nothing but the libraries."""
    grid = read_facts(image).grid
    _, _, wkb, _ = pyogrio.raw.read(labels, columns=[])
    to_metres = transformer(DEGREES, grid.metric_crs)
    back = transformer(grid.metric_crs, grid.crs)
    lines = shapely.transform(shapely.from_wkb(wkb), _by(to_metres))
    areas = shapely.transform(shapely.buffer(lines, BUFFER_M, quad_segs=16), _by(back))
    burnt = rasterize(
        areas, out_shape=(grid.height, grid.width), transform=grid.transform, dtype="uint8"
    )
    with rasterio.open(
        mask,
        "w",
        driver="GTiff",
        crs=grid.crs.to_wkt(),
        transform=grid.transform,
        height=grid.height,
        width=grid.width,
        count=1,
        dtype="uint8",
        compress="deflate",
    ) as target:
        target.write(burnt, 1)


def make_masks(pairs: list[tuple[Path, Path]], folder: Path, *, sampled: bool) -> None:
    """Do for each scene what `roadseg prepare` does, with or without pixels for the scaling."""
    sample = OpenScene.sample
    if not sampled:
        OpenScene.sample = lambda *_, **__: np.zeros((1, 0), dtype=np.uint8)
    try:
        for number, pair in enumerate(pairs):
            scenes.prepare_scene(task(*pair, folder, f"{number}"))
    finally:
        OpenScene.sample = sample


def _by(convert):
    return lambda xy: np.column_stack(convert.transform(xy[:, 0], xy[:, 1]))


def task(image: Path, labels: Path, folder: Path, name: str) -> SceneTask:
    """Return what `roadseg prepare` would do for one scene."""
    return SceneTask(
        name=name,
        image=image,
        labels=labels,
        fingerprints={"image": str(image), "labels": str(labels)},
        shared=False,
        mask=folder / f"{name}.tif",
        record=folder / f"{name}.json",
        imagery=ImageryOptions(),
        label_options=LabelOptions(buffer_m=BUFFER_M),
        sample_px=2**14,
        force=True,
    )


def copies(pairs: list[tuple[Path, Path]], count: int, folder: Path) -> list[tuple[Path, Path]]:
    """Copy the scenes until there are `count`."""
    made = []
    for number in range(count):
        image, labels = pairs[number % len(pairs)]
        target = folder / "images" / f"scene_{number}{image.suffix}"
        roads = folder / "roads" / f"scene_{number}{labels.suffix}"
        for source, copy in ((image, target), (labels, roads)):
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, copy)
        made.append((target, roads))
    return made


def cpu_seconds(work) -> float:
    """Return the CPU seconds of this process and of its children that some work takes."""
    before = _cpu()
    work()
    return _cpu() - before


def _cpu() -> float:
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def wall_seconds(work) -> float:
    """Return the seconds that some work takes."""
    before = time.perf_counter()
    work()
    return time.perf_counter() - before


def run_prepare(folder: Path, pairs: list[tuple[Path, Path]], *assignments: str) -> None:
    """Do all of `roadseg prepare` on some scenes."""
    settings = {
        "run": str(folder / "run"),
        "imagery": {"images": [str(image) for image, _ in pairs], "bands": [1]},
        "labels": {"roads": [str(labels) for _, labels in pairs]},
    }
    config = folder / "roadseg.json"
    config.write_text(json.dumps(settings))
    loaded = load_config(config, assignments)
    prepare.run(loaded, Workspace(loaded.run), force=True)


def bench_chips(options: argparse.Namespace) -> None:
    """Compare floor, one scene, and all of prepare; then one worker and two."""
    given = [Path(path) for path in options.files]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        pairs = copies(list(zip(given[::2], given[1::2], strict=True)), options.count, folder)
        out = folder / "masks"
        out.mkdir()
        ways = {
            "floor": lambda: [floor(*pair, out / f"{i}.tif") for i, pair in enumerate(pairs)],
            "masks": lambda: make_masks(pairs, out, sampled=False),
            "masks, sampled": lambda: make_masks(pairs, out, sampled=True),
            "roadseg prepare": lambda: run_prepare(folder, pairs),
        }
        seconds_of: dict[str, list[float]] = {name: [] for name in ways}
        for number in range(options.rounds + 1):
            for name, work in ways.items():
                seconds = cpu_seconds(work) / len(pairs)
                if number:  # the first round warms up
                    seconds_of[name].append(seconds)
        print(f"{len(pairs)} scenes, {options.rounds} rounds, CPU seconds a scene")
        for name, seconds in seconds_of.items():
            ratios = [s / f for s, f in zip(seconds, seconds_of["floor"], strict=True)]
            median = statistics.median(seconds)
            print(f"{name:<16} {median:.4f}  {statistics.median(ratios):.2f} times the floor")
        bench_workers("all of prepare", folder, pairs, options.rounds)
        quality.EXAMPLES = 0
        bench_workers("without the examples", folder, pairs, options.rounds)


def bench_workers(what: str, folder: Path, pairs: list[tuple[Path, Path]], rounds: int) -> None:
    """Time prepare with one worker and with two, one after the other."""
    ones, twos = [], []
    for _ in range(rounds):
        ones.append(wall_seconds(lambda: run_prepare(folder, pairs, "compute.workers=1")))
        twos.append(wall_seconds(lambda: run_prepare(folder, pairs, "compute.workers=2")))
    one, two = statistics.median(ones), statistics.median(twos)
    gain = statistics.median([a / b for a, b in zip(ones, twos, strict=True)])
    print(f"{what}: one worker {one:.2f} s, two workers {two:.2f} s, {gain:.2f} times faster")


def bench_city(options: argparse.Namespace) -> None:
    """Burn the roads of a file over growing parts of their extent."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        labels = Path(options.labels)
        if labels.suffix == ".gz":
            labels = folder / labels.stem
            labels.write_bytes(gzip.decompress(Path(options.labels).read_bytes()))
        west, south, east, north = pyogrio.read_info(labels, force_total_bounds=True)[
            "total_bounds"
        ]
        corner = Grid(DEGREES, Affine(east - west, 0, west, 0, south - north, north), 1, 1)
        (x0, y0, x1, y1) = corner.footprint_m.bounds
        for share in (0.25, 0.5, 1.0):
            side = share**0.5
            height, width = round((y1 - y0) * side), round((x1 - x0) * side)
            image = folder / f"scene_{share}.tif"
            draw_empty(image, corner.metric_crs, (x0, y1), height, width)
            words = [sys.executable, __file__, "one", str(image), str(labels), str(folder)]
            taken = json.loads(subprocess.run(words, check=True, capture_output=True).stdout)
            megapixels = height * width / 1e6
            print(
                f"{width} x {height} m: {taken['seconds']:.1f} CPU s, "
                f"{1000 * taken['seconds'] / megapixels:.2f} ms a megapixel, "
                f"{taken['megabytes']:.0f} MB, {taken['roads']} roads"
            )


def draw_empty(path: Path, crs, corner: tuple[float, float], height: int, width: int) -> None:
    """Write a scene of zeros that takes no space on disk."""
    with rasterio.open(
        path,
        "w",
        driver="GTiff",
        crs=crs.to_wkt(),
        transform=Affine(1, 0, corner[0], 0, -1, corner[1]),
        height=height,
        width=width,
        count=1,
        dtype="uint8",
        tiled=True,
        sparse_ok=True,
        bigtiff="if_safer",
    ):
        pass


def bench_one(options: argparse.Namespace) -> None:
    """Make the mask of one scene, and print what it took."""
    before = _cpu()
    scene = scenes.prepare_scene(
        task(Path(options.image), Path(options.labels), Path(options.folder), "city")
    )
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    roads = len(scene.summary.touching)
    print(json.dumps({"seconds": _cpu() - before, "megabytes": megabytes, "roads": roads}))


def main() -> None:
    """Read the options and measure."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    chips = commands.add_parser("chips", help="scenes, each with its label file")
    chips.add_argument("files", nargs="+", metavar="FILE")
    chips.add_argument("--count", type=int, default=60)
    chips.add_argument("--rounds", type=int, default=5)
    chips.set_defaults(run=bench_chips)
    city = commands.add_parser("city", help="one label file over its extent")
    city.add_argument("labels")
    city.set_defaults(run=bench_city)
    one = commands.add_parser("one", help="one scene in this process")
    for name in ("image", "labels", "folder"):
        one.add_argument(name)
    one.set_defaults(run=bench_one)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
