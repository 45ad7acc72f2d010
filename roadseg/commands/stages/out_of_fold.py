"""Out-of-fold predictions: every chip is predicted by the network that held it out."""

import glob
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from roadseg.errors import DataError
from roadseg.learn.inference.jobs import PredictionJob
from roadseg.learn.inference.tasks import SceneToPredict
from roadseg.learn.network.checkpoint_facts import mean_threshold
from roadseg.raster.windows import Rows, Window, cut_chips
from roadseg.roads.masks.probabilities import ProbabilityFile
from roadseg.system.records import key_of
from roadseg.system.text import all_failed
from roadseg.system.workspace import Workspace

_OF_FOLDS = ("ROADSEG_FOLD", "ROADSEG_EPOCH")  # Tags of a raster that differ between its parts.

Parts = dict[int, SceneToPredict]  # A scene as the network of each fold predicts it, by the fold.
Images = dict[str, Path]


@dataclass
class OutOfFold:
    """Prediction of scenes by the networks of several folds.

    A scene whose chips are all in one fold is predicted by the network of that fold; a scene
    without chips, which no network has seen, by the network of fold 0. A scene with chips in
    several folds is predicted by the network of each of these folds, and assembled from their
    chips. Its threshold is the mean of theirs.

    Attributes:
        job_of: function from a fold and an output folder to the job of the fold's network.
        folds: fold of every chip, by scene and window.
        chip_px: largest side of the chips, by scene.
        failed: reasons why scenes were skipped, by name.
    """

    job_of: Callable[[int, Path], PredictionJob]
    workspace: Workspace
    folder: Path
    folds: Mapping[str, Mapping[Window, int]]
    chip_px: Mapping[str, int]
    failed: dict[str, str] = field(default_factory=dict)
    fold: ClassVar[Literal["each"]] = "each"  # The network of each chip held it out.

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders of the networks."""
        folds = sorted({fold for of_scene in self.folds.values() for fold in of_scene.values()})
        return tuple(self.workspace.checkpoint(fold).absolute() for fold in folds)

    def run(self, images: Images, *, force: bool) -> list[SceneToPredict]:
        """Predict the scenes that are not predicted yet; return all that are predicted then.

        Raises:
            DataError: if all scenes fail, or the chips do not fit a scene.
        """
        parts = self._parts(images)
        whole = {name: self._whole(own) for name, own in parts.items()}
        waiting = {
            name: images[name] for name, scene in whole.items() if force or not scene.is_predicted
        }
        for _, job, own in self._jobs(waiting):
            self._run_job(job, own, force=force)
        done = [scene for name, scene in whole.items() if name not in self.failed]
        if not done:
            raise DataError(all_failed(self.failed))
        for scene in done:
            if scene.name in waiting and len(parts[scene.name]) > 1:
                scene.write(self._rows(parts[scene.name]))
                _remove(parts[scene.name])
        return done

    def require_possible(self, scenes: Sequence[SceneToPredict]) -> None:
        """Raise the errors that stop a prediction before it begins, as `PredictionJob` does."""
        self.job_of(0, self.folder).require_possible(scenes)

    def describe(self, images: Images) -> list[SceneToPredict]:
        """Return the scenes that the networks can predict; nothing is predicted."""
        return [self._whole(own) for own in self._parts(images).values()]

    def _jobs(self, images: Images) -> Iterator[tuple[int, PredictionJob, Images]]:
        """Yield for each fold the job on its own scenes, and the job on scenes with other folds.

        The rasters of the latter are parts of scenes, which lie in a folder of the fold.
        """
        of_jobs: dict[tuple[int, Path], Images] = defaultdict(dict)
        for name, image in images.items():
            folds = set(self.folds.get(name, {}).values()) or {0}
            for fold in folds:
                part = self.workspace.fold_probabilities(fold)
                of_jobs[fold, self.folder if len(folds) == 1 else part][name] = image
        for (fold, folder), own in sorted(of_jobs.items()):
            yield fold, self.job_of(fold, folder), own

    def _run_job(self, job: PredictionJob, images: Images, *, force: bool) -> None:
        """Run a job; if all scenes of a fold are skipped, the other folds continue."""
        try:
            job.run(images, force=force)
        except DataError:
            if job.failed.keys() != images.keys():
                raise
        finally:
            self.failed |= job.failed

    def _parts(self, images: Images) -> dict[str, Parts]:
        """Return the parts of each scene; those that a network cannot predict are left out."""
        parts_of: dict[str, Parts] = defaultdict(dict)
        for fold, job, own in self._jobs(images):
            for scene in job.describe(own):
                parts_of[scene.name][fold] = scene
            self.failed |= job.failed
        there = parts_of.keys() - self.failed.keys()
        return {name: parts_of[name] for name in images if name in there}

    def _whole(self, parts: Parts) -> SceneToPredict:
        """Return the scene that is assembled from parts; a single part is the scene."""
        first = next(iter(parts.values()))
        if len(parts) == 1:
            return first
        return replace(
            first,
            path=self.folder.absolute() / f"{first.name}.tif",
            key=key_of(
                {"folds": [[*window, fold] for window, fold in self.folds[first.name].items()]},
                {f"fold {fold}": part.key for fold, part in parts.items()},
            ),
            threshold=mean_threshold(part.threshold for part in parts.values()),
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
    """Yield the provenance of an assembled scene, with the folds and epochs of all its parts."""
    for tags in zip(*(part.tags for part in parts.values()), strict=True):
        name, first = tags[0]
        yield name, ",".join(value for _, value in tags) if name in _OF_FOLDS else first


def _remove(parts: Parts) -> None:
    """Remove the rasters of the parts of a scene, and their folders once these are empty."""
    for part in parts.values():
        for path in part.path.parent.glob(f"{glob.escape(part.name)}.*"):
            path.unlink()
        with suppress(OSError):
            part.path.parent.rmdir()
