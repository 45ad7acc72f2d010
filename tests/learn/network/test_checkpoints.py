"""Checkpoints: weights and facts come back; anything else is refused in one line."""

import json
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from roadseg.errors import CheckpointError, OutputError
from roadseg.learn.network import checkpoints
from roadseg.learn.network.checkpoints import (
    MODEL,
    load_checkpoint,
    named,
    read_tensors,
    save_checkpoint,
)
from roadseg.learn.network.models import NetworkSpec, build_model
from roadseg.raster.scaling import Scaling
from roadseg.roads.speeds import SpeedBins

FACTS = {
    "architecture": "unet",
    "encoder": "tu-test_resnet",
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
    "gsd_m": 0.5,
    "gsd_range_m": [0.4, 0.5],
    "band_names": ["red", ""],
    "resample_m": None,
    "nodata": 0.0,
    "fold": 0,
    "epoch": 4,
    "versions": {"roadseg": "1.0", "torch": "2.8.0+cpu"},
    "score": {"val_loss": 0.1},
}
ABSENT = "absent"


def small_model():
    return build_model(NetworkSpec(encoder="tu-test_resnet", in_channels=2, classes=4))


@pytest.fixture
def saved(tmp_path):
    model = small_model()
    save_checkpoint(tmp_path, "best", named(MODEL, model.state_dict()), FACTS)
    return tmp_path, model


def test_a_file_whose_tensors_are_in_use_is_not_mapped(saved):  # Windows could not replace it
    kept = read_tensors(saved[0], "best")
    assert kept
    assert str(saved[0]) not in Path("/proc/self/maps").read_text()


def test_a_folder_is_enough_to_predict_as_before(saved):
    folder, model = saved
    loaded = load_checkpoint(folder)
    image = torch.randn(1, 2, 32, 32)
    with torch.no_grad():
        assert torch.equal(loaded.model(image), model.eval()(image))


def test_the_facts_come_back_and_lie_readable_beside_the_weights(saved):
    loaded = load_checkpoint(saved[0])
    assert loaded.facts == {"format": 3, **FACTS}
    assert json.loads((saved[0] / "best.json").read_text()) == loaded.facts
    assert loaded.bins == SpeedBins((30.0, 50.5), "km/h")
    wanted = Scaling({"uint16": ((0.0, 9.0), (1.0, 9.0))}, (5.0, 5.0), (2.0, 2.0))
    assert loaded.scaling == wanted
    assert sorted(p.name for p in saved[0].iterdir()) == ["best.json", "best.safetensors"]


def test_a_checkpoint_that_cannot_be_written_is_an_error_that_names_it(saved, monkeypatch):
    def full(*_, **__):
        raise SafetensorError("No space left on device")

    monkeypatch.setattr(checkpoints, "save_file", full)
    with pytest.raises(OutputError, match=r"last\.safetensors: cannot be written: No space left"):
        save_checkpoint(saved[0], "last", {}, FACTS)
    assert not (saved[0] / "last.safetensors").exists()


def test_a_missing_checkpoint_names_the_stage_that_makes_it(tmp_path):
    with pytest.raises(CheckpointError, match=r"best\.safetensors does not exist; run `roadseg tr"):
        load_checkpoint(tmp_path)


def test_a_checkpoint_cut_short_is_refused(saved):
    path = saved[0] / "best.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match=r"best\.safetensors: damaged"):
        load_checkpoint(saved[0])


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        (None, "found no metadata of roadseg, expected format 3"),
        ({"roadseg": "{"}, "damaged, or not"),
        ({"roadseg": json.dumps({**FACTS, "format": 2})}, "found format 2, expected format 3"),
        ({"roadseg": "[]"}, "found no metadata of roadseg, expected format 3"),
    ],
)
def test_a_foreign_safetensors_file_is_refused(tmp_path, metadata, words):
    save_file({"a": torch.zeros(1)}, tmp_path / "best.safetensors", metadata=metadata)
    with pytest.raises(CheckpointError, match=words):
        load_checkpoint(tmp_path)


