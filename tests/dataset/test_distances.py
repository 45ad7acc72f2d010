import numpy as np
import pytest
from pyproj import CRS

from roadseg.dataset.chips import NO_ZONE
from roadseg.dataset.footprints import near_pairs, nearest_m
from roadseg.raster.grid import DEGREES, transformer
from tests.drawing import chip_at

SIDE_M = 100.0


def chip(x, y=4e6, *, scene="s", zone=32611):
    return chip_at(f"{scene}_{x:g}", x, y, side_m=SIDE_M, zone=zone)


def at(lon, lat, zone):
    x, y = transformer(DEGREES, CRS.from_epsg(zone)).transform(lon, lat)
    return chip(x, y, zone=zone)


def test_distances_are_those_between_footprints():
    others = [chip(5e5), chip(5e5 + 1000)]
    chips = [chip(5e5 + 50), chip(5e5 + 100), chip(5e5 + 300), chip(5e5 + 130, 4e6 + 140)]
    np.testing.assert_allclose(nearest_m(chips, others), [0, 0, 200, 50])


@pytest.mark.parametrize("lat", [-33.0, 0.0, 33.0])
def test_chips_on_both_sides_of_the_edge_of_a_zone_are_near(lat):
    """The edge between the zones 11 and 12 is at 114 degrees west."""
    east = 32712 if lat < 0 else 32612
    chips = [at(-114.01, lat, 32611)]
    metres = nearest_m(chips, [at(-114 + 0.02, lat, east), at(-117 + 180, -lat, 32639)])
    expected = 0.03 * 111_320 * np.cos(np.deg2rad(lat)) - SIDE_M
    np.testing.assert_allclose(metres, expected, rtol=0.01)


def test_pairs_up_to_a_distance_are_near_also_across_the_edge_of_a_zone():
    chips = [at(-114.001, 33, 32611), at(-113.999, 33, 32612), at(-113.99, 33, 32612)]
    assert np.unique(near_pairs(chips, within_m=200), axis=0).tolist() == [[0, 1]]
    side_by_side = [chip(5e5), chip(5e5 + 150), chip(5e5 + 301)]
    assert near_pairs(side_by_side, within_m=50).tolist() == [[0, 1]]


def test_a_scene_without_georeference_is_measured_within_itself_only():
    here, other = (chip(0.0, scene=name, zone=NO_ZONE) for name in ("a", "b"))
    beside = chip(150.0, scene="a", zone=NO_ZONE)
    assert nearest_m([here, other], [beside, chip(5e5)]).tolist() == [50, np.inf]


def test_without_others_all_are_infinitely_far():
    assert nearest_m([chip(5e5)], []).tolist() == [np.inf]
    assert nearest_m([], [chip(5e5)]).tolist() == []
