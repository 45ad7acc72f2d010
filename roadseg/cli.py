"""roadseg on the command line: all commands, by what they are for, in the order of their use."""

import click

from roadseg.commands import (
    configs,
    engines,
    graphs,
    metrics,
    pictures,
    stages,
    tools,
    tuning,
)
from roadseg.console import Group, set_up


@click.group(
    cls=Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(package_name="roadseg")
@click.option("-v", "--verbose", count=True, help="More log lines.")
@click.option("-q", "--quiet", count=True, help="Fewer log lines.")
@click.option("--traceback", is_flag=True, help="Show where in the program an error arose.")
def main(verbose: int, quiet: int, *, traceback: bool) -> None:  # noqa: ARG001 - read by Group
    """Turn satellite images and road labels into a routable road network.

    \b
    The whole way on your own data:
      roadseg init --images images/ --labels roads.geojson
      roadseg run
    or stage by stage: prepare, train --fold 0, predict, graph, evaluate, report.

    \b
    Exit codes: 0 done, 1 failed, 2 usage or config, 3 a file cannot be read or written,
    4 some scenes failed, 70 a fault of roadseg's own, 130 interrupted, 143 terminated.
    """
    set_up(verbosity=verbose - quiet)


main.add_commands(
    {
        "To begin": [
            configs.init,
            configs.config,
            tools.demo,
            tools.doctor,
        ],
        "Stages": [
            stages.prepare,
            stages.split,
            stages.train,
            stages.predict,
            stages.graph,
            stages.evaluate,
            stages.report,
            stages.run,
        ],
        "Results": [
            graphs.route,
            metrics.score,
            metrics.diff,
            pictures.plot,
        ],
        "Better or faster": [
            tuning.tune,
            engines.quantize,
            engines.export,
            tools.bench,
        ],
    }
)
