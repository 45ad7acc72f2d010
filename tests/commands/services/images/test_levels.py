"""Levels of tiles: which of their tiles an area needs."""

from pathlib import Path

import numpy as np
import pytest
import shapely
from pyproj import CRS

from roadseg.commands.services.images.fetching import Fetch, ImageRequest
from roadseg.commands.services.images.levels import (
    Level,
    choose_level,
    drawn_level,
    plan_tiles,
    with_tile_px,
    xyz_level,
)
from roadseg.errors import ConfigError, DataError
from roadseg.raster.grid import DEGREES
from roadseg.roads.labels.areas import Area, read_area

HEIDELBERG = read_area("8.68,49.40,8.70,49.41")
LEVELS = [xyz_level(zoom) for zoom in range(23)]


def asked(**options):
    request = ImageRequest(source="", area="", output=Path(), **options)
    return Fetch(request, HEIDELBERG, client=None, cache=None, dry_run=True)


@pytest.mark.parametrize(
    ("zoom", "area", "tile"), [(0, "-180,-85,180,85", (0, 0)), (1, "1,1,179,85", (0, 1))]
)
def test_the_world_is_one_tile_at_zoom_0_and_a_quarter_of_it_at_zoom_1(zoom, area, tile):
    assert list(plan_tiles(xyz_level(zoom), read_area(area)).places()) == [tile]


def test_the_poles_are_cut_off():
    assert plan_tiles(xyz_level(0), read_area("-180,-90,180,90")).window == (0, 0, 256, 256)


def test_an_area_at_the_pole_is_outside():
    with pytest.raises(DataError, match="outside"):
        plan_tiles(xyz_level(4), read_area("1,86,2,87"))


def test_the_image_is_cut_to_the_box_to_a_pixel():
    plan = plan_tiles(xyz_level(16), HEIDELBERG)
    west, south, east, north = plan.grid.footprint.bounds
    left, bottom, right, top = shapely.bounds(plan.shape)
    assert 0 <= left - west < plan.level.pixel
    assert 0 <= east - right < plan.level.pixel
    assert 0 <= bottom - south < plan.level.pixel
    assert 0 <= north - top < plan.level.pixel


def test_no_pixel_is_added_where_the_box_ends_between_two():
    level = Level("", DEGREES, 0, 8, 0.5, (2, 2), (8, 8))
    assert plan_tiles(level, read_area("1,1,3,3")).window == (10, 2, 4, 4)


def test_tiles_that_the_area_does_not_touch_are_left_out():
    triangle = shapely.Polygon([(8.6, 49.3), (8.9, 49.3), (8.6, 49.6)])
    plan = plan_tiles(xyz_level(14), Area("t", DEGREES, np.array([triangle], dtype=object)))
    rows, cols = plan.box
    assert 0.4 < len(list(plan.places())) / (len(rows) * len(cols)) < 0.7


@pytest.mark.parametrize(("gsd_m", "name"), [(1.56, "16"), (1.5, "16"), (1.4, "17"), (0.001, "22")])
def test_the_first_level_that_is_fine_enough_is_chosen(gsd_m, name):
    assert choose_level(LEVELS, asked(gsd_m=gsd_m)).name == name


def test_pixels_are_measured_on_the_ground():
    size_m = xyz_level(16).gsd_m(HEIDELBERG)
    sides_m = plan_tiles(xyz_level(16), HEIDELBERG).grid.pixel_size_m
    assert size_m**2 == pytest.approx(np.prod(sides_m), rel=1e-5)
    assert size_m == pytest.approx(2.3887 * np.cos(np.radians(49.405)), rel=3e-3)


def test_larger_tiles_have_smaller_pixels():
    assert with_tile_px(xyz_level(15), 512).pixel == xyz_level(16).pixel


@pytest.mark.parametrize("epsg", [3857, 25832, 4326])
def test_a_drawn_level_has_pixels_of_the_wanted_size(epsg):
    level = drawn_level(CRS.from_epsg(epsg), 0.5, HEIDELBERG, tile_px=512)
    assert plan_tiles(level, HEIDELBERG).level.gsd_m(HEIDELBERG) == pytest.approx(0.5, rel=0.05)


def test_tiles_of_areas_side_by_side_are_the_same():
    one, other = read_area("8.68,49.40,8.69,49.41"), read_area("8.69,49.40,8.70,49.41")
    plans = [
        plan_tiles(drawn_level(CRS.from_epsg(3857), 1, area, tile_px=512), area)
        for area in (one, other)
    ]
    assert plans[0].level == plans[1].level
    assert set(plans[0].places()) & set(plans[1].places())


@pytest.mark.parametrize(
    ("zoom", "area", "told"),
    [
        (18, "0,40,20,55", "more than 5,000,000"),
        (11, "-180,10,180,10.01", r"is 524,288 pixels wide, more than .* 250,000 pixels"),
    ],
)
def test_too_many_tiles_and_an_image_too_wide_for_strips_are_refused(zoom, area, told):
    with pytest.raises(ConfigError, match=told):
        plan_tiles(xyz_level(zoom), read_area(area))


@pytest.mark.parametrize(
    ("zoom", "message"), [(None, "choose the size"), (40, "no such level; it has 0, 1, 2")]
)
def test_a_level_has_to_be_chosen(zoom, message):
    with pytest.raises(ConfigError, match=message):
        choose_level(LEVELS[:3], asked(zoom=zoom))
