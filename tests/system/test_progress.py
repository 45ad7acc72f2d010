import errno
import io
import json
import logging
import multiprocessing
from types import SimpleNamespace

import click
import pytest

from roadseg.commands.cli.logs import send_logs
from roadseg.commands.cli.main import main
from roadseg.system import progress
from roadseg.system.progress import Progress, counted
from roadseg.system.text import about_time


class Clock:
    """A clock that stands still until it is told to go on."""

    def __init__(self):
        self.now = 100.0

    def monotonic(self):
        return self.now


class Terminal(io.StringIO):
    """A stream that says that it is a terminal, and what would stand on its line."""

    def isatty(self):
        return True

    @property
    def line(self):
        shown = ""
        for text in self.getvalue().rpartition("\n")[2].split("\r"):
            shown = text + shown[len(text) :]
        return shown.rstrip()


@pytest.fixture
def clock(monkeypatch):
    """Stop the time."""
    found = Clock()
    monkeypatch.setattr(progress, "time", found)
    return found


def outlook(work):
    rate, left_s = work.rate_and_left
    return f"{rate}, {about_time(left_s)} left"


@pytest.fixture
def terminal(clock, monkeypatch):
    """Let stderr be a terminal."""
    del clock
    found = Terminal()
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=found))
    progress.draw(enabled=True)
    return found


def test_off_a_terminal_the_first_line_comes_after_half_a_minute(clock, caplog):
    with Progress("graph", total=10, unit="scenes") as work:
        clock.now += 29.9
        work.add()
        assert caplog.messages == []
        clock.now += 0.1
        work.add()
    assert caplog.messages == ["graph: 2 of 10 scenes, 4.0 scenes/min, about 2 min left"]


def test_off_a_terminal_lines_are_half_a_minute_apart(clock, caplog):
    for _ in counted(range(600), "graph", total=600, unit="scenes"):
        clock.now += 1
    assert len(caplog.messages) == 20


def test_on_a_terminal_one_line_is_drawn_again_and_goes_in_the_end(clock, terminal):
    with Progress("predict", total=12.5, unit="km2") as work:
        assert terminal.line == "predict: 0.000 of 12.500 km2"
        clock.now += 10
        work.add(2.5)
        assert terminal.line == "predict: 2.500 of 12.500 km2, 15.0 km2/min, about 40 s left"
    assert (terminal.line, terminal.getvalue().count("\n")) == ("", 0)


def test_a_terminal_is_drawn_on_ten_times_a_second_at_most(clock, terminal):
    for _ in counted(range(10_000), "train", total=10_000, unit="steps"):
        clock.now += 0.001
    assert 90 <= terminal.getvalue().count("train: ") <= 101


def test_work_goes_on_when_the_terminal_is_gone(clock, terminal, monkeypatch):
    def refuse(_):
        raise OSError(errno.EIO, "Input/output error")

    with Progress("train", total=10, unit="steps") as work:
        monkeypatch.setattr(terminal, "write", refuse)
        clock.now += 1
        work.add()


def test_a_line_is_not_longer_than_the_terminal(terminal, monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    with Progress("a command with a long name", total=10, unit="scenes"):
        assert terminal.line == "a command with a lo"


def test_quiet_commands_tell_nothing(clock, terminal, caplog):
    logging.getLogger("roadseg").setLevel(logging.WARNING)
    for _ in counted(range(100), "graph", total=100, unit="scenes"):
        clock.now += 60
    assert (terminal.getvalue(), caplog.messages) == ("", [])


def test_processes_that_another_one_started_tell_nothing(clock, terminal, monkeypatch):
    monkeypatch.setattr(multiprocessing, "parent_process", lambda: "parent")
    for _ in counted(range(100), "graph", total=100, unit="scenes"):
        clock.now += 60
    assert terminal.getvalue() == ""


def test_work_inside_of_work_is_told_on_the_same_line(clock, terminal):
    with (
        Progress("graph", total=3, unit="scenes"),
        Progress("city", total=8, unit="blocks") as city,
    ):
        clock.now += 6
        city.add(2)
        assert terminal.line == (
            "graph: 0 of 3 scenes; city: 2 of 8 blocks, 20.0 blocks/min, about 18 s left"
        )


def test_an_item_larger_than_those_before_has_the_time_left_that_it_says(clock, terminal):
    with Progress("graph", total=20, unit="scenes") as graph:
        clock.now += 19
        graph.add(19)
        with Progress("big", total=36, unit="blocks") as big:
            clock.now += 20
            big.add(10)
            assert terminal.line == (
                "graph: 19 of 20 scenes; big: 10 of 36 blocks, 1.0 scenes/s, about 52 s left"
            )


def test_what_was_done_before_does_not_count_for_the_rate(clock):
    with Progress("train", total=30, unit="epochs", done=20) as work:
        clock.now += 120
        work.add()
        assert outlook(work) == "30.0 epochs/h, about 18 min left"


def test_a_part_of_an_item_counts_for_the_time_left_and_not_as_done(clock):
    with Progress("train", total=4, unit="epochs") as work:
        for _ in range(9):
            clock.now += 5
            work.add(1 / 10)
        assert outlook(work) == "1.2 epochs/min, about 3 min left"
        assert str(work) == "train: 0 of 4 epochs"


@pytest.mark.parametrize(("under_way_s", "left_s"), [(20, 70), (30, 60), (300, 60)])
def test_the_time_left_runs_down_for_as_long_as_one_item_took_before(clock, under_way_s, left_s):
    with Progress("train", total=4, unit="epochs") as work:
        clock.now += 30
        work.add()
        clock.now += under_way_s
        assert outlook(work) == f"2.0 epochs/min, about {left_s} s left"


def test_a_log_line_takes_the_place_of_the_progress(terminal, monkeypatch):
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    with click.Context(main, info_name="roadseg") as context:
        main.parse_args(context, ["config"])
        send_logs(context)
    logging.getLogger().handlers[0].setStream(terminal)
    with Progress("graph", total=3, unit="scenes"):
        logging.getLogger("roadseg").warning("a")
    assert "\r".join(terminal.getvalue().split("\r")[-2:]).strip() == "WARNING: a"


def test_a_program_gets_progress_as_lines_of_json(clock, terminal):
    progress.draw(enabled=True, as_json=True)
    with Progress("graph", total=2, unit="scenes") as outer:
        outer.add()
        clock.now += 0.5
        with Progress("city", total=0.5, unit="km2"):
            pass
    progress.draw(enabled=True)
    lines = [json.loads(line) for line in terminal.getvalue().splitlines()]
    assert [line["text"] for line in lines] == [
        "graph: 0 of 2 scenes",
        "graph: 1 of 2 scenes; city: 0.000 of 0.500 km2",
    ]
    assert lines[1]["progress"] == [
        {"what": "graph", "done": 1, "total": 2, "unit": "scenes"},
        {"what": "city", "done": 0, "total": 0.5, "unit": "km2"},
    ]
