import pytest

from roadseg.dataset.quality import choose_examples, shift_text, summarise
from roadseg.dataset.scenes import SceneSummary
from roadseg.dataset.shifts import Shift
from roadseg.roads.masks.burning import IGNORE
from roadseg.roads.options import LabelOptions
from tests.drawing import chip_at


def chip(scene, number=0, road_share=0.1):
    return chip_at(f"{scene}_{number}", window=(0, 9 * number, 9, 9), road_share=road_share)


def scene(name, *chips, **values):
    chips = chips or (chip(name),)
    pixels = {"0": 60, "1": 20, "2": 10, str(IGNORE): 10}
    return SceneSummary(name, (1, 2), "uint8", (0.5, 0.3), chips, pixels, **values)


def summary(*scenes, labels=None, failed=None, shift="none", shifts=None, set_of=None):
    labels = labels or {scene.name: f"{scene.name}.geojson" for scene in scenes}
    return summarise(
        scenes,
        labels,
        options=LabelOptions(bin_edges=(30.0,), shift=shift),
        failed=failed or {},
        shifts=shifts or {},
        sheets=[],
        set_of=set_of or dict.fromkeys(labels, ""),
    )


def test_shares_are_of_the_pixels_that_hold_data():
    found = summary(scene("a"), scene("b"))
    assert found.nodata_share == pytest.approx(0.1)
    assert found.road_share == pytest.approx(30 / 90, abs=1e-6)
    assert found.pixel_share_by_speed_bin == {
        "0 to 30 mph": pytest.approx(20 / 90, abs=1e-6),
        "above 30 mph": pytest.approx(10 / 90, abs=1e-6),
    }


def test_lengths_of_all_scenes_add_up_by_speed_bin():
    found = summary(scene("a", road_km={"1": 1.5, "2": 2}), scene("b", road_km={"1": 1, "2": 0}))
    assert found.road_km_by_speed_bin == {"0 to 30 mph": 2.5, "above 30 mph": 2}
    assert found.road_km == 4.5


def test_a_label_file_of_several_scenes_counts_once():
    told = {"features": 7, "keys": ("lanes",), "scheme": "osm", "dropped": {"null": 2}}
    scenes = scene("a", **told), scene("b", **told)
    found = summary(*scenes, labels={"a": "city.gpkg", "b": "city.gpkg"})
    assert (found.labels, found.dropped, found.schemes) == (7, {"null": 2}, {"osm": 1})
    assert found.label_keys == {"lanes": 1}


def test_roads_that_touch_no_scene_are_counted():
    scenes = scene("a", roads=9, touching=(0, 1, 2)), scene("b", roads=9, touching=(2, 3))
    found = summary(*scenes, labels={"a": "city.gpkg", "b": "city.gpkg"})
    assert found.dropped == {"beyond the images": 5}


def test_the_example_of_a_scene_is_its_chip_with_most_road():
    chips = chip("a", 0, 0.1), chip("a", 1, 0.3), chip("a", 2, 0.2)
    assert choose_examples([scene("a", *chips)]) == [chips[1]]


@pytest.mark.parametrize(("scenes", "expected"), [(5, 5), (12, 12), (13, 12), (500, 12)])
def test_examples_are_spread_over_all_scenes(scenes, expected):
    found = choose_examples([scene(f"{number}") for number in range(scenes)])
    assert (len({c.scene for c in found}), found[0].scene) == (expected, "0")
    assert found[-1].scene == f"{scenes - 1}"


@pytest.mark.parametrize(
    ("remaining_m", "expected"),
    [
        ([3.0, 4.0], "labels are 5.0 m off; moving them 3.0 m east"),
        ([-3.0, -4.0], "3.0 m west, 4.0 m south"),
        ([0.0, 1.0], "0.0 m east, 1.0 m north"),
    ],
)
def test_a_shift_is_told_with_its_direction(remaining_m, expected):
    assert expected in shift_text(remaining_m)


@pytest.mark.parametrize(("off_m", "fits"), [(0.049, True), (0.05, False)])
def test_labels_fit_if_no_digit_of_their_shift_is_shown(off_m, fits):
    assert (shift_text([off_m, 0.0]) == "labels fit to within 0.1 m") is fits


@pytest.mark.parametrize(
    ("scenes", "told"), [(2, "align them\n"), (3, "align them (measured on 1 of 3 images)\n")]
)
def test_a_shift_that_few_images_show_is_told_with_their_number(scenes, told):
    shifts = {"0": Shift(3.0, 4.0, confidence=1), "1": Shift(9.0, 9.0, confidence=0)}
    found = summary(*(scene(str(n)) for n in range(scenes)), shifts=shifts)
    assert told in f"{found}\n"


def test_the_table_says_that_a_road_in_two_images_counts_in_both():
    told = {"features": 7, "scheme": "osm", "speed_sources": {"maxspeed": 4, "default": 1}}
    scenes = scene("a", **told), scene("b", **told)
    row = "8 from maxspeed, 2 from labels.default_speed_mph"
    one_file = {"a": "city.gpkg", "b": "city.gpkg"}
    assert f"{row} (a road in several images counts in each)" in str(
        summary(*scenes, labels=one_file)
    )
    assert f"{row}\n" in str(summary(*scenes))


@pytest.mark.parametrize(
    ("shift", "told"),
    [
        ((4.1, -2.0), "4.1 m east, 2.0 m south (given)"),
        ("set", "4.1 m east, 2.0 m south (set)"),
    ],
)
def test_the_table_says_by_how_much_labels_were_moved(shift, told):
    found = summary(scene("a", shift_m=(4.1, -2.0)), shift=shift)
    assert told in str(found)


def test_the_table_says_how_much_the_shifts_of_scenes_differ():
    shifts = [(-3.0, 4.0), (-3.0, 0.0), (-6.0, 8.0)]
    scenes = [scene(str(n), shift_m=shift_m) for n, shift_m in enumerate(shifts)]
    told = "3.0 m west, 4.0 m north (scene); per scene by 3.0 to 10.0 m"
    assert told in str(summary(*scenes, shift="scene"))


def test_labels_that_were_not_to_be_moved_are_not_spoken_of():
    assert "moved" not in str(summary(scene("a")))


def test_how_far_labels_are_off_is_told_of_each_set():
    shifts = {"a": Shift(3.0, 4.0, confidence=1), "b": Shift(0.0, 0.1, confidence=1)}
    found = summary(*map(scene, "abc"), shifts=shifts, set_of={"a": "old", "b": "new", "c": "bare"})
    assert [of.measured for of in found.sets.values()] == [1, 1, 0]
    assert {key: of.remaining_m for key, of in found.shifted_by_key.items()} == {
        "imagery.sets.old.labels.shift": [3, -4],
        "imagery.sets.new.labels.shift": [0, -0.1],
    }
    assert "labels shifted by 5.0 m" in str(found.sets["old"])
    assert "off" not in str(found.sets["bare"])
