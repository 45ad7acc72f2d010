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
learn from. 1. A first network learns from the synthetic places alone, from ImageNet weights.
2. It goes on with the open images as well, at 1 m and enlarged to 0.5 m.
3. The weights of both are averaged, those at the end of the second training with 0.7. On ground of
   neither, the mean finds roads better than each of the two (M. Wortsman et al., Robust fine-tuning
   of zero-shot models, CVPR 2022). Its statistics of batch normalisation are computed anew, on 640
   windows of the second training (P. Izmailov et al., Averaging weights leads to wider optima, UAI
   2018).

FOLDER takes the images and the runs; a second call goes on where the first one ended. The weights
are kept as 16-bit floats, which halves their size. Pixels finer than GSD_M hide fewer false roads
when they are resampled to it, and networks find too little on ground of other kinds at 0.5: both
values were chosen on San Diego and Paris.
"""

import argparse
import itertools
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import rasterio
import torch
from PIL import Image
from starter_places import write_places
from torch.optim.swa_utils import update_bn
from torch.utils.data import DataLoader

from roadseg.api.runs import load_config
from roadseg.commands.stages import pipeline, train
from roadseg.commands.stages.training_jobs import training_job
from roadseg.config import Config
from roadseg.learn.hardware.distributed import Parallel
from roadseg.learn.network.checkpoint_facts import STORED_AS, read_checkpoint_facts
from roadseg.learn.network.checkpoints import (
    MODEL,
    load_checkpoint,
    named,
    read_tensors,
    save_checkpoint,
)
from roadseg.learn.network.installed_weights import starter_folder
from roadseg.learn.network.models import Normalise
from roadseg.learn.training.samples import TrainingWindows, epoch_batches
from roadseg.raster.scaling import Scaling
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
GSD_M, THRESHOLD = (0.7, 1.0), 0.15  # Pixel sizes to map as they are, metres; what is road.
SECOND = 0.7  # Weight of the second network in the mean.
BATCHES = 80  # On which the statistics of the mean are computed.
DRAWN = {
    "labels.width": "attribute",
    "labels.width_key": "width_m",
    "labels.scheme": "constant",
    "split.block_m": 500.0,
    "train.encoder_weights": "imagenet",
    "train.epochs": 5,
    "train.windows_per_chip": 7,
}
ALL = {
    "labels.scheme": "constant",
    "split.method": "random",
    "split.folds": 12,
    "train.epochs": 6,
    "train.windows_per_chip": 2.95,
    "train.learning_rate": 5e-4,
    "train.seed": 2,
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
    drawn = _set(folder / "drawn", "roads", weight=2.0)
    first = {"imagery.images": drawn["images"], "labels.roads": drawn["roads"], **DRAWN}
    first_network = _train(_config(folder / "run_drawn", first, device=given.device))
    sets = {"drawn": drawn | {"labels": {"width": "attribute", "width_key": "width_m"}}}
    for name, (place, times, weight) in ENLARGED.items():
        _enlarge(given.open / place, folder / name, name, times=times)
        sets[name] = _set(folder / name, "masks", weight=weight) | {"gsd_m": OPEN_GSD_M / times}
    second = {"imagery.sets": sets, "train.init": str(first_network), **ALL}
    config = _config(folder / "run", second, device=given.device)
    _keep(first_network, _train(config), config)


def _config(run: Path, settings: Mapping[str, object], *, device: str) -> Config:
    return load_config(None, {"run": str(run), "compute.device": device, **settings})


def _train(config: Config) -> Path:
    """Train fold 0; return the folder of its network."""
    workspace = Workspace(config.run)
    print(pipeline.prepare(config, workspace))
    print(train.run(config, workspace, fold=0))
    return workspace.checkpoint(0)


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


def _keep(first: Path, second: Path, config: Config) -> None:
    """Write the mean of two networks into the package, with the second's facts.

    Args:
        config: that of the second network, on whose training windows the statistics are computed.
    """
    before, after = read_tensors(first, "best", MODEL), read_tensors(second, "last", MODEL)
    checkpoint = load_checkpoint(second)
    network = checkpoint.model
    network.load_state_dict(
        {
            name: (1 - SECOND) * before[name] + SECOND * tensor
            if tensor.is_floating_point()
            else tensor
            for name, tensor in after.items()
        }
    )
    scaling = Scaling(**checkpoint.facts["scaling"])
    windows = itertools.islice(_windows(config), BATCHES)
    update_bn(windows, torch.nn.Sequential(Normalise(scaling), network))
    halves = {
        name: tensor.half() if tensor.is_floating_point() else tensor
        for name, tensor in network.state_dict().items()
    }
    last = read_checkpoint_facts(second, "last")
    score = {name: last["history"][-1][name] for name in checkpoint.facts["score"]}
    facts = checkpoint.facts | {STORED_AS: "float16", "threshold": THRESHOLD}
    facts |= {"epoch": last["epoch"], "score": score}
    facts |= {"init": None, "encoder_weights": "imagenet"}
    facts |= {"gsd_m": GSD_M[0], "gsd_range_m": list(GSD_M), "pixel_sizes_m": list(GSD_M)}
    for of_second in ("thresholds", "began_with", "first_init", "first_encoder_weights"):
        facts.pop(of_second, None)
    save_checkpoint(starter_folder(), "best", named(MODEL, halves), facts)
    size = (starter_folder() / "best.safetensors").stat().st_size / 1e6
    print(f"{starter_folder()}: {size:.1f} MB")


def _windows(config: Config) -> DataLoader[tuple[torch.Tensor, ...]]:
    """Return the windows of an epoch without augmentation, in batches."""
    job = training_job(config, Workspace(config.run), 0)
    plain = job.options.model_copy(update={"augment": ()})
    windows = TrainingWindows(job.training, plain)
    return DataLoader(
        windows,
        batch_sampler=epoch_batches(
            len(windows), 1, seed=plain.seed, batch_size=plain.batch_size, parallel=Parallel()
        ),
    )


if __name__ == "__main__":
    main()
