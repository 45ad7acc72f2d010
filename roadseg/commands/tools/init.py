"""init: look at images and road labels, and write the config that fits them."""

import importlib
import json
import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pyproj import CRS

from roadseg.commands.tools.init_defaults import (
    Defaults,
    Reading,
    choose_defaults,
    choose_reading,
    count_chips,
    shared_reading,
)
from roadseg.commands.tools.init_discovery import discover_images, discover_labels
from roadseg.commands.tools.init_sets import (
    City,
    SurveyedCity,
    balanced_weights,
    found_cities,
    given_cities,
    join_surveys,
    settings_of,
)
from roadseg.commands.tools.init_survey import (
    ImageSurvey,
    LabelSurvey,
    survey_images,
    survey_labels,
)
from roadseg.config import FILE_NAME, Config, check_config, with_absolute_paths
from roadseg.dataset.sets import told_by_set
from roadseg.errors import ConfigError
from roadseg.learn.network.weight_packages import PACKAGES
from roadseg.learn.options import TrainOptions
from roadseg.raster.grid import LOCAL_CRS
from roadseg.raster.images import RasterFacts
from roadseg.raster.sources import file_name, image_paths, source_path
from roadseg.system.files import is_virtual, whole
from roadseg.system.text import Summary, count, counted

if TYPE_CHECKING:
    from roadseg.commands.tools.init_training import TrainingPlan

_log = logging.getLogger(__name__)

_CLASSES = 8  # Masks with more values of roads than this hold no classes of roads.


@dataclass(frozen=True)
class SetFindings:
    """Findings of a set of scenes.

    Attributes:
        scenes: number of its images.
        chips: cut from them.
        weight: how often each is drawn in training, beside those of other sets.
        gsd_m: mean ground size of the pixels of the first.
        images: folders, files or globs.
        labels: likewise.
    """

    scenes: int
    chips: int
    weight: float
    gsd_m: float
    images: list[str]
    labels: list[str]

    def __str__(self) -> str:
        """Return them in a line."""
        return (
            f"{count(self.scenes, 'image')} of {self.gsd_m:.2f} m in {count(self.chips, 'chip')}, "
            f"weight {self.weight:g}; {_few(self.images)} with {_few(self.labels)}"
        )


