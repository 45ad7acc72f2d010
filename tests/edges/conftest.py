"""A run in a folder with an awkward name, and disks that are full or read-only."""

import json
import os
import subprocess
import sys
import time
from collections import Counter

import pytest

from roadseg.config import load_config
from roadseg.system.workspace import Workspace

AWKWARD = '-it\'s a "Straße", 道路.v1.0 (50 %) & $HOME;#'
SMALL = [
    "split.folds=2",
    "train.encoder=tu-test_resnet",
    "train.epochs=1",
    "train.windows_per_chip=1",
    "train.batch_size=1",
    'graph.formats=["gpkg", "geojson"]',
]
AHEAD_S = 10 * 365 * 86400


def mount(*words):
    """Mount something; skip the test where that is not allowed."""
    done = subprocess.run(["mount", *map(str, words)], capture_output=True, check=False)  # noqa: S607
    if done.returncode:
        pytest.skip(f"mounting is not possible here: {done.stderr.decode().strip()}")


def unmount(folder):
    subprocess.run(["umount", "--lazy", str(folder)], capture_output=True, check=False)  # noqa: S607


@pytest.fixture(scope="session")
def awkward(tmp_path_factory, write_city):
    """Run all stages by the command line in the locale C; return config and workspace.

    The folder has an awkward name, images and run folder are links, and all inputs seem to come
    from the future.
    """
    place = tmp_path_factory.mktemp("edges")
    folder = place / AWKWARD
    config = write_city(folder)
    for path in folder.glob("*/city_[2-4].*"):
        path.unlink()
    (folder / "images").rename(place / "elsewhere")
    (folder / "images").symlink_to(place / "elsewhere", target_is_directory=True)
    (place / "disk").mkdir()
    (folder / "run").symlink_to(place / "disk", target_is_directory=True)
    for path in (*folder.glob("*/city_*"), config):
        os.utime(path, (time.time() + AHEAD_S,) * 2)
    settings = [f"--set={setting}" for setting in SMALL]
    words = [sys.executable, "-m", "roadseg", "run", "--json", *settings]
    variables = {
        k: v for k, v in os.environ.items() if not k.startswith(("LC_", "LANG", "PYTHONUTF8"))
    }
    ended = subprocess.run(
        words, cwd=folder, env=variables | {"LC_ALL": "C"}, capture_output=True, check=False
    )
    assert ended.returncode == 0, ended.stderr.decode()
    assert json.loads(ended.stdout)["graphs"] == str(folder / "run" / "graphs")
    loaded = load_config(config, SMALL)
    return loaded, Workspace(loaded.run)


@pytest.fixture
def read_only():
    """Give a function that makes a folder read-only, also for root."""
    mounted = []

    def make(folder):
        mount("--bind", folder, folder)
        mounted.append(folder)
        mount("-o", "remount,ro,bind", folder)
        return folder

    yield make
    for folder in mounted:
        unmount(folder)


@pytest.fixture(scope="module")
def outcomes():
    """Count what came of the edits; show it at the end (-s)."""
    counted = Counter()
    yield counted
    print()  # noqa: T201 - what this fixture is for
    for (kind, outcome), times in sorted(counted.items()):
        print(f"{kind:13} {outcome:45} {times:6}")  # noqa: T201 - the same
    print(f"{'all':13} {'edits':45} {counted.total():6}")  # noqa: T201 - the same
