"""The command on graph settings: tune, the search for better ones."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from roadseg.commands.making import call, stage_command
from roadseg.options import SCHEDULER, WORKERS

if TYPE_CHECKING:
    from roadseg.settings import Config
    from roadseg.workspace import Workspace


@stage_command(
    click.option("--trials", type=click.IntRange(min=1), help="Settings to try; else tune.trials."),
    click.option(
        "--write",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="Config to write; else tuned.json in the run folder.",
    ),
    WORKERS,
    SCHEDULER,
)
def tune(
    config: "Config",
    workspace: "Workspace",
    *,
    do: str,
    force: bool,
    trials: int | None,
    write: Path | None,
) -> object:
    """Search the graph settings that fit the fold held out best.

    Settings of `graph` that are searched: threshold, max_gap_m, max_turn_deg,
    min_link_probability, min_spur_m, min_component_m. The first trial are those given. Writes a
    config with what was found, unless it is better by no more than chance; then it keeps them.

    \b
    Examples:
      roadseg tune
      roadseg tune --trials 80 --workers 8 --write better.json
      roadseg graph --config run/tuned.json
    """
    if trials is not None:
        chosen = config.tune.model_copy(update={"trials": trials})
        config = config.model_copy(update={"tune": chosen})
    return call("tune", do, config, workspace, write=write, force=force)
