"""A timetable fits epochs and windows into the minutes there are, and the clock keeps to them."""

import json
import re

import pytest

from roadseg.errors import ConfigError
from roadseg.learn.hardware.distributed import Parallel
from roadseg.learn.options import TrainOptions
from roadseg.learn.training import timetable
from roadseg.learn.training.timetable import (
    PLANNED,
    Pace,
    TrainingClock,
    fit_minutes,
    planned_before,
)


def fit(minutes=12, *, held_out=160, weight=200, window_s=0.1, **options):
    options = TrainOptions(minutes=minutes, batch_size=8, **options)
    pace = Pace(window_s, window_s / 4)
    return fit_minutes(options, pace, weight=weight, held_out=held_out), pace


def windows_of(options, weight=200):
    return round(options.windows_per_chip * weight)


@pytest.mark.parametrize("minutes", [2, 5, 12, 60, 600])
@pytest.mark.parametrize("held_out", [4, 160, 50_000])
def test_the_time_is_used_up_and_not_exceeded_and_validation_takes_a_tenth_at_most(
    minutes, held_out
):
    options, pace = fit(minutes, held_out=held_out)
    checks_s = (options.validation_windows or held_out) * pace.held_out_s
    taken_s = options.epochs * (windows_of(options) * pace.window_s + checks_s)
    assert 0.8 * minutes * 60 < taken_s < minutes * 60
    assert options.epochs * checks_s <= 0.1 * minutes * 60
    assert 4 <= options.epochs <= 10
    assert windows_of(options) % 8 == 0


def test_only_what_does_not_fit_is_left_out_of_the_validation():
    assert fit(held_out=160)[0].validation_windows is None
    assert fit(held_out=50_000)[0].validation_windows == 717


def test_the_rate_rises_over_a_twentieth():
    options, _ = fit(warmup_steps=500)
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
    options = begun(minutes=minutes, **planned)
    more = {"epochs": times * planned["epochs"]}
    assert {key: getattr(options, key) for key in PLANNED} == planned | more


@pytest.mark.parametrize("facts", [{"minutes": 30, "epochs": 7}, {}])
def test_a_training_that_was_planned_for_another_time_is_refused(begun, facts):
    with pytest.raises(ConfigError, match=r"minutes (30|None) \(now 12.0\); restore this setting"):
        begun(**facts)


class Watch:
    """A clock that stands still until it is set."""

    def __init__(self):
        self.now_s = 1000.0

    def __call__(self):
        return self.now_s


def started(*, rows=(), minutes=1.0, epochs=4, **before):
    """Give a clock of a training with these seconds of its finished epochs, and its watch."""
    watch, history = Watch(), [{"seconds": seconds} for seconds in rows]
    options = TrainOptions(minutes=minutes, epochs=epochs)
    return TrainingClock(options, history, Parallel(), tick=watch, **before), watch


def read_after(clock, watch, seconds):
    """Let some seconds pass, and read the clock."""
    watch.now_s += seconds
    return clock.read()


def test_time_of_earlier_sessions_counts():
    clock, watch = started(rows=(10.0, 8.0), since_s=6.0)
    assert clock.used == 24 / 60
    read_after(clock, watch, 12)
    assert clock.used == 36 / 60
    assert clock.state() == {"seconds": 18.0, "check_s": 0.0, "step_s": 12.0}


def test_between_two_readings_nothing_is_used():
    clock, watch = started()
    watch.now_s += 30
    assert clock.used == 0


def test_what_is_kept_is_never_negative():
    clock, _ = started(since_s=4.9996)
    clock.history.append({"seconds": 5.0})  # rounded
    assert clock.state()["seconds"] == 0


def test_without_a_limit_no_epoch_ends_by_the_clock():
    clock, watch = started(minutes=None)
    read_after(clock, watch, 1e6)
    assert (clock.used, clock.epoch_is_over) == (None, False)


def test_the_signal_of_a_process_is_told_with_the_time():
    clock, _ = started()
    assert (clock.read(stop=True), clock.read(stop=False)) == (True, False)


@pytest.mark.parametrize(
    ("rows", "check_s", "end_s"),
    [
        ((), 0.0, 15.0),  # a quarter of the minute
        ((), 3.0, 12.0),
        ((30.0,), 0.0, 40.0),  # an epoch that took twice its time shortens the others
        ((6.0,), 3.0, 21.0),
        ((15.0, 15.0, 15.0), 3.0, 57.0),
        ((24.0,), 4.0, 38.0),  # for three epochs of 12 s, validation would take too long
    ],
)
def test_epochs_that_are_left_share_the_time_and_another_step_has_to_fit(rows, check_s, end_s):
    clock, watch = started(rows=rows, check_s=check_s)
    read_after(clock, watch, end_s - sum(rows) - 2.0)
    read_after(clock, watch, 1.0)
    assert not clock.epoch_is_over
    read_after(clock, watch, 0.75)
    assert clock.epoch_is_over


@pytest.mark.parametrize(("now_s", "is_over"), [(56.9, False), (57.0, True)])
def test_the_time_is_over_when_there_is_none_to_validate(now_s, is_over):
    assert started(since_s=now_s, check_s=3.0)[0].is_over is is_over
    assert not started(since_s=now_s, check_s=3.0, minutes=None)[0].is_over


@pytest.fixture(scope="module")
def limited(tmp_path_factory, seen_by):
    """Give what two processes did whose clocks differ."""
    return seen_by("limited", tmp_path_factory.mktemp("limited"))


def test_processes_with_other_clocks_end_their_epochs_together_at_the_same_rates(limited):
    one, other = limited["rates"]
    assert one == other
    assert len(set(one)) > 4
    facts = json.loads(limited["facts"])
    assert len(facts["history"]) >= 2
    assert 12 < sum(row["seconds"] for row in facts["history"]) <= 18
