import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
import rasterio
from affine import Affine
from pyproj import CRS
from rasterio.shutil import copy

from roadseg.errors import DataError
from roadseg.raster.images import open_raster, read_facts, read_grid
from roadseg.raster.options import ImageryOptions
from roadseg.raster.pixels import OpenScene, open_scene, read_preview, read_window
from roadseg.raster.windows import Window

UTM = CRS.from_epsg(32611)
NOISE = np.random.default_rng(0).integers(0, 255, (1, 64, 64), dtype=np.uint8)
VRT = """<VRTDataset rasterXSize="40" rasterYSize="40"><VRTRasterBand dataType="Byte" band="1">
<SimpleSource><SourceFilename relativeToVRT="1">gone.tif</SourceFilename><SourceBand>1</SourceBand>
<SrcRect xOff="0" yOff="0" xSize="40" ySize="40"/><DstRect xOff="0" yOff="0" xSize="40" ySize="40"/>
</SimpleSource></VRTRasterBand></VRTDataset>"""
BYTES = np.random.default_rng(0).integers(0, 255, (1, 100, 300), dtype=np.uint8)


def read_valid(facts, window=None):
    with open_raster(facts.path) as source:
        whole = Window(0, 0, facts.grid.height, facts.grid.width)
        return OpenScene(facts, source).valid(window or whole)


def read_sample(facts, *, pixels):
    with open_raster(facts.path) as source:
        return OpenScene(facts, source).sample(pixels=pixels)


def test_a_scene_opened_once_gives_its_facts_and_its_pixels(write_raster):
    path = write_raster(BYTES)
    with open_scene(path, ImageryOptions(nodata=0)) as scene:
        assert scene.facts == read_facts(path, ImageryOptions(nodata=0))
        assert np.array_equal(scene.valid(Window(10, 20, 30, 40)), BYTES[0, 10:40, 20:60] != 0)


@pytest.mark.parametrize(
    ("name", "driver", "options"),
    [
        ("a.tif", "COG", {}),
        ("a.vrt", "VRT", {}),
        ("a.jp2", "JP2OpenJPEG", {"quality": "100", "reversible": "yes"}),
        ("a.png", "PNG", {}),
        ("a.img", "HFA", {}),
    ],
)
def test_any_format_is_read(save_as, name, driver, options):
    facts = read_facts(save_as(BYTES, name, driver=driver, **options), ImageryOptions(gsd_m=1))
    values, valid = read_window(facts, (10, 20, 30, 40))
    assert np.array_equal(values, BYTES[:, 10:40, 20:60])
    assert valid.all()


@pytest.mark.parametrize(
    "dtype", ["uint8", "int8", "uint16", "int16", "uint32", "int32", "float32", "float64"]
)
def test_any_real_type_is_read_as_it_is(write_raster, dtype):
    facts = read_facts(write_raster(dtype=dtype, bands=1))
    values, _ = read_window(facts, (0, 5, 1, 2))
    assert (values.tolist(), values.dtype.name, facts.dtype) == ([[[5, 6]]], dtype, dtype)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_numbers_are_refused(write_raster, dtype):
    with pytest.raises(DataError, match=rf"complex numbers \({dtype}\), expected real ones"):
        read_facts(write_raster(dtype=dtype))


def test_bands_of_different_types_are_refused_but_one_type_can_be_chosen(write_raster, tmp_path):
    paths = [write_raster(bands=1, dtype=kind, name=f"{kind}.tif") for kind in ("uint8", "uint16")]
    mixed = tmp_path / "mixed.vrt"
    mixed.write_text(mosaic_of_bands(paths))
    with pytest.raises(DataError, match=r"uint16 and uint8\); .* with imagery\.bands"):
        read_facts(mixed)
    assert read_facts(mixed, ImageryOptions(bands=(2,))).dtype == "uint16"


def mosaic_of_bands(paths):
    """Give a VRT whose bands are the first bands of two files of 40 x 40 pixels."""
    bands = "".join(
        f'<VRTRasterBand dataType="{kind}" band="{number}"><SimpleSource><SourceFilename>{path}'
        "</SourceFilename><SourceBand>1</SourceBand></SimpleSource></VRTRasterBand>"
        for number, (path, kind) in enumerate(zip(paths, ("Byte", "UInt16"), strict=True), 1)
    )
    return (
        f'<VRTDataset rasterXSize="40" rasterYSize="40"><SRS>{UTM.to_wkt()}</SRS>'
        f"<GeoTransform>660000, 1, 0, 4000000, 0, -1</GeoTransform>{bands}</VRTDataset>"
    )


@pytest.mark.parametrize(("transparent", "bands"), [(True, (1, 2, 3)), (False, (1, 2, 3, 4))])
def test_a_band_is_left_out_if_it_is_declared_alpha(write_raster, transparent, bands):
    path = write_raster(bands=4, transparent=transparent, photometric="rgb", alpha="unspecified")
    assert read_facts(path).bands == bands


