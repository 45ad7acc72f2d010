"""Two sets of scenes in one run: unlike pixels, unlike kinds of labels, weights, folds."""

import csv
import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import rasterio

from roadseg.commands.stages import calibrate_edges, evaluate, pipeline, prepare, split, train
from roadseg.commands.stages.declared_stages import declared_stage, prepare_stage
from roadseg.commands.stages.training_jobs import training_job
from roadseg.config import load_config
from roadseg.dataset.chips import read_chips
from roadseg.errors import ConfigError, DataError
from roadseg.learn.training.samples import TrainingWindows
from roadseg.roads.masks.mask_files import read_mask
from roadseg.roads.masks.probabilities import open_probability
from roadseg.system.workspace import Workspace
from tests.configs import SMALL_TRAINING, changed

NORTH, SOUTH = (660_000.0, 4_000_000.0), (270_000.0, 2_110_000.0)  # in UTM 11N and 43N
SETTINGS = {
    "run": "run",
    "imagery": {
        "sets": {
            "lines": {"images": ["lines/images"], "roads": ["lines/roads"], "weight": 2.5},
            "areas": {
                "images": ["areas/images"],
                "roads": ["areas/masks"],
                "nodata": 0,
                "labels": {"default_speed_mph": 45.0},
            },
        }
    },
    "split": {"folds": 2, "block_m": 100.0},
    "train": SMALL_TRAINING | {"windows_per_chip": 0.75},
    "predict": {"window_px": 64, "overlap_px": 16, "scenes": "all"},
    "compute": {"workers": 0},
}


@pytest.fixture(scope="module")
def drawn(tmp_path_factory, make_scene, lines_to_masks):
    """Draw a city of bytes, 1 m and lines, and one of 16 bits, 0.5 m and masks, in another zone.

    Both have a scene `s0`.
    """
    folder = tmp_path_factory.mktemp("sets")
    for number in range(4):
        make_scene(folder / "lines", f"s{number}", origin=(NORTH[0] + 200 * number, NORTH[1]))
    for number in range(3):
        place = (SOUTH[0] + 200 * number, SOUTH[1])
        name = "s0" if number == 0 else f"t{number}"
        pixels = {"size_px": 96, "gsd_m": 0.5, "dtype": "uint16"}
        make_scene(folder / "areas", name, origin=place, epsg=32643, **pixels)
    lines_to_masks(folder / "areas")
    return folder


@pytest.fixture
def sets(tmp_path, drawn, monkeypatch):
    """Give a function of assignments; it returns config and workspace of the two cities."""
    folder = tmp_path / "project"
    shutil.copytree(drawn, folder)
    monkeypatch.chdir(folder)
    path = folder / "roadseg.json"
    path.write_text(json.dumps(SETTINGS))

    def ready(*assignments):
        config = load_config(path, assignments)
        return config, Workspace(config.run)

    return ready


@pytest.fixture(scope="module")
def finished_sets(drawn, tmp_path_factory):
    """Run all stages once; give config and workspace."""
    folder = tmp_path_factory.mktemp("finished") / "project"
    shutil.copytree(drawn, folder)
    (folder / "roadseg.json").write_text(json.dumps(SETTINGS))
    config = load_config(folder / "roadseg.json")
    pipeline.run(config, Workspace(config.run), say=lambda *_: None)
    return config, Workspace(config.run)


def read(path):
    return json.loads(path.read_text())


def test_two_unlike_sets_go_through_all_stages(finished_sets):
    _, workspace = finished_sets
    scenes = {scene["name"]: scene for scene in read(workspace.chips)["scenes"]}
    names = {"lines_s0", "s1", "s2", "s3", "areas_s0", "t1", "t2"}
    assert {name: scene["set"] for name, scene in scenes.items()} == {
        name: "areas" if name in ("areas_s0", "t1", "t2") else "lines" for name in names
    }
    assert {path.stem for path in workspace.probabilities.glob("*.tif")} == names
    assert {round(scenes[name]["gsd_m"][0], 2) for name in ("lines_s0", "areas_s0")} == {1.0, 0.5}
    assert open_probability(workspace.probability("t1")).grid.crs.to_epsg() == 32643
    assert workspace.report.exists()


