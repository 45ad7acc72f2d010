"""Audits of drawn maps against drawn roads: what is confirmed, shifted, not seen."""

from collections import Counter

import numpy as np
import pytest
import shapely
from affine import Affine
from pyproj import CRS
from rasterio.features import rasterize

from roadseg.raster.grid import Grid
from roadseg.roads.audit.audit import audit_ways, common_shift
from roadseg.roads.audit.stretches import STATUSES
from roadseg.roads.audit.ways import AuditedWays
from roadseg.roads.masks.probabilities import Probability
from roadseg.roads.options import AuditOptions
from tests.drawing import lines_of

UTM = CRS.from_epsg(32632)
ORIGIN = np.array([477_000.0, 5_473_000.0])
SIDE_M, PIXEL_M = 300, 0.5
GRID = Grid(
    UTM,
    Affine(PIXEL_M, 0, ORIGIN[0], 0, -PIXEL_M, ORIGIN[1] + SIDE_M),
    int(SIDE_M / PIXEL_M),
    int(SIDE_M / PIXEL_M),
)
STREET = [(20, 150), (280, 150)]


def line(coordinates):
    return shapely.LineString(np.add(coordinates, ORIGIN))


def image(*streets, width_m=8.0, **facts):
    """Draw streets as certain road."""
    shapes = [line(street).buffer(width_m / 2, cap_style="flat") for street in streets]
    size = (GRID.height, GRID.width)
    road = rasterize(shapes, size, transform=GRID.transform, default_value=255, dtype="uint8")
    return Probability(GRID, road, **facts)


def drawn(*ways, crs=UTM):
    lines = lines_of(*[np.add(way, ORIGIN) for way in ways])
    return AuditedWays("map.gpkg", crs, lines, {"row": np.arange(len(lines))}, Counter())


def audit(ways, *rasters, **options):
    return audit_ways(ways, rasters, AuditOptions(**options))


def told(found):
    """Return the way, the status and the length of each stretch."""
    statuses = [STATUSES[status] for status in found.status]
    return list(zip(found.way.tolist(), statuses, found.length_m.round().tolist(), strict=True))


def moved(way, east_m=0.0, north_m=0.0):
    return np.add(way, (east_m, north_m)).tolist()


def test_a_way_on_a_road_is_confirmed():
    found = audit(drawn(STREET), image(STREET))
    assert told(found) == [(0, "confirmed", 260)]
    assert found.offset_m == pytest.approx([0], abs=0.3)
    assert (found.probability, found.width_m) == (pytest.approx([1]), pytest.approx([8], abs=0.6))


@pytest.mark.parametrize("north_m", [-8, -4.5, 3.5, 6, 8])
def test_the_offset_is_how_far_to_the_left_the_road_lies(north_m):
    status = "confirmed" if abs(north_m) < 4 else "shifted"
    for way, left in ((STREET, 1), (STREET[::-1], -1)):
        found = audit(drawn(way), image(moved(STREET, north_m=north_m)))
        assert told(found) == [(0, status, 260)]
        assert found.offset_m == pytest.approx([left * north_m], abs=0.3)


@pytest.mark.parametrize(("north_m", "status"), [(9, "shifted"), (11, "not seen")])
def test_a_road_further_off_than_10_m_is_another_one(north_m, status):
    assert told(audit(drawn(STREET), image(moved(STREET, north_m=north_m)))) == [(0, status, 260)]


def test_a_way_without_a_road_is_not_seen():
    found = audit(drawn(STREET), image(moved(STREET, north_m=60)))
    assert told(found) == [(0, "not seen", 260)]
    assert np.isnan([found.offset_m[0], found.width_m[0], *found.shift_m]).all()
    assert found.ridge_probability == pytest.approx([0])


def test_a_road_that_crosses_is_no_evidence_for_a_way():
    crossing = [[(x, 20), (x, 280)] for x in (80, 150, 220)]
    ways = drawn(STREET, *crossing)
    assert told(audit(ways, image(*crossing, width_m=14)))[0] == (0, "not seen", 260)


