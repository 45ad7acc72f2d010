"""config: settings are read, changed and compared on the command line."""

import json

import pytest


@pytest.fixture
def call(call, tmp_path):
    """Give a function that runs a command on the config, in a folder with one."""
    values = {"$schema": "a.json", "run": "run", "train": {"epochs": 9, "loss": {"dice": 0.7}}}
    (tmp_path / "roadseg.json").write_text(json.dumps(values))
    return lambda *words: call("config", *words)


def saved(tmp_path):
    return json.loads((tmp_path / "roadseg.json").read_text())


def test_settings_are_changed_in_the_file_and_all_else_stays(call, tmp_path):
    result = call("set", "train.epochs=12", "graph.formats=gpkg,osm")
    assert result.exit_code == 0
    assert "train.epochs=12, graph.formats=gpkg,osm" in result.stdout
    assert saved(tmp_path) == {
        "$schema": "a.json",
        "run": "run",
        "train": {"epochs": 12, "loss": {"dice": 0.7}},
        "graph": {"formats": ["gpkg", "osm"]},
    }


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("train.epochs=none", "--set: train.epochs: expected a valid integer, got 'none'"),
        ("train.epoch=3", "--set: train.epoch: unknown key"),
        ("train.epochs", "expected section.key=value"),
    ],
)
def test_what_cannot_be_used_is_not_written(call, tmp_path, assignment, message):
    before = (tmp_path / "roadseg.json").read_bytes()
    result = call("set", "train.batch_size=2", assignment)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert (tmp_path / "roadseg.json").read_bytes() == before


def test_what_differs_from_the_defaults_is_shown_with_both_values(call):
    shown = json.loads(call("diff").stdout)
    assert shown["train.loss.dice"] == [0.5, 0.7]
    assert set(shown) - {"run"} == {"train.epochs", "train.loss.dice"}


@pytest.mark.parametrize("command", ["show", "diff"])
def test_a_config_is_shown_in_the_letters_of_its_language(call, command, tmp_path):
    (tmp_path / "a.json").write_text('{"imagery": {"licence": "道路"}}', encoding="utf-8")
    assert '"道路"' in call(command, "--config", "a.json").output


def test_two_configs_are_compared(call, tmp_path):
    (tmp_path / "other.json").write_text('{"train": {"epochs": 3, "loss": {"dice": 0.7}}}')
    assert json.loads(call("diff", "other.json").stdout) == {"train.epochs": [3, 9]}


def test_changing_needs_a_file(call, tmp_path):
    (tmp_path / "roadseg.json").unlink()
    result = call("set", "train.epochs=3")
    assert result.exit_code == 2
    assert "does not exist; create a config" in result.stderr
