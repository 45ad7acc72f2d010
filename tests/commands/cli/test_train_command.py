"""`roadseg train` as a process: several together, signals, kills."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
import torch
from safetensors.torch import load_file

from roadseg.commands.stages.pipeline import prepare
from roadseg.config import load_config
from roadseg.system.workspace import Workspace

SETTINGS = {
    "split.folds": 2,
    "train.window_px": 32,
    "train.windows_per_chip": 8,
}
ASSIGNMENTS = [f"{key}={value}" for key, value in SETTINGS.items()]
PATIENCE_S = 120


@pytest.fixture
def prepared(city):
    """Prepare a tiny city; give its config."""
    config = load_config(city, ASSIGNMENTS)
    prepare(config, Workspace(config.run))
    return city


@pytest.fixture
def words_of(prepared):
    """Give a function that returns the words which train a fold."""
    settings = [f"--set={assignment}" for assignment in ASSIGNMENTS]
    return lambda fold: ["train", "--config", str(prepared), "--fold", str(fold), *settings]


@pytest.fixture
def train_together(words_of):
    """Give a function that starts a training of each fold by two processes."""
    started = []

    def start(*more):
        # Epochs of seconds: the last step is saved only after each of them.
        words = [sys.executable, "-m", "roadseg", *words_of("each"), "--processes", "2", *more]
        words += ["--set", "train.windows_per_chip=20"]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        env = os.environ | {"OMP_NUM_THREADS": "1"}
        started.append(subprocess.Popen(words, **pipes, env=env, start_new_session=True))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def checkpoint(prepared):
    """Give a function that returns the checkpoint folder of a fold."""
    return lambda fold: prepared.parent / "run" / "checkpoints" / f"fold-{fold}"


def time_of(folder):
    path = folder / "last.safetensors"
    return path.stat().st_mtime_ns if path.exists() else 0


def wait_for_a_step(folder, after=0):
    """Wait until a training has kept a step that is not the one of a time."""
    end = time.monotonic() + PATIENCE_S
    while time_of(folder) == after:
        assert time.monotonic() < end, f"no step is kept in {folder}"
        time.sleep(0.01)


def same_weights(one, other):
    a, b = (load_file(folder / "last.safetensors") for folder in (one, other))
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def test_a_killed_and_a_terminated_training_end_as_one_left_alone(
    prepared, start_command, words_of, checkpoint
):
    folder = checkpoint(1)

    def train():
        before = "from roadseg.learn.training import epochs; epochs.SAVE_S = 0"
        return start_command(words_of(1), prepared.parent, before=before)

    assert train().end()[0] == 0
    straight = folder.rename(folder.with_name("straight"))
    killed = train()
    wait_for_a_step(folder)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.end()
    kept = time_of(folder)
    terminated = train()
    wait_for_a_step(folder, after=kept)
    terminated.send(signal.SIGTERM)
    assert terminated.end()[0] == 143
    assert train().end()[0] == 0
    assert same_weights(straight, folder)


@pytest.mark.slow
def test_processes_stop_together_and_go_on_and_one_of_them_tells(train_together, checkpoint):
    together = train_together()
    wait_for_a_step(checkpoint(1))
    together.send_signal(signal.SIGTERM)
    errors = together.communicate(timeout=PATIENCE_S)[1]
    assert (together.returncode, errors.count("stopped in epoch")) == (143, 1), errors
    output, errors = train_together("--json").communicate(timeout=PATIENCE_S)
    folds = json.loads(output)["folds"]
    assert [(fold["fold"], fold["epochs"]) for fold in folds] == [(0, 2), (1, 2)], errors