def test_the_pixels_of_the_main_road_are_no_evidence_for_a_side_road():
    main, side = [(150, 20), (150, 280)], [(150, 150), (185, 150)]
    found = audit(drawn(main, side), image(main, width_m=16))
    assert told(found) == [(0, "confirmed", 260), (1, "not seen", 35)]


def test_a_gap_between_seen_stretches_goes_on():
    halves = [(20, 150), (120, 150)], [(180, 150), (280, 150)]
    found = audit(drawn(STREET), image(*halves))
    assert [status for _, status, _ in told(found)] == ["confirmed", "not seen", "confirmed"]
    assert found.goes_on.tolist() == [False, True, False]
    assert found.length_m[1] == pytest.approx(60, abs=10)
    assert found.doubt_m[1] == pytest.approx(found.length_m[1] / 2, rel=0.1)


def test_carriageways_that_show_as_one_road_are_measured_from_their_middle():
    ways = [moved(STREET, north_m=north_m) for north_m in (-6, 6)]
    found = audit(drawn(ways[0], ways[1][::-1]), image(*ways, width_m=13))
    assert told(found) == [(0, "confirmed", 260), (1, "confirmed", 260)]
    assert found.offset_m == pytest.approx([0, 0], abs=0.4)


def test_the_road_of_another_way_does_not_attract_one_that_is_not_seen():
    north = moved(STREET, north_m=9)
    found = audit(drawn(STREET, north), image(north, width_m=6))
    assert told(found) == [(0, "not seen", 260), (1, "confirmed", 260)]


def test_a_map_that_is_shifted_as_a_whole_keeps_each_carriageway_on_its_road():
    roads = [moved(STREET, north_m=north_m) for north_m in (0, 12)]
    others = [[(x, 20), (x, 110)] for x in (60, 150, 240)]
    others += [moved(STREET, north_m=north_m) for north_m in (-130, 60, 100)]
    streets = [*roads, *others]
    ways = drawn(*[moved(street, east_m=1, north_m=8) for street in streets])
    found = audit(ways, image(*streets, width_m=7))
    assert found.shift_m == pytest.approx((-1, -8), abs=0.4)
    assert found.offset_m[found.way < 2] == pytest.approx([-8, -8], abs=0.5)


def test_what_lies_outside_of_the_rasters_has_no_data_and_is_not_doubtful():
    found = audit(drawn([(200, 150), (400, 150)]), image([(0, 150), (300, 150)]))
    assert [status for _, status, _ in told(found)] == ["confirmed", "no data"]
    assert np.isnan(found.probability[1])
    assert found.doubt_m[1] == 0


def test_ways_that_touch_no_raster_are_left_out_and_counted():
    far = moved(STREET, east_m=5000)
    found = audit(drawn(far, STREET), image(STREET))
    assert (found.outside, found.ways.columns["row"].tolist()) == (1, [1])


@pytest.mark.parametrize(("value", "status"), [(84, "confirmed"), (78, "not seen")])
def test_a_road_is_seen_from_four_fifths_of_the_threshold_on(value, status):
    road = np.where(image(STREET).road > 0, np.uint8(value), np.uint8(0))
    found = audit(drawn(STREET), Probability(GRID, road, threshold=0.4))
    assert told(found) == [(0, status, 260)]


def test_a_threshold_that_is_given_counts_more_than_that_of_the_raster():
    raster = Probability(GRID, image(STREET).road // 2, threshold=0.9)
    assert told(audit(drawn(STREET), raster))[0][1] == "not seen"
    assert told(audit(drawn(STREET), raster, threshold=0.5))[0][1] == "confirmed"


def test_a_map_in_degrees_is_held_against_the_same_ground():
    ways = drawn(STREET).to_crs(CRS.from_epsg(4326))
    assert told(audit(ways, image(STREET))) == [(0, "confirmed", 260)]


def test_the_common_shift_passes_over_ways_far_off():
    left = np.array([[1.0, 0.0], [0.0, 1.0]] * 20)
    offset_m = left @ (2.0, -3.0)
    offset_m[:6] = 9
    assert common_shift(offset_m, left) == pytest.approx([2, -3], abs=0.1)
