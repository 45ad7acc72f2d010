"""Declared stages: the settings and inputs of each stage of a run.

From this declaration follow the record of a stage, why it has to run, and its dry run. The module
imports little, not even torch, because `roadseg status` and most dry runs need nothing else.
"""

import itertools
import json
import shlex
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from roadseg.config import Config
from roadseg.dataset.sets import Source, find_scenes, find_sources
from roadseg.errors import ConfigError, DataError, RoadsegError
from roadseg.learn.network.installed_weights import first_weights
from roadseg.options import Section
from roadseg.raster.inputs import find_images
from roadseg.raster.options import ImageryOptions
from roadseg.report.run_facts import checkpoint_folders, found_layout, scene_names
from roadseg.roads.formats.by_suffix import check_formats
from roadseg.roads.options import CompareOptions, LabelOptions
from roadseg.system.dry_runs import Plan
from roadseg.system.files import is_virtual
from roadseg.system.fingerprints import GONE, fingerprint, fingerprints
from roadseg.system.records import by_dotted_key
from roadseg.system.stage_records import (
    MadeFrom,
    Reason,
    Record,
    Stage,
    read_record,
    read_stage_key,
    read_summary,
)
from roadseg.system.workspace import ROAD_NETWORK, STAGES, AnyFold, Fold, Workspace

# Options of imagery by which all stages read the same pixels.
_READ_BY = ("bands", "crs", "gsd_m", "nodata")
# Commands that use the outputs of the same earlier stages as another stage does.
_BEGINS_AS = {"run": "prepare", "quantize": "predict"}
# Settings that change no figure of the report. Some are paths: the contents of their files count.
_NOT_SHOWN: dict[str, Any] = {
    "run": True,
    "compute": True,
    "imagery": {
        "images": True,
        "area": True,
        "sets": {"__all__": {"images": True, "roads": True, "labels": {"area"}}},
    },
    "labels": {"roads", "area"},
    "split": {"file", "target"},
    "train": {"init", "encoder_weights"},
}


@dataclass(frozen=True)
class _Folds:
    """The part of the summary of split with the number of folds."""

    chips_by_fold: list[int]


@dataclass(frozen=True)
class Sources:
    """The files of the scenes of a run.

    Attributes:
        scenes: files of each scene in the area to work in, by name.
        fingerprints: fingerprint of each file.
        outside: number of images outside of this area, which are not scenes of the run.
    """

    scenes: Mapping[str, Source]
    fingerprints: Mapping[Path, str]
    outside: int = 0

    def fingerprints_of(self, name: str) -> dict[str, str]:
        """Return the fingerprints of the files of a scene, by their role: image, labels, area 0."""
        scene = self.scenes[name]
        files = {"image": scene.image, "labels": scene.labels}
        files |= {f"area {number}": path for number, path in enumerate(scene.area)}
        return {what: self.fingerprints[path] for what, path in files.items()}


def prepared_files(record: Record) -> dict[tuple[str, str], str]:
    """Return the fingerprints of the files that `prepare` read, by their role and scene."""
    split = {key: key.partition(" of ") for key in record.inputs}
    return {(role, scene): record.inputs[key] for key, (role, _, scene) in split.items()}


def sources_of(config: Config, workspace: Workspace) -> Sources:
    """Find the image and the label file of every scene, and their fingerprints.

    Raises:
        ConfigError: if a file lies in a folder of results, or a CRS is invalid.
    """
    scenes = find_scenes(config.sets)
    found = find_sources(scenes, area_setting=config.imagery.area)
    for scene_set in config.sets:
        if scene_set.imagery.crs is not None:  # pyproj is slow to import.
            from roadseg.raster.grid import crs_setting

            crs_setting(scene_set.imagery.crs, f"{scene_set.key or 'imagery.'}crs")
    paths = [path for each in found.values() for path in (each.image, each.labels, *each.area)]
    made = workspace.root, workspace.masks, workspace.probabilities, workspace.graphs
    written = {folder.resolve() for folder in made}
    # Links are followed once for each folder: there may be many files.
    first_in = {path.parent: path for path in reversed(paths) if not is_virtual(path)}
    for folder, path in first_in.items():
        if folder.resolve() in written:
            raise ConfigError(
                f"run: {folder} contains {path.name}, which is not an output of roadseg; "
                "use another folder (`run` in the config, or --run)"
            )
    outside = sum(len(each) for _, each in scenes) - len(found)
    return Sources(found, fingerprints(paths), outside)


