"""The default network is that of the libraries, without importing them."""

import copy
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from roadseg.errors import ConfigError
from roadseg.learn.network.lite_unet import ENCODER, LiteUnet
from roadseg.learn.network.models import NetworkSpec, build_model, check_batch, model_to_fill

SPEC = NetworkSpec(encoder=ENCODER, in_channels=2, classes=3, decoder_channels=(12, 10, 8, 6, 4))
AT_HALF = replace(SPEC, decoder_channels=(12, 10, 8, 6))
# What takes long to import, and a map of images with the starter does not need.
UNNEEDED = (
    *("timm", "torchvision", "segmentation_models_pytorch", "torch._dynamo", "sympy"),
    *("networkx", "scipy.stats", "scipy.fft", "matplotlib.figure", "albumentations"),
)


@pytest.fixture(scope="module", params=[SPEC, AT_HALF], ids=["whole", "at half"])
def both(request):
    """Give the network that the libraries build, and ours with its values."""
    model = build_model(request.param).eval()
    ours = model_to_fill(request.param).eval()
    ours.load_state_dict(model.state_dict(), assign=True)
    return model, ours


def test_its_values_have_the_names_of_the_libraries_in_their_order(both):
    model, ours = both
    assert isinstance(ours, LiteUnet)
    assert list(ours.state_dict()) == list(model.state_dict())


@pytest.mark.parametrize("shape", [(1, 2, 64, 96), (2, 2, 32, 32)])
def test_it_computes_the_same_logits_bit_for_bit(both, shape):
    model, ours = both
    images = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        assert torch.equal(ours(images), model(images))


def test_it_trains_as_the_one_of_the_libraries_bit_for_bit(both):
    images = torch.randn(2, 2, 64, 96, generator=torch.Generator().manual_seed(0))
    trained = [copy.deepcopy(model).train() for model in both]
    for model in trained:
        model(images).square().mean().backward()
    for theirs, ours in zip(*(model.parameters() for model in trained), strict=True):
        assert torch.equal(ours.grad, theirs.grad)
    for theirs, ours in zip(*(model.buffers() for model in trained), strict=True):
        assert torch.equal(ours, theirs)


def test_only_a_batch_of_one_value_is_none_to_train_on():
    model = model_to_fill(SPEC)
    for batch in ({"window_px": 32, "batch_size": 2}, {"window_px": 64, "batch_size": 1}):
        check_batch(model.train(), in_channels=2, **batch)
    check_batch(model.eval(), in_channels=2, window_px=32, batch_size=1)
    with pytest.raises(ConfigError, match="cannot train on 1 windows of 32 pixels"):
        check_batch(model.train(), in_channels=2, window_px=32, batch_size=1)


@pytest.mark.parametrize(
    "changes",
    [
        {"encoder": "tu-test_resnet"},
        {"architecture": "fpn"},
        {"decoder_channels": None},
    ],
)
def test_other_networks_are_built_by_the_libraries(changes):
    spec = NetworkSpec(**{**vars(SPEC), **changes})
    assert not isinstance(model_to_fill(spec), LiteUnet)


def test_predicting_needs_no_tables_and_the_starter_no_other_networks_and_charts():
    code = f"""
import sys
import roadseg.commands.stages.predict
tables = {{"pandas", "geopandas", "pyogrio", "scipy", "cv2"}} & set(sys.modules)
import roadseg.commands.tools.map
from roadseg.learn.network.checkpoints import load_checkpoint
from roadseg.learn.network.models import check_names
from roadseg.learn.network.pretrained import new_network
from roadseg.learn.network.installed_weights import starter_folder
from roadseg.learn.options import TrainOptions
from roadseg.roads.speeds import DEFAULT_BINS
load_checkpoint(starter_folder())
options = TrainOptions()
check_names(options.architecture, options.encoder)
new_network(options, bands=3, bins=DEFAULT_BINS)
sys.exit(" ".join(sorted(tables | {set(UNNEEDED)!r} & set(sys.modules))))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == ""