def test_a_raster_of_nothing_but_alpha_is_refused(write_raster):
    with pytest.raises(DataError, match="has only an alpha band"):
        read_facts(write_raster(bands=1, transparent=True))


def test_bands_can_be_chosen_by_description(write_raster):
    facts = read_facts(
        write_raster(names=["Red", "Green", "NIR"]), ImageryOptions(bands=("nir", 1, "GREEN "))
    )
    assert (facts.bands, facts.names) == ((3, 1, 2), ("NIR", "Red", "Green"))


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (
            ["red", "green"],
            r"no bands with the description 'nir'.*3 bands have red, green; you can",
        ),
        ([], "no bands with the description 'nir'.*3 bands have no descriptions; you can"),
        (["nir", "NIR"], "2 bands with the description 'nir', expected one"),
    ],
)
def test_a_description_that_does_not_choose_a_band_is_told_what_there_is(write_raster, names, told):
    with pytest.raises(DataError, match=told):
        read_facts(write_raster(names=names), ImageryOptions(bands=("nir",)))


@pytest.mark.parametrize("band", [4, 9])
def test_a_band_that_is_not_there_is_named(write_raster, band):
    with pytest.raises(DataError, match=f"has no band {band}, only bands 1 to 3"):
        read_facts(write_raster(), ImageryOptions(bands=(band,)))


@pytest.mark.parametrize("shape", [(31, 40), (40, 31), (1, 1000)])
def test_a_scene_of_few_rows_or_columns_is_refused(write_raster, shape):
    size = f"{shape[0]} x {shape[1]}"
    with pytest.raises(DataError, match=f"found {size} pixels, expected at least 32 on each side"):
        read_facts(write_raster(shape=shape))


def test_a_scene_of_just_enough_rows_and_columns_is_taken(write_raster):
    assert read_facts(write_raster(shape=(32, 32))).grid.height == 32


def test_a_scene_that_resampling_makes_too_small_is_refused(write_raster):
    with pytest.raises(DataError, match="found 20 x 20 pixels of 2 m, expected at least 32"):
        read_facts(write_raster(), ImageryOptions(gsd_m=2))


@pytest.mark.parametrize(
    ("name", "driver"), [("a.png", "PNG"), ("a.jpg", "JPEG"), ("a.jp2", "JP2OpenJPEG")]
)
def test_another_format_cut_short_is_refused_when_it_is_sampled(save_as, name, driver):
    path = save_as(BYTES, name, driver=driver)
    facts = read_facts(path, ImageryOptions(gsd_m=1))
    os.truncate(path, int(path.stat().st_size * 0.8))
    with pytest.raises(DataError, match="not a readable raster"):
        read_sample(facts, pixels=1000)


def test_a_raster_without_mask_alpha_or_nodata_is_all_valid(write_raster):
    facts = read_facts(write_raster())
    assert facts.is_file_valid
    assert read_valid(facts).all()


@pytest.mark.parametrize(
    ("profile", "options"),
    [
        ({"nodata": 7}, {}),
        ({"transparent": True}, {}),
        ({"dtype": "float32"}, {}),
        ({}, {"nodata": 0}),
    ],
    ids=["nodata", "alpha", "floats", "nodata given"],
)
def test_otherwise_it_is_in_doubt(write_raster, profile, options):
    assert not read_facts(write_raster(**profile), ImageryOptions(**options)).is_file_valid


@pytest.mark.parametrize(
    ("profile", "options", "expected"),
    [
        ({"nodata": 0}, {}, [[0, 0]]),
        ({}, {"nodata": 0}, [[0, 0]]),
        ({}, {"bands": (1,), "nodata": 0}, [[0, 0], [0, 1]]),
    ],
    ids=["of the file", "given", "given, in the chosen bands"],
)
def test_a_pixel_is_nodata_where_all_bands_are(write_raster, profile, options, expected):
    values = np.full((2, 40, 40), 5, dtype=np.uint8)
    values[:, 0, :3] = [[0, 0, 5], [0, 5, 0]]
    facts = read_facts(write_raster(values, **profile), ImageryOptions(**options))
    assert np.argwhere(~read_valid(facts)).tolist() == expected
    assert np.array_equal(read_window(facts, (0, 0, 40, 40))[1], read_valid(facts))


def test_a_given_nodata_adds_to_that_of_the_file(write_raster):
    facts = read_facts(
        write_raster(np.tile(np.arange(40, dtype=np.uint8), (40, 1)), nodata=3),
        ImageryOptions(nodata=9),
    )
    assert np.flatnonzero(~read_valid(facts)[0]).tolist() == [3, 9]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, np.finfo(np.float32).min])
