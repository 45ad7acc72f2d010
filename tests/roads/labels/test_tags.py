import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roadseg.roads.labels.tags import highway_key, number, read_tags, text


def column(*values):
    """Return a column as pyogrio gives strings: objects, some of them None."""
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found


def packed(*values, key="lanes"):
    """Return the words of a key that is packed in `other_tags`."""
    return read_tags({"other_tags": column(*values)}, len(values), [key]).words(key).tolist()


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([None, np.nan, float("nan"), "", "  ", "None", "NULL", "<NA>"], ""),
        ([5.0, 5, " 5 "], "5"),
        ([2.5], "2.5"),
        ([" a "], "a"),
        (["none"], "none"),
        (
            [["50", "30 mph"], "['50', '30 mph']", '[ "50", "30 mph" ]', column("50", "30 mph")],
            "50;30 mph",
        ),
    ],
)
def test_a_text_is_short_and_a_list_is_joined(values, expected):
    assert [text(value) for value in values] == [expected] * len(values)


def test_numbers_are_nan_where_nothing_is_found():
    tags = read_tags({"lanes": column("2", None, "x")}, 3, ["lanes"])
    np.testing.assert_array_equal(tags.numbers("lanes", number), [2, np.nan, np.nan])


@pytest.mark.parametrize("dtype", [np.int32, np.float64, object, np.str_])
def test_numbers_are_read_from_any_dtype(dtype):
    tags = read_tags({"lanes": np.array([2, 3]).astype(dtype)}, 2, ["lanes"])
    assert tags.numbers("lanes", number).tolist() == [2, 3]


@pytest.mark.parametrize(
    ("tags", "lanes"),
    [
        (('"oneway"=>"yes","lanes"=>"3"', None, '"lanes"=>"2"'), ["3", "", "2"]),
        (('{"oneway":"yes","lanes":"3"}', '{"lanes": "2"}'), ["3", "2"]),
        # quoted within a value
        ((r'"note"=>"a \"lanes\"=>\"9\", b"', r'"note"=>"c:\\","lanes"=>"2"'), ["", "2"]),
        (('"lanes:forward"=>"1","bus:lanes"=>"2"',), [""]),  # longer keys
    ],
)
def test_keys_are_taken_out_of_other_tags(tags, lanes):
    assert packed(*tags) == lanes


def test_a_column_wins_over_other_tags():
    columns = {"lanes": column("1"), "other_tags": column('"lanes"=>"2"')}
    assert read_tags(columns, 1, ["lanes"]).words("lanes").tolist() == ["1"]


@given(st.dictionaries(st.sampled_from(["a", "b:c", "d"]), st.text(alphabet='x"\\=>,{}: ')))
def test_packed_tags_come_back(tags):
    escaped = {k: v.replace("\\", "\\\\").replace('"', '\\"') for k, v in tags.items()}
    found = read_tags(
        {"other_tags": column(",".join(f'"{k}"=>"{v}"' for k, v in escaped.items()))},
        1,
        ["a", "b:c", "d"],
    )
    assert {key: found.columns[key][0] for key in tags} == tags


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (["name", "highway", "fclass"], "highway"),
        (["fclass", "other_tags"], "fclass"),
        (["name", "other_tags"], "highway"),
        ([], ""),
    ],
)
def test_the_class_of_roads_has_a_name_in_each_kind_of_file(keys, expected):
    assert highway_key(keys) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [("2.5", 2.5), (" 5 ", 5), (3, 3), (np.int64(4), 4), ("x", None), ("nan", None), (None, None)],
)
def test_a_number_may_be_a_string(value, expected):
    assert number(value) == expected
