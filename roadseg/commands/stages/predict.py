"""predict: road probabilities of scenes. Reads checkpoints, writes probabilities/<scene>.tif."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from roadseg.commands.stages.declared_stages import declared_stage, fold_numbers
from roadseg.commands.stages.out_of_fold import OutOfFold
from roadseg.config import Config
from roadseg.dataset.chips import ChipList, ChipRecord, read_chips
from roadseg.dataset.fold_files import read_fold_chips, read_folds
from roadseg.dataset.scene_parts import images_in_area, scenes_in_area
from roadseg.errors import DataError, MissingInputError
from roadseg.learn.inference.jobs import PredictionJob
from roadseg.learn.inference.tasks import SceneToPredict
from roadseg.learn.network.checkpoint_facts import checkpoint_path
from roadseg.learn.network.installed_weights import checkpoint_folder
from roadseg.roads.masks.mask_files import read_raster_key, write_road_mask
from roadseg.system.dry_runs import Plan
from roadseg.system.records import key_of
from roadseg.system.stage_records import Reason, read_record
from roadseg.system.text import Summary, count
from roadseg.system.workspace import Fold, FoldOrEach, Workspace

if TYPE_CHECKING:
    from roadseg.raster.windows import Window

AnyJob = PredictionJob | OutOfFold


@dataclass(frozen=True)
class PredictSummary(Summary):
    """Figures of a prediction.

    Attributes:
        checkpoint: folders of the networks.
        fold: fold that the network held out; "each" if every chip was predicted by the network
            that held it out; None if the probabilities of several networks were averaged.
        scenes: names of the predicted scenes.
        failed: reasons why scenes were skipped, by name.
        outside: number of images left out because they lie outside of the area to work in.
    """

    checkpoint: str
    fold: Fold | FoldOrEach | None
    scenes: list[str]
    megapixels: float
    folder: str
    failed: dict[str, str] = field(default_factory=dict)
    outside: int = 0

    def __str__(self) -> str:
        """Return the figures as a sentence."""
        scenes = count(len(self.scenes), "scene")
        skipped = f"; {count(len(self.failed), 'scene')} skipped" if self.failed else ""
        if self.outside:
            skipped += f"; {count(self.outside, 'image')} outside of the area"
        return f"{scenes}, {self.megapixels:.1f} megapixels{skipped}; {self.folder}"


def run(
    config: Config,
    workspace: Workspace,
    *,
    fold: Fold | FoldOrEach,
    force: bool = False,
    shard: tuple[int, int] | None = None,
) -> PredictSummary:
    """Predict the scenes of the run: those with held-out chips of the fold, or all of them.

    With fold "each", every chip is predicted by the network that held it out, so that no network
    predicts chips on which it was trained.

    A shard is a part of the scenes, and leaves no record: a command without shards makes it, which
    finds the rasters of all shards.
    """
    stage = declared_stage("predict", config, workspace, fold)
    if done := stage.summary(PredictSummary, force=force):
        return done
    work = _work_of_run(config, workspace, fold, shard)
    if shard is None:
        stage.begin()
    else:
        stage.path.unlink(missing_ok=True)  # That of an earlier prediction does not count any more.
    summary, outputs = work.run(config, force=force)
    if shard is None:
        stage.finish(summary, outputs)
    return summary


@dataclass(frozen=True)
class _Work:
    """Scenes to predict, the job on them, and the number of images outside of the area."""

    job: AnyJob
    scenes: dict[str, Path]
    outside: int

    def run(self, config: Config, *, force: bool) -> tuple[PredictSummary, list[Path]]:
        """Predict scenes, and write their masks if `predict.mask` is set.

        Returns:
            The summary, and the files without which the stage has to run again.
        """
        job = self.job
        done = job.run(self.scenes, force=force)
        outputs = [scene.path for scene in done]
        for scene in done if config.predict.mask else ():
            outputs.append(job.folder / "road_masks" / f"{scene.name}.tif")
            _write_mask(config, outputs[-1], scene)
        summary = PredictSummary(
            checkpoint=", ".join(map(str, job.folders)),
            fold=job.fold,
            scenes=[scene.name for scene in done],
            megapixels=sum(scene.facts.pixels for scene in done) / 1e6,
            folder=str(job.folder),
            failed=job.failed,
            outside=self.outside,
        )
        return summary, outputs

    def waiting(self, *, force: bool) -> list[SceneToPredict]:
        """Return the scenes that are left to predict; raise errors that would stop it."""
        described = self.job.describe(self.scenes)
        return [scene for scene in described if force or not scene.is_predicted]

    def megapixels_left(self, *, force: bool) -> float:
        """Return the megapixels of the scenes that are left to predict."""
        return sum(scene.facts.pixels for scene in self.waiting(force=force)) / 1e6


def megapixels_left(config: Config, workspace: Workspace, *, fold: Fold, force: bool) -> float:
    """Return the megapixels of the scenes of the run that are left to predict."""
    return _work_of_run(config, workspace, fold).megapixels_left(force=force)


def run_images(
    config: Config,
    images: Iterable[str],
    *,
    checkpoints: Sequence[Path],
    output: Path,
    force: bool = False,
    shard: tuple[int, int] | None = None,
) -> PredictSummary:
    """Predict any images with checkpoint folders, whose probabilities are averaged.

    Args:
        checkpoints: folders of networks that were trained in the same way; `starter` is the
            network that comes with roadseg.
        shard: number of this shard, from 1, and number of shards; each has every N-th scene.
    """
    work = _work_of_images(config, images, checkpoints, output, shard)
    summary, _ = work.run(config, force=force)
    return summary


def megapixels_left_of_images(
    config: Config, images: Iterable[str], checkpoint: Path, *, output: Path, force: bool
) -> float:
    """Return the megapixels of the images that a network has not predicted yet."""
    return _work_of_images(config, images, [checkpoint], output, None).megapixels_left(force=force)


def _write_mask(config: Config, path: Path, scene: SceneToPredict) -> None:
    """Write the mask of a scene, unless it is up to date."""
    threshold = config.graph.threshold_for(scene.threshold)
    key = key_of({"threshold": threshold}, {"probability": scene.key})
    if read_raster_key(path) != key:
        write_road_mask(scene.path, path, threshold=threshold, key=key)


def default_fold(config: Config, workspace: Workspace) -> FoldOrEach:
    """Return how scenes of a run are predicted: "each" if every fold is trained, else fold 0."""
    try:
        _ = declared_stage("predict", config, workspace, "each").made_from
    except (DataError, MissingInputError):
        return 0
    return "each"


def default_checkpoints(workspace: Workspace, fold: Fold | FoldOrEach | None) -> list[Path]:
    """Return the folders of the networks of a run that predict images from elsewhere.

    Args:
        fold: fold whose network to use; "each" for the networks of all folds; None for the network
            trained on all folds or, if there is none, that of fold 0.

    Raises:
        MissingInputError: if a network is not trained.
    """
    folds = fold_numbers(workspace) if fold == "each" else [fold]
    return [_default_checkpoint(workspace, number) for number in folds]


def _default_checkpoint(workspace: Workspace, fold: Fold | None) -> Path:
    """Return the folder of one network; refuse a network that is not trained."""
    if fold is None:
        record = read_record(workspace.train_record("all"))
        is_done = record is None or record.is_done  # A folder that was copied has no record.
        of_all = checkpoint_path(workspace.checkpoint("all"), "best")
        fold = "all" if is_done and of_all.is_file() else 0
    folder = workspace.checkpoint(fold)
    if not (weights := checkpoint_path(folder, "best")).is_file():
        raise MissingInputError(
            f"{weights} does not exist; run `roadseg train --fold {fold}` first, or "
            "use the folder of another network with --checkpoint"
        )
    return folder


def plan(
    config: Config,
    workspace: Workspace,
    reason: Reason,
    *,
    fold: Fold | FoldOrEach,
    force: bool = False,
    shard: tuple[int, int] | None = None,
) -> Plan:
    """Return what `run` would do, for a reason."""
    work = _work_of_run(config, workspace, fold, shard)
    waiting = work.waiting(force=force)
    work.job.require_possible(waiting)
    return declared_stage("predict", config, workspace, fold).plan(
        reason,
        writes=[scene.path for scene in waiting],
        now=sum(scene.facts.pixels for scene in waiting) / 1e6,
    )


def plan_images(
    config: Config,
    images: Iterable[str],
    *,
    checkpoints: Sequence[Path],
    output: Path,
    force: bool = False,
    shard: tuple[int, int] | None = None,
) -> Plan:
    """Return what `run_images` would do."""
    work = _work_of_images(config, images, checkpoints, output, shard)
    waiting = work.waiting(force=force)
    work.job.require_possible(waiting)
    return Plan(
        "predict",
        runs=bool(waiting),
        why=f"{count(len(waiting), 'image')} given" if waiting else "all outputs exist",
        writes=[str(scene.path) for scene in waiting],
    )


def _work_of_run(
    config: Config,
    workspace: Workspace,
    fold: Fold | FoldOrEach,
    shard: tuple[int, int] | None = None,
) -> _Work:
    """Return the work on scenes of the run, each read with the options of its set."""
    listed = read_chips(workspace.chips)
    imagery_of = config.imagery_of(listed.set_of)
    chips: Iterable[ChipRecord] = listed.chips
    if fold != "each":
        chips = read_fold_chips(workspace, listed.chips, fold).held_out
    held_out = {chip.scene for chip in chips}
    images = {
        scene.name: scene.image
        for scene in listed.scenes
        if config.predict.scenes == "all" or scene.name in held_out
    }

    def job_of(number: Fold, folder: Path) -> PredictionJob:
        return _job(config, [workspace.checkpoint(number)], folder, listed)

    touched = scenes_in_area(images, imagery_of, area_setting=config.imagery.area)
    folder = workspace.probabilities
    if fold != "each":
        return _work(job_of(fold, folder), touched, shard)
    chip_px = {name: imagery.chip_px for name, imagery in imagery_of.items()}
    fold_of = read_folds(workspace.folds, listed.chips)
    folds: dict[str, dict[Window, int]] = {}
    for chip in listed.chips:
        folds.setdefault(chip.scene, {})[chip.window] = fold_of[chip.name]
    return _work(OutOfFold(job_of, workspace, folder, folds, chip_px), touched, shard)


def _work_of_images(
    config: Config,
    images: Iterable[str],
    checkpoints: Sequence[Path],
    output: Path,
    shard: tuple[int, int] | None,
) -> _Work:
    """Return the work on any images."""
    networks = list(map(checkpoint_folder, checkpoints))
    touched = images_in_area(images, config.imagery)
    return _work(_job(config, networks, output), touched, shard)


def _work(
    job: AnyJob, touched: tuple[dict[str, Path], int], shard: tuple[int, int] | None
) -> _Work:
    """Return the work of a job on the scenes of a shard, or on all scenes without a shard.

    Args:
        touched: images of the scenes in the area to work in, and number of images outside.
    """
    scenes, outside = touched
    number, parts = shard or (1, 1)
    return _Work(job, dict(sorted(scenes.items())[number - 1 :: parts]), outside)


def _job(
    config: Config, checkpoints: Sequence[Path], folder: Path, listed: ChipList | None = None
) -> PredictionJob:
    return PredictionJob(
        tuple(checkpoints),
        folder,
        imagery=config.imagery,
        predict=config.predict,
        compute=config.compute,
        imagery_of=config.imagery_of(listed.set_of) if listed else None,
        set_of=listed.set_of if listed else None,
        part_of={scene.name: scene.part for scene in listed.scenes} if listed else None,
    )