def test_each_pixel_type_has_its_own_scaling(finished_sets):
    ranges = read(finished_sets[1].scaling)["ranges"]
    assert ranges["uint8"] == [[0, 255]] * 3
    assert all(2500 < low < 3500 and 7500 < high < 8500 for low, high in ranges["uint16"])


def test_labels_are_read_as_their_set_says(finished_sets):
    _, workspace = finished_sets
    assert set(np.unique(read_mask(workspace.mask("t1")))) == {0, 5}  # 45 mph, given for masks
    assert set(np.unique(read_mask(workspace.mask("s1")))) == {0, 3, 5}  # 25 and 45, of the lines


def test_each_stage_has_figures_by_set(finished_sets):
    _, workspace = finished_sets
    prepared = read(workspace.record("prepare"))["summary"]["sets"]
    assert {name: figures["scenes"] for name, figures in prepared.items()} == {
        "lines": 4,
        "areas": 3,
    }
    assert prepared["lines"]["road_km"] > 0
    assert prepared["areas"]["road_km"] == 0
    assert prepared["areas"]["road_share"] > 0
    trained = read(workspace.train_record(0))["summary"]
    assert trained["val_iou_by_set"].keys() == {"lines", "areas"}
    with (workspace.checkpoint(0) / "metrics.csv").open() as file:
        assert {"val_iou_lines", "val_iou_areas"} <= next(csv.DictReader(file)).keys()
    evaluated = read(workspace.record("evaluate"))["summary"]
    chips = {name: metrics["chips"] for name, metrics in evaluated["by_set"].items()}
    assert sum(chips.values()) == evaluated["chips"]
    measures = {"iou", "f1", "apls_length", "correctness", "completeness", "quality"}
    for name, metrics in evaluated["by_set"].items():
        assert (
            metrics["threshold"] == read(workspace.checkpoint(0) / "best.json")["thresholds"][name]
        )
    assert all(measures <= metrics.keys() for metrics in evaluated["by_set"].values())


def test_rasters_name_the_threshold_of_their_set(finished_sets):
    _, workspace = finished_sets
    thresholds = read(workspace.checkpoint(0) / "best.json")["thresholds"]
    for name, of in {"lines_s0": "lines", "s1": "lines", "areas_s0": "areas"}.items():
        assert open_probability(workspace.probability(name)).threshold == thresholds[of]


def test_the_page_has_the_figures_of_sets(finished_sets):
    _, workspace = finished_sets
    page = workspace.report.read_text()
    assert '"by_set":{"lines":{"chips":' in page.replace(" ", "")


def test_facts_of_a_checkpoint_hold_for_all_sets(finished_sets):
    facts = read(finished_sets[1].checkpoint(0) / "best.json")
    assert (facts["resample_m"], facts["nodata"], facts["bands"]) == (None, None, [1, 2, 3])
    assert facts["gsd_range_m"] == [pytest.approx(0.5, abs=0.01), pytest.approx(1, abs=0.01)]
    assert facts["set_weights"] == {"lines": 2.5, "areas": 1.0}


def test_one_set_after_the_other_is_held_out_whole(sets):
    config, workspace = sets('split.method="sets"', "train.epochs=1")
    pipeline.run(config, workspace, fold="each", say=lambda *_: None)
    for scene, fold in {"lines_s0": 0, "s3": 0, "areas_s0": 1, "t2": 1}.items():
        assert open_probability(workspace.probability(scene)).model == f"fold {fold} epoch 1"
    summary = evaluate.run(config, workspace)
    assert summary.set_of_fold == {"0": "lines", "1": "areas"}
    assert summary.by_fold == {"0": summary.by_set["lines"], "1": summary.by_set["areas"]}
    assert summary.chips == 7
    lines = str(summary).splitlines()
    assert [line[:15] for line in lines[-2:]] == ["fold 0, lines  ", "fold 1, areas  "]


def test_prepare_tells_counts_by_set(sets):
    summary = str(prepare.run(*sets()))
    assert "\n  lines  " in summary
    assert "4 scenes in 4 chips; roads: 0.51 km, " in summary
    assert "3 scenes in 3 chips; roads: " in summary


def test_labels_of_another_set_are_not_taken(sets):
    with pytest.raises(DataError, match=r"t1\.tif: none of the 4 label files has a matching name"):
        prepare.run(*sets('imagery.sets.areas.roads=["lines/roads"]'))


