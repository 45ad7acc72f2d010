"""History: the epochs of a training, which one was best, and whether it has ended."""

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from roadseg.errors import ConfigError
from roadseg.io.files import whole
from roadseg.learn.checkpoints import checkpoint_path, read_facts

Row = dict[str, float]  # one epoch, as in metrics.csv


def read_history(folder: Path, settings: Mapping[str, Any]) -> list[Row]:
    """Return the epochs of the training that a folder holds, none if it holds none.

    Raises:
        ConfigError: if that training had other settings.
    """
    path = checkpoint_path(folder, "last")
    if not path.exists():
        return []
    facts = read_facts(folder, "last")
    for key, wanted in json.loads(json.dumps(settings)).items():  # tuples are lists there
        if facts.get(key) != wanted:
            raise ConfigError(
                f"{path}: this training began with {key} {facts.get(key)}, now it is {wanted}; "
                "restore that to go on with it, or train anew with --force"
            )
    history: list[Row] = facts["history"]
    return history


def best_row(history: list[Row]) -> Row:
    """Return the epoch with the lowest validation loss, the first of equals."""
    return min(history, key=lambda row: row["val_loss"])


def has_ended(history: list[Row], epochs: int, patience: int) -> bool:
    """Say whether all epochs are done, or `patience` of them have passed since the best."""
    if not history:
        return False
    return len(history) >= epochs or len(history) - best_row(history)["epoch"] >= patience


def write_metrics(path: Path, history: list[Row]) -> None:
    """Write the epochs as a table, one line each."""
    with whole(path) as partial, partial.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(history[0]))
        writer.writeheader()
        writer.writerows(history)
