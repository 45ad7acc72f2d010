"""Options of the command line: those that stand for a field say what the field says."""

import click
import pytest
from click.testing import CliRunner

from roadseg.commands.cli.main import main
from roadseg.commands.cli.options import FieldOption
from roadseg.config import Config

SECTIONS = {
    name: field.annotation.model_fields
    for name, field in Config.model_fields.items()
    if hasattr(field.annotation, "model_fields")
}
OF_COMMANDS = {  # what has the name of a setting, and means something else
    ("export", "window_px"),
    ("export", "batch_size"),
    ("init", "images"),
    ("images", "area"),
    ("images", "gsd_m"),
    ("init", "gsd_m"),
    ("map", "gsd_m"),
    ("improve", "minutes"),
    ("map", "minutes"),
    ("score", "gsd_m"),
    ("convert", "gsd_m"),
    ("route", "goal"),
    ("roads", "area"),
}


def options_of(command, before=()):
    """Give every option of every command."""
    for name, inner in getattr(command, "commands", {}).items():
        yield from options_of(inner, (*before, name))
    yield from ((before, each) for each in command.params if isinstance(each, click.Option))


OPTIONS = list(options_of(main))
FIELDS = [(name, option) for name, option in OPTIONS if isinstance(option, FieldOption)]


def test_no_option_says_again_what_a_setting_says():
    named = {name for fields in SECTIONS.values() for name in fields}
    again = {
        (command[-1], option.name)
        for command, option in OPTIONS
        if command and option.name in named and not isinstance(option, FieldOption)
    }
    assert again <= OF_COMMANDS


@pytest.mark.parametrize(("command", "option"), FIELDS, ids=lambda value: str(value)[:40])
def test_an_option_of_a_field_has_its_help(command, option):
    told = CliRunner().invoke(main, [*command, "--help"], terminal_width=300).output
    assert option.opts[0] in told
    assert " ".join(option.help.split()) in " ".join(told.split())


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("predict", "[default: strict; config: predict.gsd]"),
        ("map", "[default: auto; config: predict.gsd]"),
        ("map", "has no data. [config: imagery.area]"),
        ("conflate", "[default: 20] [0<=x<=10000000]"),
        ("predict", "takes 4 times as long. [default: no; config: predict.tta]"),
        ("score", "0: none. [default: 1] [0<=x<=1024]"),
    ],
)
def test_help_says_what_counts_without_an_option(command, expected):
    told = CliRunner().invoke(main, [command, "--help"], terminal_width=300).output
    assert expected in " ".join(told.split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "--device", "abacus"], "'abacus' is not one of 'auto', 'cpu'"),
        (["init", "--minutes", "0"], "0 is not in the range 0.1<=x<=1000000"),
        (["prepare", "--workers", "-1"], "-1 is not in the range 0<=x<=1024"),
        (["score", "a", "b", "--spacing-m", "0"], "is not in the range 0.1<=x<=100000"),
        (["diff", "a", "--reference", "b", "--tolerance-m", "0"], "is not in the range 0<x<=1000"),
        (
            ["route", "a", "--from", "1,1", "--to", "1,1", "--snap-m", "nan"],
            "--snap-m: expected a finite number, got nan",
        ),
        (
            ["audit", "a", "--probabilities", "b", "--threshold", "5"],
            '--threshold: expected a number above 0 and below 1, or "auto", got 5.0',
        ),
        (
            ["audit", "a", "--probabilities", "b", "--min-shift-m", "9", "--max-shift-m", "8"],
            "--min-shift-m 9.0, --max-shift-m 8.0: ",
        ),
    ],
)
def test_values_beyond_the_limits_of_a_field_are_usage_errors(words, message):
    done = CliRunner().invoke(main, words)
    assert (done.exit_code, message in done.output) == (2, True), done.output


def test_choices_of_a_field_are_completed():
    engine = next(option for _, option in FIELDS if option.name == "engine")
    assert engine.type.choices == ("auto", "eager", "inductor", "openvino")
