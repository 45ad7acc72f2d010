"""Made from: settings and inputs that each stage's outputs depend on, found with few imports.

A stage begins with its `stage_record`, which compares them with those of its last run. Dry runs
(`plan_stage`) and `roadseg status` do that for all stages without loading what they need to work,
such as torch.
"""

import itertools
import json
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypedDict, cast

from roadseg.config import Config
from roadseg.dataset.options import SplitOptions
from roadseg.dataset.sets import Source, find_scenes, find_sources
from roadseg.errors import ConfigError, DataError, MissingInputError, RoadsegError
from roadseg.learn.options import PredictOptions, TrainOptions
from roadseg.raster.options import ImageryOptions
from roadseg.raster.sources import find_images
from roadseg.roads.formats.by_suffix import check_formats
from roadseg.roads.options import CompareOptions, EvaluateOptions, GraphOptions, LabelOptions
from roadseg.system.dry_runs import Plan, plan_work
from roadseg.system.files import is_virtual
from roadseg.system.fingerprints import GONE, fingerprint, fingerprints
from roadseg.system.records import by_dotted_key
from roadseg.system.stage_records import (
    Reason,
    StageRecord,
    Summary,
    read_record,
    read_stage_key,
    read_summary,
)
from roadseg.system.workspace import (
    EDITS,
    NETWORK,
    PACKAGE,
    STAGES,
    SUBMISSION,
    AnyFold,
    Fold,
    Workspace,
    require,
)

_log = logging.getLogger(__name__)

# Options of imagery by which all stages read the same pixels.
_READ_BY = ("bands", "crs", "gsd_m", "nodata")
# Stages that read images, or what was made of them, beside masks.
_READ_IMAGES = ("train", "predict", "graph", "evaluate")
# First weights of an encoder that are what they are called, wherever they come from.
_WORDS = (None, "auto", "imagenet")
# Commands that begin with what a stage begins with.
_BEGINS_AS = {"run": "prepare", "tune": "graph", "quantize": "predict"}
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


_OF_SPLIT = "what split made"  # The input of a training that decides what it holds out.


class MadeFrom(TypedDict):
    """The arguments of a `StageRecord`: settings, their defaults, a fingerprint of each input."""

    settings: dict[str, Any]
    inputs: dict[str, str]
    defaults: dict[str, Any]


@dataclass(frozen=True)
class Outcome:
    """The part of any summary that decides whether a stage has to run again."""

    failed: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Folds:
    """The part of the summary of split that says how many folds there are."""

    chips_by_fold: list[int]


@dataclass(frozen=True)
class Sources:
    """The files that the scenes are made from.

    Attributes:
        scenes: the files of each scene in the area to work in, by its name.
        fingerprints: of each file.
        outside: number of images outside of this area, which are no scenes.
    """

    scenes: Mapping[str, Source]
    fingerprints: Mapping[Path, str]
    outside: int = 0

    def area_fingerprints(self, scene: str) -> dict[str, str]:
        """Return the fingerprint of each file of the area of a scene."""
        return {
            f"area {number}": self.fingerprints[path]
            for number, path in enumerate(self.scenes[scene].area)
        }


def sources_of(config: Config, workspace: Workspace) -> Sources:
    """Find the image and the label file of every scene, and their contents.

    Raises:
        ConfigError: if the run folder is the one that they lie in, or a CRS is none.
    """
    for of in config.sets:
        if of.imagery.crs is not None:  # pyproj is slow to import.
            from roadseg.raster.grid import crs_setting

            crs_setting(of.imagery.crs, f"{of.key or 'imagery.'}crs")
    scenes = find_scenes(config.sets)
    found = find_sources(scenes, within=config.imagery.area)
    paths = [source.image for source in found.values()]
    paths += [source.labels for source in found.values()]
    paths += {path for source in found.values() for path in source.area}
    run = workspace.root.resolve()
    # Links are followed once for each folder: there may be many files.
    first_in = {path.parent: path for path in reversed(paths) if not is_virtual(path)}
    for folder, path in first_in.items():
        if folder.resolve() == run:
            raise ConfigError(
                f"run: {workspace.root} contains {path.name}, which is not an output of roadseg; "
                "use another folder (`run` in the config, or --run)"
            )
    outside = sum(len(each) for _, each in scenes) - len(found)
    return Sources(found, fingerprints(paths), outside)


