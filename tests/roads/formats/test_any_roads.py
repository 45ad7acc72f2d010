import json
from contextlib import nullcontext

import networkx as nx
import numpy as np
import pytest
import shapely
from affine import Affine

from roadseg.errors import ConfigError, DataError
from roadseg.raster.grid import LOCAL_CRS
from roadseg.raster.windows import Window
from roadseg.roads.formats.any_roads import (
    check_nearness,
    common_crs,
    find_placement,
    place_roads,
    read_drawn,
)
from roadseg.roads.formats.files import write_gpkg
from roadseg.roads.formats.pairing import find_sources
from roadseg.roads.graph.road_graph import graph_from_lines
from tests.drawing import LAS_VEGAS as ORIGIN
from tests.drawing import UTM, write_lines

CROSS = [[(0, 0), (100.0004, 0.0004), (200, 0)], [(100.0004, 0.0004), (100, 90)]]


@pytest.fixture
def draw(tmp_path):
    """Give a function that writes lines, metres from a place in Las Vegas, as GeoJSON."""

    def write(lines, name="roads", epsg=32611, **facts):
        return write_lines(tmp_path / f"{name}.geojson", lines, epsg, **facts)

    return write


def read(path, image=None, gsd_m=None):
    (source,) = find_sources(path).values()
    return read_drawn(source, find_placement(image, gsd_m))


def placed(path, **options):
    roads = read(path, **options)
    return place_roads(roads, common_crs(roads, None))


@pytest.mark.parametrize("epsg", [4326, 3857, 32611, 32612])
def test_roads_lie_in_one_place_whatever_the_crs_of_their_file(draw, epsg):
    graph = placed(draw(CROSS, epsg=epsg)).graph
    assert graph.crs == UTM
    assert np.abs(graph.nodes.max(axis=0) - ORIGIN - (200, 90)).max() < 1e-6


def test_lines_are_joined_at_shared_vertices_and_keep_their_coordinates(draw):
    graph = placed(draw(CROSS)).graph
    assert sorted(graph.degree.tolist()) == [1, 1, 1, 3]
    assert (graph.nodes[graph.degree == 3] - ORIGIN).tolist() == [
        pytest.approx(CROSS[1][0], abs=1e-9)
    ]
    assert graph.length_m.sum() == pytest.approx(290, abs=1e-3)


def test_lines_as_drawn_stay_apart(draw):
    side = placed(draw(CROSS))
    assert (len(side.graph.lines), len(side.drawn.lines)) == (3, 2)


def test_every_line_counts_whatever_road_it_is(draw):
    assert len(placed(draw(CROSS, highway="footway", tunnel="yes")).drawn.lines) == 2


def test_roads_of_which_no_speed_is_told_are_driven_at_25_mph(draw):
    side = placed(draw(CROSS))
    assert side.graph.attributes["travel_time_s"].sum() == pytest.approx(290 / 11.176, abs=1e-3)
    assert side.assumed_m == pytest.approx(290, abs=1e-3)


@pytest.fixture
def wkt(tmp_path):
    path = tmp_path / "img1.csv"
    path.write_text('ImageId,WKT_Pix\nimg1,"LINESTRING (0 0, 10 0)"\n')
    return path


@pytest.fixture
def image(write_raster):
    transform = Affine(0.5, 0, ORIGIN[0], 0, -0.5, ORIGIN[1])
    return write_raster(np.eye(20, dtype=np.uint8), name="img1.tif", transform=transform)


def test_lines_in_pixels_have_the_size_that_is_given(wkt):
    side = placed(wkt, gsd_m=0.31)
    assert (side.graph.crs, side.graph.length_m.tolist()) == (LOCAL_CRS, [pytest.approx(3.1)])
    assert side.assumed_m == pytest.approx(3.1)


def test_lines_in_pixels_lie_where_their_image_does(wkt, image):
    graph = placed(wkt, image=image).graph
    assert (graph.nodes - ORIGIN).tolist() == [[0, 0], [5, 0]]


def test_lines_in_pixels_of_nobody_knows_what_are_refused(wkt):
    with pytest.raises(ConfigError, match=r"in pixels; use --image .* --gsd-m"):
        read(wkt)


def test_an_image_of_another_name_is_refused(tmp_path, image):
    path = tmp_path / "two.csv"
    path.write_text("ImageId,WKT_Pix\nimg1,LINESTRING EMPTY\nimg2,LINESTRING EMPTY\n")
    source = find_sources(path)["img2"]
    with pytest.raises(DataError, match=r"none of the 1 images has a matching name \(img1\)"):
        read_drawn(source, find_placement(image, None))


def test_a_raster_is_traced_and_its_pixels_can_be_read(image):
    found = read(image)
    assert found.raster.read_road(Window(0, 0, *found.valid.shape)).max() == 255
    assert found.valid.all()


def shapes(tmp_path, *geometries):
    path = tmp_path / "a.geojson"
    features = [
        {"type": "Feature", "properties": {}, "geometry": json.loads(shapely.to_geojson(shape))}
        for shape in geometries
    ]
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    return path


