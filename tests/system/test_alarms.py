import re
import signal
import threading

import pytest

from roadseg.system.machine import alarm

FOR_EVER = r"(a+)+$", "a" * 60 + "b"


def test_a_pattern_that_backtracks_for_ever_ends():
    with pytest.raises(TimeoutError), alarm(0.1):
        re.search(*FOR_EVER)


def test_what_is_fast_enough_is_left_alone():
    with alarm(10):
        assert re.search("a+", "baa")[0] == "aa"


def test_nothing_rings_later():
    before = signal.getsignal(signal.SIGVTALRM)
    with alarm(10):
        pass
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0, 0)
    assert signal.getsignal(signal.SIGVTALRM) == before


def test_another_thread_works_without_an_alarm():
    done = []

    def work():
        with alarm(10):
            done.append(signal.getitimer(signal.ITIMER_VIRTUAL))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [(0, 0)]