def test_a_pixel_that_is_not_finite_or_a_usual_fill_value_is_not_valid(write_raster, value):
    values = np.ones((2, 40, 40), dtype=np.float32)
    values[1, 3, 4] = value
    facts = read_facts(write_raster(values))
    assert np.argwhere(~read_valid(facts)).tolist() == [[3, 4]]
    assert read_valid(read_facts(facts.path, ImageryOptions(bands=(1,)))).all()


@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
@pytest.mark.parametrize("bands", [2, 3, 4, 5, 9])
def test_transparent_pixels_are_not_valid(write_raster, bands, dtype):
    values = np.full((bands, 40, 40), np.iinfo(dtype).max, dtype=dtype)
    values[-1, 0, :3] = [0, 1, 200]
    facts = read_facts(write_raster(values, transparent=True))
    assert np.argwhere(~read_valid(facts)).tolist() == [[0, 0]]


def test_a_scene_seen_with_larger_pixels_shows_their_mean(write_raster):
    path = write_raster(bands=1, shape=(80, 80))
    values, valid = read_window(read_facts(path, ImageryOptions(gsd_m=2)), (3, 4, 2, 2))
    whole, _ = read_window(read_facts(path), (6, 8, 4, 4))
    assert np.allclose(values[0], whole[0].reshape(2, 2, 2, 2).mean(axis=(1, 3)), atol=0.5)
    assert valid.all()


def make_upper_half_invalid(path, kind):
    """Say that the upper half of a scene holds no data, in one of the ways that files have."""
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True), rasterio.open(path, "r+") as source:
        valid = np.indices(source.shape)[0] >= source.height // 2
        if kind == "mask":
            source.write_mask(valid)
        elif kind == "alpha":
            source.write(np.where(valid, 255, 0).astype(np.uint8), source.count)
        else:
            nothing = np.nan if kind == "nan" else 0
            source.write(np.where(valid, 100, nothing).astype(source.dtypes[0]), 1)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint32", "float32"])
def test_resampled_pixels_keep_their_type(write_raster, dtype):
    facts = read_facts(write_raster(BYTES.astype(dtype)), ImageryOptions(gsd_m=2))
    values, _ = read_window(facts, Window(0, 0, 32, 32))
    assert values.dtype == facts.dtype == dtype


@pytest.mark.parametrize("gsd_m", [0.5, 1, 2])
@pytest.mark.parametrize(
    ("kind", "profile", "options"),
    [
        ("mask", {}, {}),
        ("alpha", {"bands": 2, "transparent": True}, {}),
        ("alpha", {"bands": 5, "transparent": True}, {}),
        ("nodata", {"bands": 1, "nodata": 0}, {}),
        ("given nodata", {"bands": 1}, {"nodata": 0}),
        ("nan", {"bands": 1, "dtype": "float32"}, {}),
    ],
)
def test_what_is_not_valid_stays_so_with_other_pixels(write_raster, gsd_m, kind, profile, options):
    path = write_raster(shape=(80, 80), **profile)
    make_upper_half_invalid(path, kind)
    facts = read_facts(path, ImageryOptions(gsd_m=gsd_m, **options))
    lower = np.indices((facts.grid.height, facts.grid.width))[0] >= facts.grid.height // 2
    assert np.array_equal(read_valid(facts), lower)


@pytest.mark.parametrize("kind", ["given nodata", "nan"])
def test_what_is_not_valid_does_not_darken_its_neighbours(write_raster, kind):
    path = write_raster(bands=1, shape=(81, 81), dtype="float32")
    make_upper_half_invalid(path, kind)
    facts = read_facts(path, ImageryOptions(gsd_m=2, nodata=0 if kind == "given nodata" else None))
    values, valid = read_window(facts, (0, 0, facts.grid.height, facts.grid.width))
    assert values[0][valid] == pytest.approx(100)


@pytest.mark.parametrize(
    ("pixels", "count"), [(29_999, 29_999), (30_000, 30_000), (30_001, 30_000)]
)
def test_a_sample_is_no_larger_than_asked_nor_than_the_scene(write_raster, pixels, count):
    assert read_sample(read_facts(write_raster(BYTES)), pixels=pixels).shape == (1, count)


@pytest.mark.parametrize("gsd_m", [None, 2])
def test_a_sample_of_all_pixels_is_the_scene_as_it_was_before_resampling(write_raster, gsd_m):
    facts = read_facts(write_raster(BYTES), ImageryOptions(gsd_m=gsd_m))
    sample = read_sample(facts, pixels=BYTES.size)
    assert np.array_equal(np.sort(sample.ravel()), np.sort(BYTES.ravel()))


