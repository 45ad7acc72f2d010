import numpy as np
import pytest
from affine import Affine
from pyproj import CRS

from roadseg.raster.grid import DEGREES, LOCAL_CRS, Grid, transformer
from roadseg.report.map_data import describe_area, encode_column, map_areas, terms
from roadseg.roads.labels.areas import read_area


def grid(x, y, *, epsg=32611, side_m=500):
    return Grid(CRS.from_epsg(epsg), Affine(1, 0, x, 0, -1, y), side_m, side_m)


def apply(fitted, places):
    u, v = ((np.asarray(places) - fitted["centre"]) / fitted["scale"]).T
    matrix = np.column_stack([u**i * v**j for i, j in terms()])
    return matrix @ np.transpose(fitted["terms"]) + fitted["middle"]


@pytest.mark.parametrize("side_m", [500, 60_000])
def test_positions_go_to_degrees_and_back_within_a_millimetre(side_m):
    (area,) = map_areas([grid(480000, 3650000, side_m=side_m)])
    told = describe_area(area)
    xy = np.random.default_rng(0).uniform(0, side_m, (50, 2))
    x, y = (xy + told["origin"]).T
    degrees = np.column_stack(transformer(area.crs, DEGREES).transform(x, y))
    assert apply(told["to_degrees"], xy) == pytest.approx(degrees, abs=1e-8)
    assert apply(told["from_degrees"], degrees) == pytest.approx(xy, abs=1e-3)


@pytest.mark.parametrize(("apart_m", "areas"), [(15_000, 1), (30_000, 2)])
def test_scenes_far_apart_have_a_map_each(apart_m, areas):
    assert len(map_areas([grid(480000, 3650000), grid(480000 + apart_m, 3650000)])) == areas


def in_two_zones(x):
    east = transformer(CRS.from_epsg(32611), CRS.from_epsg(32612)).transform(x, 3650000)
    return map_areas([grid(779000, 3650000), grid(*east, epsg=32612)])


@pytest.mark.parametrize(("x", "km2"), [(780000, 0.5), (779250, 0.375)])
def test_scenes_in_two_zones_are_on_one_map_and_overlaps_count_once(x, km2):
    (area,) = in_two_zones(x)
    assert area.crs.to_epsg() == 32611
    assert area.km2() == pytest.approx(km2, rel=0.05)


def test_polygons_lie_on_a_map_of_two_zones_whose_middle_is_in_the_second_one():
    (area,) = in_two_zones(784000)
    assert area.km2(read_area("-115,32,-113,34")) == pytest.approx(area.km2())


def test_no_polygons_lie_on_a_map_without_a_place():
    (area,) = map_areas([Grid(LOCAL_CRS, Affine(1, 0, 0, 0, -1, 100), 100, 100)])
    assert area.inside(read_area("-115,32,-113,34")).is_empty


def test_scenes_without_a_place_have_maps_of_their_own_and_no_degrees():
    local = Grid(LOCAL_CRS, Affine(1, 0, 0, 0, -1, 100), 100, 100)
    areas = map_areas([local, grid(480000, 3650000), local])
    assert [area.scenes for area in areas] == [(1,), (0,), (2,)]
    assert describe_area(areas[1])["to_degrees"] is None


def test_what_is_not_known_of_a_road_is_no_number():
    column = np.array([0.25, np.nan, 1])
    assert encode_column("confidence", column) == {"values": [0.25, None, 1]}
