"""The starter comes with the package, is small, and starts trainings and predictions."""

from pathlib import Path

import pytest
import torch

from roadseg.dataset.edge_calibration import read_calibration
from roadseg.errors import CheckpointError
from roadseg.learn.network.checkpoints import MODEL, load_checkpoint, read_tensors
from roadseg.learn.network.installed_weights import (
    NAME,
    checkpoint_folder,
    first_weights,
    starter_folder,
)
from roadseg.learn.network.pretrained import new_network
from roadseg.learn.options import TrainOptions
from roadseg.roads.speeds import DEFAULT_BINS, SpeedBins

MOST_BYTES = 15_000_000
STARTER = TrainOptions(encoder_weights="starter")


def test_it_is_in_the_package_and_small():
    assert (starter_folder() / "best.safetensors").stat().st_size < MOST_BYTES


def test_it_loads_as_floats_and_is_the_default_network():
    checkpoint = load_checkpoint(starter_folder())
    assert {p.dtype for p in checkpoint.model.parameters()} == {torch.float32}
    usual = TrainOptions()
    for key in ("architecture", "encoder"):
        assert checkpoint.facts[key] == getattr(usual, key)
    assert tuple(checkpoint.facts["decoder_channels"]) == usual.decoder_channels


def test_its_facts_name_no_folder_of_the_machine_that_trained_it():
    text = (starter_folder() / "best.json").read_text(encoding="utf-8")
    assert "/home" not in text
    assert "/tmp" not in text  # noqa: S108
    assert "/work" not in text


def test_its_confidence_was_measured_on_other_cities_than_it_was_fitted_to():
    calibration = read_calibration(starter_folder())  # None if the weights are others.
    assert calibration.km > 100
    assert calibration.reliability.error < 0.1


def test_its_name_stands_for_its_folder_even_where_a_folder_is_called_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / NAME).mkdir()
    assert checkpoint_folder(Path(NAME)) == starter_folder()
    assert checkpoint_folder(tmp_path / NAME) == tmp_path / NAME


@pytest.mark.parametrize("options", [STARTER, TrainOptions()])
def test_a_training_starts_from_all_of_it_by_default(options):
    model, origin = new_network(options, bands=3, bins=DEFAULT_BINS)
    kept = read_tensors(starter_folder(), "best", MODEL)
    assert origin.startswith("the starter of roadseg: loaded ")
    assert all(torch.equal(value, kept[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize(
    ("changed", "bands"),
    [
        ({"encoder": "resnet18"}, 3),
        ({"decoder_channels": None}, 3),
        ({"architecture": "fpn"}, 3),
        ({}, 4),
        ({"encoder_weights": None}, 3),
    ],
)
def test_a_network_of_another_form_does_not_start_from_it(changed, bands):
    options = TrainOptions(**({"encoder_weights": "auto"} | changed))
    _, origin = new_network(options, bands=bands, bins=DEFAULT_BINS)
    assert "starter" not in origin


def test_with_other_speed_bins_any_road_is_kept():
    bins = SpeedBins((50.0,), "km/h")
    model, origin = new_network(STARTER, bands=3, bins=bins)
    kept = read_tensors(starter_folder(), "best", MODEL)["segmentation_head.0.bias"]
    assert "only the channel of any road" in origin
    assert model.segmentation_head[0].bias[-1] == kept[-1]


def test_what_a_training_starts_from_is_known_by_what_the_file_holds():
    known = first_weights(STARTER)["encoder_weights"]
    assert known.startswith("starter ")
    assert len(known) > len("starter ")


def test_a_run_folder_in_the_place_of_a_checkpoint_is_answered_with_the_checkpoint(tmp_path):
    fold = tmp_path / "run/checkpoints/fold-0"
    fold.mkdir(parents=True)
    (fold / "best.safetensors").touch()
    with pytest.raises(CheckpointError, match=r"did you mean .*run/checkpoints/fold-0\?"):
        load_checkpoint(tmp_path / "run")
