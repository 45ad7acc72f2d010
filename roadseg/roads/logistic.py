"""LogisticModel: a logistic regression as numbers by name, fitted near what is known before.

The model of edges is one; its terms, and its text in the tag of a raster, are here as well.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from statistics import fmean
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from roadseg.arrays import Floats
from roadseg.system.records import parse_json
from roadseg.system.schemas import STRICT, check

MEAN, LOWEST = "log odds of the mean", "log odds of the lowest"  # Probabilities along the edge.
MET = "log odds of the roads that it meets"  # Their mean probability.
LENGTH, WIDTH, STRAIGHTNESS = "log length", "log width", "straightness"
DEAD_ENDS, IS_LINK = "dead ends", "is a link"
EDGE_TERMS = (MEAN, LOWEST, MET, LENGTH, WIDTH, STRAIGHTNESS, DEAD_ENDS, IS_LINK)

Terms = Mapping[str, Floats]

_STEPS = 50  # Newton steps, at most; ten are usual.
_SETTLED = 1e-8  # Change of all coefficients, in standard deviations, from which on a fit is done.
_SOFT = 0.01  # Keeps the log odds of probabilities finite.
_FARTHEST = 30.0  # Log odds that are told apart; beyond, probabilities are 0 or 1.
_LOOSE = 0.1  # Strength with which the intercept at the mean of the terms is held.


@dataclass(frozen=True)
class LogisticModel:
    """A logistic regression.

    Attributes:
        intercept: log odds where all terms are 0.
        coefficients: log odds for each unit of a term, by its name.
    """

    __pydantic_config__ = STRICT

    intercept: float
    coefficients: Mapping[str, float]

    def probability(self, terms: Terms) -> Floats:
        """Return the probability for each row, shape (k,), 0 to 1.

        Args:
            terms: columns of shape (k,) by name, one at least; those without a coefficient do not
                count.
        """
        rows = len(next(iter(terms.values())))
        odds = np.full(rows, self.intercept)
        for name, weight in self.coefficients.items():
            odds += weight * terms[name]
        return _sigmoid(odds)

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values with four decimals."""
        coefficients = {name: round(value, 4) for name, value in self.coefficients.items()}
        return {"intercept": round(self.intercept, 4), "coefficients": coefficients}


