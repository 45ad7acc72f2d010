"""A tiny city, the folder of real data, and no network."""

import gc
import json
import logging
import multiprocessing
import os
import resource
import shutil
import signal
import socket
import warnings
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest
import rasterio
import shapely
from affine import Affine
from filelock import FileLock
from hypothesis import settings
from pyproj import CRS
from rasterio.enums import ColorInterp
from rasterio.errors import NotGeoreferencedWarning
from rasterio.shutil import copy

from roadseg.config import load_config
from roadseg.raster.grid import LOCAL_CRS
from roadseg.roads.graph.road_graph import graph_from_lines
from roadseg.roads.graph.travel import add_travel
from roadseg.system import locks, parallel
from roadseg.system.files import atomic_write
from roadseg.system.workspace import Workspace
from tests.configs import SMALL_TRAINING

TESTS = Path(__file__).parent
DATA = Path(os.environ.get("ROADSEG_DATA", TESTS.parents[1] / "shared" / "data"))
# A busy machine is no failure. Properties are tried on the same examples each time, so that a
# change is judged by itself; with ROADSEG_FUZZ they look for new ones.
settings.register_profile(
    "roadseg", deadline=None, derandomize="ROADSEG_FUZZ" not in os.environ, database=None
)
settings.load_profile("roadseg")
# GDAL prepares 100 MB of memory, which takes 60 ms, each time it opens a file of OpenStreetMap.
os.environ["OSM_MAX_TMPFILE_SIZE"] = "1"
# Shells and nohup ignore these signals for what they start in the background; commands would, too.
for _number, _usual in {
    signal.SIGHUP: signal.SIG_DFL,
    signal.SIGINT: signal.default_int_handler,
}.items():
    if signal.getsignal(_number) == signal.SIG_IGN:
        signal.signal(_number, _usual)

CITY = {
    "run": "run",
    "imagery": {"images": ["images"]},
    "labels": {"roads": ["roads"]},
    "split": {"folds": 5, "block_m": 100.0},
    # With this schedule a training goes on to more epochs.
    "train": SMALL_TRAINING | {"schedule": "step", "warmup_steps": 0},
    "predict": {"window_px": 64, "overlap_px": 16},
    "compute": {"workers": 0},
}
STAGES = ("evaluate", "graph", "predict", "prepare", "report", "split", "train")
LOADED = [  # by the process from which others are forked
    *("segmentation_models_pytorch", "roadseg.config", "roadseg.commands.cli.main"),
    *("roadseg.learn.training.augment", "networkx", "PIL.Image", "pyarrow"),
    *(f"roadseg.commands.stages.{name}" for name in ("pipeline", *STAGES)),
]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection():
    """Import all tests and libraries without looking for garbage, now and whenever tests run."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items):
    """Begin with slow tests and those of the whole, so that none of them is last."""
    items.sort(key=lambda item: item.path.parent != TESTS and "slow" not in item.keywords)


def _load(path):
    """Import a file that is on no import path."""
    spec = spec_from_file_location(path.stem, path)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def load_script():
    """Give the function that imports a file that is on no import path."""
    return _load


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


@pytest.fixture
def draw_area(tmp_path):
    """Give a function that writes polygons, in metres or another CRS, and returns their path."""
    from geopandas import GeoSeries

    def draw(name, *shapes, crs=32611):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        GeoSeries(list(shapes), crs=crs).to_file(path)
        return str(path)

    return draw


@pytest.fixture(scope="session")
def once(tmp_path_factory):
    """Give a function that has a folder written once for all processes that test."""
    root = tmp_path_factory.getbasetemp()
    root = root.parent if "PYTEST_XDIST_WORKER" in os.environ else root

    def make(name, write):
        folder, done = root / name, root / f"{name} done"
        with FileLock(root / f"{name} lock"):
            if not done.exists():
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                write(folder)
                done.touch()
        return folder

    return make


@pytest.fixture(autouse=True, scope="session")
def forks():
    """Fork new processes from one that has loaded the libraries, which takes a new one seconds."""
    context, chosen = multiprocessing.get_context("forkserver"), parallel._context  # noqa: SLF001
    context.set_forkserver_preload(LOADED)

    def quick():
        usual = chosen()
        return context if usual.get_start_method() == "spawn" else usual

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parallel, "_context", quick)
        yield context


@pytest.fixture(scope="session")
def shapes_followed_once():
    """Follow the shapes of one network and batch once, which takes longer than to train it."""
    from roadseg.learn.inference import engines
    from roadseg.learn.training import trainer

    fitting, check_batch = set(), trainer.check_batch

    def check(model, **batch):
        key = (str(model), model.training, *batch.items())
        if key not in fitting:
            check_batch(model, **batch)
            fitting.add(key)

    with pytest.MonkeyPatch.context() as patch:
        for module in (engines, trainer):
            patch.setattr(module, "check_batch", check)
        yield


@pytest.fixture(scope="session")
def fewer_drawn():
    """Draw curves of the same columns once, and one sheet for all examples of a kind.

    They take longer than the epoch and the masks that they show.
    """
    from roadseg.commands.stages import prepare, train
    from roadseg.report.plots import sheets

    drawn, write_curves, draw_sheet = {}, train.write_curves, sheets._draw_sheet  # noqa: SLF001

    def draw_once(key, draw, path, *given, **options):
        if key not in drawn:
            draw(path, *given, **options)
            drawn[key] = path.read_bytes()
        with atomic_write(path) as partial:
            partial.write_bytes(drawn[key])

    def write(path, history, **options):
        draw_once(tuple(history[0]), write_curves, path, history, **options)

    def draw_first(path, examples, bins):
        first = examples[0]
        key = first.image.shape, first.shift is None, bins
        draw_once(key, draw_sheet, path, examples[:1], bins)

    def write_sheets(folder, examples, *, bins):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sheets, "_draw_sheet", draw_first)
            return sheets.write_sheets(folder, examples, bins=bins)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train, "write_curves", write)
        patch.setattr(prepare, "write_sheets", write_sheets)
        yield


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
def maps():
    """Give the module of the map server (tests/data/map_server.py)."""
    return _load(TESTS / "data" / "map_server.py")


@pytest.fixture
def world(maps):
    """Serve maps of a drawn world from this process; give the server."""
    with maps.serving() as world:
        yield world


@pytest.fixture(autouse=True)
def _level_of_logs():
    """Let INFO be logged, as by every command, and not where one in this process has sent it."""
    logging.getLogger("roadseg").setLevel(logging.INFO)
    for handler in list(logging.root.handlers):
        if type(handler).__module__.startswith("roadseg."):
            logging.root.removeHandler(handler)
            handler.close()


@pytest.fixture(autouse=True)
def _handlers_of_signals():
    """Take back what a command that ran in this process does about signals."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(autouse=True, scope="session")
