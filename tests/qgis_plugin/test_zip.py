"""The zip file for the plugin repository of QGIS."""

import ast
import configparser
from zipfile import ZipFile

import pytest
from qgis_zip import ROOT, write_zip

from roadseg.commands.tools.qgis import SOURCE, plugin_files

ADDRESSES = {
    "repository": "https://example.org/roadseg",
    "tracker": "https://example.org/roadseg/issues",
    "email": "roadseg@example.org",
}


@pytest.fixture
def archive(tmp_path):
    write_zip(tmp_path / "plugin.zip", **ADDRESSES)
    with ZipFile(tmp_path / "plugin.zip") as opened:
        yield opened


def test_the_zip_holds_one_folder_with_the_plugin_and_the_licence(archive):
    names = {f"roadseg_qgis/{path.name}" for path in plugin_files()}
    assert set(archive.namelist()) == names | {"roadseg_qgis/LICENSE"}
    assert archive.read("roadseg_qgis/LICENSE") == (ROOT / "LICENSE").read_bytes()


def test_the_metadata_of_the_zip_names_where_the_plugin_is_from(archive):
    parser = configparser.ConfigParser()
    parser.read_string(archive.read("roadseg_qgis/metadata.txt").decode())
    facts = parser["general"]
    assert facts["homepage"] == ADDRESSES["repository"]
    assert {key: facts[key] for key in ADDRESSES} == ADDRESSES


@pytest.mark.parametrize("path", sorted(SOURCE.glob("*.py")), ids=lambda path: path.name)
def test_the_plugin_is_written_for_the_oldest_python_of_qgis(path):
    ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 9))
