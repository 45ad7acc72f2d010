"""init: inspect images and road labels, and write a config that fits them."""

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from roadseg.commands.survey.cities import (
    City,
    discover_images,
    discover_labels,
    given_cities,
)
from roadseg.commands.survey.summary import InitSummary, summarise
from roadseg.commands.survey.values import survey_cities
from roadseg.config import (
    SCHEMA,
    SCHEMA_NAME,
    Config,
    check_config,
    config_schema,
    with_absolute_paths,
)
from roadseg.errors import ConfigError
from roadseg.learn.network.installed_weights import PACKAGES, is_like_starter
from roadseg.learn.options import TrainOptions
from roadseg.system.records import write_json

_log = logging.getLogger(__name__)


def run(
    images: Iterable[str],
    labels: Iterable[str],
    output: Path,
    *,
    settings: Config,
    cities: Iterable[str] = (),
    force: bool = False,
) -> InitSummary:
    """Survey images and labels, and write a config for them to `output`.

    The config refers to its JSON Schema, which is written beside it.

    Args:
        images: files, folders or globs; empty for those in the working folder.
        cities: folders with images and labels, each a set; `NAME=FOLDER` gives the set a name.

    Raises:
        ConfigError: if the config exists, and `force` is not set.
    """
    if output.exists() and not force:
        raise ConfigError(f"{output} already exists; use --force to overwrite it")
    survey = survey_cities(_cities(images, labels, cities), settings)
    folder = output.resolve().parent
    values = survey.values(settings, folder)
    chosen = _without_defaults(values, Config().model_dump(mode="json"))
    write_json(folder / SCHEMA_NAME, config_schema())
    write_json(output, {SCHEMA: f"./{SCHEMA_NAME}", "run": values["run"], **chosen})
    bands = len(next(iter(survey.cities[0].images.scenes.values())).bands)
    weights = _weights(settings.train, bands=bands)
    return summarise(output, survey, values, weights=weights)


def _without_defaults(values: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that differ from the defaults, which later versions may improve.

    Values of a set are kept, because they override those that all sets share.
    """
    chosen: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping) and isinstance(defaults.get(key), Mapping) and key != "sets":
            if inner := _without_defaults(value, defaults[key]):
                chosen[key] = inner
        elif key not in defaults or value != defaults[key]:
            chosen[key] = value
    return chosen


def find_config(
    images: Iterable[str],
    labels: Iterable[str],
    settings: Config,
    cities: Iterable[str] = (),
) -> Config:
    """Return the config that `run` would write, with absolute paths."""
    here = Path.cwd()
    survey = survey_cities(_cities(images, labels, cities), settings)
    return with_absolute_paths(check_config(survey.values(settings, here), here), here)


def _cities(images: Iterable[str], labels: Iterable[str], cities: Iterable[str]) -> list[City]:
    """Return the given images and labels, or those found in the working folder."""
    images, labels, cities = list(images), list(labels), list(cities)
    if cities and (images or labels):
        raise ConfigError(
            "--city cannot be combined with --images and --labels, because its folder contains both"
        )
    if cities:
        return given_cities(cities)
    if images and labels:
        return [City("", images, labels)]
    here = Path()
    city = City("", images or [discover_images(here)], labels or [discover_labels(here)])
    _log.info(
        "found images in %s and road labels in %s", ", ".join(city.images), ", ".join(city.labels)
    )
    return [city]


def _weights(options: TrainOptions, *, bands: int) -> str:
    """Return the encoder of a training, and its first weights, in words."""
    if options.init is not None:
        return f"{options.encoder}, from {options.init}"
    if options.encoder_weights == "auto" and is_like_starter(options, bands=bands):
        return f"{options.encoder}, from the starter"
    if options.encoder_weights not in ("auto", "imagenet"):
        return f"{options.encoder}, {options.encoder_weights or 'random'}"
    package = PACKAGES.get(options.encoder)
    where = package.package if package and package.find() else "to be downloaded once"
    return f"{options.encoder}, ImageNet ({where})"
