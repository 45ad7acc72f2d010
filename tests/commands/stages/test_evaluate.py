import csv
import json
from dataclasses import replace

import geopandas
import numpy as np
import pandas as pd
import pytest
import rasterio
import shapely

from roadseg.commands.roads import score
from roadseg.commands.stages import evaluate, graph, pipeline, predict
from roadseg.commands.stages.calibrate_edges import open_with_reference
from roadseg.config import Config, load_config
from roadseg.dataset import scenes
from roadseg.dataset.chips import read_chips
from roadseg.errors import DataError
from roadseg.raster.grid import LOCAL_CRS
from roadseg.raster.images import read_facts
from roadseg.roads.formats.files import read_gpkg
from roadseg.roads.graph.road_graph import graph_from_lines
from roadseg.roads.graph.travel import add_travel
from roadseg.roads.labels.roads import read_roads
from roadseg.roads.metrics.compare import Side, compare
from roadseg.roads.metrics.pixels import Counts
from roadseg.roads.options import CompareOptions
from roadseg.system.units import shown_in
from roadseg.system.workspace import Workspace
from tests.configs import changed, edited
from tests.drawing import predict_the_labels, read_probability


def held_out(workspace):
    return json.loads(workspace.record("predict").read_text())["summary"]["scenes"]


def label_all_by(workspace, path):
    """Let one label file serve all scenes."""
    with edited(workspace.chips) as listed:
        for scene in listed["scenes"]:
            scene["labels"] = str(path)


def evaluate_the_truth(config, workspace, *, share=1.0):
    for scene in held_out(workspace):
        predict_the_labels(workspace, scene, stop=share)
    graph.run(config, workspace, force=True)
    return evaluate.run(config, workspace, force=True)


def polygons_of(lines, path, *, keep_lines):
    """Write label lines as polygons 4 m wide."""
    table = geopandas.read_file(lines)
    metric = table.to_crs(32611)
    areas = metric.set_geometry(metric.buffer(2)).to_crs(table.crs)
    pd.concat([areas, table[:keep_lines]]).to_file(path)


def test_labels_that_are_masks_are_traced_for_the_reference(finished):
    config, workspace = finished
    (scene,) = held_out(workspace)
    label_all_by(workspace, workspace.mask(scene))
    summary = evaluate_the_truth(config, workspace)
    assert (summary.iou, summary.apls_length, summary.apls_time) == (1, 1, 1)
    assert summary.reference_km == summary.predicted_km == pytest.approx(0.128, abs=0.005)


@pytest.mark.parametrize("keep_lines", [0, 1])
def test_labels_with_polygons_are_traced_for_the_reference(finished, finished_city, keep_lines):
    config, workspace = finished
    (scene,) = held_out(workspace)
    areas = workspace.root / "areas.geojson"
    polygons_of(finished_city / f"roads/{scene}.geojson", areas, keep_lines=keep_lines)
    label_all_by(workspace, areas)
    summary = evaluate_the_truth(config, workspace)
    assert summary.reference_km == summary.predicted_km == pytest.approx(0.128, abs=0.005)


def test_speeds_of_traced_labels_are_those_of_the_mask(finished):
    config, workspace = finished
    (scene,) = held_out(workspace)
    label_all_by(workspace, workspace.mask(scene))
    evaluate_the_truth(config, workspace)
    record = read_chips(workspace.chips).scene(scene)
    _, reference = open_with_reference(config, workspace, record)
    speeds = set(reference.roads.attributes["speed_kph"].round(2))
    assert speeds == {40.23, 72.42}  # the middles of the bins of 25 and 45 mph


@pytest.fixture
def city_nowhere(city, write_nowhere):
    """Write a tiny city without georeference, with masks as labels; return its config."""
    (city.parent / "masks").mkdir()
    for image in (city.parent / "images").iterdir():
        with rasterio.open(image) as source:
            pixels = source.read()
        write_nowhere(pixels, name=image)
        mask = (pixels[:1] > 140).astype(np.uint8)
        write_nowhere(mask, name=city.parent / "masks" / image.name)
    with edited(city) as settings:
        settings["imagery"]["gsd_m"] = 0.6
        settings["labels"] = {"roads": ["masks"], "bin_edges": [30, 50], "bin_unit": "km/h"}
        settings["split"] = {"method": "random"}
    return load_config(city)


