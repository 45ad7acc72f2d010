"""Threads fetch ahead, but not far, and results keep their order."""

import threading
import time
from itertools import count, islice

import pytest

from roadseg.system.parallel import THREADS, ahead_in_order


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
