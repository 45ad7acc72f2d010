import math

import numpy as np
import pytest
import shapely
from affine import Affine
from pyproj import CRS

from roadseg.raster.grid import DEGREES, Grid
from roadseg.roads.labels.roads import (
    clean_shapes,
    drop_duplicates,
    extent_degrees,
    roads_on,
    swap_hint,
)
from tests.drawing import UTM, grid_of, labels_of

GRID = grid_of(100, 100)
ACROSS = [(660010, 3999990), (660090, 3999910)]
LINE = "LINESTRING (0 0, 3 4)"
OTHER = "LINESTRING (9 9, 9 8)"
SQUARE = "POLYGON ((0 0, 0 2, 2 2, 2 0, 0 0))"
BOW_TIE = "POLYGON ((0 0, 2 2, 2 0, 0 2, 0 0))"
FLAT = "POLYGON ((0 0, 1 1, 2 2, 0 0))"


def clean(*texts):
    geometries = [shapely.from_wkt(text) if text else None for text in texts]
    found = clean_shapes(np.array(geometries, dtype=object))
    return [shape.wkt for shape in found.shapes], found.owner.tolist(), dict(found.dropped)


def roads_of(*shapes, crs=UTM, speeds=None, widths=4.0):
    many = [shapely.from_wkt(s) if isinstance(s, str) else s for s in shapes]
    speeds = np.arange(1.0, len(many) + 1) if speeds is None else speeds
    return labels_of(many, crs=crs, speeds_mph=speeds, widths_m=widths)


def roads_at(*lines, **options):
    return roads_of(*map(shapely.LineString, lines), **options)


def touching(grid, roads):
    return roads_on(grid, roads)[1].tolist()


POINTS = "MULTIPOINT ((1 1), (2 2))"
KNOT = "LINESTRING (0 0, 2 2, 2 0, 0 2)"
TRIANGLE = "POLYGON ((5 5, 5 6, 6 6, 5 5))"


@pytest.mark.parametrize(
    ("texts", "shapes", "owner", "dropped"),
    [
        ([], [], [], {}),
        ([LINE, OTHER], [LINE, OTHER], [0, 1], {}),
        ([KNOT], [KNOT], [0], {}),
        ([SQUARE, LINE], [SQUARE, LINE], [0, 1], {}),
        ([OTHER, "MULTILINESTRING ((0 0, 3 4), (9 9, 9 8))"], [OTHER, LINE, OTHER], [0, 1, 1], {}),
        (
            ["MULTIPOLYGON (((0 0, 0 2, 2 2, 2 0, 0 0)), ((5 5, 5 6, 6 6, 5 5)))"],
            [SQUARE, TRIANGLE],
            [0, 0],
            {},
        ),
        (
            [f"GEOMETRYCOLLECTION (GEOMETRYCOLLECTION ({LINE}), {POINTS}, {SQUARE})", OTHER],
            [LINE, SQUARE, OTHER],
            [0, 0, 1],
            {"a point": 2},
        ),
        ([OTHER, "LINESTRING Z (0 0 7, 3 4 7)"], [OTHER, LINE], [0, 1], {}),
        ([OTHER, "LINESTRING M (0 0 7, 3 4 7)"], [OTHER, LINE], [0, 1], {}),
        ([OTHER, "LINESTRING ZM (0 0 7 8, 3 4 7 8)"], [OTHER, LINE], [0, 1], {}),
        (["MULTILINESTRING ((0 0, 3 4))", "LINESTRING EMPTY"], [LINE], [0], {"empty": 1}),
    ],
    ids=[
        *("nothing", "lines", "line that crosses itself", "polygon and line", "multi-part line"),
        *("multi-part polygon", "nested", "heights", "measures", "both", "empty part"),
    ],
)
def test_shapes_are_taken_apart(texts, shapes, owner, dropped):
    assert clean(*texts) == (shapes, owner, dropped)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "null"),
        ("LINESTRING EMPTY", "empty"),
        ("MULTILINESTRING EMPTY", "empty"),
        ("GEOMETRYCOLLECTION EMPTY", "empty"),
        ("POINT EMPTY", "empty"),
        ("POLYGON EMPTY", "empty"),
        ("POINT (1 1)", "a point"),
        ("LINESTRING (1 1, 1 1)", "zero length"),
        ("POLYGON ((1 1, 1 1, 1 1, 1 1))", "zero area"),
        (FLAT, "zero area"),
    ],
)
def test_what_is_no_road_is_counted_by_reason(text, reason):
    assert clean(LINE, text, OTHER) == ([LINE, OTHER], [0, 2], {reason: 1})


