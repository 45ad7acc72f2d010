"""Defaults: settings that fit the survey of images and labels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from roadseg.commands.survey.contents import ImageSurvey, LabelSurvey, usable_widths
from roadseg.config import Config
from roadseg.dataset.chips import cut_grid
from roadseg.dataset.fold_files import read_fold_file
from roadseg.dataset.folds import ground_blocks, join_groups
from roadseg.dataset.footprints import same_place_pairs
from roadseg.errors import DataError
from roadseg.options import Section
from roadseg.raster.images import RasterFacts
from roadseg.raster.windows import cut_chips
from roadseg.system.text import count

Settings = dict[str, Any]
Choice = tuple[Settings, str]  # Settings of a section, and their description in the summary.

_CHIP_SIDES_PX = (1300, 650, 325, 163)
_SMALL_SIDES_PX = (96, 64)  # These are tried only if the folds cannot be filled otherwise.
_BLOCK_SIDES_M = (500.0, 250.0, 100.0, 50.0, 25.0)
_CHIPS_PER_FOLD = 2  # Groups of chips that each fold should have at least.
_COLLAR = 0.005  # Share of the corners from which a black collar makes 0 the nodata value.
_WIDTH_KEYS = ("width_m", "width")
_WIDTH_SHARE = 0.9  # Share of the lines that must have a width for it to be used.
# Rotations cost 3 times the prediction: at this size some 6 % of a training on two cores.
_TTA_MEGAPIXELS_PER_MIN = 5
_USUAL_MIN = 12  # Minutes for which a training counts that is planned by its epochs.
_OWN_SPEEDS = {"speed_key": "speed_kph", "speed_unit": "km/h"}  # Attribute of roadseg's graphs.
# How the summary names each method of the split.
_SPLIT_BY = {
    "blocks": "by ground blocks",
    "places": "by places",
    "knndm": "by the distance to split.target",
    "random": "at random",
    "sets": "by sets",
    "file": "by split.file",
}


@dataclass(frozen=True)
class Cut:
    """Sizes of chips and ground blocks.

    Attributes:
        chip_px: longest side of a chip.
        block_m: side of the ground blocks whose chips share a fold.
    """

    chip_px: int
    chips: int
    block_m: float


@dataclass(frozen=True)
class Reading:
    """Chosen settings for reading images and labels.

    Attributes:
        nodata: text on which pixels have no data.
        widths: text on where the widths of roads come from.
    """

    imagery: Settings
    labels: Settings
    nodata: str
    widths: str


@dataclass(frozen=True)
class Defaults:
    """All settings that fit the images and labels.

    Attributes:
        split: text on which chips share a fold.
    """

    settings: dict[str, Settings]
    cut: Cut
    split: str


def choose_reading(images: ImageSurvey, labels: LabelSurvey, settings: Config) -> Reading:
    """Choose how the images and labels of a city are read; settings that are given stay."""
    imagery, nodata = choose_nodata(images, settings)
    width_settings, widths = _choose_widths(labels, settings)
    return Reading(
        _without_given(imagery, settings.imagery),
        _without_given(choose_scheme(labels, settings) | width_settings, settings.labels),
        nodata,
        widths,
    )


def _without_given(chosen: Settings, section: Section) -> Settings:
    """Return the chosen settings that are not given in the section already."""
    return {key: value for key, value in chosen.items() if key not in section.model_fields_set}


def choose_defaults(
    images: ImageSurvey, labels: LabelSurvey, settings: Config, *, readings: Sequence[Reading]
) -> Defaults:
    """Choose settings for images and labels; settings that are given stay.

    Args:
        readings: how each city is read; several have settings of their own.

    Raises:
        DataError: if the images cannot fill the folds.
    """
    # The method of the split decides whether chips have to be small enough to fill the folds.
    split_settings, split = _choose_split(settings)
    method = split_settings.get("method", settings.split.method)
    cut = _choose_cut(images.scenes, labels, settings, method=method)
    # Encoders halve a window five times, so its side has to be a multiple of 32 pixels.
    window_px = min(settings.train.window_px, cut.chip_px // 32 * 32)
    pixels = sum(facts.grid.height * facts.grid.width for facts in images.scenes.values())
    minutes = settings.train.minutes or _USUAL_MIN
    is_small = pixels <= _TTA_MEGAPIXELS_PER_MIN * 1e6 * minutes
    shared = readings[0] if len(readings) == 1 else Reading({}, {}, "", "")
    chosen: dict[str, Settings] = {
        "imagery": {"chip_px": cut.chip_px} | shared.imagery,
        "labels": shared.labels,
        "split": {"block_m": cut.block_m} | split_settings,
        "train": {"window_px": window_px},
        "predict": {"tta": is_small},
    }
    fitting = {
        section: _without_given(changes, getattr(settings, section))
        for section, changes in chosen.items()
    }
    return Defaults(fitting, cut, split)


def choose_nodata(images: ImageSurvey, settings: Config) -> Choice:
    """Choose the nodata value: 0 if an image has a black collar, unless one or null is given."""
    if settings.imagery.nodata is not None:
        return {}, f"{settings.imagery.nodata:g} in every band"
    if "nodata" in settings.imagery.model_fields_set:
        return {}, "only as images declare (imagery.nodata is null)"
    collars = {name: share for name, share in images.collars.items() if share > _COLLAR}
    if collars:
        worst = max(collars, key=lambda name: collars[name])
        checked = f"{len(collars)} of {images.looked_at} images checked have black borders"
        return {"nodata": 0}, f"0 in every band, because {checked}, such as {worst}"
    masked = sum(facts.is_masked for facts in images.scenes.values())
    if masked:
        declared = f"declared by {masked} of {len(images.scenes)} images"
        return {}, f"{declared} (alpha band, mask or nodata value)"
    return {}, "no nodata value declared, no black borders found"


def choose_scheme(labels: LabelSurvey, settings: Config) -> Settings:
    """Choose the scheme if all label files with features have the same one, else auto."""
    if settings.labels.speed_key is not None:  # It is given, with its scheme and unit.
        return {}
    names = {file.scheme for file in labels.files.values() if file.features}
    if len(names) != 1:
        return {"scheme": "auto"}
    (name,) = names
    return {"scheme": name} | (_OWN_SPEEDS if name == "attribute" else {})


def _choose_widths(labels: LabelSurvey, settings: Config) -> Choice:
    """Choose an attribute with the widths of nearly all lines, else one width for all."""
    options = settings.labels
    same = f"{2 * options.buffer_m:g} m for all roads (2 x labels.buffer_m)"
    is_given = "width" in options.model_fields_set
    if is_given and options.width != "attribute":
        return {}, same if options.width == "constant" else f"by {options.width}"
    for key in (options.width_key,) if is_given else _WIDTH_KEYS:
        share, widths = usable_widths(labels.files, options, key=key)
        if is_given and not share:
            return {}, f"from {key}, which no line has: {same}"
        if is_given or share >= _WIDTH_SHARE:
            have, median = f"{share:.0%} of the lines have", f"{np.median(widths):.1f} m"
            chosen = {"width": "attribute", "width_key": key}
            return chosen, f"from {key}, which {have}; median {median}"
    are_areas = [is_area for file in labels.files.values() for is_area in file.roads.is_area]
    if are_areas and all(are_areas):
        return {}, "of the polygons, as they are drawn"
    return {}, f"{same}; polygons as they are drawn" if any(are_areas) else same


def _choose_split(settings: Config) -> Choice:
    """Choose which chips share a fold: those of a ground block.

    The distance of images to be mapped decides if they are named. A file of folds has their number.

    Raises:
        DataError: if that file cannot be used.
    """
    split = settings.split
    if "method" in split.model_fields_set:
        listed = read_fold_file(split.own_folds) if split.method == "file" else {}
        folds = {"folds": 1 + max(1, *listed.values())} if listed else {}
        return folds, _SPLIT_BY[split.method]
    method = "knndm" if split.target else "blocks"
    return {"method": method}, _SPLIT_BY[method]


def _choose_cut(
    scenes: Mapping[str, RasterFacts], labels: LabelSurvey, settings: Config, *, method: str
) -> Cut:
    """Choose the largest chips, then the largest blocks, that still fill the folds.

    Args:
        settings: settings that are given; their sizes are kept.
        method: method of the split; only "blocks" and "knndm" depend on these sizes.

    Raises:
        DataError: if no size fills the folds.
    """
    imagery, split = settings.imagery, settings.split
    is_given = "chip_px" in imagery.model_fields_set
    sides = (imagery.chip_px,) if is_given else _CHIP_SIDES_PX
    smaller = sides if is_given else (*sides, *_SMALL_SIDES_PX)
    blocks = (split.block_m,) if "block_m" in split.model_fields_set else _BLOCK_SIDES_M
    if method not in ("blocks", "knndm"):
        return Cut(sides[0], count_chips(scenes, chip_px=sides[0]), blocks[0])
    groups = 0
    # Fill every fold with several groups; if that fails, with one, if necessary of smaller chips.
    for enough, tried in ((_CHIPS_PER_FOLD * split.folds, sides), (split.folds, smaller)):
        for chip_px in tried:
            chips = [
                chip
                for name, facts in scenes.items()
                for chip in cut_grid(name, facts.grid, chip_px=chip_px)
            ]
            together = same_place_pairs(chips, labels.matches)
            for block_m in blocks:
                groups = len(set(join_groups(ground_blocks(chips, block_m=block_m), together)))
                if groups >= enough:
                    return Cut(chip_px, len(chips), block_m)
    raise DataError(
        f"imagery.images: found {count(groups, 'separate place')} in "
        f"{count(len(scenes), 'image')}, expected at least one for each of {split.folds} folds; "
        f"add images, or use fewer folds with --set split.folds={max(groups, 2)}"
    )


def count_chips(scenes: Mapping[str, RasterFacts], *, chip_px: int) -> int:
    """Count the chips of a size into which scenes are cut."""
    grids = [facts.grid for facts in scenes.values()]
    return sum(len(cut_chips(grid.height, grid.width, chip_px=chip_px)) for grid in grids)
