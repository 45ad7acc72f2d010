"""The learning rate of every step."""

from itertools import pairwise

import pytest

from roadseg.learn.options import TrainOptions
from roadseg.learn.training.trainer import learning_rate

PLAIN = {
    "epochs": 30,
    "learning_rate": 0.5,
    "schedule": "step",
    "warmup_steps": 0,
}


def rate(step, **changes):
    return learning_rate(step, TrainOptions(**PLAIN | changes), steps_per_epoch=10)


@pytest.mark.parametrize(("step", "expected"), [(0, 0.5), (199, 0.5), (200, 0.1), (249, 0.1)])
def test_the_rate_drops_after_the_last_step_of_a_milestone(step, expected):
    assert rate(step) == pytest.approx(expected)


def test_each_milestone_drops_it_once_more():
    assert rate(250) == pytest.approx(0.02)


@pytest.mark.parametrize(("step", "expected"), [(0, 0.125), (2, 0.375), (3, 0.5), (4, 0.5)])
def test_the_warm_up_rises_in_equal_parts_to_the_peak(step, expected):
    assert rate(step, warmup_steps=4) == pytest.approx(expected)


def test_a_milestone_counts_in_the_warm_up_too():
    assert rate(204, warmup_steps=500) == pytest.approx(0.5 * 0.2 * 205 / 500)


@pytest.mark.parametrize(("step", "expected"), [(0, 0.5), (150, 0.25), (300, 0.0), (301, 0.0)])
def test_the_cosine_passes_half_the_peak_halfway_and_ends_at_zero(step, expected):
    assert rate(step, schedule="cosine") == pytest.approx(expected)


def test_no_step_of_a_cosine_is_wasted_at_zero():
    assert rate(299, schedule="cosine") > 0


def test_the_cosine_starts_at_the_peak_when_the_warm_up_is_over():
    steps = [rate(step, schedule="cosine", warmup_steps=10) for step in range(8, 13)]
    assert steps[1] == steps[2] == 0.5
    assert steps[0] < 0.5 > steps[3] > steps[4]


def test_a_warm_up_longer_than_the_training_only_rises():
    steps = [rate(step, schedule="cosine", warmup_steps=400) for step in range(300)]
    assert all(later > earlier for earlier, later in pairwise(steps))


def test_a_prolonged_cosine_has_other_rates_and_a_prolonged_step_schedule_has_not():
    assert rate(5, schedule="cosine", epochs=8) != rate(5, schedule="cosine")
    assert rate(5, epochs=8) == rate(5)
