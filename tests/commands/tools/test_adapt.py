"""map --adapt: a network learns from the roads of images without labels that it is sure of."""

import json
import os
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
import rasterio
from starter_places import write_places

import roadseg
from roadseg.commands.stages import quantize, train
from roadseg.commands.tools import adapt, improve
from roadseg.commands.tools import map as tool
from roadseg.config import load_config
from roadseg.dataset.edge_calibration import read_calibration
from roadseg.errors import ConfigError
from roadseg.learn.network.checkpoint_facts import read_checkpoint_facts
from roadseg.learn.network.installed_weights import starter_folder
from roadseg.learn.training.timetable import Pace
from roadseg.raster.images import open_raster
from roadseg.roads.formats.files import read_gpkg
from roadseg.system.locks import holders
from roadseg.system.stage_records import read_stage_key
from roadseg.system.workspace import Workspace

PLACES = (1005, 1003)  # The starter is sure of roads in both, also in bfloat16.
QUICK = (
    "train.minutes=null",
    "train.epochs=1",
    "train.windows_per_chip=2",
    "train.window_px=128",
    "imagery.chip_px=256",
    "split.block_m=50",
    "graph.formats=gpkg",
)


def map_adapted(folder, *others, output=None, said=None, settings=(), **options):
    return tool.run(
        [str(folder / "images"), *map(str, others)],
        output or folder / "map",
        adapt=True,
        settings=[*QUICK, *settings],
        say=lambda name, summary: said.append((name, summary)) if said is not None else None,
        **options,
    )


@pytest.fixture(scope="module")
def adapted(once):
    """Map drawn places of four bands by the adapted starter; return the folder and what is said."""

    def write(folder):
        write_places(folder, PLACES, size_px=448)
        for path in (folder / "images").iterdir():
            with rasterio.open(path) as image:
                profile, pixels = image.profile, image.read([1, 2, 3, 1])
            with rasterio.open(path, "w", **{**profile, "count": 4, "photometric": None}) as image:
                image.write(pixels)
        said = []
        with pytest.MonkeyPatch.context() as patch:
            pace = Pace(window_s=0.1, held_out_s=0.01)  # It would take as long as to train.
            patch.setattr(train, "measure_pace", lambda *_, **__: pace)
            summary = map_adapted(folder, said=said)
        (folder / "said").write_bytes(pickle.dumps((dict(said), summary)))

    folder = once("adapted", write)
    return folder, *pickle.loads((folder / "said").read_bytes())  # noqa: S301


@pytest.fixture
def copied(adapted, tmp_path):
    """Return a copy of the map that a test may change."""
    return shutil.copytree(adapted[0] / "map", tmp_path / "map")


def test_it_learns_from_the_roads_that_are_sure(adapted):
    folder, said, summary = adapted
    assert list(said) == ["init", "adapt", "predict", "graph"]
    learned = said["adapt"]
    assert learned.images == len(PLACES)
    assert adapt.LEAST_KM < learned.sure_km <= learned.road_km
    assert f"learned from {learned.sure_km:.2f} km of {learned.road_km:.2f} km" in str(learned)
    for place in PLACES:
        with open_raster(folder / f"map/adapted/pseudo_labels/place_{place}.tif") as mask:
            assert set(np.unique(mask.read(1))) == {0, 1, 255}
    assert summary.measured is None


def test_the_network_reads_the_bands_and_pixels_that_the_first_one_saw(adapted):
    folder, _, _ = adapted
    facts = read_checkpoint_facts(folder / "map/adapted/checkpoints/fold-0", "best")
    assert facts["bands"] == [1, 2, 3]
    assert 0.69 < facts["gsd_m"] <= 1
    assert facts["pixel_sizes_m"] == [0.7, 1.0]


def test_the_map_is_that_of_the_new_network(adapted):
    folder, said, _ = adapted
    network = Workspace(folder / "map/adapted").checkpoint(0)
    assert said["predict"].checkpoint == str(network)
    roads = folder / "map/graphs/place_1005.gpkg"
    scores = roadseg.score(folder / "roads/place_1005.geojson", roads)
    assert scores.buffer.completeness > 0.6
    assert scores.buffer.correctness > 0.6
    found = read_gpkg(roads)
    assert set(found.attributes["speed_known"]) == {0}
    assert set(found.attributes["model"]) == {"adapted"}
    assert "adapted/checkpoints/fold-0" in (folder / "map/report.html").read_text()


def test_its_config_names_the_rotations_of_the_map(adapted):
    made = adapted[0] / "map/adapted/roadseg.json"
    assert not load_config(made).predict.tta  # By itself, init would set it for such images.


def test_its_confidence_is_that_of_the_first_network(adapted):
    folder, _, _ = adapted
    network = Workspace(folder / "map/adapted").checkpoint(0)
    copied, first = (read_calibration(path) for path in (network, starter_folder()))
    assert copied.model_of("") == first.model_of("")


def test_its_card_says_what_the_labels_are(adapted):
    folder, _, _ = adapted
    card = folder / "map/adapted/checkpoints/fold-0/model_card.md"
    assert "pseudo-labels, which are roads that a network found" in card.read_text()


def test_the_same_call_trains_nothing_again(adapted, copied):
    folder, _, summary = adapted
    weights = copied / "adapted/checkpoints/fold-0/best.safetensors"
    written = weights.stat().st_mtime_ns
    assert map_adapted(folder, output=copied).graphs.edges == summary.graphs.edges
    assert weights.stat().st_mtime_ns == written


