import json
import os

import pytest

from roadseg.errors import DataError, MissingInputError
from roadseg.io.records import (
    StageRecord,
    file_facts,
    key_of,
    parse_json,
    read_json,
    read_key,
    read_summary,
    versions,
    write_json,
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "split.json"


def record(path, settings=(("folds", 5),), inputs=("a", "b")):
    return StageRecord(path, settings=dict(settings), inputs=inputs)


def test_a_value_written_comes_back(path):
    value = {"a": [1, 2.5, None, True], "b": "Straße"}
    write_json(path, value)
    assert read_json(path) == value


@pytest.mark.parametrize("content", [b"", b'{"a": 1', b"\xff\xfe"])
def test_a_file_that_is_not_json_is_refused(path, content):
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"split\.json: not a readable JSON file .* again"):
        read_json(path)


@pytest.mark.parametrize("deep", ["[" * 100_000, '{"a":' * 100_000, "[" * 300 + "]" * 300])
def test_a_file_nested_without_end_is_refused(path, deep):
    path.write_text(deep)
    with pytest.raises(DataError, match=r"split\.json: not a readable JSON file \(recursion limit"):
        read_json(path)


@pytest.mark.parametrize(("largest", "fits"), [(7, True), (6, False)])
def test_a_file_larger_than_it_may_be_is_refused(path, largest, fits):
    path.write_text("[1, 23]")
    try:
        found = parse_json(path, largest=largest)
    except ValueError as error:
        found = str(error)
    assert found == ([1, 23] if fits else "7 bytes, expected at most 6")


def test_a_byte_order_mark_is_no_fault(path):
    path.write_bytes(b"\xef\xbb\xbf{}")
    assert read_json(path) == {}


@pytest.mark.parametrize("text", ["[]", "3", '{"state": "done"}', '{"state": "done", "key": 1}'])
@pytest.mark.parametrize("read", [read_key, read_summary])
def test_json_that_is_no_record_is_refused(path, text, read):
    path.write_text(text)
    with pytest.raises((DataError, MissingInputError), match=r"split\.json: "):
        read(path)


def test_a_record_without_summary_does_not_count(path):
    path.write_text(json.dumps({"state": "done", "key": record(path).key}))
    assert record(path).summary() is None


def test_a_stage_that_never_ran_has_no_summary(path):
    assert record(path).summary() is None


def test_a_stage_that_has_only_begun_has_no_summary(path):
    record(path).begin()
    assert record(path).summary() is None


def test_a_finished_stage_has_its_summary(path):
    record(path).begin()
    record(path).finish({"chips": 7})
    assert record(path).summary() == read_summary(path) == {"chips": 7}


def test_a_stage_begun_again_is_not_finished_any_more(path):
    record(path).finish({"chips": 7})
    record(path).begin()
    assert record(path).summary() is None


@pytest.mark.parametrize(
    "change", [{"settings": (("folds", 4),)}, {"inputs": ("a",)}, {"inputs": ("a", "c")}]
)
def test_another_setting_or_input_does_not_find_the_summary(path, change):
    record(path).finish({"chips": 7})
    assert record(path, **change).summary() is None
    assert record(path, **change).key != record(path).key


def test_the_order_of_settings_and_inputs_does_not_matter():
    assert key_of({"a": 1, "b": 2}, ["x", "y"]) == key_of({"b": 2, "a": 1}, ["y", "x"])


def test_a_record_says_what_the_stage_was_made_from(path):
    record(path).finish({"chips": 7})
    found = json.loads(path.read_text())
    assert found["stage"] == "split"
    assert found["settings"] == {"folds": 5}
    assert found["seconds"] >= 0
    assert found["versions"] == versions()


def test_the_versions_are_those_of_the_libraries_in_use():
    assert {"python", "roadseg", "torch"} <= versions().keys()


def test_a_finished_stage_has_a_key_for_later_stages(path):
    record(path).finish({})
    assert read_key(path) == record(path).key


@pytest.mark.parametrize("read", [read_key, read_summary])
def test_an_interrupted_stage_is_named(path, read):
    record(path).begin()
    with pytest.raises(MissingInputError, match="split was interrupted; run `roadseg split` again"):
        read(path)


def test_facts_of_a_file_change_with_its_size_and_its_time(path):
    path.write_text("one")
    first = file_facts([path])
    path.write_text("three")
    second = file_facts([path])
    os.utime(path, ns=(1, 1))
    assert len({*first, *second, *file_facts([path])}) == 3
