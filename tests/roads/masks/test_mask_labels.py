import numpy as np
import pytest
from affine import Affine
from pyproj import Transformer
from rasterio.enums import Resampling
from rasterio.warp import reproject

from roadseg.errors import DataError
from roadseg.raster.images import read_facts
from roadseg.raster.options import ImageryOptions
from roadseg.raster.windows import Window
from roadseg.roads.masks.mask_files import write_mask
from roadseg.roads.masks.mask_labels import (
    check_masks,
    looks_like_mask,
    mask_values,
    open_mask_labels,
)
from roadseg.roads.options import LabelOptions
from roadseg.roads.speeds import DEFAULT_BINS, SpeedBins
from tests.drawing import PLACE, UTM

NOWHERE = {"crs": None, "transform": Affine.identity()}
WHOLE = Window(0, 0, 40, 40)
CLASSES = np.zeros((40, 40), dtype=np.uint8)
CLASSES[10:14] = 1
CLASSES[:, 20:26] = 2
ROADS = CLASSES > 0
OF_25_MPH, OF_55_MPH = 3, 6  # by DEFAULT_BINS


@pytest.fixture
def image(write_raster):
    return read_facts(write_raster(name="image.tif"))


@pytest.fixture
def photo(write_raster):
    return read_facts(write_raster(name="photo.tif", **NOWHERE), ImageryOptions(gsd_m=0.9))


def labels(path, facts, window=WHOLE, *, speeds=None, bins=DEFAULT_BINS, crs=None):
    options = LabelOptions(
        mask_speeds_mph=speeds,
        bin_edges=bins.edges,
        bin_unit=bins.unit,
        crs=crs and crs.to_string(),
    )
    with open_mask_labels(path, facts, options) as opened:
        return opened.read(window)


COLOURS = {0: (255, 255, 255), 1: (0, 0, 0), 2: (0, 0, 0)}  # classes, not what is drawn
COLOURED = np.stack([CLASSES == 1, CLASSES == 2, np.zeros((40, 40))]).astype(np.uint8) * 200
OF_CLASSES = np.array([0, OF_25_MPH, OF_55_MPH])[CLASSES]
OF_ROADS = np.where(ROADS, OF_25_MPH, 0)
CORNER = np.arange(1600).reshape(40, 40) < 5


@pytest.mark.parametrize(
    ("values", "raster", "speeds", "expected"),
    [
        (CLASSES, {}, None, OF_ROADS),
        (CLASSES, {"colours": COLOURS}, None, OF_ROADS),
        *((np.uint8(ROADS * value), {}, None, OF_ROADS) for value in (1, 254, 255)),
        (CLASSES, {}, {1: 25, 2: 55}, OF_CLASSES),
        (CLASSES, {}, {2: 55}, np.where(CLASSES == 2, OF_55_MPH, 0)),
        (CLASSES, {}, {0: 55}, np.where(ROADS, 0, OF_55_MPH)),
        (np.where(CORNER, 9, CLASSES), {"nodata": 9}, None, np.where(CORNER, 255, OF_ROADS)),
        (CLASSES, {"nodata": 0}, None, OF_ROADS),
        (np.where(ROADS, np.nan, 0).astype(np.float32), {}, None, np.where(ROADS, 255, 0)),
        (COLOURED, {}, None, OF_ROADS),
        (np.stack([CLASSES] * 3), {}, {2: 55}, np.where(CLASSES == 2, OF_55_MPH, 0)),
    ],
    ids=[
        *("every value but 0", "classes of a colour table", "value 1", "value 254", "value 255"),
        *("values with speeds", "value without a speed", "value 0 with a speed", "nodata"),
        *("nodata 0", "no number", "colours", "three equal bands"),
    ],
)
def test_values_of_a_mask_are_road(write_raster, values, raster, speeds, expected):
    image = read_facts(write_raster(name="image.tif"))
    mask = labels(write_raster(values, **raster), image, speeds=speeds)
    assert mask.dtype == np.uint8
    assert np.array_equal(mask, expected)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize(("value", "expected"), [(0.49, 0), (0.5, OF_25_MPH), (3, OF_25_MPH)])
def test_floats_of_a_half_and_more_are_road(image, write_raster, kind, value, expected):
    assert (labels(write_raster(np.full((40, 40), value, dtype=kind)), image) == expected).all()


@pytest.mark.parametrize("bands", [1, 3])
def test_transparent_pixels_are_ignored(image, write_raster, bands):
    alpha = np.where(CLASSES == 1, 0, 255).astype(np.uint8)
    path = write_raster(np.stack([CLASSES] * bands + [alpha]), transparent=True)
    mask = labels(path, image)
    assert np.array_equal(mask == 255, CLASSES == 1)
    assert np.array_equal(mask == OF_25_MPH, CLASSES == 2)


