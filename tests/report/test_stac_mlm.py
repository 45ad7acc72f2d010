"""The rules here are those of the schemas of STAC 1.1.0 and of MLM 1.6.0 that concern items."""

import re

import numpy as np
import pytest
import shapely

from roadseg.report.stac_mlm import MLM, Weights, band_names, mlm_item

WEIGHTS = Weights("best.safetensors", 1000, "ab" * 32, 42, "2026-01-02T03:04:05Z")
FACTS = {
    "architecture": "unet",
    "encoder": "resnet18",
    "encoder_weights": None,
    "init": None,
    "fold": 0,
    "bands": [3, 2],
    "band_names": ["red", ""],
    "gsd_m": 0.5,
    "in_channels": 2,
    "classes": 3,
    "bin_edges": [7.5],
    "bin_unit": "km/h",
    "scaling": {"ranges": {"uint8": [[0, 255]] * 2}, "mean": [1.0, 2.0], "std": [3.0, 4.0]},
    "versions": {"torch": "2.15.0"},
}


def chip(west=8.0, south=49.0, size=0.01):
    east, north = west + size, south + size
    return [(west, north), (east, north), (east, south), (west, south)]


def item(*chips, settings=None, **facts):
    degrees = np.array(chips, dtype=float).reshape(-1, 4, 2)
    options = {
        "degrees": degrees,
        "settings": settings or {"epochs": 3},
        "properties": {"roadseg:a": 1},
    }
    return mlm_item({**FACTS, **facts}, WEIGHTS, **options)


def said(*chips, **facts):
    return item(*chips, **facts)["properties"]


def test_an_item_has_all_that_stac_requires():
    found = item(chip())
    required = {"type", "stac_version", "id", "geometry", "bbox", "properties", "links", "assets"}
    assert found.keys() >= required
    assert (found["type"], found["stac_version"]) == ("Feature", "1.1.0")
    assert re.fullmatch(r"[0-9A-Za-z_.-]+", found["id"])


def test_an_item_has_all_that_the_extension_requires():
    required = {"mlm:name", "mlm:architecture", "mlm:tasks", "mlm:input", "mlm:output"}
    assert said(chip()).keys() >= required
    assert MLM in item(chip())["stac_extensions"]


def test_only_fields_that_the_extension_knows_have_its_prefix():
    more = "framework framework_version total_parameters pretrained pretrained_source"
    known = f"name architecture tasks input output hyperparameters {more}".split()
    found = {key.removeprefix("mlm:") for key in said(chip()) if key.startswith("mlm:")}
    assert found <= set(known)


@pytest.mark.parametrize("encoder", ["resnet18", "tu-a.b/c", "mit_b0"])
def test_the_name_is_one_that_the_extension_takes(encoder):
    name = said(chip(), encoder=encoder)["mlm:name"]
    assert re.fullmatch(r"[a-zA-Z][a-zA-Z0-9_.\-\s]+[a-zA-Z0-9]", name)


def test_bands_of_the_input_stand_in_the_item_and_with_the_weights():
    found = item(chip())
    names = [{"name": name} for name in found["properties"]["mlm:input"][0]["bands"]]
    assert names == found["properties"]["bands"] == found["assets"]["weights"]["bands"]


def test_every_dimension_has_a_name_and_bands_are_one_of_them():
    (given,), (result,) = (said(chip())[f"mlm:{side}"] for side in ("input", "output"))
    for structure in (given["input"], result["result"]):
        assert len(structure["shape"]) == len(structure["dim_order"]) == 4
    assert given["input"]["dim_order"][1] == "bands"
    assert "bands" not in result["result"]["dim_order"]


def test_every_band_has_its_own_scaling():
    scalings = said(chip())["mlm:input"][0]["value_scaling"]
    assert [(each["mean"], each["stddev"]) for each in scalings] == [(1.0, 3.0), (2.0, 4.0)]


def test_classes_have_names_that_the_extension_takes():
    classes = said(chip())["mlm:output"][0]["classification:classes"]
    assert [each["value"] for each in classes] == [0, 1, 2]
    assert all(re.fullmatch(r"[0-9A-Za-z_-]+", each["name"]) for each in classes)
    assert classes[0]["description"] == "0 to 7.5 km/h"


def test_the_weights_are_the_only_model_and_have_a_multihash():
    assets = item(chip())["assets"]
    assert [name for name, each in assets.items() if "mlm:model" in each["roles"]] == ["weights"]
    assert [name for name, each in assets.items() if "mlm:artifact_type" in each] == ["weights"]
    assert re.fullmatch(r"1220[0-9a-f]{64}", assets["weights"]["file:checksum"])


@pytest.mark.parametrize(
    ("version", "is_told"), [("2.15.0", True), ("2.8.0+cpu", True), ("2.9", False)]
)
def test_only_semantic_versions_are_told(version, is_told):
    assert ("mlm:framework_version" in said(chip(), versions={"torch": version})) is is_told


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
    found = said(chip(), **start)
    assert (found["mlm:pretrained"], found["mlm:pretrained_source"]) == (bool(source), source)


def test_settings_that_are_not_set_are_left_out():
    found = said(chip(), settings={"epochs": 3, "minutes": None, "architecture": "unet"})
    assert found["mlm:hyperparameters"] == {"epochs": 3}


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (["red", ""], ["red", "band 2"]),
        (None, ["band 3", "band 2"]),
        (["a", "a"], ["a (1)", "a (2)"]),
    ],
)
def test_every_band_has_a_name_of_its_own(given, names):
    assert band_names({**FACTS, "band_names": given}) == names


def test_the_outline_holds_all_chips_and_turns_to_the_left():
    found = item(chip(8.0), chip(8.05))
    outline = shapely.geometry.shape(found["geometry"])
    assert found["bbox"] == [8.0, 49.0, 8.06, 49.01]
    assert outline.bounds == (8.0, 49.0, 8.06, 49.01)
    assert outline.exterior.is_ccw


def test_chips_far_apart_have_outlines_of_their_own():
    found = item(chip(8.0), chip(-115.0))
    assert found["geometry"]["type"] == "MultiPolygon"
    assert len(found["geometry"]["coordinates"]) == 2


def test_chips_across_the_date_line_are_cut_there():
    found = item(chip(179.995))
    assert found["bbox"] == [179.995, 49.0, -179.995, 49.01]
    outline = shapely.geometry.shape(found["geometry"])
    assert outline.bounds == (-180, 49.0, 180, 49.01)
    assert outline.area == pytest.approx(0.01**2)


def test_chips_without_a_place_give_an_item_without_one():
    found = item()
    assert found["geometry"] is None
    assert "bbox" not in found
