import pytest
import torch

from roadseg.core.pixel_metrics import Counts
from roadseg.learn.validation import Scores, count


def test_iou_counts_the_valid_pixels_of_any_road():
    logits = torch.full((1, 8, 1, 5), -1.0)
    logits[0, 7, 0, [0, 1, 4]] = 1.0
    mask = torch.tensor([[[2, 0, 7, 0, 255]]], dtype=torch.uint8)
    valid, found, wrong, missed = count(logits, mask).tolist()
    assert (valid, found, wrong, missed) == (4, 1, 1, 1)


@pytest.mark.parametrize(
    ("found", "wrong", "missed", "blind"),
    [(1, 0, 99, True), (2, 0, 98, False), (0, 2, 100, False), (0, 0, 0, False), (0, 0, 1, True)],
)
def test_a_network_is_blind_if_it_sees_less_than_a_fiftieth_of_the_roads(
    found, wrong, missed, blind
):
    assert Scores(0.0, Counts(found, wrong, missed)).is_almost_blind is blind
