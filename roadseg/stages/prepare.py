"""prepare: scenes and road lines to masks. Writes masks/, chips.json and scaling.json."""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import numpy as np
import shapely
from numpy.typing import NDArray

from roadseg.config import Config, crs_setting
from roadseg.core.grid import Grid
from roadseg.core.masks import BACKGROUND, IGNORE, burn_roads
from roadseg.core.roads import Roads, extent_degrees, roads_on
from roadseg.core.scaling import Scaling, fit_scaling
from roadseg.core.speeds import BINS, speed_bin
from roadseg.core.windows import cut_chips
from roadseg.errors import DataError
from roadseg.io.chips import ChipRecord, SceneRecord, write_chips
from roadseg.io.rasters import (
    RasterFacts,
    read_facts,
    read_sample,
    read_valid,
    write_mask,
)
from roadseg.io.records import StageRecord, file_facts, write_json
from roadseg.io.roads import LabelFile, read_roads
from roadseg.io.sources import find_images, find_labels
from roadseg.workspace import Workspace

logger = logging.getLogger(__name__)

_SAMPLE_SIDE_PX = 256  # pixels a scene and side that the scaling is found from


@dataclass(frozen=True)
class PrepareSummary:
    """What prepare found and made."""

    scenes: int
    chips: int
    bands: int
    dtypes: list[str]
    gsd_m: float
    valid_share: float
    road_share: float
    road_km: float
    road_km_by_speed_bin: dict[str, float]
    roads_by_speed_source: dict[str, int]
    dropped: dict[str, int]

    def __str__(self) -> str:
        """Say it in a sentence."""
        sources = ", ".join(f"{n} by {key}" for key, n in self.roads_by_speed_source.items())
        left_out = ", ".join(f"{n} {reason}" for reason, n in self.dropped.items())
        return (
            f"{self.scenes} scenes ({self.bands} bands of {' and '.join(self.dtypes)}, "
            f"{self.gsd_m:.2f} m) in {self.chips} chips; {self.road_km:.2f} km of roads on "
            f"{self.road_share:.1%} of the pixels; speeds: {sources}"
            + (f"; labels left out: {left_out}" if left_out else "")
        )


@dataclass(frozen=True)
class _Scene:
    name: str
    facts: RasterFacts
    roads: Roads  # in the metric CRS of the scene


def run(config: Config, workspace: Workspace, *, force: bool = False) -> PrepareSummary:
    """Make the mask of every scene from its road lines, and cut the scenes into chips."""
    images = find_images(config.imagery.images)
    labels = find_labels(config.labels.roads, images)
    record = StageRecord(
        workspace.record("prepare"),
        settings={s: getattr(config, s).model_dump(mode="json") for s in ("imagery", "labels")},
        inputs=file_facts([*images.values(), *set(labels.values())]),
    )
    if not force and (done := record.summary()):
        return PrepareSummary(**done)
    read = _label_reader(config)
    scenes = _read_scenes(images, labels, read, config)
    scaling = _fit_scaling(scenes, config)
    record.begin()
    chips, counts = [], np.zeros(IGNORE + 1, dtype=np.int64)
    for scene in scenes:
        mask = _mask(scene, buffer_m=config.labels.buffer_m)
        write_mask(workspace.mask(scene.name), mask, scene.facts.grid)
        counts += np.bincount(mask.ravel(), minlength=IGNORE + 1)
        chips += _cut(scene, mask, chip_px=config.imagery.chip_px)
    write_json(workspace.scaling, asdict(scaling))
    write_chips(workspace.chips, [_scene_record(scene, labels) for scene in scenes], chips)
    dropped = sum((read(path).dropped for path in set(labels.values())), Counter[str]())
    summary = _summary(scenes, len(chips), counts, dropped)
    record.finish(asdict(summary))
    return summary


def _label_reader(config: Config) -> Callable[[Path], LabelFile]:
    crs = crs_setting(config.labels.crs, "labels.crs")

    @cache
    def read(path: Path) -> LabelFile:
        found = read_roads(path, default_mph=config.labels.default_speed_mph, crs=crs)
        for reason, pieces in found.dropped.items():
            logger.warning("%s: %d pieces left out: %s", path, pieces, reason)
        return found

    return read


def _read_scenes(
    images: Mapping[str, Path],
    labels: Mapping[str, Path],
    read: Callable[[Path], LabelFile],
    config: Config,
) -> list[_Scene]:
    crs = crs_setting(config.imagery.crs, "imagery.crs")
    options = config.imagery
    scenes, missed = [], {}
    for name, path in images.items():
        facts = read_facts(path, crs=crs, bands=options.bands, gsd_m=options.gsd_m)
        found = read(labels[name]).roads
        roads = roads_on(facts.grid, found, margin_m=config.labels.buffer_m)
        if len(found.lines) and not len(roads.lines):
            missed[name] = _miss(facts, found, labels[name])
        scenes.append(_Scene(name, facts, roads))
    _require_alike([scene.facts for scene in scenes])
    _require_roads(scenes, missed, shared=len(set(labels.values())) < len(labels))
    return scenes


