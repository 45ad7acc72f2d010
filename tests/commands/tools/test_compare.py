"""Runs side by side: what differs, and what cannot be compared."""

import re
import shutil

import pytest

from roadseg.commands.tools.compare import change_text, run, short_names
from roadseg.errors import ConfigError, DataError
from tests.configs import edited


@pytest.fixture
def pair(finished):
    """Return two equal run folders."""
    root = finished[1].root
    other = root.with_name("other")
    shutil.copytree(root, other)
    return root, other


def change(folder, stage, values):
    """Change values in the record of a stage, given by their keys from its top."""
    path = folder / f"{stage}.json"
    with edited(path) as record:
        for keys, value in values.items():
            *inner, last = keys.split("/")
            part = record
            for key in inner:
                part = part[key]
            part[last] = value


def test_equal_runs_differ_in_nothing(pair):
    compared = run(pair)
    assert (compared.names, compared.warnings, compared.settings) == (["run", "other"], [], [])
    assert {change for row in compared.metrics for change in row.changes} <= {0, None}


def test_a_changed_setting_and_metric_stand_side_by_side(pair):
    change(pair[1], "graph", {"settings/min_spur_m": 30.0})
    change(pair[0], "evaluate", {"summary/apls_length": 0.25})
    change(pair[1], "evaluate", {"summary/apls_length": 0.5})
    text = str(run(pair))
    assert re.search(r"graph.min_spur_m +12.0 +30.0", text)
    assert re.search(r"APLS length +0.250 +0.500 \(\+0.250\)", text)


def test_trainings_of_a_cross_validation_count_together(pair):
    folds = [pair[1] / "checkpoints" / f"fold-{fold}" for fold in range(2)]
    shutil.copytree(*folds)
    change(pair[1], "predict", {"settings/fold": "each"})
    for folder, iou, seconds in zip(folds, (0.25, 0.75), (20.0, 30.0), strict=True):
        change(folder, "train", {"summary/val_iou": iou, "summary/seconds": seconds})
    compared = run(pair)
    (iou,) = (row for row in compared.metrics if row.title == "IoU in training")
    (time,) = (row for row in compared.seconds if row.title == "train")
    assert (iou.values[1], time.values[1]) == (0.5, 50.0)


def test_settings_of_a_stage_that_one_run_has_not_come_to_do_not_differ(pair):
    (pair[1] / "evaluate.json").unlink()
    summary = run(pair)
    assert "no common setting differs" in str(summary)
    assert summary.warnings == ["not evaluated, so there are no metrics: other"]


@pytest.mark.parametrize(
    ("stage", "values", "told"),
    [
        ("evaluate", {"summary/fold": 1}, "different folds"),
        ("prepare", {"inputs/labels of city_1": "others"}, "labels differ (city_1)"),
        ("prepare", {"inputs/image of city_2": "others"}, "images differ (city_2)"),
        ("prepare", {"settings/labels/buffer_m": 9.0}, "labels are read differently"),
    ],
)
def test_what_makes_figures_unlike_is_told(pair, stage, values, told):
    change(pair[1], stage, values)
    (warning,) = run(pair).warnings
    assert told in warning
    assert f"WARNING: {warning}" in str(run(pair))


def test_other_chips_held_out_are_told(pair):
    table = pair[1] / "evaluation.csv"
    header, *rows = table.read_text().splitlines()
    table.write_text("\n".join([header, *("x" + row for row in rows)]))
    assert "different chips" in run(pair).warnings[0]


@pytest.mark.parametrize("many", [1, 2])
def test_fewer_than_two_different_runs_are_refused(pair, many):
    with pytest.raises(ConfigError, match="expected two or more different run folders"):
        run([pair[0]] * many)


def test_a_folder_that_is_no_run_is_refused(pair, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="not a run of roadseg"):
        run((pair[0], tmp_path / "empty"))


def test_names_are_as_long_as_tells_runs_apart(tmp_path):
    folders = [tmp_path / name for name in ("a/run", "b/run")]
    assert short_names(folders) == ["a/run", "b/run"]
    assert short_names([tmp_path / "x", tmp_path / "y"]) == ["x", "y"]


@pytest.mark.parametrize(
    ("by", "shown"), [(0.0004, ""), (0.0006, "+0.001"), (-0.0004, ""), (-0.0006, "-0.001")]
)
def test_a_change_that_would_read_as_none_is_left_out(by, shown):
    assert change_text(by, 3) == shown
