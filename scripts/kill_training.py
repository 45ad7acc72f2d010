#!/usr/bin/env python
"""Kill a training at random moments, repeat the command, and compare with a training left alone.

Draws the small city of the demo, trains a small network on it for two epochs, and then does the
same again and again in fresh run folders, where the process and its workers get SIGKILL at a
random moment. After each kill all files under their final names have to be whole; after the same
command has run to its end, the weights have to be those of the training left alone, bit for bit.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from safetensors.torch import load_file

from roadseg.commands.tools import demo

_SETTINGS = {
    "imagery.gsd_m": "null",
    "train.encoder": "tu-test_resnet",
    "train.encoder_weights": "null",
    "train.window_px": 96,
    "train.batch_size": 4,
    "train.windows_per_chip": 12,
    "train.epochs": 2,
    "train.schedule": "cosine",
}
# Like `python -m roadseg`, but a training saves its state more often.
_COMMAND = (
    "from roadseg.learn.training import epochs; epochs.SAVE_S = 0.6; "
    "from roadseg.commands.cli.main import main; main(prog_name='roadseg')"
)


def main():
    """Run the comparison."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    moments = random.Random(options.seed)  # noqa: S311 - not a secret
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        demo.run(folder)
        subprocess.run(_command(folder, "prepare", folder / "run"), check=True)
        shutil.copytree(folder / "run", folder / "straight")
        straight = _train(folder, folder / "straight", options.workers)
        begun = time.monotonic()
        _check(straight.wait() == 0, "the training left alone failed")
        seconds = time.monotonic() - begun
        print(f"a training left alone takes {seconds:.1f} s", flush=True)
        kills = 0
        while kills < options.kills:
            moment = moments.uniform(0, seconds)
            run = folder / "killed"
            shutil.copytree(folder / "run", run)
            if _kill(folder, run, options.workers, moment):
                kills += 1
                state = _look(run / "checkpoints" / "fold-0")
                _check(_train(folder, run, options.workers).wait() == 0, "the command failed")
                _compare(folder / "straight", run)
                print(f"{kills}: killed after {moment:.1f} s, {state}; equal weights", flush=True)
            else:
                seconds = moment  # it was faster this time
            shutil.rmtree(run)


def _command(folder, stage, run, *more):
    settings = [f"--set={key}={value}" for key, value in _SETTINGS.items()]
    config = ["--config", str(folder / "roadseg.json"), "--run", str(run)]
    return [sys.executable, "-c", _COMMAND, "-q", stage, *config, *settings, *more]


def _train(folder, run, workers):
    more = ["--fold", "0", f"--set=compute.workers={workers}"]
    words = _command(folder, "train", run, *more)
    return subprocess.Popen(words, start_new_session=True, stdout=subprocess.DEVNULL)


def _kill(folder, run, workers, moment):
    """Kill a training and all its processes; return False if it had ended by itself."""
    process = _train(folder, run, workers)
    time.sleep(moment)
    if process.poll() is not None:
        return False
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return True


def _look(checkpoint):
    """Read every file that is there under its final name."""
    for path in checkpoint.glob("[!.]*"):
        if path.suffix == ".safetensors":
            load_file(path)
        elif path.suffix == ".json":
            json.loads(path.read_text())
        elif path.suffix == ".csv":
            header, *rows = path.read_text().splitlines()
            _check(all(row.count(",") == header.count(",") for row in rows), f"{path}: half a row")
        else:
            is_ours = path.name in {"curves.png", "model_card.md"}
            _check(is_ours and path.stat().st_size > 0, f"{path}: a stray file")
    if not (checkpoint / "last.json").exists():
        return "before the first checkpoint"
    last = json.loads((checkpoint / "last.json").read_text())
    return f"after epoch {last['epoch']}, step {last['step']} of the next"


def _compare(straight, run):
    for which in ("best", "last"):
        one, other = (
            load_file(root / "checkpoints" / "fold-0" / f"{which}.safetensors")
            for root in (straight, run)
        )
        same = one.keys() == other.keys() and all(torch.equal(one[k], other[k]) for k in one)
        _check(same, f"{which}: other weights than those of the training left alone")
    left = list(run.rglob(".partial-*"))
    _check(not left, f"left behind: {left}")


def _check(condition, complaint):
    if not condition:
        sys.exit(complaint)


if __name__ == "__main__":
    main()
