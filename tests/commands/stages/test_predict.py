import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import rasterio
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from roadseg.commands.stages import predict
from roadseg.errors import CheckpointError, ConfigError, DataError, MissingInputError, OutputError
from roadseg.learn.hardware.cpu import share_cores
from roadseg.learn.inference import jobs, tasks
from roadseg.learn.options import PredictOptions
from roadseg.raster import strips
from roadseg.raster.strips import Strips
from roadseg.roads.masks import probabilities
from roadseg.roads.masks.mask_files import read_mask
from roadseg.roads.speeds import DEFAULT_BINS
from roadseg.system.parallel import each
from roadseg.system.stage_records import read_stage_key
from tests.configs import changed
from tests.drawing import read_probability


def predict_images(
    finished,
    images,
    output,
    *,
    folders=None,
    predicting=None,
    compute=None,
    tracing=None,
    force=False,
    **imagery,
):
    config, workspace = finished
    config = changed(config, "imagery", **imagery)
    config = changed(config, "predict", **predicting or {})
    config = changed(config, "compute", **compute or {})
    config = changed(config, "graph", **tracing or {})
    folders = folders or [workspace.checkpoint(0)]
    images = map(str, images)
    return predict.run_images(config, images, checkpoints=folders, output=output, force=force)


@pytest.fixture
def predict_here(finished, make_scene, tmp_path):
    """Give a function that predicts one scene again and again, and returns its raster."""
    image, _ = make_scene(tmp_path, "here")

    def run(**options):
        predict_images(finished, [image], tmp_path / "out", **options)
        return tmp_path / "out/here.tif"

    return run


@pytest.fixture
def other(finished, tmp_path):
    """Copy the checkpoint of the run; return the folder."""
    return Path(shutil.copytree(finished[1].checkpoint(0), tmp_path / "other"))


def pixels_of(path):
    with rasterio.open(path) as source:
        return source.read()


def test_a_probability_raster_is_a_cog_on_its_scene_with_bands_of_bins_and_of_roads(
    finished, finished_city
):
    config, workspace = finished
    (name,) = predict.run(config, workspace, fold=0).scenes
    with (
        rasterio.open(workspace.probability(name)) as raster,
        rasterio.open(finished_city / f"images/{name}.tif") as image,
    ):
        assert raster.descriptions == DEFAULT_BINS.band_names
        assert (raster.dtypes[0], raster.shape) == ("uint8", (64, 64))
        assert (raster.transform, raster.crs) == (image.transform, image.crs)
        assert raster.tags(ns="IMAGE_STRUCTURE")["LAYOUT"] == "COG"
    assert read_probability(workspace.probability(name)).speed_bins == DEFAULT_BINS


def test_an_image_is_not_replaced_by_its_probabilities(finished, write_nowhere, tmp_path):
    image = tmp_path / "city.tif"
    write_nowhere(np.full((3, 64, 64), 80, dtype=np.uint8), name=image)
    before = image.read_bytes()
    with pytest.raises(ConfigError, match=r"^--output .*city\.tif: is a file to read; write to"):
        predict_images(finished, [image], tmp_path, gsd_m=1.1)
    assert image.read_bytes() == before


def test_an_image_without_georeference_needs_the_size_of_its_pixels(
    finished, write_nowhere, tmp_path
):
    image = tmp_path / "nowhere.tif"
    write_nowhere(np.full((3, 64, 64), 80, dtype=np.uint8), name=image)
    with pytest.raises(DataError, match=r"nowhere\.tif: no georeference found .* imagery\.gsd_m"):
        predict_images(finished, [image], tmp_path / "out")
    predict_images(finished, [image], tmp_path / "out", gsd_m=1.1)
    found = read_probability(tmp_path / "out/nowhere.tif").grid
    assert (found.is_local, found.pixel_size_m) == (True, pytest.approx((1.1, 1.1)))


def change_facts(folder, **changes):
    """Change the facts of a checkpoint, as if it had been trained so."""
    write_tensors(folder, load_file(folder / "best.safetensors"), **changes)


def write_tensors(folder, tensors, **changes):
    path = folder / "best.safetensors"
    with safe_open(path, "pt") as file:
        facts = json.loads(file.metadata()["roadseg"]) | changes
    save_file(tensors, path, metadata={"roadseg": json.dumps(facts)})