def area_from(config: Config) -> dict[str, str]:
    """Return what changes when the area to work in does, as an input of a stage; none without."""
    if config.imagery.area is None:
        return {}
    from roadseg.roads.labels.areas import area_content

    return {"area to work in": area_content(config.imagery.area)}


def made_of_sources(config: Config, sources: Sources) -> MadeFrom:
    """Return what prepare makes masks and chips from."""
    content, scenes = sources.fingerprints, sources.scenes.items()
    defaults = {"imagery": ImageryOptions.defaults(), "labels": LabelOptions.defaults()}
    return {
        "settings": _settings(config),
        "defaults": defaults | {f"set {of.name}": defaults for of in config.sets},
        "inputs": {
            **area_from(config),
            **{f"image of {name}": content[source.image] for name, source in scenes},
            **{f"set of {name}": source.set.name for name, source in scenes if source.set.name},
            **{f"labels of {name}": content[source.labels] for name, source in scenes},
            **{
                f"{key} of {name}": fingerprint
                for name in sources.scenes
                for key, fingerprint in sources.area_fingerprints(name).items()
            },
        },
    }


def _settings(config: Config) -> dict[str, Any]:
    """Return the settings of images and labels, and of each set, that decide about masks."""
    sets = {f"set {of.name}": (of.imagery, of.labels) for of in config.sets if of.name}
    settings = {
        name: {
            "imagery": imagery.model_dump(
                mode="json", exclude={"licence", "images", "sets", "area"}
            ),
            "labels": labels.model_dump(mode="json", exclude={"licence", "roads", "area"}),
        }
        for name, (imagery, labels) in {"": (config.imagery, config.labels), **sets}.items()
    }
    return settings.pop("") | settings


def _split(config: Config, workspace: Workspace, _fold: AnyFold) -> MadeFrom:
    prepared = require(workspace.record("prepare"), made_by="prepare")
    of_sets = {"sets": set_names(config)} if config.split.method == "sets" else {}
    inputs = {"what prepare made": read_stage_key(prepared)}
    if config.split.method == "file":
        inputs["split.file"] = fingerprint(fold_file(config))
    if config.split.method == "knndm":  # The distance of these images decides about folds.
        images = find_images(config.split.target, setting="split.target")
        content = fingerprints(images.values())
        inputs |= {f"image {name} to be mapped": content[path] for name, path in images.items()}
    return {
        "settings": config.split.model_dump(mode="json", exclude={"file", "target"}) | of_sets,
        "defaults": SplitOptions.defaults(),
        "inputs": inputs,
    }


def set_names(config: Config) -> list[str]:
    """Return the names of the sets, each of which is a fold.

    Raises:
        ConfigError: if there are not several.
    """
    names = [of.name for of in config.sets]
    if len(names) == 1:
        raise ConfigError(
            'split.method: "sets" makes one fold per set, but imagery.sets has fewer than two; '
            "add sets, or set split.method to blocks"
        )
    return names


def fold_file(config: Config) -> Path:
    """Return the user's file of folds.

    Raises:
        ConfigError: if none is named.
        DataError: if there is no such file.
    """
    path = config.split.file
    if path is None:
        raise ConfigError("split.file is not set, but split.method file needs it")
    if not path.is_file():
        raise DataError(f"split.file: {path} is not an existing file")
    return path


