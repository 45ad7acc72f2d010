"""Summary of init: what was found in images and labels, and what was chosen for them."""

import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from pyproj import CRS

from roadseg.commands.survey.values import Survey
from roadseg.config import FILE_NAME
from roadseg.raster.grid import LOCAL_CRS
from roadseg.raster.images import RasterFacts
from roadseg.raster.sources import file_name
from roadseg.roads.speeds import KPH_PER_MPH
from roadseg.system.text import Summary, count, counted
from roadseg.system.units import speed_text

# Names of attributes that look like a speed or a width.
_SPEED = re.compile(r"speed|limit|kph|km/?h|mph|vmax|geschw|tempo|vitesse|veloc", re.IGNORECASE)
_WIDTH = re.compile(r"width|breite|largeur|ancho|larghezza", re.IGNORECASE)
_CLASSES = 8  # Masks with more values of roads than this hold no classes of roads.


@dataclass(frozen=True)
class SetFindings:
    """Findings of a set of scenes.

    Attributes:
        chips: cut from its images.
        weight: how often each is drawn in training, relative to other sets.
        gsd_m: mean ground size of the pixels of the first.
    """

    scenes: int
    chips: int
    weight: float
    gsd_m: float
    images: list[str]
    labels: list[str]

    def __str__(self) -> str:
        """Return the findings as a line."""
        return (
            f"{count(self.scenes, 'image')}, pixels of {self.gsd_m:.2f} m, "
            f"{count(self.chips, 'chip')}, weight {self.weight:g}; images: {_few(self.images)}; "
            f"labels: {_few(self.labels)}"
        )


