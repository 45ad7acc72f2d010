"""What is told of an error that a library raised, and with which code each error of ours ends."""

import re

import pytest

from roadseg import errors
from roadseg.commands.cli.main import main
from roadseg.errors import RoadsegError, first_line

CODES = {  # as the documentation has them, on which scripts rely
    "RoadsegError": 1,
    "MissingInputError": 1,
    "DeviceError": 1,
    "ConfigError": 2,
    "DataError": 3,
    "OutputError": 3,
    "CheckpointError": 3,
    "FaultError": 70,
    "PartnerError": 75,
}


def test_each_error_ends_with_its_code_which_the_help_names():
    kinds = (kind for kind in vars(errors).values() if isinstance(kind, type))
    found = {kind.__name__: kind.exit_code for kind in kinds if issubclass(kind, RoadsegError)}
    assert found == CODES
    named = re.findall(r"\b\d+\b", main.help.partition("Exit codes:")[2])
    assert set(map(str, CODES.values())) <= set(named)


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
