"""Polygons in which labels are complete, and what of them lies on a scene."""

import geopandas
import numpy as np
import pytest
import shapely

from roadseg.errors import ConfigError, DataError
from roadseg.raster.extents import polygons_in
from roadseg.roads.labels.areas import area_on, read_area, read_area_file
from tests.drawing import UTM, grid_of

GRID = grid_of(100, 100)
LEFT = shapely.box(659000, 3999000, 660050, 4001000)
UPPER = shapely.box(659000, 3999950, 661000, 4001000)
FAR = shapely.box(670000, 3999950, 671000, 4001000)
LINE = shapely.LineString([(660000, 4000000), (660100, 4000000)])


def write(path, *shapes, crs=UTM):
    geopandas.GeoDataFrame(
        {"landuse": ["x"] * len(shapes)}, geometry=list(shapes), crs=crs
    ).to_file(path)
    return path


def on_grid(*areas):
    return area_on(GRID, areas) & GRID.footprint_m


def test_polygons_of_all_files_count(tmp_path):
    left = read_area_file(write(tmp_path / "a.gpkg", LEFT))
    upper = read_area_file(write(tmp_path / "b.gpkg", UPPER, FAR))
    assert on_grid(left).area == pytest.approx(5000)
    assert on_grid(left, upper).area == pytest.approx(7500)


def test_polygons_of_one_name_are_one_and_those_without_have_the_number_of_their_feature(tmp_path):
    table = geopandas.GeoDataFrame(
        {"Name": ["a", None, "a"], "id": [7, 8, 9]}, geometry=[LEFT, UPPER, FAR], crs=UTM
    )
    table.to_file(tmp_path / "a.gpkg")
    parts = read_area(str(tmp_path / "a.gpkg")).by_name()
    assert {name: len(part.polygons) for name, part in parts.items()} == {"a": 2, "polygon 2": 1}


@pytest.mark.parametrize("text", ["a.gpkg", "170,-10,-170,10"])
def test_an_area_of_one_name_or_a_box_is_not_divided(tmp_path, monkeypatch, text):
    monkeypatch.chdir(tmp_path)
    parts = shapely.MultiPolygon([LEFT, FAR])
    geopandas.GeoDataFrame({"id": [1]}, geometry=[parts], crs=UTM).to_file("a.gpkg")
    assert read_area(text).by_name() == {}


def test_polygons_elsewhere_leave_nothing(tmp_path):
    assert area_on(GRID, [read_area_file(write(tmp_path / "a.gpkg", FAR))]).is_empty


def test_a_file_without_polygons_is_refused(tmp_path):
    told = r"a\.gpkg: found no polygon in 1 feature, expected .*; draw them, or remove"
    with pytest.raises(DataError, match=told):
        read_area_file(write(tmp_path / "a.gpkg", LINE))


def test_points_and_lines_where_polygons_touch_are_no_area():
    both = shapely.GeometryCollection([shapely.Point(0, 0), LINE, LEFT])
    assert polygons_in(both).area == LEFT.area
    assert polygons_in(LEFT).area == LEFT.area
    assert polygons_in(shapely.MultiPolygon([LEFT, FAR])).area == LEFT.area + FAR.area
    assert np.isclose(polygons_in(LINE).area, 0)


def test_a_polygon_around_half_of_the_earth_holds_the_scene(tmp_path):
    areas = read_area_file(write(tmp_path / "a.geojson", shapely.box(-179, -80, 1, 85), crs=4326))
    assert on_grid(areas).area == pytest.approx(100 * 100)


def test_an_area_is_a_file_or_a_box(tmp_path):
    drawn = read_area(str(write(tmp_path / "a.gpkg", LEFT)))
    box = read_area(",".join(map(str, drawn.degrees.bounds)))
    assert (drawn.on(GRID) & GRID.footprint_m).area == pytest.approx(5000)
    assert box.degrees.bounds == pytest.approx(drawn.degrees.bounds)
    assert box.on(GRID).buffer(1).contains(drawn.on(GRID) & GRID.footprint_m)


FIJI = shapely.box(2_100_000, 3_800_000, 2_400_000, 3_900_000)  # Crosses the date line.


@pytest.mark.parametrize(("crs", "shape"), [(3460, FIJI), (4326, shapely.box(179, -19, 181, -18))])
def test_an_area_over_the_date_line_is_cut_there(tmp_path, crs, shape):
    area = read_area(str(write(tmp_path / "a.gpkg", shape, crs=crs)))
    assert area.degrees.bounds[::2] == (-180, 180)
    assert shapely.area(area.degrees) < 4


def test_half_a_world_around_greenwich_stays_as_it_is(tmp_path):
    shape = shapely.box(-11e6, -1e6, 11e6, 1e6)
    area = read_area(str(write(tmp_path / "a.gpkg", shape, crs=3857)))
    assert shapely.area(area.degrees) == pytest.approx(197.6 * 17.9, rel=1e-2)


@pytest.mark.parametrize(
    ("shape", "crs", "told"),
    [
        (
            shapely.box(35.6, 139.7, 35.7, 139.8),
            4326,
            r"at x 35.6, y 139.7 of WGS 84, are not on earth; exp",
        ),
        (shapely.Point(8, 49), 4326, r"no layer with lines or polygons \(found a: Point\)"),
        (LINE, UTM, "found no polygon in 1 feature, expected an area to work in; draw it, or give"),
    ],
)
def test_a_file_that_is_no_area_is_refused(tmp_path, shape, crs, told):
    with pytest.raises(DataError, match=told):
        read_area(str(write(tmp_path / "a.geojson", shape, crs=crs)))


NO_BOXES = ("8,49,9", "8,49,9,nan", "9,49,8,50", "49,8,50,99", "8,49,181,50", "1,2,3,4,5")


@pytest.mark.parametrize(
    ("text", "error", "told"),
    [
        *((text, ConfigError, f"{text}: .*minx,miny,maxx,maxy") for text in NO_BOXES),
        *(
            (text, ConfigError, "expected an area: a vector file with polygons, or a b")
            for text in ("", ".", "nowhere", "8;49;9;50")
        ),
        ("no.gpkg", DataError, r"no.gpkg does not exist; expected an area: a vector file"),
    ],
)
def test_a_text_that_is_neither_file_nor_box_is_refused(text, error, told):
    with pytest.raises(error, match=told):
        read_area(text)
