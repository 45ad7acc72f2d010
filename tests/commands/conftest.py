import itertools
import os
import shutil
from functools import partial

import numpy as np
import pytest
import rasterio
from click.testing import CliRunner

from roadseg.commands.cli.main import main
from roadseg.commands.stages import train
from roadseg.learn.training.timetable import Pace

COMMAND = """
import os
os.setsid()
os.chdir(folder)
for number, path in enumerate(streams, 1):
    os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
from roadseg.commands.cli.main import main
from roadseg.commands.stages import train
from roadseg.learn.inference import engines
from roadseg.learn.training import train as training
# These take longer than a tiny training, and are what tests in one process look at.
engines.check_batch = training.check_batch = train.write_curves = lambda *_, **__: None
if gate:
    gate.wait()
exec(before)
main(words, prog_name="roadseg")
"""
PATIENCE_S = 120


class Command:
    """A command that runs in a process of its own, which leads a group."""

    def __init__(self, forks, streams, **names):
        self._streams = streams
        names["streams"] = streams
        self._process = forks.Process(target=exec, args=(COMMAND, names))
        self._process.start()
        self.pid = self._process.pid

    def send(self, number):
        """Send a signal to the process alone."""
        os.kill(self.pid, number)

    def end(self):
        """Return the exit code, and what was said on both streams."""
        self._process.join(PATIENCE_S)
        assert self._process.exitcode is not None, "it does not end"
        return self._process.exitcode, *(path.read_text() for path in self._streams)

    def kill(self):
        """Make sure that it has ended."""
        self._process.kill()
        self._process.join()


@pytest.fixture(scope="session")
def lines_to_masks():
    """Give a function that replaces the road lines of a drawn city by masks."""

    def replace(folder):
        (folder / "masks").mkdir()
        for image in (folder / "images").iterdir():
            with rasterio.open(image) as source:
                band, profile = source.read(1), source.profile | {"count": 1, "dtype": "uint8"}
            with rasterio.open(folder / "masks" / image.name, "w", **profile) as target:
                target.write((band > 0.7 * band.max()).astype(np.uint8), 1)
        shutil.rmtree(folder / "roads")

    return replace


@pytest.fixture(autouse=True, scope="session")
def _quick(quick_trainings):
    """Let trainings take no longer than what they show."""


@pytest.fixture
def start_command(forks, tmp_path_factory):
    """Give a function that starts a command in a folder.

    Several wait for each other at a gate. Lines `before` it may change what it does; they know
    what has a name of its own.
    """
    started, streams = [], tmp_path_factory.mktemp("streams")

    def start(words, folder, *, gate=None, before="", **names):
        paths = [streams / f"{name}-{len(started)}" for name in ("stdout", "stderr")]
        names |= {"words": [*map(str, words)], "folder": str(folder)}
        started.append(Command(forks, paths, gate=gate, before=before, **names))
        return started[-1]

    yield start
    for command in started:
        command.kill()


@pytest.fixture
def call(tmp_path, monkeypatch):
    """Give a function that runs the command line in an empty folder, without a config."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROADSEG_CONFIG", raising=False)
    return lambda *words: CliRunner().invoke(
        main, [*map(str, words)], prog_name="roadseg", catch_exceptions=False
    )


@pytest.fixture
def fails(call):
    """Give a function that runs a command, checks that it fails in one line, and returns that."""

    def run(*words, exit_code):
        result = call(*words)
        assert (result.exit_code, result.stdout) == (exit_code, "")
        assert result.stderr.startswith("Error: ")
        assert result.stderr.count("\n") == 1
        return result.stderr

    return run


@pytest.fixture
def write_nowhere(write_raster):
    """Give a function that writes a raster as `write_raster` does, without a place on earth."""
    return partial(write_raster, crs=None, transform=None)


@pytest.fixture
def steady_pace(monkeypatch):
    """Let each rehearsal find the same pace, and each step take as long, on any machine."""
    pace = Pace(window_s=0.1, held_out_s=0.01)
    monkeypatch.setattr(train, "measure_pace", lambda *_, **__: pace)
    tick = itertools.count(0.0, 0.5).__next__
    monkeypatch.setattr(train, "train", partial(train.train, tick=tick))
