"""A signal to stop is noted, a second one obeyed, and all is as before afterwards."""

import os
import signal
import threading

import pytest

from roadseg.learn.hardware.interrupts import SIGNALS, Stop, ignore_signals, postponed


@pytest.fixture(autouse=True)
def exit_on_sigterm():
    """Set the handler that the command line has; put back what was there."""
    before = {number: signal.getsignal(number) for number in SIGNALS}

    def leave(*_):
        raise SystemExit(143)

    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def send(number):
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_is_noted_and_the_work_goes_on(number):
    with postponed() as stop:
        assert not stop.requested
        send(number)
        assert (stop.requested, stop.signal) == (True, number)


@pytest.mark.parametrize(
    ("number", "ending"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)]
)
def test_a_second_signal_is_obeyed_at_once(number, ending):
    with postponed():
        send(signal.SIGTERM)
        with pytest.raises(ending):
            send(number)


def test_afterwards_signals_act_as_before():
    with postponed():
        pass
    with pytest.raises(SystemExit):
        send(signal.SIGTERM)


def test_what_is_ignored_stays_so_as_under_nohup():
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with postponed() as stop:
        send(signal.SIGHUP)
        assert not stop.requested
    send(signal.SIGHUP)


@pytest.mark.parametrize(
    ("number", "code"), [(None, 143), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_leaving_after_a_signal_or_with_a_partner_ends_with_its_code(number, code):
    stop = Stop()
    stop.signal = number
    with pytest.raises(SystemExit) as raised:
        stop.leave()
    assert raised.value.code == code


def test_leaving_after_sigint_is_an_interrupt():
    stop = Stop()
    stop.signal = signal.SIGINT
    with pytest.raises(KeyboardInterrupt):
        stop.leave()


def test_another_thread_than_the_main_one_changes_no_handler():
    handlers = []

    def work():
        with postponed():
            handlers.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    before = signal.getsignal(signal.SIGTERM)
    thread.start()
    thread.join()
    assert handlers == [before]


def test_a_worker_leaves_stopping_to_its_parent():
    ignore_signals()
    for number in (signal.SIGINT, signal.SIGTERM):
        send(number)  # and is still here
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN


def test_the_first_signal_is_obeyed_at_once_while_a_network_is_compiled():
    def compile_fx_inner():  # as torch does
        os.kill(os.getpid(), signal.SIGINT)
        pytest.fail("it goes on")

    with pytest.raises(KeyboardInterrupt), postponed():
        compile_fx_inner()