def _temporary_files(tmp_path_factory):
    """Let browsers, QGIS and launchers leave their files where those of old runs are removed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(tmp_path_factory.mktemp("t")))  # short: it holds sockets
        yield


@pytest.fixture(autouse=True, scope="session")
def _no_waiting_for_disks():
    """Leave it to the system when files reach the disk; tests do not switch the power off."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


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
def impatient(monkeypatch):
    """Let a folder that another process holds be refused soon, where it is never released."""
    monkeypatch.setattr(locks, "_ENDING_S", 0.1)


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


PLACE = Affine(1, 0, 660000, 0, -1, 4000000)  # in UTM zone 11, pixels of 1 m
LINES = [
    [(0, 0), (300, 0)],
    [(300, 0), (300, 400)],
    [(0, 0), (150, 200), (300, 400)],
    [(0, 0), (150, 250), (300, 400)],  # parallel
    [(300, 400), (350, 400), (350, 450), (300, 400)],  # loop
    [(900, 900), (950, 900)],  # apart
]


def rising(bands, height, width, dtype):
    """Give pixels that rise from 0 along the rows of each band."""
    values = np.arange(bands * height * width).reshape(bands, height, width) % 199
    return values.astype(dtype)


@pytest.fixture
def write_raster(tmp_path):
    """Give a function that writes a raster: of given values, or of pixels that rise from 0.

    Its CRS is EPSG:32611 and its place PLACE, unless the options of rasterio say otherwise. The
    last band is alpha where `transparent`; `colours` is a colour table.
    """

    def write(
        values=None,
        *,
        name="scene.tif",
        bands=3,
        shape=(40, 40),
        dtype="uint8",
        transparent=False,
        names=None,
        colours=None,
        **profile,
    ):
        values = rising(bands, *shape, dtype) if values is None else np.asarray(values)
        values = values if values.ndim == 3 else values[np.newaxis]
        count, height, width = values.shape
        size = {"count": count, "height": height, "width": width, "dtype": values.dtype.name}
        options = {"driver": "GTiff", "crs": "EPSG:32611", "transform": PLACE} | size | profile
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotGeoreferencedWarning)
            with rasterio.open(path, "w", **options) as target:
                if transparent:
                    target.colorinterp = [*target.colorinterp[:-1], ColorInterp.alpha]
                for number, text in enumerate(names or (), 1):
                    target.set_band_description(number, text)
                if colours is not None:
                    target.write_colormap(1, colours)
                target.write(values)
        return path

    return write


