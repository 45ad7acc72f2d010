import json
from dataclasses import replace
from pathlib import Path

import pytest

from roadseg.dataset.chips import ChipList, ChipRecord, SceneRecord, read_chips, write_chips
from roadseg.errors import DataError, MissingInputError
from roadseg.roads.speeds import SpeedBins

SCENE = SceneRecord("a", Path("/data/a.tif"), Path("/data/a.geojson"), (0.24, 0.3))
CORNERS = ((660000.5, 4000000.25), (660650.5, 4000000.25), (660650.5, 3999350.25), (660000.5, 3e6))
CHIP = ChipRecord("a_r0_c0", "a", (0, 0, 650, 650), CORNERS, 32611, 0.1, 1.0)
BINS = SpeedBins((30.0, 50.0), "km/h")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "chips.json"


def test_scenes_and_chips_written_come_back(path):
    moved = replace(SCENE, name="b", shift_m=(4.0, -100.0), area=(Path("/data/area.gpkg"),))
    scenes = (SCENE, moved)
    chips = (CHIP, replace(CHIP, name="a_r0_c650", window=(0, 650, 650, 650)))
    write_chips(path, scenes, chips, BINS)
    assert read_chips(path) == ChipList(scenes, chips, BINS)


def spoil(path, change):
    write_chips(path, [SCENE], [CHIP], BINS)
    values = json.loads(path.read_text())
    change(values)
    path.write_text(json.dumps(values))


FAULTS = {
    "no scenes": (lambda v: v.pop("scenes"), "scenes: missing"),
    "one key too many": (lambda v: v.update(x=1), "x: unknown key"),
    "a name that leads elsewhere": (
        lambda v: v["scenes"][0].update(name="../a"),
        r"scenes\.0\.name: expected a name without a path to another folder, got '\.\./a'",
    ),
    "pixels of no size": (
        lambda v: v["scenes"][0].update(gsd_m=[0, 0.3]),
        r"scenes\.0\.gsd_m\.0: expected greater than or equal to 0\.001, got 0",
    ),
    "a shift beyond the limit": (
        lambda v: v["scenes"][0].update(shift_m=[0, -100.1]),
        r"scenes\.0\.shift_m\.1: expected greater than or equal to -100, got -100\.1",
    ),
    "an area that is no list": (
        lambda v: v["scenes"][0].update(area="a.gpkg"),
        r"scenes\.0\.area: expected a valid array, got 'a\.gpkg'",
    ),
    "a share above 1": (
        lambda v: v["chips"][0].update(road_share=1.5),
        r"chips\.0\.road_share: expected less than or equal to 1, got 1\.5",
    ),
    "falling edges": (
        lambda v: v["bins"].update(edges=[50, 30]),
        "bins: expected 1 to 30 increasing edges above 0",
    ),
}


@pytest.mark.parametrize(("change", "told"), FAULTS.values(), ids=FAULTS)
def test_a_file_that_is_no_list_of_chips_is_refused(path, change, told):
    spoil(path, change)
    with pytest.raises(DataError, match=rf"chips\.json: {told}.*; run `roadseg prepare --force`"):
        read_chips(path)


@pytest.mark.parametrize("share", [0, 1])
def test_a_share_may_be_none_or_all(path, share):
    spoil(path, lambda values: values["chips"][0].update(road_share=share))
    assert read_chips(path).chips[0].road_share == share


def test_chips_that_are_missing_are_to_be_prepared(tmp_path):
    with pytest.raises(MissingInputError, match=r"chips\.json .* run `roadseg prepare` first"):
        read_chips(tmp_path / "chips.json")
