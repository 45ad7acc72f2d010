"""Discovery: where images and road labels lie in a folder, if it is clear enough."""

from collections.abc import Sequence
from pathlib import Path

from roadseg.errors import ConfigError, DataError
from roadseg.raster.sources import IMAGE_SUFFIXES
from roadseg.roads.masks.mask_labels import looks_like_mask
from roadseg.system.files import LINE_SUFFIXES, MASK_SUFFIXES
from roadseg.system.text import count

# A file that ends with .json is more often a config than roads.
_IMAGES = (*IMAGE_SUFFIXES, *MASK_SUFFIXES)
# Where several folders hold the same kind of files, one of these names decides.
_USUAL = ("images", "PS-RGB", "roads", "geojson_roads_speed", "labels", "masks")
_OF_A_RUN = "chips.json"  # A folder that holds this file is a run folder.


def discover_images(folder: Path) -> str:
    """Return the folder or file below `folder` that holds images.

    Raises:
        ConfigError: if there is none, or it is not clear which.
    """
    rasters, _ = _rasters(folder)
    return _only(rasters, folder, what="images", option="--images")


def discover_labels(folder: Path) -> str:
    """Return the folder or file below `folder` that holds roads: lines, or else raster masks.

    Raises:
        ConfigError: if there is none, or it is not clear which.
    """
    lines = [
        place for place in _folders(folder) if place != folder and _files(place, LINE_SUFFIXES)
    ]
    lines += _files(folder, LINE_SUFFIXES)
    return _only(lines or _rasters(folder)[1], folder, what="road labels", option="--labels")


def inner_folders(folder: Path) -> list[Path]:
    """Return the folders in a folder that belong to no run."""
    inner = (path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    return sorted(path for path in inner if not (path / _OF_A_RUN).exists())


def _rasters(folder: Path) -> tuple[list[Path], list[Path]]:
    """Return the folders with images, and those with raster masks."""
    rasters = {place: files for place in _folders(folder) if (files := _files(place, _IMAGES))}
    masks = [place for place, files in rasters.items() if _is_mask(files[0])]
    return [place for place in rasters if place not in masks], masks


def _folders(folder: Path) -> list[Path]:
    """Return the folder and those in it that belong to no run."""
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
    """Return the only place, or of several the first whose name is usual.

    Raises:
        ConfigError: if there is none, or several of which none has a usual name.
    """
    usual = [place for name in _USUAL for place in places if place.name == name]
    if len(places) == 1 or usual:
        return str((usual or places)[0])
    if not places:
        raise ConfigError(f"{folder.absolute()}: no {what} found; use {option}")
    names = ", ".join(place.name or "." for place in places)
    raise ConfigError(
        f"{folder.absolute()}: {count(len(places), 'place')} with {what}: {names}; choose with "
        f"{option}"
    )
