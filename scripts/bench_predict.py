#!/usr/bin/env python
"""Measure prediction from file to file against the bare network, and its memory.

    scripts/bench_predict.py --image city.tif [--checkpoint FOLDER] [--engine eager openvino]
    scripts/bench_predict.py --image city.tif --memory [--sizes 4000 12000 24000]

The scene is IMAGE, mirrored to --size. Each engine predicts it in rounds, in turns with as many
windows in memory through the same engine at the same batch: `roadseg` reads, predicts, blends and
writes the COG; `bare` is the network and nothing else. Prints megapixels of the scene a second and
the ratios of the rounds, by the clock and by the CPU time of the process: median, lowest and
highest. Without a checkpoint the network is new and has learned nothing.

`--memory` runs `roadseg predict` once for each size, in a process of its own, and prints its
largest resident memory and its time.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path

import numpy as np
import rasterio
import torch

from roadseg.learn.inference.sliding_window import count_windows
from roadseg.learn.inference.tasks import (
    Networks,
    SceneToPredict,
    Task,
    WindowSides,
    open_networks,
    predict_task,
)
from roadseg.learn.network.checkpoint_facts import read_checkpoint_facts, speed_bins_of
from roadseg.learn.network.checkpoints import named, save_checkpoint
from roadseg.learn.network.models import NetworkSpec, build_model
from roadseg.learn.options import ComputeOptions, PredictOptions
from roadseg.raster.images import read_facts
from roadseg.raster.scaling import Scaling
from roadseg.raster.tiff import new_profile, open_new
from roadseg.raster.windows import Window, cut_blocks, fitting_batch
from roadseg.roads.speeds import DEFAULT_BINS
from roadseg.system.schemas import check

BLOCK_PX = 2048
BANDS = 3
RANGES = ((0.0, 255.0),) * BANDS


def main():
    """Measure and print."""
    options = parse()
    with tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
        folder = Path(scratch)
        checkpoint = options.checkpoint or new_checkpoint(folder / "checkpoint", options)
        if options.memory:
            for size in options.sizes:
                report_memory(folder, checkpoint, size, options)
            return
        image = mirrored(options.image, folder / "scene.tif", options.size)
        for engine in options.engine:
            report_rates(engine, measure(engine, image, checkpoint, options), options)


def parse():
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--image", type=Path, required=True, help="what the scene is made of")
    parser.add_argument("--checkpoint", type=Path, help="folder; else a new network")
    parser.add_argument("--encoder", default="resnet34", help="of a new network")
    parser.add_argument("--engine", nargs="+", default=["eager"])
    parser.add_argument("--size", type=int, default=2048, help="side of the scene, pixels")
    parser.add_argument("--window-px", type=int, help="else those that fit the scene")
    parser.add_argument("--overlap-px", type=int, default=PredictOptions().overlap_px)
    parser.add_argument("--batch-size", type=int, default=PredictOptions().batch_size)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--sizes", nargs="+", type=int, default=[4000, 12000, 24000])
    parser.add_argument(
        "--scratch", type=Path, help="folder for the files; else that of the system"
    )
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def new_checkpoint(folder, options):
    """Write a network that has learned nothing, and return its folder."""
    torch.manual_seed(0)
    built = {
        "architecture": "unet",
        "encoder": options.encoder,
        "in_channels": BANDS,
        "classes": DEFAULT_BINS.count + 1,
    }
    facts = read_facts(options.image)
    known = {
        "scaling": asdict(
            Scaling({facts.dtype: ((0.0, 255.0),) * BANDS}, (90.0,) * 3, (40.0,) * 3)
        ),
        "bin_edges": DEFAULT_BINS.edges,
        "bin_unit": DEFAULT_BINS.unit,
        "bands": [1, 2, 3],
        "gsd_m": sum(facts.grid.pixel_size_m) / 2,
        "resample_m": None,
        "nodata": None,
        "fold": 0,
        "epoch": 0,
        "score": {},
        "versions": {"roadseg": "0", "torch": torch.__version__},
    }
    model = build_model(NetworkSpec(**built))
    save_checkpoint(folder, "best", named("model.", model.state_dict()), {**built, **known})
    return folder


def mirrored(image, path, size):
    """Write an image, mirrored again and again to the side wanted, in compressed tiles."""
    facts = read_facts(image)
    with rasterio.open(image) as source:
        pixels = source.read(list(facts.bands[:BANDS]))
    flipped = np.concatenate([pixels, pixels[:, ::-1]], axis=1)
    pattern = np.concatenate([flipped, flipped[:, :, ::-1]], axis=2)
    grid = replace(facts.grid, height=size, width=size)
    profile = new_profile(grid, count=BANDS, dtype=facts.dtype)
    with open_new(path, profile | {"compress": "deflate", "zlevel": 1}) as target:
        for block in cut_blocks(size, size, block_px=BLOCK_PX):
            target.write(part(pattern, block), window=block.to_rasterio())
    return path


def part(pattern, block):
    """Return a block of a pattern that repeats."""
    rows = np.arange(block.row, block.row + block.height) % pattern.shape[1]
    cols = np.arange(block.col, block.col + block.width) % pattern.shape[2]
    return pattern[:, rows[:, None], cols]


def measure(engine, image, checkpoint, options):
    """Predict the scene in turns with the bare network; return seconds of both, by two clocks."""
    work = task_of(engine, image, checkpoint, options)
    network = open_networks(work.networks)
    print(network.reason, flush=True)
    windows = first_windows(work)

    def roadseg():
        work.scene.path.unlink(missing_ok=True)
        predict_task(work)

    def bare():
        for _ in range(-(-work.networks.windows // len(windows))):
            network.run(windows).cpu()

    seconds = {name: [] for name in ("roadseg", "bare")}
    for number, way in product(range(options.rounds + 1), (roadseg, bare)):
        taken = timed(way)
        if number:  # the first round warms up
            seconds[way.__name__].append(taken)
    return seconds


def timed(way):
    """Return the seconds that something takes, by the clock and of CPU time."""
    begun = time.perf_counter(), time.process_time()
    way()
    return time.perf_counter() - begun[0], time.process_time() - begun[1]


def task_of(engine, image, checkpoint, options):
    """Return the work of predicting a whole scene."""
    facts = read_facts(image)
    known = read_checkpoint_facts(checkpoint, "best")
    size = (facts.grid.height, facts.grid.width)
    predict = PredictOptions(
        engine=engine,
        window_px=options.window_px,
        overlap_px=options.overlap_px,
        batch_size=options.batch_size,
    )
    side = predict.window_for(*size)
    compute = ComputeOptions(device=options.device, precision=options.precision)
    windows = count_windows(*size, window_px=side, overlap_px=options.overlap_px)
    batch_size = fitting_batch([windows], most=predict.most_at_once(side))
    sides = WindowSides(side, ((side,),))
    networks = Networks((checkpoint,), (), predict, compute, sides, batch_size, windows)
    scaling, bins = check(known["scaling"], Scaling), speed_bins_of(known)
    path = image.with_name("out.tif")
    scene = SceneToPredict("scene", facts, scaling, path, "key", bins, None, None, (), sides)
    return Task(scene, (range(size[0]),), is_all=True, networks=networks)


def first_windows(work):
    """Read a batch of windows of the scene into memory."""
    with rasterio.open(work.scene.facts.path) as source:
        side = work.networks.sides.read
        window = source.read(window=Window(0, 0, side, side).to_rasterio())
    scaled = work.scene.scaling.apply(window)
    return torch.from_numpy(np.stack([scaled] * work.networks.batch_size))


def report_rates(engine, seconds, options):
    """Print megapixels a second, and the ratios within each round."""
    megapixels = options.size**2 / 1e6
    rates = {
        name: megapixels / statistics.median(clock for clock, _ in taken)
        for name, taken in seconds.items()
    }
    pairs = list(zip(seconds["bare"], seconds["roadseg"], strict=True))
    ratios = {
        clock: sorted(bare[number] / ours[number] for bare, ours in pairs)
        for number, clock in enumerate(("clock", "cpu"))
    }
    if options.json:
        print(json.dumps({"engine": engine, "megapixels_per_s": rates, "ratios": ratios}))
        return
    for name, rate in rates.items():
        print(f"{engine} {name:<8} {rate:8.3f} megapixels/s")
    for clock, values in ratios.items():
        spread = f"{statistics.median(values):6.3f}  ({values[0]:.3f} to {values[-1]:.3f})"
        print(f"{engine} roadseg / bare by {clock:<6} {spread}")


def report_memory(folder, checkpoint, size, options):
    """Predict a scene of a size in another process; print its largest memory and its time."""
    image = mirrored(options.image, folder / f"scene_{size}.tif", size)
    words = [
        *(sys.executable, "-m", "roadseg", "-q", "predict", "--engine", options.engine[0]),
        *("--checkpoint", checkpoint, "--output", folder / "out", image),
        *("--set", f"predict.window_px={json.dumps(options.window_px)}"),
        *("--set", f"predict.overlap_px={options.overlap_px}"),
        *("--set", f"predict.batch_size={options.batch_size}"),
    ]
    begun = time.perf_counter()
    process = subprocess.Popen(list(map(str, words)), stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"it ended with {os.waitstatus_to_exitcode(status)}")
    figures = {
        "size": size,
        "megapixels": size**2 / 1e6,
        "peak_mb": used.ru_maxrss * 1024 / 1e6,
        "seconds": time.perf_counter() - begun,
        "cpu_seconds": used.ru_utime + used.ru_stime,
    }
    print(json.dumps({name: round(value, 1) for name, value in figures.items()}), flush=True)
    for made in (image, folder / "out" / image.name):
        made.unlink()


if __name__ == "__main__":
    main()