def _train(config: Config, workspace: Workspace, fold: AnyFold) -> MadeFrom:
    split = require(workspace.record("split"), made_by="split")
    earlier = read_record(record_path("train", workspace, fold))
    if config.train.init is None and config.train.encoder_weights in _WORDS:
        begun = {"init": "none", "encoder_weights": str(config.train.encoder_weights)}
    else:  # Only files of weights need torch, which takes seconds to import.
        from roadseg.learn.network.pretrained import first_weights

        begun = first_weights(config.train)
    first = {
        # Weights that a training began with may go: what they were is then taken from its record.
        name: earlier.inputs.get(name, weights) if earlier and weights == GONE else weights
        for name, weights in begun.items()
    }
    return {
        "settings": config.train.model_dump(mode="json", exclude=set(first))
        | {"fold": fold}
        | {f"weight of {of.name}": of.weight for of in config.sets if of.name},
        "defaults": TrainOptions.defaults(),
        "inputs": {_OF_SPLIT: read_stage_key(split), **first},
    }


def _require_read_as_prepared(config: Config, workspace: Workspace) -> None:
    """Refuse options by which images would be read in another way than for their masks."""
    path = workspace.record("prepare")
    prepared = read_record(path)
    before = by_dotted_key(prepared.settings if prepared else {})
    for key, now in by_dotted_key(_settings(config)).items():
        of, _, option = key.rpartition("imagery.")
        if option in _READ_BY and before.get(key, now) != now:
            name = f"imagery.{option}{of.rstrip('.').replace('set ', ' of ')}"
            raise DataError(
                f"{path}: found {name} {json.dumps(before[key])}, expected {json.dumps(now)} as "
                "in the config; run `roadseg prepare` again, or set it as it was"
            )


def fold_numbers(workspace: Workspace) -> range:
    """Return the numbers of the folds of a run.

    Raises:
        MissingInputError: if split has not reached its end.
        DataError: if its record is damaged.
    """
    split = read_summary(require(workspace.record("split"), made_by="split"), _Folds)
    return range(len(split.chips_by_fold))


def _predict(config: Config, workspace: Workspace, fold: AnyFold) -> MadeFrom:
    if fold == "all":
        raise ConfigError(
            "--fold all: this network was trained on all chips of the run, so it cannot be "
            "measured on them; predict other IMAGES with --output, or choose a fold"
        )
    if fold == "each":
        trained = {
            f"what train made of fold {one}": _held_out(workspace, one)
            for one in fold_numbers(workspace)
        }
    else:
        record = require(workspace.train_record(fold), made_by=f"train --fold {fold}")
        trained = {"what train made": read_stage_key(record)}
    return {
        "settings": config.predict.model_dump(mode="json") | {"fold": fold},
        "defaults": PredictOptions.defaults(),
        "inputs": trained | area_from(config),
    }


def _held_out(workspace: Workspace, fold: int) -> str:
    """Return the key of the training of a fold, which has not seen the chips that are in it now."""
    path = require(workspace.train_record(fold), made_by="train --fold each")
    key, record = read_stage_key(path), read_record(path)
    if record is None or record.inputs.get(_OF_SPLIT) != read_stage_key(workspace.record("split")):
        raise DataError(
            f"{path}: this network was trained with an earlier split and may have seen the chips "
            f"that it would be measured on; run `roadseg train --fold {fold} --force`"
        )
    return key


def _graph(config: Config, workspace: Workspace, _fold: AnyFold) -> MadeFrom:
    check_formats(config.graph.formats)
    predicted = require(workspace.record("predict"), made_by="predict")
    return {
        "settings": config.graph.model_dump(mode="json"),
        "defaults": GraphOptions.defaults(),
        "inputs": {"what predict made": read_stage_key(predicted), **area_from(config)},
    }


def _evaluate(config: Config, workspace: Workspace, _fold: AnyFold) -> MadeFrom:
    graphs = require(workspace.record("graph"), made_by="graph")
    return {
        "settings": config.evaluate.model_dump(mode="json") | compare_options(config).model_dump(),
        "defaults": EvaluateOptions.defaults() | CompareOptions.defaults(),
        "inputs": {"what graph made": read_stage_key(graphs), **area_from(config)},
    }


