"""Facts of runs for commands on several runs: records, figures; without heavy imports."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from roadseg.errors import DataError, MissingInputError
from roadseg.system.locks import holders
from roadseg.system.stage_records import Record, read_record
from roadseg.system.text import count
from roadseg.system.units import road_text
from roadseg.system.workspace import (
    EDITS,
    PACKAGE,
    ROAD_NETWORK,
    STAGES,
    SUBMISSION,
    Fold,
    Workspace,
)

METRIC_TITLES = {  # Metrics of `evaluate` by their titles, in the order of tables.
    "pixel IoU": "iou",
    "pixel precision": "precision",
    "pixel recall": "recall",
    "pixel F1": "f1",
    "APLS length": "apls_length",
    "APLS time": "apls_time",
    "TOPO F1": "topo_f1",
    "correctness": "correctness",
    "completeness": "completeness",
    "quality": "quality",
    "breaks per km": "breaks_per_km",
    "connectivity": "connectivity",
    "calibration error": "calibration_error",
}

# Stages with a record in the run folder; that of a training is in the folder of its checkpoint.
_RUN_STAGES = [stage for stage in STAGES if stage != "train"]


@dataclass(frozen=True)
class RunFacts:
    """The records of a run.

    Attributes:
        records: records of stages by name, finished or not; "train" is that of `fold`.
        trainings: record of each training by its held-out fold.
        fold: fold of the network that predicted; else the first that was trained, else 0.
    """

    folder: Path
    records: dict[str, Record]
    trainings: dict[Fold, Record]
    fold: Fold

    @property
    def is_cross_validation(self) -> bool:
        """Whether every chip is predicted by the network that held it out."""
        predict = self.records.get("predict")
        return predict is not None and predict.settings.get("fold") == "each"

    def evaluated(self, name: str) -> Any:  # noqa: ANN401 - any JSON value
        """Return a value of the summary of evaluate, or None."""
        record = self.records.get("evaluate")
        return (record.summary or {}).get(name) if record else None


def read_run(folder: Path) -> RunFacts:
    """Read the records of a run.

    Raises:
        MissingInputError: if there is no such folder.
        DataError: if it is not a run of roadseg, one that just began, or a record is damaged.
    """
    if not folder.is_dir():
        raise MissingInputError(
            f"{folder} does not exist, expected a run folder; run `roadseg run` first, or use "
            "another folder"
        )
    workspace = Workspace(folder)
    every = {stage: read_record(workspace.record(stage)) for stage in _RUN_STAGES}
    records = {stage: record for stage, record in every.items() if record}
    trainings = {
        fold: record
        for fold in trained_folds(workspace)
        if (record := read_record(workspace.train_record(fold)))
    }
    if not records and not trainings:
        if in_use := " and ".join(holders(folder)):
            raise DataError(f"{folder}: {in_use} is using this run folder; no stage has ended yet")
        raise DataError(
            f"{folder}: not a run of roadseg, expected records such as prepare.json in it; if "
            "`roadseg map` or `roadseg run` was interrupted, repeat it, else use a run folder"
        )
    fold = _fold_of(records.get("predict"), trainings)
    if fold in trainings:
        records["train"] = trainings[fold]
    return RunFacts(folder, records, trainings, fold)


def trained_folds(workspace: Workspace) -> list[Fold]:
    """Return the held-out folds of the trainings of a run, from the names of their folders."""
    last = workspace.checkpoint("all")
    names = (path.name.removeprefix("fold-") for path in last.parent.glob("fold-*"))
    folds: list[Fold] = sorted(int(n) for n in names if n.isascii() and n.isdecimal())
    return [*folds, "all"] if last.is_dir() else folds


def _fold_of(predict: Record | None, trainings: dict[Fold, Record]) -> Fold:
    fold = (predict.summary or {}).get("fold") if predict else None
    return fold if isinstance(fold, int) else next(iter(trainings), 0)


def found_layout(workspace: Workspace) -> Workspace:
    """Return the workspace, or its flat form for a folder that --output of a stage named."""
    of_run = workspace.graphs, workspace.probabilities, workspace.chips
    return workspace if any(map(Path.exists, of_run)) else replace(workspace, is_flat=True)


def scene_names(workspace: Workspace) -> list[str]:
    """Return the names of the scenes that have a graph or a probability raster.

    In a run that was predicted, files of other scenes, such as those whose images were removed
    since, do not count.

    Raises:
        MissingInputError: if there are none.
        DataError: if the record of the prediction is damaged.
    """
    graphs = {path.stem for path in workspace.graphs.glob("*.gpkg") if path.name[0] != "."}
    rasters = {path.stem for path in workspace.probabilities.glob("*.tif") if path.name[0] != "."}
    names = (graphs - {ROAD_NETWORK, SUBMISSION, EDITS, PACKAGE}) | rasters
    predicted = read_record(workspace.record("predict"))
    if predicted and predicted.summary:
        names &= set(predicted.summary["scenes"])
    if not names:
        raise MissingInputError(
            f"{workspace.root}: contains neither graphs nor probabilities; run `roadseg map` "
            "or `roadseg graph` first, or name another folder"
        )
    return sorted(names)


def checkpoint_folders(workspace: Workspace) -> list[Path]:
    """Return the checkpoint folders of all folds, and that of the network of all chips."""
    return list(map(workspace.checkpoint, trained_folds(workspace)))


def ended(path: Path) -> str:
    """Return when a record was written, as local time with its zone."""
    return datetime.fromtimestamp(path.stat().st_mtime, UTC).astimezone().isoformat(" ", "seconds")


def main_figure(stage: str, record: Record) -> str:
    """Return the main figures of a stage as text; empty if its summary lacks them."""
    try:
        return _FIGURES[stage](record.summary or {})
    except (KeyError, TypeError, ValueError):
        return ""


def _training_figure(values: dict[str, Any]) -> str:
    epochs = count(values["epochs"], "epoch")
    return epochs if values["val_iou"] is None else f"IoU {values['val_iou']:.3f}, {epochs}"


def _prepare_figure(values: dict[str, Any]) -> str:
    labels = (
        f"{road_text(values['road_km'])} of labels"
        if values["labels"]
        else f"{values['road_share']:.2%} of the pixels are road"  # Raster masks have no lines.
    )
    return f"{count(values['scenes'], 'scene')}, {labels}"


_FIGURES: dict[str, Callable[[dict[str, Any]], str]] = {
    "prepare": _prepare_figure,
    "split": lambda it: f"{count(it['chips'], 'chip')} in {len(it['chips_by_fold'])} folds",
    "train": _training_figure,
    "predict": lambda it: f"{count(len(it['scenes']), 'scene')}, {it['megapixels']:.1f} megapixels",
    "graph": lambda it: road_text(it["road_km"]),
    "evaluate": lambda it: f"IoU {it['iou']:.3f}, APLS {it['apls_length']:.3f}",
    "report": lambda it: count(it["scenes"], "scene"),
}