def test_a_city_without_georeference_goes_through_all_stages(city_nowhere):
    workspace = Workspace(city_nowhere.run)
    pipeline.run(city_nowhere, workspace, say=lambda *_: None)
    (scene,) = held_out(workspace)
    found = read_probability(workspace.probability(scene), gsd_m=0.6)
    summary = json.loads(workspace.record("evaluate").read_text())["summary"]
    assert (found.grid.is_local, len(found.bins)) == (True, 3)
    assert read_gpkg(workspace.graph(scene)).crs == LOCAL_CRS
    assert summary["reference_km"] == pytest.approx(2 * 64 * 0.6 / 1000, abs=0.003)


def test_a_label_file_of_many_scenes_is_read_once(finished, finished_city, monkeypatch):
    config, workspace = finished
    config = changed(config, "predict", scenes="all")
    predict.run(config, workspace, fold=0)
    graph.run(config, workspace)
    folds = json.loads(workspace.folds.read_text())
    workspace.folds.write_text(json.dumps(dict.fromkeys(folds, 0)))
    label_all_by(workspace, finished_city / "roads/city_0.geojson")
    calls = []

    def counted(path, **options):
        calls.append(path)
        return read_roads(path, **options)

    monkeypatch.setattr(scenes, "read_roads", counted)
    scenes._read_once.cache_clear()  # noqa: SLF001 - of what prepare has read
    assert evaluate.run(config, workspace).chips == 5
    assert len(calls) == 1


def test_two_processes_measure_the_same(finished):
    config, workspace = finished
    here = evaluate.run(config, workspace, force=True)
    written = [workspace.evaluation.read_bytes(), *pictures(workspace)]
    assert evaluate.run(changed(config, "compute", workers=2), workspace, force=True) == here
    assert [workspace.evaluation.read_bytes(), *pictures(workspace)] == written


def pictures(workspace):
    return [path.read_bytes() for path in sorted(workspace.pictures.iterdir())]


def test_a_scene_scores_as_roadseg_score_finds(finished, finished_city):
    """Apart from the millimetres to which a run rounds its labels."""
    config, workspace = finished
    (scene,) = held_out(workspace)
    summary = evaluate_the_truth(config, workspace, share=0.8)
    labels = finished_city / f"roads/{scene}.geojson"
    told = score.run(labels, workspace.graph(scene), options=CompareOptions()).pooled
    ours = summary.pooled_apls_length, summary.pooled_apls_time, summary.topo_f1, summary.quality
    theirs = told["apls"]["length"], told["apls"]["time"]
    others = told["topo"]["f1"], told["buffer"]["quality"]
    assert ours == pytest.approx((*(each["score"] for each in theirs), *others), abs=1e-5)
    figures = summary.breaks_per_km, summary.connectivity
    assert figures == pytest.approx((told["breaks"]["per_km"], told["connectivity"]), abs=2e-3)
    assert 0 < summary.quality < 1


def test_the_table_has_a_row_for_each_chip_held_out_with_what_score_measures(finished):
    with finished[1].evaluation.open() as file:
        (row,) = csv.DictReader(file)
    summary = json.loads(finished[1].record("evaluate").read_text())["summary"]
    names = ("apls_length", "completeness", "topo_recall", "predicted_km")
    assert [row["chip"]] == held_out(finished[1])
    assert [row[name] for name in names] == [f"{summary[name]:.4f}" for name in names]


def chip(*, labelled, found, threshold=0.4):
    """Score a chip with a road of 100 m on the sides that have one."""
    roads = np.array([shapely.LineString([(0, 0), (100, 0)])])
    graphs = [graph_from_lines(roads[: int(has)], LOCAL_CRS) for has in (labelled, found)]
    sides = [
        Side(each, each) for each in (add_travel(g, np.full(len(g.lines), 40.0)) for g in graphs)
    ]
    roads = compare(*sides, CompareOptions())
    return evaluate.ChipScore("chip", "", 0, threshold, Counts(), roads)


def pooled(*chips):
    return evaluate._summary(Config(), list(chips), 0, {}, None)  # noqa: SLF001


def test_chips_that_are_rightly_empty_do_not_raise_the_mean_apls():
    empty, missed = chip(labelled=False, found=False), chip(labelled=True, found=False)
    both = pooled(empty, missed)
    assert (both.chips, both.apls_length, both.pooled_apls_length) == (2, 0, 0.5)
    assert pooled(empty).apls_length == 1