@pytest.mark.parametrize(
    ("assignment", "told"),
    [
        ("imagery.sets.areas.images=[]", r"imagery\.sets\.areas\.images is empty"),
        ("imagery.sets.areas.roads=[]", r"imagery\.sets\.areas\.roads is empty"),
        ("imagery.sets.areas.crs=EPSG:0", r"imagery\.sets\.areas\.crs"),
        ('imagery.sets.areas.images=["no"]', r"does not exist.*see imagery\.sets\.areas\.images"),
        ('imagery.sets.areas.roads=["no"]', r"does not exist.*see imagery\.sets\.areas\.roads"),
    ],
)
def test_what_is_wrong_with_a_set_is_told_by_its_key(sets, assignment, told):
    with pytest.raises((ConfigError, DataError), match=told):
        prepare.run(*sets(assignment))


def test_a_set_without_any_road_is_refused(sets, tmp_path):
    for mask in (tmp_path / "project/areas/masks").iterdir():
        with rasterio.open(mask, "r+") as opened:
            opened.write(np.zeros_like(opened.read()))
    with pytest.raises(
        DataError, match=r"imagery\.sets\.areas\.roads: no road in 3 label files of 3 scenes"
    ):
        prepare.run(*sets())


def test_a_weight_changes_what_train_does_and_not_what_prepare_does(sets):
    config, workspace = sets("train.epochs=1")
    pipeline.prepare(config, workspace)
    train.run(config, workspace, fold=0)
    before = workspace.record("prepare").stat().st_mtime_ns
    other, _ = sets("train.epochs=1", "imagery.sets.areas.weight=4")
    prepare.run(other, workspace)
    assert workspace.record("prepare").stat().st_mtime_ns == before
    assert pipeline.plan_stage("train", other, workspace, fold=0, force=True).runs
    with pytest.raises(ConfigError, match=r"started with set_weights\.areas 1\.0 \(now 4\.0\);"):
        train.run(other, workspace, fold=0)


def test_an_option_of_a_set_makes_prepare_run_again(sets):
    config, workspace = sets()
    prepare.run(config, workspace)
    other, _ = sets("imagery.sets.areas.labels.default_speed_mph=15")
    planned = pipeline.plan_stage("prepare", other, workspace)
    assert planned.runs
    assert "set areas" in planned.why
    prepare.run(other, workspace)
    assert set(np.unique(read_mask(workspace.mask("t1")))) == {0, 2}


def test_a_scene_that_changes_its_set_makes_prepare_run_again(sets):
    config, workspace = sets()
    prepare.run(config, workspace)
    sources = prepare.sources_of(config, workspace)
    first, second = config.sets
    swapped = {first.name: second, second.name: first}
    moved = {
        name: replace(source, set=swapped[source.set.name])
        for name, source in sources.scenes.items()
    }
    stage = prepare_stage(config, workspace, replace(sources, scenes=moved))
    assert "set of " in stage.reason().text


def test_chips_of_a_set_are_drawn_by_its_weight(sets):
    config, workspace = sets("train.windows_per_chip=4")
    pipeline.prepare(config, workspace)
    job = training_job(config, workspace, 0)
    windows = TrainingWindows(job.training, config.train)
    drawn = [job.training[windows.chip_of(index)].set for index in range(len(windows))]
    of_lines = sum(chip.set == "lines" for chip in job.training)
    of_areas = len(job.training) - of_lines
    assert (drawn.count("lines"), drawn.count("areas")) == (10 * of_lines, 4 * of_areas)


def test_sets_may_move_with_their_run(sets, tmp_path):
    config, workspace = sets()
    pipeline.prepare(config, workspace)
    (tmp_path / "project").rename(tmp_path / "elsewhere")
    config = load_config(tmp_path / "elsewhere/roadseg.json")
    for stage in ("prepare", "split"):
        assert declared_stage(stage, config, Workspace(config.run)).reason() is None
    train.run(config, Workspace(config.run), fold=0)


def test_a_scene_that_cannot_be_used_is_left_out_of_its_set(sets, tmp_path):
    (tmp_path / "project/areas/images/t1.tif").write_bytes(b"no image")
    config, workspace = sets("compute.on_error=skip")
    summary = prepare.run(config, workspace)
    assert list(summary.failed) == ["t1"]
    assert summary.sets["areas"].scenes == 2
    assert split.run(config, workspace).chips_of_sets["areas"] == [1, 1]


