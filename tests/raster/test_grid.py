import numpy as np
import pytest
import shapely
from affine import Affine
from hypothesis import given
from hypothesis import strategies as st
from pyproj import CRS
from rasterio import warp
from rasterio.control import GroundControlPoint
from rasterio.rpc import RPC

from roadseg.errors import DataError
from roadseg.raster.grid import LOCAL_CRS, Grid, utm_epsg
from roadseg.raster.images import read_facts, read_grid
from roadseg.raster.options import ImageryOptions
from tests.drawing import PLACE, UTM

DEGREE_PIXELS = 2.7e-6
FOREIGN = 'LOCAL_CS["unnamed",UNIT["metre",1]]'
NOWHERE = {"crs": None, "transform": Affine.identity()}
POINTS = [GroundControlPoint(r, c, 660000 + c, 4000000 - r) for r, c in ((0, 0), (0, 40), (40, 0))]
COEFFICIENTS = RPC(
    **{
        f"{of}_{what}": 20.0
        for of in ("height", "lat", "line", "long", "samp")
        for what in ("off", "scale")
    },
    **{f"{of}_{part}_coeff": [1.0] * 20 for of in ("line", "samp") for part in ("num", "den")},
)
ROTATED = Affine.translation(660000, 4000000) @ Affine.rotation(30) @ Affine.scale(0.5, -0.5)
GRIDS = {
    "degrees": Grid(
        CRS.from_epsg(4326),
        Affine(DEGREE_PIXELS, 0, -115.17, 0, -DEGREE_PIXELS, 36.24),
        1300,
        1300,
    ),
    "utm": Grid(UTM, Affine(0.3, 0, 660000, 0, -0.3, 4000000), 400, 600),
    "rotated": Grid(UTM, ROTATED, 400, 600),
    "south up": Grid(CRS.from_epsg(32733), Affine(2, 0, 500000, 0, 2, 6000000), 100, 50),
    "mercator": Grid(CRS.from_epsg(3857), Affine(0.6, 0, 13044000, 0, -0.6, 4735000), 512, 512),
    "polar": Grid(CRS.from_epsg(4326), Affine(1e-4, 0, 20, 0, -1e-5, 85), 100, 100),
    "date line": Grid(CRS.from_epsg(4326), Affine(1e-5, 0, 179.999, 0, -1e-5, -16), 100, 200),
    "0 to 360": Grid(CRS.from_epsg(4326), Affine(1e-5, 0, 244.8, 0, -1e-5, 36), 100, 200),
    "local": Grid(LOCAL_CRS, Affine(0.9, 0, 0, 0, -0.9, 0), 600, 500),
}
ON_EARTH = sorted(GRIDS.keys() - {"local"})


@pytest.fixture(params=GRIDS)
def grid(request):
    return GRIDS[request.param]


def test_a_grid_is_moved_by_metres_east_and_north(grid):
    middle = np.array([[grid.height / 2, grid.width / 2]])
    moved = grid.moved(3.0, -2.0).to_metric(middle) - grid.to_metric(middle)
    assert moved[0] == pytest.approx([3, -2], abs=1e-3)


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


def test_rows_go_down_and_columns_to_the_right_and_a_centre_is_at_one_half():
    xy = GRIDS["utm"].to_map(np.array([[10, 0], [0, 20], [0.5, 0.5]]))
    assert np.allclose(xy, [[660000, 3999997], [660006, 4000000], [660000.15, 3999999.85]])


@pytest.mark.parametrize("name", ON_EARTH)
def test_metres_are_what_gdal_finds(name):
    grid = GRIDS[name]
    rows_cols = np.array([[0, 0], [3.5, 7], [grid.height, grid.width]])
    x, y = warp.transform(
        grid.crs.to_wkt(), f"EPSG:{grid.metric_epsg}", *grid.to_map(rows_cols).T.tolist()
    )
    assert np.allclose(grid.to_metric(rows_cols), np.column_stack([x, y]), atol=1e-3)


SHRUNK = 0.6 * np.cos(np.radians(GRIDS["mercator"].centre_degrees[1]))


