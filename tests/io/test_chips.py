from dataclasses import replace
from pathlib import Path

import pytest

from roadseg.errors import DataError
from roadseg.io.chips import ChipRecord, SceneRecord, read_chips, write_chips

SCENE = SceneRecord("a", Path("/data/a.tif"), Path("/data/a.geojson"), (0.24, 0.3))
CHIP = ChipRecord("a_r0_c0", "a", (0, 0, 650, 650), (660000.5, 4000000.25), 32611, 0.1, 1.0)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "chips.json"


def test_scenes_and_chips_written_come_back(path):
    scenes = (SCENE, replace(SCENE, name="b"))
    chips = (CHIP, replace(CHIP, name="a_r0_c650", window=(0, 650, 650, 650)))
    write_chips(path, scenes, chips)
    found = read_chips(path)
    assert (found.scenes, found.chips) == (scenes, chips)


def test_a_scene_is_found_by_its_name(path):
    write_chips(path, [replace(SCENE, name="b"), SCENE], [])
    assert read_chips(path).scene("a") == SCENE


@pytest.mark.parametrize(
    "text",
    ["[]", "{}", '{"scenes": [{"name": "a"}], "chips": []}', '{"scenes": [], "chips": [{"x": 1}]}'],
)
def test_a_file_that_is_no_list_of_chips_is_refused(path, text):
    path.write_text(text)
    with pytest.raises(DataError, match=r"chips\.json: not a list of chips .* `roadseg prepare`"):
        read_chips(path)
