"""Model cards: what they say, and when they are written."""

import hashlib
import os
import re

import numpy as np
import pytest
from safetensors.numpy import save_file

from roadseg.report import cards
from roadseg.report.card_files import CARD, card_text, read_weights, write_card
from roadseg.report.cards import box_of, describe_network
from tests.drawing import chip_at

FACTS = {
    "architecture": "unet",
    "encoder": "resnet18",
    "fold": 2,
    "bands": [1],
    "band_names": ["red"],
    "gsd_m": 0.5,
    "in_channels": 1,
    "classes": 3,
    "bin_edges": [50],
    "bin_unit": "km/h",
    "scaling": {"ranges": {"uint16": [[200, 1800]]}, "mean": [100.0], "std": [50.0]},
    "versions": {"torch": "2.15.0", "roadseg": "0.1.0"},
}
WEIGHTS = {
    "file": "best.safetensors",
    "bytes": 57_000_000,
    "sha256": "ab" * 32,
    "parameters": 14_300_000,
}


def card_of(weights, *, degrees=(), facts=FACTS, **told):
    """Describe a network of which some facts are changed."""
    card = describe_network(facts, weights, settings={"epochs": 8}) | {
        "training": {"fold": 2, "chips": 8, "area_km2": 1.5, "road_km": 20.21, "epochs": 8},
        "validation": {"chips": 2, "loss": 0.064, "iou": 0.755, "f1": 0.861},
        "imagery": {"files": {"count": 7, "names": ["a.tif"]}, "licence": None, "nodata": None},
        "labels": {"files": {"count": 1, "names": ["roads.gpkg"]}, "licence": "ODbL-1.0"},
        "degrees": box_of(np.array(degrees)),
    }
    card["training"] |= {"best_epoch": 7, "command": "roadseg train --fold 2"}
    card["imagery"] |= {"gsd_range_m": [0.45, 0.55]}
    card["labels"] |= {"schemes": ["osm"], "have_speeds": facts.get("labels_have_speeds", True)}
    for name, values in told.items():
        card[name] = card.get(name, {}) | values
    return card


def text(**told):
    return card_text(card_of(WEIGHTS, **told))


@pytest.mark.parametrize(
    "words",
    [
        "unet with encoder resnet18, 14.3 million parameters",
        "Started from random weights",
        "Pixels of 0.45 to 0.55 m",
        "| red | 200 to 1800 | 100.00 | 50.00 |",
        "0 to 50 km/h, above 50 km/h, any road",
        "1.50 km2 in 8 chips, without georeference",
        "Labelled roads there: 20.21 km",
        "Images: `a.tif` and 6 more; licence: not given",
        "Labels: `roads.gpkg`; licence: ODbL-1.0",
        "Scheme of the labels: osm",
        "loss 0.0640, IoU 0.755, F1 0.861",
        "Command: `roadseg train --fold 2`",
        "torch 2.15.0, roadseg 0.1.0",
        "57.0 MB, SHA-256 abab",
    ],
)
def test_a_card_says(words):
    assert words in text()


def test_a_card_says_where_the_training_area_is():
    corners = [[(8.0, 49.01), (8.01, 49.01), (8.01, 49.0), (8.0, 49.0)]]
    words = "longitude 8.0000 to 8.0100 and latitude 49.0000 to 49.0100"
    assert words in text(degrees=np.array(corners))


def test_what_was_measured_is_told_and_what_was_not_is_left_out():
    found = {"chips": 2, "reference_km": 4.8, "apls_length": 0.915, "topo_f1": None}
    words = text(evaluation=found)
    assert "On 2 held-out chips, 4.80 km of road" in words
    assert "| APLS length | 0.915 |" in words
    assert "TOPO" not in words


@pytest.mark.parametrize(
    ("words", "facts", "is_said"),
    [
        ("Pixels of 0.50 m", {"imagery": {"gsd_range_m": [0.499, 0.501]}}, True),
        ("Labelled roads", {"training": {"road_km": None}}, False),
        ("`roadseg evaluate` adds that here", {}, True),
        ("19 held-out chips are few", {"validation": {"chips": 19}}, True),
        ("20 held-out chips are few", {"validation": {"chips": 20}}, False),
        ("less than 1 km2", {"training": {"area_km2": 0.99}}, True),
        ("less than 1 km2", {"training": {"area_km2": 1.0}}, False),
    ],
)
def test_a_card_says_what_its_facts_call_for(words, facts, is_said):
    assert (words in text(**facts)) is is_said


