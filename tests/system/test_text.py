import pytest

from roadseg.system.text import count, counted, first, one_line


@pytest.mark.parametrize(("number", "text"), [(0, "0 files"), (1, "1 file"), (2, "2 files")])
def test_one_of_a_thing_has_no_s(number, text):
    assert count(number, "file") == text


def test_counts_are_listed_in_their_order():
    assert counted({"null": 3, "empty": 1}) == "3 null, 1 empty"
    assert counted({"maxspeed": 3}, "by ") == "3 by maxspeed"


def test_what_an_error_says_in_lines_is_one_line():
    assert one_line(ValueError("  no\n\tWKT  here\n")) == "no WKT here"


def test_of_many_names_the_first_are_listed_and_the_others_counted():
    assert first(["a", "b"], 2) == "a, b"
    assert first(["a", "b", "c", "d"], 2) == "a, b and 2 more"
