"""The reference pages of the site name all that the package has. `scripts/docs` builds the site."""

import itertools
import re
from pathlib import Path

import pytest

import roadseg
from roadseg.commands.cli.main import main
from roadseg.config import Config

SITE = Path(__file__).parents[1] / "docs" / "site"


@pytest.fixture(scope="module")
def reference(load_script):
    return load_script(SITE / "reference.py")


def test_every_public_name_is_in_one_section(reference):
    sections = reference.public_names().values()
    names = [name for section in sections for name in section]
    assert sorted(names) == sorted(set(roadseg.__all__) - {"__version__"})


def test_a_function_stands_before_the_values_that_it_returns(reference):
    names = reference.public_names()["Comparisons"]
    assert names == ["diff", "score", "AplsScores", "Differences", "Scores"]


@pytest.mark.parametrize("name", main.commands)
def test_every_command_is_shown_with_all_its_options(reference, name):
    page = reference.commands_page()
    section = page.partition(f"\n## roadseg {name}\n")[2].partition("\n## ")[0]
    options = [p.opts[-1] for p in main.commands[name].params if p.opts[-1].startswith("--")]
    assert section.count("\n| `-") == len(options)
    assert [option for option in options if option not in section] == []


@pytest.mark.parametrize("name", Config.model_fields)
def test_every_key_of_the_config_is_shown(reference, name):
    page = reference.config_page()
    keys = getattr(Config.model_fields[name].annotation, "model_fields", {})
    section = page.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
    shown = [k for k in keys if f"| `{k}` |" in section or f"### {name}.{k}\n" in section]
    assert shown == list(keys)


def test_keys_of_a_set_are_shown(reference):
    section = reference.config_page().partition("\n### imagery.sets.NAME\n")[2]
    assert "| `weight` | `1.0` |" in section.partition("\n#### imagery.sets.NAME.labels\n")[0]


def test_no_heading_of_the_config_skips_a_level(reference):
    levels = [len(marks) for marks in re.findall(r"^(#+) ", reference.config_page(), re.MULTILINE)]
    assert levels[0] == 2
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))


def test_limits_units_and_choices_of_a_key_are_shown(reference):
    page = reference.config_page()
    assert "| `folds` | `5` | integer ≥ 2, ≤ 10000; folds |" in page
    assert '| `device` | `"auto"` | `auto`, `cpu`, `cuda`,' in page


def test_what_markdown_would_read_as_markup_is_escaped(reference):
    assert reference.escape("masks/<scene>.tif of a_b, --no-mask\n too") == (
        r"masks/\<scene\>.tif of a\_b, `--no-mask` too"
    )