@pytest.mark.parametrize(
    "values", [(0, None, None), (None, 0, None), (0, 9, None), (None, None, 0)]
)
def test_pixels_without_data_by_training_settings_or_file_have_no_probability(
    finished, make_scene, tmp_path, values
):
    trained, given, own = values
    change_facts(finished[1].checkpoint(0), nodata=trained)
    image, _ = make_scene(tmp_path, "holes")
    with rasterio.open(image, "r+") as target:
        target.nodata = own
        target.write(np.zeros((3, 20, 64), dtype=np.uint8), window=((0, 20), (0, 64)))
    predict_images(finished, [image], tmp_path / "out", nodata=given)
    with rasterio.open(tmp_path / "out/holes.tif") as raster:
        assert not raster.read()[:, :20].any()
        assert not raster.dataset_mask()[:20].any()
        assert raster.dataset_mask()[20:].all()


def test_a_finished_scene_is_kept_and_a_changed_one_predicted_again(finished, make_scene, tmp_path):
    image, _ = make_scene(tmp_path, "elsewhere")
    out = tmp_path / "out"
    predict_images(finished, [image], out)
    first = (out / "elsewhere.tif").stat().st_mtime_ns
    predict_images(finished, [image], out)
    assert (out / "elsewhere.tif").stat().st_mtime_ns == first
    make_scene(tmp_path, "elsewhere", size_px=80)
    predict_images(finished, [image], out)
    assert (out / "elsewhere.tif").stat().st_mtime_ns != first


def test_brightness_of_pixels_that_are_stretched_does_not_matter(
    finished, make_scene, write_raster, tmp_path
):
    dim, _ = make_scene(tmp_path, "dim", dtype="uint16")
    with rasterio.open(dim) as source:
        images = [dim, write_raster(7 * source.read() + 300, name="bright.tif")]
    predict_images(finished, images, tmp_path / "out", predicting={"scaling": "auto"})
    found = [read_probability(tmp_path / f"out/{path.name}").road for path in images]
    assert np.ptp(found[0]) > 0
    assert np.abs(found[0].astype(int) - found[1]).max() <= 1


@pytest.fixture
def tall(make_scene, tmp_path, monkeypatch):
    """Give a scene of four strips."""
    monkeypatch.setattr(strips, "STRIP_PX", 64)
    return make_scene(tmp_path, "tall", size_px=230)[0]


@pytest.fixture
def predict_tall(finished, tall, tmp_path):
    """Give a function that predicts that scene into a folder, and returns the bytes made."""

    def run(name, **options):
        predict_images(finished, [tall], tmp_path / name, **options)
        return (tmp_path / name / "tall.tif").read_bytes()

    return run


def noted(monkeypatch, module, function, option):
    """Return a list that grows by an option of every call of a function of a module."""
    given, real = [], getattr(module, function)
    note = lambda *a, **b: given.append(b[option]) or real(*a, **b)  # noqa: E731
    monkeypatch.setattr(module, function, note)
    return given


@pytest.fixture
def asked(monkeypatch):
    """Note the rows that are asked of the network."""
    return noted(monkeypatch, tasks, "predict_parts", "rows")


def interrupted_after(strips_done):
    """Let the network fail as soon as so many strips are there, as if the process was killed."""
    real = tasks.predict_parts

    def parts(*args, **options):
        for part in real(*args, **options):
            if part.start >= 64 * strips_done:
                raise KeyboardInterrupt
            yield part

    return parts


def interrupt(*_, **__):
    raise KeyboardInterrupt


@pytest.mark.parametrize(("strips_done", "km2"), [(0, 0.053), (1, 0.038), (2, 0.023)])
def test_an_interrupted_scene_goes_on_with_the_first_missing_strip(  # noqa: PLR0917 - fixtures
    predict_tall, asked, monkeypatch, caplog, strips_done, km2
):
    caplog.set_level("INFO", "roadseg")
    with monkeypatch.context() as patch:
        patch.setattr(tasks, "predict_parts", interrupted_after(strips_done))
        with pytest.raises(KeyboardInterrupt):
            predict_tall("out")
    caplog.clear()
    found = predict_tall("out")
    assert f"to predict: 1 scene, {km2} km2; engine eager" in caplog.text
    assert found == predict_tall("straight")
    assert asked[1:] == [range(64 * strips_done, 230), range(230)]


