import pytest
import torch

from roadseg.learn.training.validation import Scores, count, count_lines
from roadseg.roads.metrics.pixels import Counts


def test_iou_counts_the_valid_pixels_of_any_road():
    logits = torch.full((1, 8, 1, 5), -1.0)
    logits[0, 7, 0, [0, 1, 4]] = 1.0
    mask = torch.tensor([[[2, 0, 7, 0, 255]]], dtype=torch.uint8)
    valid, found, wrong, missed = count(logits, mask).tolist()
    assert (valid, found, wrong, missed) == (4, 1, 1, 1)


def test_a_broken_road_costs_the_centreline_that_is_missing():
    logits = torch.full((2, 8, 9, 20), -1.0)
    logits[:, 7, 3:6] = 1.0
    logits[0, 7, :, 5:15] = -1.0
    mask = torch.zeros(2, 9, 20, dtype=torch.uint8)
    mask[:, 3:6] = 2
    predicted, inside, reference, found = count_lines(logits, mask).tolist()
    assert predicted == inside < reference
    assert 8 <= reference - found <= 12


def test_centrelines_that_are_not_valid_do_not_count():
    logits = torch.ones(1, 8, 9, 20)
    assert count_lines(logits, torch.full((1, 9, 20), 255, dtype=torch.uint8)).tolist() == [0] * 4


@pytest.mark.parametrize(
    ("found", "wrong", "missed", "blind"),
    [(1, 0, 99, True), (2, 0, 98, False), (0, 2, 100, False), (0, 0, 0, False), (0, 0, 1, True)],
)
def test_a_network_is_blind_if_it_sees_less_than_a_fiftieth_of_the_roads(
    found, wrong, missed, blind
):
    assert Scores(0.0, Counts(found, wrong, missed)).is_almost_blind is blind
