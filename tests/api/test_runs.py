"""Stages and tools by function: the same summaries, files and errors as the commands."""

import sys
from types import SimpleNamespace

import pytest

import roadseg
from roadseg.errors import ConfigError


def test_each_stage_of_a_finished_run_returns_what_it_found(finished):
    config, workspace = finished
    roadseg.run(config)
    evaluated = roadseg.evaluate(config)
    assert evaluated.chips > 0
    assert len(roadseg.split(config).chips_by_fold) == config.split.folds
    assert len(roadseg.predict_scenes(config).scenes) > 0
    assert str(workspace.graphs) in str(roadseg.trace_scenes(config))
    assert roadseg.write_report(config).path == str(workspace.report)


def test_the_names_and_summaries_of_stages_are_given_one_by_one(finished):
    config, _ = finished
    given = []
    roadseg.run(config, say=lambda name, summary: given.append((name, str(summary))))
    assert [name for name, _ in given] == ["prepare", "split", "train", "predict", "graph"]


@pytest.mark.parametrize("stage", [roadseg.run, roadseg.train, roadseg.trace_scenes])
def test_the_folder_of_a_map_without_labels_has_no_stages(stage, tmp_path):
    (tmp_path / "probabilities").mkdir()
    with pytest.raises(ConfigError, match=r"is a map made without labels.*repeat `roadseg map"):
        stage(overrides={"run": str(tmp_path)})


def test_init_finds_the_config_that_the_command_writes(finished_city, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    images, roads = finished_city / "images", finished_city / "roads"
    found = roadseg.init(images, [roads], overrides={"train.epochs": 3})
    assert found.train.epochs == 3
    assert found.run == tmp_path / "run"
    assert [str(path) for path in found.imagery.images] == [str(images)]
    assert list(tmp_path.iterdir()) == []


def test_init_makes_a_set_of_every_city(finished_city, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = roadseg.init(cities=[f"west={finished_city}"], overrides={"train.epochs": 3})
    (west,) = found.sets
    assert (west.name, west.imagery.images) == ("west", (str(finished_city / "images"),))


def test_overrides_are_not_for_a_config_that_is_loaded(finished):
    config, _ = finished
    with pytest.raises(ConfigError, match="overrides: cannot be combined with a loaded config"):
        roadseg.load_config(config, {"train.epochs": 3})


@pytest.fixture
def notebook(monkeypatch):
    """A fake IPython with a kernel, and the lines that it was asked to show."""
    lines = []
    handle = SimpleNamespace(update=lambda data, **_: lines.append(data["text/plain"]))
    fake = SimpleNamespace(
        get_ipython=lambda: SimpleNamespace(kernel=object()),
        display=SimpleNamespace(display=lambda *_, **__: handle),
        version_info=(9, 0),  # For matplotlib, in a process that has drawn nothing yet.
    )
    monkeypatch.setitem(sys.modules, "IPython", fake)
    return lines


def test_a_notebook_shows_progress_without_logging(notebook, finished):
    config, _ = finished
    roadseg.evaluate(config, force=True)
    assert any(line.startswith("evaluate: 0 of ") for line in notebook)
    assert notebook[-1] == ""


def test_nothing_is_shown_outside_of_notebooks(finished, capsys):
    config, _ = finished
    roadseg.evaluate(config, force=True)
    assert capsys.readouterr() == ("", "")


def test_a_summary_is_shown_as_it_is_printed(finished):
    config, _ = finished
    summary = roadseg.evaluate(config)
    assert summary._repr_html_() == f"<pre>{summary}</pre>"
