"""Quality of labels in prepare: statistics of all scenes, and examples with labels over images."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from roadseg.arrays import Bytes
from roadseg.dataset.chips import ChipRecord
from roadseg.dataset.scenes import SceneSummary
from roadseg.dataset.shifts import Shift, combine_shifts, estimate_shift
from roadseg.raster.extents import ScenePart
from roadseg.raster.grid import Grid
from roadseg.raster.images import read_facts
from roadseg.raster.options import ImageryOptions
from roadseg.raster.pixels import read_window
from roadseg.raster.scaling import Scaling
from roadseg.raster.windows import spread
from roadseg.roads.labels.traffic import DEFAULT
from roadseg.roads.masks.burning import BACKGROUND, IGNORE
from roadseg.roads.masks.mask_files import read_mask
from roadseg.roads.options import LabelOptions
from roadseg.roads.speeds import shown_name
from roadseg.system.text import count, itemize
from roadseg.system.units import road_text

EXAMPLES = 12  # Scenes on the sheets, whose shift is measured as well.
_EXAMPLE_PX = 1300  # Largest side of the part of a scene that is shown.


@dataclass(frozen=True)
class Example:
    """A scene or a part of one, with its labels.

    Attributes:
        image: shape (band, row, col); the first three bands are shown, or the first alone.
        mask: shape (row, col), 0 background, else the speed bin, 255 not known.
        grid: of the whole scene, of which the image shows a part.
        shift: how far the labels are off; None if not measured.
    """

    name: str
    image: Bytes
    mask: Bytes
    grid: Grid
    shift: Shift | None = None

    @property
    def road_share(self) -> float:
        """Share of road among the pixels that are known."""
        known = self.mask[self.mask != IGNORE]
        return float((known != BACKGROUND).mean()) if known.size else 0.0


@dataclass(frozen=True)
class SetFigures:
    """Figures of a set of scenes.

    Attributes:
        road_km: length of the lines inside the scenes.
        road_share: share of the pixels with data that are road.
        remaining_m: as in `PrepareSummary`, for this set alone.
        moved_m: as in `PrepareSummary`, for this set alone.
        measured: number of examples on which `remaining_m` was measured.
    """

    scenes: int
    chips: int
    road_km: float
    road_share: float
    remaining_m: list[float] | None = None
    moved_m: list[float] = field(default_factory=list)
    measured: int = 0

    def __str__(self) -> str:
        """Return the figures as text."""
        chips = f"{count(self.scenes, 'scene')} in {count(self.chips, 'chip')}"
        off = f"; labels shifted by {math.hypot(*xy_m):.1f} m" if (xy_m := self.remaining_m) else ""
        return f"{chips}; roads: {_road_text(self.road_km, self.road_share)}{off}"


@dataclass(frozen=True)
class PrepareSummary:
    """The summary of prepare: its inputs and its outputs.

    Attributes:
        chips: number of chips with data.
        gsd_m: mean ground size of a pixel.
        nodata_share: share of the pixels that have no data.
        road_share: share of the other pixels that are road.
        road_km: length of the lines inside the scenes.
        roads_by_speed_source: number of roads on the scenes, by the source of their speed.
        schemes: number of label files, by the scheme of their attributes.
        label_keys: number of label files with each attribute.
        dropped: number of labels left out, by reason.
        moved: rule by which labels were moved: none, given, set or scene.
        moved_m: metres east and north by which they were moved, the median over the scenes.
        moved_range_m: shortest and longest of these moves, metres.
        sets: figures of each set by name; empty without sets.
        outside: number of images left out because they lie outside of the area to work in.
        remaining_m: further shift, metres east and north, that would align the labels with the
            images; None if it cannot be measured, empty in records of earlier versions.
        remaining_by_scene_m: the same for each example in which it can be measured.
    """

    scenes: int
    chips: int
    bands: int
    dtypes: list[str]
    gsd_m: float
    nodata_share: float
    road_share: float
    pixel_share_by_speed_bin: dict[str, float]
    road_km: float
    road_km_by_speed_bin: dict[str, float]
    roads_by_speed_source: dict[str, int]
    schemes: dict[str, int]
    label_keys: dict[str, int]
    labels: int
    dropped: dict[str, int]
    repaired: int
    failed: dict[str, str]
    sheets: list[str]
    moved: str
    moved_m: list[float]
    moved_range_m: list[float]
    sets: dict[str, SetFigures] = field(default_factory=dict)
    outside: int = 0
    remaining_m: list[float] | None = field(default_factory=list)
    remaining_by_scene_m: dict[str, list[float]] = field(default_factory=dict)

    @property
    def measured(self) -> int:
        """Number of examples on which `remaining_m` was measured."""
        return len(self.remaining_by_scene_m)

    @property
    def shifted_by_key(self) -> "dict[str, SetFigures | PrepareSummary]":
        """Figures of the sets, or of all scenes, by the setting that corrects a measured shift."""
        every: dict[str, SetFigures | PrepareSummary] = {
            f"imagery.sets.{name}.labels.shift": own for name, own in self.sets.items()
        } or {"labels.shift": self}
        return {key: own for key, own in every.items() if own.remaining_m}

    def __str__(self) -> str:
        """Return the summary as a table."""
        rows = {
            "scenes": f"{self.scenes} with {count(self.bands, 'band')} of "
            f"{' and '.join(self.dtypes)}, pixels of {self.gsd_m:.2f} m; "
            f"{count(self.chips, 'chip')}; {self.nodata_share:.1%} no data",
            **{f"  {name}": str(figures) for name, figures in self.sets.items()},
            "labels": self._labels_text(),
            "roads": _road_text(self.road_km, self.road_share),
            **{
                f"  {shown_name(name)}": _road_text(self.road_km_by_speed_bin[name], share)
                for name, share in self.pixel_share_by_speed_bin.items()
                if share
            },
            "speeds": self._speeds_text(),
            "moved": self._moved_text(),
            "shift": ""
            if any(figures.remaining_m for figures in self.sets.values())
            else shift_text(self.remaining_m, self.measured, self.scenes),
            "sheets": str(Path(self.sheets[0]).parent) if self.sheets else "",
            "outside": self.outside and f"{count(self.outside, 'image')} outside of the area",
            **{f"skipped {name}": why for name, why in self.failed.items()},
        }
        width = max(len(name) for name in rows)
        return "\n".join(f"{name:<{width}}  {text}" for name, text in rows.items() if text)

    def _labels_text(self) -> str:
        masks = self.schemes.get("mask", 0)
        files = {scheme: n for scheme, n in self.schemes.items() if scheme != "mask"}
        where = count(sum(files.values()), "file")
        parts = {
            count(masks, "raster mask"): masks,
            f"{self.labels} in {where}, scheme {', '.join(files)}": files,
            f"repaired: {self.repaired}": self.repaired,
            f"left out: {itemize(self.dropped)}": self.dropped,
        }
        return "; ".join(text for text, there in parts.items() if there)

    def _speeds_text(self) -> str:
        named = {DEFAULT: "labels.default_speed_mph"}
        sources = {named.get(key, key): n for key, n in self.roads_by_speed_source.items()}
        repeated = sum(sources.values()) > self.labels - sum(self.dropped.values())
        each = " (a road in several images counts in each)" if repeated else ""
        return itemize(sources, "from ") + each

    def _moved_text(self) -> str:
        """Return how far labels were moved, in words; empty if the rule is "none"."""
        if self.moved == "none":
            return ""
        text = f"{_on_map(*self.moved_m)} ({self.moved})"
        if self.moved != "scene":
            return text
        least_m, most_m = self.moved_range_m
        return f"{text}; per scene by {least_m:.1f} to {most_m:.1f} m"


def _road_text(km: float, share: float) -> str:
    """Return the length of road lines, and the share of road pixels, in words."""
    return (f"{road_text(km)}, " if km else "") + f"{share:.2%} of the pixels"


@dataclass(frozen=True)
class ExampleTask:
    """A chip to show with its labels."""

    chip: ChipRecord
    image: Path
    mask: Path
    imagery: ImageryOptions
    scaling: Scaling
    part: ScenePart | None = None


def choose_examples(scenes: Sequence[SceneSummary]) -> list[ChipRecord]:
    """Choose scenes evenly from those with roads, and in each the chip with most road."""
    best = [
        max(scene.chips, key=lambda chip: chip.road_share * chip.window.height * chip.window.width)
        for scene in scenes
        if scene.chips
    ]
    return spread([chip for chip in best if chip.road_share > 0], EXAMPLES)


def make_example(task: ExampleTask) -> Example:
    """Read a chip with its mask, and estimate the shift of its labels.

    Raises:
        DataError: if the image cannot be read.
    """
    facts = read_facts(task.image, task.imagery, part=task.part)
    shape = (facts.grid.height, facts.grid.width)
    window = task.chip.window.around(_EXAMPLE_PX, _EXAMPLE_PX, shape)
    bands, valid = read_window(facts, window)
    image = np.where(valid, task.scaling.apply(bands), np.uint8(0))
    mask = read_mask(task.mask, window)
    shift = estimate_shift(image, mask, pixel_m=facts.grid.pixel_size_m)
    return Example(task.chip.scene, image, mask, facts.grid, shift)


def summarise(
    scenes: Sequence[SceneSummary],
    labels: Mapping[str, Path],
    *,
    options: LabelOptions,
    failed: Mapping[str, str],
    shifts: Mapping[str, Shift],
    sheets: Sequence[Path],
    set_of: Mapping[str, str],
) -> PrepareSummary:
    """Add up the figures of all scenes.

    Args:
        failed: reasons why other scenes were skipped, by name.
        shifts: shifts of the labels of examples, by the name of the scene.
        set_of: name of the set of each scene, by name; an empty name without sets.
    """
    bins = options.bins
    # A label file that several scenes share counts once.
    files = {labels[scene.name]: scene for scene in scenes}
    pixels, valid, road_share = _pixels(scenes)
    share = {b: pixels[str(b)] / max(valid, 1) for b in range(1, bins.count + 1)}
    km = _sum(scene.road_km for scene in scenes)
    names = dict(enumerate(bins.names, start=1))
    lengths_m = [math.hypot(*scene.shift_m) for scene in scenes]
    return PrepareSummary(
        scenes=len(scenes),
        chips=sum(len(scene.chips) for scene in scenes),
        bands=len(scenes[0].bands),
        dtypes=sorted({scene.dtype for scene in scenes}),
        gsd_m=round(float(np.mean([scene.gsd_m for scene in scenes])), 4),
        nodata_share=round(pixels[str(IGNORE)] / max(pixels.total(), 1), 6),
        road_share=road_share,
        pixel_share_by_speed_bin={names[b]: round(part, 6) for b, part in share.items()},
        road_km=round(km.total(), 3),
        road_km_by_speed_bin={name: round(km[str(b)], 3) for b, name in names.items()},
        roads_by_speed_source=dict(_sum(scene.speed_sources for scene in scenes)),
        schemes=dict(Counter(scene.scheme for scene in files.values())),
        label_keys=dict(Counter(key for scene in files.values() for key in scene.keys)),
        labels=sum(scene.features for scene in files.values()),
        dropped=_dropped(scenes, labels, files),
        repaired=sum(scene.repaired for scene in files.values()),
        failed=dict(failed),
        sheets=[str(path) for path in sheets],
        moved=options.shift if isinstance(options.shift, str) else "given",
        moved_m=_median_m(scenes),
        moved_range_m=[round(m, 2) for m in (min(lengths_m), max(lengths_m))],
        sets={
            name: _figures(of_set, shifts)
            for name in dict.fromkeys(set_of.values())
            if name and (of_set := [scene for scene in scenes if set_of[scene.name] == name])
        },
        remaining_m=_metres(combine_shifts(list(shifts.values()))),
        remaining_by_scene_m={name: xy_m for name, s in shifts.items() if (xy_m := _metres(s))},
    )


def _median_m(scenes: Sequence[SceneSummary]) -> list[float]:
    moved_m: list[float] = np.median([each.shift_m for each in scenes], axis=0).round(2).tolist()
    return moved_m


def _on_map(east_m: float, north_m: float) -> str:
    """Return a shift as text: `4.1 m east, 2.0 m south`."""
    east = f"{abs(east_m):.1f} m {'east' if east_m >= 0 else 'west'}"
    return f"{east}, {abs(north_m):.1f} m {'north' if north_m >= 0 else 'south'}"


def _figures(scenes: Sequence[SceneSummary], shifts: Mapping[str, Shift]) -> SetFigures:
    km = sum(sum(scene.road_km.values()) for scene in scenes)
    chips = sum(len(scene.chips) for scene in scenes)
    own = [shifts[scene.name] for scene in scenes if scene.name in shifts]
    return SetFigures(
        len(scenes),
        chips,
        round(km, 3),
        _pixels(scenes)[2],
        remaining_m=_metres(combine_shifts(own)),
        moved_m=_median_m(scenes),
        measured=sum(shift.is_sure for shift in own),
    )


def _pixels(scenes: Sequence[SceneSummary]) -> tuple[Counter[str], float, float]:
    """Return the number of pixels of each value and of valid pixels, and their share of road."""
    pixels = _sum(scene.pixels for scene in scenes)
    valid = pixels.total() - pixels[str(IGNORE)]
    return pixels, valid, round(1 - pixels[str(BACKGROUND)] / max(valid, 1), 6)


def shift_text(remaining_m: Sequence[float] | None, measured: int = 0, scenes: int = 0) -> str:
    """Return the shift of labels in words, and on how few of the scenes it was measured.

    Args:
        remaining_m: as in `PrepareSummary`.
    """
    if not remaining_m:
        return "cannot be measured on these images" if remaining_m is None else ""
    off = math.hypot(*remaining_m)
    if off < 0.05:  # noqa: PLR2004 - half of the last digit
        return "labels fit to within 0.1 m"
    few = 2 * measured < min(scenes, EXAMPLES)
    seen = f" (measured on {measured} of {scenes} images)" if few else ""
    return f"labels are {off:.1f} m off; moving them {_on_map(*remaining_m)} would align them{seen}"


def _dropped(
    scenes: Sequence[SceneSummary], labels: Mapping[str, Path], files: Mapping[Path, SceneSummary]
) -> dict[str, int]:
    dropped = _sum(scene.dropped for scene in files.values())
    touching: dict[Path, set[int]] = {}
    for scene in scenes:
        touching.setdefault(labels[scene.name], set()).update(scene.touching)
    dropped["beyond the images"] = sum(
        scene.roads - len(touching[path]) for path, scene in files.items()
    )
    return dict(+dropped)


def _sum(counts: Iterable[Mapping[str, float]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return total


def _metres(shift: Shift | None) -> list[float] | None:
    """Return a shift on the map as metres east and north."""
    return [round(shift.x_m, 2), 0.0 - round(shift.y_m, 2)] if shift and shift.is_sure else None