@dataclass(frozen=True)
class InitSummary(Summary):
    """Findings in images and labels, and the config file that was written.

    Attributes:
        scenes: number of images, without masks.
        kinds: number of images by bands and type of pixels.
        size_px: rows and columns of the first.
        gsd_m: mean ground size of its pixels.
        is_one_size: whether all images have this size and pixel size.
        image_crs: coordinate systems of the images.
        masks: masks of roads that were found among the images and left out.
        unusable: images that cannot be used, and why.
        nodata: which pixels have no data.
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
    is_one_size: bool
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
        dry_run = "" if self.training else " (--dry-run shows how long it takes)"
        rows = {
            "images": self._images(),
            **{f"set {name}": str(findings) for name, findings in self.sets.items()},
            "left out": f"{_few(self.masks)}: road masks, not images" if self.masks else "",
            "unusable": _few([f"{image}: {why}" for image, why in self.unusable.items()]),
            "no data": self.nodata,
            **(self._line_rows() if self.label_crs else {}),
            "masks": self._mask_text(),
            "matches": self._matches(),
            "split": self._split(),
            "weights": self.weights,
            **self.training,
            "wrote": f"{self.config}; next: roadseg run{config}{dry_run}",
        }
        width = max(8, *map(len, rows))
        return "\n".join(f"{name:<{width}}  {text}" for name, text in rows.items() if text)

    def _images(self) -> str:
        height, width = self.size_px
        several = f" of {count(self.places, 'place')}" if self.places < self.scenes else ""
        kinds = _few([f"{number} of {kind}" for kind, number in self.kinds.items()])
        if len(self.kinds) == 1:
            kinds = next(iter(self.kinds))
        others = "" if self.is_one_size else " and other sizes"
        return (
            f"{self.scenes}{several}: {kinds}; {width} x {height} px of {self.gsd_m:.2f} m"
            f"{others}; {_few(self.image_crs)}"
        )

    def _line_rows(self) -> dict[str, str]:
        files = count(self.label_files, "file")
        some = f"{self.label_files_read} of " if self.label_files_read < self.label_files else ""
        features = f" of {self.labels} features" if self.labels > self.roads else ""
        by_default = {"default": self._by_default()}
        sources = ", ".join(
            f"{number} from {by_default.get(key, key)}"
            for key, number in self.speed_sources.items()
        )
        return {
            "labels": f"{count(self.roads, 'road')}{features} in {some}{files}; "
            f"{_few(self.label_crs)}"
            + (f"; left out: {counted(self.dropped)}" if self.dropped else "")
            + (f"; without roads: {_few(self.bare)}" if self.bare else ""),
            "keys": ", ".join(self.label_keys) or "none",
            "speeds": f"scheme {self.scheme}: {sources}{self._unused_speed()}",
            "widths": f"{self.widths}{self._unused_width()}",
        }

    def _unused_speed(self) -> str:
        """Suggest an attribute that looks like a speed, if no road has a speed so far."""
        key = next(filter(_SPEED.search, self.label_keys), None)
        if key is None or set(self.speed_sources) != {"default"}:
            return ""
        unit, other = ("km/h", "mph") if "k" in key.lower() else ("mph", "km/h")
        settings = {"scheme": "attribute", "speed_key": key, "speed_unit": unit}
        return f"; to use {key}: {_as_options(settings)} (or {other})"

    def _unused_width(self) -> str:
        """Suggest an attribute that looks like a width, if all roads have the same width."""
        key = next(filter(_WIDTH.search, self.label_keys), None)
        if key is None or "labels.buffer_m" not in self.widths:
            return ""
        return f"; to use {key}: {_as_options({'width': 'attribute', 'width_key': key})}"

    def _mask_text(self) -> str:
        if not self.mask_values:
            return ""
        masks = count(self.label_files, "raster mask")
        text = f"{masks} with the values {_few(list(self.mask_values), 8)}"
        if self.mask_speeds_mph:
            return f"{text}; speeds from labels.mask_speeds_mph"
        text += f"; speed of all roads: {self._by_default()}"
        # A few values are probably classes of roads with speeds of their own.
        roads = [value for value in self.mask_values if value != "0"]
        if not 1 < len(roads) <= _CLASSES:
            return text
        own = ", ".join(f'"{value}": {self.default_mph:g}' for value in roads)
        return f"{text}; for a speed per value, use --set 'labels.mask_speeds_mph={{{own}}}'"

    def _by_default(self) -> str:
        return f"labels.default_speed_mph ({speed_text(self.default_mph * KPH_PER_MPH)})"

    def _split(self) -> str:
        size = f" of {self.block_m:g} m" if self.split == "by ground blocks" else ""
        return (
            f"{count(self.chips, 'chip')} of up to {self.chip_px} px, split into {self.folds} "
            f"folds {self.split}{size}"
            + ("; images of one place share a fold" if self.places < self.scenes else "")
        )

    def _matches(self) -> str:
        image, label = next(iter(self.matches.items()))
        more = (
            f"; {count(len(self.matches) - 1, 'more image')} matched"
            if len(self.matches) > 1
            else ""
        )
        return f"{image} uses {label}{more}"


def _as_options(settings: Mapping[str, str]) -> str:
    """Return settings of the section labels as options of the command line."""
    return " ".join(f"--set {shlex.quote(f'labels.{k}={v}')}" for k, v in settings.items())


def summarise(
    output: Path,
    survey: Survey,
    values: Mapping[str, Any],
    *,
    weights: str,
    training: Mapping[str, str],
) -> InitSummary:
    """Return what was found and chosen.

    Args:
        weights: encoder of the network, and the weights that it starts with.
        training: the plan of the training, by row.
    """
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
        is_one_size=len({_size(facts) for facts in scenes.values()}) == 1,
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
        training=dict(training),
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


def _size(facts: RasterFacts) -> tuple[int, int, float]:
    """Return rows, columns and size of the pixels, as the summary shows it."""
    return facts.grid.height, facts.grid.width, round(_pixel_m(facts), 2)


def _pixel_m(facts: RasterFacts) -> float:
    return round(float(np.mean(facts.grid.pixel_size_m)), 4)


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


def _few(names: Sequence[str], shown: int = 3) -> str:
    """Return the first names, and the number of all if some are left out."""
    more = f", {len(names)} in all" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more
