"""The command that installs the QGIS plugin."""

import click

from roadseg.commands.cli.command import shown
from roadseg.commands.cli.group import OrderedGroup


@click.group(cls=OrderedGroup)
def qgis() -> None:
    """Use roadseg in QGIS.

    \b
    Example: roadseg qgis install
    """


@qgis.command()
@click.option(
    "--profile",
    metavar="NAME",
    help="Profile of QGIS (Settings > User Profiles). [default: default]",
)
@shown
def install(*, profile: str | None) -> object:
    """Install the QGIS plugin for this user, or bring it up to date.

    The plugin adds six algorithms to the toolbox of QGIS's Processing, which start this roadseg.
    Install it again after roadseg has moved to another environment.

    \b
    Examples:
      roadseg qgis install
      roadseg qgis install --profile work
    """
    from roadseg.commands.tools import qgis as plugin

    return plugin.run(profile)
