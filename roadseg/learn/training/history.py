"""History: the epochs of a training, which one was best, and whether it has ended."""

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from roadseg.errors import ConfigError
from roadseg.learn.network.checkpoint_facts import Facts, checkpoint_path, read_checkpoint_facts
from roadseg.learn.options import TrainOptions
from roadseg.system.fingerprints import GONE
from roadseg.system.records import changes, is_fixed, known_settings

_log = logging.getLogger(__name__)
_PATH_SETTINGS = {"init", "encoder_weights"}  # They may name a file, which may move.
# What a training knows of its data, besides their key.
_OF_DATA = {"prepared_data", "training_chips", "validation_chips", "scaling"}
_OF_DATA |= {"gsd_m", "gsd_range_m", "resample_m", "labels_have_speeds"}
# They may grow: `planned_before` checks them. The patience is one of earlier versions.
_TIME_SETTINGS = {"minutes", "epochs", "patience"}
PATIENCE = 8  # Epochs without a lower validation loss after which a "step" schedule ends.

Row = dict[str, float]  # Columns of an epoch in metrics.csv.


def read_last(folder: Path, settings: Mapping[str, Any]) -> Facts | None:
    """Return the facts of the training in a folder, to resume it; None without a training.

    A training whose best weights are missing starts from the beginning, so it counts as None. An
    option that is newer than the training is unchanged if it has its default.

    Raises:
        ConfigError: if the training had other settings; the message names them.
    """
    path = checkpoint_path(folder, "last")
    if not path.exists():
        return None
    facts = read_checkpoint_facts(folder, "last")
    free = _PATH_SETTINGS | (_TIME_SETTINGS if settings.get("minutes") else set())
    now = json.loads(json.dumps({k: v for k, v in settings.items() if k not in free}))
    wanted = known_settings(now, facts, TrainOptions.defaults()) | {
        name: fixed
        for name, fixed in TrainOptions.retired.items()
        if name in facts.keys() - free and not is_fixed(facts[name], fixed)
    }
    changed: dict[str, list[str]] = {}
    for key, before, after in changes({name: facts.get(name) for name in wanted}, wanted):
        if after != GONE:
            section, _, _ = key.partition(".")
            changed.setdefault(section, []).append(f"{key} {before} (now {after})")
    if "prepared_data" in changed:
        own = {key: found for key, found in changed.items() if key not in _OF_DATA}
        changed = {
            "prepared_data": ["other images, labels or folds, or other settings of these"],
            **own,
        }
    if changed:
        what = ", ".join(each for found in changed.values() for each in found)
        raise ConfigError(
            f"{path}: the training was started with {what}; restore these to resume it, or retrain "
            "with --force"
        )
    best = checkpoint_path(folder, "best")
    if facts["history"] and not best.is_file():
        _log.warning("%s is missing, so the training starts from the beginning", best)
        return None
    return facts


def best_row(history: list[Row]) -> Row:
    """Return the first epoch with the lowest validation loss; the last if nothing is held out."""
    if "val_loss" not in history[0]:
        return history[-1]
    return min(history, key=lambda row: row["val_loss"])


def seconds_of(history: list[Row]) -> float:
    """Return the seconds of all epochs together."""
    return sum(row["seconds"] for row in history)


def has_ended(history: list[Row], options: TrainOptions) -> bool:
    """Return whether all epochs are done, or the schedule "step" has run out of `PATIENCE`.

    The schedule "cosine" lowers the learning rate until the last epoch, so it never ends early, and
    neither does a training with a time limit.
    """
    if not history:
        return False
    passed = len(history) - best_row(history)["epoch"]
    may_end = options.schedule == "step" and options.minutes is None
    return (may_end and passed >= PATIENCE) or len(history) >= options.epochs
