"""The commands around the stages: bench, doctor and demo."""

import importlib
from pathlib import Path
from typing import Any

import click

from roadseg.commands.making import load, stage
from roadseg.console import say, show
from roadseg.options import CONFIG, DEVICES, JSON, LAUNCHING, SET, started, together


@click.command()
@together(*DEVICES, *LAUNCHING, CONFIG, SET, JSON)
@click.option(
    "--steps", type=click.IntRange(min=1), default=4, show_default=True, help="Steps of a round."
)
@click.option(
    "--rounds", type=click.IntRange(min=1), default=5, show_default=True, help="Rounds of each."
)
def bench(
    config_path: Path | None,
    assignments: tuple[str, ...],
    *,
    as_json: bool,
    steps: int,
    rounds: int,
    **values: Any,  # noqa: ANN401 - how to start, and where to compute
) -> None:
    """Measure training and inference on this machine.

    Windows a second of roadseg and of a bare loop of the same model, in turns, on noise in
    memory. No data is needed.

    \b
    Examples:
      roadseg bench --set train.batch_size=4 --set train.encoder=resnet18
      roadseg bench --ncores 8 --allocator tcmalloc
    """
    assignments += started(values)
    config = load(config_path, assignments, required=False)
    show(stage("bench").run(config, steps=steps, rounds=rounds), as_json=as_json)


@click.command()
@JSON
def doctor(*, as_json: bool) -> None:
    """Show what machine and installation offer, and what lacks.

    \b
    Example: roadseg doctor
    """
    summary = stage("doctor").run()
    show(summary, as_json=as_json)
    if summary.broken:
        click.get_current_context().exit(1)


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default="roadseg-demo")
@JSON
def demo(folder: Path, *, as_json: bool) -> None:
    """Draw a small city, train on it, map what was held out.

    \b
    Example: roadseg demo
    """
    show(importlib.import_module("roadseg.pipeline").demo(folder, say=say), as_json=as_json)
