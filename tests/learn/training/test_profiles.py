"""Profiles: traces of steps that say what took the time, and change nothing."""

import gzip
import json
import logging

import pytest
import torch

from roadseg.errors import OutputError
from roadseg.learn.training.profiles import profiled


@pytest.fixture
def take(tmp_path, cpu):
    """Give a function that takes steps in a profile; it returns the trace's events, if any."""

    def take(steps, *, of, rank=0):
        with profiled(tmp_path / "profile", steps=of, device=cpu, rank=rank) as stepped:
            for _ in range(steps):
                torch.ones(64, 64) @ torch.ones(64, 64)
                stepped()
        path = tmp_path / "profile" / f"rank-{rank}.json.gz"
        return json.loads(gzip.decompress(path.read_bytes()))["traceEvents"] if of else None

    return take


def products(events):
    return sum(event.get("name") == "aten::mm" for event in events)


def test_a_trace_holds_the_steps_after_three_that_warm_up(take):
    assert products(take(9, of=2)) == 2


@pytest.mark.parametrize(("steps", "kept"), [(4, 1), (5, 2)])
def test_a_training_that_ends_early_leaves_what_was_traced(take, steps, kept):
    assert products(take(steps, of=4)) == kept


def test_a_training_that_ends_in_the_warm_up_says_that_there_is_no_trace(tmp_path, cpu, caplog):
    with (
        caplog.at_level(logging.WARNING),
        profiled(tmp_path / "profile", steps=2, device=cpu, rank=0) as stepped,
    ):
        stepped()
    assert "ended within the 3 warm-up steps" in caplog.text
    assert not (tmp_path / "profile").exists()


def test_each_process_has_a_trace_of_its_own(take, tmp_path):
    take(9, of=1, rank=0)
    take(9, of=1, rank=3)
    names = sorted(path.name for path in (tmp_path / "profile").iterdir())
    assert names == ["rank-0.json.gz", "rank-3.json.gz"]


def test_a_line_says_which_operators_took_the_time(take, caplog):
    with caplog.at_level(logging.INFO):
        take(9, of=2)
    assert "s of the processor: " in caplog.messages[-1]
    assert " mm " in caplog.messages[-1]


def test_nothing_else_is_printed(take, capfd):
    take(9, of=1)
    assert capfd.readouterr() == ("", "")


def test_without_steps_nothing_is_written(take, tmp_path):
    assert take(3, of=0) is None
    assert not (tmp_path / "profile").exists()


def test_a_trace_that_cannot_be_written_is_an_error(take, tmp_path):
    (tmp_path / "profile").write_text("in the way")
    with pytest.raises(OutputError, match=r"rank-0\.json\.gz: cannot be written"):
        take(9, of=1)
