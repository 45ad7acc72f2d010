"""scripts/starter_places.py: cities of many looks, whose roads lie on painted pavement."""

import json

import numpy as np
import pytest
import rasterio
from rasterio.features import rasterize
from starter_places import draw_setting, photograph_again, write_places

from roadseg.commands.city.aerial import draw_scene
from roadseg.commands.city.streets import draw_streets
from roadseg.raster.grid import DEGREES, transformer
from roadseg.raster.images import read_facts


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Write a small place; return its folder."""
    folder = tmp_path_factory.mktemp("places")
    write_places(folder, [5], size_px=256)
    return folder


def paths(folder, number=5):
    return (
        folder / "images" / f"place_{number}.tif",
        folder / "roads" / f"place_{number}.geojson",
    )


def test_a_place_is_an_image_and_its_roads_with_their_widths(place):
    image, roads = paths(place)
    facts = read_facts(image)
    assert (facts.grid.height, facts.grid.width, len(facts.bands)) == (256, 256, 3)
    features = json.loads(roads.read_text())["features"]
    assert features
    assert all(2 < feature["properties"]["width_m"] < 50 for feature in features)


def test_the_same_number_is_the_same_place(place, tmp_path):
    write_places(tmp_path, [5], size_px=256)
    for one, other in zip(paths(place), paths(tmp_path), strict=True):
        assert one.read_bytes() == other.read_bytes()


def test_what_is_there_is_not_drawn_again(place):
    before = [path.stat().st_mtime_ns for path in paths(place)]
    write_places(place, [5], size_px=256)
    assert [path.stat().st_mtime_ns for path in paths(place)] == before


def test_roads_lie_on_pavement_that_is_smoother_than_what_is_beside_it(place):
    image, roads = paths(place)
    with rasterio.open(image) as source:
        grey, transform = source.read().mean(axis=0), source.transform
    to_metres = transformer(DEGREES, read_facts(image).grid.crs)
    lines = [
        {
            "type": "LineString",
            "coordinates": [to_metres.transform(*xy) for xy in feature["geometry"]["coordinates"]],
        }
        for feature in json.loads(roads.read_text())["features"]
    ]
    on_road = rasterize(lines, grey.shape, transform=transform) > 0
    rough = np.hypot(*np.gradient(grey))
    assert on_road.sum() > 50
    assert np.median(rough[on_road]) < np.median(rough[~on_road])


def test_settings_differ_and_are_those_of_their_number():
    settings = [draw_setting(np.random.default_rng(number)) for number in range(40)]
    assert settings[3] == draw_setting(np.random.default_rng(3))
    assert len({setting.world.grass for setting in settings}) == 40
    assert {setting.gsd_m for setting in settings} >= {0.3, 0.5, 1.0}
    assert all(0.2 < setting.scale < 3 for setting in settings)


@pytest.mark.parametrize("seed", range(4))
def test_a_camera_keeps_shape_and_type_and_where_things_are(seed):
    streets = draw_streets(extent_m=(900.0, 700.0), seed=0)
    image = draw_scene(streets, x_m=300.0, y_m=200.0, size_px=200, seed=0)
    taken = photograph_again(image, np.random.default_rng(seed))
    assert (taken.shape, taken.dtype) == (image.shape, image.dtype)
    assert not np.array_equal(taken, image)
    alike = np.corrcoef(image.mean(axis=0).ravel(), taken.mean(axis=0).ravel())[0, 1]
    assert alike > 0.7
