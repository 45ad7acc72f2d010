"""The confidence of edges on its way from chips held out to graphs, checkpoints and images."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import rasterio

from roadseg.commands.stages import evaluate, graph, predict, train
from roadseg.dataset.chips import read_chips
from roadseg.dataset.edge_calibration import read_calibration
from roadseg.raster.images import read_facts
from roadseg.roads.formats.files import read_gpkg
from roadseg.roads.masks.mask_files import read_mask
from roadseg.roads.masks.probabilities import open_probability, write_probability
from roadseg.roads.metrics.reliability import Bin, Reliability
from roadseg.roads.speeds import DEFAULT_BINS
from tests.configs import changed, edited


def predict_half_of_the_truth(workspace, scene, *, real=230, false=150):
    """Write the roads of a scene as probabilities, with a false road across the scene."""
    mask = read_mask(workspace.mask(scene))
    road = np.where((mask > 0) & (mask < 255), real, 0).astype(np.uint8)
    road[40:44] = np.maximum(road[40:44], false)
    values = np.concatenate([np.zeros((7, *road.shape), np.uint8), road[np.newaxis]])
    rows = [(0, values, np.ones(road.shape, dtype=bool))]
    grid = read_facts(workspace.mask(scene)).grid
    path = workspace.probability(scene)
    write_probability(path, rows, grid, bins=DEFAULT_BINS, key=f"{real}{false}", tags={})


@pytest.fixture(scope="module")
def measured_city(tmp_path_factory, copy_city):
    """Trace the graphs of a finished city on drawn probabilities; tests copy it."""
    folder = tmp_path_factory.mktemp("measured") / "city"
    config, workspace = copy_city(folder)
    predict_half_of_the_truth(workspace, scene_of(workspace))
    graph.run(config, workspace, force=True)
    return folder


@pytest.fixture
def measured(measured_city, copy_city, tmp_path):
    """Give config, workspace and the summary of its graphs."""
    config, workspace = copy_city(tmp_path / "measured", measured_city)
    return config, workspace, graph.run(config, workspace)


def scene_of(workspace):
    return json.loads(workspace.record("predict").read_text())["summary"]["scenes"][0]


def test_graphs_of_a_run_have_the_confidence_that_was_calibrated_on_what_was_held_out(measured):
    _, workspace, summary = measured
    edges = read_gpkg(workspace.graph(scene_of(workspace))).attributes
    assert summary.calibration.chips == 1
    assert ((edges["confidence"] > 0) & (edges["confidence"] < 1)).all()
    by_hand = float(edges["confidence"] @ read_gpkg(workspace.graph(scene_of(workspace))).length_m)
    real_m = summary.calibration.km * 1000
    assert by_hand < real_m


def test_a_run_with_labels_whose_roads_are_doubtful_is_to_be_trained_longer(measured, caplog):
    config, workspace, _ = measured
    predict_half_of_the_truth(workspace, scene_of(workspace), real=20, false=230)
    summary = graph.run(config, workspace, force=True)
    assert summary.calibration is not None
    assert "or train longer, or with more labels of such images" in caplog.text


def test_the_checkpoint_keeps_what_was_found(measured):
    _, workspace, summary = measured
    kept = read_calibration(workspace.checkpoint(0))
    assert kept.model == summary.calibration.model


def test_a_graph_that_is_up_to_date_is_not_calibrated_again(measured):
    config, workspace, summary = measured
    assert graph.run(config, workspace) == summary


def test_a_confidence_that_was_deleted_is_made_again(measured):
    config, workspace, _ = measured
    (workspace.checkpoint(0) / "confidence.json").unlink()
    graph.run(config, workspace)
    assert (workspace.checkpoint(0) / "confidence.json").is_file()


def test_other_images_get_the_confidence_of_the_checkpoint(measured, make_scene, tmp_path):
    config, workspace, summary = measured
    image, _ = make_scene(tmp_path, "here")
    folders = [workspace.checkpoint(0)]
    predict.run_images(config, [str(image)], checkpoints=folders, output=tmp_path / "out")
    found = open_probability(tmp_path / "out/here.tif").edge_model
    assert found == summary.calibration.model


def test_other_images_are_predicted_again_when_the_confidence_is_known(
    finished, make_scene, tmp_path
):
    config, workspace = finished
    (workspace.checkpoint(0) / "confidence.json").unlink(missing_ok=True)
    image, _ = make_scene(tmp_path, "here")
    again = {"checkpoints": [workspace.checkpoint(0)], "output": tmp_path / "out"}
    predict.run_images(config, [str(image)], **again)
    assert open_probability(tmp_path / "out/here.tif").edge_model is None
    predict_half_of_the_truth(workspace, scene_of(workspace))
    graph.run(config, workspace, force=True)
    predict.run_images(config, [str(image)], **again)
    assert open_probability(tmp_path / "out/here.tif").edge_model is not None


def test_scenes_of_a_run_stay_as_they_were_predicted(measured):
    config, workspace, _ = measured
    predict.run(config, workspace, fold=0, force=True)
    graph.run(config, workspace)
    key = rasterio.open(workspace.probability(scene_of(workspace))).tags()["ROADSEG_KEY"]
    predict.run(config, workspace, fold=0, force=True)
    assert rasterio.open(workspace.probability(scene_of(workspace))).tags()["ROADSEG_KEY"] == key


def test_a_network_of_all_chips_takes_over_the_confidence_of_a_fold(measured):
    config, workspace, summary = measured
    train.run(config, workspace, fold="all")
    assert read_calibration(workspace.checkpoint("all")).model == summary.calibration.model
    assert graph.run(config, workspace) == summary
    (workspace.checkpoint("all") / "confidence.json").unlink()  # As if it was trained before.
    graph.run(config, workspace, force=True)
    assert read_calibration(workspace.checkpoint("all")).model == summary.calibration.model


def test_labels_that_are_gone_leave_graphs_with_the_general_confidence(measured, caplog, tmp_path):
    config, workspace, _ = measured
    with edited(workspace.chips) as listed:
        for scene in listed["scenes"]:
            scene["labels"] = str(tmp_path / "gone.geojson")
    summary = graph.run(config, workspace, force=True)
    assert summary.calibration is None
    assert summary.edges > 0
    assert "confidence is not calibrated, because labels cannot be read" in caplog.text


def test_roads_are_traced_at_the_least_threshold_with_the_highest_apls(measured):
    config, workspace, summary = measured
    # From 0.7 on the false road, whose probability is 0.59, is gone.
    assert summary.calibration.model.least_threshold == 0.7
    assert "roads traced where their probability is at least 0.7; conf" in str(summary)
    given = graph.run(changed(config, "graph", threshold=0.7), workspace)
    assert given.road_km == summary.road_km
    given = graph.run(changed(config, "graph", threshold=0.5), workspace)
    assert given.calibration.model.least_threshold is None
    assert given.road_km > summary.road_km


def test_a_network_whose_own_threshold_is_the_best_keeps_it(measured):
    config, workspace, _ = measured
    predict_half_of_the_truth(workspace, scene_of(workspace), false=0)
    summary = graph.run(config, workspace, force=True)
    assert summary.calibration.model.least_threshold is None
    assert "roads traced" not in str(summary)


def test_one_place_held_out_has_no_calibration_error(measured):
    config, workspace, _ = measured
    summary = evaluate.run(config, workspace)
    assert summary.calibration_error is None
    assert not workspace.reliability.exists()


@pytest.fixture
def measured_twice(measured):
    """Give a city of which two scenes are held out."""
    config, workspace, _ = measured
    folds = json.loads(workspace.folds.read_text())
    other = next(name for name, fold in folds.items() if fold != 0)
    workspace.folds.write_text(json.dumps(folds | {other: 0}))
    scene = next(chip.scene for chip in read_chips(workspace.chips).chips if chip.name == other)
    with edited(workspace.record("predict")) as record:
        record["summary"]["scenes"].append(scene)
    predict_half_of_the_truth(workspace, scene)
    graph.run(config, workspace, force=True)
    return config, workspace


def test_without_a_calibration_all_scenes_are_traced_at_the_threshold_of_the_network(
    measured_twice, tmp_path
):
    config, workspace = measured_twice
    with edited(workspace.chips) as listed:
        gone = next(s for s in listed["scenes"] if s["name"] == scene_of(workspace))
        gone["labels"] = str(tmp_path / "gone.geojson")
    summary = graph.run(config, workspace, force=True)
    assert summary.calibration is None
    given = graph.run(changed(config, "graph", threshold=0.4), workspace)
    assert summary.road_km == given.road_km


def test_two_places_held_out_have_a_calibration_error_and_a_diagram(measured_twice):
    config, workspace = measured_twice
    summary = evaluate.run(config, workspace, force=True)
    assert 0 <= summary.calibration_error <= 1
    assert summary.reliability[""].error == summary.calibration_error
    assert workspace.reliability.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(("share", "told"), [(0.71, False), (0.69, True)])
def test_a_confidence_that_does_not_hold_elsewhere_is_warned_of(
    measured_twice, monkeypatch, caplog, share, told
):
    found = Reliability((Bin(confidence=0.9, share=share, km=1.0),))
    measure = graph.calibrate
    monkeypatch.setattr(
        graph, "calibrate", lambda *a, **k: replace(measure(*a, **k), reliability=found)
    )
    graph.run(*measured_twice, force=True)
    assert ("is off by 0.21 on average; label more than 2 places" in caplog.text) == told


def test_a_raster_that_names_no_confidence_has_the_general_one(measured, tmp_path):
    config, workspace, _ = measured
    shutil.copy(workspace.probability(scene_of(workspace)), tmp_path / "a.tif")
    graph.run_images(config, [str(tmp_path / "a.tif")], output=tmp_path)
    confidence = read_gpkg(tmp_path / "a.gpkg").attributes["confidence"]
    assert ((confidence > 0) & (confidence < 1)).all()
