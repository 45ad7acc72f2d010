import time

import pytest

from roadseg.raster.inputs import match_names


@pytest.mark.parametrize(
    ("image", "label"),
    [
        ("RGB-PanSharpen_AOI_2_Vegas_img12", "spacenetroads_AOI_2_Vegas_img12"),
        (
            "SN3_roads_train_AOI_2_Vegas_PS-MS_img12",
            "SN3_roads_train_AOI_2_Vegas_geojson_roads_speed_img12",
        ),
        (
            "SN5_roads_train_AOI_7_Moscow_PS-RGB_chip12",
            "SN5_roads_train_AOI_7_Moscow_geojson_roads_speed_chip12",
        ),
        ("RGB-PanSharpen_img1447", "OSMroads_img1447"),
        ("tile_12", "tile_12"),
    ],
)
def test_an_image_finds_the_label_of_its_place(image, label):
    others = [label.replace("12", number).replace("1447", number) for number in ("1", "112", "121")]
    assert match_names([image], [*others, label]) == {image: label}


def test_providers_of_one_place_share_its_label():
    place = "117.23_39.12-117.24_39.13-18"
    images = [f"{place}_{provider}" for provider in ("google", "mapbox", "yahoo")]
    labels = [place, "117.23_39.12-117.24_39.14-18"]
    assert match_names(images, labels) == dict.fromkeys(images, place)


def test_a_label_of_the_same_name_comes_first():
    assert match_names(["a1"], ["b1", "a1", "c1"]) == {"a1": "a1"}


def test_of_two_labels_that_fit_the_more_exact_one_is_taken():
    assert match_names(["x_2_img5"], ["city_2", "city_2_img5"]) == {"x_2_img5": "city_2_img5"}


@pytest.mark.parametrize("label", ["tile_13", "roads", "tile_12_extra_3", "tile_2_1"])
def test_a_label_of_another_place_does_not_fit(label):
    assert match_names(["tile_1_2"], [label]) == {"tile_1_2": None}


def test_capitals_do_not_matter():
    assert match_names(["AOI_IMG7"], ["roads_img7"]) == {"AOI_IMG7": "roads_img7"}


def test_two_labels_that_fit_equally_well_are_refused():
    with pytest.raises(ValueError, match="rgb_7 fits osm_7 and sn_7 equally well; rename one"):
        match_names(["rgb_7"], ["osm_7", "sn_7"])


def test_names_of_digits_alone_are_not_mixed_up():
    names = [str(number) for number in range(1, 120)]
    labels = [f"mask_{name}" for name in names]
    assert match_names(names, labels) == dict(zip(names, labels, strict=True))


def test_thousands_of_names_are_matched_at_once():
    places = [f"{row}_{col}" for row in range(70) for col in range(70)]
    start = time.process_time()
    found = match_names([f"i_{p}_x" for p in places], [f"r_{p}" for p in places])
    assert time.process_time() - start < 5
    assert found["i_3_69_x"] == "r_3_69"
