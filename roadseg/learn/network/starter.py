"""The starter: a network that comes with roadseg and was trained on synthetic cities only."""

from importlib.resources import files
from pathlib import Path

NAME = "starter"  # What commands take for its folder, and the `model` of its roads.


def starter_folder() -> Path:
    """Return the checkpoint folder of the starter."""
    return Path(str(files("roadseg"))) / NAME


def checkpoint_folder(path: Path) -> Path:
    """Return a checkpoint folder; `starter` always means that of roadseg, not one of that name."""
    return starter_folder() if str(path) == NAME else path