def compare_options(config: Config) -> CompareOptions:
    """Return how roads are compared, as `roadseg score` does it."""
    return CompareOptions(spacing_m=config.evaluate.spacing_m, snap_m=config.evaluate.snap_m)


def _report(config: Config, workspace: Workspace, _fold: AnyFold) -> MadeFrom:
    workspace = as_it_is(workspace)
    shown = {
        str(path.relative_to(workspace.root)): content
        for path, content in fingerprints(_shown(workspace)).items()
    }
    return {
        "settings": config.model_dump(mode="json", exclude=_NOT_SHOWN)
        | {"units": config.compute.units},
        "defaults": Config.defaults(),
        "inputs": shown | area_from(config),
    }


def as_it_is(workspace: Workspace) -> Workspace:
    """Return the workspace, or its flat form for a folder that --output of a stage named."""
    has_folders = workspace.graphs.is_dir() or workspace.probabilities.is_dir()
    return workspace if has_folders else replace(workspace, is_flat=True)


def scene_names(workspace: Workspace) -> list[str]:
    """Return the scenes that have a graph or a probability raster; refuse a run without any."""
    graphs = {path.stem for path in workspace.graphs.glob("*.gpkg") if path.name[0] != "."}
    rasters = {path.stem for path in workspace.probabilities.glob("*.tif") if path.name[0] != "."}
    names = sorted((graphs - {NETWORK, SUBMISSION, EDITS, PACKAGE}) | rasters)
    if not names:
        raise MissingInputError(
            f"{workspace.root}: contains neither graphs nor probabilities; run `roadseg graph` "
            "or `roadseg predict` first, or use another folder with --run"
        )
    return names


def _shown(workspace: Workspace) -> list[Path]:
    """Return the files of the run that the page shows and that are there."""
    names = scene_names(workspace)
    records = [workspace.record(stage) for stage in STAGES[:-1]]  # Not its own.
    tables = [workspace.evaluation, workspace.chips, workspace.scaling, workspace.graph(NETWORK)]
    tables.append(workspace.edits)
    scenes = [place(name) for name in names for place in (workspace.graph, workspace.probability)]
    folds = [
        path / name
        for path in checkpoint_folders(workspace)
        for name in ("metrics.csv", "best.safetensors")
    ]
    return [path for path in (*records, *tables, *scenes, *folds) if path.is_file()]


def checkpoint_folders(workspace: Workspace) -> list[Path]:
    """Return the checkpoint folders of all folds, and that of their chips together."""
    last = workspace.checkpoint("all")
    return [*sorted(last.parent.glob("fold-*")), *([last] if last.is_dir() else [])]


@dataclass(frozen=True)
class _Stage:
    """A stage: what it is made from, and its work as a dry run tells it.

    Attributes:
        unit: of its work; its summary has the number, or a list, under this name.
        writes: names in the run folder.
    """

    made_from: Callable[[Config, Workspace, AnyFold], MadeFrom]
    unit: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]


_STAGES = {
    "prepare": _Stage(
        lambda config, workspace, _: made_of_sources(config, sources_of(config, workspace)),
        unit="scenes",
        reads=("images", "labels"),
        writes=("masks", "chips.json", "scaling.json", "quality"),
    ),
    "split": _Stage(
        _split,
        unit="chips",
        reads=("chips.json",),
        writes=("folds.json", "folds.gpkg", "folds.png"),
    ),
    "train": _Stage(_train, unit="epochs", reads=("images", "masks"), writes=("checkpoints",)),
    "predict": _Stage(
        _predict, unit="megapixels", reads=("images", "checkpoints"), writes=("probabilities",)
    ),
    "graph": _Stage(_graph, unit="scenes", reads=("probabilities",), writes=("graphs",)),
    "evaluate": _Stage(
        _evaluate,
        unit="chips",
        reads=("probabilities", "graphs", "labels"),
        writes=("evaluation.csv", "pictures", "reliability.png"),
    ),
    "report": _Stage(
        _report,
        unit="scenes",
        reads=("probabilities", "graphs", "all records"),
        writes=("report.html", "roadseg.qgz", "roadseg.gpkg"),
    ),
}


