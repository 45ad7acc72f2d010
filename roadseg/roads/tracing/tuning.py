"""Tuning: search the best settings, and tell whether they are significantly better."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from roadseg.arrays import Floats

Settings = dict[str, float]

_TWO_SIDED = 1.96  # Standard errors on either side of the mean, for a confidence of 95 %.
_FEWEST = 2  # Values that a standard error needs.


@dataclass(frozen=True)
class Parameter:
    """A setting that is searched, from `low` to `high`, rounded to multiples of `step`."""

    name: str
    low: float
    high: float
    step: float

    def at(self, share: float) -> float:
        """Return the value at a share of the range, clipped to 0 to 1."""
        value = self.low + min(max(share, 0.0), 1.0) * (self.high - self.low)
        return float(round(round(value / self.step) * self.step, 6))

    def share(self, value: float) -> float:
        """Return the share of the range at which a value lies, the inverse of `at`."""
        return (value - self.low) / (self.high - self.low)


PARAMETERS = (
    Parameter("threshold", 0.1, 0.9, 0.01),
    Parameter("max_gap_m", 0, 60, 1),
    Parameter("max_turn_deg", 15, 90, 5),
    Parameter("min_link_probability", 0, 0.5, 0.01),
    Parameter("min_spur_m", 0, 30, 1),
)
_THRESHOLD, *_OTHERS = PARAMETERS
_THRESHOLDS = 9  # Thresholds of the first sweep, 0.1 apart.
_STEP = 0.25  # Share of a range; length of the first moves around the best settings.
_FINER = 0.25  # Factor of these moves for the threshold, which the sweep has narrowed down.
_LEAST_STEP = 0.01  # Share of a range; shorter moves change nothing.


@dataclass(frozen=True)
class Trial:
    """Settings that were tried, with their scores.

    Attributes:
        settings: value of each of `PARAMETERS` by name.
        scores: score of each area, 0 to 1; NaN without roads in labels and prediction.
    """

    settings: Settings
    scores: Floats

    @property
    def score(self) -> float:
        """Mean over the areas with roads; 1 if no area has roads."""
        known = self.scores[~np.isnan(self.scores)]
        return float(known.mean()) if len(known) else 1.0


Score = Callable[[Sequence[Settings]], Sequence[Floats]]


def search(score: Score, start: Settings, *, trials: int) -> list[Trial]:
    """Search the settings with the highest mean score.

    The trials come in rounds, within which they are independent:

    1. `start`, and evenly spread thresholds
    2. thresholds halfway between the best and its neighbours
    3. for half of the remaining trials, all other settings at once, spread over their ranges by a
       scrambled Halton sequence
    4. single settings, up and down from the best so far, in steps that halve

    No settings are tried twice.

    Args:
        score: returns the scores of each of some settings, one for each area.
        start: first settings; they may lie outside the ranges.
        trials: most settings to try, at least 1.

    Returns:
        All trials, in their order.
    """
    tried: list[Trial] = []

    def attempt(wanted: Iterable[Settings]) -> None:
        new: list[Settings] = []
        for settings in wanted:
            if settings not in [*(trial.settings for trial in tried), *new]:
                new.append(settings)
        if new := new[: trials - len(tried)]:
            tried.extend(Trial(s, scores) for s, scores in zip(new, score(new), strict=True))

    # Rounds 1 and 2: the threshold, which matters most.
    count = min(_THRESHOLDS, (trials - 1) // 3)
    sweep = [_THRESHOLD.at(share) for share in np.linspace(0, 1, count).tolist()]
    attempt([start, *({**start, "threshold": value} for value in sweep)])
    attempt(_halfway(best_of(tried).settings, count))
    # Round 3: all other settings.
    attempt(_spread(best_of(tried).settings, (trials - len(tried)) // 2))
    # Round 4: single settings around the best.
    step = _STEP
    while len(tried) < trials and step > _LEAST_STEP:
        attempt(_moves(best_of(tried).settings, step))
        step /= 2
    return tried


def best_of(tried: Sequence[Trial]) -> Trial:
    """Return the trial with the highest mean score, the first of equals."""
    return max(tried, key=lambda trial: trial.score)


def gain(before: Trial, after: Trial) -> tuple[float, float]:
    """Return by how much the mean score grows, and the margin of error.

    Returns:
        The mean difference over the areas that have roads in either trial (an area without roads
        scores 1), and half the width of its 95 % confidence interval from the variance between
        areas; infinite for fewer than two areas.
    """
    has_roads = ~(np.isnan(before.scores) & np.isnan(after.scores))
    change = (np.nan_to_num(after.scores, nan=1) - np.nan_to_num(before.scores, nan=1))[has_roads]
    if len(change) < _FEWEST:
        return float(change.sum()), math.inf
    error = change.std(ddof=1) / math.sqrt(len(change))
    return float(change.mean()), float(_TWO_SIDED * error)


def _halfway(best: Settings, count: int) -> list[Settings]:
    """Return the best settings with thresholds half a step of the sweep lower and higher."""
    middle, half = _THRESHOLD.share(best["threshold"]), 0.5 / max(count - 1, 1)
    return [{**best, "threshold": _THRESHOLD.at(middle + way * half)} for way in (-1, 1)]


def _spread(best: Settings, count: int) -> list[Settings]:
    from scipy.stats import qmc

    shares = qmc.Halton(len(_OTHERS), seed=0).random(max(count, 0)).tolist()
    names = [parameter.name for parameter in _OTHERS]
    points = [[p.at(share) for p, share in zip(_OTHERS, row, strict=True)] for row in shares]
    return [{**best, **dict(zip(names, point, strict=True))} for point in points]


def _moves(best: Settings, step: float) -> list[Settings]:
    """Return the best settings with each parameter lower and higher by a share of its range."""
    moves = []
    for parameter in PARAMETERS:
        share = parameter.share(best[parameter.name])
        length = step * _FINER if parameter is _THRESHOLD else step
        values = (parameter.at(share + way * length) for way in (-1, 1))
        moves += [{**best, parameter.name: value} for value in values]
    return moves
