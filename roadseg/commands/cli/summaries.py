"""Summaries: what a command prints when it is done, as text or as JSON."""

import dataclasses
import json
import math
from typing import Any

import click

from roadseg.commands.cli.process import is_first


def show(summary: Any, *, as_json: bool) -> None:  # noqa: ANN401 - any stage's summary
    """Print the summary of a command, unless another process does."""
    if is_first():
        click.echo(json_text(dataclasses.asdict(summary)) if as_json else str(summary))


def announce(stage: str, summary: object) -> None:
    """Print on stderr what one stage of several did."""
    text = str(summary).replace("\n", "\n" + " " * 10)
    click.echo(f"{stage:<9} {text}", err=True)


def json_text(value: object) -> str:
    """Return a value as JSON that every reader takes: no NaN or infinity, and paths as text."""
    return json.dumps(_finite(value), default=str, allow_nan=False)


def _finite(value: object) -> object:
    """Return a value with null for numbers that are not finite."""
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
