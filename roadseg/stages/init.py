"""init: look at images and road labels, and write the config that fits them."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from roadseg.config import Config, crs_setting
from roadseg.core.folds import ground_blocks
from roadseg.core.speeds import SPEED_FIELDS
from roadseg.core.windows import cut_chips
from roadseg.errors import ConfigError, DataError
from roadseg.io.files import whole
from roadseg.io.rasters import RasterFacts, read_facts
from roadseg.io.roads import LabelFile, read_roads
from roadseg.io.sources import find_images, find_labels

_CHIP_SIDES_PX = (1300, 650, 325, 163)
_BLOCK_SIDES_M = (500.0, 250.0, 100.0, 50.0, 25.0)
_CHIPS_PER_FOLD = 2  # at least, where the scenes allow it


@dataclass(frozen=True)
class InitSummary:
    """What init found, and the file it wrote."""

    config: str
    scenes: int
    size_px: tuple[int, int]
    bands: int
    dtype: str
    gsd_m: float
    image_crs: list[str]
    label_files: int
    roads: int
    label_crs: list[str]
    label_keys: list[str]
    matches: dict[str, str]
    dropped: dict[str, int]
    chip_px: int
    chips: int
    block_m: float

    def __str__(self) -> str:
        """Say it in a few lines."""
        rows, cols = self.size_px
        speed_keys = ", ".join(key for key in self.label_keys if key in SPEED_FIELDS)
        left_out = "".join(f"; left out: {n} {reason}" for reason, n in self.dropped.items())
        image, label = next(iter(self.matches.items()))
        lines = {
            "images": f"{self.scenes}, such as {cols} x {rows} px with {self.bands} bands of "
            f"{self.dtype}, {self.gsd_m:.2f} m, {_few(self.image_crs)}",
            "labels": f"{self.roads} lines in {self.label_files} files, {_few(self.label_crs)}"
            + left_out,
            "matches": f"{image} has its roads in {label}"
            + (f", and {self.scenes - 1} more" if self.scenes > 1 else ""),
            "speeds": speed_keys or "no known key, so labels.default_speed_mph for all",
            "chips": f"{self.chips} of at most {self.chip_px} px, split by blocks of "
            f"{self.block_m:g} m",
            "weights": 'from scratch; set train.encoder_weights to "imagenet" where downloads work',
            "wrote": f"{self.config}; next: roadseg run --config {self.config}",
        }
        return "\n".join(f"{name:<8} {text}" for name, text in lines.items())


@dataclass(frozen=True)
class _Found:
    scenes: dict[str, RasterFacts]
    matches: dict[str, Path]
    files: dict[Path, LabelFile]


@dataclass(frozen=True)
class _Cut:
    chip_px: int
    places: list[tuple[int, float, float]]  # EPSG number, x and y of each chip's centre
    block_m: float


def run(
    images: Iterable[str],
    labels: Iterable[str],
    output: Path,
    *,
    settings: Config,
    force: bool = False,
) -> InitSummary:
    """Look at images and labels and write a config for them to `output`.

    What `settings` say beyond images, labels, chips and blocks is kept.
    """
    if output.exists() and not force:
        raise ConfigError(f"{output} exists already; --force overwrites it")
    images, labels = [_absolute(p) for p in images], [_absolute(p) for p in labels]
    found = _look(images, labels, settings)
    cut = _choose_cut(found.scenes, settings.split.folds)
    with whole(output) as partial:
        values = _values(settings, images, labels, cut, folder=output.absolute().parent)
        partial.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
    return _summary(output, found, cut)


def _absolute(path: str) -> str:
    return str(Path(path).expanduser().absolute())


def _look(images: list[str], labels: list[str], settings: Config) -> _Found:
    options = settings.imagery
    crs = crs_setting(options.crs, "imagery.crs")
    scenes = {
        name: read_facts(path, crs=crs, bands=options.bands, gsd_m=options.gsd_m)
        for name, path in find_images(images).items()
    }
    _require_one_kind(scenes)
    matches = find_labels(labels, {name: facts.path for name, facts in scenes.items()})
    speed, crs = settings.labels.default_speed_mph, crs_setting(settings.labels.crs, "labels.crs")
    files = {
        path: read_roads(path, default_mph=speed, crs=crs) for path in sorted(set(matches.values()))
    }
    return _Found(scenes, matches, files)


def _require_one_kind(scenes: Mapping[str, RasterFacts]) -> None:
    kinds = Counter((len(facts.bands), facts.dtype) for facts in scenes.values())
    if len(kinds) == 1:
        return
    examples = [
        next(f"{f.path.name} ({n} bands of {t})" for f in scenes.values() if _kind(f) == (n, t))
        for n, t in kinds
    ]
    raise DataError(
        f"images of {len(kinds)} kinds found, such as {' and '.join(examples[:2])}; "
        "name those of one kind, for example with a glob: --images 'folder/*_MS_*.tif' "
        "(a config can mix types of pixels: list them in imagery.images)"
    )


def _kind(facts: RasterFacts) -> tuple[int, str]:
    return len(facts.bands), facts.dtype


def _choose_cut(scenes: Mapping[str, RasterFacts], folds: int) -> _Cut:
    """Choose the largest chips, then the largest blocks, that still fill the folds."""
    for chip_px in _CHIP_SIDES_PX:
        places = [place for facts in scenes.values() for place in _places(facts, chip_px)]
        if len(set(places)) >= _CHIPS_PER_FOLD * folds:
            break
    zones, centres = [zone for zone, *_ in places], np.array([xy for _, *xy in places])
    wanted = min(_CHIPS_PER_FOLD * folds, len(set(places)))
    for block_m in _BLOCK_SIDES_M:
        if len(set(ground_blocks(centres, zones, block_m=block_m))) >= wanted:
            break
    return _Cut(chip_px, places, block_m)


def _places(facts: RasterFacts, chip_px: int) -> list[tuple[int, float, float]]:
    grid = facts.grid
    windows = np.array(cut_chips(grid.height, grid.width, chip_px=chip_px), dtype=np.float64)
    centres = grid.to_metric(windows[:, :2] + windows[:, 2:] / 2)
    return [(grid.metric_epsg, float(x), float(y)) for x, y in centres.round(3)]


def _values(
    settings: Config, images: list[str], labels: list[str], cut: _Cut, *, folder: Path
) -> dict[str, Any]:
    values = settings.model_dump(mode="json") | {"run": "run"}
    values["imagery"]["images"] = [_short(path, folder) for path in images]
    values["imagery"]["chip_px"] = cut.chip_px
    values["labels"]["roads"] = [_short(path, folder) for path in labels]
    values["split"]["block_m"] = cut.block_m
    values["train"]["window_px"] = min(values["train"]["window_px"], cut.chip_px // 32 * 32)
    return values


def _short(path: str, folder: Path) -> str:
    return str(Path(path).relative_to(folder)) if Path(path).is_relative_to(folder) else path


def _summary(output: Path, found: _Found, cut: _Cut) -> InitSummary:
    first = next(iter(found.scenes.values()))
    files = list(found.files.values())
    return InitSummary(
        config=str(output),
        scenes=len(found.scenes),
        size_px=(first.grid.height, first.grid.width),
        bands=len(first.bands),
        dtype=first.dtype,
        gsd_m=round(float(np.mean(first.grid.pixel_size_m)), 4),
        image_crs=sorted({facts.grid.crs.to_string() for facts in found.scenes.values()}),
        label_files=len(files),
        roads=sum(len(file.roads.lines) for file in files),
        label_crs=sorted({file.roads.crs.to_string() for file in files}),
        label_keys=sorted({key for file in files for key in file.keys}),
        matches={found.scenes[name].path.name: path.name for name, path in found.matches.items()},
        dropped=dict(sum((file.dropped for file in files), Counter[str]())),
        chip_px=cut.chip_px,
        chips=len(cut.places),
        block_m=cut.block_m,
    )


def _few(names: list[str]) -> str:
    shown = 3
    return ", ".join(names[:shown]) + (f", {len(names)} in all" if len(names) > shown else "")
