import numpy as np
import pytest
from affine import Affine
from pyproj import CRS
from rasterio.control import GroundControlPoint
from rasterio.rpc import RPC

from roadseg.errors import DataError
from roadseg.raster.grid import LOCAL_CRS, Grid
from roadseg.raster.images import read_facts, read_grid

UTM = CRS.from_epsg(32611)
PLACE = Affine(1, 0, 660000, 0, -1, 4000000)
FOREIGN = 'LOCAL_CS["unnamed",UNIT["metre",1]]'
NOWHERE = {"crs": None, "transform": Affine.identity()}
POINTS = [GroundControlPoint(r, c, 660000 + c, 4000000 - r) for r, c in ((0, 0), (0, 40), (40, 0))]
COEFFICIENTS = RPC(
    height_off=0.0,
    height_scale=1.0,
    lat_off=36.0,
    lat_scale=1.0,
    line_den_coeff=[1.0] * 20,
    line_num_coeff=[1.0] * 20,
    line_off=20.0,
    line_scale=20.0,
    long_off=-115.0,
    long_scale=1.0,
    samp_den_coeff=[1.0] * 20,
    samp_num_coeff=[1.0] * 20,
    samp_off=20.0,
    samp_scale=20.0,
)
ROTATED = Affine.translation(660000, 4000000) @ Affine.rotation(30) @ Affine.scale(0.5, -0.5)


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


def test_the_size_of_pixels_does_not_make_up_for_a_crs(write_raster):
    path = write_raster(crs=None)
    with pytest.raises(DataError, match="no coordinate system found"):
        read_facts(path, gsd_m=0.5)


@pytest.mark.parametrize("crs", [None, FOREIGN], ids=["none", "a local one of others"])
def test_a_raster_without_a_crs_takes_the_given_one(write_raster, crs):
    assert read_facts(write_raster(crs=crs), crs=UTM).grid == Grid(UTM, PLACE, 40, 40)


def test_a_raster_keeps_its_own_crs(write_raster):
    assert read_facts(write_raster(), crs=CRS.from_epsg(4326)).grid.crs == UTM


@pytest.mark.parametrize("transform", [Affine.identity(), Affine.scale(1, -1)])
def test_a_raster_with_a_crs_and_no_geotransform_is_refused(write_raster, transform):
    path = write_raster(transform=transform)
    with pytest.raises(
        DataError, match=r"no geotransform found, so its place in WGS 84 / UTM zone"
    ):
        read_facts(path)


def test_a_photo_is_told_of_masks_and_the_size_of_its_pixels(save_as):
    path = save_as(np.zeros((3, 40, 40), dtype=np.uint8), "a.png", driver="PNG")
    with pytest.raises(
        DataError, match=r"a\.png: no georeference found.*masks of its size.*imagery\.gsd_m"
    ):
        read_facts(path)


@pytest.mark.parametrize("crs", [None, "EPSG:32611"])
def test_a_photo_with_the_size_of_its_pixels_has_a_grid_of_its_own(write_raster, crs):
    grid = read_facts(write_raster(transform=Affine.identity(), crs=crs), gsd_m=0.9).grid
    assert grid == Grid(LOCAL_CRS, Affine(0.9, 0, 0, 0, -0.9, 36), 40, 40)


def test_a_grid_of_its_own_with_pixels_of_1_m_has_a_transform_that_files_keep(write_raster):
    photo = read_facts(write_raster(transform=Affine.identity(), crs=None), gsd_m=1).grid
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
    with pytest.raises(DataError, match=r"control points \(GCPs or RPCs\) only.*gdalwarp -t_srs"):
        read_facts(path, gsd_m=gsd_m)


def test_pixels_without_area_are_refused(write_raster):
    path = write_raster(transform=Affine(1, 1, 660000, 1, 1, 4000000))
    with pytest.raises(DataError, match=r"its geotransform \(1.*gives pixels no area"):
        read_facts(path)


def test_a_place_that_is_not_on_earth_is_refused(write_raster):
    path = write_raster(crs="EPSG:4326", transform=Affine(1e-6, 0, 36, 0, -1e-6, -115))
    with pytest.raises(DataError, match=r"lies at lon 36, lat -115: not on earth; check its geo"):
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
    with pytest.raises(DataError, match=r"as if it reached across a pole|not on earth"):
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
