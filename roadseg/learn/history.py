"""History: the epochs of a training, which one was best, and whether it has ended."""

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from roadseg.errors import ConfigError
from roadseg.io.files import whole
from roadseg.learn.checkpoints import Facts, checkpoint_path, read_facts

Row = dict[str, float]  # one epoch, as in metrics.csv


def read_last(folder: Path, settings: Mapping[str, Any]) -> Facts | None:
    """Return the facts of the training that a folder holds, None if it holds none.

    Raises:
        ConfigError: if that training had other settings; it says which.
    """
    path = checkpoint_path(folder, "last")
    if not path.exists():
        return None
    facts = read_facts(folder, "last")
    wanted = json.loads(json.dumps(settings))  # tuples are lists there
    changed = [
        f"{key} {facts.get(key)} (now {value})"
        for key, value in wanted.items()
        if facts.get(key) != value
    ]
    if changed:
        raise ConfigError(
            f"{path}: this training began with {', '.join(changed)}; restore that to go on with "
            "it, or train anew with --force"
        )
    return facts


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
