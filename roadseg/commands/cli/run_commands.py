"""The commands on runs as a whole: status and compare."""

import shlex
from pathlib import Path

import click

from roadseg.commands.cli.command import load, shown
from roadseg.commands.cli.options import CONFIG, FOLDER, RUN, RUN_ARGUMENT, SET, together


@click.command()
@together(RUN_ARGUMENT, CONFIG, SET, RUN, shown)
def status(
    config_path: Path | None,
    assignments: tuple[str, ...],
    run_folder: Path | None,
) -> object:
    """Show which stages of a RUN are done, changed, running or missing.

    A stage is changed if `roadseg run` would run it again, because its settings, its inputs or an
    earlier stage have changed since it ran.

    \b
    Examples:
      roadseg status
      roadseg status roadseg-map --set graph.threshold=0.4
    """
    from roadseg.commands.tools import status
    from roadseg.config import find_config

    config_file = find_config(config_path, run_folder, required=False)
    config = None
    if config_file or run_folder is None or assignments:
        config = load(config_path, assignments, run_folder)
    folder = run_folder or (config.run if config else Path())
    named = {"--config": [config_path], "--run": [run_folder], "--set": assignments}
    given = [(option, str(each)) for option, values in named.items() for each in values if each]
    return status.run(config, folder, options=shlex.join(word for pair in given for word in pair))


@click.command()
@click.argument("folders", metavar="RUN RUN...", type=FOLDER, nargs=-1, required=True)
@shown
def compare(folders: tuple[Path, ...]) -> object:
    """Compare the settings, metrics and times of runs.

    Changes are relative to the first RUN. A warning appears if folds, held-out chips or labels
    differ, so that the figures cannot be compared. --json adds the metrics of each held-out chip.

    \b
    Example: roadseg compare run/ other-run/
    """
    from roadseg.commands.tools import compare

    return compare.run(folders)


# In the order of their use.
COMMANDS = [status, compare]