@dataclass(frozen=True)
class EdgeModel(LogisticModel):
    """How probable it is that edges that were traced on the pixels of a network are roads.

    Attributes:
        coefficients: of some of `EDGE_TERMS`.
        least_threshold: probability, 0 to 1, below which no pixel is traced as road, also if the
            threshold of the network is lower; None if that alone counts.

    Raises:
        ValueError: if a coefficient is of no such term.
    """

    least_threshold: Annotated[float, Field(gt=0, lt=1)] | None = None

    def __post_init__(self) -> None:
        """Refuse terms that edges do not have."""
        if unknown := sorted(self.coefficients.keys() - set(EDGE_TERMS)):
            terms = ", ".join(EDGE_TERMS)
            raise ValueError(f"expected coefficients of {terms}, got {unknown[0]:.60}")

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values with four decimals."""
        least = self.least_threshold
        return super().as_json() | ({} if least is None else {"least_threshold": least})


def fit_near(
    prior: LogisticModel, terms: Terms, share: Floats, weight: Floats, *, strength: float
) -> LogisticModel:
    """Fit a logistic regression that stays near another one as long as little is known.

    What is minimised is the negative log-likelihood plus half of `strength` times the squared
    distance of the coefficients from those of the prior, each in standard deviations of its term
    in the data; the intercept at the mean of the terms is all but free. So a few rows decide how
    often the outcome is true, and only many rows on what that depends.

    Args:
        prior: coefficients to stay near; terms that it does not name are near 0.
        terms: columns of shape (k,) by name, all of which are fitted.
        share: shape (k,), 0 to 1, what is to be predicted: the outcome, or a mean of several.
        weight: shape (k,), how many observations each row counts for.
        strength: number of observations that the prior is worth, above 0.
    """
    names = list(terms)
    columns = np.column_stack([terms[name] for name in names]).reshape(-1, len(names))
    prior_slopes = np.array([prior.coefficients.get(name, 0.0) for name in names])
    total = weight.sum()
    if total <= 0:
        return prior
    middle = weight @ columns / total
    spread = np.sqrt(np.maximum(weight @ (columns - middle) ** 2 / total, 1e-12))
    coefficients = _least(
        design=np.column_stack([np.ones(len(columns)), (columns - middle) / spread]),
        share=share,
        weight=weight,
        prior=np.concatenate([[prior.intercept + prior_slopes @ middle], prior_slopes * spread]),
        hold=np.concatenate([[_LOOSE], np.full(len(names), strength)]),
    )
    slopes = coefficients[1:] / spread
    intercept = float(coefficients[0] - slopes @ middle)
    return LogisticModel(intercept, dict(zip(names, slopes.tolist(), strict=True)))


def mean_model(models: Sequence[EdgeModel]) -> EdgeModel | None:
    """Return the mean of models, term by term: that of their log odds; None if there are none."""
    if not models:
        return None
    names = dict.fromkeys(name for model in models for name in model.coefficients)
    of_terms = {
        name: fmean(model.coefficients.get(name, 0.0) for model in models) for name in names
    }
    known = [model.least_threshold for model in models if model.least_threshold is not None]
    return EdgeModel(
        fmean(model.intercept for model in models),
        of_terms,
        round(fmean(known), 4) if len(known) == len(models) else None,
    )


def read_packaged(name: str) -> LogisticModel:
    """Return a model that comes with the package, by the name of its JSON file in `tracing`."""
    path = files("roadseg").joinpath("roads", "tracing", name)
    stored = json.loads(path.read_text(encoding="utf-8"))
    return LogisticModel(stored["intercept"], stored["coefficients"])


def edge_model_text(model: EdgeModel) -> str:
    """Return a model of edges as the text of a tag."""
    values = asdict(model)
    if model.least_threshold is None:
        del values["least_threshold"]
    return json.dumps(values)


def parse_edge_model(text: str) -> EdgeModel:
    """Return the model of edges that a text holds, as `edge_model_text` writes it.

    Raises:
        ValueError: if the text is not a valid model.
    """
    model: EdgeModel = check(parse_json(text), EdgeModel)
    return model


def log_odds(probability: Floats) -> Floats:
    """Return the log odds of probabilities, 0 to 1, which stay within -4.6 and 4.6."""
    soft = np.asarray((1 - 2 * _SOFT) * probability + _SOFT)
    return np.asarray(np.log(soft / (1 - soft)))


def _least(*, design: Floats, share: Floats, weight: Floats, prior: Floats, hold: Floats) -> Floats:
    """Return the coefficients of the least penalised loss, which is convex, by Newton's method."""

    def loss_of(at: Floats) -> float:
        log_odds = design @ at
        # The negative log-likelihood without overflow.
        each = np.logaddexp(0, log_odds) - share * log_odds
        return float(weight @ each + hold @ (at - prior) ** 2 / 2)

    now, loss = prior, loss_of(prior)
    for _ in range(_STEPS):
        mean = _sigmoid(design @ now)
        slope = design.T @ (weight * (mean - share)) + hold * (now - prior)
        bend = (design.T * (weight * mean * (1 - mean))) @ design
        step = np.linalg.solve(bend + np.diag(hold), slope)
        # Halved until the loss falls: far from the least one, full steps may overshoot.
        while (then := loss_of(now - step)) > loss and np.abs(step).max() > _SETTLED:
            step = step / 2
        if np.abs(step).max() <= _SETTLED:
            break
        now, loss = now - step, then
    return now


def _sigmoid(log_odds: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-np.clip(log_odds, -_FARTHEST, _FARTHEST))))
