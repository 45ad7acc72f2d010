import json
import shutil

import pytest

from roadseg.config import Config, load_config
from roadseg.errors import ConfigError, DataError
from roadseg.stages import init


def look(folder, **options):
    paths = [str(folder / "images")], [str(folder / "roads")]
    return init.run(*paths, folder / "found.json", settings=Config(), **options)


def test_init_writes_a_config_that_loads_and_finds_the_same_scenes(city):
    summary = look(city.parent)
    config = load_config(city.parent / "found.json")
    assert summary.scenes == 5
    assert config.imagery.images == (str(city.parent / "images"),)


def test_init_writes_paths_inside_its_folder_as_relative_ones(city):
    look(city.parent)
    assert json.loads((city.parent / "found.json").read_text())["labels"]["roads"] == ["roads"]


def test_init_says_which_label_belongs_to_which_image(city):
    matches = look(city.parent).matches
    assert matches["city_3.tif"] == "city_3.geojson"
    assert len(matches) == 5


def test_init_cuts_few_scenes_into_chips_that_fill_the_folds_twice(make_scene, tmp_path):
    make_scene(tmp_path / "one", "big", size_px=1000, gsd_m=0.5)
    summary = look(tmp_path / "one")
    assert summary.chips >= 10
    assert summary.chip_px < 1000


def test_init_keeps_settings_that_it_was_given(city):
    settings = load_config(None, ["train.epochs=3"])
    paths = [str(city.parent / "images")], [str(city.parent / "roads")]
    init.run(*paths, city.parent / "found.json", settings=settings)
    assert load_config(city.parent / "found.json").train.epochs == 3


def test_an_existing_config_is_kept_without_force(city):
    look(city.parent)
    with pytest.raises(ConfigError, match=r"found\.json exists already; --force"):
        look(city.parent)
    assert look(city.parent, force=True).scenes == 5


def test_images_of_two_kinds_are_refused_with_an_example_of_each(city, make_scene, tmp_path):
    image, _ = make_scene(tmp_path / "other", "deep", dtype="uint16")
    shutil.copy(image, city.parent / "images" / "deep_9.tif")
    with pytest.raises(DataError, match=r"2 kinds.*uint8.*uint16"):
        look(city.parent)