@pytest.mark.parametrize(("thresholds", "told"), [((0.6, 0.6), 0.6), ((0.5, 0.6), None)])
def test_the_threshold_is_told_if_it_is_one_for_all(thresholds, told):
    chips = [chip(labelled=True, found=True, threshold=each) for each in thresholds]
    assert pooled(*chips).threshold == told
    assert ("by set" in str(pooled(*chips))) == (told is None)


def test_shares_of_road_and_breaks_per_km_are_of_all_chips_together():
    both = pooled(*2 * [chip(labelled=True, found=True)], chip(labelled=True, found=False))
    assert (both.correctness, both.completeness) == (1, pytest.approx(2 / 3))
    assert (both.breaks, both.breaks_per_km) == (0, 0)


def test_what_could_not_be_measured_is_a_dash():
    lines = str(pooled(chip(labelled=True, found=False))).splitlines()
    assert "breaks per km     -" in lines


def test_figures_are_given_by_distance_from_the_training_ground():
    found, missed = chip(labelled=True, found=True), chip(labelled=True, found=False)
    scores = [
        replace(of, chip=name) for of, name in zip([found] * 3 + [missed] * 2, "abcde", strict=True)
    ]
    metres = {"a": 0.0, "b": 99.9, "d": 100.0, "e": 1000.0}
    classes = evaluate._by_distance(scores, metres)  # noqa: SLF001
    assert [(of["from_m"], of["to_m"], of["chips"]) for of in classes] == [
        *((0, 100, 2), (100, 250, 1)),
        (1000, None, 1),
    ]
    assert [of["apls_length"] for of in classes] == [1, 0, 0]
    lines = str(replace(pooled(*scores), by_distance=classes)).splitlines()
    assert lines[-3].startswith("0 to 100 m away   2 chips, 0.20 km: IoU")
    assert lines[-1].startswith("over 1,000 m away 1 chip, 0.10 km: IoU")
    assert "away" not in str(replace(pooled(found), by_distance=classes[:1]))


def test_chips_beside_the_training_ground_are_of_the_nearest_class(finished):
    config, workspace = finished
    summary = evaluate.run(config, workspace, force=True)
    assert [of["chips"] for of in summary.by_distance] == [summary.chips]


def test_figures_are_shown_in_the_units_of_the_reader():
    summary = replace(pooled(chip(labelled=True, found=True)), breaks_per_km=1.0)
    with shown_in("miles"):
        lines = str(summary).splitlines()
    assert "breaks per mi     1.609" in lines


def test_an_evaluation_of_nothing_says_what_to_do():
    with pytest.raises(DataError, match=r"no chip of fold 0 .* run `roadseg predict` again"):
        pooled()


def test_only_what_lies_in_the_area_of_labels_is_measured(finished, draw_area):
    config, workspace = finished
    (scene,) = held_out(workspace)
    whole = evaluate_the_truth(config, workspace)
    grid = read_facts(workspace.mask(scene)).grid
    path = draw_area("area.gpkg", grid.crop(0, 0, 32, 64).footprint_m, crs=grid.metric_crs)
    with edited(workspace.chips) as listed:
        for one in listed["scenes"]:
            one["area"] = [path]
    part = evaluate.run(config, workspace, force=True)
    assert 0 < part.reference_km < 0.8 * whole.reference_km
    assert part.predicted_km == pytest.approx(part.reference_km, rel=0.05)


@pytest.mark.parametrize("by_mask", [False, True])
def test_roads_where_the_mask_has_no_data_are_not_measured(finished, by_mask):
    config, workspace = finished
    (scene,) = held_out(workspace)
    if by_mask:
        label_all_by(workspace, workspace.mask(scene))
    whole = evaluate_the_truth(config, workspace)
    with rasterio.open(workspace.mask(scene), "r+") as mask:
        pixels = mask.read(1)
        pixels[:, :24] = 255
        mask.write(pixels, 1)
    part = evaluate.run(config, workspace, force=True)
    assert 0 < part.reference_km < 0.9 * whole.reference_km
    assert part.predicted_km < 0.9 * whole.predicted_km
    assert part.completeness == 1
    assert part.correctness > 0.95  # roads that are traced end a little before such ground


def test_labels_are_measured_where_they_were_moved(finished):
    config, workspace = finished
    evaluate_the_truth(config, workspace)
    with edited(workspace.chips) as listed:
        for one in listed["scenes"]:
            one["shift_m"] = [6.0, 6.0]
    assert evaluate.run(config, workspace, force=True).completeness < 0.3
