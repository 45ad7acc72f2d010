"""Exports: what is written is the network, and says how to use it; otherwise nothing is."""

import json
import shutil
from dataclasses import asdict
from importlib.util import find_spec

import pytest
import torch
from torch import nn

from roadseg.errors import CheckpointError, ConfigError, OutputError, RoadsegError
from roadseg.learn.hardware.devices import pick_device
from roadseg.learn.inference import exports, programs
from roadseg.learn.inference.engine_store import FILES
from roadseg.learn.inference.engines import open_engine
from roadseg.learn.inference.exports import build_engine, write_export
from roadseg.learn.network.checkpoints import MODEL, Checkpoint, named, save_checkpoint
from roadseg.raster.scaling import Scaling

SCALING = Scaling({"uint16": ((0.0, 900.0), (50.0, 800.0))}, (100.0, 90.0), (50.0, 40.0))
ENGINES = [
    pytest.param(
        name,
        marks=pytest.mark.skipif(
            not all(map(find_spec, packages)), reason=f"needs roadseg[{name}]"
        ),
    )
    for name, packages in {
        "onnx": ("onnx", "onnxscript", "onnxruntime"),
        "openvino": ("openvino",),
    }.items()
]


class Shifted(nn.Module):
    """What another program makes of a network, wrongly: all probabilities are off."""

    def __init__(self, network, shift):
        super().__init__()
        self.network = network
        self.register_buffer("shift", torch.tensor(shift))

    def forward(self, windows):
        return self.network(windows) + self.shift


class Fixed(nn.Module):
    """Stands for a network that takes one window only."""

    def forward(self, images):
        return images.reshape(1, 2, 32, 32)[:, [0, 1, 0]]


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
    return write_export(
        checkpoint, folder, **{"form": "torch", "window_px": 32, "batch_size": 1} | changes
    )


def write_shifted(monkeypatch, shift):
    def build(network, folder, *, window_shape):
        programs.build(Shifted(network, shift), folder, window_shape=window_shape)

    monkeypatch.setitem(exports._BUILD, "torch", build)  # noqa: SLF001


@pytest.mark.parametrize("form", [*ENGINES, "torch"])
@pytest.mark.parametrize("batch_size", [None, 2])
def test_an_export_is_found_to_compute_what_the_network_does(
    checkpoint, tmp_path, form, batch_size
):
    folder = tmp_path / "out"
    assert export(checkpoint, folder, form=form, batch_size=batch_size) < 1e-5
    assert {path.name for path in folder.iterdir()} == {exports.FACTS, *exports.FILES[form]}


def test_the_facts_say_what_goes_in_and_comes_out(checkpoint, tmp_path):
    export(checkpoint, tmp_path / "out", batch_size=None)
    facts = json.loads((tmp_path / "out" / "model.json").read_text())
    assert facts["input"]["shape"] == ["any", 2, 32, 32]
    assert facts["input"]["scaling"] == {"uint16": [[0, 900], [50, 800]]}
    assert facts["output"]["classes"] == ["speed_0_to_30_kph", "speed_above_30_kph", "road"]


def test_the_facts_of_the_checkpoint_lie_beside_the_model(checkpoint, tmp_path):
    export(checkpoint, tmp_path / "out")
    facts = json.loads((tmp_path / "out" / "model.json").read_text())
    assert facts["checkpoint"] == json.loads(json.dumps(checkpoint.facts))


def test_a_model_that_is_a_little_off_is_written(checkpoint, tmp_path, monkeypatch):
    write_shifted(monkeypatch, 0.9e-3)
    assert export(checkpoint, tmp_path / "out") == pytest.approx(0.9e-3, rel=1e-3)


@pytest.mark.parametrize("shift", [1.1e-3, float("nan")])
def test_a_model_that_is_off_is_refused_and_leaves_nothing(
    checkpoint, tmp_path, monkeypatch, shift
):
    write_shifted(monkeypatch, shift)
    with pytest.raises(RoadsegError, match=r"differ from those of PyTorch by (0\.0011|nan), "):
        export(checkpoint, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_an_export_replaces_the_one_before(checkpoint, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "model.onnx").touch()
    export(checkpoint, tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        exports.FACTS,
        *exports.FILES["torch"],
    }


def test_an_export_that_fails_keeps_the_one_before(checkpoint, tmp_path, monkeypatch):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "model.onnx").touch()
    write_shifted(monkeypatch, 1.0)
    with pytest.raises(RoadsegError, match="differ from those"):
        export(checkpoint, tmp_path / "out")
    assert [path.name for path in tmp_path.rglob("*")] == ["out", "model.onnx"]


