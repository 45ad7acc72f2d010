"""predict: road probabilities of scenes. Reads checkpoints, writes probabilities/<scene>.tif."""

import itertools
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from roadseg.cluster import Outcome, each
from roadseg.core.estimates import about_memory, about_time, predict_memory_mb
from roadseg.core.scaling import Scaling
from roadseg.core.speeds import SpeedBins
from roadseg.errors import DataError, RoadsegError
from roadseg.fitness import scene_to_predict
from roadseg.io.chips import read_chips
from roadseg.io.masks import read_mask_key
from roadseg.io.mosaic import write_mosaic
from roadseg.io.probabilities import read_key as read_probability_key
from roadseg.io.records import StageRecord, file_facts, key_of, read_json, read_key
from roadseg.io.road_masks import write_road_mask
from roadseg.io.sources import find_images, image_paths
from roadseg.io.strips import require_room
from roadseg.labels import crs_setting
from roadseg.learn.checkpoints import Facts
from roadseg.learn.inference import count_windows, seconds_per_window
from roadseg.prediction import (
    SceneToPredict,
    Task,
    Trained,
    opened,
    predict_task,
    read_alike,
    weights_of,
)
from roadseg.settings import Config
from roadseg.workspace import Workspace, require

logger = logging.getLogger(__name__)

_STRIPS_OF_A_TASK = 2  # each task reads and predicts some rows of windows above it once more
_ROOM = 1.1  # times the strips: what comes of them packs to a tenth, unless it is full of roads
_TURNS = 8  # and flips of a window
_REHEARSED = 400  # windows from which it is worth trying how long one takes
_WEIGHT_BYTES = 4
_BAR = "{desc}: {percentage:3.0f}%|{bar}| {n:.3f}/{total:.3f} km2 [{elapsed}<{remaining}]"


@dataclass(frozen=True)
class PredictSummary:
    """What was predicted."""

    checkpoint: str
    fold: int | None
    scenes: list[str]
    megapixels: float
    folder: str
    failed: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """Say it in a sentence."""
        skipped = f"; {len(self.failed)} skipped" if self.failed else ""
        return (
            f"{len(self.scenes)} scenes, {self.megapixels:.1f} megapixels{skipped}; {self.folder}"
        )


def run(
    config: Config,
    workspace: Workspace,
    *,
    fold: int,
    force: bool = False,
    shard: tuple[int, int] | None = None,
) -> PredictSummary:
    """Predict the scenes of the run: those with chips held out by the fold, or all of them.

    A shard is a part of the work: it leaves no record, which is for the command without one.
    """
    trained = read_key(require(workspace.train_record(fold), made_by=f"train --fold {fold}"))
    record = StageRecord(
        workspace.record("predict"),
        settings=config.predict.model_dump(mode="json") | {"fold": fold},
        inputs=[trained],
    )
    if not force and (done := record.summary()) and not done.get("failed"):
        return PredictSummary(**done)
    scenes = _scenes_of(config, workspace, fold)
    job = _Job(config, (workspace.checkpoint(fold),), workspace.probabilities)
    if shard is not None:
        return job.run(_nth(scenes, shard), force=force)
    record.begin()
    summary = job.run(scenes, force=force)
    record.finish(asdict(summary))
    return summary


def run_images(
    config: Config,
    images: Iterable[str],
    *,
    checkpoints: Sequence[Path],
    output: Path,
    mosaic: str | None = None,
    force: bool = False,
    shard: tuple[int, int] | None = None,
) -> PredictSummary:
    """Predict any images with checkpoint folders, whose probabilities are averaged.

    Args:
        config: settings of the prediction.
        images: files, folders or globs.
        checkpoints: folders of networks that were trained alike.
        output: folder for the results.
        mosaic: name of the one scene that all images are adjoining tiles of; None if they are
            scenes of their own.
        force: whether to predict again what is there.
        shard: number of a part, from 1, and number of parts: every so many-th scene only.
    """
    if mosaic is None:
        scenes = find_images(images)
    else:
        scenes = {mosaic: output / f"{mosaic}.vrt"}
        crs = crs_setting(config.imagery.crs, "imagery.crs")
        write_mosaic(scenes[mosaic], image_paths(images), crs=crs)
    return _Job(config, tuple(checkpoints), output).run(_nth(scenes, shard), force=force)


def _scenes_of(config: Config, workspace: Workspace, fold: int) -> dict[str, Path]:
    listed, folds = read_chips(workspace.chips), read_json(workspace.folds)
    held_out = {chip.scene for chip in listed.chips if folds[chip.name] == fold}
    return {
        scene.name: scene.image
        for scene in listed.scenes
        if config.predict.scenes == "all" or scene.name in held_out
    }


