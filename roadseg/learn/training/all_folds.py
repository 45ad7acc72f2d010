"""All folds: training on all chips, for the number of epochs that worked best on the folds."""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from roadseg.learn.network.checkpoint_facts import Facts, threshold_of
from roadseg.learn.network.checkpoints import read_checkpoint_facts
from roadseg.learn.options import TrainOptions
from roadseg.learn.training.timetable import planned_before


@dataclass(frozen=True)
class FoldTraining:
    """A training that held a fold out and is done.

    Attributes:
        folder: of its checkpoints.
        weight: of its chips together; their number, if each counts once.
    """

    folder: Path
    weight: float


def facts_of_folds(trained: Mapping[int, FoldTraining]) -> Facts:
    """Return the facts of the folds for the checkpoint of a training on all chips.

    These are the folds with their scores, the mean of their best epochs, and the mean of their
    thresholds, over all and for each set, if they were measured.

    Raises:
        CheckpointError: if a checkpoint cannot be read.
    """
    facts = {fold: read_checkpoint_facts(each.folder, "best") for fold, each in trained.items()}
    every = list(facts.values())
    sets = sorted(set().union(*(each.get("thresholds", {}) for each in every)))
    of_sets = {
        name: threshold_of([each for each in every if name in each.get("thresholds", {})], name)
        for name in sets
    }
    threshold = threshold_of(every)
    of_folds: Facts = {
        "from_folds": {
            "epochs": max(1, round(statistics.fmean(each["epoch"] for each in every))),
            "scores": {str(fold): each["score"] for fold, each in facts.items()},
        }
    }
    if threshold is not None:
        of_folds |= {"threshold": threshold} | ({"thresholds": of_sets} if of_sets else {})
    return of_folds


def as_long_as_folds(
    options: TrainOptions, of_folds: Facts, example: FoldTraining | None, *, weight: float
) -> TrainOptions:
    """Return the options of a training on all chips.

    It has as many epochs as the folds needed on average until their best one, and the learning
    rate is planned to their end. Where the time of a training is limited, it has as many steps as
    were planned for a fold.

    Args:
        options: of the config.
        of_folds: see `facts_of_folds`.
        example: the training of a fold; None if that on all chips has begun, which keeps the
            plan of a limited time itself.
        weight: of all chips together.

    Raises:
        ConfigError: if the training of the fold was planned for another time.
        CheckpointError: if its checkpoint cannot be read.
    """
    if options.minutes is None:
        return options.model_copy(update={"epochs": of_folds["from_folds"]["epochs"]})
    if example is None:
        return options
    planned = planned_before(example.folder, options)
    share = example.weight / weight
    return planned.model_copy(update={"windows_per_chip": planned.windows_per_chip * share})


def facts_of_folds_before(folder: Path) -> Facts:
    """Return the facts of the folds that the training in a folder began with.

    Raises:
        CheckpointError: if its checkpoint cannot be read.
    """
    facts = read_checkpoint_facts(folder, "last")
    return {key: facts[key] for key in ("from_folds", "threshold", "thresholds") if key in facts}
