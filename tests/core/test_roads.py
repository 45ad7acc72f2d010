import math

import numpy as np
import pytest
import shapely
from affine import Affine
from pyproj import CRS

from roadseg.core.grid import DEGREES, Grid
from roadseg.core.roads import Roads, clean_lines, extent_degrees, reproject, roads_on

UTM = CRS.from_epsg(32611)
GRID = Grid(UTM, Affine(1, 0, 660000, 0, -1, 4000000), 100, 100)
LINE = "LINESTRING (0 0, 3 4)"
OTHER = "LINESTRING (9 9, 9 8)"


def clean(*texts):
    geometries = [shapely.from_wkt(text) if text else None for text in texts]
    lines, owner, dropped = clean_lines(np.array(geometries, dtype=object))
    return [line.wkt for line in lines], owner.tolist(), dict(dropped)


def roads_at(*lines, crs=UTM):
    shapes = np.array([shapely.LineString(line) for line in lines], dtype=object)
    speeds = np.arange(1.0, len(lines) + 1)
    return Roads(crs, shapes, speeds, np.full(len(lines), "speed_mph"))


def test_lines_are_kept_as_they_are():
    assert clean(LINE, OTHER) == ([LINE, OTHER], [0, 1], {})


def test_a_multi_part_line_is_taken_apart():
    assert clean(OTHER, "MULTILINESTRING ((0 0, 3 4), (9 9, 9 8))") == (
        [OTHER, LINE, OTHER],
        [0, 1, 1],
        {},
    )


def test_lines_are_taken_out_of_nested_collections():
    nested = f"GEOMETRYCOLLECTION (GEOMETRYCOLLECTION ({LINE}), MULTIPOINT ((1 1), (2 2)))"
    assert clean(nested, OTHER) == ([LINE, OTHER], [0, 1], {"not a line": 2})


def test_heights_are_dropped():
    assert clean("LINESTRING Z (0 0 7, 3 4 7)") == ([LINE], [0], {})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "null"),
        ("LINESTRING EMPTY", "empty"),
        ("MULTILINESTRING EMPTY", "empty"),
        ("GEOMETRYCOLLECTION EMPTY", "empty"),
        ("POINT EMPTY", "empty"),
        ("POINT (1 1)", "not a line"),
        ("POLYGON ((0 0, 1 0, 1 1, 0 0))", "not a line"),
        ("LINESTRING (1 1, 1 1)", "zero length"),
    ],
)
def test_what_is_no_line_is_counted_by_reason(text, reason):
    assert clean(LINE, text, OTHER) == ([LINE, OTHER], [0, 2], {reason: 1})


@pytest.mark.parametrize("broken", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_line_with_a_coordinate_that_is_no_number_is_left_out(broken, place):
    xy = np.array([[0, 0], [1, 1], [2, 0]], dtype=float)
    xy[place, 1] = broken
    with np.errstate(invalid="ignore"):
        line = shapely.linestrings(xy)
    lines, _, dropped = clean_lines(np.array([line], dtype=object))
    assert (len(lines), dict(dropped)) == (0, {"not finite": 1})


def test_empty_parts_beside_a_multi_part_line_are_counted_once():
    assert clean("MULTILINESTRING ((0 0, 3 4))", "LINESTRING EMPTY")[2] == {"empty": 1}


def test_a_file_without_features_has_no_lines():
    assert clean() == ([], [], {})


@pytest.mark.parametrize(("beside_m", "kept"), [(-1, 1), (1.99, 1), (2.01, 0), (5000, 0)])
def test_a_road_counts_when_it_comes_within_the_margin(beside_m, kept):
    x = 660100 + beside_m
    near = roads_on(GRID, roads_at([(x, 4000000), (x, 3999900)]), margin_m=2)
    assert len(near.lines) == kept


def test_a_road_that_only_its_box_brings_near_is_left_out():
    around = [(659000, 3999950), (660050, 4001000)]
    assert len(roads_on(GRID, roads_at(around), margin_m=2).lines) == 0


def test_roads_on_a_scene_come_in_its_metric_crs():
    line = [(660010, 3999990), (660090, 3999910)]
    near = roads_on(GRID, roads_at(line).to_crs(DEGREES), margin_m=2)
    assert near.crs == UTM
    assert np.allclose(shapely.get_coordinates(near.lines), line, atol=1e-3)


def test_roads_keep_their_speeds_when_some_are_left_out():
    here, there = [(660010, 3999990), (660090, 3999910)], [(0, 0), (1, 1)]
    assert roads_on(GRID, roads_at(there, here, there), margin_m=2).speed_mph.tolist() == [2]


def test_no_roads_lie_on_no_scene():
    assert len(roads_on(GRID, roads_at(), margin_m=2).lines) == 0


def test_roads_sent_to_degrees_come_back():
    roads = roads_at([(660010, 3999990), (660090, 3999910)])
    back = roads.to_crs(DEGREES).to_crs(UTM)
    assert shapely.equals_exact(back.lines, roads.lines, tolerance=1e-6).all()


def test_reprojected_points_are_x_before_y():
    points = np.array([shapely.Point(500000, 0)], dtype=object)
    (there,) = reproject(points, UTM, DEGREES)
    assert (there.x, there.y) == (pytest.approx(-117), pytest.approx(0, abs=1e-9))


def test_an_extent_is_told_in_degrees():
    roads = roads_at([(500000, 0), (500000, 100000)])
    assert extent_degrees(roads.lines, UTM) == "lon -117.0000 to -117.0000, lat 0.0000 to 0.9047"
