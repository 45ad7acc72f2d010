"""`roadseg train` as a process: several together, signals, kills."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import load_file

from roadseg.commands.cli.main import main
from roadseg.commands.stages.pipeline import prepare
from roadseg.config import load_config
from roadseg.system.workspace import Workspace

SETTINGS = {
    "train.encoder": "tu-test_resnet",
    "train.epochs": 2,
    "train.window_px": 32,
    "train.windows_per_chip": 12,
    "train.batch_size": 2,
    "compute.save_minutes": 0,
    "compute.workers": 0,
}
PATIENCE_S = 120


@pytest.fixture(scope="module")
def prepared(tmp_path_factory, write_city):
    """Write and prepare a tiny city; give its config."""
    config_path = write_city(tmp_path_factory.mktemp("prepared"))
    config = load_config(config_path)
    prepare(config, Workspace(config.run))
    return config_path


def words(config_path, fold):
    """Return the words that train a fold."""
    settings = [f"--set={key}={value}" for key, value in SETTINGS.items()]
    return ["train", "--config", str(config_path), "--fold", str(fold), *settings]


@pytest.fixture
def call(prepared):
    """Give a function that trains a fold in this process, with as many threads as the others."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield lambda fold: CliRunner().invoke(main, words(prepared, fold))
    torch.set_num_threads(threads)


@pytest.fixture
def start(prepared):
    """Give a function that starts the training of a fold."""
    started = []

    def start(fold, *more):
        started.append(
            subprocess.Popen(
                [sys.executable, "-m", "roadseg", *words(prepared, fold), *more],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=os.environ | {"OMP_NUM_THREADS": "1"},
                start_new_session=True,
            )
        )
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def checkpoint(prepared):
    """Give a function that returns the checkpoint folder of a fold."""
    return lambda fold: prepared.parent / "run" / "checkpoints" / f"fold-{fold}"


def wait_for(path):
    end = time.monotonic() + PATIENCE_S
    while not path.exists():
        assert time.monotonic() < end, f"{path} does not appear"
        time.sleep(0.01)


def same_weights(one, other):
    a, b = (load_file(folder / "last.safetensors") for folder in (one, other))
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def test_a_killed_and_a_terminated_training_end_as_one_left_alone(call, start, checkpoint):
    assert call(1).exit_code == 0
    straight = checkpoint(1).rename(checkpoint(1).with_name("straight"))
    killed = start(1)
    wait_for(checkpoint(1) / "last.safetensors")
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    terminated = start(1)
    time.sleep(1)
    terminated.send_signal(signal.SIGTERM)
    terminated.communicate(timeout=PATIENCE_S)
    assert terminated.returncode == 143
    assert call(1).exit_code == 0
    assert same_weights(straight, checkpoint(1))


def test_processes_stop_and_go_on_together_and_one_of_them_tells(start, checkpoint):
    together = start(2, "--processes", "2")
    wait_for(checkpoint(2) / "last.safetensors")
    together.send_signal(signal.SIGTERM)
    errors = together.communicate(timeout=PATIENCE_S)[1]
    assert (together.returncode, "stopped in epoch" in errors) == (143, True), errors
    again = start(2, "--processes", "2", "--json", "--profile", "1")
    output, errors = again.communicate(timeout=PATIENCE_S)
    assert json.loads(output)["epochs"] == 2, errors
    traces = sorted(path.name for path in (checkpoint(2) / "profile").iterdir())
    assert traces == ["rank-0.json.gz", "rank-1.json.gz"]
    facts = json.loads((checkpoint(2) / "last.json").read_text())
    assert (facts["epoch"], facts["step"]) == (2, 0)


def test_processes_train_every_fold_one_after_the_other(prepared, start, tmp_path):
    shutil.copytree(prepared.parent / "run", tmp_path / "run", ignore=lambda *_: ["checkpoints"])
    fewer = ("--set=split.folds=2", "--set=train.epochs=1", f"--run={tmp_path / 'run'}")
    dealt = CliRunner().invoke(main, ["split", "--config", str(prepared), *fewer])
    assert dealt.exit_code == 0, dealt.output
    output, errors = start("each", *fewer, "--processes", "2", "--json").communicate(
        timeout=PATIENCE_S
    )
    folds = json.loads(output)["folds"]
    assert [(fold["fold"], fold["epochs"]) for fold in folds] == [(0, 1), (1, 1)], errors
