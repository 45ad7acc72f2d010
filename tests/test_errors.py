"""What is told of an error that a library raised."""

import pytest

from roadseg.errors import first_line


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("  no bands\nand a trace"), "no bands"),
        (KeyError("no such encoder"), "no such encoder"),
        (KeyError(), "KeyError"),
        (RuntimeError("\n"), "RuntimeError"),
    ],
)
def test_an_error_of_a_library_is_told_in_its_first_line(error, line):
    assert first_line(error) == line