@pytest.mark.parametrize("broken", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    ("make", "place"),
    [(shapely.linestrings, 0), (shapely.linestrings, 1), (shapely.polygons, 1)],
    ids=["first", "line", "polygon"],
)
def test_a_shape_with_a_coordinate_that_is_no_number_is_left_out(make, broken, place):
    xy = np.array([[0, 0], [1, 1], [2, 0], [0, 0]], dtype=float)
    xy[place, 1] = broken
    with np.errstate(invalid="ignore"):
        shape = make(xy)
    found = clean_shapes(np.array([shape], dtype=object))
    assert (len(found.shapes), dict(found.dropped)) == (0, {"not finite": 1})


def test_an_invalid_polygon_is_repaired_and_counted():
    found = clean_shapes(shapely.from_wkt(np.array([LINE, BOW_TIE, OTHER])))
    assert shapely.is_valid(found.shapes).all()
    assert shapely.area(found.shapes).tolist() == [0, 1, 1, 0]
    assert (found.owner.tolist(), found.repaired, found.dropped) == ([0, 1, 1, 2], 1, {})


def test_of_equal_roads_the_fastest_is_kept():
    roads = roads_of(LINE, OTHER, LINE, LINE, speeds=[20, 5, 45, 30], widths=[8.0, 4.0, 4.0, 6.0])
    left, kept = drop_duplicates(roads)
    assert (left.speed_mph.tolist(), kept.tolist()) == ([5, 45], [False, True, True, False])


def test_of_equally_fast_roads_the_widest_is_kept():
    left, _ = drop_duplicates(roads_of(LINE, LINE, LINE, speeds=[20] * 3, widths=[4.0, 8.0, 6.0]))
    assert left.width_m.tolist() == [8]


@pytest.mark.parametrize(
    ("first", "second", "left"),
    [
        (LINE, "LINESTRING (3 4, 0 0)", 1),
        (LINE, "LINESTRING (0 0, 3 4.000001)", 2),
        ("LINESTRING (0 0, 1 2, 2 0)", "LINESTRING (0 0, 2 0, 1 2)", 2),  # in the same box
        (SQUARE, "POLYGON ((2 0, 2 2, 0 2, 0 0, 2 0))", 1),
        (SQUARE, "LINESTRING (0 0, 0 2, 2 2, 2 0, 0 0)", 2),
    ],
    ids=["reversed", "moved", "turned", "reversed ring", "line and area"],
)
def test_roads_are_equal_whichever_way_they_are_drawn(first, second, left):
    roads, kept = drop_duplicates(roads_of(first, second))
    assert (len(roads.shapes), kept.sum()) == (left, left)


@pytest.mark.parametrize("width_m", [4, 10])
@pytest.mark.parametrize(("gap_m", "found"), [(-0.01, [0]), (0.01, [])])
def test_a_line_touches_a_scene_with_half_its_width(width_m, gap_m, found):
    x = 660100 + width_m / 2 + gap_m
    line = roads_at([(x, 4000000), (x, 3999900)], widths=float(width_m))
    assert touching(GRID, line) == found


@pytest.mark.parametrize(("gap_m", "found"), [(-0.01, [0]), (0.01, [])])
def test_a_polygon_touches_a_scene_with_its_edge(gap_m, found):
    west = 660100 + gap_m
    area = shapely.box(west, 3999950, west + 50, 3999960)
    assert touching(GRID, roads_of(area, widths=4.0)) == found