def _nth(scenes: dict[str, Path], shard: tuple[int, int] | None) -> dict[str, Path]:
    number, count = shard or (1, 1)
    return dict(sorted(scenes.items())[number - 1 :: count])


class _Job:
    """Scenes to predict with some checkpoints, into a folder."""

    def __init__(self, config: Config, checkpoints: tuple[Path, ...], folder: Path) -> None:
        self._config = config
        self._folder = folder
        self._folders = tuple(path.absolute() for path in checkpoints)
        self._failed: dict[str, str] = {}

    def run(self, images: dict[str, Path], *, force: bool) -> PredictSummary:
        """Predict all of them that are not there yet."""
        trained = read_alike(self._folders)
        scenes = list(self._fitting(images, trained))
        waiting = [s for s in scenes if force or read_probability_key(s.path) != s.key]
        for scene in waiting:
            if force:
                scene.strips.remove()
            require_room(scene.path, int(_ROOM * scene.strips.missing_bytes))
        self._predict(waiting, windows=sum(map(self._windows, scenes)))
        done = [scene for scene in scenes if scene.name not in self._failed]
        for scene in done:
            self._mask(scene)
        if self._failed and not done:
            first = next(iter(self._failed.values()))
            raise DataError(f"all {len(images)} scenes failed, the first: {first}")
        return PredictSummary(
            checkpoint=", ".join(map(str, self._folders)),
            fold=trained[0].get("fold") if len(trained) == 1 else None,
            scenes=[scene.name for scene in done],
            megapixels=sum(s.facts.grid.height * s.facts.grid.width for s in done) / 1e6,
            folder=str(self._folder),
            failed=self._failed,
        )

    def _fitting(
        self, images: dict[str, Path], trained: Sequence[Facts]
    ) -> Iterator[SceneToPredict]:
        """Give the scenes that the networks can predict."""
        options = self._config.predict
        scaling = Scaling.from_json(trained[0]["scaling"])
        bins = SpeedBins(tuple(trained[0]["bin_edges"]), trained[0]["bin_unit"])
        for name, image in images.items():
            try:
                facts = scene_to_predict(
                    image.absolute(),
                    trained[0],
                    scaling,
                    imagery=self._config.imagery,
                    gsd=options.gsd,
                )
            except RoadsegError as error:
                self._fail(name, error)
                continue
            settings = options.model_dump(mode="json", exclude={"scenes", "mask"}) | {
                "bands": facts.bands,
                "nodata": facts.nodata,
                "size": (facts.grid.height, facts.grid.width),
            }
            key = key_of(settings, file_facts([image, *map(weights_of, self._folders)]))
            path = self._folder.absolute() / f"{name}.tif"
            yield SceneToPredict(name, facts, path, key, bins, _tags(image, trained))

    def _predict(self, scenes: Sequence[SceneToPredict], *, windows: int) -> None:
        """Predict scenes here, in processes, or on a cluster; finish each when it is whole."""
        compute = self._config.compute
        pieces = list(_pieces(scenes, shared=compute.scheduler is not None or compute.workers > 1))
        processes = 1 if compute.scheduler else max(1, min(compute.workers, len(pieces)))
        here = compute.scheduler is None and processes == 1
        trained = self._trained(windows, processes)
        tasks = [Task(*piece, trained) for piece in pieces]
        if tasks:
            self._announce(tasks, here=here)
        left = Counter(task.scene.name for task in tasks)
        total = sum(task.km2 for task in tasks)
        with tqdm(total=total, desc="predict", disable=None, leave=False, bar_format=_BAR) as bar:
            work = partial(predict_task, told=bar.update) if here else predict_task
            for outcome in each(work, tasks, workers=processes, scheduler=compute.scheduler):
                task = tasks[outcome.index]
                left[task.scene.name] -= 1
                if not here:
                    bar.update(task.km2)
                self._end(task, outcome, is_last=not left[task.scene.name])
        opened.cache_clear()

    def _trained(self, windows: int, processes: int) -> Trained:
        return Trained(
            folders=self._folders,
            stamps=tuple(file_facts(map(weights_of, self._folders))),
            options=self._config.predict,
            compute=self._config.compute,
            windows=windows * (_TURNS if self._config.predict.tta else 1),
            processes=processes,
        )

    def _windows(self, scene: SceneToPredict) -> int:
        options, grid = self._config.predict, scene.facts.grid
        sides = {"window_px": options.window_px, "overlap_px": options.overlap_px}
        return count_windows(grid.height, grid.width, **sides)

    def _announce(self, tasks: Sequence[Task], *, here: bool) -> None:
        """Say before the start what is to be done, what memory it takes, and here how long."""
        trained, scenes = tasks[0].trained, {task.scene.name: task.scene for task in tasks}
        megapixels, km2 = sum(t.pixels for t in tasks) / 1e6, sum(t.km2 for t in tasks)
        memory = about_memory(max(self._memory_mb(scene) for scene in scenes.values()))
        parts = [
            f"{len(scenes)} scenes, {megapixels:.1f} megapixels, {km2:.3f} km2",
            memory if here else f"{memory} in each process",
        ]
        if here and megapixels:
            engine = opened(trained).engine
            parts.append(engine.reason)
            windows = sum(self._windows(scene) * _missing(scene) for scene in scenes.values())
            if windows >= _REHEARSED:
                seconds = seconds_per_window(engine, bands=len(tasks[0].scene.facts.bands))
                parts.append(about_time(seconds * windows))
        logger.info("to predict: %s", "; ".join(parts))

    def _memory_mb(self, scene: SceneToPredict) -> float:
        facts, options = scene.facts, self._config.predict
        weights = sum(weights_of(folder).stat().st_size for folder in self._folders)
        return predict_memory_mb(
            width=facts.grid.width,
            bands=len(facts.bands),
            band_bytes=np.dtype(facts.dtype).itemsize,
            classes=len(scene.bins.band_names),
            window_px=options.window_px,
            overlap_px=options.overlap_px,
            batch_size=options.batch_size,
            parameters=weights // _WEIGHT_BYTES,
        )

    def _end(self, task: Task, outcome: Outcome[None], *, is_last: bool) -> None:
        """Finish a scene of which several tasks made the strips, or note why it failed."""
        try:
            if outcome.error is not None:
                raise outcome.error
            if is_last and not task.is_all and task.scene.name not in self._failed:
                task.scene.write([])
        except RoadsegError as error:
            self._fail(task.scene.name, error)

    def _fail(self, name: str, error: RoadsegError) -> None:
        if self._config.compute.on_error == "stop":
            raise error
        logger.warning("skipped %s: %s", name, error)
        self._failed.setdefault(name, str(error))

    def _mask(self, scene: SceneToPredict) -> None:
        """Write the mask of a scene, if it is wanted and not there."""
        if self._config.predict.mask:
            threshold = self._config.graph.threshold
            key = key_of({"threshold": threshold}, [scene.key])
            path = self._folder / "road_masks" / f"{scene.name}.tif"
            if read_mask_key(path) != key:
                write_road_mask(scene.path, path, threshold=threshold, key=key)


