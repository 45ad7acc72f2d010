"""A tiny city, the folder of real data, and no network."""

import json
import logging
import os
import resource
import signal
import socket
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from hypothesis import settings

TESTS = Path(__file__).parent
DATA = Path(os.environ.get("ROADSEG_DATA", TESTS.parents[1] / "shared" / "data"))
settings.register_profile("roadseg", deadline=None)  # a busy machine is no failure
settings.load_profile("roadseg")

CITY = {
    "run": "run",
    "imagery": {"images": ["images"]},
    "labels": {"roads": ["roads"]},
    "split": {"folds": 5, "block_m": 100.0},
    "train": {
        "encoder": "tu-test_resnet",
        "window_px": 64,
        "windows_per_chip": 2,
        "batch_size": 2,
        "epochs": 2,
    },
    "predict": {"window_px": 64, "overlap_px": 16},
    "compute": {"workers": 0},
}


def _load(path):
    """Import a file of tests/data, which is on no import path."""
    spec = spec_from_file_location(path.stem, path)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def make_scene():
    """Give the function that writes a tiny scene and its roads (tests/data/make_scene.py)."""
    return _load(TESTS / "data" / "make_scene.py").make_scene


@pytest.fixture(scope="session")
def write_city(make_scene):
    """Give the function that writes five scenes side by side and their config."""

    def write(folder):
        for number in range(5):
            make_scene(folder, f"city_{number}", origin=(660000.0 + 200 * number, 4000000.0))
        config = folder / "roadseg.json"
        config.write_text(json.dumps(CITY, indent=2))
        return config

    return write


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """Write a tiny network that has learned nothing; return its folder."""
    folder = tmp_path_factory.mktemp("checkpoint") / "fold-0"
    _load(TESTS / "data" / "make_checkpoint.py").make_checkpoint(folder)
    return folder


@pytest.fixture
def city(tmp_path, write_city):
    """Write a tiny city; return its config."""
    return write_city(tmp_path)


@pytest.fixture(scope="session")
def real_data():
    """Return the folder of real images and labels, or skip the test."""
    if not DATA.is_dir():
        pytest.skip(f"{DATA} does not exist; ROADSEG_DATA names the folder of real data")
    return DATA


@pytest.fixture(scope="session")
def facts():
    """Return the folder of recorded scores, beside that of real data, or skip the test."""
    facts = DATA.parent / "facts"
    if not (facts / "apls_reference.json").exists():
        pytest.skip(f"no apls_reference.json in {facts}; set ROADSEG_DATA to the folder beside it")
    return facts


@pytest.fixture(scope="session")
def dask():
    """Start a Dask cluster of two processes; give it."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=True,
        dashboard_address="127.0.0.1:0",  # any free port
        silence_logs=50,
        env={"PYTHONPATH": str(TESTS)},
    ) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def _level_of_logs():
    """Let INFO be logged, as by every command, whatever one in this process has set."""
    logging.getLogger("roadseg").setLevel(logging.INFO)


@pytest.fixture(autouse=True)
def _handlers_of_signals():
    """Take back what a command that ran in this process does about signals."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(autouse=True, scope="session")
def _no_network():
    """Fail a test that reaches beyond this machine."""
    connect = socket.socket.connect

    def only_here(self, address):
        if self.family != socket.AF_UNIX and address[0] not in {"127.0.0.1", "::1", "localhost"}:
            pytest.fail(f"the test connects to {address}")
        return connect(self, address)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", only_here)
        yield


@pytest.fixture
def largest_file():
    """Give a context in which no file grows beyond a size, as on a full disk."""

    @contextmanager
    def limited(size):
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    return limited
