"""prepare: scenes and road labels to masks. Writes masks/, chips.json, scaling.json, quality/."""

import logging
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from roadseg.config import Config
from roadseg.dataset.chips import SceneRecord, read_chips, write_chips
from roadseg.dataset.quality import (
    ExampleTask,
    PrepareSummary,
    choose_examples,
    make_example,
    shift_text,
    summarise,
)
from roadseg.dataset.scene_records import SceneFound
from roadseg.dataset.scenes import PreparedScene, SceneTask, prepare_scene
from roadseg.dataset.shifts import WORTH_M, combine_shifts
from roadseg.errors import ConfigError, DataError
from roadseg.learn.options import ComputeOptions
from roadseg.raster.images import scene_facts
from roadseg.raster.scaling import Scaling, filled_share, fit_scaling, write_scaling
from roadseg.raster.sources import find_images, find_labels
from roadseg.report.plots.sheets import write_sheets
from roadseg.system.dry_runs import Amount, Plan, files, plan_stage
from roadseg.system.files import is_virtual
from roadseg.system.fingerprints import fingerprints
from roadseg.system.parallel import Executor, Outcome, each
from roadseg.system.progress import counted
from roadseg.system.stage_records import StageRecord
from roadseg.system.workspace import Workspace

logger = logging.getLogger(__name__)

_SAMPLE_PX = 2**20  # pixels of all scenes together that the scaling is found from
_SAMPLE_OF_A_SCENE_PX = 2**10  # at least
_DULL = 1 / 8  # of the scaling's range: 8 bits among 11


def run(config: Config, workspace: Workspace, *, force: bool = False) -> PrepareSummary:
    """Make the mask of every scene from its labels, and cut the scenes into chips."""
    images, labels = _sources(config, workspace)
    held = fingerprints([*images.values(), *labels.values()])
    record = _record(config, workspace, images, labels, held)
    if not force and (done := record.summary()):
        _name_again(workspace, images, labels, done, record)
        return done
    record.begin()
    tasks = _tasks(config, workspace, images, labels, held, force=force)
    prepared, failed = _prepare_all(tasks, config.compute)
    found = [scene.found for scene in prepared]
    _require_alike(found, images)
    _require_roads(found, labels)
    scaling = _fit_scaling(prepared, config)
    _tell_dull(prepared, images, scaling)
    bins = config.labels.bins
    scenes = [SceneRecord(s.name, images[s.name], labels[s.name], s.gsd_m) for s in found]
    write_scaling(workspace.scaling, scaling)
    write_chips(workspace.chips, scenes, [chip for scene in found for chip in scene.chips], bins)
    quality = _look(config, workspace, scenes, found, scaling)
    summary = summarise(found, labels, bins=bins, failed=failed, **quality)
    if summary.shift_m and math.hypot(*summary.shift_m) > WORTH_M:
        logger.warning("%s; look at %s", shift_text(summary.shift_m), workspace.quality)
    record.finish(summary, _outputs(workspace, summary, images))
    return summary


def plan(config: Config, workspace: Workspace, *, force: bool = False) -> Plan:
    """Say what `run` would do; of the images only the headers are read."""
    images, labels = _sources(config, workspace)
    held = fingerprints([*images.values(), *labels.values()])
    found = plan_stage(
        _record(config, workspace, images, labels, held),
        workspace.record("prepare"),
        PrepareSummary,
        force=force,
        reads=[files("images", images.values()), files("labels", set(labels.values()))],
        writes=[workspace.masks, workspace.chips, workspace.scaling, workspace.quality],
        amount=Amount(len(images), lambda done: done.scenes, "scenes"),
    )
    if found.runs and config.compute.on_error == "stop":
        for image in counted(images.values(), "look at", total=len(images), unit="images"):
            scene_facts(image, config.imagery)
    return found


def _sources(config: Config, workspace: Workspace) -> tuple[dict[str, Path], dict[str, Path]]:
    """Find the image and the label file of every scene.

    Raises:
        ConfigError: if the run folder is the one that they lie in.
    """
    images = find_images(config.imagery.images)
    labels = find_labels(config.labels.roads, images)
    run = workspace.root.resolve()
    for path in (*images.values(), *labels.values()):
        if not is_virtual(path) and path.parent.resolve() == run:
            raise ConfigError(
                f"run: {workspace.root} holds {path.name}, expected a folder for outputs alone; "
                "name another one (`run` of the config, or --run)"
            )
    return images, labels


def _record(
    config: Config,
    workspace: Workspace,
    images: Mapping[str, Path],
    labels: Mapping[str, Path],
    held: Mapping[Path, str],
) -> StageRecord[PrepareSummary]:
    return StageRecord(
        workspace.record("prepare"),
        PrepareSummary,
        settings={
            "imagery": config.imagery.model_dump(mode="json", exclude={"licence", "images"}),
            "labels": config.labels.model_dump(mode="json", exclude={"licence", "roads"}),
        },
        inputs={
            **{f"image of {name}": held[path] for name, path in images.items()},
            **{f"labels of {name}": held[path] for name, path in labels.items()},
        },
    )


def _name_again(
    workspace: Workspace,
    images: Mapping[str, Path],
    labels: Mapping[str, Path],
    done: PrepareSummary,
    record: StageRecord[PrepareSummary],
) -> None:
    """Name images and labels in chips.json where they lie now, if they have moved."""
    listed = read_chips(workspace.chips)
    scenes = [replace(s, image=images[s.name], labels=labels[s.name]) for s in listed.scenes]
    if scenes != list(listed.scenes):
        write_chips(workspace.chips, scenes, listed.chips, listed.bins)
        record.finish(done, _outputs(workspace, done, images))


