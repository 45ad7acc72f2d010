import json
from pathlib import Path

from roadseg.learn.options import TrainOptions
from roadseg.learn.training.recipe import first_weights, fixed
from roadseg.system.fingerprints import GONE


def test_more_epochs_are_another_training_only_where_the_rate_is_planned_to_the_end():
    assert "epochs" not in fixed(TrainOptions())
    assert fixed(TrainOptions(schedule="cosine", epochs=7))["epochs"] == 7


def test_all_else_but_patience_is_fixed_and_can_be_written_as_json():
    found = fixed(TrainOptions(schedule="cosine", init=Path("run")))
    free = {"patience", "tensorboard", "distributed"}
    assert set(found) == set(TrainOptions.model_fields) - free
    assert json.loads(json.dumps(found))["init"] == "run"


def test_first_weights_are_told_by_their_name_or_by_what_their_file_holds(tmp_path):
    for place in ("here", "there"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "resnet34.pth").write_bytes(b"weights")
    told = [
        first_weights(TrainOptions(encoder_weights=str(tmp_path / place / "resnet34.pth")))
        for place in ("here", "there")
    ]
    named = first_weights(TrainOptions(encoder_weights="imagenet"))
    assert told[0] == told[1] != named
    assert named["encoder_weights"] == "imagenet"


def test_first_weights_that_are_gone_say_so(tmp_path):
    recipe = TrainOptions(init=tmp_path / "run", encoder_weights=str(tmp_path / "a.pth"))
    assert first_weights(recipe) == {"init": GONE, "encoder_weights": GONE}
