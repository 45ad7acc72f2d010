"""Training and validation windows of chips: which pixels they show, and when again."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from roadseg.errors import DataError
from roadseg.learn.hardware.distributed import Parallel
from roadseg.learn.options import TrainOptions
from roadseg.learn.training import samples as chips_module
from roadseg.learn.training.samples import (
    TrainingWindows,
    ValidationWindows,
    epoch_batches,
    validation_batches,
)
from roadseg.raster.windows import Window


def training_windows(chips, *, window_px=64, per_chip=4, **options):
    options |= {"window_px": window_px, "windows_per_chip": per_chip}
    return TrainingWindows(chips, TrainOptions(**options))


def without_augmentation(windows):
    windows._augment = lambda image, mask, *, seed: (image, mask)  # noqa: ARG005, SLF001
    return windows


def same(a, b):
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


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
    order = epoch_batches(len(windows), 1, seed=0, batch_size=2, parallel=Parallel())
    loader = DataLoader(windows, batch_sampler=order, num_workers=workers)
    images = torch.cat([i for i, _ in loader])
    assert torch.equal(images, torch.stack([windows[i][0] for batch in order for i in batch]))


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


def sparse_mask():
    mask = np.zeros((160, 160), dtype=np.uint8)
    mask[70:74, 70:74] = 2
    mask[150:, 150:] = 255  # is no road
    return mask


@pytest.fixture
def drawn(monkeypatch):
    """Give a function that returns places of windows of the first chip."""

    def draw(chips, *, window_px, road_share, windows=3000):
        monkeypatch.setattr(chips_module, "_ROAD_SHARE", road_share)
        every = training_windows(chips, window_px=window_px)
        return [every._draw(0, np.random.default_rng(i)) for i in range(windows)]  # noqa: SLF001

    return draw


def shown(mask, area):
    row, col, height, width = area
    return set(np.unique(mask[row : row + height, col : col + width]).tolist())


def corners(areas):
    return {(area.row, area.col) for area in areas}


@pytest.mark.parametrize("road_share", [0.0, 0.5, 1.0])
def test_so_many_windows_are_placed_on_a_road(make_chips, drawn, road_share):
    mask = sparse_mask()
    chips = make_chips(mask=mask, size_px=160, chip_px=160)
    by_chance = (35 / 129) ** 2
    areas = drawn(chips, window_px=32, road_share=road_share)
    found = np.mean([2 in shown(mask, area) for area in areas])
    assert found == pytest.approx(road_share + (1 - road_share) * by_chance, abs=0.03)


def test_a_window_on_a_road_lies_anywhere_around_its_cell(make_chips, drawn):
    mask = np.zeros((100, 100), dtype=np.uint8)
    mask[40, 99] = 1  # in rows 32 to 63 and columns 96 to 99
    chips = make_chips(mask=mask, size_px=100, chip_px=100)
    found = corners(drawn(chips, window_px=64, road_share=1.0))
    assert {row for row, _ in found} == set(range(33))
    assert {col for _, col in found} == {36}


def test_each_place_of_a_chip_can_be_drawn(make_chips, drawn):
    mask = np.zeros((67, 67), dtype=np.uint8)
    mask[0, 0] = 1
    chips = make_chips(mask=mask, size_px=67, chip_px=67)
    assert len(corners(drawn(chips, window_px=64, road_share=0.75))) == 4 * 4


def test_all_roads_are_as_likely(make_chips, drawn):
    mask = np.zeros((128, 128), dtype=np.uint8)
    mask[:32, :32] = 1  # a full cell
    mask[100, 100] = 2  # one pixel
    areas = drawn(make_chips(mask=mask), window_px=32, road_share=1.0)
    assert np.mean([1 in shown(mask, area) for area in areas]) == pytest.approx(0.5, abs=0.06)


def test_a_chip_without_a_road_is_drawn_from_anywhere(make_chips, drawn):
    chips = make_chips(mask=np.zeros((66, 66), dtype=np.uint8), size_px=66, chip_px=66)
    assert len(corners(drawn(chips, window_px=64, road_share=1.0))) == 9


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


def flat(batches):
    return [index for batch in batches for index in batch]


def test_the_order_of_an_epoch_is_a_shuffle_that_repeats():
    shuffled, again, other = (
        flat(epoch_batches(10, epoch, seed=3, batch_size=2, parallel=Parallel()))
        for epoch in (2, 2, 3)
    )
    assert sorted(shuffled) == list(range(20, 30))
    assert shuffled == again
    assert [i - 10 for i in other] != shuffled


@pytest.mark.parametrize(("windows", "batches"), [(23, 2), (24, 3), (25, 3)])
@pytest.mark.parametrize(("ranks", "parts"), [(2, {4}), (3, {2, 3}), (5, {1, 2}), (8, {1})])
def test_processes_share_every_batch_of_one_evenly(windows, batches, ranks, parts):
    batch = partial(epoch_batches, windows, 1, seed=1, batch_size=8)
    alone = batch(parallel=Parallel())
    shared = [batch(parallel=Parallel(rank, ranks)) for rank in range(ranks)]
    assert [flat(each) for each in zip(*shared, strict=True)] == alone
    assert {len(order) for order in shared} == {batches}
    assert {len(part) for order in shared for part in order} == parts


@pytest.mark.parametrize(("windows", "batches"), [(8, 2), (9, 3), (12, 3), (1, 1)])
def test_validation_is_dealt_in_equally_many_batches(windows, batches):
    both = Parallel(0, 2), Parallel(1, 2)
    shared = [validation_batches(windows, batch_size=4, parallel=each) for each in both]
    assert {len(order) for order in shared} == {batches}
    assert {len(batch) for order in shared for batch in order} == {2}
    dealt = flat(flat(zip(*shared, strict=True)))
    assert dealt == [*range(windows), *[-1] * (4 * batches - windows)]


def test_the_empty_validation_window_counts_nowhere(make_chips):
    cover = ValidationWindows(make_chips(bands=2), window_px=64)
    image, mask = cover[-1]
    assert [t.shape for t in (image, mask)] == [t.shape for t in cover[0]]
    assert (mask == 255).all()
    assert not image.any()


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


def chips_of(chips, weights, *, per_chip, epochs, seed=0):
    """Give the number of the chip of every window of some epochs, a list for each."""
    weighted = [replace(chip, weight=weight) for chip, weight in zip(chips, weights, strict=False)]
    windows = training_windows(weighted, per_chip=per_chip, seed=seed)
    size = len(windows)
    return [[windows.chip_of(epoch * size + i) for i in range(size)] for epoch in epochs]


def test_chips_have_windows_in_proportion_to_their_weights(make_chips):
    (numbers,) = chips_of(make_chips(chip_px=64), [3, 1, 1, 2.5], per_chip=4, epochs=[1])
    assert np.bincount(numbers).tolist() == [12, 4, 4, 10]


def test_equal_weights_give_every_chip_its_windows_in_turn(make_chips):
    (numbers,) = chips_of(make_chips(chip_px=64), [1] * 4, per_chip=3, epochs=[7])
    assert numbers == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]


@pytest.mark.parametrize(("per_chip", "windows"), [(0.001, 1), (0.5, 4), (1.5, 11)])
def test_an_epoch_has_windows_by_the_sum_of_weights(make_chips, per_chip, windows):
    (numbers,) = chips_of(make_chips(chip_px=64), [3, 1, 1, 2.4], per_chip=per_chip, epochs=[1])
    assert len(numbers) == windows


def test_short_epochs_go_through_all_chips_before_any_comes_again(make_chips):
    chips = make_chips(chip_px=40)
    epochs = chips_of(chips, [1] * 16, per_chip=0.25, epochs=range(1, 9))
    first, second = ([n for epoch in four for n in epoch] for four in (epochs[:4], epochs[4:]))
    assert [len(epoch) for epoch in epochs] == [4] * 8
    assert sorted(first) == sorted(second) == list(range(16))
    assert first != second


def test_the_order_of_short_epochs_depends_on_the_seed(make_chips):
    chips = make_chips(chip_px=40)
    options = {"weights": [1] * len(chips), "per_chip": 0.5, "epochs": [1]}
    assert chips_of(chips, **options) == chips_of(chips, **options)
    assert chips_of(chips, **options) != chips_of(chips, **options, seed=1)


@pytest.mark.parametrize("per_chip", [0.5, 1])
def test_light_chips_come_in_some_epochs_each(make_chips, per_chip):
    epochs = chips_of(make_chips(chip_px=64), [0.25] * 4, per_chip=per_chip, epochs=range(1, 41))
    counts = np.bincount([number for epoch in epochs for number in epoch])
    assert all(len(numbers) == 1 for numbers in epochs)
    assert counts.min() >= 9
