"""roadseg on the command line: all commands, by what they are for, in the order of their use."""

import click

from roadseg.commands.cli import begin, config_commands, fetch, results, stages
from roadseg.commands.cli.group import Group
from roadseg.commands.cli.logs import LOGGING, send_logs
from roadseg.commands.cli.process import (
    handle_signals,
    look_for_garbage_rarely,
    open_standard_streams,
    write_any_name,
)


@click.group(
    cls=Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(None, "-V", "--version", package_name="roadseg")
def main() -> None:
    """Turn satellite images and road labels into a routable road network.

    \b
    In one command:
      roadseg map images/ --labels roads.geojson
    In two, with a config that you can change:
      roadseg init --images images/ --labels roads.geojson
      roadseg run
    Stage by stage: prepare, train --fold 0, predict, graph, evaluate, report.

    \b
    Exit codes: 0 done, 1 failed, 2 usage or config, 3 a file cannot be read or
    written, 4 some scenes failed, 70 a bug in roadseg, 75 another host or process
    was lost (try again), 129 hung up, 130 interrupted, 143 terminated.
    """
    look_for_garbage_rarely()
    open_standard_streams()
    write_any_name()
    send_logs(click.get_current_context())
    handle_signals()


main.params.extend(LOGGING)
main.add_commands(
    {
        "First steps": [
            begin.map_images,
            begin.init,
            config_commands.config,
            fetch.fetch,
            begin.demo,
            begin.doctor,
            begin.qgis,
        ],
        "Stages": stages.COMMANDS,
        "Runs": results.OF_RUNS,
        "Results": results.COMMANDS,
        "Accuracy and speed": [results.improve, stages.quantize, results.export, begin.bench],
    }
)
