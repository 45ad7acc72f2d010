"""qgis install: where the plugin is put, and what is told."""

import configparser
import json
import sys
import tomllib
from pathlib import Path

import pytest

from roadseg.commands.tools import qgis
from roadseg.errors import MissingInputError

ROOT = Path(__file__).parents[3]


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Give an empty home folder on Linux."""
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.setattr(sys, "platform", "linux")
    for name in ("XDG_DATA_HOME", "QGIS_CUSTOM_CONFIG_PATH"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_the_plugin_is_put_into_the_default_profile_with_this_python(home):
    (folder,) = qgis.run(None).folders
    expected = home / ".local/share/QGIS/QGIS3/profiles/default/python/plugins/roadseg_qgis"
    assert Path(folder) == expected
    assert json.loads((expected / "command.json").read_text()) == [sys.executable, "-m", "roadseg"]
    names = {path.name for path in expected.iterdir()}
    assert names == {path.name for path in qgis.plugin_files()} | {"command.json"}
    assert {"__init__.py", "metadata.txt", "icon.png", "icon.svg"} < names


def test_every_qgis_of_the_user_gets_it_and_an_older_one_is_replaced(home):
    places = [".local/share/QGIS/QGIS4", ".var/app/org.qgis.qgis/data/QGIS/QGIS3"]
    profiles = [home / place / "profiles" for place in places]
    for profile in profiles:
        profile.mkdir(parents=True)
    old = profiles[0] / "default/python/plugins/roadseg_qgis/old.py"
    old.parent.mkdir(parents=True)
    old.touch()
    expected = [profile / "default/python/plugins/roadseg_qgis" for profile in profiles]
    assert list(map(Path, qgis.run(None).folders)) == expected
    assert not old.exists()


def test_another_profile_must_be_there(home):
    (home / ".local/share/QGIS/QGIS3/profiles/work").mkdir(parents=True)
    (folder,) = qgis.run("work").folders
    assert "/profiles/work/" in folder
    (home / ".local/share/QGIS/QGIS3/profiles/profiles.ini").touch()  # Of QGIS itself.
    with pytest.raises(MissingInputError, match=r"no profile of this name; it has work$"):
        qgis.run("wrok")


@pytest.mark.parametrize(
    ("platform", "variables", "first"),
    [
        ("linux", {}, "/home/a/.local/share/QGIS/QGIS3/profiles"),
        ("linux", {"XDG_DATA_HOME": "/data"}, "/data/QGIS/QGIS3/profiles"),
        ("linux", {"QGIS_CUSTOM_CONFIG_PATH": "/own"}, "/own/profiles"),
        ("darwin", {}, "/home/a/Library/Application Support/QGIS/QGIS3/profiles"),
        ("win32", {"APPDATA": "/roaming"}, "/roaming/QGIS/QGIS3/profiles"),
    ],
)
def test_profiles_are_where_qgis_keeps_them(monkeypatch, platform, variables, first):
    monkeypatch.setattr(sys, "platform", platform)
    assert next(qgis.profile_roots(variables, Path("/home/a"))) == Path(first)


def test_the_summary_says_what_to_do_next(home):
    del home
    text = str(qgis.run(None))
    assert "roadseg_qgis; next: (re)start QGIS" in text
    assert "\n" not in text


def test_the_metadata_has_what_qgis_asks_for_and_the_version_of_the_package():
    parser = configparser.ConfigParser()
    parser.read(qgis.SOURCE / "metadata.txt", encoding="utf-8")
    facts = parser["general"]
    asked = {"name", "qgisMinimumVersion", "description", "about", "version", "author", "icon"}
    assert {name.lower() for name in asked} <= set(facts)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert facts["version"] == project["version"]
    assert facts["hasProcessingProvider"] == "yes"
    assert (qgis.SOURCE / facts["icon"]).is_file()
