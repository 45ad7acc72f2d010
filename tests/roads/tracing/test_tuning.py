import math

import numpy as np
import pytest

from roadseg.roads.tracing.tuning import (
    PARAMETERS,
    Parameter,
    Trial,
    best_of,
    gain,
    search,
)

START = {
    "threshold": 0.4,
    "max_gap_m": 20.0,
    "max_turn_deg": 60.0,
    "min_link_probability": 0.0,
    "min_spur_m": 10.0,
}
GOAL = {**START, "threshold": 0.27, "max_gap_m": 45.0, "min_spur_m": 22.0}


def hill(trials):
    """Score settings by how near they are to GOAL, in shares of the ranges."""

    def height(settings):
        off = [p.share(settings[p.name]) - p.share(GOAL[p.name]) for p in PARAMETERS]
        return 1 - sum(share**2 for share in off)

    return [np.array([height(settings)]) for settings in trials]


def climb(*, trials=40, start=START):
    return search(hill, start, trials=trials)


def trial(*scores):
    return Trial({}, np.array(scores, dtype=float))


def test_the_settings_given_are_tried_first():
    assert climb()[0].settings == START


@pytest.mark.parametrize("trials", [1, 2, 3, 4, 11, 40])
def test_as_many_settings_are_tried_as_allowed(trials):
    assert len(climb(trials=trials)) == trials


def test_nothing_is_tried_twice():
    tried = [tuple(one.settings.values()) for one in climb(trials=80)]
    assert len(set(tried)) == len(tried)


def test_all_values_are_floats_as_in_a_config():
    assert {type(value) for one in climb() for value in one.settings.values()} == {float}


def test_a_search_ends_when_there_is_nothing_left_to_try():
    assert 100 < len(climb(trials=5000)) <= 5000


def test_every_search_tries_the_same():
    assert [one.settings for one in climb()] == [one.settings for one in climb()]


def test_a_hill_is_climbed_most_of_the_way():
    tried = climb()
    assert 1 - best_of(tried).score < 0.4 * (1 - tried[0].score)


def test_trials_keep_to_the_ranges():
    values = {p: [one.settings[p.name] for one in climb()] for p in PARAMETERS}
    assert all(p.low <= min(found) and max(found) <= p.high for p, found in values.items())


def test_settings_given_beyond_a_range_are_tried_as_they_are():
    start = {**START, "max_gap_m": 300.0}
    assert climb(start=start)[0].settings == start


def test_values_lie_on_steps_of_their_range():
    gap = Parameter("max_gap_m", 0, 60, 5)
    assert [gap.at(share) for share in (-1, 0, 0.05, 0.5, 1, 2)] == [0, 0, 5, 30, 60, 60]


def test_areas_without_roads_do_not_raise_a_score():
    assert trial(0.2, math.nan, 0.4).score == pytest.approx(0.3)
    assert trial(math.nan).score == 1


def test_of_equal_trials_the_first_is_best():
    tried = [trial(0.5), trial(0.7), trial(0.7)]
    assert best_of(tried) is tried[1]


def test_gain_is_the_mean_change_over_areas():
    more, margin = gain(trial(0.1, 0.2, 0.6), trial(0.2, 0.4, 0.9))
    assert more == pytest.approx(0.2)
    assert margin == pytest.approx(1.96 * 0.1 / math.sqrt(3))


def test_a_gain_of_all_areas_alike_is_certain():
    assert gain(trial(0.1, 0.2), trial(0.2, 0.3)) == pytest.approx((0.1, 0))


def test_a_gain_of_one_area_may_be_chance():
    assert gain(trial(0.1), trial(0.9))[1] == math.inf


def test_an_area_that_becomes_rightly_empty_is_a_gain():
    assert gain(trial(0.0, 0.5, math.nan), trial(math.nan, 0.5, math.nan))[0] == 0.5
