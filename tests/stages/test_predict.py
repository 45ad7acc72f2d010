import json

import numpy as np
import pytest
import rasterio
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from roadseg.config import load_config
from roadseg.core.speeds import DEFAULT_BINS
from roadseg.errors import CheckpointError, DataError, MissingInputError
from roadseg.io.probabilities import read_probability
from roadseg.stages import predict
from roadseg.workspace import Workspace


def predict_images(finished, images, output, **imagery):
    config, workspace = finished
    config = config.model_copy(update={"imagery": config.imagery.model_copy(update=imagery)})
    checkpoint = workspace.checkpoint(0)
    return predict.run_images(config, map(str, images), checkpoint=checkpoint, output=output)


def test_a_probability_raster_has_a_band_for_each_bin_and_one_for_roads(finished):
    config, workspace = finished
    (name,) = predict.run(config, workspace, fold=0).scenes
    with rasterio.open(workspace.probability(name)) as raster:
        assert raster.descriptions == DEFAULT_BINS.band_names
        assert (raster.dtypes[0], raster.shape) == ("uint8", (64, 64))


def test_a_probability_raster_lies_exactly_on_its_scene_and_is_a_cog(finished, finished_city):
    config, workspace = finished
    (name,) = predict.run(config, workspace, fold=0).scenes
    with (
        rasterio.open(workspace.probability(name)) as raster,
        rasterio.open(finished_city / f"images/{name}.tif") as image,
    ):
        assert (raster.transform, raster.crs) == (image.transform, image.crs)
        assert raster.tags(ns="IMAGE_STRUCTURE")["LAYOUT"] == "COG"


def test_a_probability_raster_says_which_speeds_its_bands_stand_for(finished):
    config, workspace = finished
    (name,) = predict.run(config, workspace, fold=0).scenes
    assert read_probability(workspace.probability(name)).speed_bins == DEFAULT_BINS


def test_an_image_without_georeference_needs_the_size_of_its_pixels(
    finished, write_nowhere, tmp_path
):
    image = tmp_path / "nowhere.tif"
    write_nowhere(image, np.full((3, 64, 64), 80, dtype=np.uint8))
    with pytest.raises(DataError, match=r"nowhere\.tif: no georeference found .* imagery\.gsd_m"):
        predict_images(finished, [image], tmp_path / "out")
    predict_images(finished, [image], tmp_path / "out", gsd_m=1.1)
    found = read_probability(tmp_path / "out/nowhere.tif").grid
    assert (found.is_local, found.pixel_size_m) == (True, pytest.approx((1.1, 1.1)))


def change_facts(folder, **changes):
    """Change the facts of a checkpoint, as if it had been trained so."""
    path = folder / "best.safetensors"
    with safe_open(path, "pt") as file:
        facts = json.loads(file.metadata()["roadseg"]) | changes
    save_file(load_file(path), path, metadata={"roadseg": json.dumps(facts)})


def test_bands_are_found_by_name_wherever_they_are(finished, make_scene, tmp_path):
    change_facts(finished[1].checkpoint(0), bands=["red", "green", "blue"])
    image, _ = make_scene(tmp_path, "named", bands=4)
    with pytest.raises(DataError, match=r"named\.tif: has no bands with the description 'red'"):
        predict_images(finished, [image], tmp_path / "out")
    with rasterio.open(image, "r+") as target:
        target.descriptions = ("blue", "green", "infrared", "red")
    assert predict_images(finished, [image], tmp_path / "out").scenes == ["named"]


@pytest.mark.parametrize(("trained", "given"), [(0, None), (None, 0), (0, 9)])
def test_the_value_without_data_is_that_of_the_training(
    finished, make_scene, tmp_path, trained, given
):
    change_facts(finished[1].checkpoint(0), nodata=trained)
    image, _ = make_scene(tmp_path, "holes")
    with rasterio.open(image, "r+") as target:
        target.write(np.zeros((3, 20, 64), dtype=np.uint8), window=((0, 20), (0, 64)))
    predict_images(finished, [image], tmp_path / "out", nodata=given)
    with rasterio.open(tmp_path / "out/holes.tif") as raster:
        assert not raster.dataset_mask()[:20].any()
        assert raster.dataset_mask()[20:].all()


def test_all_scenes_are_predicted_on_request(finished):
    config, workspace = finished
    chosen = config.predict.model_copy(update={"scenes": "all"})
    summary = predict.run(config.model_copy(update={"predict": chosen}), workspace, fold=0)
    assert len(summary.scenes) == 5
    assert all(workspace.probability(name).exists() for name in summary.scenes)


def test_a_checkpoint_folder_alone_predicts_any_image(finished, make_scene, tmp_path):
    image, _ = make_scene(tmp_path, "elsewhere", size_px=100, origin=(700000.0, 5000000.0))
    predict_images(finished, [image], tmp_path / "out")
    with rasterio.open(tmp_path / "out/elsewhere.tif") as raster:
        assert raster.shape == (100, 100)


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


def test_pixels_without_data_have_no_probability(finished, make_scene, tmp_path):
    image, _ = make_scene(tmp_path, "holes")
    with rasterio.open(image, "r+") as target:
        target.nodata = 0
        target.write(np.zeros((3, 20, 64), dtype=np.uint8), window=((0, 20), (0, 64)))
    predict_images(finished, [image], tmp_path / "out")
    with rasterio.open(tmp_path / "out/holes.tif") as raster:
        assert not raster.read()[:, :20].any()
        assert not raster.dataset_mask()[:20].any()
        assert raster.dataset_mask()[20:].all()


def test_pixels_of_a_type_that_was_never_trained_on_are_refused(finished, make_scene, tmp_path):
    image, _ = make_scene(tmp_path, "deep", dtype="uint16")
    with pytest.raises(CheckpointError, match=r"pixels of uint16, but .* trained on uint8"):
        predict_images(finished, [image], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_image_with_too_few_bands_is_refused(finished, make_scene, tmp_path):
    image, _ = make_scene(tmp_path, "grey", bands=1)
    with pytest.raises(DataError, match=r"grey\.tif: has bands 1 to 1, expected a band 2"):
        predict_images(finished, [image], tmp_path / "out")


def test_pixels_of_another_size_are_warned_about(finished, make_scene, tmp_path, caplog):
    image, _ = make_scene(tmp_path, "coarse", gsd_m=1.3)
    predict_images(finished, [image], tmp_path / "out")
    assert "pixels of 1.30 m are not the 1.00 m" in caplog.text


def test_predict_before_train_names_train_and_its_fold(city):
    config = load_config(city)
    with pytest.raises(MissingInputError, match=r"run `roadseg train --fold 3` first"):
        predict.run(config, Workspace(config.run), fold=3)
