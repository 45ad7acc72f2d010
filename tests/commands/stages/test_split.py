import json
from dataclasses import dataclass, replace
from pathlib import Path

import pyogrio
import pytest
from affine import Affine

from roadseg.commands.stages import split
from roadseg.config import load_config
from roadseg.dataset.chips import NO_ZONE, SceneRecord, write_chips
from roadseg.dataset.fold_files import read_fold_chips
from roadseg.errors import DataError
from roadseg.roads.speeds import DEFAULT_BINS
from roadseg.system.stage_records import MadeFrom, Stage
from roadseg.system.workspace import Workspace
from tests.drawing import chip_at

SIDE_M = 100.0


@dataclass(frozen=True)
class Prepared:
    failed: dict[str, str]


def apart(count=10):
    """Return chips of as many scenes, 1 km from one to the next."""
    return [chip_at(f"s{i}", 660_000.0 + 1000 * i, 4e6) for i in range(count)]


def places(providers=("google", "yahoo")):
    """Return six places, each shown by several providers."""
    names = [(i, f"p{i}_{who}") for i in range(6) for who in providers]
    return [chip_at(name, 660_000.0 + 1000 * i, 4e6, scene=name) for i, name in names]


@pytest.fixture
def prepared(tmp_path, monkeypatch):
    """Give the function that leaves chips as prepare does; it returns config and workspace."""
    monkeypatch.chdir(tmp_path)

    def leave(chips, *assignments, failed=None, labels=lambda _: "r.geojson"):
        path = tmp_path / "roadseg.json"
        path.write_text(json.dumps({"run": "run", "split": {"folds": 5}}))
        config = load_config(path, assignments)
        workspace = Workspace(config.run)
        names = dict.fromkeys(c.scene for c in chips)
        scenes = [SceneRecord(n, Path(f"{n}.tif"), Path(labels(n)), (0.5, 0.5)) for n in names]
        write_chips(workspace.chips, scenes, chips, DEFAULT_BINS)
        record = Stage(workspace.record("prepare"), lambda: MadeFrom({}, {}))
        record.finish(Prepared(failed or {}), [])
        return config, workspace

    return leave


def folds_of(workspace):
    return json.loads(workspace.folds.read_text())


def test_every_chip_gets_a_fold_and_every_fold_a_chip(prepared):
    config, workspace = prepared(apart())
    summary = split.run(config, workspace)
    assert sorted(folds_of(workspace).values()) == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert summary.chips_by_fold == [2] * 5


def test_chips_that_overlap_share_a_fold_though_their_blocks_differ(prepared):
    x_and_y = [chip_at("x", 670_390.0, 4e6), chip_at("y", 670_460.0, 4e6)]  # an edge is at 670.5 km
    config, workspace = prepared(apart() + x_and_y)
    assert split.run(config, workspace).groups == 11
    assert folds_of(workspace)["x"] == folds_of(workspace)["y"]


def test_scenes_without_georeference_are_places_of_their_own(prepared):
    config, workspace = prepared([chip_at(f"s{i}", 0.0, 0.0, zone=NO_ZONE) for i in range(5)])
    assert split.run(config, workspace).chips_by_fold == [1] * 5


def test_chips_up_to_the_distance_are_one_place_and_so_are_chains_of_them(prepared):
    lefts = [0, 600, 1200, 1801, 3000]  # Gaps of 500, 500, 501 and 1,099 m.
    chips = [chip_at(f"s{i}", 660_000.0 + left, 4e6) for i, left in enumerate(lefts)]
    config, workspace = prepared(chips, "split.method=places", "split.folds=3")
    assert str(split.run(config, workspace)).startswith("5 chips in 3 places; chips per fold: 3,")
    folds = list(folds_of(workspace).values())
    assert folds[0] == folds[1] == folds[2]
    assert len({folds[2], folds[3], folds[4]}) == 3


def test_a_scene_without_georeference_is_a_place(prepared):
    far = [chip_at(f"a_r0_c{i}", 9e4 * i, 0.0, zone=NO_ZONE) for i in range(2)]
    chips = [*far, chip_at("b", 0.0, 0.0, zone=NO_ZONE)]
    config, workspace = prepared(chips, "split.method=places", "split.folds=2")
    assert split.run(config, workspace).groups == 2
    assert folds_of(workspace)["a_r0_c0"] == folds_of(workspace)["a_r0_c1"]


