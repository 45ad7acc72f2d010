import pytest

from roadseg.system.text import (
    about_time,
    count,
    first,
    itemize,
    one_line,
    size_text,
    table,
    time_text,
)


@pytest.mark.parametrize(("number", "text"), [(0, "0 files"), (1, "1 file"), (2, "2 files")])
def test_one_of_a_thing_has_no_s(number, text):
    assert count(number, "file") == text


def test_counts_are_listed_in_their_order():
    assert itemize({"null": 3, "empty": 1}) == "3 null, 1 empty"
    assert itemize({"maxspeed": 3}, "by ") == "3 by maxspeed"


def test_what_an_error_says_in_lines_is_one_line():
    assert one_line(ValueError("  no\n\tWKT  here\n")) == "no WKT here"


def test_of_many_names_the_first_are_listed_and_the_others_counted():
    assert first(["a", "b"], 2) == "a, b"
    assert first(["a", "b", "c", "d"], 2) == "a, b and 2 more"


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.2, "about 1 s"),
        (119, "about 119 s"),
        (120, "about 2 min"),
        (7199, "about 120 min"),
        (7200, "about 2 h"),
        (172_799, "about 48 h"),
        (172_800, "about 2 days"),
    ],
)
def test_time_is_said_in_the_unit_of_which_there_are_two(seconds, said):
    assert about_time(seconds) == said


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (9.94, "9.9 s"),
        (10, "10 s"),
        (119, "119 s"),
        (120, "2.0 min"),
        (7199, "120.0 min"),
        (7200, "2.0 h"),
    ],
)
def test_a_measured_time_has_two_or_three_digits(seconds, shown):
    assert time_text(seconds) == shown


@pytest.mark.parametrize(
    ("megabytes", "shown"),
    [(0.04, "40 kB"), (0.1, "0.1 MB"), (9.9, "9.9 MB"), (10, "10 MB"), (1000, "1.0 GB")],
)
def test_a_size_is_in_the_unit_that_fits(megabytes, shown):
    assert size_text(megabytes) == shown


def test_columns_of_a_table_are_as_wide_as_their_widest_cell():
    assert table([["name", "n"], ["a", "10"]], right=[1]) == "name   n\na     10"
