import shutil
from pathlib import Path

import numpy as np
import pytest
import rasterio

from roadseg.commands.stages import evaluate, graph, pipeline, predict, report
from roadseg.config import load_config
from roadseg.errors import ConfigError, DataError
from roadseg.roads.formats.files import read_gpkg
from roadseg.roads.masks.fusion import day_of, fuse, image_path
from roadseg.system.workspace import Workspace
from tests.drawing import read_probability

FUSED = "predict.fuse=true"
SPRING, SUMMER = "spring", "summer"


@pytest.fixture(scope="module")
def images(tmp_path_factory, make_scene):
    """Return two images of one place, 3 m apart, and one of another place."""
    folder = tmp_path_factory.mktemp("images")
    made = [make_scene(folder, name) for name in (SPRING, SUMMER)]
    made.append(make_scene(folder, "elsewhere", origin=(670000.0, 4000000.0)))
    return [str(image) for image, _ in made]


def run_images(images, checkpoint, output, *settings, **options):
    config = load_config(None, ["predict.window_px=64", "predict.overlap_px=16", *settings])
    return predict.run_images(config, images, checkpoints=[checkpoint], output=output, **options)


def pixels_of(path):
    with rasterio.open(path) as source:
        return source.read()


def test_images_of_one_place_have_one_raster(images, checkpoint, tmp_path):
    done = run_images(images, checkpoint, tmp_path, FUSED)
    assert done.images_of == {"elsewhere": ["elsewhere"], SPRING: [SPRING, SUMMER]}
    assert sorted(path.name for path in tmp_path.glob("*.tif")) == ["elsewhere.tif", "spring.tif"]
    assert "2 places fused from 3 images" in str(done)


def test_a_single_image_is_as_without_fusion(images, checkpoint, tmp_path):
    run_images(images, checkpoint, tmp_path / "fused", FUSED)
    run_images(images, checkpoint, tmp_path / "alone")
    here, there = (pixels_of(tmp_path / f"{name}/elsewhere.tif") for name in ("fused", "alone"))
    assert np.abs(here[-1].astype(int) - there[-1]).max() == 0
    assert np.abs(here[:-1].astype(int) - there[:-1]).max() <= 1


def test_a_fused_raster_is_the_mean_of_the_log_odds(images, checkpoint, tmp_path, monkeypatch):
    monkeypatch.setattr("roadseg.commands.fusion.image_shifts.find_shift", lambda *_: (0.0, 0.0))
    run_images(images, checkpoint, tmp_path, FUSED)
    alone = [read_probability(image_path(tmp_path, name)) for name in (SPRING, SUMMER)]
    fused, _ = fuse((np.stack([*one.bins, one.road]), np.ones((64, 64), bool)) for one in alone)
    assert np.array_equal(pixels_of(tmp_path / "spring.tif"), fused)


def test_what_is_there_is_not_made_again(images, checkpoint, tmp_path):
    run_images(images, checkpoint, tmp_path, FUSED)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.tif")}
    run_images(images, checkpoint, tmp_path, FUSED)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.tif")} == before


def test_rasters_predicted_without_fusion_are_used_again(images, checkpoint, tmp_path):
    run_images(images, checkpoint, tmp_path)
    before = (tmp_path / "summer.tif").stat().st_mtime_ns
    run_images(images, checkpoint, tmp_path, FUSED)
    assert not (tmp_path / "summer.tif").exists()
    assert image_path(tmp_path, SUMMER).stat().st_mtime_ns == before


def test_masks_are_of_the_places(images, checkpoint, tmp_path):
    run_images(images, checkpoint, tmp_path, FUSED, "predict.mask=true")
    masks = sorted(path.name for path in tmp_path.rglob("road_masks/*.tif"))
    assert masks == ["elsewhere.tif", "spring.tif"]


def test_a_place_whose_images_are_larger_than_a_block_is_whole(
    images, checkpoint, tmp_path, monkeypatch
):
    run_images(images, checkpoint, tmp_path / "one", FUSED)
    monkeypatch.setattr("roadseg.commands.fusion.fused_places._BLOCK_PX", 24)
    run_images(images, checkpoint, tmp_path / "many", FUSED)
    here, there = (pixels_of(tmp_path / name / "spring.tif") for name in ("one", "many"))
    assert np.array_equal(here, there)


def test_nothing_is_predicted_if_nothing_is_to_be_fused(images, checkpoint, tmp_path):
    with pytest.raises(
        DataError, match=r"nothing to fuse in 2 images, because no two images share 10%"
    ):
        run_images([images[0], images[2]], checkpoint, tmp_path / "out", FUSED)
    assert list((tmp_path / "out").rglob("*.tif")) == []