@pytest.fixture
def towns(prepared):
    """Give the function that leaves chips of four towns, 1 km apart, and settings for kNNDM."""
    chips = [
        chip_at(f"t{town}_r0_c{i}", 660_000.0 + 1200 * town + SIDE_M * i, 4e6)
        for town in range(4)
        for i in range(3)
    ]
    return lambda *settings: prepared(
        chips, "split.method=knndm", "split.folds=4", "split.target=map/*.tif", *settings
    )


def at(x, pixel_m=2.5):
    """Return the place of the pixels of an image of 40 x 40, one chip of 100 m."""
    return Affine(pixel_m, 0, x, 0, -pixel_m, 4e6)


def test_folds_are_as_far_from_their_training_ground_as_images_to_be_mapped(towns, write_raster):
    write_raster(name="map/east.tif", transform=at(664_900.0))  # 1 km beyond the last town.
    told = str(split.run(*towns()))
    assert told.startswith(
        "12 chips in 4 clusters, whose distances to training chips differ from those of "
        "split.target by 67 m; chips per fold: 3, 3, 3, 3;"
    )


def test_other_images_to_be_mapped_change_the_folds(towns, write_raster):
    write_raster(name="map/east.tif", transform=at(664_900.0))
    apart = split.run(*towns())
    write_raster(name="map/east.tif", transform=at(663_900.0))
    near = split.run(*towns())
    assert near.groups > apart.groups
    assert near.mismatch_m < 30


def test_images_to_be_mapped_need_a_georeference_for_a_distance(towns, write_raster):
    write_raster(name="map/nowhere.tif", crs=None, transform=Affine.identity())
    with pytest.raises(DataError, match=r"^nowhere has no georeference, which split\.method knndm"):
        split.run(*towns("imagery.gsd_m=1"))


def test_images_to_be_mapped_that_are_not_there_are_refused_by_their_key(towns):
    with pytest.raises(DataError, match=r"split\.target"):
        split.run(*towns())


def test_random_folds_ignore_the_blocks(prepared):
    chips = [chip_at(f"s_r0_c{i}", 660_000.0 + 100 * i, 4e6) for i in range(5)]
    config, workspace = prepared(chips, "split.block_m=5000", "split.method=random")
    assert split.run(config, workspace).chips_by_fold == [1] * 5


@pytest.mark.parametrize("method", ["blocks", "places"])
def test_scenes_without_georeference_that_share_a_label_file_share_a_fold(prepared, method):
    names = [f"p{i}_{who}" for i in range(6) for who in ("a", "b")]
    chips = [chip_at(name, scene=name, zone=NO_ZONE) for name in names]
    labels = lambda scene: f"{scene[:2]}.png"  # noqa: E731
    config, workspace = prepared(chips, f"split.method={method}", labels=labels)
    assert split.run(config, workspace).groups == 6
    folds = folds_of(workspace)
    assert all(folds[f"p{i}_a"] == folds[f"p{i}_b"] for i in range(6))


def test_the_folds_of_a_run_are_a_file_for_another(prepared, tmp_path):
    config, workspace = prepared(apart())
    split.run(config, workspace)
    workspace.folds.rename(tmp_path / "old.json")
    split.run(*prepared(apart(), "split.method=file", "split.file=old.json"))
    assert folds_of(workspace) == json.loads((tmp_path / "old.json").read_text())


def test_a_file_may_name_scenes_that_failed_and_their_chips(prepared, tmp_path):
    rows = [f"s{i},{i % 5}" for i in range(10)] + ["bad,0", "poor_r0_c0,1", "poor_r0_c9,7"]
    (tmp_path / "my.csv").write_text("\n".join(["name,fold", *rows]))
    settings = ("split.method=file", "split.file=my.csv")
    config, workspace = prepared(apart(), *settings, failed={"bad": "why", "poor": "why"})
    split.run(config, workspace)
    assert len(folds_of(workspace)) == 10


def test_a_changed_file_changes_the_folds(prepared, tmp_path):
    settings = ("split.method=file", "split.file=my.csv", "split.folds=2")
    for folds in ("a,0\nb,1\n", "a,1\nb,00\n"):
        (tmp_path / "my.csv").write_text(f"name,fold\n{folds}")
        config, workspace = prepared([chip_at("a", 66e4, 4e6), chip_at("b", 67e4, 4e6)], *settings)
        split.run(config, workspace)
    assert folds_of(workspace) == {"a": 1, "b": 0}


