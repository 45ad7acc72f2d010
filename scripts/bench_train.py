#!/usr/bin/env python
"""Measure training from files to weights against a bare loop in memory and a plain recipe.

    scripts/bench_train.py [--steps 4] [--rounds 9] [--batch-size 4] [--window-px 256]

Three processes take steps in turns, each a few at a time: `roadseg` (what `roadseg train` does
between two validations: windows are read and augmented by its workers, its step, its memory
settings), `bare` (the same model, batch, loss and precision on one batch in memory, and nothing
else) and `plain` (what tutorials start from: default memory layout, unfused Adam, losses of a
library, one worker process for the same windows). Prints windows a second, and the ratios of the
rounds: median, lowest and highest. The data is the drawn city of the demo.
"""

import argparse
import json
import multiprocessing
import statistics
import tempfile
import time
from pathlib import Path

import segmentation_models_pytorch as smp
import torch
from torch import nn
from torch.utils.data import DataLoader

from roadseg.commands.stages.pipeline import prepare
from roadseg.commands.tools import demo
from roadseg.config import load_config
from roadseg.dataset.chips import read_chips
from roadseg.learn.hardware.cpu import keep_freed_memory
from roadseg.learn.hardware.devices import pick_device
from roadseg.learn.hardware.distributed import Parallel
from roadseg.learn.inference.bench import noise_trainer
from roadseg.learn.network.losses import loss_of, loss_sums
from roadseg.learn.network.models import NetworkSpec, Normalise, build_model
from roadseg.learn.options import TrainOptions
from roadseg.learn.training.epochs import seed_step
from roadseg.learn.training.samples import Chip, TrainingBatches, TrainingWindows
from roadseg.learn.training.trainer import build_optimizer
from roadseg.raster.images import read_facts
from roadseg.raster.scaling import Scaling
from roadseg.system.records import read_json
from roadseg.system.schemas import check
from roadseg.system.workspace import Workspace

BANDS = 3


def main():
    """Measure and print."""
    options = parse()
    with tempfile.TemporaryDirectory() as scratch:
        config = prepared_city(Path(scratch))
        rates = measure(config, options)
    report(rates, as_json=options.json)


def parse():
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=4, help="of a round")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--window-px", type=int, default=256)
    parser.add_argument("--encoder", default="resnet34")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def prepared_city(folder):
    """Draw the city, and prepare it at its own resolution; return its config."""
    demo.run(folder)
    path = folder / "roadseg.json"
    settings = json.loads(path.read_text())
    settings["imagery"].pop("gsd_m")
    path.write_text(json.dumps(settings))
    config = load_config(path)
    prepare(config, Workspace(config.run))
    return config


def measure(config, options):
    """Let the processes take steps in turns; return the windows a second of each round."""
    context = multiprocessing.get_context("spawn")
    pipes = {}
    for way in (roadseg, bare, plain):
        pipes[way.__name__], theirs = context.Pipe()
        context.Process(target=serve, args=(way, config, options, theirs)).start()
    rates = {name: [] for name in pipes}
    for number in range(options.rounds + 1):
        for name, pipe in pipes.items():
            pipe.send("go")
            seconds = pipe.recv()
            if number:  # the first round warms up
                rates[name].append(options.steps * options.batch_size / seconds)
        if number:
            print({name: round(values[-1], 3) for name, values in rates.items()}, flush=True)
    for pipe in pipes.values():
        pipe.send("stop")
    return rates


def serve(way, config, options, pipe):
    """Take steps whenever asked to."""
    device = pick_device(options.device, options.precision, compiled=options.compile)
    step = way(config, options, device)
    while pipe.recv() == "go":
        begun = time.perf_counter()
        for _ in range(options.steps):
            step()
        device.synchronize()
        pipe.send(time.perf_counter() - begun)


def train_options(options):
    """Return the options of the measured training."""
    return TrainOptions(
        encoder=options.encoder,
        window_px=options.window_px,
        batch_size=options.batch_size,
        windows_per_chip=options.steps * (options.rounds + 2) * options.batch_size,
    )


