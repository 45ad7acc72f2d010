"""Exports: what is written is the network, and says how to use it; otherwise nothing is."""

import json
import sys
from dataclasses import asdict
from importlib.util import find_spec

import pytest
import torch
from torch import nn

from roadseg.errors import RoadsegError
from roadseg.learn.inference import exports
from roadseg.learn.inference.exports import FACTS, MODEL, open_onnx, write_export, write_onnx
from roadseg.learn.network.checkpoints import Checkpoint
from roadseg.raster.scaling import Scaling

SCALING = Scaling({"uint16": ((0.0, 900.0), (50.0, 800.0))}, (100.0, 90.0), (50.0, 40.0))
pytestmark = pytest.mark.skipif(
    not all(map(find_spec, ("onnx", "onnxscript", "onnxruntime"))), reason="needs roadseg[onnx]"
)


class Bessel(nn.Module):
    """A network with a part that ONNX lacks."""

    def forward(self, windows):
        return torch.special.bessel_j0(windows.float())


@pytest.fixture
def checkpoint():
    return convolution()


def convolution():
    torch.manual_seed(0)
    return checkpoint_of(nn.Conv2d(2, 3, 3, padding=1))


def checkpoint_of(model):
    facts = {"bands": [4, 1], "gsd_m": 0.3, "bin_edges": [30.0], "bin_unit": "km/h", "score": 7}
    return Checkpoint(model, {**facts, "scaling": asdict(SCALING)})


def export(checkpoint, folder, **changes):
    return write_export(checkpoint, folder, **{"window_px": 32, "batch_size": 1} | changes)


def write_other(monkeypatch, shift):
    """Let exports write and open another program's network, whose probabilities are off."""
    written = []

    def write(network, path, **_):
        written.append(network)
        path.write_bytes(b"onnx")

    monkeypatch.setattr(exports, "write_onnx", write)
    monkeypatch.setattr(exports, "open_onnx", lambda _: lambda seen: written[-1](seen) + shift)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Give the folder of an export for any number of windows, and its largest difference."""
    folder = tmp_path_factory.mktemp("export") / "out"
    return folder, export(convolution(), folder, batch_size=None)


def test_an_export_is_found_to_compute_what_the_network_does(exported):
    folder, difference = exported
    assert difference < 1e-5
    assert {path.name for path in folder.iterdir()} == {FACTS, MODEL}
    assert b"torch/nn/modules" not in (folder / MODEL).read_bytes()  # A place of this machine.


@pytest.fixture(scope="module")
def found(small_network, tmp_path_factory):
    """Give the small network as ONNX Runtime computes it."""
    path = tmp_path_factory.mktemp("onnx") / MODEL
    write_onnx(small_network, path, window_shape=(None, 2, 8, 8))
    return open_onnx(path)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_any_number_of_windows_has_the_probabilities_of_the_network(
    found, small_network, small_windows, count
):
    windows = small_windows(count)
    torch.testing.assert_close(found(windows), small_network(windows), atol=1e-5, rtol=0)


def test_a_part_that_onnx_lacks_is_named(tmp_path):
    with pytest.raises(RoadsegError, match=r"cannot be written as ONNX: .*bessel") as error:
        write_onnx(Bessel(), tmp_path / MODEL, window_shape=(1, 2, 8, 8))
    assert "\n" not in str(error.value)


def test_a_missing_package_is_named_with_how_to_install_it(small_network, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(RoadsegError, match=r"package onnxscript .*pip install 'roadseg\[onnx\]'"):
        write_onnx(small_network, tmp_path / MODEL, window_shape=(1, 2, 8, 8))


def test_the_facts_say_what_goes_in_and_comes_out_beside_those_of_the_checkpoint(
    checkpoint, exported
):
    facts = json.loads((exported[0] / "model.json").read_text())
    assert facts["input"]["shape"] == ["any", 2, 32, 32]
    assert facts["input"]["scaling"] == {"uint16": [[0, 900], [50, 800]]}
    assert facts["output"]["classes"] == ["speed_0_to_30_kph", "speed_above_30_kph", "road"]
    assert facts["checkpoint"] == json.loads(json.dumps(checkpoint.facts))


def test_a_model_that_is_a_little_off_is_written(checkpoint, tmp_path, monkeypatch):
    write_other(monkeypatch, 0.9e-3)
    assert export(checkpoint, tmp_path / "out") == pytest.approx(0.9e-3, rel=1e-3)


@pytest.mark.parametrize("shift", [1.1e-3, float("nan")])
def test_a_model_that_is_off_is_refused_and_leaves_nothing(
    checkpoint, tmp_path, monkeypatch, shift
):
    write_other(monkeypatch, shift)
    with pytest.raises(RoadsegError, match=r"differ from those of PyTorch by (0\.0011|nan), "):
        export(checkpoint, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
