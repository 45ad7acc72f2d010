"""compare: differing settings and metrics of runs, and why these may not be comparable."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from roadseg.commands.stages.declared_stages import prepared_files
from roadseg.errors import ConfigError
from roadseg.report.facts import read_scores
from roadseg.report.run_facts import METRIC_TITLES, RunFacts, read_run
from roadseg.system.records import by_dotted_key
from roadseg.system.stage_records import Record
from roadseg.system.text import Summary, first, table, time_text
from roadseg.system.workspace import STAGES, Workspace

Numbers = tuple[float | None, ...]

_METRICS = (  # Stage, key of its summary, title, and digits after the point.
    *(("evaluate", key, title, 3) for title, key in METRIC_TITLES.items()),
    ("evaluate", "threshold", "threshold", 2),
    ("evaluate", "chips", "held-out chips", 0),
    ("evaluate", "reference_km", "labelled roads, km", 2),
    ("evaluate", "predicted_km", "predicted roads, km", 2),
    ("graph", "nodes", "nodes", 0),
    ("graph", "edges", "edges", 0),
    ("graph", "parts", "connected parts", 0),
    ("train", "val_iou", "IoU in training", 3),
    ("train", "best_epoch", "best epoch", 0),
)
# Prefix of the settings of prepare for labels.
_LABEL_PREFIX = "labels."
_LONGEST = 60  # Longest text of a setting; longer ones are shortened.


@dataclass(frozen=True)
class Row:
    """A figure of every run, None if not known."""

    title: str
    values: Numbers
    digits: int = 3

    @property
    def is_known(self) -> bool:
        """Whether a run has the figure."""
        return any(value is not None for value in self.values)

    @property
    def changes(self) -> Numbers:
        """The change of each run from the first; None if either figure is not known."""
        base = self.values[0]
        return tuple(
            None if base is None or value is None else value - base for value in self.values
        )


@dataclass(frozen=True)
class Setting:
    """A setting that differs between runs, with its JSON value in each."""

    name: str
    values: tuple[Any, ...]


@dataclass(frozen=True)
class CompareSummary(Summary):
    """Runs side by side.

    Attributes:
        names: short, distinct names of the runs.
        warnings: reasons why figures are not comparable.
    """

    names: list[str]
    warnings: list[str]
    settings: list[Setting]
    metrics: list[Row]
    seconds: list[Row]

    def __str__(self) -> str:
        """Return settings that differ, metrics with their changes, and times, as tables."""
        rows_of = {
            "setting": [[each.name, *map(_value_text, each.values)] for each in self.settings],
            "metric": [[row.title, *_cells(row)] for row in self.metrics],
            "time": [
                [row.title, *("-" if s is None else time_text(s) for s in row.values)]
                for row in self.seconds
            ],
        }
        parts = [_table(title, self.names, rows) for title, rows in rows_of.items()]
        if self.warnings:
            parts.insert(0, "\n".join(f"WARNING: {warning}" for warning in self.warnings))
        return "\n\n".join(parts)


def run(folders: Sequence[Path]) -> CompareSummary:
    """Compare two runs or more with the first of them.

    Raises:
        ConfigError: if there are fewer than two runs.
        DataError: if a folder is not a run, or a table of metrics is damaged.
    """
    if len({folder.resolve() for folder in folders}) < max(len(folders), 2):
        raise ConfigError(
            f"{', '.join(map(str, folders))}: expected two or more different run folders"
        )
    runs = list(map(read_run, folders))
    names = short_names(folders)
    metrics = [
        Row(title, tuple(_mean_number(run, stage, key) for run in runs), digits)
        for stage, key, title, digits in _METRICS
    ]
    seconds = [
        Row(stage, tuple(_seconds(run, stage) for run in runs), digits=1) for stage in STAGES
    ]
    return CompareSummary(
        names=names,
        warnings=list(_warnings(names, runs)),
        settings=list(_settings(runs)),
        metrics=[row for row in metrics if row.is_known],
        seconds=[row for row in seconds if row.is_known],
    )


def short_names(folders: Sequence[Path]) -> list[str]:
    """Return the shortest distinct ends of the paths of folders."""
    parts = [folder.resolve().parts for folder in folders]
    for many in range(1, max(map(len, parts)) + 1):
        names = ["/".join(each[-many:]) for each in parts]
        if len(set(names)) == len(names):
            return names
    return [f"{name} ({number})" for number, name in enumerate(names, 1)]


def _records(run: RunFacts, stage: str) -> list[Record]:
    """Return the records of a stage; for trainings in a cross-validation, one for each fold."""
    if stage == "train" and run.is_cross_validation:
        return [record for fold, record in run.trainings.items() if fold != "all"]
    return [run.records[stage]] if stage in run.records else []


def _mean_number(run: RunFacts, stage: str, key: str) -> float | None:
    """Return a number of the summary of a stage, as the mean over its records."""
    numbers = [record.number(key) for record in _records(run, stage)]
    known = [number for number in numbers if number is not None]
    return fmean(known) if known else None


def _seconds(run: RunFacts, stage: str) -> float | None:
    """Return the seconds of a stage, for all trainings together."""
    done = [record.whole_seconds for record in _records(run, stage) if record.is_done]
    return sum(done) if done else None


def _chips(run: RunFacts) -> frozenset[str]:
    """Return the names of the held-out chips that a run measured."""
    scores = read_scores(Workspace(run.folder).evaluation) if "evaluate" in run.records else None
    return frozenset(row[0] for row in scores["rows"]) if scores else frozenset()


def _settings(runs: Sequence[RunFacts]) -> Iterator[Setting]:
    """Yield the settings that differ, by their keys in the config."""
    flat = [_all_settings(run) for run in runs]
    for name in dict.fromkeys(name for settings in flat for name in settings):
        values = tuple(settings.get(name) for settings in flat)
        # A stage that a run has not reached does not count as a difference.
        known = [v for settings, v in zip(flat, values, strict=True) if name in settings]
        if any(value != known[0] for value in known):
            yield Setting(name, values)


def _all_settings(run: RunFacts) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for stage in STAGES[:-1]:  # The report repeats those of all stages.
        if record := run.records.get(stage):
            settings |= by_dotted_key(record.settings, "" if stage == "prepare" else f"{stage}.")
    if train := run.records.get("train"):
        first_weights = ("init", "encoder_weights")
        settings |= {
            f"train.{key}": train.inputs[key] for key in first_weights if key in train.inputs
        }
    return settings


def _warnings(names: Sequence[str], runs: Sequence[RunFacts]) -> Iterator[str]:
    """Yield the reasons why the figures of the runs are not comparable."""
    measured = [run for run in runs if run.evaluated("iou") is not None]
    without = [name for name, run in zip(names, runs, strict=True) if run not in measured]
    if without:
        yield f"not evaluated, so there are no metrics: {first(without)}"
    if len({run.evaluated("fold") for run in measured}) > 1:
        yield "the runs hold out different folds, so their figures cannot be compared"
    elif len({chips for run in runs if (chips := _chips(run))}) > 1:
        yield "the runs hold out different chips, so their figures cannot be compared"
    for what, roles in (("labels", ("labels", "area")), ("images", ("image",))):
        if scenes := _differing_scenes(runs, roles):
            yield f"the {what} differ ({first(scenes, 3)}), so figures cannot be compared"
    if keys := [s.name for s in _settings(runs) if s.name.startswith(_LABEL_PREFIX)]:
        yield f"the labels are read differently ({first(keys, 3)}), so figures cannot be compared"


def _differing_scenes(runs: Sequence[RunFacts], roles: tuple[str, ...]) -> list[str]:
    """Return the scenes whose files of these roles differ between runs."""
    prepared = [prepared_files(r) for run in runs if (r := run.records.get("prepare"))]
    read = dict.fromkeys(each for files in prepared for each in files)
    return [
        scene
        for role, scene in read
        if role.startswith(roles) and len({files.get((role, scene)) for files in prepared}) > 1
    ]


def _table(title: str, names: list[str], rows: list[list[str]]) -> str:
    if not rows:
        return f"no common {title} differs" if title == "setting" else f"no {title} found"
    right = () if title == "setting" else range(1, len(names) + 1)
    return table([[title, *names], *rows], right=right)


def _cells(row: Row) -> list[str]:
    """Return the values of a row, each but the first with its change."""
    changes = ["", *(change_text(change, row.digits) for change in row.changes[1:])]
    return [
        "-" if value is None else f"{value:.{row.digits}f}{f' ({change})' if change else ''}"
        for value, change in zip(row.values, changes, strict=True)
    ]


def _value_text(value: Any) -> str:  # noqa: ANN401 - any JSON value
    """Return the value of a setting as short JSON; "-" if a run does not have it."""
    text = "-" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def change_text(change: float | None, digits: int) -> str:
    """Return a change with its sign; empty if it is not known, or rounded to 0."""
    text = "" if change is None else f"{change:+.{digits}f}"
    return "" if not text.strip("+-0.") else text