@pytest.mark.parametrize(("sizes_m", "is_said"), [([0.7, 1.0], True), ([], False)])
def test_a_card_says_in_which_pixel_sizes_windows_are_seen(sizes_m, is_said):
    words = "Every window is seen with pixels of 0.7 and 1 m, and the mean of the logits counts."
    assert (words in text(facts=FACTS | {"pixel_sizes_m": sizes_m})) is is_said


def test_tables_have_as_many_cells_in_every_row():
    rows = [line for line in text().splitlines() if line.startswith("|")]
    assert len(rows) == 3
    assert len({len(re.findall(r"\|", row)) for row in rows}) == 1


@pytest.mark.parametrize(
    ("has_speeds", "title"), [(True, "Roads and their speeds"), (False, "Roads")]
)
def test_a_card_says_whether_speeds_were_learned(has_speeds, title):
    found = text(facts=FACTS | {"labels_have_speeds": has_speeds})
    assert found.startswith(f"# {title}, roadseg unet")
    assert ("all roads get the same assumed speed" in found) is not has_speeds


def described(settings=None, **facts):
    return describe_network(FACTS | facts, WEIGHTS, settings=settings or {})


@pytest.mark.parametrize(
    ("start", "source"),
    [
        ({}, None),
        ({"encoder_weights": "imagenet"}, "imagenet"),
        ({"encoder_weights": "auto", "began_with": "imagenet"}, "imagenet"),
        ({"encoder_weights": "auto", "began_with": "none"}, None),
        ({"init": "/home/me/runs/a/fold-0"}, "fold-0"),
    ],
)
def test_where_training_started_is_told_without_folders(start, source):
    assert described(**start)["network"]["started_from"] == source


def test_settings_that_are_not_set_are_left_out():
    settings = {"epochs": 3, "minutes": None, "architecture": "unet"}
    assert described(settings)["network"]["settings"] == {"epochs": 3}


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (["red", ""], ["red", "band 2"]),
        (None, ["band 3", "band 2"]),
        (["a", "a"], ["a (1)", "a (2)"]),
    ],
)
def test_every_band_has_a_name_of_its_own(given, names):
    assert described(bands=[3, 2], band_names=given)["input"]["bands"] == names


def chip(west, south=49.0, size=0.01):
    east, north = west + size, south + size
    return [(west, north), (east, north), (east, south), (west, south)]


@pytest.mark.parametrize(
    ("chips", "box"),
    [
        ([chip(8.0), chip(8.05)], [8.0, 49.0, 8.06, 49.01]),
        ([chip(179.995)], [179.995, 49.0, -179.995, 49.01]),
        ([], None),
    ],
)
def test_the_box_holds_all_chips_also_across_the_date_line(chips, box):
    assert box_of(np.array(chips)) == box


FOUND = {"chips": 2, "reference_km": 4.8, "apls_length": 0.9}


def save_weights(folder):
    """Write a network of 12 trained numbers."""
    tensors = {
        "model.conv.weight": np.zeros((2, 5), np.float32),
        "model.conv.bias": np.zeros(2, np.float32),
        "model.norm.running_mean": np.zeros(7, np.float32),
        "model.norm.num_batches_tracked": np.array(1),
        "optimizer.state": np.zeros(100, np.float32),
    }
    path = folder / "best.safetensors"
    save_file(tensors, path)
    return path


def test_only_what_training_sets_counts_as_parameters(tmp_path):
    assert read_weights(save_weights(tmp_path))["parameters"] == 12


def test_weights_are_told_with_size_and_digest(tmp_path):
    path = save_weights(tmp_path)
    found, content = read_weights(path), path.read_bytes()
    assert (found["file"], found["bytes"]) == ("best.safetensors", len(content))
    assert found["sha256"] == hashlib.sha256(content).hexdigest()


def test_a_card_that_has_not_changed_is_not_written_again(tmp_path):
    write_card(tmp_path, card_of(WEIGHTS))
    os.utime(tmp_path / CARD, (5, 5))
    write_card(tmp_path, card_of(WEIGHTS))
    assert (tmp_path / CARD).stat().st_mtime == 5


def test_ground_that_chips_share_counts_once():
    chips = [chip_at(str(east_m), east_m, side_m=1000.0) for east_m in (0, 500)]
    assert cards._area_km2(chips) == pytest.approx(1.5)  # noqa: SLF001 - else only whole trainings