@dataclass(frozen=True)
class InitSummary(Summary):
    """Findings in images and labels, and the config file that was written.

    Attributes:
        config: the file.
        scenes: number of images, without masks.
        kinds: number of images by bands and type of pixels.
        size_px: rows and columns of the first.
        gsd_m: mean ground size of its pixels.
        image_crs: coordinate systems of the images.
        masks: masks of roads that were found among the images and left out.
        unusable: images that cannot be used, and why.
        nodata: which pixels hold no data.
        places: number of places that the images show.
        label_files: files with labels of these images.
        label_files_read: number of those that were read; the labels below are theirs.
        label_crs: their coordinate systems.
        label_keys: their attributes, with the number of files that have them.
        labels: number of features in them.
        roads: number of roads in them.
        dropped: labels left out, by reason.
        mask_values: values of raster masks, with the number of masks that have them.
        matches: file name of each scene's labels.
        bare: scenes on which no road lies.
        mask_speeds_mph: speed of each of these values, if given.
        scheme: what the attributes mean.
        default_mph: speed of roads whose attributes say nothing of it.
        speed_sources: roads by the key that gave their speed.
        widths: where the widths of roads come from.
        folds: number of parts for training and testing.
        split: which chips share a fold, in words.
        chip_px: longest side of a chip.
        chips: number of chips at most.
        block_m: side of the blocks of ground.
        weights: encoder of the network, and the weights that it starts with.
        sets: findings of each set of scenes by its name; empty if all are one.
        training: the plan for `train.minutes`, by row; empty if that is not set.
    """

    config: str
    scenes: int
    kinds: dict[str, int]
    size_px: tuple[int, int]
    gsd_m: float
    image_crs: list[str]
    masks: list[str]
    unusable: dict[str, str]
    nodata: str
    places: int
    label_files: int
    label_files_read: int
    label_crs: list[str]
    label_keys: dict[str, int]
    labels: int
    roads: int
    dropped: dict[str, int]
    mask_values: dict[str, int]
    matches: dict[str, str]
    bare: list[str]
    mask_speeds_mph: dict[str, float]
    scheme: str
    default_mph: float
    speed_sources: dict[str, int]
    widths: str
    folds: int
    split: str
    chip_px: int
    chips: int
    block_m: float
    weights: str
    sets: dict[str, SetFindings] = field(default_factory=dict)
    training: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return a table with a row for each subject."""
        config = "" if self.config == FILE_NAME else f" --config {self.config}"
        rows = {
            "images": self._images(),
            **{f"set {name}": str(findings) for name, findings in self.sets.items()},
            "left out": f"{_few(self.masks)}, as a mask of roads" if self.masks else "",
            "unusable": _few([f"{image}: {why}" for image, why in self.unusable.items()]),
            "no data": self.nodata,
            **(self._line_rows() if self.label_crs else {}),
            "masks": self._values(),
            "matches": self._matches(),
            "split": self._split(),
            "weights": self.weights,
            **self.training,
            "wrote": f"{self.config}; next: roadseg run{config}",
        }
        width = max(8, *map(len, rows))
        return "\n".join(f"{name:<{width}}  {text}" for name, text in rows.items() if text)

    def _images(self) -> str:
        height, width = self.size_px
        kinds = _few([f"{number} with {kind}" for kind, number in self.kinds.items()])
        several = f" of {self.places} places" if self.places < self.scenes else ""
        return (
            f"{kinds}{several}; {width} x {height} px of {self.gsd_m:.2f} m"
            + (" and others" if self.scenes > 1 else "")
            + f"; {_few(self.image_crs)}"
        )

    def _line_rows(self) -> dict[str, str]:
        files = count(self.label_files, "file")
        some = f"{self.label_files_read} of " if self.label_files_read < self.label_files else ""
        by_default = {"default": self._by_default()}
        sources = ", ".join(
            f"{number} by {by_default.get(key, key)}" for key, number in self.speed_sources.items()
        )
        return {
            "labels": f"{self.labels} with {self.roads} roads in {some}{files}; "
            f"{_few(self.label_crs)}"
            + (f"; left out: {counted(self.dropped)}" if self.dropped else "")
            + (f"; no road on {_few(self.bare)}" if self.bare else ""),
            "keys": ", ".join(self.label_keys) or "none",
            "speeds": f"scheme {self.scheme}: {sources}",
            "widths": self.widths,
        }

    def _values(self) -> str:
        if not self.mask_values:
            return ""
        text = f"{self.label_files} raster masks with the values {_few(list(self.mask_values), 8)}"
        if self.mask_speeds_mph:
            return f"{text}; speeds by labels.mask_speeds_mph"
        text += f"; speed of all by {self._by_default()}"
        # Few values are probably classes of roads, so that each may have a speed of its own.
        roads = [value for value in self.mask_values if value != "0"]
        if not 1 < len(roads) <= _CLASSES:
            return text
        own = ", ".join(f'"{value}": {self.default_mph:g}' for value in roads)
        return f"{text}, or each its own with --set 'labels.mask_speeds_mph={{{own}}}'"

    def _by_default(self) -> str:
        return f"labels.default_speed_mph ({self.default_mph:g} mph)"

    def _split(self) -> str:
        size = f" of {self.block_m:g} m" if self.split == "by blocks of ground" else ""
        return (
            f"{self.chips} chips of at most {self.chip_px} px into {self.folds} folds "
            f"{self.split}{size}"
            + ("; images of one place share a fold" if self.places < self.scenes else "")
        )

    def _matches(self) -> str:
        image, label = next(iter(self.matches.items()))
        more = f", and {len(self.matches) - 1} more" if len(self.matches) > 1 else ""
        return f"{image} has its roads in {label}{more}"


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

    Args:
        images: files, folders or globs; none are looked for in the working folder.
        labels: likewise.
        output: config file to write.
        settings: those that are set are kept.
        cities: folders with images and labels, each a set; `NAME=FOLDER` names the set otherwise.
        force: whether a file that exists is replaced.
    """
    if output.exists() and not force:
        raise ConfigError(f"{output} exists already; --force overwrites it")
    survey = _survey(_cities(images, labels, cities), settings)
    folder = output.absolute().parent
    values = survey.values(settings, folder)
    rows: dict[str, str] = {}
    if settings.train.minutes is not None:
        planned = _plan_training(survey, with_absolute_paths(check_config(values, output), folder))
        values["train"] |= planned.settings
        rows = planned.rows
    with whole(output) as partial:
        partial.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
    weights = _weights(settings.train)
    return replace(_summary(output, survey, values, weights=weights), training=rows)


def find_config(
    images: Iterable[str],
    labels: Iterable[str],
    settings: Config,
    cities: Iterable[str] = (),
) -> Config:
    """Return the config that `run` would write, with absolute paths."""
    here = Path.cwd()
    survey = _survey(_cities(images, labels, cities), settings)
    return with_absolute_paths(check_config(survey.values(settings, here), here), here)