def _made_from(
    inputs: Mapping[str, str],
    *sections: Section,
    exclude: Any = None,  # noqa: ANN401 - of pydantic
    more: Mapping[str, Any] | None = None,
) -> MadeFrom:
    """Return the inputs and settings of a stage.

    Args:
        inputs: fingerprints and keys, by name.
        sections: sections of the config whose settings the stage uses.
        exclude: settings of these sections that do not change its outputs.
        more: further settings.
    """
    settings: dict[str, Any] = {}
    defaults: dict[str, Any] = {}
    for section in sections:
        settings |= section.model_dump(mode="json", exclude=exclude)
        defaults |= section.defaults()
    return MadeFrom(settings | dict(more or {}), inputs, defaults)


def stage_input(stage: str, workspace: Workspace) -> dict[str, str]:
    """Return the key of an earlier stage, as an input of a later one.

    Raises:
        MissingInputError: if the stage has not reached its end.
    """
    return {f"what {stage} made": read_stage_key(workspace.record(stage))}


def _area(config: Config) -> dict[str, str]:
    """Return the fingerprint of the area to work in, as an input; nothing without an area."""
    if config.imagery.area is None:
        return {}
    from roadseg.roads.labels.areas import area_content

    return {"area to work in": area_content(config.imagery.area)}


def prepare_stage(config: Config, workspace: Workspace, sources: Sources | None = None) -> Stage:
    """Return the stage prepare.

    Args:
        sources: files of the scenes; None finds them when they are needed.
    """

    def made_from() -> MadeFrom:
        found = sources or sources_of(config, workspace)
        inputs = _area(config)
        for name, source in found.scenes.items():
            of_set = {"set": source.set.name} if source.set.name else {}
            contents = found.fingerprints_of(name) | of_set
            inputs |= {f"{what} of {name}": content for what, content in contents.items()}
        defaults = {"imagery": ImageryOptions.defaults(), "labels": LabelOptions.defaults()}
        of_sets = {f"set {each.name}": defaults for each in config.sets}
        return MadeFrom(_mask_settings(config), inputs, defaults | of_sets)

    return Stage(
        workspace.record("prepare"),
        made_from,
        writes=(workspace.masks, workspace.chips, workspace.scaling, workspace.quality),
        unit="scenes",
    )


def _mask_settings(config: Config) -> dict[str, Any]:
    """Return the settings of images and labels, and of each set, on which masks depend."""

    def settings(imagery: ImageryOptions, labels: LabelOptions) -> dict[str, Any]:
        of_images = imagery.model_dump(mode="json", exclude={"licence", "images", "sets", "area"})
        of_labels = labels.model_dump(mode="json", exclude={"licence", "roads", "area"})
        return {"imagery": of_images, "labels": of_labels}

    return settings(config.imagery, config.labels) | {
        f"set {each.name}": settings(each.imagery, each.labels) for each in config.sets if each.name
    }


def _require_read_as_prepared(config: Config, workspace: Workspace) -> None:
    """Refuse options with which images would be read differently than for their masks."""
    path = workspace.record("prepare")
    prepared = read_record(path)
    before = by_dotted_key(prepared.settings if prepared else {})
    for key, now in by_dotted_key(_mask_settings(config)).items():
        set_key, _, option = key.rpartition("imagery.")
        if option in _READ_BY and before.get(key, now) != now:
            name = f"imagery.{option}{set_key.rstrip('.').replace('set ', ' of ')}"
            raise DataError(
                f"{path}: found {name} {json.dumps(before[key])}, expected {json.dumps(now)} as "
                "in the config; run `roadseg prepare` again, or set it as it was"
            )


def _split_stage(config: Config, workspace: Workspace) -> Stage:
    options = config.split

    def made_from() -> MadeFrom:
        inputs = stage_input("prepare", workspace)
        more = {"sets": set_names(config)} if options.method == "sets" else {}
        if options.method == "file":
            inputs["split.file"] = fingerprint(options.own_folds)
        if options.method == "knndm":  # The distance of these images decides about folds.
            images = find_images(options.target, setting="split.target")
            content = fingerprints(images.values())
            inputs |= {f"image {name} to be mapped": content[path] for name, path in images.items()}
        return _made_from(inputs, options, exclude={"file", "target"}, more=more)

    return Stage(
        workspace.record("split"),
        made_from,
        writes=(workspace.folds, workspace.fold_layer),
        unit="chips",
    )


