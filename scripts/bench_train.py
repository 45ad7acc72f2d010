#!/usr/bin/env python
"""Measure `roadseg train` against a bare loop in memory and against the plain recipe.

    scripts/bench_train.py [--steps 8] [--rounds 5] [--batch-size 4] [--window-px 512]

In turns: `roadseg` (one more epoch of the command, from files to weights: its windows a second as
in metrics.csv), `bare` (as many steps of the same model, batch, loss and precision on one batch in
memory) and `plain` (what tutorials start from: default memory layout, an unfused Adam, the same
windows from one worker process). Prints windows a second, and medians of the ratios of each round.
The data is the drawn city of the demo.
"""

import argparse
import csv
import json
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader

from roadseg.config import load_config
from roadseg.core.scaling import Scaling
from roadseg.io.chips import read_chips
from roadseg.io.records import read_json
from roadseg.learn.bench import bare_step
from roadseg.learn.chips import Chip, TrainingWindows
from roadseg.learn.devices import pick_device
from roadseg.learn.losses import loss_of, loss_sums
from roadseg.learn.models import Normalise, build_model
from roadseg.networks import recipe_of
from roadseg.pipeline import prepare
from roadseg.scenes import scene_facts
from roadseg.stages import demo
from roadseg.workspace import Workspace


def main():
    """Measure and print."""
    options = parse()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        demo.run(folder)
        config = configure(folder, options)
        workspace = Workspace(config.run)
        prepare(config, workspace)
        chips, bins = chips_to_learn(config, workspace)
        device = pick_device(options.device, options.precision, compiled=options.compile)
        print(device.reason, flush=True)
        windows = TrainingWindows(
            chips,
            window_px=options.window_px,
            windows_per_chip=config.train.windows_per_chip,
            road_share=config.train.road_share,
            seed=0,
        )
        loops = {
            "bare": bare(config, windows, bins, device),
            "plain": plain(config, windows, bins, device),
        }
        rates = {"roadseg": [], **{name: [] for name in loops}}
        for number in range(1, options.rounds + 1):
            rates["roadseg"].append(one_more_epoch(folder, workspace, number))
            for name, loop in loops.items():
                rates[name].append(timed(loop, options, device))
            print({name: round(values[-1], 3) for name, values in rates.items()}, flush=True)
    report(rates, as_json=options.json)


def parse():
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=8, help="of a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--window-px", type=int, default=512)
    parser.add_argument("--encoder", default="resnet34")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def configure(folder, options):
    """Write the config of the city, with an epoch of as many steps as asked for."""
    path = folder / "roadseg.json"
    settings = json.loads(path.read_text())
    settings["imagery"].pop("gsd_m")
    chips = 8  # of the ten, those not held out
    settings["train"] = {
        "encoder": options.encoder,
        "window_px": options.window_px,
        "batch_size": options.batch_size,
        "windows_per_chip": -(-options.steps * options.batch_size // chips),
        "patience": options.rounds,
    }
    settings["compute"] = {
        "device": options.device,
        "precision": options.precision,
        "compile": options.compile,
        "workers": options.workers,
    }
    path.write_text(json.dumps(settings))
    return load_config(path)


def chips_to_learn(config, workspace):
    """Return the chips of all folds but the first, as `roadseg train` makes them."""
    listed, folds = read_chips(workspace.chips), read_json(workspace.folds)
    scaling = Scaling.from_json(read_json(workspace.scaling))
    scenes = {scene.name: scene_facts(scene.image, config.imagery) for scene in listed.scenes}
    chips = [
        Chip(scenes[chip.scene], workspace.mask(chip.scene), chip.window, scaling)
        for chip in listed.chips
        if folds[chip.name]
    ]
    return chips, listed.bins.count


def one_more_epoch(folder, workspace, number):
    """Let the command train up to an epoch; return its windows a second in that epoch."""
    words = ["train", "--config", str(folder / "roadseg.json"), f"--set=train.epochs={number}"]
    subprocess.run(
        [sys.executable, "-m", "roadseg", "-qq", *words], check=True, stdout=subprocess.DEVNULL
    )
    with (workspace.checkpoint(0) / "metrics.csv").open() as file:
        row = list(csv.DictReader(file))[-1]
    if int(float(row["epoch"])) != number:
        sys.exit(f"expected epoch {number} in metrics.csv, found {row}; more --rounds, or fewer")
    return float(row["windows_per_s"])


def bare(config, windows, bins, device):
    """Return a loop on one batch in memory."""
    recipe = recipe_of(config.train)
    images, masks = (
        torch.stack(each) for each in zip(*first(windows, recipe.batch_size), strict=True)
    )
    step = bare_step(recipe, images, [masks], bins=bins, device=device)

    def loop(steps):
        for _ in range(steps):
            step()

    return loop


def first(windows, count):
    """Return the first windows of the first epoch."""
    return [windows[len(windows) + number] for number in range(count)]


def plain(config, windows, bins, device):
    """Return the loop of a tutorial."""
    recipe = replace(recipe_of(config.train), optimizer="adam")
    model = build_model(
        architecture=recipe.architecture,
        encoder=recipe.encoder,
        encoder_weights=None,
        in_channels=3,
        classes=bins + 1,
    )
    network = nn.Sequential(Normalise(Scaling({}, (127.0,) * 3, (64.0,) * 3)), model)
    network = network.to(device.type).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=recipe.learning_rate, foreach=False)
    order = range(len(windows), 2 * len(windows))

    def loop(steps):
        batches = DataLoader(windows, recipe.batch_size, sampler=order, num_workers=1)
        for _, (images, masks) in zip(range(steps), batches, strict=False):
            with device.autocast():
                logits = network(images.to(device.type))
            sums = loss_sums(logits.float(), masks.to(device.type), weights=recipe.loss)
            optimizer.zero_grad()
            loss_of(sums, weights=recipe.loss).backward()
            optimizer.step()

    return loop


def timed(loop, options, device):
    """Return the windows a second of a loop."""
    begun = time.perf_counter()
    loop(options.steps)
    device.synchronize()
    return options.steps * options.batch_size / (time.perf_counter() - begun)


def report(rates, *, as_json):
    """Print medians of the rates, and of the ratios within each round."""
    medians = {name: statistics.median(values) for name, values in rates.items()}
    ratios = {
        name: statistics.median(a / b for a, b in zip(rates["roadseg"], rates[name], strict=True))
        for name in ("bare", "plain")
    }
    if as_json:
        print(json.dumps({"windows_per_s": medians, "roadseg_over": ratios}))
        return
    for name, rate in medians.items():
        print(f"{name:<8} {rate:8.3f} windows/s")
    for name, ratio in ratios.items():
        print(f"roadseg / {name:<6} {ratio:.3f}")


if __name__ == "__main__":
    main()