def test_an_image_is_not_replaced_by_the_raster_of_its_place(images, checkpoint, tmp_path):
    copies = [shutil.copy(image, tmp_path) for image in images]
    before = [Path(copy).read_bytes() for copy in copies]
    with pytest.raises(ConfigError, match=r"^--output .*\.tif: is a file to read; write to"):
        run_images(copies, checkpoint, tmp_path, FUSED)
    assert [Path(copy).read_bytes() for copy in copies] == before


def test_images_without_georeference_are_refused(checkpoint, write_nowhere, tmp_path):
    paths = [tmp_path / "a.tif", tmp_path / "b.tif"]
    for path in paths:
        write_nowhere(path, np.full((3, 64, 64), 80, dtype=np.uint8))
    with pytest.raises(DataError, match=r"a\.tif: has no georeference, so which images show"):
        run_images(map(str, paths), checkpoint, tmp_path / "out", FUSED, "imagery.gsd_m=1")


def test_shards_without_fusion_are_fused_by_the_command_that_follows(images, checkpoint, tmp_path):
    run_images(images, checkpoint, tmp_path / "whole", FUSED)
    with pytest.raises(ConfigError, match="run the shards without --fuse"):
        run_images(images, checkpoint, tmp_path / "parts", FUSED, shard=(1, 2))
    for number in (1, 2):
        run_images(images, checkpoint, tmp_path / "parts", shard=(number, 2))
    run_images(images, checkpoint, tmp_path / "parts", FUSED)
    whole, parts = (sorted((tmp_path / name).rglob("*.tif")) for name in ("whole", "parts"))
    assert [path.name for path in whole] == [path.name for path in parts]
    for here, there in zip(whole, parts, strict=True):
        assert np.array_equal(pixels_of(here), pixels_of(there))


def test_the_day_of_an_image_stays_with_its_probabilities(images, checkpoint, tmp_path):
    dated = tmp_path / "dated.tif"
    dated.write_bytes(Path(images[0]).read_bytes())
    with rasterio.open(dated, "r+") as file:
        file.update_tags(TIFFTAG_DATETIME="2024:05:17 10:31:00")
    run_images([str(dated), images[1]], checkpoint, tmp_path / "out", FUSED)
    days = [day_of(image_path(tmp_path / "out", name)) for name in ("dated", SUMMER)]
    assert days == ["2024-05-17", ""]
    assert day_of(tmp_path / "out" / "dated.tif") == ""


def test_a_dry_run_reads_images_and_names_places(images, checkpoint, tmp_path):
    config = load_config(None, [FUSED, "predict.window_px=64", "predict.overlap_px=16"])
    plan = predict.plan_images(config, images, checkpoints=[checkpoint], output=tmp_path)
    names = [path.removeprefix(f"{tmp_path}/") for path in plan.writes]
    assert names == ["elsewhere.tif", "spring.tif"]
    assert plan.memory_mb > 0


@pytest.fixture(scope="module")
def fused_run(tmp_path_factory, write_city, make_scene):
    """Run all stages on a tiny city, one scene of which has a second image."""
    path = write_city(tmp_path_factory.mktemp("city"))
    for number in range(5):
        make_scene(path.parent, f"city_{number}_b", origin=(660000.0 + 200 * number, 4000000.0))
    config = load_config(path, [FUSED])
    workspace = Workspace(config.run)
    pipeline.run(config, workspace, say=lambda *_: None)
    return config, workspace


def test_images_of_one_place_share_a_fold_and_are_measured_once(fused_run):
    config, workspace = fused_run
    done = predict.run(config, workspace, fold=0)
    assert [len(names) for names in done.images_of.values()] == [2]
    assert evaluate.run(config, workspace).chips == 1


def test_a_finished_run_is_up_to_date(fused_run):
    config, workspace = fused_run
    before = workspace.record("predict").stat().st_mtime_ns
    predict.run(config, workspace, fold=0)
    assert workspace.record("predict").stat().st_mtime_ns == before


def test_a_lost_image_is_predicted_again(fused_run):
    config, workspace = fused_run
    (names,) = predict.run(config, workspace, fold=0).images_of.values()
    lost = image_path(workspace.probabilities, names[1])
    lost.unlink()
    predict.run(config, workspace, fold=0)
    assert lost.exists()


def test_edges_say_in_how_many_images_they_are_seen(fused_run):
    config, workspace = fused_run
    (name,) = graph.run(config, workspace).scenes
    found = read_gpkg(workspace.graph(name)).attributes
    assert set(found["images"].tolist()) <= {2}
    assert (found["seen"] <= found["images"]).all()


def test_the_report_is_of_the_places(fused_run):
    config, workspace = fused_run
    report.run(config, workspace)
    assert workspace.report.exists()