def city(config):
    """Return the chips, and the number of speed bins."""
    workspace = Workspace(config.run)
    listed, scaling = read_chips(workspace.chips), read_json(workspace.scaling)
    scenes = {
        scene.name: read_facts(scene.image, config.of_set(scene.set).imagery)
        for scene in listed.scenes
    }
    chips = [
        Chip(
            scenes[chip.scene],
            workspace.mask(chip.scene),
            chip.window,
            check(scaling, Scaling),
        )
        for chip in listed.chips
    ]
    return chips, listed.bins.count


def roadseg(config, options, device):
    """Return the step of this package, with all that brings its windows."""
    keep_freed_memory()
    training, (chips, bins) = train_options(options), city(config)
    trainer = noise_trainer(training, bands=BANDS, bins=bins, device=device)
    batches = TrainingBatches(
        chips,
        training,
        parallel=Parallel(),
        workers=options.workers,
        pin_memory=device.pin_memory,
    )
    steps = enumerate(batches.after(0), start=1)
    total = torch.zeros((), device=device.type)

    def step():
        number, taken = next(steps)
        seed_step(0, number, 0)
        total.add_(trainer.step(taken, rate=training.learning_rate))

    return step


def bare(config, options, device):
    """Return a step on one batch in memory."""
    training, (chips, bins) = train_options(options), city(config)
    windows = TrainingWindows(chips, training)
    first = [windows[len(windows) + number] for number in range(training.batch_size)]
    images, masks = (torch.stack(each) for each in zip(*first, strict=True))
    model = device.to(build_model(NetworkSpec.for_training(training, bands=BANDS, bins=bins)))
    model, optimizer = device.for_training(
        model, build_optimizer(model.parameters(), rate=training.learning_rate, device=device)
    )
    network, scaler = device.compile(model).train(), device.scaler()
    ready, wanted = device.to(images.float().sub(127).div(64)), device.to(masks)

    def step():
        with device.autocast():
            logits = network(ready)
        sums = loss_sums(logits.float(), wanted, weights=training.loss)
        scaler.scale(loss_of(sums, weights=training.loss)).backward()
        device.mark()
        scaler.step(optimizer)
        scaler.update()
        device.mark()
        optimizer.zero_grad(set_to_none=True)

    return step


def plain(config, options, device):
    """Return the step of a tutorial."""
    training, (chips, bins) = train_options(options), city(config)
    model = build_model(
        NetworkSpec(
            architecture=training.architecture,
            encoder=training.encoder,
            in_channels=BANDS,
            classes=bins + 1,
        )
    )
    normalise = Normalise(Scaling({}, (127.0,) * BANDS, (64.0,) * BANDS))
    network = nn.Sequential(normalise, model).to(device.type).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=training.learning_rate, foreach=False)
    focal, dice = smp.losses.FocalLoss("binary"), smp.losses.DiceLoss("multilabel")
    windows = TrainingWindows(chips, training)
    order = range(len(windows), 2 * len(windows))
    batches = iter(DataLoader(windows, training.batch_size, sampler=order, num_workers=1))

    def step():
        images, masks = (each.to(device.type) for each in next(batches))
        wanted = torch.stack([masks == bin_ for bin_ in range(1, bins + 1)] + [masks > 0], dim=1)
        wanted = wanted.float()
        with device.autocast():
            logits = network(images)
        loss = 0.75 * focal(logits.float(), wanted) + 0.25 * dice(logits.float(), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def report(rates, *, as_json):
    """Print medians of the rates, and of the ratios within each round."""
    medians = {name: statistics.median(values) for name, values in rates.items()}
    ratios = {
        name: sorted(a / b for a, b in zip(rates["roadseg"], rates[name], strict=True))
        for name in ("bare", "plain")
    }
    if as_json:
        print(json.dumps({"windows_per_s": medians, "roadseg_over": ratios}))
        return
    for name, rate in medians.items():
        print(f"{name:<16} {rate:8.3f} windows/s")
    for name, values in ratios.items():
        middle = statistics.median(values)
        print(f"roadseg / {name:<6} {middle:8.3f}  ({values[0]:.3f} to {values[-1]:.3f})")


if __name__ == "__main__":
    main()