def stage_record(
    stage: str, config: Config, workspace: Workspace, kind: type[Summary], fold: AnyFold = 0
) -> StageRecord[Summary]:
    """Return the record of a stage with what it would be made from now.

    Args:
        kind: its summary, or a part of it.
        fold: of a training or prediction; others have none.

    Raises:
        ConfigError: if a setting cannot be used, or no fold is held out.
        MissingInputError: if a stage before has not run.
        DataError: if images would be read in another way than when their masks were made, or one
            of several networks was trained with an earlier split.
    """
    made = _STAGES[stage].made_from(config, workspace, fold)
    if stage in _READ_IMAGES:
        _require_read_as_prepared(config, workspace)
    return StageRecord(record_path(stage, workspace, fold), kind, **made)


def plan_stage(
    stage: str,
    config: Config,
    workspace: Workspace,
    *,
    fold: AnyFold = 0,
    after: str = "",
    record: StageRecord[Any] | None = None,
    force: bool = False,
    writes: Iterable[Path] = (),
    now: float | None = None,
    memory_mb: float | None = None,
) -> Plan:
    """Return what a stage would do, without importing what it needs to do it.

    Args:
        after: the earlier stage, or the option, that makes it run; empty if none does.
        record: its `stage_record`, if that is made already.
        writes: if more is known of it than that the folders of the stage change.
        now: amount of work, in its unit; None if unknown.
        memory_mb: an estimate; None: that of the earlier run.
    """
    of, root = _STAGES[stage], workspace.root
    return plan_work(
        after or record or stage_record(stage, config, workspace, Outcome, fold),
        record_path(stage, workspace, fold),
        force=force,
        reads=of.reads,
        writes=list(writes) or [root / name for name in of.writes],
        unit=of.unit,
        now=now,
        memory_mb=memory_mb,
    )


def tell_of_changes(
    stage: str, config: Config, workspace: Workspace, fold: AnyFold | None = None
) -> None:
    """Log the first stage of a run whose outputs a later one uses although they are out of date.

    Args:
        stage: that is called alone.
        config: that the stages before it are compared with.
        fold: that it is called with; None for the one that was predicted.
    """
    last = _BEGINS_AS.get(stage, stage)
    # What a stage cannot find it tells itself.
    with suppress(RoadsegError):
        if fold is None:
            predicted = read_record(workspace.record("predict"))
            fold = predicted.settings.get("fold", 0) if predicted else 0
        for earlier in itertools.takewhile(lambda name: name != last, _STAGES):
            is_each = earlier == "train" and fold == "each"
            for one in fold_numbers(workspace) if is_each else [fold]:
                record = read_record(record_path(earlier, workspace, one))
                made = stage_record(earlier, config, workspace, Outcome, one)
                if record and (change := made.change(record)):
                    _log.info(
                        "%s uses what %s made with other settings or inputs (%s); `roadseg run` "
                        "makes it again",
                        *(stage, earlier, change),
                    )
                    return


def record_path(stage: str, workspace: Workspace, fold: AnyFold) -> Path:
    """Return the path of the record of a stage, in a training that of a fold."""
    # A training holds out one fold, never each of them.
    is_training = stage == "train"
    return workspace.train_record(cast("Fold", fold)) if is_training else workspace.record(stage)


def reason_to_run(
    stage: str, config: Config, workspace: Workspace, *, fold: AnyFold
) -> Reason | None:
    """Return why a stage would run if no earlier one did, None if it would not.

    Raises:
        RoadsegError: if what it is made from cannot be found.
    """
    return stage_record(stage, config, workspace, Outcome, fold).reason()
