"""Values of a config for init, from a survey of cities."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roadseg.commands.survey.cities import (
    City,
    SurveyedCity,
    balanced_weights,
    join_surveys,
    settings_of,
)
from roadseg.commands.survey.contents import ImageSurvey, LabelSurvey, survey_images, survey_labels
from roadseg.commands.survey.defaults import (
    Defaults,
    choose_defaults,
    choose_reading,
    count_chips,
)
from roadseg.config import Config
from roadseg.dataset.sets import errors_by_set
from roadseg.raster.inputs import image_paths, source_path
from roadseg.raster.options import box_numbers
from roadseg.system.files import is_virtual


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


def survey_cities(cities: Sequence[City], settings: Config) -> Survey:
    """Survey the images and labels of cities, and choose settings for all."""
    pairs = zip(cities, settings_of(settings, cities), strict=True)
    surveyed = [_survey_city(city, own) for city, own in pairs]
    images, labels = join_surveys(surveyed)
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
    with errors_by_set(city.name and f"imagery.sets.{city.name}."):
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
    if settings.run.absolute() == Path.cwd() / "run" != folder:
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
    if text is None or "://" in text or box_numbers(text) is not None:
        return text
    return path_from(text, folder)


def path_from(path: str, folder: Path) -> str:
    """Return an absolute path for a config in a folder.

    It becomes relative if it is below the folder, or if both are below the working folder, as they
    are then likely to be moved together.
    """
    here = Path.cwd()
    project = here if folder.is_relative_to(here) else folder
    return os.path.relpath(path, folder) if Path(path).is_relative_to(project) else path
