"""Kilometres of road by class, on the whole map and in the polygons of an area."""

import numpy as np
import pytest
import shapely
from pyproj import CRS

from roadseg.raster.grid import reproject
from roadseg.roads.graph.road_graph import graph_from_lines
from roadseg.roads.metrics.road_lengths import MappedRoads, RoadLengths, road_lengths
from roadseg.system.units import shown_in

UTM, NEXT_ZONE = CRS.from_epsg(32611), CRS.from_epsg(32612)


def roads(*classes):
    """Give a graph of roads of 1 km from west to east, 10 m apart."""
    lines = [shapely.LineString([(5e5, 10 * y), (5e5 + 1000, 10 * y)]) for y in range(len(classes))]
    columns = {"highway": np.array(classes, dtype=object)} if any(classes) else {}
    return graph_from_lines(np.array(lines, dtype=object), UTM, columns)


def between(west, east):
    """Give a polygon over all roads, from so many metres along them to so many."""
    return shapely.MultiPolygon([shapely.box(5e5 + west, -100, 5e5 + east, 100)])


def measured(*graphs, crs=UTM, **polygons):
    return road_lengths([MappedRoads(crs, graphs, polygons)])


def test_classes_come_from_fast_to_slow_and_those_not_known_last():
    lengths = measured(roads("road", "residential", "primary_link", "primary", None), roads(None))
    assert list(lengths.classes.items()) == [("primary", 2.0), ("residential", 1.0), ("road", 3.0)]


def test_roads_are_clipped_to_each_polygon():
    lengths = measured(roads("primary", "track"), a=between(0, 250), b=between(250, 900))
    assert lengths.areas == {
        "a": {"primary": 0.25, "track": 0.25},
        "b": {"primary": 0.65, "track": 0.65},
    }
    assert lengths.classes == {"primary": 1.0, "track": 1.0}


@pytest.mark.parametrize("polygon", [between(2000, 3000), shapely.MultiPolygon()])
def test_a_polygon_without_roads_has_a_row(polygon):
    assert measured(roads("primary"), a=polygon).areas == {"a": {}}


def test_lengths_are_those_of_the_graphs_whatever_the_map():
    (moved,) = reproject(np.array([between(0, 500)], dtype=object), UTM, NEXT_ZONE)
    lengths = measured(roads("primary"), crs=NEXT_ZONE, a=moved)
    assert lengths.classes == {"primary": 1.0}
    assert lengths.areas["a"]["primary"] == pytest.approx(0.5, abs=0.001)


def test_maps_add_up():
    maps = [MappedRoads(UTM, [roads("primary")], {"a": between(0, end_m)}) for end_m in (100, 200)]
    lengths = road_lengths([*maps, MappedRoads(UTM, [], {"b": between(0, 1)})])
    assert lengths.classes == {"primary": 2.0}
    assert lengths.areas == {"a": {"primary": 0.3}, "b": {}}


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