@pytest.mark.parametrize(
    ("name", "size_m"),
    [("degrees", (0.2424, 0.2996)), ("rotated", (0.5, 0.5)), ("mercator", (SHRUNK, SHRUNK))],
)
def test_pixels_have_their_size_on_the_ground(name, size_m):
    assert GRIDS[name].pixel_size_m == pytest.approx(size_m, rel=0.005)


def test_a_crop_agrees_with_the_whole(grid):
    inside = np.array([[0, 0], [4.5, 2.25]])
    crop = grid.crop(row=7, col=11, height=20, width=30)
    moved = inside + np.array([7, 11])
    assert np.allclose(crop.to_map(inside), grid.to_map(moved), rtol=1e-12, atol=1e-9)


def test_the_footprint_is_the_outline_in_metres_or_in_the_own_crs():
    side = 1300 * DEGREE_PIXELS
    assert GRIDS["utm"].footprint_m.equals(shapely.box(660000, 4000000 - 120, 660180, 4000000))
    assert GRIDS["degrees"].footprint.bounds == pytest.approx(
        (-115.17, 36.24 - side, -115.17 + side, 36.24)
    )


def test_a_local_grid_is_in_metres_and_on_no_place_of_earth():
    grid = GRIDS["local"]
    assert grid.is_local
    assert (grid.metric_crs, grid.metric_epsg) == (LOCAL_CRS, 0)
    assert grid.pixel_size_m == pytest.approx((0.9, 0.9))


@pytest.mark.parametrize("north", [90.00001, 116.0])
def test_a_centre_beyond_the_pole_is_an_error(north):
    grid = Grid(CRS.from_epsg(4326), Affine(1e-9, 0, 36, 0, -1e-9, north), 10, 10)
    with pytest.raises(
        ValueError, match=r"centre is at lon 36, lat (90|116), which is not a valid"
    ):
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


@pytest.mark.parametrize("name", ["degrees", "utm", "rotated", "mercator", "local"])
def test_a_resampled_grid_has_pixels_of_the_asked_size_on_the_same_ground(name):
    grid = GRIDS[name].resampled(1.0)
    assert grid.pixel_size_m == pytest.approx((1, 1), rel=0.01)
    assert grid.footprint.equals_exact(GRIDS[name].footprint, tolerance=1e-6)


def test_a_resampled_grid_has_a_pixel_at_least():
    grid = GRIDS["utm"].resampled(1e6)
    assert (grid.height, grid.width) == (1, 1)


@pytest.mark.parametrize(
    ("crs", "transform"),
    [
        ("EPSG:32611", PLACE),
        ("EPSG:32611", ROTATED),
        ("EPSG:32733", Affine(2, 0, 500000, 0, 2, 6000000)),
        ("EPSG:4326", Affine(2.7e-6, 0, -115.17, 0, -2.7e-6, 36.24)),
        ("EPSG:3857", Affine(0.6, 0, 13044000, 0, -0.6, 4735000)),
    ],
    ids=["utm", "rotated", "south up", "degrees", "mercator"],
)
def test_a_raster_lies_where_it_says(write_raster, crs, transform):
    path = write_raster(crs=crs, transform=transform)
    assert read_grid(path) == Grid(CRS.from_user_input(crs), transform, 40, 40)


@pytest.mark.parametrize("crs", [None, FOREIGN], ids=["none", "a local one of others"])
def test_a_raster_without_a_crs_is_refused_with_both_ways_out(write_raster, crs):
    path = write_raster(crs=crs)
    with pytest.raises(DataError, match=r"gdal_edit\.py -a_srs, or set imagery\.crs"):
        read_facts(path)


@pytest.mark.parametrize("crs", [None, FOREIGN], ids=["none", "a local one of others"])
def test_a_raster_without_a_crs_takes_the_given_one(write_raster, crs):
    assert read_facts(write_raster(crs=crs), ImageryOptions(crs=UTM.to_string())).grid == Grid(
        UTM, PLACE, 40, 40
    )


def test_a_raster_keeps_its_own_crs(write_raster):
    assert read_facts(write_raster(), ImageryOptions(crs="EPSG:4326")).grid.crs == UTM


