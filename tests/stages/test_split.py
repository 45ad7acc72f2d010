import json

import pytest

from roadseg.config import load_config
from roadseg.errors import DataError, MissingInputError
from roadseg.pipeline import prepare
from roadseg.stages import split
from roadseg.workspace import Workspace


def loaded(config_path, *assignments):
    config = load_config(config_path, assignments)
    return config, Workspace(config.run)


def test_every_chip_gets_a_fold_and_every_fold_a_chip(city):
    summary = prepare(*loaded(city)).split
    folds = json.loads((city.parent / "run/folds.json").read_text())
    assert sorted(folds.values()) == [0, 1, 2, 3, 4]
    assert summary.chips_by_fold == [1] * 5


def test_chips_of_one_block_share_a_fold(city):
    prepare(*loaded(city, "imagery.chip_px=32"))
    folds = json.loads((city.parent / "run/folds.json").read_text())
    by_scene = {name[:6]: {f for n, f in folds.items() if n[:6] == name[:6]} for name in folds}
    assert len(folds) == 20
    assert max(len(found) for found in by_scene.values()) <= 2  # a block edge may cut a scene


def test_random_folds_ignore_the_blocks(city):
    summary = prepare(*loaded(city, "split.block_m=5000", "split.method=random")).split
    assert summary.chips_by_fold == [1] * 5


def test_too_few_blocks_are_refused_with_the_settings_to_change(city):
    with pytest.raises(DataError, match=r"cannot fill 5 folds; make split\.block_m \(5000 m\)"):
        prepare(*loaded(city, "split.block_m=5000"))


def test_split_before_prepare_names_prepare(city):
    with pytest.raises(MissingInputError, match=r"chips\.json does not exist; run `roadseg prep"):
        split.run(*loaded(city))