def set_names(config: Config) -> list[str]:
    """Return the names of the sets, each of which is a fold.

    Raises:
        ConfigError: if there is only one.
    """
    names = [each.name for each in config.sets]
    if len(names) == 1:
        raise ConfigError(
            'split.method: "sets" makes one fold per set, but imagery.sets has fewer than two; '
            "add sets, or set split.method to blocks"
        )
    return names


def _train_stage(config: Config, workspace: Workspace, fold: AnyFold) -> Stage:
    # A training holds out one fold, never each of them.
    folder = workspace.checkpoint(cast("Fold", fold))
    path = folder / workspace.record("train").name

    def made_from() -> MadeFrom:
        inputs, weights = stage_input("split", workspace), first_weights(config.train)
        earlier = read_record(path)
        before = earlier.inputs if earlier else {}
        # First weights may be deleted after the start: the record still has their fingerprints.
        inputs |= {n: before.get(n, made) if made == GONE else made for n, made in weights.items()}
        more = {f"weight of {each.name}": each.weight for each in config.sets if each.name}
        found = _made_from(inputs, config.train, exclude=set(weights), more=more | {"fold": fold})
        _require_read_as_prepared(config, workspace)
        return found

    return Stage(path, made_from, writes=(folder,), unit="epochs")


def fold_numbers(workspace: Workspace) -> range:
    """Return the numbers of the folds of a run.

    Raises:
        MissingInputError: if split has not reached its end.
        DataError: if its record is damaged.
    """
    split = read_summary(workspace.record("split"), _Folds)
    return range(len(split.chips_by_fold))


def _predict_stage(config: Config, workspace: Workspace, fold: AnyFold) -> Stage:
    def made_from() -> MadeFrom:
        if fold == "all":
            raise ConfigError(
                "--fold all: this network was trained on all chips of the run, so it cannot be "
                "measured on them; predict other IMAGES with --output, or choose a fold"
            )
        if fold == "each":
            inputs = {
                f"what train made of fold {one}": _key_of_fold(workspace, one)
                for one in fold_numbers(workspace)
            }
        else:
            key = read_stage_key(workspace.train_record(fold), made_by=f"train --fold {fold}")
            inputs = {"what train made": key}
        inputs |= _area(config)
        _require_read_as_prepared(config, workspace)
        return _made_from(inputs, config.predict, more={"fold": fold})

    return Stage(
        workspace.record("predict"),
        made_from,
        writes=(workspace.probabilities,),
        unit="megapixels",
    )


def _key_of_fold(workspace: Workspace, fold: int) -> str:
    """Return the key of the training of a fold; refuse one that may have seen its present chips."""
    path = workspace.train_record(fold)
    key, record = read_stage_key(path, made_by="train --fold each"), read_record(path)
    split = stage_input("split", workspace)
    if record is None or not split.items() <= record.inputs.items():
        raise DataError(
            f"{path}: this network was trained with an earlier split and may have seen the chips "
            f"that it would be measured on; run `roadseg train --fold {fold} --force`"
        )
    return key


def _graph_stage(config: Config, workspace: Workspace) -> Stage:
    def made_from() -> MadeFrom:
        check_formats(config.graph.formats)
        inputs = stage_input("predict", workspace) | _area(config)
        _require_read_as_prepared(config, workspace)
        return _made_from(inputs, config.graph)

    return Stage(
        workspace.record("graph"),
        made_from,
        writes=(workspace.graphs,),
        unit="scenes",
    )


def _evaluate_stage(config: Config, workspace: Workspace) -> Stage:
    def made_from() -> MadeFrom:
        inputs = stage_input("graph", workspace) | _area(config)
        _require_read_as_prepared(config, workspace)
        compared, of_config = CompareOptions(), Config.defaults()["evaluate"]
        defaults = of_config | compared.defaults()
        return MadeFrom(compared.model_dump(mode="json"), inputs, defaults)

    return Stage(
        workspace.record("evaluate"),
        made_from,
        writes=(workspace.evaluation, workspace.pictures, workspace.reliability),
        unit="chips",
    )


def _report_stage(config: Config, workspace: Workspace) -> Stage:
    def made_from() -> MadeFrom:
        more = {"units": config.compute.units}
        inputs = _shown_files(workspace) | _area(config)
        return _made_from(inputs, config, exclude=_NOT_SHOWN, more=more)

    return Stage(
        workspace.record("report"),
        made_from,
        writes=(workspace.report, workspace.qgis_project, workspace.package),
        unit="scenes",
    )