def test_force_predicts_what_is_there_again(predict_tall, asked, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(tasks, "predict_parts", interrupted_after(2))
        with pytest.raises(KeyboardInterrupt):
            predict_tall("out")
    for _ in range(2):
        predict_tall("out", force=True)
    assert asked[1:] == [range(230)] * 2


def test_the_strips_of_several_processes_are_those_of_one(predict_tall, asked, monkeypatch):
    straight = predict_tall("straight")
    monkeypatch.setattr(jobs, "each", lambda work, items, **_: each(work, items))
    assert predict_tall("out", compute={"workers": 2}) == straight
    assert asked == [range(230), range(128), range(128, 230)]


def test_processes_that_predict_begin_with_their_share_of_the_cores(predict_tall, monkeypatch):
    begun = []

    def one_after_the_other(work, items, *, begin, **_):
        begun.append(begin)
        return each(work, items)

    monkeypatch.setattr(jobs, "each", one_after_the_other)
    predict_tall("out", compute={"workers": 2})
    assert begun == [share_cores]


@pytest.fixture
def batches(monkeypatch):
    """Note how many windows engines are opened for."""
    return noted(monkeypatch, tasks, "open_engine", "batch_size")


@pytest.mark.parametrize("engine", ["eager", "auto"])
def test_a_batch_holds_no_more_windows_than_scenes_have(
    finished, make_scene, tmp_path, batches, engine
):
    images = [make_scene(tmp_path, name)[0] for name in ("a", "b")]
    for size in (4, 1):
        options = {"engine": engine, "batch_size": size}
        predict_images(finished, images, tmp_path / str(size), predicting=options)
    assert batches == [1, 1]
    for name in ("a.tif", "b.tif"):
        found = [pixels_of(tmp_path / size / name) for size in ("4", "1")]
        assert np.array_equal(*found)


def test_a_scene_of_which_only_the_end_is_missing_needs_no_network(predict_tall, monkeypatch):
    straight = predict_tall("straight")
    with monkeypatch.context() as patch:
        patch.setattr(probabilities, "copy_as_cog", interrupt)
        with pytest.raises(KeyboardInterrupt):
            predict_tall("out")
    monkeypatch.setattr(tasks, "predict_parts", None)
    assert predict_tall("out") == straight


def test_a_scene_that_cannot_be_used_stops_all_or_is_skipped(finished, make_scene, tmp_path):
    images = [make_scene(tmp_path, "deep", dtype="uint16")[0], make_scene(tmp_path, "plain")[0]]
    with pytest.raises(CheckpointError, match="pixels of uint16"):
        predict_images(finished, images, tmp_path / "out")
    summary = predict_images(finished, images, tmp_path / "out", compute={"on_error": "skip"})
    assert (summary.scenes, list(summary.failed)) == (["plain"], ["deep"])
    assert "pixels of uint16" in summary.failed["deep"]


def test_when_all_scenes_fail_there_is_no_result(finished, make_scene, tmp_path):
    image, _ = make_scene(tmp_path, "deep", dtype="uint16")
    with pytest.raises(DataError, match=r"the only scene failed: .* pixels of uint16"):
        predict_images(finished, [image], tmp_path / "out", compute={"on_error": "skip"})


def test_a_prediction_finds_the_rasters_of_its_shards(finished):
    config, workspace = finished
    config = changed(config, "predict", scenes="all")
    shards = [predict.run(config, workspace, fold=0, force=True, shard=(n, 2)) for n in (1, 2)]
    assert [len(shard.scenes) for shard in shards] == [3, 2]
    with pytest.raises(MissingInputError, match="run `roadseg predict` first"):
        read_stage_key(workspace.record("predict"))
    before = [path.stat().st_mtime_ns for path in workspace.probabilities.glob("*.tif")]
    done = predict.run(config, workspace, fold=0)
    assert sorted(shards[0].scenes + shards[1].scenes) == done.scenes
    assert [path.stat().st_mtime_ns for path in workspace.probabilities.glob("*.tif")] == before


def test_several_checkpoints_are_averaged(finished, predict_here, other):
    tensors = load_file(other / "best.safetensors")
    tensors["model.segmentation_head.0.bias"] += 1
    write_tensors(other, tensors)
    own = finished[1].checkpoint(0)
    found = [
        pixels_of(predict_here(folders=folders)).astype(float)
        for folders in ([own], [other], [own, other])
    ]
    assert np.abs(found[2] - (found[0] + found[1]) / 2).max() <= 1
    assert np.abs(found[0] - found[1]).mean() > 2


@pytest.mark.parametrize("fact", [{"bands": [3, 2, 1]}, {"nodata": 7.0}, {"resample_m": 0.4}])
def test_checkpoints_that_were_trained_otherwise_are_not_averaged(
    finished, predict_here, other, fact
):
    change_facts(other, **fact)
    ((name, value),) = fact.items()
    told = f"trained with {name} {re.escape(str(value))}, but .* one run"
    with pytest.raises(CheckpointError, match=told):
        predict_here(folders=[finished[1].checkpoint(0), other])


def test_turned_windows_are_averaged_on_request(predict_here):
    found = [
        pixels_of(predict_here(predicting={"tta": tta})).astype(float) for tta in (False, True)
    ]
    assert 0 < np.abs(found[0] - found[1]).mean() < 30


def test_windows_are_seen_in_every_pixel_size_of_the_network(finished, predict_here, caplog):
    caplog.set_level("INFO", "roadseg")
    found = []
    for sizes_m in ([], [1.0], [1.0, 0.5]):  # Those of the scene are of 1 m.
        change_facts(finished[1].checkpoint(0), pixel_sizes_m=sizes_m)
        found.append(pixels_of(predict_here()).astype(float))
    assert (found[0] == found[1]).all()
    assert 0 < np.abs(found[0] - found[2]).mean() < 30
    assert caplog.text.count("windows of 64 px at 64 and 128 px") == 1


def test_sizes_in_which_windows_have_one_side_are_one(finished, predict_here, caplog):
    caplog.set_level("INFO", "roadseg")
    change_facts(finished[1].checkpoint(0), pixel_sizes_m=[1.0, 1.2])
    predict_here()
    assert "to predict" in caplog.text
    assert "px at" not in caplog.text


def test_a_network_sees_no_larger_windows_because_it_has_them_enlarged(
    finished, write_nowhere, tmp_path, monkeypatch, caplog
):
    caplog.set_level("INFO", "roadseg")
    monkeypatch.setattr("roadseg.learn.options._LARGEST_PX", 128)
    image, predicting = tmp_path / "here.tif", {"window_px": None, "overlap_px": 0}
    write_nowhere(np.full((3, 128, 128), 80, dtype=np.uint8), name=image)
    change_facts(finished[1].checkpoint(0), pixel_sizes_m=[0.5])
    predict_images(finished, [image], tmp_path / "out", predicting=predicting, gsd_m=1.0)
    assert "windows of 64 px at 128 px" in caplog.text


@pytest.mark.parametrize(("enlarged", "largest_px"), [(0.7, 1024), (1, 1024), (1.5, 672)])
def test_windows_that_a_network_has_enlarged_are_smaller(enlarged, largest_px):
    scenes = range(500, 5000, 100)
    sides = [PredictOptions().window_for(px, px, enlarged=enlarged) for px in scenes]
    assert max(sides) == largest_px


def test_windows_of_a_wide_overlap_may_be_larger_when_they_are_enlarged():
    assert PredictOptions(overlap_px=384).window_for(5000, 5000, enlarged=1.5) == 768


def test_batches_of_enlarged_windows_are_smaller():
    options = PredictOptions(window_px=512, batch_size=4)
    assert [options.most_at_once(side) for side in (352, 512, 736, 1472)] == [4, 4, 1, 1]


def test_a_mask_is_written_on_request_and_alone_if_the_rest_is_there(predict_here):
    raster = predict_here()
    first = raster.stat().st_mtime_ns
    predict_here(predicting={"mask": True})
    assert read_mask(raster.parent / "road_masks/here.tif").shape == (64, 64)
    assert raster.stat().st_mtime_ns == first


def test_a_mask_is_written_again_with_another_threshold(predict_here):
    shares = []
    for threshold in (0.001, 0.999):
        raster = predict_here(predicting={"mask": True}, tracing={"threshold": threshold})
        shares.append((read_mask(raster.parent / "road_masks/here.tif") > 0).mean())
    assert shares == [1, 0]


def test_a_raster_names_the_mean_threshold_of_its_networks(finished, predict_here, other):
    own = finished[1].checkpoint(0)
    change_facts(own, threshold=0.5, thresholds={"a": 0.1})
    change_facts(other, threshold=0.61)
    assert read_probability(predict_here(folders=[own, other])).threshold == 0.555


def test_a_network_of_an_earlier_version_names_no_threshold(finished, predict_here):
    change_facts(finished[1].checkpoint(0), threshold=None)
    assert read_probability(predict_here()).threshold is None


def test_a_mask_has_the_pixels_from_the_threshold_of_the_network_on(finished, predict_here):
    road = pixels_of(predict_here())[-1]
    middle = float(np.median(road)) / 255
    change_facts(finished[1].checkpoint(0), threshold=middle)
    raster = predict_here(predicting={"mask": True})
    found = read_mask(raster.parent / "road_masks/here.tif")
    assert ((found > 0) == (road >= round(middle, 4) * 255)).all()


def test_a_disk_without_room_is_told_before_the_start(finished, tall, tmp_path, monkeypatch):
    monkeypatch.setattr(Strips, "needed_bytes", 10**18)
    monkeypatch.setattr(jobs, "predict_task", None)
    with pytest.raises(OutputError, match=r"tall\.tif: needs .* GB free; free some space"):
        predict_images(finished, [tall], tmp_path / "out")