@dataclass(frozen=True)
class _Survey:
    """The images and labels, what they hold, and the settings that fit them.

    Attributes:
        cities: sets of their own, or a single one without a name.
        readings: how each of them is read, by name.
        images: what the images of all hold.
        labels: what the labels of all hold.
        defaults: settings that fit them.
        chips: of each city by name.
    """

    cities: Sequence[SurveyedCity]
    readings: Mapping[str, Reading]
    images: ImageSurvey
    labels: LabelSurvey
    defaults: Defaults
    chips: Mapping[str, int]

    def values(self, settings: Config, folder: Path) -> dict[str, Any]:
        """Return the values of a config in a folder; its paths start there if they can."""
        values = settings.model_dump(mode="json") | {"run": _run_folder(settings, folder)}
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
        """Return the values of a set: what is given for it, and what is not that of all."""
        name, reading = surveyed.city.name, self.readings[surveyed.city.name]
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


def _plan_training(survey: _Survey, config: Config) -> "TrainingPlan":
    """Plan the training; torch, which takes seconds to load, is loaded for that only."""
    weights = {of.name: of.weight for of in config.sets}
    scenes = [
        (facts, weights[each.city.name])
        for each in survey.cities
        for facts in each.images.scenes.values()
    ]
    plan_training = importlib.import_module("roadseg.commands.tools.init_training").plan_training
    planned: TrainingPlan = plan_training(scenes, config)
    return planned


def _cities(images: Iterable[str], labels: Iterable[str], cities: Iterable[str]) -> list[City]:
    """Return the images and labels that are given, or are found in the working folder.

    Raises:
        ConfigError: if it is not clear which they are.
    """
    images, labels, cities = list(images), list(labels), list(cities)
    if cities and (images or labels):
        raise ConfigError(
            "--city names a folder with both images and labels; leave out --images and --labels"
        )
    if cities:
        return given_cities(cities)
    if images and labels:
        return [City("", images, labels)]
    here = Path()
    try:
        city = City("", images or [discover_images(here)], labels or [discover_labels(here)])
    except ConfigError:
        found = [] if images or labels else found_cities(here)
        if not found:
            raise
        if found[0].name:
            _log.info("images and road labels of %s", ", ".join(city.name for city in found))
            return found
        (city,) = found
    _log.info("images in %s, road labels in %s", ", ".join(city.images), ", ".join(city.labels))
    return [city]


def _survey(cities: Sequence[City], settings: Config) -> _Survey:
    """Survey the images and labels of cities, and choose settings for all."""
    pairs = zip(cities, settings_of(settings, cities), strict=True)
    surveyed = [_survey_city(city, own) for city, own in pairs]
    images, labels = join_surveys(surveyed)
    readings = {
        each.city.name: choose_reading(each.images, each.labels, each.settings) for each in surveyed
    }
    defaults = choose_defaults(images, labels, settings, reading=shared_reading(readings))
    chips = {
        each.city.name: count_chips(each.images.scenes, chip_px=defaults.cut.chip_px)
        for each in surveyed
    }
    return _Survey(surveyed, readings, images, labels, defaults, chips)


def _survey_city(city: City, settings: Config) -> SurveyedCity:
    """Survey images and labels that are alike."""
    given = settings if city.name else Config()  # Paths of a set may be set as well.
    city = City(
        city.name,
        [_absolute(text) for text in given.imagery.images or city.images],
        [_absolute(text) for text in given.labels.roads or city.labels],
    )
    skip = settings.compute.on_error == "skip"
    with told_by_set(city.name and f"imagery.sets.{city.name}."):
        images = survey_images(city.images, settings.imagery, skip=skip)
        labels = survey_labels(city.labels, images.scenes, settings.labels, skip=skip)
    return SurveyedCity(city, images, labels, settings)


def _paths(surveyed: SurveyedCity, folder: Path) -> tuple[list[str], list[str]]:
    """Return images and labels as a config in a folder names them."""
    images = _image_patterns(surveyed.city.images, surveyed.images)
    return (
        [_short(path, folder) for path in images],
        [_short(path, folder) for path in surveyed.city.labels],
    )


def _absolute(text: str) -> str:
    """Return a path or glob as an absolute one; addresses of the network stay."""
    return text if "://" in text else str(source_path(text).absolute())


def _run_folder(settings: Config, folder: Path) -> str:
    """Return the run folder that the config names; ./run is the default, beside the config."""
    if settings.run in {Path("run"), Path.cwd() / "run"}:
        return "run"
    return _short(str(settings.run.absolute()), folder)