def test_a_jpeg_is_road_from_half_of_white(photo, save_as):
    path = save_as(np.where(ROADS, 255, 0).astype(np.uint8), "a.jpg", driver="JPEG", quality="50")
    assert np.mean((labels(path, photo) == OF_25_MPH) == ROADS) > 0.98


def test_a_jpeg_has_no_values_to_look_up(photo, save_as):
    path = save_as(CLASSES, "a.jpg", driver="JPEG")
    with pytest.raises(DataError, match=r"a\.jpg: JPEG changes the values.*save the mask as PNG"):
        labels(path, photo, speeds={1: 25})


@pytest.mark.parametrize(
    ("bins", "expected"),
    [(DEFAULT_BINS, [0, 3, 6, 7]), (SpeedBins((40.0, 80.0), "km/h"), [0, 2, 3, 3])],
    ids=["same bins", "other bins"],
)
def test_a_mask_of_speed_bins_keeps_its_speeds(image, tmp_path, bins, expected):
    pixels = np.array([0, OF_25_MPH, OF_55_MPH, 7], dtype=np.uint8)[np.arange(1600) % 4]
    blocks = [(WHOLE, pixels.reshape(40, 40))]
    write_mask(tmp_path / "a.tif", blocks, image.grid, bins=DEFAULT_BINS)
    assert labels(tmp_path / "a.tif", image, bins=bins)[0, :4].tolist() == expected


def test_a_mask_of_speed_bins_keeps_what_it_ignores(image, tmp_path):
    blocks = [(Window(0, 0, 20, 40), np.zeros((20, 40), dtype=np.uint8))]
    write_mask(tmp_path / "a.tif", blocks, image.grid, bins=DEFAULT_BINS)
    assert (labels(tmp_path / "a.tif", image)[20:] == 255).all()


@pytest.mark.parametrize("crs", ["EPSG:4326", "EPSG:3857", "EPSG:32612"])
def test_a_mask_in_another_crs_falls_on_the_same_ground(image, write_raster, crs):
    path = warped(write_raster, crs)
    mask = labels(path, image)
    assert np.mean((mask == OF_25_MPH) == ROADS) > 0.97
    assert np.array_equal(labels(path, image, Window(5, 10, 20, 20)), mask[5:25, 10:30])


def warped(write_raster, crs):
    """Write the classes in another CRS with small pixels, and with much ground around them."""
    around = np.zeros((80, 80), dtype=np.uint8)
    around[20:60, 20:60] = CLASSES
    place = PLACE @ Affine.translation(-20, -20)
    corners = [place @ corner for corner in ((0, 0), (80, 0), (0, 80), (80, 80))]
    convert = Transformer.from_crs(UTM, crs, always_xy=True)
    x, y = convert.transform(*np.array(corners).T)
    size_x, size_y = np.ptp(x) / 400, np.ptp(y) / 400
    transform = Affine(size_x, 0, x.min(), 0, -size_y, y.max())
    values = np.zeros((400, 400), dtype=np.uint8)
    reproject(
        around,
        values,
        src_transform=place,
        src_crs=UTM.to_wkt(),
        dst_transform=transform,
        dst_crs=crs,
        resampling=Resampling.nearest,
    )
    return write_raster(values, crs=crs, transform=transform)


@pytest.mark.parametrize("finer", [2, 3, 0.5])
def test_a_mask_with_other_pixels_gives_the_value_at_the_centre(image, write_raster, finer):
    side = int(40 * finer)
    values = np.random.default_rng(0).integers(0, 3, (side, side), dtype=np.uint8)
    path = write_raster(values, transform=PLACE @ Affine.scale(1 / finer))
    chosen = ((np.arange(40) + 0.5) * finer).astype(int)
    expected = np.array([0, OF_25_MPH, OF_55_MPH])[values[np.ix_(chosen, chosen)]]
    assert np.array_equal(labels(path, image, speeds={1: 25, 2: 55}), expected)


@pytest.mark.parametrize("nodata", [None, 0, 9])
def test_where_a_mask_does_not_reach_is_ignored(image, write_raster, nodata):
    path = write_raster(CLASSES[:, :30].copy(), nodata=nodata)
    mask = labels(path, image)
    assert (mask[:, 30:] == 255).all()
    assert np.array_equal(mask[:, :30], np.where(ROADS, OF_25_MPH, 0)[:, :30])


def test_a_mask_that_touches_with_one_row_is_taken(image, write_raster):
    path = write_raster(np.ones((40, 40), np.uint8), transform=PLACE @ Affine.translation(0, 39))
    assert np.flatnonzero((labels(path, image) != 255).any(axis=1)).tolist() == [39]


@pytest.mark.parametrize("shift", [40, -40, 1_000_000])
def test_a_mask_that_misses_the_image_is_an_error_with_both_places(image, write_raster, shift):
    path = write_raster(CLASSES, transform=PLACE @ Affine.translation(0, shift))
    with pytest.raises(
        DataError,
        match=r"scene\.tif: does not touch .*image\.tif: the mask is at lon .*, lat .*, the image "
        r"at lon -115\.2\d+ to -115\.2\d+, lat 36\.1\d+ to 36\.1\d+; check the CRS",
    ):
        labels(path, image)


