"""A road is drawn along the probabilities, and straight where they show none."""

from dataclasses import replace

import numpy as np
import pytest
import shapely
from affine import Affine
from pyproj import CRS

from roadseg.raster.grid import Grid
from roadseg.review import sheets
from roadseg.review.sheets import draw_path
from roadseg.roads.formats.files import write_gpkg
from roadseg.roads.masks.probabilities import Probability
from tests.review.conftest import open_session

UTM = CRS.from_epsg(32611)
CORNER = (480_000, 3_650_000)


def pixels(road):
    height, width = road.shape
    place = Affine(1, 0, *CORNER[:1], 0, -1, CORNER[1] + height)
    return Probability(Grid(UTM, place, height, width), road)


def way_between(start, goal, of):
    """Return the way between two places that count from the south-west corner, as do its own."""
    way = draw_path(*np.add([start, goal], CORNER), of)
    return shapely.transform(way, lambda xy: xy - CORNER)


@pytest.fixture
def corner():
    """Draw a road along the upper and the right side of a square of 60 m, on faint ground."""
    road = np.full((100, 100), 5, dtype=np.uint8)
    road[18:23, 18:83] = road[18:83, 78:83] = 240
    return pixels(road)


@pytest.fixture(params=[60_000, 2500], ids=["fine", "coarse"])
def size(request, monkeypatch):
    monkeypatch.setattr(sheets, "_MOST_PX", request.param)


@pytest.mark.usefixtures("size")
def test_a_road_is_drawn_around_its_corner(corner):
    way = way_between((20.5, 79.5), (80.5, 20.5), corner)
    road = shapely.LineString([(20.5, 79.5), (80.5, 79.5), (80.5, 20.5)])
    assert way.hausdorff_distance(road) < 5
    assert len(way.coords) < 8


def test_a_road_begins_and_ends_just_where_it_was_wanted(corner):
    ends = [(20.123, 79.456), (80.7, 20.1)]
    assert np.array(way_between(*ends, corner).coords)[[0, -1]] == pytest.approx(np.array(ends))


def test_a_road_is_straight_where_nothing_is_seen():
    nothing = pixels(np.zeros((100, 100), dtype=np.uint8))
    assert len(way_between((10, 10), (80, 60), nothing).coords) == 2


def test_places_outside_of_the_pixels_are_led_to(corner):
    ends = [(-20, 50), (130, 50)]
    assert np.array(way_between(*ends, corner).coords)[[0, -1]] == pytest.approx(np.array(ends))


def test_assumed_speeds_are_not_shown(run, crossroads):
    known = {"speed_known": np.array([0, 1, 1, 1, 1], dtype=np.uint8)}
    roads = replace(crossroads, attributes=crossroads.attributes | known)
    write_gpkg(run.graph("city"), roads)
    (sheet,) = open_session(run).sheets
    assert sheet.describe()["kph"] == [None, 40, 40, 40, 40]
