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


@pytest.mark.parametrize(
    ("images", "masks", "lines", "found"),
    [
        (["photos/a.tif"], [], ["streets/a.geojson"], ("photos", "streets")),
        (["a.tif"], [], ["roads.gpkg"], ("", "roads.gpkg")),
        (["a/1.tif"], ["b/1.tif"], [], ("a", "b")),
        (["a/1.tif"], ["b/1.tif"], ["lines/1.geojson"], ("a", "lines")),
        (["MS/1.tif", "PAN/1.tif", "PS-RGB/1.tif"], [], ["r/1.geojson"], ("PS-RGB", "r")),
    ],
    ids=["folders of any name", "files side by side", "masks", "lines before masks", "usual name"],
)
def test_images_and_labels_are_found_by_what_they_are(  # noqa: PLR0917 - fixtures
    tmp_path, write_raster, images, masks, lines, found
):
    for name in images:
        write_raster(name=name)
    for name in masks:
        write_raster(MASK, name=name)
    for name in lines:
        touch(tmp_path / name)
    assert discover_images(tmp_path) == str(tmp_path / found[0])
    assert discover_labels(tmp_path) == str(tmp_path / found[1])


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
