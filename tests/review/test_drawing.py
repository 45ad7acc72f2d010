"""A road is drawn along the probabilities, and straight where they show none."""

import numpy as np
import pytest
import shapely
from affine import Affine
from pyproj import CRS

from roadseg.raster.grid import Grid
from roadseg.review import drawing
from roadseg.review.drawing import draw_way
from roadseg.roads.masks.probabilities import Probability

UTM = CRS.from_epsg(32611)


def pixels(road):
    height, width = road.shape
    return Probability(Grid(UTM, Affine(1, 0, 0, 0, -1, height), height, width), road)


@pytest.fixture
def corner():
    """Draw a road along the upper and the right side of a square of 60 m, on faint ground."""
    road = np.full((100, 100), 5, dtype=np.uint8)
    road[18:23, 18:83] = road[18:83, 78:83] = 240
    return pixels(road)


@pytest.fixture(params=[60_000, 2500], ids=["fine", "coarse"])
def size(request, monkeypatch):
    monkeypatch.setattr(drawing, "_MOST_PX", request.param)


@pytest.mark.usefixtures("size")
def test_a_road_is_drawn_around_its_corner(corner):
    way = draw_way(np.array([20.5, 79.5]), np.array([80.5, 20.5]), corner)
    road = shapely.LineString([(20.5, 79.5), (80.5, 79.5), (80.5, 20.5)])
    assert way.hausdorff_distance(road) < 5
    assert len(way.coords) < 8


def test_a_road_begins_and_ends_just_where_it_was_wanted(corner):
    ends = np.array([[20.123, 79.456], [80.7, 20.1]])
    assert np.array_equal(np.array(draw_way(*ends, corner).coords)[[0, -1]], ends)


def test_a_road_is_straight_where_nothing_is_seen():
    way = draw_way(np.array([10.0, 10.0]), np.array([80.0, 60.0]), nothing)
    assert len(way.coords) == 2


def test_places_outside_of_the_pixels_are_led_to_straight(corner):
    ends = np.array([[-20.0, 50.0], [130.0, 50.0]])
    assert np.array_equal(np.array(draw_way(*ends, corner).coords)[[0, -1]], ends)
