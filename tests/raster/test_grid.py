import numpy as np
import pytest
import shapely
from affine import Affine
from hypothesis import given
from hypothesis import strategies as st
from pyproj import CRS
from rasterio import warp

from roadseg.raster.grid import LOCAL_CRS, Grid, utm_epsg

DEGREE_PIXELS = 2.7e-6
UTM_11 = CRS.from_epsg(32611)
GRIDS = {
    "degrees": Grid(
        CRS.from_epsg(4326),
        Affine(DEGREE_PIXELS, 0, -115.17, 0, -DEGREE_PIXELS, 36.24),
        1300,
        1300,
    ),
    "utm": Grid(UTM_11, Affine(0.3, 0, 660000, 0, -0.3, 4000000), 400, 600),
    "rotated": Grid(
        UTM_11,
        Affine.translation(660000, 4000000) @ Affine.rotation(30) @ Affine.scale(0.5, -0.5),
        400,
        600,
    ),
    "south up": Grid(CRS.from_epsg(32733), Affine(2, 0, 500000, 0, 2, 6000000), 100, 50),
    "mercator": Grid(CRS.from_epsg(3857), Affine(0.6, 0, 13044000, 0, -0.6, 4735000), 512, 512),
    "polar": Grid(CRS.from_epsg(4326), Affine(1e-4, 0, 20, 0, -1e-5, 85), 100, 100),
    "local": Grid(LOCAL_CRS, Affine(0.9, 0, 0, 0, -0.9, 0), 600, 500),
}
ON_EARTH = sorted(GRIDS.keys() - {"local"})


@pytest.fixture(params=GRIDS)
def grid(request):
    return GRIDS[request.param]


places = st.tuples(st.sampled_from(sorted(GRIDS)), st.floats(-10, 1310), st.floats(-10, 1310))


@given(places)
def test_a_pixel_sent_to_the_map_comes_back(place):
    name, row, col = place
    back = GRIDS[name].to_pixel(GRIDS[name].to_map(np.array([[row, col]])))
    assert np.allclose(back, [[row, col]], atol=1e-5)


@given(places)
def test_a_pixel_sent_to_metres_comes_back(place):
    name, row, col = place
    back = GRIDS[name].from_metric(GRIDS[name].to_metric(np.array([[row, col]])))
    assert np.allclose(back, [[row, col]], atol=1e-3)


def test_the_centre_of_the_first_pixel_is_at_one_half():
    centre = GRIDS["utm"].to_map(np.array([[0.5, 0.5]]))
    assert np.allclose(centre, [[660000.15, 3999999.85]])


def test_rows_go_down_and_columns_to_the_right():
    xy = GRIDS["utm"].to_map(np.array([[10, 0], [0, 20]]))
    assert np.allclose(xy, [[660000, 3999997], [660006, 4000000]])


@pytest.mark.parametrize("name", ON_EARTH)
def test_metres_are_what_gdal_finds(name):
    grid = GRIDS[name]
    rows_cols = np.array([[0, 0], [3.5, 7], [grid.height, grid.width]])
    x, y = warp.transform(
        grid.crs.to_wkt(), f"EPSG:{grid.metric_epsg}", *grid.to_map(rows_cols).T.tolist()
    )
    assert np.allclose(grid.to_metric(rows_cols), np.column_stack([x, y]), atol=1e-3)


def test_no_points_stay_no_points(grid):
    nothing = np.zeros((0, 2))
    assert grid.to_metric(nothing).shape == grid.from_metric(nothing).shape == (0, 2)


def test_pixels_of_vegas_are_wider_than_high_on_the_ground():
    along_row, along_col = GRIDS["degrees"].pixel_size_m
    assert along_row == pytest.approx(0.2424, rel=0.005)
    assert along_col == pytest.approx(0.2996, rel=0.005)


def test_pixels_of_a_rotated_grid_keep_their_size():
    assert GRIDS["rotated"].pixel_size_m == pytest.approx((0.5, 0.5), rel=0.001)


def test_pixels_of_web_mercator_are_smaller_on_the_ground():
    shrunk = 0.6 * np.cos(np.radians(GRIDS["mercator"].centre_degrees[1]))
    assert GRIDS["mercator"].pixel_size_m == pytest.approx((shrunk, shrunk), rel=0.01)


