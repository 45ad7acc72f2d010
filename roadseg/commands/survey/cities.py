"""Cities: find images and labels in folders, survey them, and fit a config to them.

Each of several cities is a set of the config.
"""

import math
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from roadseg.commands.survey.contents import (
    ImageSurvey,
    LabelSurvey,
    survey_images,
    survey_labels,
)
from roadseg.commands.survey.defaults import (
    Defaults,
    Reading,
    choose_defaults,
    choose_reading,
    count_chips,
)
from roadseg.config import Config
from roadseg.dataset.options import SET_NAMES, is_set_name
from roadseg.dataset.sets import scene_name
from roadseg.errors import ConfigError, DataError
from roadseg.raster.images import require_equal_bands
from roadseg.raster.inputs import IMAGE_SUFFIXES, image_paths, source_path
from roadseg.raster.options import box_numbers
from roadseg.roads.masks.mask_labels import looks_like_mask
from roadseg.system.files import LINE_SUFFIXES, MASK_SUFFIXES, is_virtual
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


@dataclass(frozen=True)
class Survey:
    """The survey of all cities, and the settings that fit them.

    Attributes:
        cities: cities that become sets, or a single one without a name.
        chips: number of chips of each city by name.
    """

    cities: Sequence[SurveyedCity]
    images: ImageSurvey
    labels: LabelSurvey
    defaults: Defaults
    chips: Mapping[str, int]

    def values(self, settings: Config, folder: Path) -> dict[str, Any]:
        """Return the values of a config in a folder; paths are relative to it, see `path_from`."""
        values = settings.model_dump(mode="json") | {"run": _run_folder(settings, folder)}
        values["imagery"]["area"] = area_from(settings.imagery.area, folder)
        for section, chosen in self.defaults.settings.items():
            values[section] |= chosen
        values["imagery"].pop("sets")
        first = self.cities[0]
        if first.city.name:
            weights = balanced_weights(self.chips)
            values["imagery"]["sets"] = {
                each.city.name: self._set_values(
                    each, settings, values, folder, weight=weights[each.city.name]
                )
                for each in self.cities
            }
        else:
            values["imagery"]["images"], values["labels"]["roads"] = _paths(first, folder)
        return values

    def _set_values(
        self,
        surveyed: SurveyedCity,
        settings: Config,
        values: Mapping[str, Any],
        folder: Path,
        *,
        weight: float,
    ) -> dict[str, Any]:
        """Return the values of a set: those given for it, and those that differ from the run."""
        name, reading = surveyed.city.name, surveyed.reading
        own = settings.imagery.sets.get(name)
        given = own.model_dump(mode="json", exclude_unset=True) if own else {}
        given = {key: value for key, value in given.items() if key not in ("images", "roads")}
        imagery, labels = (
            {key: value for key, value in chosen.items() if value != values[section][key]}
            for section, chosen in (("imagery", reading.imagery), ("labels", reading.labels))
        )
        images, roads = _paths(surveyed, folder)
        labels |= given.pop("labels", {})
        chosen: dict[str, Any] = {"images": images, "roads": roads, "weight": weight}
        return chosen | imagery | given | ({"labels": labels} if labels else {})


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


def _join_surveys(cities: Sequence[SurveyedCity]) -> tuple[ImageSurvey, LabelSurvey]:
    """Join the surveys of all cities, with the names that scenes have in a common run.

    Raises:
        DataError: if the numbers of bands differ.
    """
    if len(cities) == 1:
        return cities[0].images, cities[0].labels
    found = [facts for each in cities for facts in each.images.scenes.values()]
    require_equal_bands({facts.path: (len(facts.bands), facts.dtype) for facts in found})
    images, labels = [each.images for each in cities], [each.labels for each in cities]
    times = Counter(name.casefold() for each in images for name in each.scenes)

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


def _rasters(folder: Path) -> tuple[list[Path], list[Path]]:
    """Return the folders with images, and those with raster masks."""
    rasters = {place: files for place in _folders(folder) if (files := _files(place, _IMAGES))}
    masks = [place for place, files in rasters.items() if _is_mask(files[0])]
    return [place for place in rasters if place not in masks], masks


def _folders(folder: Path) -> list[Path]:
    """Return a folder, and those in it, except for run folders and hidden ones."""
    inner = (path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    return [folder, *sorted(path for path in inner if not (path / _RUN_MARKER).exists())]


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


def survey_cities(cities: Sequence[City], settings: Config) -> Survey:
    """Survey the images and labels of cities, and choose settings for all."""
    pairs = zip(cities, settings_of(settings, cities), strict=True)
    surveyed = [_survey_city(city, own) for city, own in pairs]
    images, labels = _join_surveys(surveyed)
    readings = [each.reading for each in surveyed]
    defaults = choose_defaults(images, labels, settings, readings=readings)
    chips = {
        each.city.name: count_chips(each.images.scenes, chip_px=defaults.cut.chip_px)
        for each in surveyed
    }
    return Survey(surveyed, images, labels, defaults, chips)


def _survey_city(city: City, settings: Config) -> SurveyedCity:
    given = settings if city.name else Config()  # Paths of a set may be set as well.
    city = City(
        city.name,
        [_absolute(text) for text in given.imagery.images or city.images],
        [_absolute(text) for text in given.labels.roads or city.labels],
    )
    skip = settings.compute.on_error == "skip"
    images = survey_images(city.images, settings.imagery, skip=skip)
    labels = survey_labels(city.labels, images.scenes, settings.labels, skip=skip)
    return SurveyedCity(city, images, labels, choose_reading(images, labels, settings))


def _paths(surveyed: SurveyedCity, folder: Path) -> tuple[list[str], list[str]]:
    """Return the paths of images and labels for a config in a folder."""
    images = _image_patterns(surveyed.city.images, surveyed.images)
    return (
        [path_from(path, folder) for path in images],
        [path_from(path, folder) for path in surveyed.city.labels],
    )


def _absolute(text: str) -> str:
    """Return a path or glob as an absolute one; addresses of the network stay."""
    return text if "://" in text else str(source_path(text).absolute())


def _run_folder(settings: Config, folder: Path) -> str:
    """Return the run folder that the config names; ./run is the default, beside the config."""
    is_default = settings.run.absolute() == Path.cwd() / "run"
    if is_default and folder != Path.cwd() / "run":
        return "run"
    return path_from(str(settings.run.absolute()), folder)


def _image_patterns(images: list[str], survey: ImageSurvey) -> list[str]:
    """Return the images except for masks: as globs if these match exactly, else as files."""
    if not survey.masks:
        return images
    kept = [*(facts.path for facts in survey.scenes.values()), *survey.unusable]
    # Globs are shorter and match images that are added later.
    globs = sorted({f"{path.parent}/*{path.suffix}" for path in kept})
    is_on_disk = not any(is_virtual(path) for path in kept)
    if is_on_disk and len(globs) < len(kept) and set(image_paths(globs)) == set(kept):
        return globs
    return sorted(map(str, kept))


def area_from(text: str | None, folder: Path) -> str | None:
    """Return an area to work in for a config in a folder: a box, or the path of its file."""
    return text if text is None or box_numbers(text) is not None else path_from(text, folder)


def path_from(path: str, folder: Path) -> str:
    """Return an absolute path for a config in a folder.

    It becomes relative if it is below the folder, or if both are below the working folder, as they
    are then likely to be moved together.
    """
    here = Path.cwd()
    project = here if folder.is_relative_to(here) else folder
    if not Path(path).is_relative_to(project):
        return path
    return Path(os.path.relpath(path, folder)).as_posix()
