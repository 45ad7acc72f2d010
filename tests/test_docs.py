"""What the documents say is true of the package."""

import os
import re
from pathlib import Path

import pytest

from roadseg.commands.cli.main import main
from roadseg.config import Config

ROOT = Path(__file__).parents[1]
DOCUMENTS = [
    *("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "data/README.md"),
    *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")),
]
NOTEBOOKS = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.ipynb"))
TEXT = "\n".join((ROOT / name).read_text(encoding="utf-8") for name in DOCUMENTS)
TREE = "```\nroadseg/\n"
UNNAMED = {"__init__.py", "py.typed"}
NO_PROGRAMS = {
    "environment",
    "constraints.txt",
    "mypy.ini",
    "starter_places.py",
}  # of scripts/: read by others
FILE_TYPES = {"pdf", "json", "py", "md", "csv", "png", "html"}


def tree():
    """Return the lines of the indented tree that starts with the line `roadseg/`."""
    return TEXT.split(TREE)[1].split("```")[0].splitlines()


def paths(lines):
    """Return the files of an indented tree."""
    folders, files = [], []
    for line in lines:
        depth = (len(line) - len(line.lstrip())) // 2 - 1
        name = line.split()[0]
        folders[depth:] = [name]
        if not name.endswith("/"):
            files.append("".join(folders))
    return files


def test_the_tree_is_the_package():
    package = ROOT / "roadseg"
    files = [p.relative_to(package) for p in package.rglob("*") if p.is_file()]
    there = {str(p) for p in files if p.name not in UNNAMED and "__pycache__" not in p.parts}
    assert TEXT.count(TREE) == 1
    assert sorted(paths(tree())) == sorted(there)


def test_every_line_of_the_tree_says_what_it_is():
    assert [line for line in tree() if len(line.split()) == 1] == []


def test_the_tree_is_read_with_its_folders():
    lines = ["  core/   pure", "    grid.py  pixels", "    city/ drawn", "      a.py", "  cli.py"]
    assert paths(lines) == ["core/grid.py", "core/city/a.py", "cli.py"]


@pytest.mark.parametrize("name", main.commands)
def test_every_command_is_in_a_document(name):
    assert f"| `roadseg {name}` |" in TEXT


@pytest.mark.parametrize("name", main.commands["config"].commands)
def test_every_config_command_is_in_a_document(name):
    assert f"roadseg config {name}" in TEXT


@pytest.mark.parametrize("name", Config.model_fields)
def test_every_section_of_the_config_is_in_a_document(name):
    assert f"| `{name}` |" in TEXT


@pytest.mark.parametrize("document", [*DOCUMENTS, *NOTEBOOKS])
def test_links_lead_to_files(document):
    path = ROOT / document
    links = re.findall(r"\]\(([^)#:]+)\)", path.read_text(encoding="utf-8"))
    assert [link for link in links if not (path.parent / link).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_settings_named_in_a_document_exist(document):
    text = (ROOT / document).read_text(encoding="utf-8")
    named = re.findall(r"`(?:--set )?([a-z]+)\.([a-z_]+)(?:=[^`]*)?`", text)
    fields = Config.model_fields
    settings = [(a, b) for a, b in named if a in fields and b not in FILE_TYPES]
    known = {(a, b) for a in fields for b in getattr(fields[a].annotation, "model_fields", ())}
    if document == "CHANGELOG.md":
        known |= {(a, b) for a in fields for b in getattr(fields[a].annotation, "retired", ())}
    assert [pair for pair in settings if pair not in known] == []


@pytest.mark.parametrize("path", sorted((ROOT / "scripts").iterdir()), ids=lambda p: p.name)
def test_scripts_can_be_started(path):
    assert os.access(path, os.X_OK) or path.name in NO_PROGRAMS


def test_tests_that_scripts_name_exist():
    text = "\n".join(path.read_text() for path in (ROOT / "scripts").iterdir() if path.is_file())
    named = [
        f"{before}{name}{after}"
        for before, names, after in re.findall(r"(tests/[\w/]+)(?:\{([\w,]+)\})?([\w/]*\.py)", text)
        for name in names.split(",")
    ]
    assert "tests/learn/hardware/test_ipex.py" in named
    assert [path for path in named if not (ROOT / path).is_file()] == []