@pytest.fixture
def save_as(write_raster):
    """Give a function that writes values in a format that GDAL can only copy to, without place."""

    def save(values, name, *, driver, **options):
        plain = write_raster(values, name="plain.tif", crs=None, transform=Affine.identity())
        path = plain.with_name(name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotGeoreferencedWarning)
            copy(plain, path, driver=driver, **options)
        return path

    return save


def drawn_roads(corner, crs):
    """Draw a triangle with a parallel edge and a loop, and a road apart."""
    lines = np.array([shapely.LineString(np.add(line, corner)) for line in LINES], dtype=object)
    return add_travel(graph_from_lines(lines, crs), np.array([50, 30, 20, 90, 30, 30]))


@pytest.fixture
def graph():
    """Give the drawn roads, near Barcelona."""
    return drawn_roads((430_000.1, 4_580_000.7), CRS.from_epsg(32631))


@pytest.fixture
def local():
    """Give the drawn roads of a scene without georeference."""
    return drawn_roads((0.125, -600), LOCAL_CRS)


@pytest.fixture(scope="session")
def quick_trainings(shapes_followed_once, fewer_drawn):
    """Let trainings take no longer than what they show."""


@pytest.fixture(scope="session")
def finished_city(once, write_city, tmp_path_factory, quick_trainings):  # noqa: ARG001
    """Run all stages on a tiny city once; tests copy it before they change anything."""
    from roadseg.commands.stages import pipeline

    def write(folder):
        config = load_config(write_city(folder))
        pipeline.run(config, Workspace(config.run), say=lambda *_: None)

    return Path(shutil.copytree(once("finished", write), tmp_path_factory.mktemp("own") / "city"))


@pytest.fixture(scope="session")
def copy_city(finished_city):
    """Give a function that copies a finished city, or a copy of it, with its images and labels.

    Those of its config are the original ones. It returns config and workspace.
    """

    def copied(folder, city=finished_city):
        shutil.copytree(city, folder)
        settings = json.loads((folder / "roadseg.json").read_text())
        settings["imagery"]["images"] = [str(finished_city / "images")]
        settings["labels"]["roads"] = [str(finished_city / "roads")]
        (folder / "roadseg.json").write_text(json.dumps(settings))
        config = load_config(folder / "roadseg.json")
        return config, Workspace(config.run)

    return copied


@pytest.fixture
def finished(copy_city, tmp_path):
    """Return config and workspace of a tiny city for which every stage is done."""
    return copy_city(tmp_path / "city")


@pytest.fixture(scope="session")
def drawn_map():
    """Give the module with a drawn map of OpenStreetMap (tests/data/serve_overpass.py)."""
    return _load(TESTS / "data" / "serve_overpass.py")


@pytest.fixture
def overpass(drawn_map):
    """Start a stand-in for an Overpass server, which knows the drawn map."""
    with drawn_map.serve_overpass() as server:
        yield server


@pytest.fixture
def start_code(forks):
    """Give a function that starts code with names in a new process, which ends with the test."""
    started = []

    def start(code, names):
        started.append(forks.Process(target=exec, args=(code, names)))
        started[-1].start()
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.join()


@pytest.fixture(scope="session")
def browser():
    """Start Chromium; skip the test where it, or playwright, is missing."""
    playwright = pytest.importorskip("playwright.sync_api")
    names = ("chromium", "google-chrome", "chromium-browser")
    found = os.environ.get("ROADSEG_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if found is None:
        pytest.skip("no Chromium here; ROADSEG_CHROMIUM names one")
    options = ["--no-sandbox"] if os.geteuid() == 0 else []  # root may not use the sandbox
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=found, args=options)
        yield chromium
        chromium.close()


AXE = """async () => (await axe.run(document, { resultTypes: ["violations"] }))
    .violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ target }) => target).join(" ")}`)"""


@pytest.fixture(scope="session")
def axe():
    """Give a function that returns what axe-core finds in a page, light and dark, or skip."""
    path = os.environ.get("ROADSEG_AXE")
    if not path:
        pytest.skip("ROADSEG_AXE names no axe.min.js (npm install axe-core)")
    script = Path(path).read_text(encoding="utf-8")

    def findings(page):
        page.evaluate(script)
        found = []
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            found += [f"{scheme}: {told}" for told in page.evaluate(AXE)]
        return found

    return findings
