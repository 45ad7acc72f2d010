"""Discovery: find images and road labels in a folder, unless this is ambiguous."""

from collections.abc import Sequence
from pathlib import Path

from roadseg.errors import ConfigError, DataError
from roadseg.raster.sources import IMAGE_SUFFIXES
from roadseg.roads.masks.mask_labels import looks_like_mask
from roadseg.system.files import LINE_SUFFIXES, MASK_SUFFIXES
from roadseg.system.text import count

_IMAGES = (*IMAGE_SUFFIXES, *MASK_SUFFIXES)
# If several folders have the same kind of files, the first of these names is chosen.
_USUAL_NAMES = ("images", "PS-RGB", "roads", "geojson_roads_speed", "labels", "masks")
_RUN_MARKER = "chips.json"  # A folder with this file is a run folder.


def discover_images(folder: Path) -> str:
    """Return the folder that has images: `folder` or one in it.

    Raises:
        ConfigError: if there is none, or if it is ambiguous.
    """
    rasters, _ = _rasters(folder)
    return _only(rasters, folder, what="images", option="--images")


def discover_labels(folder: Path) -> str:
    """Return the file or folder in `folder` that has roads: vector files, or else raster masks.

    Raises:
        ConfigError: if there is none, or if it is ambiguous.
    """
    lines = [
        place for place in _folders(folder) if place != folder and _files(place, LINE_SUFFIXES)
    ]
    lines += _files(folder, LINE_SUFFIXES)
    return _only(lines or _rasters(folder)[1], folder, what="road labels", option="--labels")


def inner_folders(folder: Path) -> list[Path]:
    """Return the folders in a folder, except for run folders and hidden ones."""
    inner = (path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    return sorted(path for path in inner if not (path / _RUN_MARKER).exists())


def _rasters(folder: Path) -> tuple[list[Path], list[Path]]:
    """Return the folders with images, and those with raster masks."""
    rasters = {place: files for place in _folders(folder) if (files := _files(place, _IMAGES))}
    masks = [place for place, files in rasters.items() if _is_mask(files[0])]
    return [place for place in rasters if place not in masks], masks


def _folders(folder: Path) -> list[Path]:
    return [folder, *inner_folders(folder)]


def _files(folder: Path, suffixes: tuple[str, ...]) -> list[Path]:
    named = (path for path in folder.iterdir() if path.name.lower().endswith(suffixes))
    return sorted(path for path in named if not path.name.startswith("."))


def _is_mask(path: Path) -> bool:
    try:
        return looks_like_mask(path)
    except DataError:  # The survey reads it as an image, and reports what is wrong with it.
        return False


def _only(places: Sequence[Path], folder: Path, *, what: str, option: str) -> str:
    """Return the only place, or the first with a usual name."""
    usual = [place for name in _USUAL_NAMES for place in places if place.name == name]
    if len(places) == 1 or usual:
        return str((usual or places)[0])
    if not places:
        raise ConfigError(f"{folder.absolute()}: no {what} found; use {option}")
    names = ", ".join(place.name or "." for place in places)
    raise ConfigError(
        f"{folder.absolute()}: {count(len(places), 'place')} with {what}: {names}; choose with "
        f"{option}"
    )
