"""Profiles across ways: from right to left, over the borders of rasters, in any grid."""

from dataclasses import replace

import numpy as np
import pytest
import shapely
from affine import Affine
from pyproj import CRS

from roadseg.raster.grid import Grid, reproject
from roadseg.roads.audit.profiles import NO_DATA, REACH_M, Cover, probability_profiles
from roadseg.roads.audit.stations import spread_stations
from roadseg.roads.masks.probabilities import Probability

UTM, DEGREES = CRS.from_epsg(32632), CRS.from_epsg(4326)
X, Y = 500_000.0, 5_473_000.0  # On the middle of the zone, where north is up.
WAY = np.array([shapely.LineString([(X + 20, Y + 100), (X + 180, Y + 100)]), None], dtype=object)


def raster(values, *, west_m=0.0, pixel_m=1.0):
    """Return a raster whose lower left corner is so far east of X, at Y."""
    height, width = values.shape
    transform = Affine(pixel_m, 0, X + west_m, 0, -pixel_m, Y + height * pixel_m)
    return Probability(Grid(UTM, transform, height, width), values)


def halves():
    """Draw 200 x 200 m: 10 in the south, 200 in the north of the way."""
    values = np.full((200, 200), 10, dtype=np.uint8)
    values[:100] = 200
    return values


def profiles(*rasters):
    return probability_profiles(Cover.from_rasters(rasters), spread_stations(WAY[:1]))


def test_profiles_run_from_right_to_left_of_the_way():
    shown = profiles(raster(halves()))
    assert (shown[:, : REACH_M - 1] == 10).all()
    assert (shown[:, REACH_M + 2 :] == 200).all()


@pytest.mark.parametrize(
    "west",
    [
        raster(halves()[:, :100]),
        replace(raster(halves()), known=np.tile(np.arange(200) < 100, (200, 1))),
    ],
    ids=["beside a raster", "in a gap of it"],
)
def test_ground_without_raster_has_no_data(west):
    shown = profiles(west)
    assert (shown[-20:] == NO_DATA).all()
    assert (shown[:20] != NO_DATA).all()


def test_tiles_beside_each_other_are_seen_as_one():
    values = halves()
    tiles = raster(values[:, :100]), raster(values[:, 100:], west_m=100)
    assert (profiles(*tiles) == profiles(raster(values))).all()


def test_a_raster_in_degrees_shows_the_same_ground():
    corners = np.array([shapely.Point(X, Y), shapely.Point(X + 200, Y + 200)], dtype=object)
    (west, south), (east, north) = ((p.x, p.y) for p in reproject(corners, UTM, DEGREES).tolist())
    transform = Affine((east - west) / 200, 0, west, 0, (south - north) / 200, north)
    shown = profiles(Probability(Grid(DEGREES, transform, 200, 200), halves()))
    assert (shown[:, : REACH_M - 2] == 10).mean() > 0.99
    assert (shown[:, REACH_M + 3 :] == 200).mean() > 0.99


def test_the_first_raster_covers_the_others():
    values = halves()
    other = replace(raster(values), road=np.zeros_like(values))
    assert (profiles(raster(values), other) == profiles(raster(values))).all()
