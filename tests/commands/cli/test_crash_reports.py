from pathlib import Path

import pytest

from roadseg.commands.cli.failures import write_report
from roadseg.system.web.keys import with_keys


def raised():
    """Return an error and, with a traceback, the one that caused it."""
    error = TypeError("second")
    try:
        int("first")
    except ValueError as cause:
        error.__cause__ = cause
    return error


@pytest.fixture
def report(tmp_path):
    """Give a function that writes a report and returns its text."""

    def write(words=(), config=None):
        return write_report(raised(), words, config=config, folders=[tmp_path]).read_text()

    return write


def test_it_has_the_error_its_cause_and_the_command(report):
    text = report(["split", "--run", "a b"])
    assert "roadseg split --run 'a b'" in text
    assert text.index("base 10: 'first'") < text.index("TypeError: second")
    assert "\nnumpy " in text


def test_it_tells_variables_that_matter_and_no_others(report, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    monkeypatch.setenv("GDAL_HTTP_USERPWD", "me:hush")
    text = report()
    assert "OMP_NUM_THREADS=3" in text
    assert "hush" not in text


def test_it_has_the_config_as_it_is(report, tmp_path):
    config = tmp_path / "roadseg.json"
    config.write_bytes(b'{"run": "\xff"')
    assert f'{config}\n{{"run": "\ufffd"' in report(config=config)


def test_a_config_that_is_gone_is_no_hindrance(report, tmp_path):
    assert "No such file" in report(config=tmp_path / "gone.json")


def test_the_first_folder_that_takes_it_gets_it(tmp_path):
    path = write_report(raised(), [], config=None, folders=[tmp_path / "missing", tmp_path])
    assert path.parent == tmp_path


def test_the_folder_for_temporary_files_is_the_last_resort(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    path = write_report(raised(), [], config=None, folders=[Path("\0"), tmp_path / "missing"])
    assert path.parent == tmp_path


def test_without_any_folder_there_is_none(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    assert write_report(raised(), [], config=None, folders=[]) is None


def test_it_has_no_key(report, monkeypatch):
    monkeypatch.setenv("MY_KEY", "s3cretvalue")
    with_keys("{env:MY_KEY}")
    text = report(["fetch", "images", "https://a.org/?key=abcdef&x=1", "--note", "s3cretvalue"])
    assert "roadseg fetch images 'https://a.org/?key=***&x=1' --note {env:MY_KEY}" in text
