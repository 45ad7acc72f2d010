#!/usr/bin/env python
"""Measure how work grows with the number of tiles: predict, trace, join, and Dask's own share.

    scripts/bench_scale.py --image chip.tif --labels chip.geojson --output scale.json

The labelled roads of the chip become probabilities of a network that errs, repeated without end
(`bench_graph.py`). Of them 1, 4, 16 and 64 tiles of 1 km are traced, each number by one process of
`roadseg tiles trace`, and joined by one of `roadseg tiles join`. The starter predicts the chip's
image, repeated to 1 and 4 megapixels. Empty tasks on a Dask cluster of two processes tell its
overhead. Prints CPU seconds and peak memory by megapixel; --output keeps them, with the time of
every tile, for `simulate_scale.py`.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import rasterio
import shapely
from bench_graph import mirrored_chips, repeated
from rasterio.errors import NotGeoreferencedWarning

from roadseg.raster.grid import DEGREES, Grid, reproject
from roadseg.raster.images import read_grid
from roadseg.raster.tiff import new_profile, open_new
from roadseg.roads.tiles.tiling import Tile, tiles_on

HALO_M = 300.0  # metres around the tiles that the scene has to show


def main():
    """Measure and print."""
    options = parse()
    measured = {"processor": processor(), "python": platform.python_version()}
    with tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
        folder = Path(scratch)
        measured["predict"] = [predict(folder, options, px) for px in options.predicted]
        chips = mirrored_chips(folder / "tile.tif", options)
        px = scene_px(read_grid(chips), max(options.tiles))
        scene = repeated(chips, folder / "scene.vrt", px, options.bands)
        tiles = tiles_inside(read_grid(scene))
        measured["trace"], measured["join"] = [], []
        for number in options.tiles:
            row = trace(scene, folder / f"tiles-{number}", some(tiles, number))
            measured["trace"].append(row)
            measured["join"].append(join(folder / f"tiles-{number}", number))
        items = sorted((folder / f"tiles-{max(options.tiles)}").glob("*/[!.]*.json"))
        of_tiles = [json.loads(item.read_text())["properties"] for item in items]
        names = ("megapixels", "cpu_seconds", "road_km", "km2", "peak_mb")
        measured["of_tiles"] = [{n: each[f"roadseg:{n}"] for n in names} for each in of_tiles]
        size = sum(p.stat().st_size for item in items for p in item.parent.glob(f"{item.stem}.*"))
        measured["bytes_per_road_km"] = size / sum(each["roadseg:road_km"] for each in of_tiles)
        measured["blank"] = trace(*blank(folder, read_grid(chips), options.bands))
    measured["dask"] = dask_overhead(options.tasks)
    if options.output:
        options.output.write_text(json.dumps(measured, indent=1) + "\n")


def parse():
    """Read the options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--image", type=Path, required=True, help="chip whose pixels are used")
    parser.add_argument("--labels", type=Path, required=True, help="its roads")
    parser.add_argument("--tiles", type=int, nargs="+", default=[1, 4, 16, 64], help="squares")
    parser.add_argument(
        "--predicted", type=int, nargs="+", default=[1000, 2000, 3000], help="pixels"
    )
    parser.add_argument("--tasks", type=int, default=500, help="empty ones, on Dask")
    parser.add_argument("--dips", type=int, default=12, help="in a chip")
    parser.add_argument("--blobs", type=int, default=20, help="in a chip")
    parser.add_argument("--bands", type=int, choices=(1, 8), default=8, help="1: any road alone")
    parser.add_argument("--output", type=Path, help="JSON file to write")
    parser.add_argument("--scratch", type=Path, help="folder for the files")
    return parser.parse_args()


