"""An engine over a scene: probabilities of the whole, nothing where there is no data."""

import threading

import numpy as np
import pytest
import torch
from torch import nn

from roadseg.errors import RoadsegError
from roadseg.learn.inference import sliding_window
from roadseg.learn.inference.engines import Engine
from roadseg.learn.inference.sliding_window import (
    count_windows,
    predict_parts,
    whole_of,
)

CLASSES = 3
OPTIONS = {"classes": CLASSES, "overlap_px": 8}


def reader_of(scene, valid=None):
    """Read windows inside of a scene (row, col)."""
    known = np.ones_like(scene, dtype=bool) if valid is None else valid

    def read(window):
        row, col, height, width = window
        inside = slice(row, row + height), slice(col, col + width)
        pixels = scene[inside]
        assert pixels.shape == (height, width)
        return pixels[np.newaxis], known[inside]

    return read


def engine_of(network, *, window_px=32, batch_size=3, channels_last=True):
    """Return an engine of a network, which notes how many windows it was shown at once."""
    memory = torch.channels_last if channels_last else torch.contiguous_format

    @torch.inference_mode()
    def run(windows):
        run.batches.append(tuple(windows.shape))
        return network(windows.float() / 255).contiguous(memory_format=memory)

    run.batches = []
    return Engine("eager", "for the test", batch_size, window_px, run)


def echo(images):
    """Stand for a network: the pixel itself is the probability of every class."""
    return images.expand(-1, CLASSES, -1, -1)


