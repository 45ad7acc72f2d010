import numpy as np
import pytest
import rasterio
from affine import Affine
from pyproj import CRS
from rasterio.enums import ColorInterp

from roadseg.core.grid import Grid
from roadseg.errors import DataError, RoadsegError
from roadseg.io.rasters import (
    CONTENT_TAG,
    SPEED_BINS,
    read_facts,
    read_mask,
    read_sample,
    read_valid,
    read_window,
    write_mask,
)

UTM = CRS.from_epsg(32611)
LOCAL = 'LOCAL_CS["unnamed",UNIT["metre",1]]'
PLACE = Affine(1, 0, 660000, 0, -1, 4000000)
GRID = Grid(UTM, PLACE, 20, 30)
MASK = (np.arange(600).reshape(20, 30) % 9).clip(0, 7).astype(np.uint8)


@pytest.fixture
def write(tmp_path):
    """Give a function that writes a raster whose pixels rise from 0."""

    def make(*, bands=3, size=20, dtype="uint8", transparent=False, **profile):
        values = np.arange(bands * size * size).reshape(bands, size, size) % 199
        options = {"crs": "EPSG:32611", "transform": PLACE} | profile
        path = tmp_path / "scene.tif"
        with rasterio.open(
            path, "w", driver="GTiff", height=size, width=size, count=bands, dtype=dtype, **options
        ) as target:
            if transparent:
                target.colorinterp = [*target.colorinterp[:-1], ColorInterp.alpha]
            target.write(values.astype(dtype))
        return path

    return make


def test_facts_say_what_a_raster_is(write):
    facts = read_facts(write(dtype="uint16"))
    assert facts.grid == Grid(UTM, PLACE, 20, 20)
    assert (facts.bands, facts.dtype, facts.names) == ((1, 2, 3), "uint16", ("", "", ""))


def test_an_alpha_band_is_no_band_of_the_image(write):
    assert read_facts(write(bands=4, transparent=True)).bands == (1, 2, 3)


def test_bands_can_be_chosen_in_any_order(write):
    path = write(bands=4)
    assert read_facts(path, bands=(4, 1)).bands == (4, 1)
    values, _ = read_window(path, (0, 0, 1, 2), (4, 1))
    assert values.tolist() == [[[6, 7]], [[0, 1]]]


def test_names_of_bands_are_read(write):
    path = write()
    with rasterio.open(path, "r+") as source:
        source.descriptions = ("red", "green", "")
    assert read_facts(path, bands=(2, 3)).names == ("green", "")


@pytest.mark.parametrize("band", [1, 3])
def test_the_first_and_the_last_band_can_be_chosen(write, band):
    assert read_facts(write(), bands=(band,)).bands == (band,)


@pytest.mark.parametrize("band", [0, 4])
def test_a_band_that_is_not_there_is_named(write, band):
    with pytest.raises(DataError, match=f"has bands 1 to 3, expected a band {band} as well"):
        read_facts(write(), bands=(band,))


@pytest.mark.parametrize("crs", [None, LOCAL], ids=["none", "local"])
def test_a_raster_without_a_place_on_earth_is_refused(write, crs):
    with pytest.raises(DataError, match=r"no coordinate system found, .* or set imagery\.crs"):
        read_facts(write(crs=crs))


@pytest.mark.parametrize("crs", [None, LOCAL], ids=["none", "local"])
def test_a_raster_without_a_crs_takes_the_given_one(write, crs):
    assert read_facts(write(crs=crs), crs=UTM).grid.crs == UTM


def test_a_raster_keeps_its_own_crs(write):
    assert read_facts(write(), crs=CRS.from_epsg(4326)).grid.crs == UTM


@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
def test_a_raster_without_a_geotransform_is_refused(write):
    path = write(transform=Affine.identity())
    with pytest.raises(DataError, match="no geotransform found"):
        read_facts(path)


@pytest.mark.parametrize("content", [b"", b"<html>not found</html>", b"II*\x00\x08\x00\x00\x00"])
def test_a_file_that_is_no_raster_is_refused(tmp_path, content):
    (tmp_path / "a.tif").write_bytes(content)
    with pytest.raises(DataError, match=r"a\.tif: not a readable raster \(.*\); replace it") as bad:
        read_facts(tmp_path / "a.tif")
    assert "\n" not in str(bad.value)


def test_a_missing_raster_is_named(tmp_path):
    with pytest.raises(DataError, match=r"a\.tif does not exist"):
        read_facts(tmp_path / "a.tif")


@pytest.mark.parametrize(
    "read",
    [
        lambda path: read_window(path, (290, 0, 10, 10), (1,)),
        lambda path: read_sample(path, (1,), side=100),
        read_mask,
    ],
    ids=["window", "sample", "mask"],
)
def test_a_raster_cut_short_is_refused_when_its_pixels_are_read(write, read):
    path = write(bands=1, size=300)
    path.write_bytes(path.read_bytes()[:50_000])
    with pytest.raises(DataError, match=r"scene\.tif: not a readable raster"):
        read(path)