@pytest.mark.parametrize(
    "profile",
    [{"blockysize": 1}, {"blockysize": 100}, {"tiled": True, "blockxsize": 16, "blockysize": 16}],
    ids=["rows", "one strip", "tiles"],
)
def test_a_small_sample_shows_all_parts_of_a_scene(write_raster, profile):
    rows = np.tile(np.arange(100, dtype=np.uint8)[:, np.newaxis], (1, 300))
    sample = read_sample(read_facts(write_raster(rows, **profile)), pixels=1500)
    assert np.histogram(sample, bins=4, range=(0, 100))[0].min() > 0


def test_little_data_in_a_scene_is_found(write_raster):
    values = np.zeros((1, 3000, 64), dtype=np.uint8)
    values[:, 700:760] = 9
    sample = read_sample(read_facts(write_raster(values, nodata=0)), pixels=2000)
    assert sample.shape[1] > 100


@pytest.mark.parametrize(
    ("side", "shape"), [(299, (1, 100, 299)), (300, (1, 100, 300)), (301, (1, 100, 300))]
)
def test_a_preview_is_no_larger_than_asked_nor_than_the_scene(write_raster, side, shape):
    values, valid = read_preview(read_facts(write_raster(BYTES)), side=side)
    assert values.shape == shape
    assert valid.shape == shape[1:]


def test_a_preview_keeps_the_proportions_of_the_grid(write_raster):
    path = write_raster(BYTES, transform=Affine(0.25, 0, 660000, 0, -0.5, 4000000))
    values, _ = read_preview(read_facts(path, ImageryOptions(gsd_m=0.5)), side=75)
    assert values.shape == (1, 50, 75)


def read_all(path):
    with open_raster(path) as source:
        return source.read()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", r"not a readable raster \(.*\); download or copy it again"),
        (b"II*\x00\x08\x00\x00\x00", "cut short; download or copy it again"),
        (b"name,speed\na,1\n", r"not a readable raster \(.*\); download or copy it again"),
    ],
    ids=["empty", "header", "text"],
)
def test_a_file_that_is_no_raster_is_refused_in_one_line(tmp_path, content, told):
    (tmp_path / "a.tif").write_bytes(content)
    with pytest.raises(DataError, match=rf"a\.tif: {told}") as bad:
        read_all(tmp_path / "a.tif")
    assert "\n" not in str(bad.value)


def test_a_missing_raster_is_named(tmp_path):
    with pytest.raises(DataError, match=r"a\.tif does not exist"):
        read_all(tmp_path / "a.tif")


def test_a_mosaic_whose_file_is_gone_names_it(tmp_path):
    (tmp_path / "a.vrt").write_text(VRT)
    with pytest.raises(DataError, match=r"a\.vrt: not a readable raster \(.*gone\.tif"):
        read_all(tmp_path / "a.vrt")


@pytest.mark.parametrize("share", [0.3, 0.7, 0.99])
def test_a_tiff_cut_short_says_so(write_raster, share):
    path = write_raster(NOISE)
    os.truncate(path, int(path.stat().st_size * share))
    with pytest.raises(DataError, match=r"scene\.tif: cut short; download"):
        read_all(path)
    with pytest.raises(DataError, match=r"cut short; download or copy it again"):
        read_grid(path)


def test_a_raster_in_an_archive_is_read(write_raster, tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.write(write_raster(NOISE), "in/scene.tif")
    assert np.array_equal(read_all(Path(f"/vsizip/{{{tmp_path}/a.zip}}/in/scene.tif")), NOISE)


def test_a_raster_missing_in_an_archive_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"/vsizip/.*scene\.tif: not a readable raster"):
        read_all(Path(f"/vsizip/{{{tmp_path}/a.zip}}/scene.tif"))


COLOURS = {0: (200, 100, 0), 1: (0, 20, 40), 2: (9, 9, 9)}
NUMBERS = np.tile(np.uint8([[0, 1], [0, 1]]), (32, 32))


def test_a_colour_table_is_read_as_colours_with_or_without_resampling(write_raster):
    path = write_raster(NUMBERS, colours=COLOURS)
    values, _ = read_window(read_facts(path), Window(0, 0, 1, 2))
    assert values[:, 0].T.tolist() == [list(COLOURS[0]), list(COLOURS[1])]
    values, valid = read_window(read_facts(path, ImageryOptions(gsd_m=2.0)), Window(0, 0, 32, 32))
    assert (values == np.reshape([100, 60, 20], (3, 1, 1))).all()
    assert valid.all()


def test_colours_that_are_nodata_or_transparent_have_no_data(write_raster):
    path = write_raster(NUMBERS, colours=COLOURS, nodata=0)
    copy(path, path.with_suffix(".png"), driver="PNG")  # It marks colours as transparent.
    for image in (path, path.with_suffix(".png")):
        facts = read_facts(image)
        assert facts.bands == (1, 2, 3)
        assert np.array_equal(read_window(facts, Window(0, 0, 64, 64))[1], NUMBERS == 1)