@pytest.mark.parametrize(
    ("shape", "reason"),
    [
        (shapely.box(0, 0, 1, 1), r"contains only polygons \(1\)"),
        (shapely.Point(0, 0), "found a: Point"),
    ],
)
def test_what_is_no_line_is_refused(tmp_path, shape, reason):
    with pytest.raises(DataError, match=reason):
        read(shapes(tmp_path, shape))


def test_polygons_beside_lines_are_left_out_with_a_warning(tmp_path, caplog):
    path = shapes(tmp_path, shapely.box(0, 0, 1, 1), shapely.LineString([(0, 0), (1e-3, 0)]))
    assert len(read(path).graph.lines) == 1
    assert "left out 1 polygon, expected lines" in caplog.text


@pytest.mark.parametrize("suffix", ["gpkg", "graphml"])
def test_degrees_in_a_metric_crs_are_refused(tmp_path, suffix):
    path = tmp_path / f"roads.{suffix}"
    line = "LINESTRING (8.66 49.4, 8.67 49.41)"
    if suffix == "gpkg":
        write_gpkg(path, graph_from_lines(shapely.from_wkt([line]), UTM, {}))
    else:
        network = nx.Graph(crs="epsg:32611")
        network.add_node(1, x=8.66, y=49.4)
        network.add_node(2, x=8.67, y=49.41)
        network.add_edge(1, 2, geometry=line)
        nx.write_graphml(network, path)
    with pytest.raises(DataError, match="UTM zone 11N, but its coordinates look like degrees"):
        read(path)


def test_roads_without_a_usable_geometry_are_told(draw, caplog):
    path = draw(CROSS)
    whole = json.loads(path.read_text())
    whole["features"][0]["geometry"]["coordinates"][0][0] = "east"
    path.write_text(json.dumps(whole))
    assert len(read(path).graph.lines) == 1
    (told,) = caplog.messages
    assert told == f"{path}: roads that have no usable geometry are left out: 1 null"


def test_metres_among_degrees_are_refused(tmp_path):
    metres = shapely.LineString([ORIGIN, ORIGIN + 100])
    path = shapes(tmp_path, shapely.LineString([(-115.2, 36.1), (-115.1, 36.1)]), metres)
    with pytest.raises(DataError, match="its roads are not on earth, or not near each other"):
        placed(path)


@pytest.mark.parametrize(("west", "east"), [(-115.2, -115.1), (89.9, 90.1)])
def test_latitudes_before_longitudes_are_told_where_that_is_no_place_on_earth(tmp_path, west, east):
    path = shapes(tmp_path, shapely.LineString([(36.1, west), (36.1, east)]))
    with pytest.raises(DataError, match=rf"y {west} to {east} .*; x and y look swapped"):
        placed(path)


def test_pixels_and_places_on_earth_cannot_be_compared(wkt, draw):
    with pytest.raises(DataError, match=r"has no georeference, but .* is in"):
        common_crs(read(wkt, gsd_m=1.0), read(draw(CROSS)))


@pytest.mark.parametrize(("away", "is_refused"), [(1199, False), (1201, True)])
def test_roads_more_than_a_kilometre_apart_are_of_two_places(draw, away, is_refused, caplog):
    sides = [
        place_roads(read(draw(CROSS, name="a")), UTM),
        place_roads(read(draw([[(away, 0), (away, 9)]], name="b")), UTM),
    ]
    if is_refused:
        with pytest.raises(DataError, match=r"do not overlap; they are 1\.0 km apart"):
            check_nearness(*sides, "img1")
    else:
        check_nearness(*sides, "img1")
        assert "999 m apart; are they the same place?" in caplog.text


@pytest.mark.parametrize(
    ("there", "advice"), [((43.7, 7.4), "look swapped"), ((9, 9), "check the CRS")]
)
def test_roads_elsewhere_may_have_their_coordinates_swapped(tmp_path, there, advice):
    lines = [shapely.LineString([place, np.add(place, 0.01)]) for place in ((7.4, 43.7), there)]
    drawn = [read(shapes(tmp_path, line)) for line in lines]
    crs = common_crs(*drawn)
    with pytest.raises(DataError, match=advice):
        check_nearness(*(place_roads(each, crs) for each in drawn), "img1")


def test_sides_without_roads_may_be_anywhere(draw):
    side = place_roads(read(draw(CROSS)), UTM)
    none = place_roads(read(draw([], name="none")), UTM)
    check_nearness(side, none, "img1")


@pytest.mark.parametrize("beyond_m", [1, 1.1])
def test_lines_in_pixels_do_not_lie_on_what_was_traced_without_a_place(tmp_path, beyond_m):
    wkt = tmp_path / "img1.csv"
    wkt.write_text('ImageId,WKT_Pix\nimg1,"LINESTRING (0 0, 0 200)"\n')
    lines = np.array([shapely.LineString([(0, -beyond_m), (0, 100)])], dtype=object)
    write_gpkg(tmp_path / "traced.gpkg", graph_from_lines(lines, LOCAL_CRS))
    sides = [placed(wkt, gsd_m=0.5), placed(tmp_path / "traced.gpkg")]
    with pytest.raises(DataError, match="one counts y down") if beyond_m == 1 else nullcontext():
        check_nearness(*sides, "img1")
