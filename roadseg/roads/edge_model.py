"""EdgeModel: the terms by which a model says how probable an edge is, and its text in a tag."""

import json
from dataclasses import asdict
from typing import Annotated

from pydantic import AfterValidator

from roadseg.roads.logistic import LogisticModel
from roadseg.system.records import parse_json
from roadseg.system.schemas import check

MEAN, LOWEST = "log odds of the mean", "log odds of the lowest"  # Probabilities along the edge.
MET = "log odds of the roads that it meets"  # Their mean probability.
LENGTH, WIDTH, STRAIGHTNESS = "log length", "log width", "straightness"
DEAD_ENDS, IS_LINK = "dead ends", "is a link"
EDGE_TERMS = (MEAN, LOWEST, MET, LENGTH, WIDTH, STRAIGHTNESS, DEAD_ENDS, IS_LINK)


def _knows_its_terms(model: LogisticModel) -> LogisticModel:
    if unknown := sorted(model.coefficients.keys() - set(EDGE_TERMS)):
        raise ValueError(f"expected coefficients of {', '.join(EDGE_TERMS)}, got {unknown[0]:.60}")
    return model


EdgeModel = Annotated[LogisticModel, AfterValidator(_knows_its_terms)]


def edge_model_text(model: LogisticModel) -> str:
    """Return a model of edges as the text of a tag."""
    return json.dumps(asdict(model))


def parse_edge_model(text: str) -> LogisticModel:
    """Return the model of edges that a text holds, as `edge_model_text` writes it.

    Raises:
        ValueError: if it holds none.
    """
    model: LogisticModel = check(parse_json(text), EdgeModel)
    return model