def _shown_files(workspace: Workspace) -> dict[str, str]:
    """Return the fingerprints of the existing files of the run that the report shows."""
    workspace = found_layout(workspace)
    names = scene_names(workspace)
    records = [workspace.record(stage) for stage in STAGES[:-1]]  # Not its own.
    tables = [
        workspace.evaluation,
        workspace.chips,
        workspace.scaling,
        workspace.graph(ROAD_NETWORK),
    ]
    scenes = [place(name) for name in names for place in (workspace.graph, workspace.probability)]
    folds = [
        path / name
        for path in checkpoint_folders(workspace)
        for name in ("metrics.csv", "best.safetensors")
    ]
    every = [*records, *tables, workspace.edits, *scenes, *folds]
    contents = fingerprints(path for path in every if path.is_file())
    return {
        path.relative_to(workspace.root).as_posix(): digest for path, digest in contents.items()
    }


_STAGES: dict[str, Callable[[Config, Workspace], Stage]] = {
    "prepare": prepare_stage,
    "split": _split_stage,
    "graph": _graph_stage,
    "evaluate": _evaluate_stage,
    "report": _report_stage,
}
_STAGES_OF_A_FOLD = {"train": _train_stage, "predict": _predict_stage}


def declared_stage(name: str, config: Config, workspace: Workspace, fold: AnyFold = 0) -> Stage:
    """Return a stage of a run.

    Its methods look up its inputs. They raise ConfigError if a setting cannot be used, or no fold
    is held out; MissingInputError if an earlier stage has not run; DataError if images would be
    read differently than for their masks, or one of several networks was trained with an earlier
    split.

    Args:
        fold: fold of a training or prediction; ignored for other stages.
    """
    if name in _STAGES_OF_A_FOLD:
        return _STAGES_OF_A_FOLD[name](config, workspace, fold)
    return _STAGES[name](config, workspace)


def needs_force(stage: str, why: str) -> bool:
    """Whether a stage is a training on chips that have changed, which does not go on with others.

    Args:
        stage: name of the stage, as a dry run or a status shows it.
        why: why it would run again.
    """
    return stage.startswith("train") and "what split made" in why


def renewed_before(stage: str, again: Mapping[str, Reason | Plan]) -> str:
    """Return the last earlier stage because of whose new outputs a stage has to run, or "".

    The report runs after every stage that runs, because it also shows their records.

    Args:
        stage: name of the stage.
        again: reasons why earlier stages run again, by name, in order.
    """
    names = [name for name, why in again.items() if why.renews or stage == "report"]
    return names[-1] if names else ""


def refuse_map(config: Config, workspace: Workspace) -> None:
    """Refuse the folder of a map without labels, which only `roadseg map` can bring up to date.

    Raises:
        ConfigError: if it is one: nothing is prepared or predicted by stages, but mapped.
    """
    has_stages = any(workspace.record(stage).exists() for stage in ("prepare", "predict"))
    has_labels = any(each.labels.roads for each in config.sets)
    if workspace.probabilities.is_dir() and not (has_stages or has_labels):
        folder = shlex.quote(str(workspace.root))
        raise ConfigError(
            f"{workspace.root}: is a map made without labels, which has no stages but its report; "
            f"if images or settings changed, repeat `roadseg map IMAGES --output {folder}`"
        )


def outdated_before(
    stage: str, config: Config, workspace: Workspace, fold: AnyFold | None = None
) -> str:
    """Say which stage is the first whose outputs a later one uses although they are out of date.

    Args:
        stage: stage, or command, that runs alone.
        config: config with which the earlier stages are compared.
        fold: fold with which it runs; None for the fold that was predicted.

    Returns:
        A sentence with the command that makes them again; "" if all are up to date.
    """
    last = _BEGINS_AS.get(stage, stage)
    # The stage itself reports what it cannot find.
    with suppress(RoadsegError):
        if fold is None:
            predicted = read_record(workspace.record("predict"))
            fold = predicted.settings.get("fold", 0) if predicted else 0
        for earlier in itertools.takewhile(lambda name: name != last, STAGES):
            is_each = earlier == "train" and fold == "each"
            for one in fold_numbers(workspace) if is_each else [fold]:
                now = declared_stage(earlier, config, workspace, one)
                before = read_record(now.path)
                if before and (change := now.change(before)):
                    again = "run"
                    if needs_force(earlier, change.text):
                        again = "train --force" + (f" --fold {fold}" if fold else "")
                    return (
                        f"{stage} uses what {earlier} made with other settings or inputs "
                        f"({change.text}); `roadseg {again}` makes it again"
                    )
    return ""
