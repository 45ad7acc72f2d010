import json
import shutil

import pytest

from roadseg.commands.stages import evaluate, predict, train
from roadseg.dataset.chips import read_chips
from roadseg.roads.labels.origins import Origin, origin_path, write_origin
from tests.configs import changed


def card(workspace):
    return json.loads((workspace.checkpoint(0) / "model_card.json").read_text())


def test_training_leaves_a_card_of_what_it_saw(finished):
    said = card(finished[1])
    assert said["training"]["chips"] == 4
    assert said["training"]["area_km2"] == pytest.approx(4 * 0.064**2, rel=0.01)
    assert said["validation"]["chips"] == 1
    assert said["labels"]["schemes"] == ["spacenet"]


def test_the_roads_of_the_training_chips_are_counted(finished):
    km = card(finished[1])["training"]["road_km"]
    assert km == pytest.approx(4 * 2 * 0.064, rel=0.01)


def test_a_card_names_files_and_no_folders(finished):
    said = card(finished[1])
    files = said["imagery"]["files"]
    assert files == {"count": 5, "names": [f"city_{n}.tif" for n in range(5)]}
    assert "/" not in json.dumps(said["network"]["settings"])


def test_evaluation_adds_its_metrics(finished):
    found = json.loads(finished[1].record("evaluate").read_text())["summary"]
    assert card(finished[1])["evaluation"] == found


def test_licences_reach_the_card_without_another_training(finished):
    config, workspace = finished
    before = (workspace.checkpoint(0) / "best.safetensors").stat().st_mtime_ns
    licensed = changed(config, "imagery", licence="CC-BY-4.0")
    train.run(changed(licensed, "labels", licence="ODbL-1.0"), workspace, fold=0)
    said = card(workspace)
    assert said["imagery"]["licence"] == "CC-BY-4.0"
    assert said["labels"]["licence"] == "ODbL-1.0"
    assert (workspace.checkpoint(0) / "best.safetensors").stat().st_mtime_ns == before


@pytest.mark.parametrize("name", ["model_card.json", "model_card.md"])
@pytest.mark.parametrize("found", [None, b"\xff\x00", b'{"weights": {}}'])
def test_a_card_that_was_deleted_or_damaged_comes_back_whole(finished, name, found):
    config, workspace = finished
    before = card(workspace)
    path = workspace.checkpoint(0) / name
    path.unlink() if found is None else path.write_bytes(found)
    train.run(config, workspace, fold=0)
    evaluate.run(config, workspace)
    assert card(workspace) == before


def test_prediction_needs_no_card(finished, finished_city, tmp_path):
    config, workspace = finished
    folder = tmp_path / "alone"
    shutil.copytree(workspace.checkpoint(0), folder)
    for name in ("model_card.json", "model_card.md"):
        (folder / name).write_text("not a card")
    image = str(finished_city / "images" / "city_0.tif")
    predict.run_images(config, [image], checkpoints=[folder], output=tmp_path / "out")
    assert (tmp_path / "out" / "city_0.tif").exists()


def test_a_card_names_the_source_and_licence_of_fetched_labels(finished):
    config, workspace = finished
    labels = read_chips(workspace.chips).scenes[0].labels
    origin = Origin("Overpass", "x", "ODbL-1.0", "© OpenStreetMap contributors", "2026-11-20", "1")
    write_origin(labels, origin)
    try:
        (workspace.checkpoint(0) / "model_card.md").unlink()
        train.run(config, workspace, fold=0)
    finally:
        origin_path(labels).unlink()
    assert card(workspace)["labels"]["licence"] == "ODbL-1.0"
    text = (workspace.checkpoint(0) / "model_card.md").read_text(encoding="utf-8")
    assert "- Labels are from © OpenStreetMap contributors (2026-11-20)\n" in text
