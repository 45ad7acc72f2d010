"""Files from strangers: an edit is refused in one line, or the map is the one of the file unedited.

Valid files of a tiny training are edited at random: keys dropped, added, put into others, or given
values of every type; tensors changed. What may be taken is what leaves the map as it is, and a
value that a training could have written as well (another mean, another value without data): that
is another checkpoint, which no schema can tell from the first. ROADSEG_FUZZ=10000 tries so many
edits of each kind (scripts/fuzz); -s shows what came of them.
"""

import copy
import functools
import json
import shutil
import struct

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from roadseg.commands.stages import prepare, split, train
from roadseg.config import load_config
from roadseg.dataset.chips import read_chips
from roadseg.dataset.fold_files import read_folds
from roadseg.dataset.scenes import read_scene_summary
from roadseg.errors import RoadsegError
from roadseg.learn.hardware.devices import pick_device
from roadseg.learn.inference import engines
from roadseg.learn.inference.compatibility import scene_to_predict
from roadseg.learn.inference.engines import open_engine
from roadseg.learn.inference.int8 import FILES, int8_folder, write_int8_facts
from roadseg.learn.inference.sliding_window import predict_parts, whole_of
from roadseg.learn.network import checkpoints
from roadseg.learn.network.checkpoints import load_checkpoint
from roadseg.learn.network.models import model_to_fill
from roadseg.raster.scaling import read_scaling
from roadseg.system.workspace import Workspace
from tests.edges.fuzzing import edits, fuzz

QUICK = ["split.folds=2", "train.epochs=1", "train.windows_per_chip=1", "train.batch_size=1"]
FREE = {  # what a training may write as well, by where it stands, and no more than that
    "nodata": lambda value: value is None or -1e308 <= value <= 1e308,
    "resample_m": lambda value: value is None or 1e-3 <= value <= 1e5,
    "bands": lambda _: True,
    "mean": lambda _: True,
    "std": lambda _: True,
    "ranges": lambda _: True,
    "bin_edges": lambda value: 0 < value < 60,
    "bin_unit": lambda value: value == "km/h",
}


@pytest.fixture(scope="module")
def run(tmp_path_factory, write_city):
    """Train a tiny network for an epoch; return its workspace and its config."""
    config = load_config(write_city(tmp_path_factory.mktemp("hostile")), QUICK)
    workspace = Workspace(config.run)
    for stage in (prepare, split):
        stage.run(config, workspace)
    train.run(config, workspace, fold=0)
    return workspace, config


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="module", autouse=True)
def _built_once():
    """Build each network once, and follow no shapes, as both take most of the time."""
    built = functools.cache(model_to_fill)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoints, "model_to_fill", lambda spec: copy.deepcopy(built(spec)))
        patch.setattr(engines, "check_batch", lambda *_, **__: None)
        yield


@pytest.fixture
def judge(outcomes):
    """Give a function that reads an edited file, and says whether that went as it may."""

    def read(kind, reader, unedited, is_another=lambda: False):
        told, found = "", None
        try:
            found = reader()
        except RoadsegError as error:
            told, outcome = str(error), f"refused: {type(error).__name__}"
        else:
            same = found == unedited
            outcome = "taken, with the same map" if same else "taken, as another that may be"
            assert same or is_another(), found
        outcomes[kind, outcome] += 1
        assert len(told.splitlines()) <= 1

    return read


def write_metadata(path, source, facts):
    """Write a safetensors file with the tensors of another and these facts."""
    content = source.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    header["__metadata__"] = {"roadseg": json.dumps(facts)}
    written = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(written)) + written + content[8 + length :])


def facts_in(path):
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    return json.loads(json.loads(content[8 : 8 + length])["__metadata__"]["roadseg"])


