from dataclasses import replace
from pathlib import Path

import pytest

from roadseg.core.speeds import SpeedBins
from roadseg.errors import DataError
from roadseg.io.chips import ChipList, ChipRecord, SceneRecord, read_chips, write_chips

SCENE = SceneRecord("a", Path("/data/a.tif"), Path("/data/a.geojson"), (0.24, 0.3))
CORNERS = ((660000.5, 4000000.25), (660650.5, 4000000.25), (660650.5, 3999350.25), (660000.5, 3e6))
CHIP = ChipRecord("a_r0_c0", "a", (0, 0, 650, 650), CORNERS, 32611, 0.1, 1.0)
BINS = SpeedBins((30.0, 50.0), "km/h")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "chips.json"


def test_scenes_and_chips_written_come_back(path):
    scenes = (SCENE, replace(SCENE, name="b"))
    chips = (CHIP, replace(CHIP, name="a_r0_c650", window=(0, 650, 650, 650)))
    write_chips(path, scenes, chips, BINS)
    assert read_chips(path) == ChipList(scenes, chips, BINS)


def test_a_scene_is_found_by_its_name(path):
    write_chips(path, [replace(SCENE, name="b"), SCENE], [], BINS)
    assert read_chips(path).scene("a") == SCENE


@pytest.mark.parametrize(
    "text",
    ["[]", "{}", '{"scenes": [{"name": "a"}], "chips": []}', '{"scenes": [], "chips": [{"x": 1}]}'],
)
def test_a_file_that_is_no_list_of_chips_is_refused(path, text):
    path.write_text(text)
    with pytest.raises(DataError, match=r"chips\.json: not a list of chips .* `roadseg prepare`"):
        read_chips(path)
