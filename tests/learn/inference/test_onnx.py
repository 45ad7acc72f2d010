"""ONNX: one file that gives the network's probabilities; what cannot be used is refused."""

import sys
from importlib.util import find_spec

import pytest
import torch

from roadseg.errors import CheckpointError, RoadsegError
from roadseg.learn.inference import onnx

pytestmark = pytest.mark.skipif(
    not all(map(find_spec, ("onnx", "onnxscript", "onnxruntime"))),
    reason="needs roadseg[onnx]",
)


@pytest.fixture(scope="module")
def folder(small_network, tmp_path_factory):
    folder = tmp_path_factory.mktemp("onnx")
    onnx.build(small_network, folder, window_shape=(2, 2, 8, 8))
    return folder


def test_one_file_holds_it_all(folder):
    assert [path.name for path in folder.iterdir()] == ["model.onnx"]


def test_windows_may_be_fixed_in_number(small_network, small_windows, folder):
    found = onnx.open(folder)(small_windows(2))
    torch.testing.assert_close(found, small_network(small_windows(2)), atol=1e-5, rtol=0)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(CheckpointError, match=r"model\.onnx does not exist; export it again"):
        onnx.open(tmp_path)


def test_a_damaged_file_is_refused(folder, tmp_path):
    (tmp_path / "model.onnx").write_bytes((folder / "model.onnx").read_bytes()[:-500])
    with pytest.raises(
        CheckpointError, match=r"model\.onnx: damaged, or not a model that ONNX Runtime can run"
    ):
        onnx.open(tmp_path)


def test_a_missing_package_is_named_with_how_to_install_it(small_network, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(RoadsegError, match=r"package onnxscript .*pip install 'roadseg\[onnx\]'"):
        onnx.build(small_network, tmp_path, window_shape=(1, 2, 8, 8))