BESIDE_IT = [[(660100 + beside, 4000000), (660100 + beside, 3999900)] for beside in (3, 3, 8)]


@pytest.mark.parametrize(
    ("roads", "found"),
    [
        (roads_at(), []),
        (roads_at(*BESIDE_IT, widths=[4.0, 7.0, 10.0]), [1]),
        (roads_at([(659000, 3999950), (660050, 4001000)]), []),
        (roads_of(shapely.box(6e5, 3.9e6, 7e5, 4.1e6)), [0]),
        *(
            (roads_at([(5e5, 5e5), (6e5, 6e5)], crs=CRS.from_epsg(epsg)), [])
            for epsg in (32633, 2154, 3031, 27700, 3857, 32711)
        ),
    ],
    ids=[
        *("none", "each of its own width", "near by its box only", "a polygon around the scene"),
        *(f"of a distant CRS, {epsg}" for epsg in (32633, 2154, 3031, 27700, 3857, 32711)),
    ],
)
def test_roads_that_reach_a_scene_are_found(roads, found):
    assert touching(GRID, roads) == found


def test_roads_on_a_scene_come_in_its_metric_crs():
    near, _ = roads_on(GRID, roads_at(ACROSS).to_crs(DEGREES))
    assert near.crs == UTM
    assert np.allclose(shapely.get_coordinates(near.shapes), ACROSS, atol=1e-3)


def test_a_long_side_of_a_scene_bends_with_its_crs():
    wide = Grid(DEGREES, Affine(0.01, 0, -118.5, 0, -0.01, 61), 100, 300)  # 160 km at 60 N
    on_the_edge = roads_at([(-117.01, 60.0001), (-116.99, 60.0001)], crs=DEGREES)
    assert touching(wide, on_the_edge) == [0]
    assert shapely.distance(wide.footprint_m, on_the_edge.to_crs(UTM).shapes)[0] > 500


@pytest.mark.parametrize("place", [(0, 1000), (1e9, 1e9), (-117, 89.9)])
def test_roads_at_no_place_on_earth_touch_nothing(place):
    nowhere = [place, (place[0] + 1, place[1] + 1)]
    here = roads_at(ACROSS).to_crs(DEGREES).shapes[0]
    assert touching(GRID, roads_of(shapely.LineString(nowhere), here, crs=DEGREES)) == [1]


@pytest.mark.parametrize("lon", [179.955, 179.999, -179.999, 180.01])
def test_roads_on_both_sides_of_the_antimeridian_touch_a_scene_that_crosses_it(lon):
    grid = Grid(DEGREES, Affine(1e-4, 0, 179.95, 0, -1e-4, -16), 1000, 1000)
    road = roads_at([(lon, -16.05), (lon + 0.001, -16.06)], crs=DEGREES)
    assert touching(grid, road) == [0]


@pytest.mark.parametrize(
    ("there", "is_likely"),
    [((49, 8, 49.5, 8.5), True), ((49, 9, 50, 10), False), ((5, 5, 60, 60), False)],
)
def test_boxes_that_meet_with_x_and_y_swapped_are_told(there, is_likely):
    assert ("look swapped" in swap_hint((8.2, 49.2, 8.4, 49.4), there)) == is_likely


@pytest.mark.parametrize(
    ("line", "crs", "told"),
    [
        (
            [(36.2, -115.5), (36.3, -115)],
            DEGREES,
            "x 36.2 to 36.3, y -115.5 to -115 (not a valid position",
        ),
        ([(660000, 4e6), (660000.5, 4e6)], DEGREES, "x 660000 to 660000.5, y 4000000 to 4000000"),
        (
            [(-115, 36), (1e12, 4e6)],
            UTM,
            "x -115 to 1e+12, y 36 to 4000000 (not a valid position in WGS",
        ),
    ],
)
def test_an_extent_beyond_the_earth_is_told_as_it_is(line, crs, told):
    assert extent_degrees(roads_at(line).shapes, crs).startswith(told)


def test_nothing_has_no_extent():
    assert extent_degrees(roads_at().shapes, UTM) == "no place"
