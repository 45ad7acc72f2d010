"""qgis install: install the QGIS plugin in profiles of QGIS, with the command that it starts."""

import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from roadseg.errors import MissingInputError
from roadseg.qgis_plugin.process import COMMAND_FILE
from roadseg.system.files import atomic_write_folder
from roadseg.system.text import Summary

# The plugin's name in QGIS. Not "roadseg", which would stand in the way of this package where it is
# installed in the Python of QGIS.
PLUGIN = "roadseg_qgis"
SOURCE = COMMAND_FILE.parent

_VERSIONS = ("QGIS3", "QGIS4")  # Names of the folder of profiles.
_FLATPAK = ".var/app/org.qgis.qgis/data"


@dataclass(frozen=True)
class InstallSummary(Summary):
    """The installed plugin.

    Attributes:
        folders: folders of the plugin, one for each QGIS of this user.
        command: command that the plugin starts.
    """

    folders: list[str]
    command: list[str]

    def __str__(self) -> str:
        """Return the folders, and what to do next."""
        return (
            f"the plugin is in {' and '.join(self.folders)}; next: (re)start QGIS, and turn on "
            '"roadseg" in Plugins > Manage and Install Plugins > Installed'
        )


def run(profile: str | None) -> InstallSummary:
    """Install the plugin in a profile of every QGIS of this user; an older one is replaced.

    Args:
        profile: name of the profile; None for `default`, which is created if there is no profile.

    Raises:
        MissingInputError: if no QGIS has this profile.
        OutputError: if the plugin cannot be written.
    """
    found = [root for root in profile_roots(os.environ, Path.home()) if root.is_dir()]
    roots = found or [next(profile_roots(os.environ, Path.home()))]
    name = profile or "default"
    if profile is not None:
        roots = [root for root in roots if (root / name).is_dir()]
    if not roots:
        there = sorted({each.name for root in found for each in root.iterdir() if each.is_dir()})
        raise MissingInputError(
            f"--profile {name}: QGIS has no profile of this name; it has "
            f"{', '.join(there) or 'none yet'}"
        )
    command = [sys.executable, "-m", "roadseg"]
    folders = [root / name / "python" / "plugins" / PLUGIN for root in roots]
    for folder in folders:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write_folder(folder) as partial:
            for file in plugin_files():
                shutil.copyfile(file, partial / file.name)
            (partial / COMMAND_FILE.name).write_text(json.dumps(command), encoding="utf-8")
    return InstallSummary([str(folder) for folder in folders], command)


def plugin_files() -> list[Path]:
    """Return the files of the plugin, which has no folders."""
    return sorted(path for path in SOURCE.iterdir() if path.is_file())


def profile_roots(environment: Mapping[str, str], home: Path) -> Iterator[Path]:
    """Yield the folders in which QGIS may keep its profiles, the usual one first.

    Source: the user profiles of QGIS's manual.
    """
    if own := environment.get("QGIS_CUSTOM_CONFIG_PATH"):
        yield Path(own, "profiles")
        return
    if sys.platform == "win32":
        data = [Path(environment.get("APPDATA", home / "AppData/Roaming"))]
    elif sys.platform == "darwin":
        data = [home / "Library/Application Support"]
    else:
        data = [Path(environment.get("XDG_DATA_HOME") or home / ".local/share"), home / _FLATPAK]
    for folder in data:
        for version in _VERSIONS:
            yield folder / "QGIS" / version / "profiles"
