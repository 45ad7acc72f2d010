"""INT8: scales are found once, kept as numbers, and laid over the weights of the checkpoint."""

import json
import shutil
import sys

import pytest
import torch
from torch import nn

from roadseg.errors import CheckpointError, DeviceError, RoadsegError
from roadseg.learn.hardware import cpu
from roadseg.learn.inference import int8
from roadseg.learn.inference.engine_store import engine_folder
from roadseg.learn.inference.engines import ProbabilityNetwork, open_prebuilt
from roadseg.learn.network.checkpoints import Checkpoint
from roadseg.raster.scaling import Scaling

SCALING = {"ranges": {"uint8": [[0, 255]] * 3}, "mean": [100.0] * 3, "std": [50.0] * 3}
SHAPE = (2, 3, 32, 32)
VNNI = "avx512_vnni"
PT2E = "torchao.quantization.pt2e"

needs_torchao = pytest.mark.skipif(
    int8.available() is not None, reason="there is no package torchao"
)
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no compiler g++")


class Block(nn.Module):
    """A block of a ResNet: one ReLU serves twice, and a sum joins two ways."""

    def __init__(self, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.first = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16))
        self.second = nn.Conv2d(16, 16, 3, padding=1)
        self.last = nn.Conv2d(16, 8, 1)
        self.relu = nn.ReLU()

    def forward(self, images):
        start = self.relu(self.first(images))
        return self.last(self.relu(self.second(start) + start))


def network_of(model):
    return ProbabilityNetwork(model, Scaling.from_json(SCALING)).eval()


def windows_of(seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, SHAPE, generator=generator).byte()


@pytest.fixture(scope="session")
def calibrated(tmp_path_factory):
    """Write the scales of a block once; tests copy what they change."""
    folder = tmp_path_factory.mktemp("calibrated")
    where = engine_folder(folder, "int8")
    where.mkdir(parents=True)
    batches = [windows_of(seed) for seed in range(3)]
    int8.build(network_of(Block()), where, window_shape=SHAPE, calibration=batches)
    return folder


@pytest.fixture
def where(calibrated, tmp_path):
    """Return the folder of the scales, free to change."""
    return shutil.copytree(engine_folder(calibrated, "int8"), tmp_path / "int8")


@torch.no_grad()
def probabilities(network):
    return network(windows_of(9))


@needs_torchao
def test_a_quantised_network_is_close_to_the_exact_one_and_not_the_same(where):
    exact = probabilities(network_of(Block()))
    found = probabilities(int8.load(network_of(Block()), where, window_shape=SHAPE))
    assert 0 < (found - exact).abs().max() < 0.05


@needs_torchao
def test_weights_are_those_of_the_network_given(where):
    other = network_of(Block(seed=1))
    found = probabilities(int8.load(other, where, window_shape=SHAPE))
    distance = [(found - probabilities(network_of(Block(seed)))).abs().mean() for seed in (0, 1)]
    assert distance[1] < distance[0] / 2


@needs_torchao
def test_convolutions_are_quantised_on_both_sides(where):
    quantised = int8.load(network_of(Block()), where, window_shape=SHAPE)
    called = [str(node.target) for node in quantised.graph.nodes]
    assert sum("dequantize_per_channel" in name for name in called) == 3
    assert sum(".quantize_per_tensor" in name for name in called) >= 3


@pytest.mark.slow  # it compiles
@needs_torchao
@needs_compiler
def test_compiled_it_computes_what_the_quantised_graph_says(calibrated, where, cpu):
    checkpoint = Checkpoint(Block().eval(), {"scaling": SCALING})
    run = open_prebuilt(checkpoint, calibrated, "int8", device=cpu, window_shape=SHAPE)
    wanted = probabilities(int8.load(network_of(Block()), where, window_shape=SHAPE))
    torch.testing.assert_close(run(windows_of(9)), wanted, atol=0.01, rtol=0)


@needs_torchao
def test_only_numbers_are_kept(where):
    (path,) = where.iterdir()
    kept = json.loads(path.read_text())
    assert set(kept) == {"seven_bits", "activations", "window_shape"}
    assert all(set(each) == {"scale", "zero_point"} for each in kept["activations"].values())


@needs_torchao
def test_scales_of_another_network_are_refused(where):
    other = network_of(nn.Conv2d(3, 8, 1))
    with pytest.raises(CheckpointError, match=r"scales of .* run `roadseg quantize --force`"):
        int8.load(other, where, window_shape=SHAPE)


@needs_torchao
def test_a_network_that_cannot_be_followed_is_refused(tmp_path):
    class Fickle(nn.Module):
        def forward(self, images):
            return images if images.sum() > 0 else -images

    with pytest.raises(RoadsegError, match=r"cannot be quantised to int8: .* choose engine open"):
        int8.build(network_of(Fickle()), tmp_path, window_shape=SHAPE, calibration=[])


def scales_where(vnni, folder, monkeypatch):
    """Return the scales that are found on a CPU with or without VNNI, and what is said of them."""
    monkeypatch.setattr(cpu, "features", lambda: {VNNI: vnni})
    network, path = network_of(nn.Conv2d(3, 8, 1)), folder / "activations.json"
    int8.build(network, folder, window_shape=SHAPE, calibration=[windows_of(0)])
    found = json.loads(path.read_text())
    return list(found["activations"].values()), found["seven_bits"]


@needs_torchao
def test_activations_keep_to_seven_bits_where_sums_of_bytes_overflow(monkeypatch, tmp_path):
    whole, seven_bits = scales_where(True, tmp_path, monkeypatch)
    halved, also_seven_bits = scales_where(False, tmp_path, monkeypatch)
    assert (seven_bits, also_seven_bits) == (False, True)
    for one, other in zip(whole, halved, strict=True):
        assert other["scale"] == pytest.approx(2 * one["scale"])
        assert other["zero_point"] == (one["zero_point"] + 1) // 2


def test_scales_for_a_cpu_with_vnni_are_refused_on_one_without(monkeypatch, tmp_path):
    monkeypatch.setattr(cpu, "features", lambda: {VNNI: False})
    found = {"seven_bits": False, "activations": {}, "window_shape": list(SHAPE)}
    (tmp_path / "activations.json").write_text(json.dumps(found))
    with pytest.raises(DeviceError, match="made on a CPU with VNNI, which this CPU lacks"):
        int8.load(network_of(Block()), tmp_path, window_shape=SHAPE)


def test_missing_scales_say_how_to_get_them(tmp_path):
    with pytest.raises(CheckpointError, match="does not exist; run `roadseg quantize --force`"):
        int8.load(network_of(Block()), tmp_path, window_shape=SHAPE)


def test_without_torchao_the_message_names_the_extra(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, f"{PT2E}.quantizer.x86_inductor_quantizer", None)
    with pytest.raises(DeviceError, match=r'run `pip install "roadseg\[int8\]"`'):
        int8.build(network_of(Block()), tmp_path, window_shape=SHAPE, calibration=[])
