"""Where init finds images and road labels in a folder."""

import numpy as np
import pytest
from affine import Affine

from roadseg.commands.survey.cities import (
    discover_images,
    discover_labels,
    given_cities,
    survey_cities,
)
from roadseg.config import load_config
from roadseg.errors import ConfigError

MASK = np.eye(32, dtype=np.uint8)


def touch(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()


def test_folders_of_any_name_are_found_by_what_they_hold(tmp_path, write_raster):
    write_raster(name="photos/a.tif")
    touch(tmp_path / "streets/a.geojson")
    assert discover_images(tmp_path) == str(tmp_path / "photos")
    assert discover_labels(tmp_path) == str(tmp_path / "streets")


def test_files_beside_each_other_are_found(tmp_path, write_raster):
    write_raster(name="a.tif")
    touch(tmp_path / "roads.gpkg")
    assert discover_images(tmp_path) == str(tmp_path)
    assert discover_labels(tmp_path) == str(tmp_path / "roads.gpkg")


def test_masks_are_labels_where_there_are_no_lines(tmp_path, write_raster):
    write_raster(name="a/1.tif")
    write_raster(MASK, name="b/1.tif")
    assert discover_images(tmp_path) == str(tmp_path / "a")
    assert discover_labels(tmp_path) == str(tmp_path / "b")


def test_lines_go_before_masks(tmp_path, write_raster):
    write_raster(MASK, name="b/1.tif")
    touch(tmp_path / "lines/1.geojson")
    assert discover_labels(tmp_path) == str(tmp_path / "lines")


def test_of_several_places_the_one_with_the_usual_name_is_taken(tmp_path, write_raster):
    for name in ("MS", "PAN", "PS-RGB"):
        write_raster(name=f"{name}/1.tif")
    assert discover_images(tmp_path) == str(tmp_path / "PS-RGB")


def test_several_places_are_listed_for_the_user_to_choose(tmp_path, write_raster):
    write_raster(name="north/1.tif")
    write_raster(name="south/1.tif")
    with pytest.raises(ConfigError, match="2 places with images: north, south; choose with --im"):
        discover_images(tmp_path)


def test_a_run_folder_holds_no_images(tmp_path, write_raster):
    write_raster(name="run/1.tif")
    touch(tmp_path / "run/chips.json")
    with pytest.raises(ConfigError, match="no images found in it or its subfolders; use --images"):
        discover_images(tmp_path)


def test_folders_of_cities_are_to_be_named(tmp_path, write_raster):
    write_raster(name="north/images/1.tif")
    with pytest.raises(ConfigError, match="or --city with a folder that has both images and road"):
        discover_images(tmp_path)


def test_the_values_of_the_masks_of_all_cities_are_known(tmp_path, write_raster):
    for name, road, east in (("west", 1, 660_000), ("east", 255, 670_000)):
        transform = Affine(1, 0, east, 0, -1, 4_000_000)
        write_raster(shape=MASK.shape, name=f"{name}/images/1.tif", transform=transform)
        write_raster(MASK * np.uint8(road), name=f"{name}/masks/1.tif", transform=transform)
    cities = given_cities(str(tmp_path / name) for name in ("west", "east"))
    surveyed = survey_cities(cities, load_config(None, ["split.folds=2"]))
    assert surveyed.labels.mask_values == {0: 2, 1: 1, 255: 1}
