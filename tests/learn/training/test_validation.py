import pytest
import torch

from roadseg.learn.training.validation import Scores, count, thresholds_in
from roadseg.roads.metrics.pixels import Counts, Histogram
from tests.drawing import histogram


def seen(found, wrong, missed):
    """Return pixels of which so many are right, wrong and missed at probability 0.5."""
    return histogram({204: wrong}, {204: found, 51: missed})


def test_valid_pixels_are_counted_by_their_probability_of_any_road():
    logits = torch.full((1, 8, 1, 5), -torch.inf)
    logits[0, 7, 0, [0, 1, 4]] = torch.tensor([torch.inf, 0.0, 1.0])
    mask = torch.tensor([[[2, 0, 7, 0, 255]]], dtype=torch.uint8)
    background, roads = count(logits, mask)[0]
    assert background.nonzero().tolist() == [[0], [128]]
    assert roads.nonzero().tolist() == [[0], [255]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_the_middle_is_where_the_logit_is_zero(dtype):
    logits = torch.tensor([-0.02, 0.02], dtype=dtype).view(1, 1, 1, 2)
    counts = count(logits, torch.ones(1, 1, 2, dtype=torch.uint8))[0].numpy()
    assert Histogram(*counts).at(0.5) == Counts(1, 0, 1)


def test_logits_that_are_no_numbers_are_counted_somewhere():
    assert count(torch.full((1, 8, 2, 2), torch.nan), torch.ones(1, 2, 2)).sum() == 4


def test_pixels_are_counted_for_each_window():
    logits = torch.full((2, 8, 1, 2), 1.0)
    masks = torch.tensor([[[1, 0]], [[255, 3]]], dtype=torch.uint8)
    assert count(logits, masks).sum(dim=2).tolist() == [[1, 1], [0, 1]]


def test_sets_have_columns_of_their_own():
    by_set = {"a": seen(1, 0, 0), "b": seen(0, 1, 2)}
    columns = Scores(0.5, seen(1, 1, 2), by_set=by_set).columns()
    assert (columns["val_iou"], columns["val_iou_a"], columns["val_iou_b"]) == (0.25, 1.0, 0.0)


def test_the_best_threshold_and_its_iou_are_columns_with_one_for_each_set():
    by_set = {"a": histogram({50: 90}, {60: 10}), "b": histogram({180: 90}, {200: 10})}
    columns = Scores(0.5, by_set["a"] + by_set["b"], by_set=by_set).columns()
    assert (columns["threshold"], columns["val_best_iou"]) == (0.74, 0.5)
    assert 50 < columns["threshold_a"] * 255 <= 60
    assert 180 < columns["threshold_b"] * 255 <= 200


def test_a_checkpoint_says_the_thresholds_of_its_epoch():
    assert thresholds_in({"val_iou": 0.5}) == {}
    assert thresholds_in({"threshold": 0.6}) == {"threshold": 0.6}
    told = thresholds_in({"threshold": 0.6, "threshold_a b": 0.5, "val_iou_a b": 0.1})
    assert told == {"threshold": 0.6, "thresholds": {"a b": 0.5}}
