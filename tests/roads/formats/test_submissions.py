import csv

import numpy as np
import pytest
import shapely
from affine import Affine
from pyproj import CRS

from roadseg.raster.grid import LOCAL_CRS, Grid
from roadseg.roads.formats.spacenet_csv import read_wkt_csv, write_submission
from roadseg.roads.graph.road_graph import take_edges

UTM = CRS.from_epsg(32631)
GRID = Grid(UTM, Affine(0.5, 0, 430_000, 0, -0.5, 4_580_500), 1000, 1000)


@pytest.fixture
def parse(tmp_path):
    """Give a function that writes scenes and parses them as SpaceNet describes the format.

    A CSV with a header; ImageId, WKT_Pix, length_m, travel_time_s in each row; LINESTRING in
    pixels, or LINESTRING EMPTY with zeros as the only row of an image without roads.
    """

    def write_and_parse(*scenes):
        write_submission(tmp_path / "a.csv", scenes)
        with (tmp_path / "a.csv").open(newline="", encoding="utf-8") as file:
            header, *rows = csv.reader(file)
        assert header == ["ImageId", "WKT_Pix", "length_m", "travel_time_s"]
        return [
            (image, shapely.from_wkt(wkt), float(length), float(seconds))
            for image, wkt, length, seconds in rows
        ]

    return write_and_parse


def test_every_edge_is_a_row_with_its_length_and_seconds(parse, graph):
    rows = parse(("scene 1.v2", graph, GRID))
    assert {image for image, *_ in rows} == {"scene 1.v2"}
    assert all(line.geom_type == "LineString" and line.is_valid for _, line, *_ in rows)
    lengths = [length for *_, length, _ in rows]
    assert lengths == pytest.approx(graph.length_m, abs=0.0005)
    expected = graph.attributes["travel_time_s"]
    assert [seconds for *_, seconds in rows] == pytest.approx(expected, abs=0.0005)


def test_lines_are_in_pixels_with_y_down(parse, graph):
    (_, line, *_), *_ = parse(("a", graph, GRID))
    assert list(line.coords) == [(0.2, 998.6), (600.2, 998.6)]


def test_an_image_without_roads_is_one_row(parse, graph):
    nothing = take_edges(graph, np.zeros(0, dtype=int))
    ((image, line, length, seconds),) = parse(("a", nothing, GRID))
    assert (image, line.wkt, length, seconds) == ("a", "LINESTRING EMPTY", 0, 0)


@pytest.mark.parametrize("crs", [UTM, CRS.from_epsg(4326), CRS.from_epsg(3857)])
def test_our_reader_gives_the_same_graph_back(tmp_path, graph, crs):
    lon_lat = Affine(3e-6, 0, 2.16, 0, -3e-6, 41.38)
    web = Affine(0.4, 0, 240_300, 0, -0.4, 5_071_000)
    place = {4326: lon_lat, 3857: web}.get(crs.to_epsg(), GRID.transform)
    grid = Grid(crs, place, 4000, 4000)
    write_submission(tmp_path / "a.csv", [("a", graph, grid)])
    back = read_wkt_csv(tmp_path / "a.csv").graph("a", grid)
    assert back.ends.tolist() == graph.ends.tolist()
    assert shapely.equals_exact(back.lines, graph.lines, tolerance=0.001).all()
    assert back.attributes["travel_time_s"] == pytest.approx(
        graph.attributes["travel_time_s"], abs=0.001
    )


def test_a_scene_without_place_on_earth_has_pixels_as_well(parse, local):
    grid = Grid(LOCAL_CRS, Affine(0.5, 0, 0, 0, -0.5, 0), 2000, 2000)
    (_, line, length, _), *_ = parse(("a", local, grid))
    assert (list(line.coords), length) == ([(0.25, 1200), (600.25, 1200)], 300)
