import json

import numpy as np
import pytest

from roadseg.errors import DataError, MissingInputError
from roadseg.raster.scaling import Scaling, fit_scaling, read_scaling, stretch_to, write_scaling


def ramp(bands=3, dtype=np.uint16, stop=1001):
    """Return pixels of each band that rise from 0 in steps of one."""
    return np.tile(np.arange(stop), (bands, 1)).astype(dtype)


def test_a_scaling_is_stretched_to_another_type():
    known = Scaling({"uint8": ((0.0, 255.0),) * 3}, mean=(90.0,) * 3, std=(20.0,) * 3)
    stretched = stretch_to(known, ramp())
    assert stretched.ranges == {**known.ranges, "uint16": ((20, 980),) * 3}
    assert (stretched.mean, stretched.std) == (known.mean, known.std)


def test_uint8_is_left_as_it_is():
    pixels = ramp(dtype=np.uint8, stop=200)
    assert np.array_equal(fit_scaling([pixels]).apply(pixels), pixels)


@pytest.mark.parametrize(
    ("value", "scaled"),
    [(0, 0), (20, 0), (21, 0), (22, 1), (500, 128), (978, 254), (980, 255), (65535, 255)],
)
def test_values_between_the_percentiles_are_rounded_and_others_clipped(value, scaled):
    scaling = fit_scaling([ramp(bands=1)])
    assert scaling.apply(np.full((1, 2, 2), value, np.uint16)).tolist() == [[[scaled] * 2] * 2]


def test_scenes_of_one_type_share_their_scaling():
    dark, bright = ramp(bands=1, stop=501), ramp(bands=1, stop=500) + np.uint16(501)
    assert fit_scaling([dark, bright]).ranges == {"uint16": ((20, 980),)}


def test_every_band_has_its_own_range():
    bands = np.stack([np.arange(101), np.arange(101) * 10]).astype(np.uint16)
    assert fit_scaling([bands]).ranges["uint16"] == ((2, 98), (20, 980))


def test_a_dataset_of_two_types_scales_each_by_its_own_range():
    scaling = fit_scaling([ramp(dtype=np.uint8, stop=256), ramp()])
    assert scaling.apply(np.full((3, 1), 100, np.uint8)).tolist() == [[100]] * 3
    assert scaling.apply(np.full((3, 1), 1000, np.uint16)).tolist() == [[255]] * 3


def test_mean_and_deviation_are_those_of_all_scaled_pixels():
    pixels = [np.array([[0, 100]], np.uint8), np.array([[0, 1000]], np.uint16)]
    scaling = fit_scaling(pixels)
    assert scaling.mean == (pytest.approx(np.mean([0, 100, 0, 255])),)
    assert scaling.std == (pytest.approx(np.std([0, 100, 0, 255])),)


def test_nan_is_left_out_of_range_and_statistics():
    scaling = fit_scaling([np.array([[np.nan, 10, 20]], np.float32)])
    assert np.allclose(scaling.ranges["float32"], [(10.2, 19.8)])
    assert (scaling.mean, scaling.std) == ((127.5,), (127.5,))


def test_nan_becomes_0():
    scaling = Scaling({"float32": ((10.0, 20.0),)}, (0.0,), (1.0,))
    assert scaling.apply(np.array([[np.nan, 20]], np.float32)).tolist() == [[0, 255]]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_fills_pixels_without_data_becomes_0_without_a_warning(dtype):
    scaling = fit_scaling([ramp(dtype=dtype)])
    fill = np.full((3, 1, 1), np.finfo(dtype).min)
    assert (scaling.apply(fill) == 0).all()


def test_a_constant_band_is_scaled_without_a_division_by_0():
    scaling = fit_scaling([np.full((1, 9), 300, np.uint16)])
    assert scaling.apply(np.full((1, 9), 300, np.uint16)).tolist() == [[0] * 9]
    assert scaling.std == (1.0,)


def test_a_band_of_one_value_but_for_rounding_is_scaled_as_a_constant_one():
    pixels = np.array([[0.1, np.nextafter(0.1, 1)]])
    assert fit_scaling([pixels]).apply(pixels).tolist() == [[0, 0]]


def test_pixels_are_scaled_without_changing_them():
    pixels = ramp()
    fit_scaling([pixels]).apply(pixels)
    assert np.array_equal(pixels, ramp())


@pytest.mark.parametrize(
    "bands", [np.zeros((2, 4, 4), np.uint16), np.zeros((3, 4, 4), np.uint8)], ids=["bands", "type"]
)
def test_other_bands_than_those_of_the_dataset_are_refused(bands):
    scaling = fit_scaling([ramp()])
    with pytest.raises(ValueError, match=f"{bands.dtype}, expected 3 of uint16"):
        scaling.apply(bands)


def test_a_dataset_without_a_valid_pixel_is_refused():
    with pytest.raises(ValueError, match="no image contains a valid pixel"):
        fit_scaling([np.zeros((3, 0), np.uint8)])


def test_a_band_of_nan_alone_is_refused():
    with pytest.raises(ValueError, match="a band contains no valid pixel"):
        fit_scaling([np.full((1, 5), np.nan, np.float32)])


SCALING = Scaling({"uint16": ((0.0, 900.0), (50.0, 800.0))}, (100.0, 90.0), (50.0, 40.0))


@pytest.fixture
def path(tmp_path):
    write_scaling(tmp_path / "scaling.json", SCALING)
    return tmp_path / "scaling.json"


def test_a_scaling_written_comes_back(path):
    assert read_scaling(path) == SCALING


FAULTS = {
    "a mean of text": ({"mean": ["100", 90]}, "mean.0: expected a valid number, got '100'"),
    "another number of bands": ({"std": [50]}, "expected the same number of bands everywhere"),
    "no list": ({"mean": None}, "mean: expected a valid array, got None"),
}


@pytest.mark.parametrize(("changes", "told"), FAULTS.values(), ids=FAULTS)
def test_what_no_scaling_is_is_refused(path, changes, told):
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(
        DataError, match=rf"scaling\.json: .*{told}.*; run `roadseg prepare --force`"
    ):
        read_scaling(path)


def test_the_stage_that_makes_a_missing_scaling_is_named(tmp_path):
    with pytest.raises(MissingInputError, match=r"s\.json does not exist; run `roadseg prepare`"):
        read_scaling(tmp_path / "s.json")
