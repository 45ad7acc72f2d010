"""The clock of a training says how much of its time is used, and when an epoch is over."""

import json

import pytest

from roadseg.learn.hardware.distributed import Parallel
from roadseg.learn.options import TrainOptions
from roadseg.learn.training.training_clock import TrainingClock


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
