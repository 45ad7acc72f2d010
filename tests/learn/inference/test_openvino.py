"""OpenVINO: the network's probabilities in float32, nearly so in INT8; nothing is sent."""

import logging
import sys
from importlib.util import find_spec

import pytest
import torch
from torch import nn

from roadseg.errors import RoadsegError
from roadseg.learn.inference import openvino
from roadseg.learn.network.models import Normalise
from roadseg.raster.scaling import Scaling

pytestmark = pytest.mark.skipif(
    not all(map(find_spec, ("openvino", "nncf"))), reason="needs roadseg[openvino]"
)


SHAPE = (2, 2, 8, 8)


class Bessel(nn.Module):
    """A network with a part that OpenVINO lacks."""

    def forward(self, windows):
        return torch.special.bessel_j0(windows.float())


@pytest.fixture(scope="module")
def folder(small_network, small_windows, tmp_path_factory):
    folder = tmp_path_factory.mktemp("int8")
    calibration = [small_windows(2), small_windows(2) // 3]
    openvino.build(small_network, folder, window_shape=SHAPE, calibration=calibration)
    return folder


@pytest.fixture(scope="module")
def hourglass():
    """Give a network that halves its windows twice, and doubles them twice, in two ways."""
    torch.manual_seed(0)
    return nn.Sequential(
        Normalise(Scaling({}, mean=(100.0, 90.0), std=(50.0, 40.0))),
        nn.Conv2d(2, 8, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.UpsamplingNearest2d(scale_factor=2),
        nn.Conv2d(8, 3, 1),
        nn.Upsample(scale_factor=2, mode="bilinear"),
        nn.Sigmoid(),
    ).eval()


@pytest.mark.parametrize("shape", [(2, 2, 8, 8), (2, 2, 24, 24), (1, 2, 16, 16)])
def test_windows_may_have_another_side_than_those_it_was_built_for(hourglass, tmp_path, shape):
    generator = torch.Generator().manual_seed(0)
    seen = [torch.randint(0, 256, SHAPE, dtype=torch.uint8, generator=generator) for _ in range(8)]
    openvino.build(hourglass, tmp_path, window_shape=SHAPE, calibration=seen)
    windows = torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator)
    found = openvino.open(tmp_path, window_shape=shape)(windows)
    expected = hourglass(windows)
    off, a_pixel_off = ((at - expected).abs() for at in (found, expected.roll(1, -1)))
    assert off.mean() < 0.7 * a_pixel_off.mean()
    assert off.max() < 0.11  # 0.1 with VNNI, without which INT8 is less exact.


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_network_is_converted_without_files(small_network, small_windows, count):
    run = openvino.convert(small_network, window_shape=(count, 2, 8, 8))
    first = run(small_windows(count))
    run(small_windows(count) + 9)  # The results before stay.
    torch.testing.assert_close(first, small_network(small_windows(count)), atol=1e-5, rtol=0)


def test_a_part_that_openvino_lacks_is_named():
    with pytest.raises(RoadsegError, match=r"be converted for OpenVINO: .*bessel") as error:
        openvino.convert(Bessel(), window_shape=SHAPE)
    assert "\n" not in str(error.value)


def test_int8_differs_but_little(small_network, small_windows, folder):
    found = openvino.open(folder, window_shape=SHAPE)(small_windows(2))
    assert 1e-4 < (found - small_network(small_windows(2))).abs().mean() < 0.05
    assert "FakeQuantize" in (folder / "model.xml").read_text()


def test_no_file_names_a_place_of_this_machine(folder):
    assert not any(b"torch/nn/modules" in path.read_bytes() for path in folder.iterdir())


def test_quantising_says_nothing_and_leaves_logging_as_it_was(
    small_network, small_windows, tmp_path, capfd
):
    before = logging.getLoggerClass()
    openvino.build(small_network, tmp_path, window_shape=SHAPE, calibration=[small_windows(2)])
    assert logging.getLoggerClass() is before
    assert capfd.readouterr() == ("", "")


def test_what_nncf_cannot_quantise_is_told_in_one_line(
    small_network, small_windows, folder, tmp_path, monkeypatch
):
    nncf = sys.modules["nncf"]  # It was loaded to make the folder.
    assert (folder / "model.xml").exists()

    def fail(*_, **__):
        raise nncf.ValidationError("no such layer\nand more")

    monkeypatch.setattr(nncf, "quantize", fail)
    with pytest.raises(RoadsegError, match=r"^NNCF cannot quantise this network: no such layer;"):
        openvino.build(small_network, tmp_path, window_shape=SHAPE, calibration=[small_windows(1)])


def test_no_statistics_are_sent(folder):
    openvino.open(folder, window_shape=SHAPE)
    assert sys.modules["openvino_telemetry"] is None
    assert sys.modules["openvino.tools.ovc.telemetry_utils"].tm.__name__.endswith("telemetry_stub")


def test_a_missing_package_is_named_with_how_to_install_it(
    small_network, small_windows, tmp_path, monkeypatch
):
    monkeypatch.setitem(sys.modules, "nncf", None)
    with pytest.raises(RoadsegError, match=r"package nncf .*pip install 'roadseg\[openvino\]'"):
        openvino.build(small_network, tmp_path, window_shape=SHAPE, calibration=[small_windows(2)])