def map_of(folder, config, image):
    """Return all that decides about the map of an image, and the map of a part of it."""
    checkpoint = load_checkpoint(folder)
    scene = scene_to_predict(image, checkpoint.facts, imagery=config.imagery, gsd="strict")
    size = {"window_px": 64, "batch_size": 1}
    device = pick_device("cpu", "fp32")
    engine = open_engine(checkpoint, folder, name="eager", device=device, **size, windows=1)
    pixels = np.random.default_rng(0).integers(0, 255, (len(scene.bands), 64, 64), np.uint8)
    known = np.ones((64, 64), dtype=bool)
    sides = {"classes": len(checkpoint.bins.band_names), "height": 64, "width": 64}
    parts = predict_parts(engine, lambda _: (pixels, known), **sides, overlap_px=16)
    found, _ = whole_of(parts, **sides)
    how = scene.bands, scene.nodata, scene.grid, checkpoint.scaling, checkpoint.bins
    return how, found.tobytes()


@pytest.fixture(scope="module")
def trained(run, tmp_path_factory):
    """Give a folder for edited checkpoints, the unedited file, its facts and its map."""
    workspace, config = run
    folder, source = tmp_path_factory.mktemp("edited"), workspace.checkpoint(0)
    image = read_chips(workspace.chips).scenes[0].image
    reader = functools.partial(map_of, config=config, image=image)
    return folder, source / "best.safetensors", reader, reader(source)


def changes(first, second, path=()):
    """Give where two documents differ, with what stands there in the second."""
    alike = type(first) is type(second)
    if alike and isinstance(first, dict):
        for key in first.keys() | second.keys():
            yield from changes(first.get(key), second.get(key), (*path, key))
    elif alike and isinstance(first, list) and len(first) == len(second):
        for before, after in zip(first, second, strict=True):
            yield from changes(before, after, path)
    elif first != second or not alike:
        yield path, second


def could_be_written(before, after):
    """Say whether facts differ in what the map depends on by free values alone."""
    for path, value in changes(before, after):
        free = next((key for key in path if key in FREE), None)
        if free and (isinstance(value, bool | list | dict) or not FREE[free](value)):
            return False
        if not free and path[0] in DECIDES:
            return False
    return True


DECIDES = {"architecture", "encoder", "in_channels", "classes", "bands", "band_names", "scaling"}
DECIDES |= {"gsd_m", "gsd_range_m", "resample_m", "nodata", "bin_edges", "bin_unit", "format"}


@fuzz(140)
@given(dice=st.randoms(use_true_random=True))
def test_facts_of_a_checkpoint(trained, judge, dice):
    folder, source, reader, unedited = trained
    facts = facts_in(source)
    edited = edits(dice, facts, only=DECIDES | {"epoch", "versions", "fold", "score", "seed"})
    write_metadata(folder / "best.safetensors", source, edited)
    is_another = functools.partial(could_be_written, facts, edited)
    judge("checkpoint", lambda: reader(folder), unedited, is_another)


def edited_tensors(dice, tensors):
    """Return tensors of which one is dropped, added, renamed, or is of other values or kind."""
    edited, name = dict(tensors), dice.choice(sorted(tensors))
    tensor = tensors[name]
    value = dice.choice([float("nan"), float("inf"), float("-inf"), 1e30, -1e38])
    what = dice.choice(["drop", "add", "rename", "type", "shape", "one", "all"])
    if what in ("drop", "rename"):
        del edited[name]
    if what in ("add", "rename"):
        edited[dice.choice(["x", "model.x", name + ".x", "\n"])] = tensor
    elif what == "type":
        kinds = [torch.int8, torch.float16, torch.bfloat16, torch.float64, torch.bool]
        edited[name] = tensor.to(dice.choice(kinds))
    elif what == "shape":
        shapes = [
            tensor[None],
            tensor.flatten()[:0],
            tensor.flatten()[:1],
            torch.stack([tensor, tensor]),
        ]
        edited[name] = dice.choice([shape for shape in shapes if shape.shape != tensor.shape])
    elif what in ("one", "all") and tensor.is_floating_point():
        edited[name] = tensor.clone()
        edited[name].view(-1)[: 1 if what == "one" else None] = value
    return {name: tensor.clone().contiguous() for name, tensor in edited.items()}


@fuzz(50)
@given(dice=st.randoms(use_true_random=True))
def test_tensors_of_a_checkpoint(trained, judge, dice):
    folder, source, reader, unedited = trained
    edited = edited_tensors(dice, load_file(source))
    facts = {"roadseg": json.dumps(facts_in(source))}
    save_file(edited, folder / "best.safetensors", metadata=facts)
    judge("tensors", lambda: reader(folder), unedited)