def test_a_mask_without_georeference_follows_an_image_that_is_resampled(write_raster):
    facts = read_facts(write_raster(name="image.tif", shape=(80, 80)), ImageryOptions(gsd_m=2))
    path = write_raster(np.kron(CLASSES, np.ones((2, 2), np.uint8)), **NOWHERE)
    assert np.array_equal(labels(path, facts) == OF_25_MPH, ROADS)


@pytest.mark.parametrize(
    ("shape", "place"),
    [((39, 40), NOWHERE), ((40, 41), NOWHERE), ((30, 40), {"crs": None})],
)
def test_a_mask_without_a_place_of_another_size_is_refused(image, write_raster, shape, place):
    path = write_raster(np.zeros(shape, np.uint8), **place)
    told = rf"found {shape[0]} x {shape[1]} pixels, expected 40 x 40 as in .*or set labels\.crs"
    with pytest.raises(DataError, match=told):
        labels(path, image)


def test_a_mask_of_a_photo_must_have_its_size(photo, write_raster):
    with pytest.raises(DataError, match=r"expected 40 x 40 .* one of both has no georeference"):
        labels(write_raster(np.zeros((40, 39), np.uint8)), photo)


@pytest.mark.parametrize(
    ("values", "shares"),
    [
        (CLASSES, {value: (value == CLASSES).mean() for value in range(3)}),
        (np.where(ROADS, 0.9, 0.2).astype(np.float32), {0: 1 - ROADS.mean(), 1: ROADS.mean()}),
    ],
    ids=["bytes", "floats, rounded"],
)
def test_values_of_a_mask_have_their_shares(write_raster, values, shares):
    assert mask_values(write_raster(values)) == pytest.approx(shares)


@pytest.mark.parametrize(
    ("values", "is_mask"),
    [
        *((np.uint8(np.arange(1600).reshape(40, 40) % n), n <= 8) for n in (1, 8, 9)),
        (np.stack([CLASSES] * 3), False),
        (CLASSES.astype(np.float32), False),
    ],
    ids=["1 value", "8 values", "9 values", "bands", "floats"],
)
def test_one_band_of_few_values_in_bytes_looks_like_a_mask(write_raster, values, is_mask):
    assert looks_like_mask(write_raster(values)) == is_mask


@pytest.mark.real
@pytest.mark.parametrize("number", ["10", "1005"])
def test_maps_of_new_york_lie_on_their_photos(real_data, number):
    photo = read_facts(real_data / "nyc" / "images" / f"{number}.jpg", ImageryOptions(gsd_m=0.9))
    path = real_data / "nyc" / "masks" / f"{number}.png"
    mask = labels(path, photo, Window(0, 0, 600, 600), speeds={1: 25, 2: 55})
    shares = mask_values(path)
    assert np.mean(mask == OF_25_MPH) == pytest.approx(shares[1], abs=0.07)
    assert np.mean(mask == OF_55_MPH) == pytest.approx(shares.get(2, 0), abs=0.07)


@pytest.mark.parametrize(
    ("values", "nodata", "remark"),
    [
        (ROADS[:, 18:] * 1, None, ""),
        (~ROADS * 255, None, "more than half of its pixels are road; if 0 stands for roads, swap"),
        (ROADS * 255, 255, "has no road, but its nodata value; if this stands for roads, take"),
        (ROADS * 255, 9, ""),
    ],
)
def test_masks_whose_roads_look_like_something_else_are_named(
    write_raster, caplog, values, nodata, remark
):
    check_masks([write_raster(values.astype(np.uint8), nodata=nodata)])
    assert bool(caplog.messages) == bool(remark)
    assert remark in caplog.text


BARE = np.uint8(ROADS * 255)
BLURRED = np.where(ROADS, np.arange(1600).reshape(40, 40) // 5 % 100 + 1, 255 * CORNER)


@pytest.mark.parametrize(
    "masks",
    [[(BLURRED.astype(np.uint8), None)], [(BARE, 255), (CLASSES, None)]],
    ids=["bytes between 0 and 255 of a drawing", "a place without roads beside others"],
)
def test_other_masks_need_no_remark(write_raster, caplog, masks):
    check_masks(
        [
            write_raster(values, nodata=nodata, name=f"{number}.tif")
            for number, (values, nodata) in enumerate(masks)
        ]
    )
    assert not caplog.messages


def test_a_mask_of_classes_does_not_say_whether_255_is_road(write_raster):
    values = np.where(CORNER, 255, ROADS).astype(np.uint8)
    with pytest.raises(
        DataError, match=r"a\.tif: has pixels of 1 and of 255; if 255 stands for pi"
    ):
        check_masks([write_raster(values, name="a.tif")])
    check_masks([write_raster(values, nodata=255, name="a.tif")])
