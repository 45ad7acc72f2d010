"""Facts of a report: the records, tables, curves and credits of a run as JSON values."""

import csv
import os
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePath
from typing import Any

from roadseg.config import Config
from roadseg.errors import DataError
from roadseg.learn.network.checkpoint_facts import checkpoint_path, read_checkpoint_facts
from roadseg.raster.images import open_raster
from roadseg.report.scenes import ReportScenes
from roadseg.roads.labels.origins import credits_of, read_origins
from roadseg.roads.speeds import shown_name
from roadseg.system.records import with_texts
from roadseg.system.stage_records import Record, read_record
from roadseg.system.text import first

# Facts of a checkpoint that the page shows, in this order.
_CHECKPOINT = (
    *("architecture", "encoder", "encoder_weights", "fold", "epoch", "bands", "band_names"),
    *("gsd_m", "resample_m", "window_px", "batch_size", "optimizer", "learning_rate", "schedule"),
    *("loss", "augment", "bin_edges", "bin_unit", "precision", "backend", "score"),
    *("threshold", "thresholds", "scaling"),
)
_COPYRIGHT = "TIFFTAG_COPYRIGHT"  # Where a GeoTIFF names its owner.
_SCHEME_SOURCES = {"osm": "© OpenStreetMap contributors"}


def read_records(paths: Iterable[Path]) -> dict[str, Record]:
    """Return the records of finished stages by stage.

    Raises:
        DataError: if a file is not a record.
    """
    records = {path.stem: read_record(path) for path in paths}
    return {name: record for name, record in records.items() if record and record.is_done}


def read_scores(path: Path) -> dict[str, Any] | None:
    """Return columns and rows of the table of metrics of chips; None if it does not exist.

    Raises:
        DataError: if the file is not such a table.
    """
    if not path.is_file():
        return None
    header, rows = _read_table(path, "chip", "run `roadseg evaluate --force`")
    values = [[row[0], *(_number(cell) for cell in row[1:])] for row in rows]
    return {"columns": header, "rows": values}


def read_training(folder: Path) -> dict[str, Any] | None:
    """Return the curves of a checkpoint folder and its facts; None if no epoch is finished.

    Raises:
        DataError: if metrics.csv is not a table of epochs.
        CheckpointError: if the checkpoint is invalid.
    """
    curves = folder / "metrics.csv"
    if not (curves.is_file() and checkpoint_path(folder, "best").is_file()):
        return None
    header, rows = _read_table(curves, "epoch", "delete it to leave the curves out")
    facts = read_checkpoint_facts(folder, "best")
    return {
        "epochs": [dict(zip(header, map(_number, row), strict=True)) for row in rows],
        "best_epoch": facts.get("epoch"),
        "facts": {name: facts[name] for name in _CHECKPOINT if name in facts},
    }


def quality_facts(record: Record | None) -> dict[str, Any] | None:
    """Return the facts of prepare about images and labels; None if it has not run."""
    if record is None or record.summary is None:
        return None
    return {
        name: {shown_name(speed): part for speed, part in value.items()}
        if name.endswith("_by_speed_bin")
        else value
        for name, value in record.summary.items()
        if name != "sheets"
    }


def with_short_paths(value: Any, project: Path) -> Any:  # noqa: ANN401 - any JSON value
    """Shorten paths in JSON values, so that they do not reveal folders outside the project.

    Paths in the project become relative to it; other paths, also at the start of a message, keep
    their last two parts.
    """

    def shorten(text: str) -> str:
        inside = text.replace(f"{project}{os.sep}", "")
        path, colon, rest = inside.partition(": ")
        if not PurePath(path).root:
            return inside
        return f"…/{'/'.join(PurePath(path).parts[-2:])}{colon}{rest}"

    return with_texts(value, shorten)


def _read_table(path: Path, first: str, advice: str) -> tuple[list[str], list[list[str]]]:
    """Return columns and rows of a CSV table whose first column has the name `first`.

    Raises:
        DataError: if it has another first column, or rows of other lengths.
    """
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        header, *rows = list(csv.reader(file)) or [[]]
    if header[:1] != [first] or any(len(row) != len(header) for row in rows):
        raise DataError(f"{path}: not a table of metrics; {advice}")
    return header, rows


def _number(cell: str) -> float | None:
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if abs(value) < float("inf") else None


def credit_lines(config: Config, shown: ReportScenes, prepare: Record | None) -> list[str]:
    """Return a line for the images and one for the labels, each only if something is known.

    They name the copyright tags of images, the project behind the scheme of labels, the origins
    that are recorded beside fetched labels, and the licences in the config.

    Args:
        prepare: record of prepare, which counts the label files of each scheme.

    Raises:
        DataError: if an image or the record of a label file cannot be read.
    """
    images = [scene.image.path for scene in shown.scenes if scene.image]
    schemes = (prepare.summary or {}).get("schemes", {}) if prepare else {}
    origins = read_origins(shown.labels)
    fetched = [*credits_of(origins), *(origin.licence for origin in origins)]
    sources = [_SCHEME_SOURCES[scheme] for scheme in schemes if scheme in _SCHEME_SOURCES]
    # The record of fetched labels names the same project with the day of its data.
    sources = [each for each in sources if not any(text.startswith(each) for text in fetched)]
    names = {
        "Images": [*copyrights(images), *(each.imagery.licence for each in config.sets)],
        "Labels": [*fetched, *sources, *(each.labels.licence for each in config.sets)],
    }
    distinct = {what: list(dict.fromkeys(filter(None, each))) for what, each in names.items()}
    return [f"{what}: {first(each, 3)}" for what, each in distinct.items() if each]


def copyrights(images: Iterable[Path]) -> Iterator[str]:
    """Yield the copyright tag of each image; empty if it has none.

    Raises:
        DataError: if an image cannot be opened.
    """
    for path in images:
        with open_raster(path) as source:
            yield source.tags().get(_COPYRIGHT, "").strip()
