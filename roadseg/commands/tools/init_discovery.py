"""Guesses: where images and road labels lie in a folder, if it is clear enough."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from roadseg.errors import ConfigError, DataError
from roadseg.raster.sources import IMAGE_SUFFIXES
from roadseg.roads.masks.mask_labels import looks_like_mask
from roadseg.system.files import MASK_SUFFIXES, ROAD_SUFFIXES
from roadseg.system.text import count

_LINES = tuple(suffix for suffix in ROAD_SUFFIXES if suffix != ".json")  # which is often a config
_IMAGES = (*IMAGE_SUFFIXES, *MASK_SUFFIXES)
_USUAL = ("images", "PS-RGB", "roads", "geojson_roads_speed", "labels", "masks")  # among several
_OF_A_RUN = "chips.json"


def guess_images(folder: Path) -> str:
    """Return the folder or file below `folder` that holds images.

    Raises:
        ConfigError: if there is none, or it is not clear which.
    """
    rasters, _ = _rasters(folder)
    return _only(rasters, folder, what="images", option="--images")


def guess_labels(folder: Path) -> str:
    """Return the folder or file below `folder` that holds roads: lines, or else raster masks.

    Raises:
        ConfigError: if there is none, or it is not clear which.
    """
    lines = [place for place in _folders(folder) if place != folder and _files(place, _LINES)]
    lines += _files(folder, _LINES)
    return _only(lines or _rasters(folder)[1], folder, what="road labels", option="--labels")


def _rasters(folder: Path) -> tuple[list[Path], list[Path]]:
    """Return the folders with images, and those with raster masks."""
    places = {place: found for place in _folders(folder) if (found := _files(place, _IMAGES))}
    masks = [place for place, found in places.items() if _is_mask(found[0])]
    return [place for place in places if place not in masks], masks


def _folders(folder: Path) -> list[Path]:
    """Return the folder and those in it that belong to no run."""
    inner = (path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    return [folder, *sorted(path for path in inner if not (path / _OF_A_RUN).exists())]


def _files(folder: Path, suffixes: tuple[str, ...]) -> list[Path]:
    named = (path for path in folder.iterdir() if path.name.lower().endswith(suffixes))
    return sorted(path for path in named if not path.name.startswith("."))


def _is_mask(path: Path) -> bool:
    try:
        return looks_like_mask(path)
    except DataError:  # what is wrong with it is told when it is read as an image
        return False


def _only(places: Sequence[Path], folder: Path, *, what: str, option: str) -> str:
    usual = [place for name in _USUAL for place in places if place.name == name]
    if len(places) == 1 or usual:
        return str((usual or places)[0])
    if not places:
        raise ConfigError(f"{folder.absolute()}: no {what} found here; name them with {option}")
    found = f"{count(len(places), 'place')} with {what}: {_listed(places)}"
    raise ConfigError(f"{folder.absolute()}: {found}; choose with {option}")


def _listed(places: Iterable[Path]) -> str:
    return ", ".join(place.name or "." for place in places)