def test_a_window_holds_its_pixels(write):
    values, valid = read_window(write(bands=1), (2, 5, 1, 3), (1,))
    assert values.tolist() == [[[45, 46, 47]]]
    assert valid.tolist() == [[True] * 3]


def test_nodata_is_not_valid(write):
    path = write(bands=1, nodata=0)
    assert read_window(path, (0, 0, 1, 2), (1,))[1].tolist() == [[False, True]]
    assert (~read_valid(path)).sum() == 3


def test_transparent_pixels_are_not_valid(write):
    path = write(bands=2, size=10, transparent=True)
    with rasterio.open(path) as source:
        alpha = source.read(2)
    assert np.array_equal(read_valid(path), alpha > 0)
    assert (alpha == 0).any()


@pytest.mark.parametrize(
    ("side", "shape"), [(19, (1, 19, 19)), (20, (1, 20, 20)), (21, (1, 20, 20))]
)
def test_a_sample_is_no_larger_than_asked_nor_than_the_scene(write, side, shape):
    values, valid = read_sample(write(bands=1), (1,), side=side)
    assert values.shape == shape
    assert valid.shape == shape[1:]


def test_a_scene_seen_with_larger_pixels_shows_their_mean(write):
    path = write(bands=1)
    grid = read_facts(path, gsd_m=2).grid
    values, valid = read_window(path, (3, 4, 2, 2), (1,), grid)
    whole, _ = read_window(path, (6, 8, 4, 4), (1,))
    assert np.allclose(values[0], whole[0].reshape(2, 2, 2, 2).mean(axis=(1, 3)), atol=0.5)
    assert valid.all()


@pytest.mark.parametrize(("gsd_m", "side"), [(0.5, 40), (1, 20), (2, 10), (1000, 1)])
def test_a_scene_seen_with_other_pixels_has_another_shape(write, gsd_m, side):
    path = write()
    grid = read_facts(path, gsd_m=gsd_m).grid
    assert read_valid(path, grid).shape == (grid.height, grid.width) == (side, side)


def make_upper_half_invalid(path, kind):
    """Say that the upper half of a scene holds no data, in one of the ways that files have."""
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True), rasterio.open(path, "r+") as source:
        valid = np.indices(source.shape)[0] >= source.height // 2
        if kind == "mask":
            source.write_mask(valid)
        elif kind == "alpha":
            source.write(np.where(valid, 255, 0).astype(np.uint8), source.count)
        else:
            source.write(np.where(valid, 100, 0).astype(np.uint8), 1)


@pytest.mark.parametrize("gsd_m", [0.5, 1, 2])
@pytest.mark.parametrize(
    ("kind", "profile"),
    [
        ("mask", {}),
        ("alpha", {"bands": 2, "transparent": True}),
        ("nodata", {"bands": 1, "nodata": 0}),
    ],
)
def test_what_is_not_valid_stays_so_with_other_pixels(write, gsd_m, kind, profile):
    path = write(**profile)
    make_upper_half_invalid(path, kind)
    grid = read_facts(path, gsd_m=gsd_m).grid
    lower = np.indices((grid.height, grid.width))[0] >= grid.height // 2
    assert np.array_equal(read_valid(path, grid), lower)


def test_a_mask_written_comes_back(tmp_path):
    write_mask(tmp_path / "masks" / "a.tif", MASK, GRID)
    assert np.array_equal(read_mask(tmp_path / "masks" / "a.tif"), MASK)


def test_a_mask_lies_where_its_scene_lies(tmp_path):
    write_mask(tmp_path / "a.tif", MASK, GRID)
    assert read_facts(tmp_path / "a.tif").grid == GRID


def test_a_mask_has_colours_no_data_and_says_what_it_is(tmp_path):
    write_mask(tmp_path / "a.tif", MASK, GRID)
    with rasterio.open(tmp_path / "a.tif") as source:
        assert source.nodata == 255
        assert source.tags()[CONTENT_TAG] == SPEED_BINS
        assert len({source.colormap(1)[value] for value in range(8)}) == 8


def test_pixels_of_a_mask_to_ignore_are_not_valid(tmp_path):
    write_mask(tmp_path / "a.tif", np.where(MASK == 1, 255, MASK).astype(np.uint8), GRID)
    assert np.array_equal(read_valid(tmp_path / "a.tif"), MASK != 1)


def test_a_mask_that_cannot_be_written_is_an_error_that_names_it(tmp_path):
    (tmp_path / "masks").write_text("no folder")
    with pytest.raises(RoadsegError, match=r"masks/a\.tif: cannot be written"):
        write_mask(tmp_path / "masks" / "a.tif", MASK, GRID)
