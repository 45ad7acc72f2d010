#!/usr/bin/env python3
"""Train the network that comes with roadseg, and put it into the package.

    scripts/train_starter.py FOLDER OPEN [--places 240] [--device cpu]

It learns from synthetic places, which are drawn into FOLDER, and from images with road labels whose
licences allow published weights. OPEN holds these:

- massachusetts: orthophotos of 1 m of the state of Massachusetts (MassGIS), with roads of
  OpenStreetMap (ODbL); from V. Mnih, "Machine Learning for Aerial Image Labeling", University of
  Toronto 2013
- dubai: images of about 1 m by Humans in the Loop and the Mohammed Bin Rashid Space Centre (CC0)

Each has images/, masks/*.png (1: road, 0: background, 255: no label) and part_A.txt, the names to
learn from. They are learned at 1 m, and enlarged to 0.5 m. FOLDER takes the images and the run; a
second call goes on where the first one ended. The weights are kept as 16-bit floats, which halves
their size.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import rasterio
import torch
from PIL import Image
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
from roadseg.system.files import atomic_write
from roadseg.system.progress import counted
from roadseg.system.workspace import Workspace

OPEN_GSD_M, NO_LABEL = 1.0, 255
# Sets of images from elsewhere: place, by how much its images are enlarged, weight of its chips.
ENLARGED = {
    "massachusetts_1": ("massachusetts", 1, 1.0),
    "massachusetts_2": ("massachusetts", 2, 0.35),
    "dubai_1": ("dubai", 1, 1.5),
    "dubai_2": ("dubai", 2, 0.5),
}
SETTINGS = {
    "labels.scheme": "constant",
    "split.method": "random",
    "split.folds": 12,
    "train.encoder_weights": "imagenet",
    "train.epochs": 4,
    "train.windows_per_chip": 9.5,
}


def main() -> None:
    """Draw, copy, train and keep."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("open", type=Path)
    parser.add_argument("--places", type=int, default=240)
    parser.add_argument("--device", default="auto")
    given = parser.parse_args()
    folder = given.folder.absolute()
    write_places(folder / "drawn", range(given.places))
    by_width = {"width": "attribute", "width_key": "width_m"}
    sets = {"drawn": _set(folder / "drawn", "roads", weight=1.5) | {"labels": by_width}}
    for name, (place, times, weight) in ENLARGED.items():
        _enlarge(given.open / place, folder / name, name, times=times)
        sets[name] = _set(folder / name, "masks", weight=weight) | {"gsd_m": OPEN_GSD_M / times}
    config = load_config(
        None,
        {
            "run": str(folder / "run"),
            "imagery.sets": sets,
            "compute.device": given.device,
            **SETTINGS,
        },
    )
    workspace = Workspace(config.run)
    print(pipeline.prepare(config, workspace))
    print(train.run(config, workspace, fold=0))
    _keep(workspace.checkpoint(0))


def _set(folder: Path, labels: str, *, weight: float) -> Mapping[str, object]:
    images, roads = [str(folder / "images")], [str(folder / labels)]
    return {"images": images, "roads": roads, "weight": weight}


def _enlarge(source: Path, target: Path, suffix: str, *, times: int) -> None:
    """Copy the images and masks of part A of a place, enlarged, under names of their own."""
    names = (source / "part_A.txt").read_text(encoding="utf-8").split()
    for kind in ("images", "masks"):
        (target / kind).mkdir(parents=True, exist_ok=True)
    for name in counted(names, suffix, total=len(names), unit="images"):
        image_file = target / "images" / f"{name}_{suffix}.png"
        mask_file = target / "masks" / f"{name}_{suffix}.tif"
        if image_file.exists() and mask_file.exists():
            continue
        image = Image.open(next((source / "images").glob(f"{name}.*"))).convert("RGB")
        size = (image.width * times, image.height * times)
        mask = Image.open(source / "masks" / f"{name}.png").resize(size, Image.Resampling.NEAREST)
        profile = {
            "driver": "GTiff",
            "width": mask.width,
            "height": mask.height,
            "count": 1,
            "dtype": "uint8",
            "nodata": NO_LABEL,
            "compress": "deflate",
        }
        with atomic_write(mask_file) as partial, rasterio.open(partial, "w", **profile) as written:
            written.write(np.asarray(mask), 1)
        with atomic_write(image_file) as partial:
            image.resize(size, Image.Resampling.BICUBIC).save(partial, "PNG")


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
