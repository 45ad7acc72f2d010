"""What was found in a scene comes back; of another key it is not there, else it is refused."""

import json

import pytest

from roadseg.dataset.scenes import (
    SceneSummary,
    read_labels,
    read_scene_summary,
    write_scene_summary,
)
from roadseg.errors import DataError
from roadseg.roads.options import LabelOptions
from tests.drawing import chip_at

CHIP = chip_at("a_0")


FOUND = SceneSummary(
    "a",
    (1, 2),
    "uint8",
    (0.5, 0.3),
    (CHIP,),
    {"0": 60, "255": 21},
    road_km={"1": 0.5},
    touching=(3,),
)


@pytest.fixture
def path(tmp_path):
    write_scene_summary(tmp_path / "a.json", FOUND, key="0123")
    return tmp_path / "a.json"


def spoil(path, **changes):
    values = json.loads(path.read_text())
    values["found"] |= changes
    path.write_text(json.dumps(values))


@pytest.mark.parametrize("key", ["0123", None])
def test_what_was_found_comes_back(path, key):
    assert read_scene_summary(path, key=key) == FOUND


def test_what_was_found_in_other_inputs_is_not_there(path):
    assert read_scene_summary(path, key="4567") is None


def test_a_record_of_a_version_with_other_fields_is_not_there(path):
    spoil(path, new=1)
    assert read_scene_summary(path, key="0123") is None


def test_a_scene_without_a_record_has_none(tmp_path):
    assert read_scene_summary(tmp_path / "a.json") is None


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"pixels": []},
            "found.pixels: expected an object|found.pixels: expected a valid dictionary",
        ),
        ({"pixels": {"0": -1}}, "found.pixels.0: expected greater than or equal to 0, got -1"),
        ({"road_km": {"1": "x"}}, "found.road_km.1: expected a valid number, got 'x'"),
        ({"gsd_m": [0, 1]}, "found.gsd_m.0: expected greater than or equal to 0.001, got 0"),
        ({"bands": ["x"]}, "found.bands.0: expected a valid integer, got 'x'"),
        (
            {"name": "../b"},
            "found.name: expected a name without a path to another folder, got '../b'",
        ),
    ],
)
def test_what_was_not_written_so_is_refused(path, changes, told):
    spoil(path, **changes)
    with pytest.raises(DataError, match=rf"a\.json: ({told}).*; run `roadseg prepare --force`"):
        read_scene_summary(path)


def test_lines_are_read_where_other_scenes_have_masks_with_speeds(tmp_path):
    path, ends = tmp_path / "roads.geojson", [[8.0, 49.0], [8.01, 49.0]]
    road = {"type": "LineString", "coordinates": ends}
    feature = {"type": "Feature", "properties": {}, "geometry": road}
    path.write_text(json.dumps({"type": "FeatureCollection", "features": [feature]}))
    options = LabelOptions(mask_speeds_mph={1: 25.0})
    assert len(read_labels(path, options, content="a").roads.shapes) == 1