def _image_patterns(images: list[str], survey: ImageSurvey) -> list[str]:
    """Return the images without the masks among them: as globs if these fit, else as files."""
    if not survey.masks:
        return images
    kept = [*(facts.path for facts in survey.scenes.values()), *survey.unusable]
    # Globs are short, and they take images that are added later; files name no image too many.
    globs = sorted({f"{path.parent}/*{path.suffix}" for path in kept})
    is_on_disk = not any(is_virtual(path) for path in kept)
    if is_on_disk and len(globs) < len(kept) and set(image_paths(globs)) == set(kept):
        return globs
    return sorted(map(str, kept))


def _short(path: str, folder: Path) -> str:
    """Return a path as a config in a folder has it: relative if it lies below the folder."""
    return str(Path(path).relative_to(folder)) if Path(path).is_relative_to(folder) else path


def _summary(
    output: Path, survey: _Survey, values: Mapping[str, Any], *, weights: str
) -> InitSummary:
    images, labels, defaults = survey.images, survey.labels, survey.defaults
    scenes = images.scenes
    first = next(iter(scenes.values()))
    files = list(labels.files.values())
    cut = defaults.cut
    return InitSummary(
        config=str(output),
        scenes=len(scenes),
        kinds=dict(
            Counter(
                f"{count(len(facts.bands), 'band')} of {facts.dtype}" for facts in scenes.values()
            )
        ),
        size_px=(first.grid.height, first.grid.width),
        gsd_m=_pixel_m(first),
        image_crs=sorted({_crs_name(facts.grid.crs) for facts in scenes.values()}),
        masks=[file_name(path) for path in images.masks],
        unusable={file_name(path): why for path, why in images.unusable.items()},
        nodata=defaults.nodata,
        places=defaults.places,
        label_files=len(set(labels.matches.values())),
        label_files_read=labels.read,
        label_crs=sorted({_crs_name(file.roads.crs) for file in files}),
        label_keys=dict(Counter(key for file in files for key in file.keys)),
        labels=sum(file.features for file in files),
        roads=sum(len(file.roads.shapes) for file in files),
        dropped=dict(sum((file.dropped for file in files), Counter[str]())),
        mask_values={str(value): n for value, n in sorted(labels.mask_values.items())},
        matches={name: file_name(path) for name, path in labels.matches.items()},
        bare=list(labels.bare),
        mask_speeds_mph={str(k): v for k, v in (values["labels"]["mask_speeds_mph"] or {}).items()},
        scheme=_schemes(values),
        default_mph=values["labels"]["default_speed_mph"],
        speed_sources=dict(
            Counter(source for file in files for source in file.roads.speed_source.tolist())
        ),
        widths=defaults.widths,
        folds=values["split"]["folds"],
        split=defaults.split,
        chip_px=cut.chip_px,
        chips=cut.chips,
        block_m=cut.block_m,
        weights=weights,
        sets={
            each.city.name: SetFindings(
                scenes=len(each.images.scenes),
                chips=survey.chips[each.city.name],
                weight=own["weight"],
                gsd_m=_pixel_m(next(iter(each.images.scenes.values()))),
                images=own["images"],
                labels=own["roads"],
            )
            for each in survey.cities
            if (own := values["imagery"].get("sets", {}).get(each.city.name))
        },
    )


def _pixel_m(facts: RasterFacts) -> float:
    return round(float(np.mean(facts.grid.pixel_size_m)), 4)


def _schemes(values: Mapping[str, Any]) -> str:
    """Return the schemes of all labels."""
    one = values["labels"]["scheme"]
    sets = values["imagery"].get("sets", {}).values()
    found = dict.fromkeys(own.get("labels", {}).get("scheme", one) for own in sets)
    return " and ".join(found) or one


def _weights(options: TrainOptions) -> str:
    """Return which encoder a training will have, and with which weights it starts."""
    if options.init is not None:
        return f"{options.encoder}, of {options.init}"
    if options.encoder_weights not in ("auto", "imagenet"):
        return f"{options.encoder}, {options.encoder_weights or 'random'}"
    package = PACKAGES.get(options.encoder)
    where = package.package if package and package.find() else "downloaded once"
    return f"{options.encoder}, ImageNet ({where})"


def _crs_name(crs: CRS) -> str:
    """Return the authority's number of a CRS, such as EPSG:32611, or else its name."""
    if crs == LOCAL_CRS:
        return "no georeference"
    authority = crs.to_authority()
    return ":".join(authority) if authority else str(crs.name)


def _few(names: Sequence[str], shown: int = 3) -> str:
    """Return the first names, and how many there are if some are left out."""
    more = f", {len(names)} in all" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more
