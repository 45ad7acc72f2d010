"""Work functions are of this module, which other processes find by its path."""

import os
import signal
import threading
import time
from itertools import count, islice

import pytest

from roadseg.errors import DataError, RoadsegError
from roadseg.system import parallel
from roadseg.system.parallel import THREADS, ahead_in_order, each, in_order
from roadseg.system.units import road_text, shown_in


def square(number):
    return number * number


def square_unless_three(number):
    if number == 3:
        raise DataError("three cannot be used")
    return number * number


def die(_number):
    os.kill(os.getpid(), signal.SIGKILL)


def leave_a_mark(path):
    path.touch()
    time.sleep(0.01)


def where(_number):
    return os.getpid()


place = []


def take_place(number, processes):
    place.append((number, processes))


def tell_place(_number):
    time.sleep(0.2)
    return tuple(place)


def sleep_for(seconds):
    time.sleep(seconds)
    return seconds


def results(outcomes):
    return [outcome.result for outcome in sorted(outcomes, key=lambda outcome: outcome.index)]


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_every_item_is_done_once(workers):
    assert results(each(square, range(6), workers=workers)) == [0, 1, 4, 9, 16, 25]


def test_what_takes_longer_keeps_its_turn():
    assert in_order(sleep_for, [0.5, 0.0, 0.1], what="sleep", workers=2) == [0.5, 0.0, 0.1]


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_a_user_can_act_on_is_the_outcome_of_its_item(workers):
    outcomes = sorted(each(square_unless_three, range(5), workers=workers), key=lambda o: o.index)
    assert [o.result for o in outcomes] == [0, 1, 4, None, 16]
    assert isinstance(outcomes[3].error, DataError)


@pytest.mark.parametrize(("workers", "others"), [(1, 0), (2, 2)])
def test_workers_are_other_processes(workers, others):
    found = set(results(each(where, range(20), workers=workers)))
    assert len(found - {os.getpid()}) <= others
    assert (os.getpid() in found) == (others == 0)


def test_workers_show_lengths_in_the_units_that_are_chosen_here(monkeypatch, forks):
    # A fork of this process would have the units already.
    monkeypatch.setattr(parallel, "_context", lambda: forks)
    with shown_in("miles"):
        assert results(each(road_text, [1.609344] * 2, workers=2)) == ["1.00 mi"] * 2


def test_each_worker_begins_with_a_number_of_its_own():
    places = set(results(each(tell_place, range(6), workers=3, begin=take_place)))
    assert places <= {((number, 3),) for number in range(3)}
    assert len(places) > 1


@pytest.mark.parametrize("workers", [0, 1])
def test_nothing_begins_where_all_is_done_in_this_process(workers):
    assert results(each(tell_place, range(2), workers=workers, begin=take_place)) == [
        (),
        (),
    ]


def test_a_process_that_dies_is_an_error():
    with pytest.raises(
        RoadsegError, match="a worker process died, most likely because memory ran out"
    ):
        list(each(die, range(4), workers=2))


def test_leaving_early_leaves_the_rest_undone(tmp_path):
    outcomes = each(leave_a_mark, [tmp_path / f"{number}" for number in range(200)], workers=2)
    next(outcomes)
    outcomes.close()
    assert 0 < len(list(tmp_path.iterdir())) < 200


def test_results_come_in_order():
    def work(item):
        time.sleep(0.001 * (item % 3))
        return 2 * item

    assert list(ahead_in_order(work, range(50))) == list(range(0, 100, 2))


def test_no_more_than_allowed_is_done_ahead():
    taken = []
    results = ahead_in_order(lambda item: item, (taken.append(n) or n for n in count()), ahead=10)
    assert list(islice(results, 5)) == [0, 1, 2, 3, 4]
    assert len(taken) <= 5 + 10
    results.close()


def test_an_error_comes_in_its_turn_and_ends_the_rest():
    done = []

    def work(item):
        if item == 3:
            raise ValueError("three")
        done.append(item)

    results = ahead_in_order(work, range(1000), ahead=10)
    with pytest.raises(ValueError, match="three"):
        list(results)
    assert len(done) <= 13


def test_the_threads_end_with_the_work():
    before = threading.active_count()
    assert len(list(ahead_in_order(abs, range(3 * THREADS)))) == 3 * THREADS
    until = time.monotonic() + 2
    while threading.active_count() > before and time.monotonic() < until:
        time.sleep(0.01)
    assert threading.active_count() <= before
