"""prepare: scenes and road labels to masks. Writes masks/, chips.json, scaling.json, quality/."""

import logging
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from roadseg.commands.stages.declared_stages import Sources, prepare_stage, sources_of
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
from roadseg.dataset.scenes import PreparedScene, SceneSummary, SceneTask, prepare_scene
from roadseg.dataset.sets import find_scenes, find_sources
from roadseg.dataset.shifts import WORTH_M, Shift, find_shifts, to_map
from roadseg.errors import DataError
from roadseg.learn.options import ComputeOptions
from roadseg.raster.images import read_facts, require_equal_bands
from roadseg.raster.scaling import Scaling, fit_scaling, write_scaling
from roadseg.report.plots.sheets import write_sheets
from roadseg.roads.labels.tags import PACKED
from roadseg.roads.masks.mask_labels import check_masks
from roadseg.roads.options import LabelOptions
from roadseg.system.dry_runs import Plan
from roadseg.system.parallel import each
from roadseg.system.progress import counted
from roadseg.system.stage_records import Reason, Stage
from roadseg.system.text import all_failed, count, first
from roadseg.system.workspace import Workspace

if TYPE_CHECKING:
    from roadseg.system.parallel import Outcome

_log = logging.getLogger(__name__)

_SAMPLE_PX = 2**20  # Pixels of all scenes together that the scaling is fitted to.
_SAMPLE_OF_A_SCENE_PX = 2**10  # Pixels of one scene, at least.


def run(config: Config, workspace: Workspace, *, force: bool = False) -> PrepareSummary:
    """Make the mask of every scene from its labels, and cut the scenes into chips."""
    sources = sources_of(config, workspace)
    stage = prepare_stage(config, workspace, sources)
    if done := stage.summary(PrepareSummary, force=force):
        _update_paths(workspace, sources, done, stage)
        return done
    stage.begin()
    tasks = _with_shifts(_tasks(workspace, sources, force=force), sources, config.compute)
    prepared, failed = _prepare_all(tasks, config.compute)
    scenes = [scene.summary for scene in prepared]
    require_equal_bands({sources.scenes[s.name].image: (len(s.bands), s.dtype) for s in scenes})
    _require_roads(scenes, sources)
    scaling = _fit_scaling(prepared)
    write_scaling(workspace.scaling, scaling)
    _write_chips(config, workspace, sources, scenes)
    shifts, sheets = _draw_examples(config, workspace, sources, scenes, scaling)
    summary = summarise(
        scenes,
        {name: source.labels for name, source in sources.scenes.items()},
        options=_shared_labels(config),
        failed=failed,
        shifts=shifts,
        sheets=sheets,
        set_of={name: source.set.name for name, source in sources.scenes.items()},
    )
    summary = replace(summary, outside=sources.outside)
    for key, figures in summary.shifted_by_key.items():
        if (remaining_m := figures.remaining_m) and math.hypot(*remaining_m) > WORTH_M:
            _log.warning(
                "%s; check %s, and if the labels are shifted there, set %s=[%.1f, %.1f] (metres "
                "east and north in all)",
                shift_text(remaining_m, figures.measured, figures.scenes),
                *(workspace.quality, key),
                *(map(sum, zip(figures.moved_m, remaining_m, strict=True))),
            )
    stage.finish(summary, _outputs(workspace, summary, sources))
    return summary


def _shared_labels(config: Config) -> LabelOptions:
    """Return the label options for the summary; if sets have different shifts, with "scene"."""
    rules = [each.labels.shift for each in config.sets]
    rule = rules[0] if all(rule == rules[0] for rule in rules) else "scene"
    return config.labels.model_copy(update={"shift": rule})


def plan(config: Config, workspace: Workspace, reason: Reason) -> Plan:
    """Return what `run` would do, for a reason; only headers of the images are read."""
    scenes = find_sources(find_scenes(config.sets), area_setting=config.imagery.area).values()
    if config.compute.on_error == "stop":
        for scene in counted(scenes, "check", total=len(scenes), unit="images"):
            read_facts(scene.image, scene.set.imagery, part=scene.part)
    return prepare_stage(config, workspace).plan(reason, now=len(scenes))


