"""What holds for every format in which a network can be kept for prediction."""

from importlib import import_module
from importlib.util import find_spec

import pytest
import torch
from torch import nn

from roadseg.errors import RoadsegError

PACKAGES = {
    "programs": (),
    "onnx": ("onnx", "onnxscript", "onnxruntime"),
    "openvino": ("openvino", "nncf"),
}


class Bessel(nn.Module):
    """A network with a part that ONNX and OpenVINO lack."""

    def forward(self, windows):
        return torch.special.bessel_j0(windows.float())


@pytest.fixture(scope="module", params=PACKAGES)
def engine(request):
    """Give the module of a format."""
    if not all(map(find_spec, PACKAGES[request.param])):
        pytest.skip(f"needs roadseg[{request.param}]")
    return import_module(f"roadseg.learn.inference.{request.param}")


@pytest.fixture(scope="module")
def folder(engine, small_network, tmp_path_factory):
    folder = tmp_path_factory.mktemp("float32")
    engine.build(small_network, folder, window_shape=(None, 2, 8, 8))
    return folder


@pytest.mark.parametrize("count", [1, 2, 5])
def test_it_gives_the_probabilities_of_the_network(
    engine, small_network, folder, small_windows, count
):
    found = engine.open(folder)(small_windows(count))
    torch.testing.assert_close(found, small_network(small_windows(count)), atol=1e-5, rtol=0)


def test_results_stay_when_the_next_windows_come(engine, folder, small_windows):
    run = engine.open(folder)
    first = run(small_windows(2))
    kept = first.clone()
    run(small_windows(2) + 9)
    assert torch.equal(first, kept)


def test_no_file_names_a_place_of_this_machine(folder):
    assert [p.name for p in folder.iterdir() if b"torch/nn/modules" in p.read_bytes()] == []


def test_a_part_that_the_format_lacks_is_named(engine, tmp_path):
    if engine.__name__.endswith("programs"):
        pytest.skip("PyTorch's own format lacks nothing")
    told = r"cannot be (written as ONNX|converted for OpenVINO): .*bessel"
    with pytest.raises(RoadsegError, match=told) as error:
        engine.build(Bessel(), tmp_path, window_shape=(1, 2, 8, 8))
    assert "\n" not in str(error.value)
