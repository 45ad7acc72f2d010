"""The recipe of the conda packages says what pyproject.toml says."""

import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
NAMES = {
    "matplotlib": "matplotlib-base",
    "opencv-python-headless": "py-opencv",
    "torch": "pytorch",
}


@pytest.fixture(scope="module")
def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def recipe():
    return yaml.safe_load((ROOT / "scripts/conda/recipe.yaml").read_text())


def filled(text, recipe):
    for name, value in recipe["context"].items():
        text = text.replace(f"${{{{ {name} }}}}", value)
    return text


def test_the_version_is_that_of_the_project(project, recipe):
    assert recipe["context"]["version"] == project["version"]
    assert f">={recipe['context']['python_min']}" == project["requires-python"]


def test_the_requirements_are_those_of_the_project(project, recipe):
    needed = [Requirement(text) for text in project["dependencies"]]
    wanted = [f"{NAMES.get(each.name, each.name)} {each.specifier}" for each in needed]
    _, package = recipe["outputs"]
    found = [filled(text, recipe) for text in package["requirements"]["run"]]
    assert found == [f"python {project['requires-python']}", *wanted]


def test_the_command_and_the_description_are_those_of_the_project(project, recipe):
    _, package = recipe["outputs"]
    (command,) = package["build"]["python"]["entry_points"]
    assert dict([command.split(" = ")]) == project["scripts"]
    assert package["about"]["summary"] == project["description"]
    assert package["about"]["license"] == project["license"]