def processor():
    """Return the name of the processor."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))


def scene_px(grid, tiles):
    """Return the side of a scene that holds a square of so many tiles, wherever its corner lies."""
    return int((np.sqrt(tiles) * 1000 + 1000 + 2 * HALO_M) / min(grid.pixel_size_m)) + 1


def tiles_inside(grid):
    """Return the tiles that a scene shows with their halo, sorted."""
    outline = reproject(np.array([grid.footprint_m]), grid.metric_crs, DEGREES)[0]
    return [t for t in tiles_on(outline, km=1) if grid.footprint_m.covers(t.around(HALO_M))]


def some(tiles, number):
    """Return a square of so many tiles."""
    side = round(np.sqrt(number))
    first = min(tiles, key=lambda tile: (tile.col, tile.row))
    return [
        Tile(first.zone, first.is_south, 1, first.col + col, first.row + row)
        for col in range(side)
        for row in range(side)
    ]


def run(*words):
    """Run roadseg; return CPU seconds and peak memory of its process and those that it started."""
    process = subprocess.Popen(
        [sys.executable, "-m", "roadseg", "-q", *map(str, words)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    begun = time.monotonic()
    said = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"roadseg {' '.join(map(str, words))} failed")
    return {
        "cpu_s": round(used.ru_utime + used.ru_stime, 3),
        "wall_s": round(time.monotonic() - begun, 2),
        "peak_mb": used.ru_maxrss // 1024,
        "said": said.splitlines()[0],
    }


def trace(scene, output, tiles):
    """Trace tiles in one process."""
    names = [word for tile in tiles for word in ("--tile", tile.id)]
    words = ["--output", output, "--km", 1, "--set", "graph.formats=gpkg", *names, scene]
    row = {"tiles": len(tiles), **run("tiles", "trace", *words)}
    items = [json.loads(path.read_text()) for path in output.glob("*/[!.]*.json")]
    row["megapixels"] = round(sum(item["properties"]["roadseg:megapixels"] for item in items), 1)
    per = row["cpu_s"] / row["megapixels"]
    row["of_tiles_s"] = sum(item["properties"]["roadseg:cpu_seconds"] for item in items)
    print(
        f"trace {len(tiles)} tiles, {row['megapixels']} MP: {row['cpu_s']} CPU s, {per:.3f} a MP, "
        f"{row['peak_mb']} MB; {row['said']}",
        flush=True,
    )
    return row


def blank(folder, grid, bands):
    """Make four tiles of ground without any road; return the arguments of `trace`."""
    px = scene_px(grid, 4)
    empty = Grid(grid.crs, grid.transform, px, px)
    path = folder / "blank.tif"
    with open_new(path, new_profile(empty, count=bands, dtype="uint8")) as target:
        for number in range(1, bands + 1):
            target.write(np.zeros((px, px), dtype=np.uint8), number)
        target.update_tags(ROADSEG_THRESHOLD="0.4")
    return path, folder / "blank", some(tiles_inside(empty), 4)


def join(folder, number):
    """Join tiles."""
    row = {"tiles": number, **run("tiles", "join", folder, folder.with_suffix(".gpkg"))}
    print(
        f"join {number} tiles: {row['cpu_s']} CPU s, {row['peak_mb']} MB; {row['said']}", flush=True
    )
    return row


def predict(folder, options, px):
    """Predict the image of the chip, repeated to so many pixels each way, by the starter."""
    image = folder / f"image-{px}.tif"
    with rasterio.open(options.image) as source:
        bands = source.read([1, 2, 3])
        profile = source.profile | {"count": 3, "driver": "GTiff", "width": px, "height": px}
    times = [1, *(-(-px // side) for side in bands.shape[1:])]
    with rasterio.open(image, "w", **profile) as target:
        target.write(np.tile(bands, times)[:, :px, :px])
    words = ["--checkpoint", "starter", "--gsd", "auto", "--scaling", "auto"]
    row = {"px": px, "megapixels": px * px / 1e6}
    row |= run("predict", *words, "--output", folder / f"predicted-{px}", image)
    grid = read_grid(image)
    row["km2"] = shapely.area(grid.footprint_m) / 1e6
    row["bytes_per_km2"] = (folder / f"predicted-{px}" / image.name).stat().st_size / row["km2"]
    print(
        f"predict {row['megapixels']} MP, {row['km2']:.2f} km2: {row['cpu_s']} CPU s, "
        f"{row['peak_mb']} MB",
        flush=True,
    )
    return row


def nothing(number):
    """Do nothing: an empty task."""
    return number


def dask_overhead(tasks):
    """Measure what a task costs on a Dask cluster of two processes, beside its work."""
    from dask.distributed import LocalCluster

    from roadseg.system.hosts.parallel import Executor, each

    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        executor = Executor(scheduler=cluster.scheduler_address)
        list(each(nothing, list(range(20)), executor=executor))
        begun, cpu = time.monotonic(), time.process_time()
        list(each(nothing, list(range(tasks)), executor=executor))
        row = {
            "tasks": tasks,
            "wall_ms": 1000 * (time.monotonic() - begun) / tasks,
            "cpu_ms": 1000 * (time.process_time() - cpu) / tasks,
        }
    print(
        f"Dask, {tasks} empty tasks: {row['wall_ms']:.2f} ms a task by the clock, "
        f"{row['cpu_ms']:.2f} ms of CPU in the client and the scheduler",
        flush=True,
    )
    return row


if __name__ == "__main__":
    import warnings

    warnings.simplefilter("ignore", NotGeoreferencedWarning)
    main()
