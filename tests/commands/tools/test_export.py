"""export: a checkpoint folder becomes a folder for other programs."""

from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from roadseg.commands.tools import export as tool
from roadseg.commands.tools.export import run
from roadseg.errors import CheckpointError, ConfigError
from roadseg.learn.inference import exports
from roadseg.learn.network.checkpoints import MODEL, load_checkpoint, named, save_checkpoint
from roadseg.learn.network.installed_weights import starter_folder
from roadseg.learn.network.models import NetworkSpec, build_model

FACTS = {
    "architecture": "unet",
    "encoder": "tu-test_resnet",
    "in_channels": 3,
    "classes": 3,
    "bin_edges": [30.0],
    "bin_unit": "mph",
    "bands": [1, 2, 3],
    "gsd_m": 0.5,
    "resample_m": None,
    "nodata": None,
    "epoch": 1,
    "score": {"val_loss": 0.5},
    "versions": {"roadseg": "0", "torch": "0"},
    "scaling": {"ranges": {"uint8": [[0, 255]] * 3}, "mean": [99.0] * 3, "std": [60.0] * 3},
}
pytestmark = pytest.mark.skipif(
    not all(map(find_spec, ("onnx", "onnxscript", "onnxruntime"))), reason="needs roadseg[onnx]"
)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("fold-0")
    model = build_model(NetworkSpec(encoder="tu-test_resnet", in_channels=3, classes=3))
    save_checkpoint(folder, "best", named(MODEL, model.state_dict()), FACTS)
    return folder


def export(checkpoint, output, **changes):
    options = {"window_px": 64, "batch_size": 1}
    return run(checkpoint, output, **options | changes)


def test_a_unet_computes_the_same_and_an_empty_folder_is_filled(checkpoint, tmp_path):
    summary = export(checkpoint, tmp_path, batch_size=None)
    assert summary.max_difference < 1e-4
    assert "64 px, any batch size" in str(summary)
    written = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert summary.megabytes == written / 1e6 > 1


def test_the_starter_has_a_name(tmp_path, monkeypatch):
    taken = []
    monkeypatch.setattr(tool, "write_export", lambda *given, **_: taken.append(given[0]) or 0.0)
    tmp_path.joinpath("out").mkdir()
    export(Path("starter"), tmp_path / "out")
    assert taken[0].facts == load_checkpoint(starter_folder()).facts


def test_a_folder_that_is_there_is_replaced_only_by_force(checkpoint, tmp_path, monkeypatch):
    monkeypatch.setattr(exports, "write_onnx", lambda _, path, **__: path.touch())
    monkeypatch.setattr(exports, "open_onnx", lambda _: None)
    monkeypatch.setattr(exports, "largest_difference", lambda *_: 0.0)
    (tmp_path / "model.onnx").touch()
    with pytest.raises(ConfigError, match="exists; use --force to replace it"):
        export(checkpoint, tmp_path)
    export(checkpoint, tmp_path, force=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.json", "model.onnx"]


@pytest.mark.parametrize("force", [False, True])
def test_a_folder_that_holds_anything_else_is_left_alone(checkpoint, tmp_path, force):
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(ConfigError, match=r"contains other files \(thesis\.tex\)"):
        export(checkpoint, tmp_path, force=force)
    assert (tmp_path / "thesis.tex").exists()


def test_a_file_is_left_alone(checkpoint, tmp_path):
    (tmp_path / "out").touch()
    with pytest.raises(ConfigError, match="is a file; use a folder"):
        export(checkpoint, tmp_path / "out", force=True)


def test_a_checkpoint_that_is_not_there_is_named(tmp_path):
    with pytest.raises(CheckpointError, match="does not exist; run `roadseg train` first"):
        export(tmp_path / "none", tmp_path / "out")