@pytest.mark.parametrize(
    ("setting", "anew"),
    [
        ("predict.tta=true", False),
        ("graph.formats=gpkg", False),
        ("predict.overlap_px=96", True),
        ("graph.threshold=0.85", True),
    ],
)
def test_it_learns_anew_only_from_other_labels(adapted, copied, monkeypatch, setting, anew):
    seen, record = [], copied / "adapted/split.json"
    monkeypatch.setattr(train, "run_fold", lambda *_, force, **__: seen.append(force) or 1 / 0)
    before = read_stage_key(record)
    with pytest.raises(ZeroDivisionError):
        map_adapted(adapted[0], output=copied, settings=[setting])
    assert (read_stage_key(record) != before, seen) == (anew, [anew])


def test_its_folder_is_in_use_while_it_learns(adapted, copied, monkeypatch):
    seen = []
    monkeypatch.setattr(
        train, "run_fold", lambda _, made, **__: seen.extend(holders(made.root)) or 1 / 0
    )
    with pytest.raises(ZeroDivisionError):
        map_adapted(adapted[0], output=copied)
    assert seen == [f"process {os.getpid()}"]


def test_images_whose_paths_are_relative_are_not_surveyed_again(adapted, copied, monkeypatch):
    path = copied / "adapted/roadseg.json"
    values = json.loads(path.read_text())
    images = [os.path.relpath(image, path.parent) for image in values["imagery"]["images"]]
    path.write_text(json.dumps(values | {"imagery": values["imagery"] | {"images": images}}))
    monkeypatch.setattr(adapt.init, "run", None)
    assert map_adapted(adapted[0], output=copied).scenes == len(PLACES)


def test_images_that_are_added_are_learned_from(adapted, copied, tmp_path, monkeypatch):
    folder, _, _ = adapted
    shutil.copy(folder / "images/place_1005.tif", tmp_path / "place_1002.tif")
    seen = []
    monkeypatch.setattr(adapt.pipeline, "prepare", lambda *given, **_: seen.append(given) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        map_adapted(folder, tmp_path / "place_1002.tif", output=copied)
    ((config, _),) = seen
    images = {Path(image).stem for image in config.imagery.images}
    assert images == {f"place_{number}" for number in (1002, *PLACES)}


def test_improve_goes_on_from_it(adapted):
    folder, _, _ = adapted
    network = improve.network_of(Workspace(folder / "map"))
    assert network == Workspace(folder / "map/adapted").checkpoint(0)


def test_it_is_quantised_if_what_is_left_to_predict_pays(adapted, copied, monkeypatch):
    asked = []

    def run_if_it_pays(config, workspace, *, fold, megapixels):
        asked.append((config.run, workspace.checkpoint(fold), megapixels()))

    monkeypatch.setattr(quantize, "run_if_it_pays", run_if_it_pays)
    folder, _, _ = adapted
    made = Workspace(copied).adapted
    map_adapted(folder, output=copied)
    assert asked == [(made.root, made.checkpoint(0), 0)]
    (copied / "probabilities/place_1005.tif").unlink()
    map_adapted(folder, output=copied)
    assert asked[1][2] > 0
    assert not (made.checkpoint(0) / "int8").exists()  # That of the starter is not its own.


def test_with_few_sure_roads_the_network_stays_as_it_is(tmp_path, monkeypatch, caplog):
    write_places(tmp_path, [1001], size_px=256)
    monkeypatch.setattr(adapt, "LEAST_KM", 50)
    said = []
    map_adapted(tmp_path, said=said)
    assert [name for name, _ in said] == ["init", "predict", "graph"]
    assert dict(said)["predict"].checkpoint == str(starter_folder())
    assert "the network is not adapted to these images, as it is sure of only" in caplog.text
    assert not (tmp_path / "map/adapted/checkpoints").exists()


@pytest.mark.parametrize("options", [{"labels": ["a.gpkg"]}, {"checkpoints": ["a", "b"]}])
def test_it_is_for_one_network_and_no_labels(tmp_path, options):
    with pytest.raises(ConfigError, match="--adapt cannot be combined with --labels"):
        map_adapted(tmp_path, **options)


def test_the_time_is_two_minutes_if_none_is_given_now_or_before(tmp_path, monkeypatch):
    write_places(tmp_path, [1001], size_px=64)
    begun = Workspace(tmp_path / "map")
    seen = []
    monkeypatch.setattr(adapt, "run", lambda *_, settings, **__: seen.append(settings) or 1 / 0)
    for minutes in (None, 7.5, None):
        with pytest.raises(ZeroDivisionError):
            map_adapted(tmp_path, minutes=minutes)
        begun.adapted.probabilities.mkdir(parents=True, exist_ok=True)
        (begun.adapted.root / "roadseg.json").write_text('{"train": {"minutes": 7.5}}')
    times = [settings[0] for settings in seen]
    assert times == ["train.minutes=2.0", "train.minutes=7.5", "train.minutes=7.5"]


def test_a_call_that_ended_before_it_adapted_has_set_how_to(tmp_path, monkeypatch):
    write_places(tmp_path, [1001], size_px=64)
    images, output, seen = tmp_path / "images", tmp_path / "map", []
    labels = adapt._Labels((str(images / "place_1001.tif"),), 1.0, 1.0, None)  # noqa: SLF001
    monkeypatch.setattr(adapt, "_write_labels", lambda *_, **__: labels)
    monkeypatch.setattr(
        adapt.init, "run", lambda *_, settings, **__: seen.append(settings.train) or 1 / 0
    )
    for given in (["train.minutes=7.5", "train.window_px=96"], []):
        with pytest.raises(ZeroDivisionError):
            tool.run([str(images)], output, adapt=True, settings=given, say=lambda *_: None)
        Workspace(output).adapted.probabilities.mkdir(parents=True, exist_ok=True)
    assert [(train.minutes, train.window_px) for train in seen] == [(7.5, 96)] * 2
