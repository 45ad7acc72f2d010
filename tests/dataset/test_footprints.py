import time

import numpy as np
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st
from pyproj import CRS

from roadseg.dataset.footprints import areas_apart, corners_degrees, overlapping_pairs, unbroken
from roadseg.raster.grid import DEGREES, transformer

ZONE = 32611
BOXES = st.lists(st.tuples(*[st.integers(0, 300)] * 2, *[st.integers(1, 120)] * 2), max_size=25)


def box(x, y, width=100.0, height=100.0):
    return [(x, y), (x + width, y), (x + width, y - height), (x, y - height)]


def near(lon, lat, zone, width_m=200.0):
    """Return a footprint around a place, in the metres of a zone."""
    x, y = transformer(DEGREES, CRS.from_epsg(zone)).transform(lon, lat)
    return box(x - width_m / 2, y + width_m / 2, width_m, width_m)


def found(corners, zones=None):
    return overlapping_pairs(np.array(corners), zones or [ZONE] * len(corners)).tolist()


def grid_of_tiles(count):
    """Return adjoining tiles, turned by a degree as UTM is against the meridian."""
    x, y = np.divmod(np.arange(count**2), count)
    tiles = np.array([box(100.0 * col, 100.0 * row) for col, row in zip(x, y, strict=True)])
    turn = np.array([[np.cos(0.02), np.sin(0.02)], [-np.sin(0.02), np.cos(0.02)]])
    return tiles @ turn + 500_000.1


@given(BOXES)
def test_the_pairs_are_those_that_share_more_than_a_hundredth_of_the_smaller(boxes):
    corners = np.array([box(*values) for values in boxes], dtype=float).reshape(-1, 4, 2)
    shapes = shapely.polygons(corners)
    share = [
        [i, j]
        for j in range(len(shapes))
        for i in range(j)
        if shapely.area(shapely.intersection(shapes[i], shapes[j]))
        > 0.01 * min(shapely.area(shapes[i]), shapely.area(shapes[j]))
    ]
    assert found(corners) == sorted(share)


@pytest.mark.parametrize(
    ("places", "pairs"),
    [
        ([(-114.0, 36.0, 32611), (-114.0, 36.0, 32612), (-114.0, 36.1, 32612)], [[0, 1]]),
        ([(-114.0, 36.0, 32611), (-114.0, 36.0 + 200 / 111_000, 32612)], []),
        ([(-117.0, 36.0, 32611), (-111.0, 36.0, 32612)], []),
        ([(180.0, -17.0, 32701), (180.0, -17.0, 32760), (0.0, -17.0, 32730)], [[0, 1]]),
    ],
    ids=["the same ground", "ground that touches", "the same metres", "across the date line"],
)
def test_footprints_in_two_zones_overlap_where_they_show_the_same_ground(places, pairs):
    corners = [near(lon, lat, zone) for lon, lat, zone in places]
    assert found(corners, [zone for *_, zone in places]) == pairs


def test_footprints_on_the_equator_overlap_none_on_the_other_side_of_the_globe():
    corners = [near(6.0, 0.0005, 32632, width_m=800), near(-168.0, 0.0, 32602, width_m=800)]
    assert found(corners, [32632, 32602]) == []


def test_fifty_thousand_adjoining_tiles_take_seconds():
    begun = time.process_time()
    assert found(grid_of_tiles(224)) == []
    assert time.process_time() - begun < 10


def test_a_footprint_across_the_date_line_stays_in_one_piece():
    corners = corners_degrees(np.array([near(180.0, -17.0, 32760)]), [32760])
    assert np.ptp(corners[..., 0]) < 0.01


@pytest.mark.parametrize("lons", [(179.9, -179.9), (-0.1, 0.1), (-117.2, 103.8), (170.0, -5.0)])
def test_longitudes_are_turned_so_that_neighbours_are_near(lons):
    corners = np.array([box(lon, 0, 0.01, 0.01) for lon in lons])
    apart = abs(lons[0] - lons[1])
    assert np.isclose(np.ptp(unbroken(corners)[..., 0]), min(apart, 360 - apart) + 0.01)


@pytest.mark.parametrize(("east_km", "areas"), [(9, [0, 0]), (40, [0, 1])])
def test_areas_are_those_that_lie_far_apart(east_km, areas):
    corners = np.array([box(20.0, 0.0, 0.01, 0.01), box(20.0 + east_km / 111.2, 0.0, 0.01, 0.01)])
    assert areas_apart(corners, gap_km=10).tolist() == areas


def test_areas_are_numbered_by_their_first_footprint():
    corners = np.array([box(lon, 10.0, 0.01, 0.01) for lon in (30, -60, 30.05, 140, -60)])
    assert areas_apart(corners, gap_km=50).tolist() == [0, 1, 0, 2, 1]