def test_a_crop_agrees_with_the_whole(grid):
    inside = np.array([[0, 0], [4.5, 2.25]])
    crop = grid.crop(row=7, col=11, height=20, width=30)
    moved = inside + np.array([7, 11])
    assert np.allclose(crop.to_map(inside), grid.to_map(moved), rtol=1e-12, atol=1e-9)


def test_a_crop_has_the_size_of_its_window():
    crop = GRIDS["utm"].crop(row=7, col=11, height=20, width=30)
    assert (crop.height, crop.width) == (20, 30)


def test_the_footprint_is_the_outline_in_metres():
    footprint = GRIDS["utm"].footprint_m
    assert footprint.bounds == pytest.approx((660000, 4000000 - 120, 660180, 4000000))
    assert footprint.area == pytest.approx(120 * 180)


def test_the_footprint_in_the_own_crs_spans_the_pixels():
    grid = GRIDS["degrees"]
    side = 1300 * DEGREE_PIXELS
    assert grid.footprint.bounds == pytest.approx((-115.17, 36.24 - side, -115.17 + side, 36.24))


def test_the_corners_go_around_the_footprint(grid):
    x, y = np.array(grid.corners_m).T
    assert shapely.Polygon(grid.corners_m).equals(grid.footprint_m)
    assert np.allclose(grid.from_metric(np.column_stack([x, y]))[1], [0, grid.width], atol=1e-3)


def test_a_local_grid_is_in_metres_and_on_no_place_of_earth():
    grid = GRIDS["local"]
    assert grid.is_local
    assert (grid.metric_crs, grid.metric_epsg) == (LOCAL_CRS, 0)
    assert grid.pixel_size_m == pytest.approx((0.9, 0.9))


@pytest.mark.parametrize("name", ON_EARTH)
def test_a_grid_on_earth_is_not_local(name):
    assert not GRIDS[name].is_local


def test_metres_of_a_local_grid_are_its_map():
    places = np.array([[10.0, 20.0]])
    assert GRIDS["local"].to_metric(places).tolist() == [[18.0, -9.0]]


def test_a_local_grid_has_no_degrees():
    with pytest.raises(ValueError, match="without georeference has no place on earth"):
        _ = GRIDS["local"].centre_degrees


@pytest.mark.parametrize("north", [90.00001, 116.0])
def test_a_centre_beyond_the_pole_is_an_error(north):
    grid = Grid(CRS.from_epsg(4326), Affine(1e-9, 0, 36, 0, -1e-9, north), 10, 10)
    with pytest.raises(ValueError, match=r"centre lies at lon 36, lat (90|116): not on earth"):
        _ = grid.centre_degrees


def test_a_centre_at_the_pole_is_on_earth():
    grid = Grid(CRS.from_epsg(4326), Affine(1e-9, 0, 36, 0, -1e-9, 90), 10, 10)
    assert grid.centre_degrees == pytest.approx((36, 90))


@pytest.mark.parametrize(
    ("lon", "lat", "epsg"),
    [
        (-115.17, 36.24, 32611),
        (-180, 1, 32601),
        (179.999, 1, 32660),
        (180, 1, 32601),
        (5.999, 1, 32631),
        (6, 1, 32632),
        (6, 0, 32632),
        (6, -0.001, 32732),
        (6, 83.999, 32632),
        (6, 84, 32661),
        (6, -80, 32732),
        (6, -80.001, 32761),
    ],
)
def test_a_place_has_the_utm_zone_of_the_books(lon, lat, epsg):
    assert utm_epsg(lon, lat) == epsg


def test_the_metric_crs_of_a_scene_is_that_of_its_centre():
    assert GRIDS["south up"].metric_crs == CRS.from_epsg(32733)


@pytest.mark.parametrize("name", ["degrees", "utm", "rotated", "mercator", "local"])
def test_a_resampled_grid_has_pixels_of_the_asked_size_on_the_same_ground(name):
    grid = GRIDS[name].resampled(1.0)
    assert grid.pixel_size_m == pytest.approx((1, 1), rel=0.01)
    assert grid.footprint.equals_exact(GRIDS[name].footprint, tolerance=1e-6)


def test_a_resampled_grid_has_a_pixel_at_least():
    grid = GRIDS["utm"].resampled(1e6)
    assert (grid.height, grid.width) == (1, 1)
