"""OpenVINO: the network's probabilities in float32, nearly so in INT8; nothing is sent."""

import logging
import sys
from importlib.util import find_spec

import pytest
import torch
from torch import nn

from roadseg.core.scaling import Scaling
from roadseg.errors import CheckpointError, RoadsegError
from roadseg.learn import openvino
from roadseg.learn.models import Normalise

pytestmark = pytest.mark.skipif(
    not all(map(find_spec, ("openvino", "nncf"))), reason="needs roadseg[openvino]"
)
SCALING = Scaling({}, mean=(100.0, 90.0), std=(50.0, 40.0))


class Bessel(nn.Module):
    """A network with a part that OpenVINO lacks."""

    def forward(self, windows):
        return torch.special.bessel_j0(windows.float())


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(0)
    layers = Normalise(SCALING), nn.Conv2d(2, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 3, 1)
    return nn.Sequential(*layers, nn.Sigmoid()).eval()


@pytest.fixture(scope="module")
def folder(network, tmp_path_factory):
    folder = tmp_path_factory.mktemp("float32")
    openvino.build(network, folder, window_shape=(None, 2, 8, 8))
    return folder


@pytest.fixture(scope="module")
def quantised(network, tmp_path_factory):
    folder = tmp_path_factory.mktemp("int8")
    calibration = [windows(2), windows(2) // 3]
    openvino.build(network, folder, window_shape=(2, 2, 8, 8), calibration=calibration)
    return folder


def windows(count):
    return torch.arange(count * 2 * 8 * 8).view(count, 2, 8, 8).to(torch.uint8)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_it_gives_the_probabilities_of_the_network(network, folder, count):
    found = openvino.open(folder, threads=1)(windows(count))
    torch.testing.assert_close(found, network(windows(count)), atol=1e-5, rtol=0)


def test_results_stay_when_the_next_windows_come(folder):
    run = openvino.open(folder)
    first = run(windows(2))
    kept = first.clone()
    run(windows(2) + 9)
    assert torch.equal(first, kept)


def test_int8_differs_but_little(network, quantised):
    difference = (openvino.open(quantised)(windows(2)) - network(windows(2))).abs().mean()
    assert 1e-4 < difference < 0.05


def test_only_what_was_calibrated_is_quantised(folder, quantised):
    graphs = [(each / "model.xml").read_text() for each in (folder, quantised)]
    assert ["FakeQuantize" in graph for graph in graphs] == [False, True]


def test_quantising_says_nothing_and_leaves_logging_as_it_was(network, tmp_path, capfd):
    before = logging.getLoggerClass()
    openvino.build(network, tmp_path, window_shape=(2, 2, 8, 8), calibration=[windows(2)])
    assert logging.getLoggerClass() is before
    assert capfd.readouterr() == ("", "")


def test_no_statistics_are_sent(folder):
    openvino.open(folder)
    assert sys.modules["openvino_telemetry"] is None
    assert sys.modules["openvino.tools.ovc.telemetry_utils"].tm.__name__.endswith("telemetry_stub")


def test_no_file_of_this_machine_is_named(folder):
    assert "torch/nn/modules" not in (folder / "model.xml").read_text()


def test_a_part_that_openvino_lacks_is_named(tmp_path):
    with pytest.raises(RoadsegError, match=r"cannot be written for OpenVINO: .*bessel") as error:
        openvino.build(Bessel(), tmp_path, window_shape=(1, 2, 8, 8))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["model.xml", "model.bin"])
def test_a_missing_file_is_named(folder, tmp_path, name):
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / name).unlink()
    with pytest.raises(CheckpointError, match=f"{name} does not exist; export or quantize again"):
        openvino.open(tmp_path)


def test_weights_cut_short_are_refused(folder, tmp_path):
    (tmp_path / "model.xml").write_bytes((folder / "model.xml").read_bytes())
    (tmp_path / "model.bin").write_bytes((folder / "model.bin").read_bytes()[:-100])
    with pytest.raises(CheckpointError, match=r"model\.xml: damaged, or not a model"):
        openvino.open(tmp_path)


def test_a_missing_package_is_named_with_how_to_install_it(network, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "nncf", None)
    with pytest.raises(RoadsegError, match=r"package nncf .*pip install 'roadseg\[openvino\]'"):
        openvino.build(network, tmp_path, window_shape=(2, 2, 8, 8), calibration=[windows(2)])


def test_it_is_available_where_it_is_installed(monkeypatch):
    assert openvino.available() is None
    monkeypatch.setitem(sys.modules, "openvino", None)
    assert "no package openvino; run `pip install" in openvino.available()