def _missing(scene: SceneToPredict) -> float:
    """Return the share of a scene that is not in strips yet."""
    return sum(map(len, scene.strips.missing)) / scene.facts.grid.height


def _pieces(
    scenes: Iterable[SceneToPredict], *, shared: bool
) -> Iterator[tuple[SceneToPredict, tuple[range, ...], bool]]:
    """Cut what is missing of scenes into the work of several processes, or of one.

    Yields:
        A scene, rows of it, and whether these are all that are missing.
    """
    for scene in scenes:
        missing = scene.strips.missing
        size = _STRIPS_OF_A_TASK if shared else max(len(missing), 1)
        for first in range(0, max(len(missing), 1), size):
            yield scene, tuple(_joined(missing[first : first + size])), len(missing) <= size


def _joined(strips: Sequence[range]) -> Iterator[range]:
    """Join the rows of strips that follow each other."""
    start: int | None = None
    for strip, following in itertools.zip_longest(strips, strips[1:]):
        start = strip.start if start is None else start
        if following is None or following.start != strip.stop:
            yield range(start, strip.stop)
            start = None


def _tags(image: Path, trained: Sequence[Facts]) -> tuple[tuple[str, str], ...]:
    """Return the provenance that a raster of probabilities keeps."""

    def listed(values: Iterable[Any]) -> str:
        return ",".join(map(str, values))

    return (
        ("ROADSEG_SOURCE", image.name),
        ("ROADSEG_FOLD", listed(facts.get("fold") for facts in trained)),
        ("ROADSEG_EPOCH", listed(facts["epoch"] for facts in trained)),
        ("ROADSEG_VERSION", str(trained[0]["versions"]["roadseg"])),
    )
