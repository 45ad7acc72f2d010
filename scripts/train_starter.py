#!/usr/bin/env python3
"""Train the network that comes with roadseg, on drawn cities alone, and put it into the package.

    scripts/train_starter.py FOLDER [--places 240] [--device cpu]

FOLDER takes the drawn places and the run; a second call goes on where the first one ended. The
weights are kept as 16-bit floats, which halves their size.
"""

import argparse
from pathlib import Path

import torch
from starter_places import write_places

from roadseg.api.runs import load_config
from roadseg.commands.stages import pipeline, train
from roadseg.learn.network.checkpoint_facts import STORED_AS
from roadseg.learn.network.checkpoints import (
    MODEL,
    named,
    read_checkpoint_facts,
    read_tensors,
    save_checkpoint,
)
from roadseg.learn.network.starter import starter_folder
from roadseg.system.workspace import Workspace

SETTINGS = {
    "labels.width": "attribute",
    "labels.width_key": "width_m",
    "labels.scheme": "constant",
    "split.block_m": 500.0,
    "train.epochs": 5,
    "train.windows_per_chip": 7,
}


def main() -> None:
    """Draw, train and keep."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--places", type=int, default=240)
    parser.add_argument("--device", default="auto")
    given = parser.parse_args()
    folder = given.folder.absolute()
    write_places(folder, range(given.places))
    places = {"run": str(folder / "run"), "imagery.images": [str(folder / "images")]}
    roads = {"labels.roads": [str(folder / "roads")], "compute.device": given.device}
    config = load_config(None, {**places, **roads, **SETTINGS})
    workspace = Workspace(config.run)
    print(pipeline.prepare(config, workspace))
    print(train.run(config, workspace, fold=0))
    _keep(workspace.checkpoint(0))


def _keep(trained: Path) -> None:
    """Write the weights and facts of a checkpoint into the package."""
    facts = read_checkpoint_facts(trained, "best")
    weights = read_tensors(trained, "best", MODEL)
    halves = {k: t.half() if t.dtype == torch.float32 else t for k, t in weights.items()}
    facts |= {STORED_AS: "float16"}
    save_checkpoint(starter_folder(), "best", named(MODEL, halves), facts)
    size = (starter_folder() / "best.safetensors").stat().st_size / 1e6
    print(f"{starter_folder()}: {size:.1f} MB")


if __name__ == "__main__":
    main()
