"""What ships: a wheel with every file, versions that were tested, images of no root."""

import re
import tomllib
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PYPROJECT = (ROOT / "pyproject.toml").read_text()
PROJECT = tomllib.loads(PYPROJECT)["project"]
CONSTRAINTS = (ROOT / "scripts/constraints.txt").read_text()
PINNED = dict(re.findall(r"^([\w.-]+)==(\S+)$", CONSTRAINTS, re.MULTILINE))
TESTED = ["parquet", "onnx", "openvino", "docs", "dev"]
DOCKERFILES = [ROOT / "scripts/docker" / f"Dockerfile.{kind}" for kind in ("cpu", "cuda")]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Build the wheel, with the build tools of this environment; return it opened."""
    build = pytest.importorskip("hatchling.build", reason="needs hatchling of roadseg[dev]")
    folder = tmp_path_factory.mktemp("wheel")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        name = build.build_wheel(str(folder))
    with ZipFile(folder / name) as opened:
        yield opened


def package_files():
    files = (path for path in (ROOT / "roadseg").rglob("*") if path.is_file())
    return {str(p.relative_to(ROOT)) for p in files if "__pycache__" not in p.parts}


def test_the_wheel_holds_every_file_of_the_package_and_no_other(wheel):
    held = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert held == package_files()
    assert "roadseg/py.typed" in held


def test_the_wheel_says_what_it_is(wheel):
    info = f"roadseg-{PROJECT['version']}.dist-info"
    facts = Parser().parsestr(wheel.read(f"{info}/METADATA").decode())
    assert (facts["Name"], facts["Version"]) == ("roadseg", PROJECT["version"])
    assert (facts["License-Expression"], facts["Requires-Python"]) == ("Apache-2.0", ">=3.11")
    assert facts.get_payload().startswith("# roadseg")
    assert wheel.read(f"{info}/licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()


def test_the_versions_of_python_that_are_tested_are_those_that_are_named():
    workflow = (ROOT / ".github/workflows/tests.yml").read_text()
    (tested,) = re.findall(r"python: \[(.*)\]", workflow)
    named = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', PYPROJECT)
    assert re.findall(r"[\d.]+", tested) == named


def test_the_wheel_brings_the_command(wheel):
    entries = wheel.read(f"roadseg-{PROJECT['version']}.dist-info/entry_points.txt").decode()
    assert "[console_scripts]\nroadseg = roadseg.commands.cli.main:main" in entries


def wanted():
    extras = PROJECT["optional-dependencies"]
    texts = PROJECT["dependencies"] + [text for extra in TESTED for text in extras[extra]]
    wishes = [Requirement(text) for text in texts]
    return {canonicalize_name(w.name): w.specifier for w in wishes if w.name != "roadseg"}


@pytest.mark.parametrize(("name", "allowed"), wanted().items(), ids=wanted())
def test_every_dependency_has_a_version_that_was_tested(name, allowed):
    assert name in PINNED, "run scripts/lock"
    assert PINNED[name] in allowed


def test_constraints_hold_names_and_versions_only():
    lines = [line for line in CONSTRAINTS.splitlines() if line and not line.startswith("#")]
    assert len(lines) == len(PINNED)
    assert lines == sorted(lines, key=lambda line: line.partition("==")[0])
    assert "://" not in CONSTRAINTS


def instructions(path):
    """Return the instructions of a Dockerfile, each as its word and the rest."""
    text = re.sub(r"^#.*\n", "", path.read_text(), flags=re.MULTILINE).replace("\\\n", "")
    return [tuple(line.split(None, 1)) for line in text.splitlines() if line]


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.name)
class TestDockerfile:
    def test_it_ends_as_a_user_that_is_not_root_with_the_command(self, path):
        last = dict(instructions(path))
        assert last["USER"] == "1000:1000"
        assert last["ENTRYPOINT"] == '["roadseg"]'

    def test_bases_are_of_one_fixed_version(self, path):
        bases = {rest.split()[0] for word, rest in instructions(path) if word == "FROM"}
        assert len(bases) == 1
        assert re.fullmatch(r"python:3\.11\.\d+-slim-\w+", bases.pop())

    def test_all_is_installed_in_the_versions_that_were_tested(self, path):
        installs = [rest for word, rest in instructions(path) if "pip install" in rest]
        assert len(installs) == 2
        assert all("--constraint constraints.txt" in rest for rest in installs)

    def test_what_is_copied_is_there_and_not_ignored(self, path):
        ignored = Path(f"{path}.dockerignore").read_text().splitlines()
        copies = [rest.split()[:-1] for word, rest in instructions(path) if word == "COPY"]
        sources = {name for copy in copies for name in copy if not copy[0].startswith("--from")}
        assert {line[1:] for line in ignored if line.startswith("!")} == sources
        assert all((ROOT / name).exists() for name in sources)


def test_the_images_differ_only_in_torch_and_in_what_gpus_need():
    cpu, cuda = (instructions(path)[::-1] for path in DOCKERFILES)
    stage = [word for word, _ in cpu].index("FROM")
    gpu = " NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility"
    cuda = [(word, re.sub(r"\s+", " ", rest).replace(gpu, "")) for word, rest in cuda]
    assert cuda[:stage] == [(word, re.sub(r"\s+", " ", rest)) for word, rest in cpu[:stage]]
