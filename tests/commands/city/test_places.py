"""Places: cities of many looks, whose roads lie where the pavement is painted."""

import json

import numpy as np
import pytest
import rasterio
import shapely
from rasterio.features import rasterize

from roadseg.commands.city.aerial import draw_scene
from roadseg.commands.city.cameras import photograph_again
from roadseg.commands.city.places import write_places
from roadseg.commands.city.scenery import draw_clutter
from roadseg.commands.city.streets import COLLECTOR, draw_streets
from roadseg.commands.city.worlds import DEMO, World, draw_setting
from roadseg.raster.grid import DEGREES, transformer
from roadseg.raster.images import read_facts

SMALL = {"x_m": 300.0, "y_m": 200.0, "size_px": 200, "seed": 0}
EXTENT_M = (900.0, 700.0)


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


def test_widths_of_streets_are_those_of_the_world():
    broad = draw_streets(extent_m=EXTENT_M, seed=0, widths_m={"collector": (20.0, 21.0)})
    usual = draw_streets(extent_m=EXTENT_M, seed=0)
    assert [street.line for street in broad] == [street.line for street in usual]
    for wide, narrow in zip(broad, usual, strict=True):
        is_wide = 20 <= wide.width_m <= 21
        assert is_wide if wide.kind == COLLECTOR else wide.width_m == narrow.width_m


@pytest.mark.parametrize(
    "world", [World(grass=(10, 10, 10)), World(clutter=60.0), World(shadow=(0.9, 0.2))]
)
def test_a_world_changes_the_picture(world):
    streets = draw_streets(extent_m=EXTENT_M, seed=0)
    usual = draw_scene(streets, **SMALL)
    assert not np.array_equal(draw_scene(streets, **SMALL, world=world), usual)
    assert np.array_equal(draw_scene(streets, **SMALL, world=DEMO), usual)


def test_clutter_stays_off_the_pavement():
    area, paved = shapely.box(0, 0, 200, 100), shapely.box(0, 40, 200, 60)
    shapes = list(draw_clutter(area, paved, np.random.default_rng(0), World(clutter=40.0)))
    assert 30 < len(shapes) < 80  # on two hectares, of which a fifth is paved
    assert not any(shape.outline.intersects(paved) for shape in shapes)
    assert {shape.height_m > 0 for shape in shapes} == {True, False}
    assert not list(draw_clutter(area, paved, np.random.default_rng(0), DEMO))


@pytest.mark.parametrize("seed", range(4))
def test_a_camera_keeps_shape_and_type_and_where_things_are(seed):
    streets = draw_streets(extent_m=EXTENT_M, seed=0)
    image = draw_scene(streets, **SMALL)
    taken = photograph_again(image, np.random.default_rng(seed))
    assert (taken.shape, taken.dtype) == (image.shape, image.dtype)
    assert not np.array_equal(taken, image)
    alike = np.corrcoef(image.mean(axis=0).ravel(), taken.mean(axis=0).ravel())[0, 1]
    assert alike > 0.7
