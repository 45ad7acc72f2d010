"""Writes a tiny checkpoint: a network that has learned nothing, and the facts of one that has."""

from dataclasses import asdict

import torch

from roadseg.learn.network.checkpoints import named, save_checkpoint
from roadseg.learn.network.models import NetworkSpec, build_model
from roadseg.raster.scaling import Scaling
from roadseg.roads.speeds import DEFAULT_BINS


def make_checkpoint(folder):
    """Write the best weights of a network for three bands of bytes at 1 m into a folder."""
    model = {"architecture": "unet", "encoder": "tu-test_resnet", "in_channels": 3, "classes": 8}
    model["decoder_channels"] = (32, 16, 16, 8, 8)
    scaling = Scaling({"uint8": ((0.0, 255.0),) * 3}, mean=(90.0,) * 3, std=(30.0,) * 3)
    facts = {
        **model,
        "scaling": asdict(scaling),
        "bin_edges": DEFAULT_BINS.edges,
        "bin_unit": DEFAULT_BINS.unit,
        "bands": [1, 2, 3],
        "gsd_m": 1.0,
        "resample_m": None,
        "nodata": None,
        "fold": 0,
        "epoch": 1,
        "score": {"val_loss": 0.5},
        "versions": {"roadseg": "0", "torch": "0"},
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # so that it is the same network, whatever was tested before
        weights = build_model(NetworkSpec(**model)).state_dict()
    save_checkpoint(folder, "best", named("model.", weights), facts)