def _outputs(
    workspace: Workspace, summary: PrepareSummary, images: Mapping[str, Path]
) -> list[Path]:
    names = [name for name in images if name not in summary.failed]
    masks = [place(name) for name in names for place in (workspace.mask, workspace.scene_record)]
    return [workspace.chips, workspace.scaling, *masks, *map(Path, summary.sheets)]


def _tasks(
    config: Config,
    workspace: Workspace,
    images: Mapping[str, Path],
    labels: Mapping[str, Path],
    held: Mapping[Path, str],
    *,
    force: bool,
) -> list[SceneTask]:
    served = Counter(labels.values())
    return [
        SceneTask(
            name=name,
            image=image.absolute(),
            labels=labels[name].absolute(),
            held={"image": held[image], "labels": held[labels[name]]},
            shared=served[labels[name]] > 1,
            mask=workspace.mask(name),
            record=workspace.scene_record(name),
            imagery=config.imagery,
            label_options=config.labels,
            sample_px=max(_SAMPLE_OF_A_SCENE_PX, _SAMPLE_PX // len(images)),
            force=force,
        )
        for name, image in sorted(images.items(), key=lambda item: (labels[item[0]], item[0]))
    ]


def _prepare_all(
    tasks: list[SceneTask], compute: ComputeOptions
) -> tuple[list[PreparedScene], dict[str, str]]:
    """Prepare all scenes; those that cannot be used stop the rest, or are skipped and told."""
    outcomes: list[Outcome[PreparedScene]] = []
    work = each(prepare_scene, tasks, executor=compute.executor)
    for outcome in counted(work, "prepare", total=len(tasks), unit="scenes"):
        if outcome.error is not None:
            if compute.on_error == "stop":
                raise outcome.error
            logger.warning("skipped %s: %s", tasks[outcome.index].name, outcome.error)
        outcomes.append(outcome)
    outcomes.sort(key=lambda outcome: outcome.index)
    prepared = [outcome.result for outcome in outcomes if outcome.result is not None]
    failed = {tasks[o.index].name: str(o.error) for o in outcomes if o.error is not None}
    if not prepared:
        raise DataError(f"all {len(tasks)} scenes failed, the first: {next(iter(failed.values()))}")
    return prepared, failed


def _require_alike(scenes: list[SceneFound], images: Mapping[str, Path]) -> None:
    first = scenes[0]
    for scene in scenes:
        if len(scene.bands) != len(first.bands):
            raise DataError(
                f"{images[scene.name]}: {len(scene.bands)} bands, but {images[first.name]} has "
                f"{len(first.bands)}; choose with imagery.bands, or name alike scenes only"
            )


def _require_roads(scenes: list[SceneFound], labels: Mapping[str, Path]) -> None:
    """Refuse labels of which none lies on any scene."""
    if not any(chip.road_share for scene in scenes for chip in scene.chips):
        missed = (scene.missed for scene in scenes if scene.missed)
        files = f"{len(set(labels.values()))} label files of {len(scenes)} scenes"
        raise DataError(next(missed, f"labels.roads: no road in any of the {files}"))
    for scene in scenes:
        if not any(chip.road_share for chip in scene.chips):
            logger.warning("%s: no road on it; all of it is background", scene.name)


def _fit_scaling(scenes: list[PreparedScene], config: Config) -> Scaling:
    samples = [scene.sample for scene in scenes]
    try:
        return fit_scaling(samples, percentiles=config.imagery.percentiles)
    except ValueError as error:
        raise DataError(f"imagery.images: {error}; there is nothing to learn from") from error


def _tell_dull(scenes: list[PreparedScene], images: Mapping[str, Path], scaling: Scaling) -> None:
    """Warn of folders whose pixels, among others of their type, fill little of the scaling."""
    folders: dict[tuple[str, Path], list[PreparedScene]] = {}
    for scene in scenes:
        kind = (scene.sample.dtype.name, images[scene.found.name].parent)
        folders.setdefault(kind, []).append(scene)
    times = Counter(dtype for dtype, _ in folders)
    for (dtype, folder), found in folders.items():
        pixels = np.concatenate([scene.sample for scene in found], axis=1)
        if times[dtype] == 1 or not pixels.shape[1]:
            continue
        if (share := filled_share(pixels, scaling)) < _DULL:
            logger.warning(
                "%s: its images fill %.0f %% of the range of values that all images of %s share, "
                "and will hardly be told from one colour; bring them to the range of the others "
                "(gdal_translate -scale), or train on them apart",
                *(folder, 100 * share, dtype),
            )


def _look(
    config: Config,
    workspace: Workspace,
    scenes: list[SceneRecord],
    found: list[SceneFound],
    scaling: Scaling,
) -> dict[str, Any]:
    """Draw examples of the labels over the images, and estimate how far they are apart."""
    images = {scene.name: scene.image for scene in scenes}
    tasks = [
        ExampleTask(chip, images[chip.scene], workspace.mask(chip.scene), config.imagery, scaling)
        for chip in choose_examples(found)
    ]
    work = each(make_example, tasks, executor=Executor(config.compute.workers))
    shown = counted(work, "examples", total=len(tasks), unit="chips")
    ended = sorted(shown, key=lambda outcome: outcome.index)
    for outcome in ended:
        if outcome.error is not None:
            logger.warning("no picture of %s: %s", tasks[outcome.index].chip.name, outcome.error)
    examples = [outcome.result for outcome in ended if outcome.result is not None]
    shifts = {example.name: example.shift for example in examples if example.shift is not None}
    shift = combine_shifts(list(shifts.values()))
    sheets = write_sheets(workspace.quality, examples, bins=config.labels.bins)
    return {"shift": shift, "shifts": shifts, "sheets": sheets}
