import base64
import io
from functools import partial

import numpy as np
import pytest
from affine import Affine
from PIL import Image
from pyproj import CRS

from roadseg.errors import DataError
from roadseg.raster.images import read_facts
from roadseg.report.pictures import (
    MapImage,
    mask_uri,
    mosaic,
    photo_uri,
    probability_uri,
    read_photo,
    read_road,
    sheet_uri,
)
from roadseg.roads.masks.probabilities import open_probability

UTM = CRS.from_epsg(32611)
BOX = (0.0, 0.0, 1.0, 1.0)


def picture(uri):
    return Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2])))


def photo(path, side_px):
    return read_photo(read_facts(path), None, UTM, side_px=side_px)


def test_an_image_on_the_map_is_not_warped(write_raster):
    pixels = noise(3, 64)
    flat = photo(write_raster(pixels, transform=Affine(2, 0, 500000, 0, -2, 4000000)), 64)
    assert np.array_equal(flat.pixels[:3], pixels)
    assert flat.bounds == (500000, 4000000 - 128, 500000 + 128, 4000000)


def test_an_image_that_is_turned_is_laid_flat(write_raster):
    turned = Affine(0.866, 0.5, 500000, 0.5, -0.866, 4000000)  # by 30 degrees
    pixels = np.repeat(np.uint8([200, 0]), 50)[:, np.newaxis] * np.ones((3, 1, 100), np.uint8)
    flat = photo(write_raster(pixels, transform=turned, nodata=0), 100)
    assert flat.bounds[2] - flat.bounds[0] == pytest.approx(136.6, abs=3)
    assert np.mean(flat.pixels[-1] > 0) == pytest.approx(5e3 / 136.6**2, abs=0.03)
    assert set(flat.pixels[-1].ravel().tolist()) == {0, 255}


def test_an_image_in_degrees_lies_where_it_should(write_raster):
    place = Affine(1e-5, 0, -117, 0, -1e-5, 33)
    bounds = photo(write_raster(noise(3, 64), transform=place, crs="EPSG:4326"), 64).bounds
    assert bounds[0] == pytest.approx(500000, abs=1)  # the middle of zone 11


def test_a_large_image_is_read_thinned(write_raster):
    assert photo(write_raster(noise(1, 300)), 100).pixels.shape == (4, 100, 100)


def test_pixels_of_sixteen_bits_are_stretched(write_raster):
    pixels = np.linspace(300, 900, 64 * 64).reshape(1, 64, 64).astype(np.uint16)
    shown = photo(write_raster(pixels), 64).pixels[0]
    assert (shown.min(), shown.max()) == (0, 255)


@pytest.mark.parametrize(("value", "shown"), [(0, 0), (3, 255)])
def test_every_road_of_a_mask_is_certain(write_raster, value, shown):
    path = write_raster(np.full((64, 64), value, np.uint8))
    flat = read_road(open_probability(path), UTM, side_px=64)
    assert set(flat.pixels[0].ravel().tolist()) == {shown}


def noise(bands, side):
    return np.random.default_rng(0).integers(0, 256, (bands, side, side), dtype=np.uint8)


def test_probabilities_are_clear_where_there_is_no_road():
    road = np.tile(np.arange(256, dtype=np.uint8), (64, 1))
    flat = MapImage(np.stack([road, np.full_like(road, 255)]), BOX)
    alpha = np.asarray(picture(probability_uri(flat, most_bytes=10**6)).convert("RGBA"))[0, :, 3]
    assert (alpha[0], alpha[-1]) == (0, 235)
    assert np.all(np.diff(alpha.astype(int)) >= 0)


@pytest.mark.parametrize(("value", "alpha"), [(101, 0), (102, 170)])
def test_the_mask_begins_at_the_threshold(value, alpha):
    pixels = np.full((2, 64, 64), 255, np.uint8)
    pixels[0] = value
    found = picture(mask_uri(MapImage(pixels, BOX), threshold=0.4, most_bytes=10**6))
    assert set(np.asarray(found.convert("RGBA"))[..., 3].ravel().tolist()) == {alpha}


def test_pixels_without_data_are_clear():
    pixels = np.full((4, 64, 64), 255, np.uint8)
    pixels[3, :32] = 0
    shown = np.asarray(picture(photo_uri(MapImage(pixels, BOX), most_bytes=10**6)))
    assert (shown[0, 0, 3], shown[63, 0, 3]) == (0, 255)


@pytest.mark.parametrize("encode", [probability_uri, partial(mask_uri, threshold=0.4)])
def test_roads_without_data_are_clear(encode):
    pixels = np.full((2, 64, 64), 255, np.uint8)
    pixels[1, :32] = 0
    shown = np.asarray(picture(encode(MapImage(pixels, BOX), most_bytes=10**6)).convert("RGBA"))
    assert shown[0, 0, 3] == 0 < shown[63, 0, 3]


def test_a_picture_shrinks_until_it_fits_or_is_left_out():
    flat = MapImage(np.concatenate([noise(3, 256), np.full((1, 256, 256), 255, np.uint8)]), BOX)
    assert len(photo_uri(flat, most_bytes=10_000)) <= 10_000
    assert photo_uri(flat, most_bytes=300) is None


@pytest.mark.parametrize("share", [0, 0.3, 0.6])
def test_a_sheet_that_is_no_picture_is_told(tmp_path, share):
    path = tmp_path / "sheet_01.png"
    Image.fromarray(np.zeros((50, 50, 3), np.uint8)).save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(DataError, match=r"sheet_01\.png: not a readable picture; delete it, or"):
        sheet_uri(path, side_px=50, most_bytes=1000)


def test_images_that_touch_are_one_picture_without_a_seam():
    west, east = np.full((4, 8, 8), 255, np.uint8), np.full((4, 3, 3), 255, np.uint8)
    east[0] = 0
    flats = [MapImage(west, (0, 0, 100, 100)), MapImage(east, (100, 0, 203, 100))]
    whole = mosaic(flats, (0, 0, 203, 200), side_px=101)
    assert whole.shape == (100, 101, 4)
    assert (whole[50:, :, 3] == 255).all()
    assert (whole[:50, :, 3] == 0).all()
    assert (whole[50:, :50, 0] == 255).all()
    assert (whole[50:, 50:, 0] == 0).all()


def test_pixels_without_data_show_what_is_below():
    below, above = np.full((4, 4, 4), 255, np.uint8), np.zeros((4, 4, 4), np.uint8)
    flats = [MapImage(below, BOX), MapImage(above, BOX)]
    assert (mosaic(flats, BOX, side_px=4) == 255).all()