def rewrite(path, tensors=None, **facts):
    """Write a checkpoint again, with other tensors or facts."""
    tensors = load_file(path) if tensors is None else tensors
    kept = {key: value for key, value in {"format": 3, **FACTS, **facts}.items() if value != ABSENT}
    save_file(tensors, path, metadata={"roadseg": json.dumps(kept)})


LAYER = "model.segmentation_head.0.bias"
TENSORS = {
    "missing": (lambda t: t.pop(LAYER), LAYER),
    "surplus": (lambda t: t.update(x=torch.zeros(1)), "x"),
    "of another shape": (lambda t: t.update({LAYER: t[LAYER][:2]}), LAYER),
    "of another type": (lambda t: t.update({LAYER: t[LAYER].char()}), LAYER),
    "not a number": (lambda t: t[LAYER].fill_(torch.nan), LAYER),
    "beyond limits": (lambda t: t[LAYER].fill_(2e18), LAYER),
}


@pytest.mark.parametrize(("change", "told"), TENSORS.values(), ids=TENSORS)
def test_weights_that_do_not_fit_the_facts_are_refused(saved, change, told):
    path = saved[0] / "best.safetensors"
    tensors = load_file(path)
    change(tensors)
    rewrite(path, tensors)
    with pytest.raises(
        CheckpointError, match=rf"best\.safetensors: its .* metadata.* \({told}\)"
    ) as error:
        load_checkpoint(saved[0])
    assert "\n" not in str(error.value)


def test_large_weights_are_taken(saved):
    path = saved[0] / "best.safetensors"
    tensors = load_file(path)
    tensors[LAYER].fill_(1e18)
    rewrite(path, tensors)
    assert load_checkpoint(saved[0]).facts == {"format": 3, **FACTS}


LIES = {
    "no ground size": ({"gsd_m": ABSENT}, "gsd_m: missing"),
    "pixels of no size": ({"gsd_m": 0}, r"gsd_m: expected greater than or equal to 0\.001, got 0"),
    "no bands": ({"bands": []}, "bands: .* at least 1 item"),
    "a band too many": ({"bands": [1, 2, 3]}, "numbers of bands or of classes contradict"),
    "falling edges": ({"bin_edges": [50, 30]}, "expected 1 to 30 increasing edges"),
    "other classes": ({"classes": 5}, "numbers of bands or of classes contradict"),
    "a threshold of nothing": ({"threshold": 0}, "threshold: expected greater than 0"),
    "an unknown architecture": ({"architecture": "evil"}, "its network cannot be built .*'evil'"),
    "an encoder from a hub": ({"encoder": "tu-hf-hub:evil/model"}, "encoder: .*hf-hub:evil/model"),
    "parts that do not go together": (
        {"architecture": "dpt", "encoder": "resnet18"},
        "its network cannot be built",
    ),
}


@pytest.mark.parametrize(("facts", "told"), LIES.values(), ids=LIES)
def test_facts_that_no_network_has_are_refused(saved, facts, told):
    rewrite(saved[0] / "best.safetensors", **facts)
    with pytest.raises(CheckpointError, match=rf"best\.safetensors: .*{told}") as error:
        load_checkpoint(saved[0])
    assert "\n" not in str(error.value)


def test_nothing_pretrained_is_asked_for_whatever_the_facts_say(saved, monkeypatch):
    rewrite(saved[0] / "best.safetensors", encoder_weights="imagenet", init="/etc")
    monkeypatch.setattr("huggingface_hub.hf_hub_download", None)
    assert load_checkpoint(saved[0]).facts["encoder_weights"] == "imagenet"


def test_what_a_newer_version_adds_is_kept(saved):
    rewrite(saved[0] / "best.safetensors", unheard_of={"a": [1]})
    assert load_checkpoint(saved[0]).facts["unheard_of"] == {"a": [1]}


@pytest.mark.parametrize("absent", ["gsd_range_m", "band_names", "fold"])
def test_checkpoints_that_do_not_say_it_yet_are_taken(saved, absent):
    rewrite(saved[0] / "best.safetensors", **{absent: ABSENT})
    assert absent not in load_checkpoint(saved[0]).facts