def _update_paths(
    workspace: Workspace, sources: Sources, done: PrepareSummary, stage: Stage
) -> None:
    """Update the paths of images and labels in chips.json if they have moved."""
    listed = read_chips(workspace.chips)
    pairs = [(scene, sources.scenes[scene.name]) for scene in listed.scenes]
    scenes = [replace(s, image=now.image, labels=now.labels, area=now.area) for s, now in pairs]
    if scenes != list(listed.scenes):
        write_chips(workspace.chips, scenes, listed.chips, listed.bins)
        stage.finish(done, _outputs(workspace, done, sources))


def _outputs(workspace: Workspace, summary: PrepareSummary, sources: Sources) -> list[Path]:
    names = [name for name in sources.scenes if name not in summary.failed]
    masks = [place(name) for name in names for place in (workspace.mask, workspace.scene_record)]
    return [workspace.chips, workspace.scaling, *masks, *map(Path, summary.sheets)]


def _tasks(workspace: Workspace, sources: Sources, *, force: bool) -> list[SceneTask]:
    """Return a task for each scene; scenes with the same label file follow each other."""
    served = Counter(source.labels for source in sources.scenes.values())
    return [
        SceneTask(
            name=name,
            image=source.image.absolute(),
            labels=source.labels.absolute(),
            fingerprints=sources.fingerprints_of(name),
            shared=served[source.labels] > 1,
            mask=workspace.mask(name),
            record=workspace.scene_record(name),
            imagery=source.set.imagery,
            label_options=source.set.labels,
            area=tuple(path.absolute() for path in source.area),
            part=source.part,
            sample_px=max(_SAMPLE_OF_A_SCENE_PX, _SAMPLE_PX // len(sources.scenes)),
            force=force,
        )
        for name, source in sorted(
            sources.scenes.items(), key=lambda item: (item[1].labels, item[0])
        )
    ]


def _with_shifts(
    tasks: list[SceneTask], sources: Sources, compute: ComputeOptions
) -> list[SceneTask]:
    """Return the tasks with the shifts of their labels, found separately for each set."""
    sets: dict[str, list[SceneTask]] = {}
    for task in tasks:
        sets.setdefault(sources.scenes[task.name].set.name, []).append(task)
    shifts = {
        name: shift
        for alike in sets.values()
        for name, shift in find_shifts(alike, workers=compute.workers).items()
    }
    return [replace(task, shift_m=shifts[task.name]) for task in tasks]


def _prepare_all(
    tasks: list[SceneTask], compute: ComputeOptions
) -> tuple[list[PreparedScene], dict[str, str]]:
    """Prepare all scenes; return the prepared ones, and the reasons why others were skipped.

    Raises:
        RoadsegError: for the first scene that cannot be used, unless `compute.on_error` is "skip".
    """
    outcomes: list[Outcome[PreparedScene]] = []
    work = each(prepare_scene, tasks, workers=compute.workers)
    for outcome in counted(work, "prepare", total=len(tasks), unit="scenes"):
        if outcome.error is not None:
            if compute.on_error == "stop":
                raise outcome.error
            _log.warning("skipped %s: %s", tasks[outcome.index].name, outcome.error)
        outcomes.append(outcome)
    outcomes.sort(key=lambda outcome: outcome.index)
    prepared = [outcome.result for outcome in outcomes if outcome.result is not None]
    failed = {tasks[o.index].name: str(o.error) for o in outcomes if o.error is not None}
    if not prepared:
        raise DataError(all_failed(failed))
    return prepared, failed


def _require_roads(scenes: list[SceneSummary], sources: Sources) -> None:
    """Refuse a set of scenes without roads, or outside its polygons; warn of unusual labels."""
    sets: dict[str, list[SceneSummary]] = {}
    for scene in scenes:
        sets.setdefault(sources.scenes[scene.name].set.key, []).append(scene)
    for key, alike in sets.items():
        if all(scene.is_outside for scene in alike):
            files = ", ".join(map(str, sources.scenes[alike[0].name].area[:3]))
            raise DataError(
                f"{key}labels.area: no polygon of {files} touches any scene; "
                "check the CRS of both, or leave it empty if the labels are complete everywhere"
            )

    masks = (s.name for s in scenes if s.scheme == "mask")
    asked = (name for name in masks if sources.scenes[name].set.labels.mask_speeds_mph is None)
    check_masks(sorted({sources.scenes[name].labels for name in asked}))
    for key, alike in sets.items():
        if not any(chip.road_share for scene in alike for chip in scene.chips):
            missed = (scene.missed for scene in alike if scene.missed)
            labels = {sources.scenes[scene.name].labels for scene in alike}
            what = f"no road in {count(len(labels), 'label file')} of {count(len(alike), 'scene')}"
            raise DataError(next(missed, f"{key or 'labels.'}roads: {what}"))
        _warn_of_widths(key, alike, sources.scenes[alike[0].name].set.labels)
    # An area says that the labels reach there.
    unsaid = [scene for scene in scenes if not sources.scenes[scene.name].area]
    bare = [s.name for s in unsaid if not any(chip.road_share for chip in s.chips)]
    if bare:
        _log.warning(
            "%d of %s %s no roads in the labels, so the network learns that there are none: %s; if "
            "the labels do not reach there, leave these images out, or name the area in which they "
            "are complete (labels.area)",
            *(len(bare), count(len(scenes), "scene"), "has" if len(bare) == 1 else "have"),
            first(bare),
        )


def _warn_of_widths(key: str, scenes: list[SceneSummary], options: LabelOptions) -> None:
    keys = dict.fromkeys(key for scene in scenes for key in scene.keys)
    is_known = bool({options.width_key, PACKED} & keys.keys())
    if options.width == "attribute" and not is_known and scenes[0].scheme != "mask":
        _log.warning(
            "%slabels.width_key: no label file has the attribute %r, so all lines are %g m wide; "
            "their attributes: %s",
            *(key, options.width_key, options.width_m, ", ".join(keys) or "none"),
        )


def _fit_scaling(scenes: list[PreparedScene]) -> Scaling:
    try:
        return fit_scaling([scene.sample for scene in scenes])
    except ValueError as error:
        raise DataError(f"imagery.images: {error}; nothing to train on") from error


def _write_chips(
    config: Config, workspace: Workspace, sources: Sources, scenes: list[SceneSummary]
) -> None:
    records = []
    for scene in scenes:
        source = sources.scenes[scene.name]
        records.append(
            SceneRecord(
                scene.name,
                source.image,
                source.labels,
                scene.gsd_m,
                source.set.name,
                scene.shift_m,
                source.area,
                source.part.window if source.part else None,
            )
        )
    chips = [chip for scene in scenes for chip in scene.chips]
    write_chips(workspace.chips, records, chips, config.labels.bins)


def _draw_examples(
    config: Config,
    workspace: Workspace,
    sources: Sources,
    scenes: list[SceneSummary],
    scaling: Scaling,
) -> tuple[dict[str, Shift], list[Path]]:
    """Draw examples of the labels over the images; estimate the shifts between them.

    Returns:
        Shifts of the examples on the map, by the name of the scene; and the files of the sheets.
    """
    tasks = []
    for chip in choose_examples(scenes):
        source = sources.scenes[chip.scene]
        mask, imagery = workspace.mask(chip.scene), source.set.imagery
        tasks.append(ExampleTask(chip, source.image, mask, imagery, scaling, source.part))
    work = each(make_example, tasks, workers=config.compute.workers)
    shown = counted(work, "draw examples", total=len(tasks), unit="chips")
    ended = sorted(shown, key=lambda outcome: outcome.index)
    for outcome in ended:
        if outcome.error is not None:
            _log.warning("could not draw %s: %s", tasks[outcome.index].chip.name, outcome.error)
    examples = [outcome.result for outcome in ended if outcome.result is not None]
    shifts = {
        example.name: to_map(example.shift, example.grid)
        for example in examples
        if example.shift is not None
    }
    return shifts, write_sheets(workspace.quality, examples, bins=config.labels.bins)