def _require_alike(scenes: list[RasterFacts]) -> None:
    first = scenes[0]
    for facts in scenes:
        if len(facts.bands) != len(first.bands):
            raise DataError(
                f"{facts.path}: {len(facts.bands)} bands, but {first.path} has "
                f"{len(first.bands)}; choose with imagery.bands, or name alike scenes only"
            )


def _require_roads(scenes: list[_Scene], missed: Mapping[str, str], *, shared: bool) -> None:
    """Refuse labels that miss their scene: all scenes, where several share a label file."""
    if missed and not shared:
        raise DataError(next(iter(missed.values())))
    if not any(len(scene.roads.lines) for scene in scenes):
        msg = f"labels.roads: no road line in any of the label files of {len(scenes)} scenes"
        raise DataError(next(iter(missed.values()), msg))
    for scene in scenes:
        if not len(scene.roads.lines):
            logger.warning("%s: no road touches it; all of it is background", scene.facts.path)


def _miss(facts: RasterFacts, roads: Roads, labels: Path) -> str:
    outline = np.array([facts.grid.footprint], dtype=object)
    return (
        f"{labels}: none of its {len(roads.lines)} lines touches {facts.path}: the lines are at "
        f"{extent_degrees(roads.lines, roads.crs)}, the image at "
        f"{extent_degrees(outline, facts.grid.crs)}; check the CRS of both, or the file names"
    )


def _fit_scaling(scenes: Iterable[_Scene], config: Config) -> Scaling:
    samples = []
    for scene in scenes:
        facts = scene.facts
        pixels, valid = read_sample(facts.path, facts.bands, side=_SAMPLE_SIDE_PX)
        samples.append(pixels[:, valid])
    try:
        return fit_scaling(samples, percentiles=config.imagery.percentiles)
    except ValueError as error:
        raise DataError(f"imagery.images: {error}; there is nothing to learn from") from error


def _mask(scene: _Scene, *, buffer_m: float) -> NDArray[np.uint8]:
    grid = scene.facts.grid
    mask = burn_roads(scene.roads.lines, speed_bin(scene.roads.speed_mph), grid, buffer_m=buffer_m)
    mask[~read_valid(scene.facts.path, grid)] = IGNORE
    return mask


def _cut(scene: _Scene, mask: NDArray[np.uint8], *, chip_px: int) -> list[ChipRecord]:
    windows = cut_chips(*mask.shape, chip_px=chip_px)
    chips = []
    for window in windows:
        row, col, height, width = window
        values = mask[row : row + height, col : col + width]
        valid = float((values != IGNORE).mean())
        road = float(((values != IGNORE) & (values != BACKGROUND)).mean())
        cut = "" if len(windows) == 1 else f"_r{row}_c{col}"
        x, y = _centre_m(scene.facts.grid.crop(row, col, height, width))
        zone = scene.facts.grid.metric_epsg
        chips.append(ChipRecord(scene.name + cut, scene.name, window, (x, y), zone, road, valid))
    return [chip for chip in chips if chip.valid_share > 0]


def _centre_m(grid: Grid) -> tuple[float, float]:
    (x, y), *_ = grid.to_metric(np.array([[grid.height / 2, grid.width / 2]]))
    return round(float(x), 3), round(float(y), 3)


def _scene_record(scene: _Scene, labels: Mapping[str, Path]) -> SceneRecord:
    facts = scene.facts
    return SceneRecord(
        scene.name, facts.path.resolve(), labels[scene.name].resolve(), facts.grid.pixel_size_m
    )


def _summary(
    scenes: list[_Scene], chips: int, counts: NDArray[np.int64], dropped: Counter[str]
) -> PrepareSummary:
    km, sources = np.zeros(BINS + 1), Counter[str]()
    for scene in scenes:
        inside = shapely.intersection(scene.roads.lines, scene.facts.grid.footprint_m)
        bins = speed_bin(scene.roads.speed_mph)
        km += np.bincount(bins, shapely.length(inside) / 1000, minlength=BINS + 1)
        sources.update(scene.roads.speed_source.tolist())
    facts = scenes[0].facts
    valid = counts.sum() - counts[IGNORE]
    return PrepareSummary(
        scenes=len(scenes),
        chips=chips,
        bands=len(facts.bands),
        dtypes=sorted({scene.facts.dtype for scene in scenes}),
        gsd_m=round(float(np.mean(facts.grid.pixel_size_m)), 4),
        valid_share=round(float(valid / counts.sum()), 4),
        road_share=round(float(counts[1 : BINS + 1].sum() / max(valid, 1)), 4),
        road_km=round(float(km.sum()), 3),
        road_km_by_speed_bin={str(b): round(float(km[b]), 3) for b in range(1, BINS + 1)},
        roads_by_speed_source=dict(sources),
        dropped=dict(dropped),
    )
