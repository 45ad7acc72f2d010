"""One scene of prepare: image and labels to a mask, its chips, and what was found in them."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray

from roadseg.dataset.chips import ChipRecord
from roadseg.dataset.scene_records import SceneFound, read_found, write_found
from roadseg.errors import DataError
from roadseg.raster.grid import crs_setting
from roadseg.raster.images import OpenScene, RasterFacts, open_scene
from roadseg.raster.options import ImageryOptions
from roadseg.raster.windows import Window, cut_blocks, cut_chips, shared_window
from roadseg.roads.labels.roads import (
    LabelFile,
    Roads,
    extent_degrees,
    looks_swapped,
    read_roads,
    roads_on,
)
from roadseg.roads.masks.burning import BACKGROUND, IGNORE, burn_roads, road_areas
from roadseg.roads.masks.mask_files import read_raster_key, write_mask
from roadseg.roads.masks.mask_labels import is_mask_file, read_mask_labels
from roadseg.roads.options import LabelOptions
from roadseg.system.fingerprints import stamp
from roadseg.system.progress import counted
from roadseg.system.records import key_of

_BLOCK_PX = 2048  # side of the squares in which a mask is made; whole tiles of its file


@dataclass(frozen=True)
class SceneTask:
    """What one scene is made from, and where the results go.

    Attributes:
        name: what its outputs are called.
        image: the raster.
        labels: its label file.
        held: fingerprints of both.
        shared: whether other scenes have the same label file.
        mask: raster to write.
        record: JSON file to write beside it.
        imagery: settings of the image.
        label_options: settings of the labels.
        sample_px: how many pixels to sample for the scaling.
        force: whether to make it again even if nothing changed.
    """

    name: str
    image: Path
    labels: Path
    held: Mapping[str, str]
    shared: bool
    mask: Path
    record: Path
    imagery: ImageryOptions
    label_options: LabelOptions
    sample_px: int
    force: bool = False


@dataclass(frozen=True)
class PreparedScene:
    """A finished scene, and pixels of it to find the scaling from, shape (band, pixel)."""

    found: SceneFound
    sample: NDArray[Any]


def prepare_scene(task: SceneTask) -> PreparedScene:
    """Write the mask of a scene and the record of what was found, unless they are there already.

    Raises:
        DataError: if image or labels cannot be used.
        OutputError: if the mask cannot be written.
    """
    settings = [
        task.imagery.model_dump(mode="json", exclude={"images", "percentiles", "licence"}),
        task.label_options.model_dump(mode="json", exclude={"roads", "licence"}),
        task.shared,
    ]
    key = key_of({"settings": settings}, task.held)
    with open_scene(task.image, task.imagery) as image:
        sample = image.sample(pixels=task.sample_px)
        if task.force or (found := _read_found(task, key)) is None:
            found = _make(task, image, key)
            write_found(task.record, found, key=key)
    return PreparedScene(found, sample)


def lay_over(facts: RasterFacts, labels: Path, roads: Roads) -> tuple[Roads, NDArray[np.intp]]:
    """Return the roads that touch a scene, in its metric CRS, and their indices.

    Raises:
        DataError: if the scene has no place on the ground.
    """
    if facts.grid.is_local:
        raise DataError(
            f"{facts.path}: has no georeference, so {labels} cannot be laid over it; use raster "
            "masks of the same size as labels.roads, or give the image its place"
        )
    return roads_on(facts.grid, roads)


def apart_text(facts: RasterFacts, labels: Path, roads: Roads) -> str:
    """Say where roads and scene lie, if they do not touch."""
    outline = np.array([facts.grid.footprint], dtype=object)
    hint = (
        "its x and y look swapped: write longitude before latitude"
        if looks_swapped(facts.grid, roads)
        else "check the CRS of both, or the file names"
    )
    return (
        f"{labels}: none of its {len(roads.shapes)} roads touches {facts.path}: the roads are at "
        f"{extent_degrees(roads.shapes, roads.crs)}, the image at "
        f"{extent_degrees(outline, facts.grid.crs)}; {hint}"
    )


def read_labels(path: Path, options: LabelOptions) -> LabelFile:
    """Read a vector file of labels; scenes in a row that share it have it read once.

    Raises:
        DataError: if it cannot be used.
    """
    return _read_once(path, stamp(path), options.model_dump_json())


def read_labels_mask(
    path: Path, facts: RasterFacts, window: Window, options: LabelOptions
) -> NDArray[np.uint8]:
    """Read a window of the mask that a raster of labels gives a scene.

    Raises:
        DataError: if it cannot be read, or be laid over the scene.
    """
    return read_mask_labels(
        path,
        facts,
        window,
        bins=options.bins,
        speeds_mph=options.mask_speeds_mph,
        default_mph=options.default_speed_mph,
        crs=crs_setting(options.crs, "labels.crs"),
    )


def _read_found(task: SceneTask, key: str) -> SceneFound | None:
    """Return what was found before, if it was found in the same inputs with the same settings."""
    if not task.record.exists() or not task.mask.exists():
        return None
    if read_raster_key(task.mask) != key:
        return None
    return read_found(task.record, key=key)


def _make(task: SceneTask, image: OpenScene, key: str) -> SceneFound:
    facts = image.facts
    bins = task.label_options.bins
    tally = _Tally(facts, chip_px=task.imagery.chip_px, bins=bins.count)
    told: dict[str, Any] = {}
    if is_mask_file(task.labels):
        blocks = _mask_blocks(task, image)
    else:
        roads, told = _roads(task, facts)
        blocks = _road_blocks(task, image, roads)
    write_mask(task.mask, tally.watch(blocks), facts.grid, bins=bins, key=key)
    return SceneFound(
        name=task.name,
        bands=facts.bands,
        dtype=facts.dtype,
        gsd_m=facts.grid.pixel_size_m,
        chips=tuple(tally.chips(task.name)),
        pixels=tally.pixels(),
        **told,
    )


Blocks = Iterator[tuple[Window, NDArray[np.uint8]]]


def _blocks(task: SceneTask, facts: RasterFacts) -> Iterator[Window]:
    blocks = cut_blocks(facts.grid.height, facts.grid.width, block_px=_BLOCK_PX)
    return counted(blocks, task.name, total=len(blocks), unit="blocks")


def _mask_blocks(task: SceneTask, image: OpenScene) -> Blocks:
    for window in _blocks(task, image.facts):
        mask = read_labels_mask(task.labels, image.facts, window, task.label_options)
        yield window, _ignore_invalid(mask, image, window)


def _road_blocks(task: SceneTask, image: OpenScene, roads: Roads) -> Blocks:
    grid = image.facts.grid
    areas = road_areas(roads, grid, bins=task.label_options.bins)
    for window in _blocks(task, image.facts):
        yield window, _ignore_invalid(burn_roads(areas, grid.crop(*window)), image, window)


def _ignore_invalid(mask: NDArray[np.uint8], image: OpenScene, window: Window) -> NDArray[np.uint8]:
    if not image.facts.is_all_valid:
        mask[~image.valid(window)] = IGNORE
    return mask


@lru_cache(maxsize=2)  # scenes that share a label file come one after the other
def _read_once(path: Path, _stamp: str, options_json: str) -> LabelFile:
    options = LabelOptions.model_validate_json(options_json)
    return read_roads(path, options=options, crs=crs_setting(options.crs, "labels.crs"))


def _roads(task: SceneTask, facts: RasterFacts) -> tuple[Roads, dict[str, Any]]:
    """Read the roads on a scene, in its metric CRS, and what to tell of them."""
    file = read_labels(task.labels, task.label_options)
    roads, touching = lay_over(facts, task.labels, file.roads)
    missed = None
    if len(file.roads.shapes) and not len(touching):
        missed = apart_text(facts, task.labels, file.roads)
    if missed and not task.shared:
        raise DataError(missed)
    inside = shapely.intersection(roads.lines_only().shapes, facts.grid.footprint_m)
    bins = task.label_options.bins
    numbers = bins.bin_of(roads.lines_only().speed_mph)
    km = np.bincount(numbers, shapely.length(inside) / 1000, minlength=bins.count + 1)
    return roads, {
        "features": file.features,
        "scheme": file.scheme,
        "keys": file.keys,
        "dropped": dict(file.dropped),
        "repaired": file.repaired,
        "roads": len(file.roads.shapes),
        "touching": tuple(touching.tolist()),
        "missed": missed,
        "road_km": {str(b): float(km[b]) for b in range(1, bins.count + 1)},
        "speed_sources": dict(Counter(roads.speed_source.tolist())),
    }


class _Tally:
    """Counts the pixels of each chip and of the scene while the blocks of its mask pass by."""

    def __init__(self, facts: RasterFacts, *, chip_px: int, bins: int) -> None:
        self._grid = facts.grid
        self._windows = cut_chips(facts.grid.height, facts.grid.width, chip_px=chip_px)
        self._places = np.array(self._windows)
        self._values = (*range(bins + 1), IGNORE)
        self._counts = np.zeros((len(self._windows), len(self._values)), dtype=np.int64)

    def watch(self, blocks: Blocks) -> Blocks:
        for block, mask in blocks:
            for number in self._touched(block):
                row, col, height, width = shared_window(block, self._windows[number])
                top, left = row - block.row, col - block.col
                part = mask[top : top + height, left : left + width]
                self._counts[number] += [np.count_nonzero(part == v) for v in self._values]
            yield block, mask

    def _touched(self, block: Window) -> NDArray[np.intp]:
        """Return which chips share pixels with a block."""
        start, size = self._places[:, :2], self._places[:, 2:]
        overlap = (start < np.add(block[:2], block[2:])) & (start + size > block[:2])
        return np.flatnonzero(overlap.all(axis=1))

    def pixels(self) -> dict[str, int]:
        totals = self._counts.sum(axis=0).tolist()
        return {str(value): total for value, total in zip(self._values, totals, strict=True)}

    def chips(self, scene: str) -> Iterator[ChipRecord]:
        """Give the chips that hold data."""
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
