"""init: look at images and road labels, and write the config that fits them."""

import json
import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pyproj import CRS

from roadseg.commands.tools.init_defaults import Defaults, choose_defaults
from roadseg.commands.tools.init_discovery import discover_images, discover_labels
from roadseg.commands.tools.init_survey import (
    ImageSurvey,
    LabelSurvey,
    survey_images,
    survey_labels,
)
from roadseg.config import FILE_NAME, Config, check_config, with_absolute_paths
from roadseg.errors import ConfigError
from roadseg.learn.network.weight_packages import PACKAGES
from roadseg.learn.options import TrainOptions
from roadseg.raster.grid import LOCAL_CRS
from roadseg.raster.sources import file_name, image_paths, source_path
from roadseg.system.files import is_virtual, whole
from roadseg.system.text import Summary, count, counted

_log = logging.getLogger(__name__)

_CLASSES = 8  # Masks with more values of roads than this hold no classes of roads.


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

    def __str__(self) -> str:
        """Return a table with a row for each subject."""
        config = "" if self.config == FILE_NAME else f" --config {self.config}"
        rows = {
            "images": self._images(),
            "left out": f"{_few(self.masks)}, as a mask of roads" if self.masks else "",
            "unusable": _few([f"{image}: {why}" for image, why in self.unusable.items()]),
            "no data": self.nodata,
            **(self._line_rows() if self.label_crs else {}),
            "masks": self._values(),
            "matches": self._matches(),
            "split": self._split(),
            "weights": self.weights,
            "wrote": f"{self.config}; next: roadseg run{config}",
        }
        return "\n".join(f"{name:<8}  {text}" for name, text in rows.items() if text)

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
    force: bool = False,
) -> InitSummary:
    """Survey images and labels, and write a config for them to `output`.

    Args:
        images: files, folders or globs; none are looked for in the working folder.
        labels: likewise.
        output: config file to write.
        settings: those that are set are kept.
        force: whether a file that exists is replaced.
    """
    if output.exists() and not force:
        raise ConfigError(f"{output} exists already; --force overwrites it")
    survey = _survey(images, labels, settings)
    folder = output.absolute().parent
    values = survey.values(settings, folder)
    with whole(output) as partial:
        partial.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
    weights = _weights(settings.train)
    return _summary(output, survey.images, survey.labels, survey.defaults, values, weights=weights)


def find_config(images: Iterable[str], labels: Iterable[str], settings: Config) -> Config:
    """Return the config that `run` would write, with absolute paths."""
    here = Path.cwd()
    config = check_config(_survey(images, labels, settings).values(settings, here), here)
    return with_absolute_paths(config, here)


@dataclass(frozen=True)
class _Survey:
    """The images and labels, what they hold, and the settings that fit them."""

    image_patterns: Sequence[str]
    label_paths: Sequence[str]
    images: ImageSurvey
    labels: LabelSurvey
    defaults: Defaults

    def values(self, settings: Config, folder: Path) -> dict[str, Any]:
        """Return the values of a config in a folder; its paths start there if they can."""
        values = settings.model_dump(mode="json") | {"run": _run_folder(settings, folder)}
        for section, chosen in self.defaults.settings.items():
            values[section] |= chosen
        patterns = _image_patterns(list(self.image_patterns), self.images)
        values["imagery"]["images"] = [_short(path, folder) for path in patterns]
        values["labels"]["roads"] = [_short(path, folder) for path in self.label_paths]
        return values


def _survey(images: Iterable[str], labels: Iterable[str], settings: Config) -> _Survey:
    """Survey images and labels; what is empty is looked for in the working folder."""
    images, labels = list(images), list(labels)
    if not (images and labels):
        here = Path()
        images, labels = images or [discover_images(here)], labels or [discover_labels(here)]
        _log.info("images in %s, road labels in %s", ", ".join(images), ", ".join(labels))
    images, labels = [_absolute(text) for text in images], [_absolute(text) for text in labels]
    skip = settings.compute.on_error == "skip"
    image_survey = survey_images(images, settings.imagery, skip=skip)
    label_survey = survey_labels(labels, image_survey.scenes, settings.labels, skip=skip)
    defaults = choose_defaults(image_survey, label_survey, settings)
    return _Survey(images, labels, image_survey, label_survey, defaults)


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
    output: Path,
    images: ImageSurvey,
    labels: LabelSurvey,
    defaults: Defaults,
    values: Mapping[str, Any],
    *,
    weights: str,
) -> InitSummary:
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
        gsd_m=round(float(np.mean(first.grid.pixel_size_m)), 4),
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
        scheme=values["labels"]["scheme"],
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
    )


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
