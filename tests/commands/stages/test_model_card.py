import pytest

from roadseg.commands.stages import evaluate, split, train
from roadseg.commands.stages.declared_stages import declared_stage
from roadseg.dataset.chips import read_chips
from roadseg.roads.labels.origins import Origin, origin_path, write_origin
from tests.configs import changed


def path_of(workspace):
    return workspace.checkpoint(0) / "model_card.md"


def card(workspace):
    return path_of(workspace).read_text(encoding="utf-8")


def test_training_leaves_a_card_of_what_it_saw(finished):
    said = card(finished[1])
    assert "Training area: 0.02 km2 in 4 chips" in said  # 4 x 64 m x 64 m
    assert "Labelled roads there: 0.51 km" in said  # 4 x 2 x 64 m
    assert "Held out: fold 0, 1 chips" in said
    assert "Scheme of the labels: spacenet" in said
    assert "Images: `city_0.tif`, `city_1.tif`, `city_2.tif`, `city_3.tif`, `city_4.tif`;" in said


def test_evaluation_adds_its_metrics(finished):
    config, workspace = finished
    found = evaluate.run(config, workspace)
    assert f"| pixel IoU | {found.iou:.3f} |" in card(workspace)


def test_a_new_training_is_not_measured_by_the_metrics_of_the_one_before(finished):
    config, workspace = finished
    train.run(changed(config, "train", epochs=1), workspace, fold=0, force=True)
    assert "has not been measured" in card(workspace)


def test_other_folds_do_not_change_the_card_of_a_network_that_knew_none_of_them(finished):
    config, workspace = finished
    before = card(workspace)
    split.run(changed(config, "split", folds=2), workspace)
    evaluate.run(config, workspace)
    assert card(workspace) == before


def test_evaluate_measures_a_network_whose_new_training_was_interrupted(finished):
    config, workspace = finished
    before = card(workspace)
    declared_stage("train", config, workspace, 0).begin()
    assert evaluate.run(config, workspace)
    assert card(workspace) == before


def test_licences_reach_the_card_without_another_training(finished):
    config, workspace = finished
    before = (workspace.checkpoint(0) / "best.safetensors").stat().st_mtime_ns
    licensed = changed(config, "imagery", licence="CC-BY-4.0")
    train.run(changed(licensed, "labels", licence="ODbL-1.0"), workspace, fold=0)
    said = card(workspace)
    assert "licence: CC-BY-4.0" in said
    assert "licence: ODbL-1.0" in said
    assert (workspace.checkpoint(0) / "best.safetensors").stat().st_mtime_ns == before


@pytest.mark.parametrize("found", [None, b"\xff\x00"])
def test_a_card_that_was_deleted_or_damaged_comes_back_whole(finished, found):
    config, workspace = finished
    before, path = card(workspace), path_of(workspace)
    path.unlink() if found is None else path.write_bytes(found)
    train.run(config, workspace, fold=0)
    assert card(workspace) == before


def test_a_card_names_the_source_and_licence_of_fetched_labels(finished):
    config, workspace = finished
    labels = read_chips(workspace.chips).scenes[0].labels
    origin = Origin("Overpass", "x", "ODbL-1.0", "© OpenStreetMap contributors", "2026-11-20", "1")
    write_origin(labels, origin)
    try:
        train.run(config, workspace, fold=0)
    finally:
        origin_path(labels).unlink()
    assert (
        "licence: ODbL-1.0\n- Labels are from © OpenStreetMap contributors (2026-11-20)\n"
        in card(workspace)
    )
