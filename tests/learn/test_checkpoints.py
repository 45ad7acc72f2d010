"""Checkpoints: weights and facts come back; anything else is refused in one line."""

import json

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from roadseg.core.scaling import Scaling
from roadseg.core.speeds import SpeedBins
from roadseg.errors import CheckpointError, OutputError
from roadseg.learn import checkpoints
from roadseg.learn.checkpoints import MODEL, load_checkpoint, named, save_checkpoint
from roadseg.learn.models import build_model

FACTS = {
    "architecture": "unet",
    "encoder": "resnet18",
    "in_channels": 2,
    "classes": 4,
    "bin_edges": [30.0, 50.5],
    "bin_unit": "km/h",
    "bands": [3, 1],
    "scaling": {
        "ranges": {"uint16": [[0.0, 9.0], [1.0, 9.0]]},
        "mean": [5.0, 5.0],
        "std": [2.0, 2.0],
    },
    "epoch": 4,
    "score": {"val_loss": 0.1},
}


def small_model():
    return build_model(encoder="resnet18", encoder_weights=None, in_channels=2, classes=4)


@pytest.fixture
def saved(tmp_path):
    model = small_model()
    save_checkpoint(tmp_path, "best", named(MODEL, model.state_dict()), FACTS)
    return tmp_path, model


def test_a_folder_is_enough_to_predict_as_before(saved):
    folder, model = saved
    loaded = load_checkpoint(folder)
    image = torch.randn(1, 2, 32, 32)
    with torch.no_grad():
        assert torch.equal(loaded.model(image), model.eval()(image))


def test_the_facts_come_back_and_lie_readable_beside_the_weights(saved):
    facts = load_checkpoint(saved[0]).facts
    assert facts == {"format": 3, **FACTS}
    assert json.loads((saved[0] / "best.json").read_text()) == facts


def test_the_scaling_comes_back(saved):
    wanted = Scaling({"uint16": ((0.0, 9.0), (1.0, 9.0))}, (5.0, 5.0), (2.0, 2.0))
    assert load_checkpoint(saved[0]).scaling == wanted


def test_the_speed_bins_come_back(saved):
    assert load_checkpoint(saved[0]).bins == SpeedBins((30.0, 50.5), "km/h")


def test_only_finished_files_are_left(saved):
    assert sorted(p.name for p in saved[0].iterdir()) == ["best.json", "best.safetensors"]


def test_a_checkpoint_that_cannot_be_written_is_an_error_that_names_it(saved, monkeypatch):
    def full(*_, **__):
        raise SafetensorError("No space left on device")

    monkeypatch.setattr(checkpoints, "save_file", full)
    with pytest.raises(OutputError, match=r"last\.safetensors: cannot be written: No space left"):
        save_checkpoint(saved[0], "last", {}, FACTS)
    assert not (saved[0] / "last.safetensors").exists()


def test_a_missing_checkpoint_names_the_stage_that_makes_it(tmp_path):
    with pytest.raises(CheckpointError, match=r"last\.safetensors does not exist; run `roadseg tr"):
        load_checkpoint(tmp_path, "last")


def test_a_checkpoint_cut_short_is_refused(saved):
    path = saved[0] / "best.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match=r"best\.safetensors: damaged"):
        load_checkpoint(saved[0])


def test_a_pickle_is_refused_and_not_run(tmp_path):
    torch.save({"weights": torch.zeros(3)}, tmp_path / "best.safetensors")
    with pytest.raises(CheckpointError, match="damaged or not a safetensors file"):
        load_checkpoint(tmp_path)


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        (None, "found no facts of roadseg, expected format 3"),
        ({"roadseg": "{"}, "damaged or not"),
        ({"roadseg": json.dumps({**FACTS, "format": 2})}, "found format 2, expected format 3"),
    ],
)
def test_a_foreign_safetensors_file_is_refused(tmp_path, metadata, words):
    save_file({"a": torch.zeros(1)}, tmp_path / "best.safetensors", metadata=metadata)
    with pytest.raises(CheckpointError, match=words):
        load_checkpoint(tmp_path)


def test_weights_that_do_not_fit_the_facts_are_refused(saved):
    path = saved[0] / "best.safetensors"
    tensors = load_file(path)
    tensors.popitem()
    save_file(tensors, path, metadata={"roadseg": json.dumps({**FACTS, "format": 3})})
    with pytest.raises(CheckpointError, match="do not fit its facts") as error:
        load_checkpoint(saved[0])
    assert "\n" not in str(error.value)
