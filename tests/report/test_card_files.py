import hashlib
import json
import os

import numpy as np
import pytest
from safetensors.numpy import save_file

from roadseg.errors import OutputError
from roadseg.report.card_files import add_evaluation, read_weights, write_card
from roadseg.report.cards import describe_network

FACTS = {
    "architecture": "unet",
    "encoder": "resnet18",
    "fold": 0,
    "bands": [1],
    "gsd_m": 0.5,
    "in_channels": 1,
    "classes": 3,
    "bin_edges": [50],
    "bin_unit": "km/h",
    "scaling": {"ranges": {"uint8": [[0, 255]]}, "mean": [100.0], "std": [50.0]},
    "versions": {"torch": "2.15.0"},
}
TOLD = {
    "training": {"fold": 0, "chips": 8, "area_km2": 1.5, "road_km": 2.0, "epochs": 8}
    | {"best_epoch": 7, "command": "roadseg train"},
    "validation": {"chips": 2, "loss": 0.06, "iou": 0.7, "f1": 0.8},
    "imagery": {"files": {"count": 1, "names": ["a.tif"]}, "licence": None, "nodata": None}
    | {"gsd_range_m": [0.5, 0.5]},
    "labels": {"files": {"count": 1, "names": ["a.gpkg"]}, "licence": None, "schemes": ["osm"]}
    | {"have_speeds": True},
    "degrees": None,
}
FOUND = {"chips": 2, "reference_km": 4.8, "apls_length": 0.9}


def save_weights(folder, value=0.0, *, at=1000):
    """Write a network of 12 trained numbers; set the time of its file."""
    tensors = {
        "model.conv.weight": np.full((2, 5), value, np.float32),
        "model.conv.bias": np.zeros(2, np.float32),
        "model.norm.running_mean": np.zeros(7, np.float32),
        "model.norm.num_batches_tracked": np.array(1),
        "optimizer.state": np.zeros(100, np.float32),
    }
    path = folder / "best.safetensors"
    save_file(tensors, path)
    os.utime(path, (at, at))
    return path


def write(folder, value=0.0, *, at=1000):
    weights = read_weights(save_weights(folder, value, at=at))
    write_card(folder, describe_network(FACTS, weights, settings={"epochs": 8}) | TOLD)


def predictions(folder, *, at=2000):
    path = folder / "predict.json"
    path.write_text("{}")
    os.utime(path, (at, at))
    return path


def card(folder):
    return json.loads((folder / "model_card.json").read_text())


def test_only_what_training_sets_counts_as_parameters(tmp_path):
    assert read_weights(save_weights(tmp_path))["parameters"] == 12


def test_weights_are_told_with_size_digest_and_time(tmp_path):
    path = save_weights(tmp_path)
    found, content = read_weights(path), path.read_bytes()
    assert (found["file"], found["bytes"]) == ("best.safetensors", len(content))
    assert found["sha256"] == hashlib.sha256(content).hexdigest()
    assert found["written"] == "1970-01-01T00:16:40Z"


def test_a_card_is_written_for_machines_and_for_people(tmp_path):
    write(tmp_path)
    assert card(tmp_path)["weights"]["parameters"] == 12
    assert (tmp_path / "model_card.md").read_text().startswith("# Roads and their speeds")


def test_metrics_are_added_to_both_forms(tmp_path):
    write(tmp_path)
    add_evaluation(tmp_path, FOUND, predicted=predictions(tmp_path))
    assert card(tmp_path)["evaluation"] == FOUND
    assert "| 0.900 |" in (tmp_path / "model_card.md").read_text()


@pytest.mark.parametrize(("value", "stays"), [(0.0, True), (1.0, False)])
def test_metrics_stay_as_long_as_the_weights_are_the_same(tmp_path, value, stays):
    write(tmp_path)
    add_evaluation(tmp_path, FOUND, predicted=predictions(tmp_path))
    write(tmp_path, value)
    assert ("evaluation" in card(tmp_path)) is stays


@pytest.mark.parametrize(("at", "is_added"), [(1000, True), (999, False)])
def test_metrics_of_older_weights_are_not_added(tmp_path, at, is_added):
    write(tmp_path)
    add_evaluation(tmp_path, FOUND, predicted=predictions(tmp_path, at=at))
    assert ("evaluation" in card(tmp_path)) is is_added


def test_a_folder_without_a_card_stays_without(tmp_path):
    add_evaluation(tmp_path, FOUND, predicted=predictions(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["predict.json"]


@pytest.mark.parametrize("at", [1000, 2000])
def test_a_card_of_the_same_weights_or_a_copy_of_them_is_not_written_again(tmp_path, at):
    write(tmp_path)
    os.utime(tmp_path / "model_card.json", (5, 5))
    write(tmp_path, at=at)
    assert (tmp_path / "model_card.json").stat().st_mtime == 5


def test_a_card_that_cannot_be_written_is_an_error_that_names_it(tmp_path):
    (tmp_path / "model_card.md").mkdir()
    with pytest.raises(OutputError, match=r"model_card\.md: cannot be written"):
        write(tmp_path)