@pytest.mark.parametrize("transform", [Affine.identity(), Affine.scale(1, -1)])
def test_a_raster_with_a_crs_and_no_geotransform_is_refused(write_raster, transform):
    path = write_raster(transform=transform)
    with pytest.raises(DataError, match=r"no georeference found .*imagery\.gsd_m"):
        read_facts(path)


@pytest.mark.parametrize("crs", [None, "EPSG:32611"])
def test_a_photo_with_the_size_of_its_pixels_has_a_grid_of_its_own(write_raster, crs):
    grid = read_facts(
        write_raster(transform=Affine.identity(), crs=crs), ImageryOptions(gsd_m=0.9)
    ).grid
    assert grid == Grid(LOCAL_CRS, Affine(0.9, 0, 0, 0, -0.9, 36), 40, 40)


def test_a_grid_of_its_own_with_pixels_of_1_m_has_a_transform_that_files_keep(write_raster):
    photo = read_facts(
        write_raster(transform=Affine.identity(), crs=None), ImageryOptions(gsd_m=1)
    ).grid
    path = write_raster(transform=photo.transform, crs=LOCAL_CRS.to_wkt())
    assert read_grid(path) == photo


def test_what_was_written_on_a_grid_of_its_own_comes_back_there(write_raster):
    place = Affine(0.9, 0, 0, 0, -0.9, 0)
    path = write_raster(crs=LOCAL_CRS.to_wkt(), transform=place)
    assert read_facts(path).grid == read_grid(path, gsd_m=7) == Grid(LOCAL_CRS, place, 40, 40)


@pytest.mark.parametrize(
    "points", [{"gcps": POINTS, "crs": "EPSG:32611"}, {"rpcs": COEFFICIENTS}], ids=["gcps", "rpcs"]
)
@pytest.mark.parametrize("gsd_m", [None, 0.5])
def test_a_raster_with_control_points_only_is_to_be_warped_first(write_raster, points, gsd_m):
    path = write_raster(**NOWHERE | points)
    with pytest.raises(
        DataError, match=r"only by control points \(GCPs or RPCs\).*gdalwarp -t_srs"
    ):
        read_facts(path, ImageryOptions(gsd_m=gsd_m))


def test_pixels_without_area_are_refused(write_raster):
    path = write_raster(transform=Affine(1, 1, 660000, 1, 1, 4000000))
    with pytest.raises(DataError, match=r"its geotransform \(1.*leaves the pixels without area"):
        read_facts(path)


def test_a_place_that_is_not_on_earth_is_refused(write_raster):
    path = write_raster(crs="EPSG:4326", transform=Affine(1e-6, 0, 36, 0, -1e-6, -115))
    with pytest.raises(
        DataError, match=r"is at lon 36, lat -115, which is not a valid position; check its geo"
    ):
        read_facts(path)


@pytest.mark.parametrize(
    ("epsg", "transform"),
    [
        (4326, Affine(1e-5, 0, 0, 0, -1e-5, 90.0002)),
        (4326, Affine(1, 0, 0, 0, -1, 91)),
        (4326, Affine(1e-5, 0, 540, 0, -1e-5, 0)),
        (32611, Affine(1, 0, 660_000, 0, -1, -4e9)),
    ],
    ids=["a pole as its centre", "beyond a pole", "around the earth", "far from its zone"],
)
def test_a_raster_that_reaches_beyond_the_earth_is_refused(write_raster, epsg, transform):
    path = write_raster(crs=f"EPSG:{epsg}", transform=transform)
    with pytest.raises(DataError, match=r"it may cross a pole|not a valid position"):
        read_grid(path)


@pytest.mark.parametrize(
    ("epsg", "transform"),
    [
        (3031, Affine(1, 0, -20, 0, -1, 20)),
        (3995, Affine(1, 0, -20, 0, -1, 20)),
        (4326, Affine(1e-5, 0, 179.9998, 0, -1e-5, 0)),
    ],
    ids=["south pole", "north pole", "date line"],
)
def test_poles_and_the_date_line_are_places_on_earth(write_raster, epsg, transform):
    path = write_raster(crs=f"EPSG:{epsg}", transform=transform)
    assert read_grid(path).transform == transform
