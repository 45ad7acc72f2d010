"""Augmentation: deterministic, for any number of bands, true to the roads."""

import os
import subprocess
import sys

import numpy as np
import pytest

from roadseg.learn.training.augment import Augmenter, _turned


def marked_window(bands, size_px=32):
    """Draw a bright square on black; the mask marks the same pixels."""
    mask = np.zeros((size_px, size_px), dtype=np.uint8)
    mask[4:16, 6:14] = 5
    return np.repeat((mask > 0)[np.newaxis] * np.uint8(200), bands, axis=0), mask


def changes(bands, seeds):
    augment = Augmenter(bands)
    return [augment(*marked_window(bands), seed=seed) for seed in seeds]


@pytest.mark.parametrize("bands", [1, 3, 4, 8])
def test_any_number_of_bands_keeps_its_shape_and_type(bands):
    for image, mask in changes(bands, range(8)):
        assert (image.shape, image.dtype) == ((bands, 32, 32), np.uint8)
        assert (mask.shape, mask.dtype) == ((32, 32), np.uint8)


def test_the_same_seed_makes_the_same_changes_whatever_came_before():
    first = changes(3, [5])[0]
    second = changes(3, [1, 2, 5])[2]
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize(
    ("kinds", "images"),
    [((), {1}), (("turns",), {2, 8}), (("warp",), {3, 40}), (("colour",), {3, 40})],
)
def test_only_the_kinds_asked_for_change_a_window(kinds, images):
    augment = Augmenter(1, kinds)
    image, mask = marked_window(1)
    found = {augment(image, mask, seed=seed)[0].tobytes() for seed in range(40)}
    assert min(images) <= len(found) <= max(images)


def test_colours_leave_the_mask_alone():
    augment = Augmenter(3, ["colour"])
    image, mask = marked_window(3)
    assert all(np.array_equal(augment(image, mask, seed=seed)[1], mask) for seed in range(20))


def test_the_inputs_stay_unchanged():
    image, mask = marked_window(3)
    kept = image.copy(), mask.copy()
    for seed in range(10):
        Augmenter(3)(image, mask, seed=seed)
    assert np.array_equal(image, kept[0])
    assert np.array_equal(mask, kept[1])


def test_the_image_moves_with_its_mask():
    for image, mask in changes(1, range(30)):
        bright = image[0] > image[0].max() // 2
        known = mask != 255
        assert np.mean(bright[known] == (mask == 5)[known]) > 0.95


def test_all_turns_and_flips_of_a_square_are_there():
    square = np.arange(9, dtype=np.uint8).reshape(3, 3)
    expected = {np.rot90(s, turns).tobytes() for s in (square, square.T) for turns in range(4)}
    assert {_turned(square, number).tobytes() for number in range(8)} == expected
    assert len(expected) == 8


def test_masks_hold_only_old_values_and_ignore_what_they_cannot_know():
    values = [set(np.unique(mask)) for _, mask in changes(1, range(30))]
    assert all(found <= {0, 5, 255} for found in values)
    assert any(255 in found for found in values)


def test_an_image_is_mirrored_where_its_mask_is_unknown():
    augment = Augmenter(1)
    white = np.full((1, 32, 32), 100, dtype=np.uint8), np.zeros((32, 32), dtype=np.uint8)
    for seed in range(30):
        image, mask = augment(*white, seed=seed)
        assert np.ptp(image.astype(int)) == 0, f"seed {seed}: {np.unique(mask)}"


def test_the_changes_are_drawn_independently():
    turned = [
        not np.array_equal(m == 5, marked_window(1)[1] == 5) for _, m in changes(1, range(60))
    ]
    brightened = [image.max() != 200 for image, _ in changes(1, range(60))]
    both = {(a, b) for a, b in zip(turned, brightened, strict=True)}
    assert len(both) == 4


def test_importing_it_asks_no_server_and_warns_of_nothing():
    code = (
        "import socket\n"
        "def refuse(*_): raise AssertionError('network')\n"
        "socket.socket.connect = refuse\n"
        "from roadseg.learn.training.augment import Augmenter\n"
        "[Augmenter(bands) for bands in (1, 3, 8)]\n"
    )
    environment = {k: v for k, v in os.environ.items() if k != "NO_ALBUMENTATIONS_UPDATE"}
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, env=environment)