@pytest.fixture(scope="module")
def made(trained, tmp_path_factory):
    """Give a checkpoint folder with a quantised network, of which the files alone matter here."""
    folder = tmp_path_factory.mktemp("quantised")
    shutil.copy(trained[1], folder)
    int8_folder(folder).mkdir(parents=True)
    for name in FILES:
        (int8_folder(folder) / name).write_bytes(b"a network")
    write_int8_facts(folder, {"passed": True})
    path = int8_folder(folder) / "facts.json"
    return folder, path, json.loads(path.read_text())


@pytest.fixture
def open_by(made, monkeypatch):
    """Give a function that opens an engine by its name or "auto", and says what was opened."""
    monkeypatch.setattr("roadseg.learn.inference.openvino.why_missing", lambda: None)
    monkeypatch.setattr("roadseg.learn.inference.openvino.open", lambda *_, **__: "INT8")
    checkpoint = load_checkpoint(made[0])
    options = {"device": pick_device("cpu", "fp32"), "window_px": 64, "batch_size": 2, "windows": 1}

    def open_(name):
        engine = open_engine(checkpoint, made[0], name=name, **options)
        return engine.name, engine.run if engine.name == "openvino" else None

    return open_


@fuzz(100)
@given(dice=st.randoms(use_true_random=True))
def test_facts_of_a_quantised_network(made, open_by, judge, dice):
    _, path, facts = made
    path.write_text(json.dumps(edits(dice, facts)))
    wanted = "openvino", "INT8"
    judge("engine", lambda: open_by("openvino"), wanted)
    judge("engine auto", lambda: open_by("auto"), wanted, lambda: open_by("auto")[0] == "eager")
    path.write_text(json.dumps(facts))


@fuzz(20)
@given(content=st.binary(max_size=20))
def test_files_of_a_quantised_network(made, open_by, judge, content):
    path = int8_folder(made[0]) / FILES[0]
    path.write_bytes(content)
    judge("engine file", lambda: open_by("openvino"), None)
    path.write_bytes(b"a network")


def kinds(value, path=()):
    """Give the kinds of values of a document, by the keys that lead there; numbers may be whole."""
    if isinstance(value, dict):
        for key, below in value.items():
            yield from kinds(below, (*path, key if path[-1:] not in OPEN else "*"))
    elif isinstance(value, list):
        for below in value:
            yield from kinds(below, (*path, "*"))
    else:
        yield path, "number" if type(value) in (int, float) else type(value).__name__


OPEN = {("pixels",), ("road_km",), ("dropped",), ("speed_sources",)}


def is_of_one_kind(before, after):
    return set(kinds(after)) <= {*kinds(before), (("found", "missed"), "str")}


def judge_file(judge, dice, path, reader):
    """Edit a JSON file of a run, read it, and write it back as it was."""
    text, unedited = path.read_text(), reader(path)
    values = json.loads(text)
    edited = edits(dice, values)
    path.write_text(json.dumps(edited))

    def is_another():  # what has other fields is of another version: it is made again
        other = path.parent.name == "masks" and edited["found"].keys() != values["found"].keys()
        return other or is_of_one_kind(values, edited)

    try:
        judge(path.stem, lambda: reader(path), unedited, is_another)
    finally:
        path.write_text(text)


@fuzz(60)
@given(dice=st.randoms(use_true_random=True))
def test_any_chips(run, judge, dice):
    judge_file(judge, dice, run[0].chips, read_chips)


@fuzz(30)
@given(dice=st.randoms(use_true_random=True))
def test_any_folds(run, judge, dice):
    chips = read_chips(run[0].chips).chips
    judge_file(judge, dice, run[0].folds, functools.partial(read_folds, chips=chips))


@fuzz(50)
@given(dice=st.randoms(use_true_random=True))
def test_any_scaling(run, judge, dice):
    judge_file(judge, dice, run[0].scaling, read_scaling)


@fuzz(60)
@given(dice=st.randoms(use_true_random=True))
def test_any_scene_record(run, judge, dice):
    judge_file(judge, dice, run[0].scene_record("city_0"), read_scene_summary)