@pytest.fixture(scope="module")
def surroundings():
    """Give a network in which pixels count that are up to 4 px away."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, CLASSES, 9, padding=4), nn.Sigmoid())


def scene_of(height, width):
    return np.random.default_rng(0).integers(1, 255, (height, width), dtype=np.uint8)


def predict(engine, scene, valid=None, **changes):
    """Return the probabilities of a scene in bytes, (class, row, col)."""
    height, width = scene.shape
    parts = predict_parts(
        engine, reader_of(scene, valid), height=height, width=width, **OPTIONS | changes
    )
    return whole_of(parts, classes=CLASSES, height=height, width=width)[0]


def known_of(engine, scene, valid, **changes):
    """Return which pixels of a scene have data."""
    height, width = scene.shape
    known = np.zeros((height, width), dtype=bool)
    sides = {"height": height, "width": width}
    for part in predict_parts(engine, reader_of(scene, valid), **sides, **OPTIONS | changes):
        rows, cols = part.known.shape
        area = (slice(part.start, part.start + rows), slice(part.col, part.col + cols))
        assert not known[area].any()
        known[area] = part.known
    return known


@pytest.mark.parametrize("shape", [(32, 32), (33, 70), (100, 40), (20, 90), (9, 9)])
@pytest.mark.parametrize("overlap_px", [0, 8, 16, 31])
def test_a_scene_of_any_size_gets_its_probabilities(shape, overlap_px):
    scene = scene_of(*shape)
    found = predict(engine_of(echo), scene, overlap_px=overlap_px)
    assert (found.shape, found.dtype) == ((CLASSES, *shape), np.uint8)
    assert np.array_equal(found[2], scene)


def test_beyond_a_scene_a_window_mirrors_it():
    seen = []
    predict(engine_of(lambda images: seen.append(images) or echo(images)), scene_of(20, 32))
    assert torch.equal(seen[0][..., 20:, :], seen[0][..., 8:20, :].flip(2))


def test_parts_come_from_left_to_right_and_top_to_bottom(surroundings):
    reader = reader_of(scene_of(75, 140))
    parts = predict_parts(engine_of(surroundings), reader, height=75, width=140, **OPTIONS)
    places = [(part.start, part.col) for part in parts]
    assert places == sorted(places)
    assert len(places) == count_windows(75, 140, window_px=32, overlap_px=8)


@pytest.mark.parametrize("overlap_px", [0, 8, 16, 25])
@pytest.mark.parametrize(
    "rows", [range(40), range(40, 41), range(30, 60), range(39, 107), range(107, 150)]
)
def test_rows_do_not_depend_on_the_rows_asked_for(surroundings, rows, overlap_px):
    scene, valid = scene_of(150, 90), np.random.default_rng(2).random((150, 90)) > 0.3
    valid[60:110, 20:80] = False
    engine = engine_of(surroundings)
    part = slice(rows.start, rows.stop)
    some = predict(engine, scene, valid, rows=rows, overlap_px=overlap_px)
    everything = predict(engine, scene, valid, overlap_px=overlap_px)
    assert np.array_equal(some[:, part], everything[:, part])
    known = known_of(engine, scene, valid, rows=rows, overlap_px=overlap_px)
    assert np.array_equal(known[part], valid[part])


def test_pixels_without_data_have_probability_zero():
    valid = np.random.default_rng(1).random((60, 50)) > 0.4
    scene = scene_of(60, 50)
    assert np.array_equal(known_of(engine_of(echo), scene, valid), valid)
    assert np.array_equal(predict(engine_of(echo), scene, valid)[0] > 0, valid)


def test_windows_without_data_are_not_shown_to_the_network():
    valid = np.zeros((32, 160), dtype=bool)
    valid[:, 70:90] = True
    engine = engine_of(echo, batch_size=1)
    found = predict(engine, scene_of(32, 160), valid, overlap_px=0)
    assert len(engine.run.batches) == 1
    assert np.array_equal(found[0] > 0, valid)


def test_a_row_that_ends_without_data_leaves_nothing_to_the_next():
    scene, valid = scene_of(80, 56), np.ones((80, 56), dtype=bool)
    valid[:, 24:] = False  # The second window of each row.
    found = predict(engine_of(echo), scene, valid)
    assert np.array_equal(found[0][valid], scene[valid])


def test_a_window_without_data_leaves_nothing_to_the_rows_below_it():
    # Windows start at 0, 32, 96 and 160; the second one has no data.
    scene, valid = scene_of(288, 128), np.ones((288, 128), dtype=bool)
    valid[32:160] = False
    found = predict(engine_of(echo, window_px=128), scene, valid, overlap_px=64)
    assert np.array_equal(found[0], np.where(valid, scene, 0))


@pytest.mark.parametrize(("windows", "batches"), [(6, 2), (7, 3)])
def test_the_network_sees_batches_of_one_shape(windows, batches):
    engine = engine_of(echo)
    scene = scene_of(32, 32 * windows)
    assert np.array_equal(predict(engine, scene, overlap_px=0)[0], scene)
    assert engine.run.batches == [(3, 1, 32, 32)] * batches


def test_windows_are_read_ahead_but_not_far():
    scene, read = scene_of(32, 32 * 50), []

    def reader(window):
        read.append(threading.current_thread().name)
        return reader_of(scene)(window)

    parts = predict_parts(
        engine_of(echo), reader, height=32, width=32 * 50, classes=CLASSES, overlap_px=0
    )
    next(parts)
    parts.close()
    assert 3 < len(read) <= 18
    assert {name.split("_")[0] for name in read} == {"reader"}


def test_several_readers_keep_the_order(monkeypatch):
    monkeypatch.setattr(sliding_window.torch, "get_num_threads", lambda: 16)
    scene = scene_of(150, 170)
    assert np.array_equal(predict(engine_of(echo), scene)[1], scene)


def test_what_a_reader_raises_is_raised():
    def fail(_window):
        raise OSError("unreadable")

    parts = predict_parts(engine_of(echo), fail, height=50, width=50, **OPTIONS)
    with pytest.raises(OSError, match="unreadable"):
        next(parts)


def test_gradients_are_as_before_between_the_rows(surroundings):
    reader = reader_of(scene_of(70, 40))
    for _ in predict_parts(engine_of(surroundings), reader, height=70, width=40, **OPTIONS):
        assert torch.is_grad_enabled()
        assert not torch.is_inference_mode_enabled()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 7.0, -3.0])
def test_what_are_no_probabilities_is_an_error_and_no_map(value):
    engine = engine_of(lambda images: torch.full_like(echo(images), value))
    with pytest.raises(RoadsegError, match="the network returned invalid probabilities"):
        predict(engine, scene_of(64, 64))


def test_one_value_that_is_no_number_is_found_wherever_it_lies():
    def network(images):
        found = echo(images).clone()
        found[-1, 1, 3, 4] = torch.nan
        return found

    engine = engine_of(network, channels_last=False)
    parts = predict_parts(engine, reader_of(scene_of(32, 90)), **OPTIONS, height=32, width=90)
    with pytest.raises(RoadsegError, match="invalid probabilities"):
        list(parts)


def test_it_is_found_in_a_window_above_the_rows_that_are_wanted():
    def network(images):
        found = echo(images).clone()
        if len(engine.run.batches) == 1:
            found[0, 1, 30, 4] = torch.nan
        return found

    engine = engine_of(network, batch_size=1, channels_last=False)
    place = {"height": 58, "width": 32, "rows": range(28, 58)}
    with pytest.raises(RoadsegError, match="invalid probabilities"):
        list(predict_parts(engine, reader_of(scene_of(58, 32)), **OPTIONS, **place))


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_none_and_certain_are_probabilities(value):
    engine = engine_of(lambda images: torch.full_like(echo(images), value))
    assert (predict(engine, scene_of(64, 64)) == 255 * value).all()
