"""A timetable fits epochs and windows into the minutes there are."""

import json
import re

import pytest

from roadseg.errors import CheckpointError, ConfigError
from roadseg.learn.options import TrainOptions
from roadseg.learn.training import timetable
from roadseg.learn.training.rehearsal import START_S, Pace
from roadseg.learn.training.timetable import PLANNED, fit_minutes, planned_before


def fit(minutes=12, *, held_out=160, weight=200, window_s=0.1, **options):
    options = TrainOptions(minutes=minutes, batch_size=8, **options)
    pace = Pace(window_s, window_s / 4)
    return fit_minutes(options, pace, weight=weight, held_out=held_out), pace


def windows_of(options, weight=200):
    return round(options.windows_per_chip * weight)


def seconds_of(options, pace, held_out=160, weight=200):
    checked = options.validation_windows or held_out
    epoch_s = pace.epoch_seconds(windows_of(options, weight), checked)
    return START_S + options.epochs * epoch_s


@pytest.mark.parametrize("minutes", [2, 5, 12, 60, 600])
@pytest.mark.parametrize("held_out", [4, 160, 50_000])
def test_the_time_is_used_up_and_not_exceeded(minutes, held_out):
    options, pace = fit(minutes, held_out=held_out)
    taken_s = seconds_of(options, pace, held_out)
    assert 0.9 * minutes * 60 < taken_s < minutes * 60
    assert windows_of(options) % 8 == 0


@pytest.mark.parametrize("minutes", [2, 12, 600])
@pytest.mark.parametrize("held_out", [4, 160, 50_000])
def test_validation_takes_at_most_a_tenth(minutes, held_out):
    options, pace = fit(minutes, held_out=held_out)
    checked = options.validation_windows or held_out
    assert options.epochs * checked * pace.held_out_s <= 0.1 * minutes * 60
    assert 4 <= options.epochs <= 10


def test_only_what_does_not_fit_is_left_out_of_the_validation():
    assert fit(held_out=160)[0].validation_windows is None
    assert fit(held_out=50_000)[0].validation_windows == 717


def test_nothing_ends_early_and_the_rate_rises_over_a_twentieth():
    options, _ = fit(patience=1, warmup_steps=500)
    assert options.patience == options.epochs
    steps = windows_of(options) // 8 * options.epochs
    assert options.warmup_steps == round(steps / 20)


def test_weights_of_chips_do_not_change_how_many_windows_there_are():
    few, many = fit(weight=200)[0], fit(weight=812.5)[0]
    assert windows_of(few, 200) == windows_of(many, 812.5)


def test_too_little_time_is_refused():
    with pytest.raises(
        ConfigError, match=r"train.minutes: 1 min are too few for 4 epochs"
    ) as caught:
        fit(1, window_s=2)
    assert "allow 2 min or more" in str(caught.value)
    assert windows_of(fit(2, window_s=2)[0]) == 8


@pytest.mark.parametrize("window_s", [0.5, 3, 40])
@pytest.mark.parametrize("held_out", [1, 60_000])
def test_the_time_that_is_said_to_be_enough_is(window_s, held_out):
    with pytest.raises(ConfigError) as caught:
        fit(0.1, window_s=window_s, held_out=held_out)
    enough = int(re.search(r"allow (\d+) min", str(caught.value))[1])
    assert windows_of(fit(enough, window_s=window_s, held_out=held_out)[0]) >= 8


@pytest.fixture
def begun(tmp_path, monkeypatch):
    """Give a function that goes on with a training whose checkpoint has these facts."""

    def begun(**facts):
        monkeypatch.setattr(
            timetable, "read_checkpoint_facts", lambda *_: json.loads(json.dumps(facts))
        )
        return planned_before(tmp_path, TrainOptions(minutes=12))

    return begun


def test_a_training_goes_on_with_what_was_planned(begun):
    planned = fit(held_out=50_000)[0].model_dump()
    options = begun(minutes=12, **{key: planned[key] for key in PLANNED})
    assert {key: getattr(options, key) for key in PLANNED} == {key: planned[key] for key in PLANNED}


@pytest.mark.parametrize(("minutes", "times"), [(12, 1), (6, 2), (4, 3)])
def test_a_training_that_gets_more_time_has_as_many_more_of_the_same_epochs(begun, minutes, times):
    planned = {key: fit()[0].model_dump()[key] for key in PLANNED}
    more = dict.fromkeys(("epochs", "patience"), times * planned["epochs"])
    options = begun(minutes=minutes, **planned)
    assert {key: getattr(options, key) for key in PLANNED} == {**planned, **more}


@pytest.mark.parametrize("facts", [{"minutes": 30, "epochs": 7}, {}])
def test_a_training_that_was_planned_for_another_time_is_refused(begun, facts):
    with pytest.raises(ConfigError, match=r"minutes (30|None) \(now 12.0\); restore this setting"):
        begun(**facts)


@pytest.mark.parametrize("epochs", [None, 0, "many"])
def test_a_plan_that_is_none_is_refused(begun, epochs):
    planned = fit()[0].model_dump()
    facts = {key: planned[key] for key in PLANNED} | {"epochs": epochs}
    with pytest.raises(CheckpointError, match="expected the plan of a training"):
        begun(minutes=12, **facts)
