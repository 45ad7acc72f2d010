"""ONNX: one file that gives the network's probabilities; what cannot be used is refused."""

import sys
from importlib.util import find_spec

import pytest
import torch
from torch import nn

from roadseg.core.scaling import Scaling
from roadseg.errors import CheckpointError, RoadsegError
from roadseg.learn import onnx
from roadseg.learn.models import Normalise

pytestmark = pytest.mark.skipif(
    not all(map(find_spec, ("onnx", "onnxscript", "onnxruntime"))),
    reason="needs roadseg[onnx]",
)
SCALING = Scaling({}, mean=(100.0, 90.0), std=(50.0, 40.0))


class Bessel(nn.Module):
    """A network with a part that ONNX lacks."""

    def forward(self, windows):
        return torch.special.bessel_j0(windows.float())


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(0)
    layers = Normalise(SCALING), nn.Conv2d(2, 3, 3, padding=1), nn.BatchNorm2d(3), nn.Sigmoid()
    return nn.Sequential(*layers).eval()


@pytest.fixture(scope="module")
def folder(network, tmp_path_factory):
    folder = tmp_path_factory.mktemp("onnx")
    onnx.build(network, folder, window_shape=(None, 2, 8, 8))
    return folder


def windows(count):
    return torch.arange(count * 2 * 8 * 8).view(count, 2, 8, 8).to(torch.uint8)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_it_gives_the_probabilities_of_the_network(network, folder, count):
    found = onnx.open(folder, threads=1)(windows(count))
    torch.testing.assert_close(found, network(windows(count)), atol=1e-5, rtol=0)


def test_results_stay_when_the_next_windows_come(folder):
    run = onnx.open(folder)
    first = run(windows(2))
    kept = first.clone()
    run(windows(2) + 9)
    assert torch.equal(first, kept)


def test_one_file_holds_it_all_and_names_none_of_this_machine(folder):
    (path,) = folder.iterdir()
    assert path.name == "model.onnx"
    assert b"torch/nn/modules" not in path.read_bytes()


def test_windows_may_be_fixed_in_number(network, tmp_path):
    onnx.build(network, tmp_path, window_shape=(2, 2, 8, 8))
    found = onnx.open(tmp_path)(windows(2))
    torch.testing.assert_close(found, network(windows(2)), atol=1e-5, rtol=0)


def test_a_part_that_onnx_lacks_is_named(tmp_path):
    with pytest.raises(RoadsegError, match=r"cannot be written as ONNX: .*bessel_j0") as error:
        onnx.build(Bessel(), tmp_path, window_shape=(1, 2, 8, 8))
    assert "\n" not in str(error.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(CheckpointError, match=r"model\.onnx does not exist; export it again"):
        onnx.open(tmp_path)


def test_a_damaged_file_is_refused(folder, tmp_path):
    (tmp_path / "model.onnx").write_bytes((folder / "model.onnx").read_bytes()[:-500])
    with pytest.raises(CheckpointError, match=r"model\.onnx: damaged, or not an ONNX file"):
        onnx.open(tmp_path)


def test_a_missing_package_is_named_with_how_to_install_it(network, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(RoadsegError, match=r"package onnxscript .*pip install 'roadseg\[onnx\]'"):
        onnx.build(network, tmp_path, window_shape=(1, 2, 8, 8))


def test_it_is_available_with_onnx_runtime_only(monkeypatch):
    assert onnx.available() is None
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert "no package onnxruntime; run `pip install" in onnx.available()
