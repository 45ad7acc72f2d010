"""Kilometres of road by class, on the whole map and in the polygons of an area."""

import geopandas as gpd
import numpy as np
import pytest
import shapely
from affine import Affine
from pyproj import CRS

from roadseg.raster.grid import Grid
from roadseg.report.areas import map_areas
from roadseg.report.lengths import RoadLengths, road_lengths
from roadseg.report.scenes import ReportScene, ReportScenes
from roadseg.roads.graph.road_graph import graph_from_lines
from roadseg.roads.speeds import DEFAULT_BINS
from roadseg.system.units import shown_in

UTM = CRS.from_epsg(32611)
WEST, NORTH = 480_000, 3_650_000


def scene(name, classes, *, east_m=0):
    """Give a scene of 2 km in square with roads of 1 km from west to east, 10 m apart."""
    grid = Grid(UTM, Affine(10, 0, WEST + east_m, 0, -10, NORTH), 200, 200)
    lines = [
        shapely.LineString([(WEST + east_m + x, NORTH - 10 * (row + 1)) for x in (500, 1500)])
        for row in range(len(classes))
    ]
    columns = {"highway": np.array(classes, dtype=object)}
    graph = graph_from_lines(np.array(lines, dtype=object), UTM, columns)
    return ReportScene(name, grid, None, None, graph, None)


def lengths_of(*scenes, within=None):
    areas = map_areas([each.grid for each in scenes])
    shown = ReportScenes([*scenes], areas, {}, frozenset(), None, DEFAULT_BINS, ())
    return road_lengths(shown, within)


def write_area(folder, *polygons, crs=4326):
    """Write named boxes, given by their west and east in metres from the scenes' western edge."""
    shapes = [shapely.box(WEST + a, NORTH - 3000, WEST + b, NORTH + 1000) for _, a, b in polygons]
    table = gpd.GeoDataFrame({"Name": [n for n, _, _ in polygons]}, geometry=shapes, crs=UTM)
    table.to_crs(crs).to_file(folder / "area.gpkg")
    return str(folder / "area.gpkg")


def test_classes_come_from_fast_to_slow_and_those_not_known_last():
    lengths = lengths_of(scene("a", ["road", "residential", "primary_link", "primary", None]))
    assert lengths.classes == {"primary": 2.0, "residential": 1.0, "road": 2.0}
    assert list(lengths.classes) == ["primary", "residential", "road"]


def test_roads_are_clipped_to_each_polygon(tmp_path):
    area = write_area(tmp_path, ("West", 0, 750), ("East", 750, 1400), ("Sea", 1800, 1900))
    lengths = lengths_of(scene("a", ["primary", "residential"]), within=area)
    assert lengths.areas["West"] == pytest.approx({"primary": 0.25, "residential": 0.25}, abs=2e-3)
    assert lengths.areas["East"] == pytest.approx({"primary": 0.65, "residential": 0.65}, abs=2e-3)
    assert lengths.areas["Sea"] == {}
    assert lengths.classes == {"primary": 1.0, "residential": 1.0}


def test_an_area_reaches_over_maps_that_are_far_apart(tmp_path):
    far = scene("b", ["primary"], east_m=60_000)
    area = write_area(tmp_path, ("both", 0, 61_000), ("east", 60_000, 62_000))
    lengths = lengths_of(scene("a", ["primary"]), far, within=area)
    assert lengths.areas["both"]["primary"] == pytest.approx(1.5, abs=2e-3)
    assert lengths.areas["east"]["primary"] == pytest.approx(1.0, abs=2e-3)


@pytest.mark.parametrize("names", [("a",), ("a", "a")])
def test_one_polygon_or_one_name_is_no_division(tmp_path, names):
    area = write_area(tmp_path, *((name, 0, 2000) for name in names))
    assert lengths_of(scene("a", ["primary"]), within=area).areas == {}


def test_polygons_without_a_name_are_numbered(tmp_path):
    area = write_area(tmp_path, ("a", 0, 1000), (None, 1000, 2000))
    assert list(lengths_of(scene("a", ["primary"]), within=area).areas) == ["a", "polygon 2"]


def test_the_table_has_a_column_for_each_class_and_a_row_for_each_polygon():
    lengths = RoadLengths({"primary": 2.0, "road": 1.609344}, {"A": {"primary": 0.5}, "B": {}})
    assert str(lengths).splitlines() == [
        "km of road  primary  class not known   all",
        "A              0.50             0.00  0.50",
        "B              0.00             0.00  0.00",
        "whole map      2.00             1.61  3.61",
    ]
    with shown_in("miles"):
        assert str(lengths).splitlines()[-1] == "whole map      1.24             1.00  2.24"


def test_a_table_of_many_polygons_is_cut_and_says_so():
    lengths = RoadLengths({"road": 1.0}, {str(number): {} for number in range(13)})
    assert str(lengths).splitlines()[-1] == "(1 more polygon: see the report)"


def test_roads_of_one_class_need_no_table():
    assert str(RoadLengths({"road": 2.0})) == ""
