"""init: inspect images and road labels, and write a config that fits them."""

import logging
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pyproj import CRS

from roadseg.commands.survey.cities import (
    City,
    Survey,
    SurveyedCity,
    discover_images,
    discover_labels,
    given_cities,
    survey_cities,
)
from roadseg.commands.survey.contents import ImageSurvey, LabelSurvey
from roadseg.config import (
    FILE_NAME,
    SCHEMA,
    SCHEMA_NAME,
    Config,
    check_config,
    config_schema,
    with_absolute_paths,
)
from roadseg.errors import ConfigError
from roadseg.learn.network.installed_weights import PACKAGE, is_like_starter, packaged_weights
from roadseg.learn.options import TrainOptions
from roadseg.raster.grid import LOCAL_CRS
from roadseg.raster.images import RasterFacts
from roadseg.raster.inputs import file_name
from roadseg.roads.labels.traffic import DEFAULT
from roadseg.roads.speeds import KPH_PER_MPH
from roadseg.system.records import write_json
from roadseg.system.text import Summary, count, first, itemize
from roadseg.system.units import speed_text

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class InitSummary(Summary):
    """The config file that was written, and the images and labels that it is for.

    Attributes:
        scenes: number of images, without masks.
        chips: number of chips at most, with sides of up to `chip_px` pixels.
        rows: what was found and chosen, by subject.
    """

    config: str
    scenes: int
    chips: int
    chip_px: int
    rows: dict[str, str]

    def __str__(self) -> str:
        """Return a table with a row for each subject."""
        width = max(8, *map(len, self.rows))
        return "\n".join(f"{name:<{width}}  {text}" for name, text in self.rows.items())


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
    return _summary(output, survey, values, weights=weights)


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


def _summary(
    output: Path,
    survey: Survey,
    values: Mapping[str, Any],
    *,
    weights: str,
) -> InitSummary:
    """Return what was found and chosen.

    Args:
        values: of the config that was written.
        weights: encoder of the network, and the weights that it starts with.
    """
    images, labels, defaults = survey.images, survey.labels, survey.defaults
    default_kph = values["labels"]["default_speed_mph"] * KPH_PER_MPH
    by_default = f"labels.default_speed_mph ({speed_text(default_kph)})"
    sets = values["imagery"].get("sets", {})
    config = "" if str(output) == FILE_NAME else f" --config {shlex.quote(str(output))}"
    minutes = values["train"]["minutes"]
    widths = _of_cities({each.city.name: each.reading.widths for each in survey.cities})
    rows = {
        "images": _image_text(images),
        **{
            f"set {name}": _set_text(each, sets[name], chips=survey.chips[name])
            for each in survey.cities
            if (name := each.city.name) in sets
        },
        "left out": f"{first(list(map(file_name, images.masks)), 3)}: road masks, not images"
        if images.masks
        else "",
        "unusable": first(
            [f"{file_name(path)}: {why}" for path, why in images.unusable.items()], 3
        ),
        "no data": _of_cities({c.city.name: c.reading.nodata for c in survey.cities}),
        **_line_rows(
            labels, values["labels"], schemes=_schemes(values), widths=widths, usual=by_default
        ),
        "masks": _mask_text(labels, values["labels"], usual=by_default),
        "matches": _match_text(labels.matches),
        "split": _split_text(survey, folds=values["split"]["folds"]),
        "weights": weights,
        "training": "" if minutes is None else f"{minutes:g} min, planned when it begins",
        "predict": "every window in four rotations, which finds roads better (predict.tta)"
        if values["predict"]["tta"]
        else "",
        "wrote": f"{output}; next: roadseg run{config}",
    }
    return InitSummary(
        str(output),
        len(images.scenes),
        defaults.cut.chips,
        defaults.cut.chip_px,
        {name: text for name, text in rows.items() if text},
    )


def _image_text(images: ImageSurvey) -> str:
    scenes = list(images.scenes.values())
    grid, number = scenes[0].grid, len(scenes)
    kinds = Counter(f"{count(len(facts.bands), 'band')} of {facts.dtype}" for facts in scenes)
    named = [f"{each} of {kind}" for kind, each in kinds.items()]
    sizes = {(f.grid.height, f.grid.width, round(_pixel_m(f), 2)) for f in scenes}
    others = "" if len(sizes) == 1 else " and other sizes"
    return (
        f"{number}: {next(iter(kinds)) if len(kinds) == 1 else first(named, 3)}; "
        f"{grid.width} x {grid.height} px of {_pixel_m(scenes[0]):.2f} m{others}; "
        f"{first(sorted({_crs_name(facts.grid.crs) for facts in scenes}), 3)}"
    )