def test_the_layer_of_folds_is_written(prepared):
    config, workspace = prepared(apart())
    split.run(config, workspace)
    layer = pyogrio.read_dataframe(workspace.fold_layer, layer="chips")
    assert dict(zip(layer["name"], layer["fold"], strict=True)) == folds_of(workspace)


def test_the_summary_tells_chips_and_road_of_each_fold(prepared):
    chips = [replace(c, road_share=0.02) for c in apart(5)]
    told = str(split.run(*prepared(chips)))
    assert told == (
        "5 chips in 5 ground blocks; chips per fold: 1, 1, 1, 1, 1; "
        "road pixels per fold: 2.0%, 2.0%, 2.0%, 2.0%, 2.0%"
    )


def test_chips_around_a_fold_are_counted_and_not_trained_on(prepared):
    chips = [chip_at(f"s_r0_c{i}", 660_000.0 + 100 * i, 4e6) for i in range(10)]
    config, workspace = prepared(chips, "split.folds=2")
    split.run(config, workspace)
    assert len(read_fold_chips(workspace, chips, 0).training) == 5
    config, workspace = prepared(chips, "split.folds=2", "split.buffer_m=250")
    told = str(split.run(config, workspace))
    assert len(read_fold_chips(workspace, chips, 0).training) == 2
    assert told.endswith(
        "; chips not trained on, nearer than 250 m to the held-out ones, per fold: 3, 3"
    )


def test_a_buffer_that_leaves_nothing_to_train_on_is_refused(prepared):
    with pytest.raises(DataError, match=r"all 8 chips outside of fold 0 are nearer than split\.bu"):
        split.run(*prepared(apart(), "split.buffer_m=9000"))


OVERLAPPING = [chip_at(f"s{i}", 660_000.0 + 90 * i, 4e6) for i in range(20)]


@pytest.mark.parametrize(
    ("chips", "settings", "told"),
    [
        (apart(), ["block_m=9000"], r"cannot fill 5 folds; lower split\."),
        (OVERLAPPING, ["block_m=100"], r"1 group cannot .* 19 pairs .* s0 and s1, which joins"),
        # These overlap as well, which changes nothing.
        (places(), ["block_m=90000"], r"12 chips in 1 group cannot fill 5 folds; lower split\."),
        (
            *(apart(), ["method=places", "block_m=900"]),
            r"10 chips in 1 group cannot fill 5 folds; lower split\..*split\.buffer_m$",
        ),
    ],
    ids=["blocks", "overlaps", "not overlaps", "places"],
)
def test_too_few_groups_are_refused_with_the_settings_to_change(prepared, chips, settings, told):
    with pytest.raises(DataError, match=told):
        split.run(*prepared(chips, *(f"split.{setting}" for setting in settings)))


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (
            ["split.method=random"],
            r"4 pairs of chips show the same .* p1_google and p1_yahoo, but are .*to blocks, which",
        ),
        (
            ["split.method=file", "split.file=my.csv"],
            r"to blocks, .* or give them one fold .split\.file",
        ),
    ],
)
def test_chips_that_overlap_across_folds_are_refused_and_leave_nothing_behind(
    prepared, tmp_path, settings, told
):
    names = [c.name for c in places()]
    rows = [f"{name},{number % 5}" for number, name in enumerate(names)]
    (tmp_path / "my.csv").write_text("\n".join(["name,fold", *rows]))
    config, workspace = prepared(places(), *settings)
    with pytest.raises(DataError, match=told):
        split.run(config, workspace)
    assert sorted(path.name for path in workspace.root.iterdir()) == ["chips.json", "prepare.json"]


def test_a_file_that_does_not_fit_the_chips_is_refused_by_its_name(prepared, tmp_path):
    (tmp_path / "my.csv").write_text("name,fold\ns0,0\nelse,1\n")
    with pytest.raises(DataError, match=r"my\.csv: else is neither a chip nor a scene .*; give"):
        split.run(*prepared(apart(), "split.method=file", "split.file=my.csv"))


def test_a_file_that_is_not_there_is_refused(prepared):
    with pytest.raises(DataError, match=r"split\.file: .*my\.csv is not an existing file"):
        split.run(*prepared(apart(), "split.method=file", "split.file=my.csv"))