def test_a_folder_that_cannot_be_written_is_named(checkpoint, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match=r"file/out: cannot be written: Not a directory"):
        export(checkpoint, tmp_path / "file" / "out")


def test_a_network_for_one_window_is_refused_for_any_number(tmp_path):
    with pytest.raises(RoadsegError, match="give a batch size"):
        export(checkpoint_of(Fixed()), tmp_path / "out", batch_size=None)
    assert export(checkpoint_of(Fixed()), tmp_path / "out", batch_size=1) == 0


def test_an_unknown_format_is_refused(checkpoint, tmp_path):
    with pytest.raises(ConfigError, match="format: expected one of onnx, openvino, torch, got 'tf"):
        export(checkpoint, tmp_path / "out", form="tflite")


def test_windows_that_networks_cannot_halve_are_refused(checkpoint, tmp_path):
    with pytest.raises(ConfigError, match="multiple of 32, got 48"):
        export(checkpoint, tmp_path / "out", window_px=48)


SIZE = {"window_px": 32, "batch_size": 2}


@pytest.fixture(scope="module", params=ENGINES)
def built(request, tmp_path_factory):
    """Build an engine; give its name, the checkpoint, its folder and the facts of the engine."""
    folder, checkpoint = tmp_path_factory.mktemp("built"), convolution()
    save_checkpoint(folder, "best", named(MODEL, checkpoint.model.state_dict()), {})
    facts = build_engine(checkpoint, folder, name=request.param, **SIZE)
    return request.param, checkpoint, folder, facts


@pytest.fixture
def open_in(built):
    """Give a function that opens an engine of the checkpoint in a folder."""

    def open_(folder, name=built[0], **changes):
        options = SIZE | {"windows": 1, "device": pick_device("cpu", "fp32")} | changes
        return open_engine(built[1], folder, name=name, **options)

    return open_


@pytest.fixture
def copied(built, tmp_path):
    """Return a copy of the folder of the engine, and that of its files."""
    folder = shutil.copytree(built[2], tmp_path / "copied")
    return folder, folder / "engines" / built[0]


def test_an_engine_is_opened_by_name_and_computes_what_eager_does(built, open_in):
    windows = torch.randint(0, 256, (2, 2, 32, 32), dtype=torch.uint8)
    made, eager = (open_in(built[2], name).run(windows) for name in (built[0], "eager"))
    torch.testing.assert_close(made, eager, atol=1e-5, rtol=0)


def test_the_facts_of_an_engine_say_that_it_is_accurate_and_how_fast(built):
    name, _, folder, facts = built
    assert facts.gate["passed"]
    assert facts.gate["max_difference"] < facts.gate["limit"] == 1e-3
    assert facts.windows_per_s > 0
    assert json.loads((folder / "engines" / name / "facts.json").read_text()) == asdict(facts)


def test_an_engine_of_another_file_is_refused_before_it_runs(built, copied, open_in, monkeypatch):
    last = FILES[built[0]][-1]
    (copied[1] / last).write_bytes(b"a loop without end")
    monkeypatch.setattr(f"roadseg.learn.inference.{built[0]}.open", None)
    with pytest.raises(CheckpointError, match=f"{last} was modified after it was made; run `roads"):
        open_in(copied[0])


def test_an_engine_for_other_windows_than_its_facts_say_is_refused(copied, open_in):
    facts = copied[1] / "facts.json"
    facts.write_text(json.dumps(json.loads(facts.read_text()) | {"batch_size": 4}))
    told = r"takes and gives windows uint8 \[2, 2, 32, 32\] -> .*, expected windows uint8 \[4, 2,"
    with pytest.raises(CheckpointError, match=told):
        open_in(copied[0], batch_size=4)


def test_there_is_no_engine_of_the_torch_format(checkpoint, tmp_path):
    with pytest.raises(ConfigError, match="engine: expected one of onnx, openvino, got 'torch'"):
        build_engine(checkpoint, tmp_path, name="torch", **SIZE)
