import pytest

from roadseg.errors import DataError
from roadseg.system.records import key_of, known_settings, read_json, versions, write_json


@pytest.fixture
def path(tmp_path):
    return tmp_path / "split.json"


def test_a_value_written_comes_back(path):
    value = {"a": [1, 2.5, None, True], "b": "Straße"}
    write_json(path, value)
    assert read_json(path) == value


def test_a_value_is_written_in_the_letters_of_its_language(path):
    write_json(path, {"Straße": "道路", "half a pair": "\ud800"})
    text = '{\n  "Straße": "道路",\n  "half a pair": "\\ud800"\n}\n'
    assert path.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("content", [b"", b'{"a": 1', b"\xff\xfe"])
def test_a_file_that_is_not_json_is_refused(path, content):
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"split\.json: not a readable JSON file .* again"):
        read_json(path)


def test_a_file_that_is_missing_is_not_to_be_deleted(path):
    with pytest.raises(DataError, match=r"split\.json does not exist; run its stage again"):
        read_json(path)


@pytest.mark.parametrize("deep", ["[" * 100_000, '{"a":' * 100_000, "[" * 300 + "]" * 300])
def test_a_file_nested_without_end_is_refused(path, deep):
    path.write_text(deep)
    with pytest.raises(DataError, match=r"split\.json: not a readable JSON file \(recursion limit"):
        read_json(path)


def test_a_byte_order_mark_is_no_fault(path):
    path.write_bytes(b"\xef\xbb\xbf{}")
    assert read_json(path) == {}


def test_the_order_of_settings_and_inputs_does_not_matter():
    first = key_of({"a": 1, "b": 2}, {"x": "1", "y": "2"})
    assert first == key_of({"b": 2, "a": 1}, {"y": "2", "x": "1"})


def test_the_versions_are_those_of_the_libraries_in_use():
    assert {"python", "roadseg", "torch"} <= versions().keys()


@pytest.mark.parametrize(("value", "known"), [(1, {}), (2, {"new": 2})])
def test_a_setting_that_an_earlier_version_did_not_know_makes_no_difference_at_its_default(
    value, known
):
    assert known_settings({"new": value}, {}, {"new": 1}) == known


def test_a_setting_that_only_an_earlier_version_knew_makes_no_difference_at_its_value():
    defaults = {"retired": False, "kept": 1}
    assert known_settings({"kept": 1}, {"kept": 1, "retired": False}, defaults) == {
        "kept": 1,
        "retired": False,
    }
    assert known_settings({"kept": 1}, {"kept": 1, "retired": True}, defaults) == {"kept": 1}


@pytest.mark.parametrize(
    ("earlier", "is_kept"), [({"one": 1}, True), ({"one": 2}, False), ({"other": 1}, False)]
)
def test_a_part_of_a_retired_section_makes_no_difference_with_its_fixed_values(earlier, is_kept):
    defaults = {"section": {"one": 1, "two": 2}}
    known = known_settings({}, {"section": earlier}, defaults)
    assert known == ({"section": earlier} if is_kept else {})
