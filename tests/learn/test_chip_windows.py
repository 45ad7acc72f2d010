"""Training and validation windows of chips: which pixels they show, and when again."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from roadseg.core.windows import Window
from roadseg.errors import DataError
from roadseg.learn import chips as chips_module
from roadseg.learn.chips import ShuffledEpoch, TrainingWindows, ValidationWindows


def training_windows(chips, *, window_px=64, per_chip=4, seed=0):
    return TrainingWindows(chips, window_px=window_px, windows_per_chip=per_chip, seed=seed)


def without_augmentation(windows):
    windows._augment = lambda image, mask, *, seed: (image, mask)  # noqa: ARG005, SLF001
    return windows


def same(a, b):
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def test_an_epoch_has_so_many_windows_of_each_chip(make_chips):
    windows = training_windows(make_chips(chip_px=64), per_chip=3)
    assert len(windows) == 12
    image, mask = windows[12]
    assert (image.shape, image.dtype) == ((3, 64, 64), torch.uint8)
    assert (mask.shape, mask.dtype) == ((64, 64), torch.uint8)


def test_a_window_depends_on_seed_and_index_alone(make_chips):
    chips = make_chips()
    first, second, other = (training_windows(chips, seed=seed) for seed in (0, 0, 1))
    assert [second[i] for i in (7, 2)]
    assert same(first[5], second[5])
    assert not same(first[5], other[5])


def test_each_epoch_shows_other_windows(make_chips):
    windows = training_windows(make_chips())
    assert not same(windows[4], windows[8])


@pytest.mark.parametrize("workers", [0, 2])
def test_worker_processes_show_the_same_windows(make_chips, workers):
    windows = training_windows(make_chips())
    order = ShuffledEpoch(len(windows), seed=0)
    images = torch.cat([i for i, _ in DataLoader(windows, 2, sampler=order, num_workers=workers)])
    assert torch.equal(images, torch.stack([windows[i][0] for i in order]))


def test_windows_can_travel_to_a_spawned_process(make_chips):
    windows = training_windows(make_chips())
    assert same(pickle.loads(pickle.dumps(windows))[4], windows[4])  # noqa: S301


def test_an_image_shows_the_scene_where_its_mask_says(make_chips):
    windows = without_augmentation(training_windows(make_chips()))
    for index in range(4):
        image, mask = windows[index]
        assert torch.equal(image[0] > 150, mask > 0)


def test_a_chip_never_shows_its_neighbours(make_chips):
    mask = np.repeat(np.array([[1, 2]], dtype=np.uint8), 64, axis=1).repeat(128, axis=0)
    left, right, *_ = make_chips(mask=mask, chip_px=64)
    for chip, value in ((left, 1), (right, 2)):
        windows = without_augmentation(training_windows([chip], window_px=32, per_chip=20))
        assert {v for i in range(20) for v in windows[i][1].unique().tolist()} == {value}


def share_with_road(chips):
    windows = without_augmentation(training_windows(chips, window_px=32, per_chip=200))
    return np.mean([bool(windows[i][1].any()) for i in range(200)])


def test_windows_with_a_road_are_preferred_but_not_the_only_ones(make_chips, monkeypatch):
    mask = np.zeros((128, 128), dtype=np.uint8)
    mask[40:60, 40:60] = 2  # in 28 % of all windows
    chips = make_chips(mask=mask)
    preferred = share_with_road(chips)
    monkeypatch.setattr(chips_module, "_DRAWS", 1)
    assert share_with_road(chips) == pytest.approx(0.28, abs=0.08)
    assert preferred == pytest.approx(0.56, abs=0.08)


def test_a_chip_smaller_than_a_window_is_filled_with_ignore(make_chips):
    windows = without_augmentation(training_windows(make_chips(size_px=40, chip_px=40)))
    image, mask = windows[0]
    assert (mask[40:] == 255).all()
    assert (mask[:, 40:] == 255).all()
    assert not (mask[:40, :40] == 255).any()
    assert not image[:, 40:].any()


def test_pixels_without_data_are_black_and_ignored(make_chips, monkeypatch):
    def half_valid(*place):
        values, valid = read_window(*place)
        valid[:32] = False
        return values, valid

    read_window = chips_module.read_window
    monkeypatch.setattr(chips_module, "read_window", half_valid)
    image, mask = without_augmentation(training_windows(make_chips(size_px=64, chip_px=64)))[0]
    assert not image[:, :32].any()
    assert (mask[:32] == 255).all()
    assert image[:, 32:].any()


def test_the_order_of_an_epoch_is_a_shuffle_that_repeats():
    order = ShuffledEpoch(10, seed=3)
    order.epoch = 2
    shuffled = list(order)
    assert sorted(shuffled) == list(range(20, 30))
    assert shuffled == list(order)
    order.epoch = 3
    assert [i - 10 for i in order] != shuffled


@pytest.mark.parametrize(("size_px", "windows"), [(64, 1), (96, 4), (128, 4), (40, 1)])
def test_validation_counts_each_pixel_of_a_chip_once(make_chips, size_px, windows):
    chips = make_chips(bands=1, size_px=size_px, chip_px=size_px)
    cover = ValidationWindows(chips, window_px=64)
    counted = sum(int((mask != 255).sum()) for _, mask in (cover[i] for i in range(len(cover))))
    assert (len(cover), counted) == (windows, size_px**2)


def test_validation_windows_are_the_scene_unchanged(make_chips):
    (chip,) = make_chips(bands=1)
    cover = ValidationWindows([chip], window_px=64)
    image, mask = cover[3]
    values, _ = chips_module.read_window(chip.scene, Window(64, 64, 64, 64))
    assert np.array_equal(image.numpy(), chip.scaling.apply(values))
    assert torch.equal(mask > 0, image[0] > 150)


def test_an_image_that_is_gone_is_a_data_error(make_chips):
    chips = make_chips()
    chips[0].scene.path.unlink()
    with pytest.raises(DataError, match=r"scene\.tif"):
        training_windows(chips)[0]


def test_an_image_of_another_type_than_prepared_is_a_data_error(make_chips):
    (chip,) = make_chips(bands=2)
    one_band = replace(chip, scene=replace(chip.scene, bands=(1,)))
    with pytest.raises(DataError, match=r"scene\.tif: got 1 bands of uint16, expected 2 of uint16"):
        ValidationWindows([one_band], window_px=64)[0]


def test_each_scene_has_its_own_order_of_bands(make_chips):
    (chip,) = make_chips(bands=2)
    turned = replace(chip, scene=replace(chip.scene, bands=(2, 1)))
    first, second = (ValidationWindows([c], window_px=64)[0][0] for c in (chip, turned))
    assert torch.equal(second, first.flip(0))
    assert not torch.equal(second, first)
