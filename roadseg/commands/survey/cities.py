"""Cities: images and labels as folders hold them, those of each city a set of one config."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from roadseg.commands.survey.contents import ImageSurvey, LabelSurvey, require_same_bands
from roadseg.commands.survey.defaults import Reading
from roadseg.config import Config
from roadseg.dataset.options import SET_NAMES, is_set_name
from roadseg.dataset.sets import scene_name
from roadseg.errors import ConfigError, DataError
from roadseg.raster.inputs import IMAGE_SUFFIXES
from roadseg.roads.masks.mask_labels import looks_like_mask
from roadseg.system.files import LINE_SUFFIXES, MASK_SUFFIXES
from roadseg.system.text import count

Value = TypeVar("Value")

_IMAGES = (*IMAGE_SUFFIXES, *MASK_SUFFIXES)
# If several folders have the same kind of files, the first of these names is chosen.
_USUAL_NAMES = ("images", "PS-RGB", "roads", "geojson_roads_speed", "labels", "masks")
_RUN_MARKER = "chips.json"  # A folder with this file is a run folder.


@dataclass(frozen=True)
class City:
    """Images and labels of a set.

    Attributes:
        name: name of the set; empty for a single city.
        images: files, folders or globs of images.
        labels: files, folders or globs of labels.
    """

    name: str
    images: list[str]
    labels: list[str]


@dataclass(frozen=True)
class SurveyedCity:
    """A city with the survey of its images and labels, and how they are best read."""

    city: City
    images: ImageSurvey
    labels: LabelSurvey
    reading: Reading


def given_cities(texts: Iterable[str]) -> list[City]:
    """Return the cities that texts such as `FOLDER` or `NAME=FOLDER` name.

    Raises:
        ConfigError: if a folder does not exist or lacks images or labels, or a name occurs twice.
    """
    cities: dict[str, City] = {}
    for text in texts:
        name, equals, place = text.partition("=")
        folder = Path(place if equals else text)
        if not folder.is_dir():
            raise ConfigError(f"--city {text}: no such folder; use FOLDER or NAME=FOLDER")
        name = name if equals else _name_of(folder)
        if not is_set_name(name):
            raise ConfigError(f"--city {text}: {SET_NAMES}, got {name!r:.80}")
        if name in cities:
            raise ConfigError(f"--city {text}: another city has the name {name}; use NAME={folder}")
        cities[name] = City(name, [discover_images(folder)], [discover_labels(folder)])
    return list(cities.values())


def settings_of(settings: Config, cities: Sequence[City]) -> list[Config]:
    """Return the settings with which each city is read.

    Raises:
        ConfigError: if settings are given for a set that is not among the cities.
    """
    names = [city.name for city in cities]
    given = {each.name for each in settings.sets}
    if unknown := sorted(given - {"", *names}):
        known = f"found {', '.join(names)}" if names[0] else "no sets were found; use --city"
        raise ConfigError(f"--set imagery.sets.{unknown[0]}: no such set; {known}")
    return [settings.of_set(name) if name in given else settings for name in names]


def balanced_weights(chips: Mapping[str, int]) -> dict[str, float]:
    """Return weights of sets that fall with the square root of their number of chips.

    So a set with four times as many chips is drawn twice as often in all. The largest set has
    weight 1; weights have two significant digits.

    Args:
        chips: number of chips of each set by name, at least one.
    """
    most = max(chips.values())
    return {name: float(f"{math.sqrt(most / number):.2g}") for name, number in chips.items()}


def join_surveys(cities: Sequence[SurveyedCity]) -> tuple[ImageSurvey, LabelSurvey]:
    """Join the surveys of all cities, with the names that scenes have in a common run.

    Raises:
        DataError: if the numbers of bands differ.
    """
    if len(cities) == 1:
        return cities[0].images, cities[0].labels
    require_same_bands(facts for each in cities for facts in each.images.scenes.values())
    images, labels = [each.images for each in cities], [each.labels for each in cities]
    times = Counter(name for each in images for name in each.scenes)

    def named(values: Sequence[Mapping[str, Value]]) -> dict[str, Value]:
        return {
            scene_name(name, each.city.name, times): value
            for each, city_values in zip(cities, values, strict=True)
            for name, value in city_values.items()
        }

    return ImageSurvey(
        scenes=named([each.scenes for each in images]),
        masks=tuple(path for each in images for path in each.masks),
        unusable={path: why for each in images for path, why in each.unusable.items()},
        collars=named([each.collars for each in images]),
        looked_at=sum(each.looked_at for each in images),
    ), LabelSurvey(
        matches=named([each.matches for each in labels]),
        files={path: file for each in labels for path, file in each.files.items()},
        read=sum(each.read for each in labels),
        mask_values=sum((each.mask_values for each in labels), Counter[int]()),
        bare=tuple(named([dict.fromkeys(each.bare) for each in labels])),
    )


def _name_of(folder: Path) -> str:
    """Turn the name of a folder into a valid name of a set."""
    return re.sub(r"[^\w-]+", "_", folder.absolute().name).strip("_-")[:64] or "city"


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


def _inner_folders(folder: Path) -> list[Path]:
    """Return the folders in a folder, except for run folders and hidden ones."""
    inner = (path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    return sorted(path for path in inner if not (path / _RUN_MARKER).exists())


def _rasters(folder: Path) -> tuple[list[Path], list[Path]]:
    """Return the folders with images, and those with raster masks."""
    rasters = {place: files for place in _folders(folder) if (files := _files(place, _IMAGES))}
    masks = [place for place, files in rasters.items() if _is_mask(files[0])]
    return [place for place in rasters if place not in masks], masks


def _folders(folder: Path) -> list[Path]:
    return [folder, *_inner_folders(folder)]


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
        raise ConfigError(
            f"{folder.absolute()}: no {what} found in it or its subfolders; use {option}, or "
            "--city with a folder that has both images and road labels"
        )
    names = ", ".join(place.name or "." for place in places)
    raise ConfigError(
        f"{folder.absolute()}: {count(len(places), 'place')} with {what}: {names}; choose with "
        f"{option}"
    )
