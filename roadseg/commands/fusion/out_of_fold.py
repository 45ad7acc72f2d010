"""Out-of-fold maps: every chip by the network that held it out."""

import glob
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np

from roadseg.errors import DataError
from roadseg.learn.inference.jobs import PredictionJob
from roadseg.learn.inference.tasks import SceneToPredict
from roadseg.raster.windows import Rows, Window, cut_chips
from roadseg.roads.masks.probabilities import ProbabilityFile
from roadseg.system.records import key_of
from roadseg.system.text import count
from roadseg.system.workspace import Workspace

_OF_FOLDS = ("ROADSEG_FOLD", "ROADSEG_EPOCH")  # Tags of a raster that differ between its parts.

Parts = dict[int, SceneToPredict]  # A scene as the network of each fold predicts it, by the fold.
Images = dict[str, Path]


@dataclass
class OutOfFold:
    """Prediction of scenes by the networks of several folds.

    A scene whose chips are all of one fold is predicted by the network of that fold; one without
    chips, which no network has seen, by the first. A scene with chips of several folds is predicted
    by the network of each, and put together of their chips. Its threshold is the mean of theirs.

    Attributes:
        job_of: returns the job of the network of a fold, into a folder.
        folds: the fold of every chip of a scene, by its window.
        chip_px: largest side of the chips of a scene.
        failed: scenes that were skipped, and why.
    """

    job_of: Callable[[int, Path], PredictionJob]
    workspace: Workspace
    folder: Path
    folds: Mapping[str, Mapping[Window, int]]
    chip_px: Mapping[str, int]
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders of the networks."""
        folds = sorted({fold for of_scene in self.folds.values() for fold in of_scene.values()})
        return tuple(self.workspace.checkpoint(fold).absolute() for fold in folds)

    @property
    def fold(self) -> Literal["each"]:
        """What was held out."""
        return "each"

    def run(self, images: Images, *, force: bool) -> list[SceneToPredict]:
        """Predict those that are not there yet; return those that are there now.

        Raises:
            DataError: if none is, or the chips are not those of a scene.
        """
        one, several = self._parted(images)
        done = [
            scene
            for fold, own in one.items()
            for scene in self._run_job(self._job(fold), own, force=force)
        ]
        done += self._put_together(several, force=force)
        if not done:
            first = next(iter(self.failed.values()))
            raise DataError(f"all {count(len(images), 'scene')} failed, the first: {first}")
        by_name = {scene.name: scene for scene in done}
        return [by_name[name] for name in images if name in by_name]

    def memory_mb(self, scenes: Sequence[SceneToPredict]) -> float | None:
        """Return the memory that predicting scenes takes, as `PredictionJob` does."""
        return self._job(0).memory_mb(scenes)

    def describe(self, images: Images) -> list[SceneToPredict]:
        """Return the scenes that the networks can predict, without predicting them."""
        one, several = self._parted(images)
        described = {name: self._whole(of) for name, of in self._parts(several).items()}
        for fold, own in one.items():
            job = self._job(fold)
            described |= {scene.name: scene for scene in job.describe(own)}
            self.failed |= job.failed
        return [described[name] for name in images if name in described]

    def _parted(self, images: Images) -> tuple[dict[int, Images], Images]:
        """Return the scenes of one fold by it, and those with chips of several."""
        one: dict[int, Images] = defaultdict(dict)
        several: Images = {}
        for name, image in images.items():
            folds = set(self.folds.get(name, {}).values()) or {0}
            if len(folds) == 1:
                one[folds.pop()][name] = image
            else:
                several[name] = image
        return dict(sorted(one.items())), several

    def _by_fold(self, images: Images) -> dict[int, Images]:
        """Return scenes with chips of several folds by each of these."""
        of_folds: dict[int, Images] = defaultdict(dict)
        for name, image in images.items():
            for fold in set(self.folds[name].values()):
                of_folds[fold][name] = image
        return dict(sorted(of_folds.items()))

    def _job(self, fold: int) -> PredictionJob:
        return self.job_of(fold, self.folder)

    def _part_job(self, fold: int) -> PredictionJob:
        return self.job_of(fold, self.workspace.fold_probabilities(fold))

    def _run_job(self, job: PredictionJob, images: Images, *, force: bool) -> list[SceneToPredict]:
        """Run a job; if all scenes of a fold are skipped, the other folds continue."""
        try:
            return job.run(images, force=force)
        except DataError:
            if job.failed.keys() != images.keys():
                raise
            return []
        finally:
            self.failed |= job.failed

    def _put_together(self, images: Images, *, force: bool) -> list[SceneToPredict]:
        """Predict scenes with chips of several folds; return those that are there now."""
        parts = self._parts(images)
        whole = {name: self._whole(of) for name, of in parts.items()}
        waiting = {name for name, scene in whole.items() if force or not scene.is_there}
        for fold, own in self._by_fold(
            {name: images[name] for name in images if name in waiting}
        ).items():
            self._run_job(self._part_job(fold), own, force=force)
        done = [scene for name, scene in whole.items() if name not in self.failed]
        for scene in done:
            if scene.name in waiting:
                scene.write(self._rows(parts[scene.name]))
                _remove(parts[scene.name])
        return done

    def _parts(self, images: Images) -> dict[str, Parts]:
        """Return the parts of each scene; those that a network cannot predict are left out."""
        parts_of: dict[str, Parts] = defaultdict(dict)
        for fold, own in self._by_fold(images).items():
            job = self._part_job(fold)
            for scene in job.describe(own):
                parts_of[scene.name][fold] = scene
            self.failed |= job.failed
        return {name: parts for name, parts in parts_of.items() if name not in self.failed}

    def _whole(self, parts: Parts) -> SceneToPredict:
        """Return the scene that is put together of parts."""
        first = next(iter(parts.values()))
        thresholds = [part.threshold for part in parts.values()]
        measured = [threshold for threshold in thresholds if threshold is not None]
        return replace(
            first,
            path=self.folder.absolute() / f"{first.name}.tif",
            key=key_of(
                {"folds": [[*window, fold] for window, fold in self.folds[first.name].items()]},
                {f"fold {fold}": part.key for fold, part in parts.items()},
            ),
            threshold=round(statistics.fmean(measured), 4) if measured == thresholds else None,
            tags=tuple(_tags(parts)),
        )

    def _rows(self, parts: Parts) -> Iterator[Rows]:
        """Yield the chips of a scene, each from the part of its fold."""
        scene = next(iter(parts.values()))
        folds, grid = self.folds[scene.name], scene.facts.grid
        windows = cut_chips(grid.height, grid.width, chip_px=self.chip_px[scene.name])
        if not folds.keys() <= set(windows):
            raise DataError(
                f"{scene.path}: its size ({grid.width} x {grid.height} pixels) differs from that "
                "of the prepared chips; run `roadseg prepare --force`"
            )
        with ExitStack() as opened:
            files = {
                fold: opened.enter_context(
                    ProbabilityFile(part.path, grid, part.bins, is_mask=False).opened()
                )
                for fold, part in parts.items()
            }
            for window in windows:
                # What is in no chip has no data.
                file = files[folds.get(window, min(files))]
                road, bins = file.read_all(window)
                values = road[np.newaxis] if bins is None else np.concatenate([bins, road[None]])
                yield Rows(window.row, values, file.read_valid(window), window.col)


def _tags(parts: Parts) -> Iterator[tuple[str, str]]:
    """Yield the provenance of a scene that is put together; folds and epochs are listed."""
    for tags in zip(*(part.tags for part in parts.values()), strict=True):
        name, first = tags[0]
        yield name, ",".join(value for _, value in tags) if name in _OF_FOLDS else first


def _remove(parts: Parts) -> None:
    """Remove the rasters of the parts of a scene, and their folders with the last one."""
    for part in parts.values():
        for path in part.path.parent.glob(f"{glob.escape(part.name)}.*"):
            path.unlink()
        with suppress(OSError):
            part.path.parent.rmdir()