def test_chips_of_a_set_that_the_config_lacks_are_told(sets):
    config, workspace = sets()
    pipeline.prepare(config, workspace)
    one = changed(config, "imagery", sets={"lines": config.imagery.sets["lines"]})
    with pytest.raises(
        ConfigError, match=r"imagery\.sets\.areas: missing, but chips\.json contains"
    ):
        train.run(one, workspace, fold=0)


@pytest.mark.parametrize("name", ["../up", "a/b", "x" * 65, 3])
def test_a_hostile_name_of_a_set_in_chips_is_refused(sets, name):
    config, workspace = sets()
    prepare.run(config, workspace)
    values = read(workspace.chips)
    values["scenes"][0]["set"] = name
    workspace.chips.write_text(json.dumps(values))
    with pytest.raises(DataError, match=r"chips\.json: scenes\.0\.set: "):
        split.run(config, workspace, force=True)


def test_chips_without_sets_are_read_as_those_of_a_run_without_sets(finished):
    config, workspace = finished
    values = read(workspace.chips)
    for scene in values["scenes"]:
        assert scene.pop("set") == ""
    workspace.chips.write_text(json.dumps(values))
    assert split.run(config, workspace, force=True).chips_of_sets == {}


def test_each_set_is_a_fold_in_the_order_of_the_config(sets):
    config, workspace = sets("split.method=sets", "split.folds=7")
    prepare.run(config, workspace)
    summary = split.run(config, workspace)
    assert summary.chips_of_sets == {"lines": [4, 0], "areas": [0, 3]}
    told = "7 chips in 2 sets, one per fold (split.folds is ignored); chips per fold: 4, 3; "
    assert str(summary).startswith(told)
    assert str(summary).endswith("; folds: 0 lines, 1 areas")


def test_sets_as_folds_need_several_sets(sets):
    config, workspace = sets("split.method=sets")
    prepare.run(config, workspace)
    one = changed(config, "imagery", sets={"lines": config.imagery.sets["lines"]})
    with pytest.raises(ConfigError, match=r"imagery\.sets has fewer than two; add sets"):
        split.run(one, workspace)


def test_a_set_that_is_a_fold_needs_a_scene(sets, tmp_path):
    for image in (tmp_path / "project/areas/images").iterdir():
        image.write_bytes(b"no image")
    config, workspace = sets("split.method=sets", "compute.on_error=skip")
    prepare.run(config, workspace)
    with pytest.raises(DataError, match=r"imagery\.sets\.areas: this set has no chips"):
        split.run(config, workspace)


def test_sets_that_overlap_on_the_ground_share_folds_by_blocks_only(sets, tmp_path, make_scene):
    for number in range(3):
        make_scene(
            tmp_path / "project/twin", f"w{number}", origin=(NORTH[0] + 200 * number, NORTH[1])
        )
    twin = '{"images": ["twin/images"], "roads": ["twin/roads"]}'
    config, workspace = sets(f"imagery.sets.twin={twin}", "split.method=sets")
    prepare.run(config, workspace)
    with pytest.raises(DataError, match=r"different folds; set split\.method to blocks"):
        split.run(config, workspace)
    config, _ = sets(f"imagery.sets.twin={twin}")
    split.run(config, workspace)
    folds = read(workspace.folds)
    assert [folds[f"w{number}"] for number in (1, 2)] == [folds[f"s{number}"] for number in (1, 2)]


def test_thresholds_are_tried_where_there_are_roads_as_the_set_says(finished_sets, monkeypatch):
    config, workspace = finished_sets
    listed, opened = read_chips(workspace.chips), {}

    def open_with_reference(own, _, scene):
        opened[scene.name] = own.labels.default_speed_mph
        raise DataError("not needed")

    monkeypatch.setattr(calibrate_edges, "open_with_reference", open_with_reference)
    chips = {chip.scene: [chip] for chip in listed.chips}
    bare = next(name for name in chips if listed.set_of[name] == "lines")
    chips[bare] = [replace(chips[bare][0], road_share=0.0)]
    calibrate_edges.least_threshold(config, workspace, listed, chips)
    assert opened == {
        name: 45.0 if listed.set_of[name] == "areas" else config.labels.default_speed_mph
        for name in chips
        if name != bare
    }
