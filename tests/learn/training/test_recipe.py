import json
from dataclasses import fields, replace
from pathlib import Path

from roadseg.learn.options import TrainConfig
from roadseg.learn.training.recipe import Recipe, recipe_of
from roadseg.system.fingerprints import GONE


def test_the_defaults_are_those_of_the_config():
    assert recipe_of(TrainConfig()) == Recipe()


def test_more_epochs_are_another_training_only_where_the_rate_is_planned_to_the_end():
    assert "epochs" not in Recipe().fixed()
    assert Recipe(schedule="cosine", epochs=7).fixed()["epochs"] == 7


def test_all_else_but_patience_is_fixed_and_can_be_written_as_json():
    fixed = replace(Recipe(schedule="cosine"), init=Path("run")).fixed()
    assert set(fixed) == {field.name for field in fields(Recipe)} - {"patience"}
    assert json.loads(json.dumps(fixed))["init"] == "run"


def test_first_weights_are_told_by_their_name_or_by_what_their_file_holds(tmp_path):
    for place in ("here", "there"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "resnet34.pth").write_bytes(b"weights")
    told = [
        Recipe(encoder_weights=str(tmp_path / place / "resnet34.pth")).first_weights()
        for place in ("here", "there")
    ]
    assert told[0] == told[1] != Recipe(encoder_weights="imagenet").first_weights()
    assert Recipe(encoder_weights="imagenet").first_weights()["encoder_weights"] == "imagenet"


def test_first_weights_that_are_gone_say_so(tmp_path):
    recipe = Recipe(init=tmp_path / "run", encoder_weights=str(tmp_path / "a.pth"))
    assert recipe.first_weights() == {"init": GONE, "encoder_weights": GONE}
