import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roadseg.errors import DataError
from roadseg.raster.images import read_grid
from roadseg.raster.windows import Window
from roadseg.roads.masks.fusion import FusedImage, fuse, image_path, images_of, images_tags

ALL = np.ones((1, 1), dtype=bool)


def bands(road, *bins):
    """Return one pixel: its speed bins, then any road."""
    return np.array([*bins, road], dtype=np.uint8).reshape(-1, 1, 1)


def road_of(*values):
    fused, _ = fuse([(bands(value), ALL) for value in values])
    return int(fused[-1, 0, 0])


@given(st.integers(0, 255), st.integers(1, 5))
def test_images_that_agree_say_what_each_of_them_says(value, number):
    assert road_of(*[value] * number) == value


def test_a_sure_image_weighs_more_than_one_in_doubt():
    assert road_of(255, 100) > (255 + 100) // 2
    assert road_of(0, 155) < (0 + 155) // 2


def test_sure_images_that_disagree_leave_it_open():
    assert road_of(0, 255) in (127, 128)


def test_two_images_outvote_a_third_one():
    assert road_of(250, 250, 5) > 128 > road_of(250, 5, 5)


def test_an_image_without_data_has_no_say():
    half = np.array([[True, False]])
    whole_image, half_image = np.full((1, 1, 2), 200, np.uint8), np.uint8(200) * half[np.newaxis]
    fused, known = fuse([(whole_image, half | True), (half_image, half)])
    assert (fused.tolist(), known.tolist()) == ([[[200, 200]]], [[True, True]])


def test_where_no_image_has_data_there_is_none():
    fused, known = fuse([(bands(200, 100), ~ALL), (bands(90, 90), ~ALL)])
    assert (fused.tolist(), known[0, 0]) == (bands(0, 0).tolist(), False)


def test_speed_bins_share_the_fused_probability():
    fused, _ = fuse([(bands(240, 240, 0), ALL), (bands(240, 0, 240), ALL)])
    assert fused[:, 0, 0].tolist() == [120, 120, 240]


@pytest.fixture
def image(write_raster):
    """Return the raster of an image: a dark one with a bright column."""
    values = np.zeros((2, 40, 40), dtype=np.uint8)
    values[:, :, 20] = 200
    return write_raster(values)


def test_an_image_is_moved_back_by_its_shift(image):
    grid = read_grid(image)
    with FusedImage(image, (0.0, 3.0)).opened(grid) as moved:
        road, known = moved.read_road(Window(10, 0, 1, 40))
    assert road[0].argmax() == 17
    assert (known[0, :36].all(), known[0, 39]) == (True, False)


def test_half_a_pixel_is_shared_by_two(image):
    with FusedImage(image, (0.0, 0.5)).opened(read_grid(image)) as moved:
        road, _ = moved.read_road(Window(10, 0, 1, 40))
    assert road[0, 19:21].tolist() == [100, 100]


def test_an_image_of_other_pixels_is_seen_on_those_of_the_grid(image):
    grid = read_grid(image).resampled(2.0)
    with FusedImage(image).opened(grid) as seen:
        values, known = seen.read_all(Window(0, 0, 20, 20))
    assert (values.shape, values[-1, 10].argmax(), known.all()) == ((2, 20, 20), 10, True)


def test_an_image_that_is_gone_is_named(image):
    grid = read_grid(image)
    image.unlink()
    with pytest.raises(DataError, match=r"scene\.tif does not exist.* keep the folder images"):
        FusedImage(image).opened(grid).__enter__()


def test_a_raster_names_its_images(tmp_path):
    images = (FusedImage(image_path(tmp_path, "a"), (0.5, -1.25)),)
    assert images_of(tmp_path / "place.tif", images_tags(images)) == images


def test_a_raster_of_one_image_names_none(tmp_path):
    assert images_of(tmp_path / "place.tif", {}) == ()


@pytest.mark.parametrize(
    "text", ["no list", "[1]", '[["a", 0]]', '[["../a", 0, 0]]', '[["a", NaN, 0]]']
)
def test_a_damaged_tag_is_refused(tmp_path, text):
    with pytest.raises(
        DataError, match=r"place\.tif: the tag ROADSEG_IMAGES is .* predict it again"
    ):
        images_of(tmp_path / "place.tif", {"ROADSEG_IMAGES": text})