def _set_text(surveyed: SurveyedCity, own: Mapping[str, Any], *, chips: int) -> str:
    """Return what was found in a set; `own` are its values in the config."""
    scenes = list(surveyed.images.scenes.values())
    return (
        f"{count(len(scenes), 'image')}, pixels of {_pixel_m(scenes[0]):.2f} m, "
        f"{count(chips, 'chip')}, weight {own['weight']:g}; images: {first(own['images'], 3)}; "
        f"labels: {first(own['roads'], 3)}"
    )


def _line_rows(
    labels: LabelSurvey, values: Mapping[str, Any], *, schemes: str, widths: str, usual: str
) -> dict[str, str]:
    """Return what was found in vector files; nothing without any."""
    files = list(labels.files.values())
    if not files:
        return {}
    matched = len(set(labels.matches.values()))
    some = f"{labels.read} of " if labels.read < matched else ""
    every, roads = sum(f.features for f in files), sum(len(f.roads.shapes) for f in files)
    features = f" of {every} features" if every > roads else ""
    dropped = sum((file.dropped for file in files), Counter[str]())
    keys = list(Counter(key for file in files for key in file.keys))
    sources = Counter(source for file in files for source in file.roads.speed_source.tolist())
    shown = {
        DEFAULT: usual,
        values["speed_key"]: f"{values['speed_key']}, in {values['speed_unit']} unless it names a "
        "unit (labels.speed_unit)",
    }
    speeds = ", ".join(f"{n} from {shown.get(key, key)}" for key, n in sources.items())
    if keys and set(sources) == {DEFAULT}:
        speeds += (
            "; if one of the keys is the speed: --set labels.scheme=attribute --set "
            "labels.speed_key=KEY --set labels.speed_unit=km/h"
        )
    return {
        "labels": f"{count(roads, 'road')}{features} in {some}{count(matched, 'file')}; "
        f"{first(sorted({_crs_name(file.roads.crs) for file in files}), 3)}"
        + (f"; left out: {itemize(dropped)}" if dropped else "")
        + (f"; without roads: {first(labels.bare, 3)}" if labels.bare else ""),
        "keys": ", ".join(keys) or "none",
        "speeds": f"scheme {schemes}: {speeds}",
        "widths": widths,
    }


def _mask_text(labels: LabelSurvey, values: Mapping[str, Any], *, usual: str) -> str:
    if not labels.mask_values:
        return ""
    found = list(map(str, sorted(labels.mask_values)))
    masks = count(len(set(labels.matches.values())), "raster mask")
    text = f"{masks} with the values {first(found, 8)}"
    if values["mask_speeds_mph"]:
        return f"{text}; speeds from labels.mask_speeds_mph"
    return f"{text}; speed of all roads: {usual} (for a speed per value: labels.mask_speeds_mph)"


def _match_text(matches: Mapping[str, Path]) -> str:
    image, label = next(iter(matches.items()))
    others = len(matches) - 1
    more = f"; {count(others, 'more image')} matched" if others else ""
    return f"{image} uses {file_name(label)}{more}"


def _split_text(survey: Survey, *, folds: int) -> str:
    defaults = survey.defaults
    cut, split = defaults.cut, defaults.split
    size = f" of {cut.block_m:g} m" if split == "by ground blocks" else ""
    return (
        f"{count(cut.chips, 'chip')} of up to {cut.chip_px} px, split into {folds} folds "
        f"{split}{size}"
    )


def _pixel_m(facts: RasterFacts) -> float:
    return round(float(np.mean(facts.grid.pixel_size_m)), 4)


def _of_cities(texts: Mapping[str, str]) -> str:
    """Return what is said of each city, once if it is the same of all."""
    if len(set(texts.values())) == 1:
        return next(iter(texts.values()))
    return "; ".join(f"{name}: {text}" for name, text in texts.items())


def _schemes(values: Mapping[str, Any]) -> str:
    one = values["labels"]["scheme"]
    sets = values["imagery"].get("sets", {}).values()
    found = dict.fromkeys(own.get("labels", {}).get("scheme", one) for own in sets)
    return " and ".join(found) or one


def _crs_name(crs: CRS) -> str:
    """Return the authority's number of a CRS, such as EPSG:32611, or else its name."""
    if crs == LOCAL_CRS:
        return "no georeference"
    authority = crs.to_authority()
    return ":".join(authority) if authority else str(crs.name)


def _weights(options: TrainOptions, *, bands: int) -> str:
    """Return the encoder of a training, and its first weights, in words."""
    if options.init is not None:
        return f"{options.encoder}, from {options.init}"
    if options.encoder_weights == "auto" and is_like_starter(options, bands=bands):
        return f"{options.encoder}, from the starter"
    if options.encoder_weights not in ("auto", "imagenet"):
        return f"{options.encoder}, {options.encoder_weights or 'random'}"
    where = PACKAGE if packaged_weights(options.encoder) else "to be downloaded once"
    return f"{options.encoder}, ImageNet ({where})"
