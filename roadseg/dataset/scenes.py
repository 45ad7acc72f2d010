"""Scenes: make a mask, chips and a record from an image and its labels, for prepare."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
import shapely

from roadseg.arrays import Array, Bytes
from roadseg.dataset.chips import NO_SHIFT, ChipRecord, LabelShift
from roadseg.errors import DataError
from roadseg.raster.extents import ScenePart, ground_of
from roadseg.raster.grid import Grid, crs_setting
from roadseg.raster.images import RasterFacts
from roadseg.raster.options import ImageryOptions
from roadseg.raster.pixels import OpenScene, open_scene
from roadseg.raster.windows import Window, cut_blocks, cut_chips, shared_window
from roadseg.roads.labels.areas import Area, area_on, read_area_file
from roadseg.roads.labels.roads import LabelFile, Roads, apart_text, lay_over, read_roads
from roadseg.roads.masks.burning import (
    BACKGROUND,
    IGNORE,
    areas_of_polygons,
    areas_of_roads,
    burn_roads,
)
from roadseg.roads.masks.mask_files import read_raster_key, write_mask
from roadseg.roads.masks.mask_labels import open_mask_labels
from roadseg.roads.masks.raster_styles import mask_renderer, write_style
from roadseg.roads.options import LabelOptions
from roadseg.system.files import is_mask_file
from roadseg.system.fingerprints import stamp
from roadseg.system.progress import counted
from roadseg.system.records import key_of, read_json, write_json
from roadseg.system.schemas import STRICT, Band, Count, FileName, Metres, read_strict

Blocks = Iterator[tuple[Window, Bytes]]
Draw = Callable[[Window], Bytes]

_BLOCK_PX = 2048  # Side of the squares in which a mask is made; whole tiles of its file.


@dataclass(frozen=True)
class SceneTask:
    """The work on one scene: its inputs, options and output files.

    Attributes:
        fingerprints: fingerprints of image, labels and each file of `area`.
        shared: whether other scenes have the same label file.
        sample_px: how many pixels to sample for the scaling.
        shift_m: metres east and north by which the labels are moved.
        area: vector files with polygons in which labels are complete; empty for everywhere.
        part: the part of the scene in the area to work in; None for all of it.
        force: whether to prepare it again even if nothing changed.
    """

    name: str
    image: Path
    labels: Path
    fingerprints: Mapping[str, str]
    shared: bool
    mask: Path
    record: Path
    imagery: ImageryOptions
    label_options: LabelOptions
    sample_px: int
    shift_m: LabelShift = NO_SHIFT
    area: tuple[Path, ...] = ()
    part: ScenePart | None = None
    force: bool = False


@dataclass(frozen=True)
class SceneSummary:
    """The summary of a prepared scene, stored as JSON beside its mask.

    Attributes:
        gsd_m: ground size of a pixel along a row and along a column, metres.
        chips: chips of the scene that have data.
        pixels: number of pixels for each value of the mask, by the value as text.
        features: number of features in the label file.
        scheme: scheme of the attributes of the labels; "mask" for a raster mask.
        keys: names of these attributes.
        dropped: number of features left out, by reason.
        repaired: number of labels whose broken polygons were repaired.
        roads: number of roads in the label file.
        touching: indices of the roads that touch the scene.
        missed: reason why no road touches the scene; None if a road does.
        shift_m: metres east and north by which the labels were moved.
        is_outside: whether no polygon of `labels.area` touches the scene.
        road_km: length of road lines inside the scene, by the speed bin as text.
        speed_sources: number of roads that touch the scene, by the source of their speed.
    """

    __pydantic_config__ = STRICT

    name: FileName
    bands: tuple[Band, ...]
    dtype: str
    gsd_m: tuple[Metres, Metres]
    chips: tuple[ChipRecord, ...]
    pixels: dict[str, Count]
    features: Count = 0
    scheme: str = "mask"
    keys: tuple[str, ...] = ()
    dropped: dict[str, Count] = field(default_factory=dict)
    repaired: Count = 0
    roads: Count = 0
    touching: tuple[Count, ...] = ()
    missed: str | None = None
    shift_m: LabelShift = NO_SHIFT
    is_outside: bool = False
    road_km: dict[str, float] = field(default_factory=dict)
    speed_sources: dict[str, Count] = field(default_factory=dict)


@dataclass(frozen=True)
class _Record:
    """The JSON file beside a mask: a digest of all inputs of the scene, and its summary."""

    __pydantic_config__ = STRICT

    key: str
    found: SceneSummary


@dataclass(frozen=True)
class PreparedScene:
    """A finished scene, and pixels of it to fit the scaling to, shape (band, pixel)."""

    summary: SceneSummary
    sample: Array


def prepare_scene(task: SceneTask) -> PreparedScene:
    """Write the mask and the record of a scene, unless they exist and are up to date.

    Raises:
        DataError: if image or labels cannot be used.
        OutputError: if the mask cannot be written.
    """
    settings = [
        task.imagery.model_dump(mode="json", exclude={"images", "licence", "area"}),
        task.label_options.model_dump(mode="json", exclude={"roads", "licence", "area"}),
        task.shared,
        task.shift_m,
    ]
    own = {} if task.part is None else {"part": task.part.digest}
    key = key_of({"settings": settings, **own}, task.fingerprints)
    with open_scene(task.image, task.imagery, part=task.part) as image:
        sample = image.sample(pixels=task.sample_px)
        summary = None
        if not task.force and read_raster_key(task.mask) == key:
            summary = read_scene_summary(task.record, key=key)
        if summary is None:
            summary = _make_mask(task, image, key)
            write_scene_summary(task.record, summary, key=key)
    return PreparedScene(summary, sample)


def read_labels(path: Path, options: LabelOptions, *, content: str) -> LabelFile:
    """Read a vector file of labels; successive scenes that share it read it once.

    Args:
        content: fingerprint of the file, so that a changed file is read again.

    Raises:
        DataError: if it cannot be used.
    """
    return _read_once(path, content, options.model_dump_json())


def complete_area(
    paths: Sequence[Path], grid: Grid, options: LabelOptions
) -> shapely.MultiPolygon | None:
    """Return where the labels of a scene are complete, in its metric CRS; None for everywhere.

    Raises:
        DataError: if a file cannot be used, or the scene has no georeference.
    """
    if not paths:
        return None
    if grid.is_local:
        raise DataError(
            f"{paths[0]}: labels.area needs images with georeference; georeference the images, "
            "or leave labels.area empty"
        )
    return area_on(grid, [_read_area_once(path, stamp(path), options.crs) for path in paths])


@lru_cache(maxsize=8)
def _read_area_once(path: Path, _stamp: str, crs: str | None) -> Area:
    return read_area_file(path, crs=crs_setting(crs, "labels.crs"))


@lru_cache(maxsize=2)  # Scenes that share a label file come one after the other.
def _read_once(path: Path, _content: str, options_json: str) -> LabelFile:
    # Options contain a dictionary and cannot be a key of the cache; their text can.
    options = LabelOptions.model_validate_json(options_json)
    return read_roads(path, options=options, crs=crs_setting(options.crs, "labels.crs"))


def write_scene_summary(path: Path, summary: SceneSummary, *, key: str) -> None:
    """Write the record of a scene."""
    write_json(path, {"key": key, "found": asdict(summary)})


def read_scene_summary(path: Path, *, key: str | None = None) -> SceneSummary | None:
    """Read the record of a scene.

    Args:
        key: expected digest of all inputs; None accepts any.

    Returns:
        The summary; None if there is no record, or one with another key or of another version.

    Raises:
        DataError: if the file is not what `write_scene_summary` writes.
    """
    values = read_json(path) if path.exists() else None
    found = values.get("found") if isinstance(values, dict) else None
    names = {each.name for each in fields(SceneSummary)}
    if values is None or (isinstance(found, dict) and found.keys() != names):
        return None
    record = read_strict(path, _Record, advice="run `roadseg prepare --force`")
    return record.found if key in (None, record.key) else None


def _make_mask(task: SceneTask, image: OpenScene, key: str) -> SceneSummary:
    """Write the mask of a scene, from a raster mask or from the roads of a vector file."""
    facts, bins = image.facts, task.label_options.bins
    tally = _Tally(facts.grid, chip_px=task.imagery.chip_px, bins=bins.count)
    blocks = cut_blocks(facts.grid.height, facts.grid.width, block_px=_BLOCK_PX)
    windows = counted(blocks, task.name, total=len(blocks), unit="blocks")
    with open_labels(task, image) as (draw, summary):
        drawn = tally.watch((window, draw(window)) for window in windows)
        write_mask(task.mask, drawn, facts.grid, bins=bins, key=key)
    write_style(task.mask, mask_renderer(bins))
    return replace(summary, chips=tuple(tally.chips(task.name)), pixels=tally.pixels())


@contextmanager
def open_labels(task: SceneTask, image: OpenScene) -> Iterator[tuple[Draw, SceneSummary]]:
    """Open the labels of a scene, shifted by `task.shift_m`, to draw the mask of any window.

    Yields:
        A function from a window to its mask, in which pixels without data in the image are ignored;
        and the summary of the scene, in which the figures of labels are filled in.

    Raises:
        DataError: if the labels cannot be used.
    """
    facts = image.facts
    area = complete_area(task.area, facts.grid, task.label_options)
    inside = None if area is None else areas_of_polygons(area, facts.grid)
    summary = SceneSummary(
        *(task.name, facts.bands, facts.dtype, facts.grid.pixel_size_m),
        chips=(),
        pixels={},
        shift_m=task.shift_m,
        is_outside=area is not None and not area.intersects(facts.grid.footprint_m),
    )

    def on_image(draw: Draw, window: Window) -> Bytes:
        if not facts.touches(window):
            return np.full(window[2:], IGNORE, dtype=np.uint8)
        mask = draw(window)
        mask[~image.valid(window)] = IGNORE
        if inside is not None:
            mask[burn_roads(inside, facts.grid.crop(*window)) == BACKGROUND] = IGNORE
        return mask

    if is_mask_file(task.labels):
        options, shift_m = task.label_options, task.shift_m
        with open_mask_labels(task.labels, facts, options, shift_m=shift_m) as labels:
            yield partial(on_image, labels.read), summary
    else:
        shown = ground_of(facts.grid, facts.extent)
        ground = shown if area is None else area & shown
        roads, summary = _roads_of_scene(task, facts, summary, ground)
        areas = areas_of_roads(roads, facts.grid, bins=task.label_options.bins)
        yield partial(on_image, lambda window: burn_roads(areas, facts.grid.crop(*window))), summary


def _roads_of_scene(
    task: SceneTask, facts: RasterFacts, summary: SceneSummary, ground: shapely.Geometry
) -> tuple[Roads, SceneSummary]:
    """Return the roads that touch a scene, in its metric CRS, and its summary with the labels.

    Args:
        ground: part of the scene in which the lengths of roads are measured.

    Raises:
        DataError: if the label file cannot be used, or if none of its roads touches the scene and
            no other scene has the same file.
    """
    file = read_labels(task.labels, task.label_options, content=task.fingerprints["labels"])
    roads, touching = lay_over(facts, task.labels, file.roads, shift_m=task.shift_m)
    missed = None
    if len(file.roads.shapes) and not len(touching):
        missed = apart_text(facts, task.labels, file.roads)
    if missed and not task.shared:
        raise DataError(missed)
    # Only lines have a length.
    lines, bins = roads.lines_only(), task.label_options.bins
    km = shapely.length(shapely.intersection(lines.shapes, ground)) / 1000
    km_by_bin = np.bincount(bins.bin_of(lines.speed_mph), km, minlength=bins.count + 1)
    return roads, replace(
        summary,
        features=file.features,
        scheme=file.scheme,
        keys=file.keys,
        dropped=dict(file.dropped),
        repaired=file.repaired,
        roads=len(file.roads.shapes),
        touching=tuple(touching.tolist()),
        missed=missed,
        road_km={str(number): float(km_by_bin[number]) for number in range(1, bins.count + 1)},
        speed_sources=dict(Counter(roads.speed_source.tolist())),
    )


class _Tally:
    """Counts the pixels of each chip and of the scene while its mask is written block by block."""

    def __init__(self, grid: Grid, *, chip_px: int, bins: int) -> None:
        self._grid = grid
        self._windows = cut_chips(grid.height, grid.width, chip_px=chip_px)
        self._places = np.array(self._windows)
        self._values = (*range(bins + 1), IGNORE)
        self._counts = np.zeros((len(self._windows), len(self._values)), dtype=np.int64)

    def watch(self, blocks: Blocks) -> Blocks:
        start, stop = self._places[:, :2], self._places[:, :2] + self._places[:, 2:]
        for block, mask in blocks:
            touched = (start < np.add(block[:2], block[2:])) & (stop > block[:2])
            for number in np.flatnonzero(touched.all(axis=1)):
                row, col, height, width = shared_window(block, self._windows[number])
                top, left = row - block.row, col - block.col
                part = mask[top : top + height, left : left + width]
                self._counts[number] += [np.count_nonzero(part == v) for v in self._values]
            yield block, mask

    def pixels(self) -> dict[str, int]:
        totals = self._counts.sum(axis=0).tolist()
        return {str(value): total for value, total in zip(self._values, totals, strict=True)}

    def chips(self, scene: str) -> Iterator[ChipRecord]:
        """Yield the chips that have data."""
        shares = self._counts / self._counts.sum(axis=1, keepdims=True)
        for window, share in zip(self._windows, shares, strict=True):
            if share[-1] < 1:
                cut = "" if len(self._windows) == 1 else f"_r{window.row}_c{window.col}"
                grid = self._grid.crop(*window)
                yield ChipRecord(
                    name=scene + cut,
                    scene=scene,
                    window=window,
                    corners_m=grid.corners_m,
                    zone=grid.metric_epsg,
                    road_share=float(share[BACKGROUND + 1 : -1].sum()),
                    valid_share=float(1 - share[-1]),
                )
