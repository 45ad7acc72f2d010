"""The commands on the config: check, show, set, diff and schema."""

import json
from dataclasses import dataclass
from pathlib import Path

import click

from roadseg.commands.cli.command import load, shown
from roadseg.commands.cli.group import OrderedGroup
from roadseg.commands.cli.options import CONFIG, FILE, SET
from roadseg.system.text import count

_ALWAYS_JSON = click.option(
    "--json",
    is_flag=True,
    expose_value=False,
    help="Accepted, but without effect: the output is always JSON.",
)


@click.group(cls=OrderedGroup)
def config() -> None:
    """Check, show, change or describe the config.

    \b
    Examples:
      roadseg config show
      roadseg config set train.epochs=20
    """


@dataclass(frozen=True)
class _Checked:
    scenes: int

    def __str__(self) -> str:
        return f"the config is valid; {count(self.scenes, 'scene')} with an image and labels"


@config.command()
@CONFIG
@SET
@shown
def check(config_path: Path | None, assignments: tuple[str, ...]) -> object:
    """Check the config without running anything.

    The images, labels and other files that it names must exist, and the network must be known.

    \b
    Example: roadseg config check --config roadseg.json
    """
    from roadseg.commands.stages import pipeline
    from roadseg.commands.stages.declared_stages import refuse_map
    from roadseg.dataset.sets import find_scenes, find_sources
    from roadseg.system.workspace import Workspace

    loaded = load(config_path, assignments)
    refuse_map(loaded, Workspace(loaded.run))
    pipeline.check_settings(loaded)
    pipeline.check_training(loaded)
    scenes = find_sources(find_scenes(loaded.sets), area_setting=loaded.imagery.area)
    return _Checked(len(scenes))


@config.command("show")
@CONFIG
@SET
@_ALWAYS_JSON
def show_config(config_path: Path | None, assignments: tuple[str, ...]) -> None:
    """Print the config with all its defaults.

    Paths are made absolute. Without a config file, the command prints the defaults.

    \b
    Example: roadseg config show --set train.epochs=3
    """
    loaded = load(config_path, assignments, required=False)
    click.echo(json.dumps(loaded.model_dump(mode="json"), indent=2, ensure_ascii=False))


@config.command()
@_ALWAYS_JSON
def schema() -> None:
    """Print the JSON Schema of the config.

    It lists every key with its default, unit and meaning.

    \b
    Example: roadseg config schema > roadseg.schema.json
    """
    from roadseg.config import config_schema

    click.echo(json.dumps(config_schema(), indent=2))


@config.command("set")
@CONFIG
@shown
@click.argument("assignments", nargs=-1, required=True, metavar="KEY=VALUE...")
def set_values(config_path: Path | None, assignments: tuple[str, ...]) -> object:
    """Change settings in the config file.

    Write values as for --set, but relative paths start at the folder of the file. An invalid
    config is not written.

    \b
    Example: roadseg config set train.epochs=20 graph.formats=gpkg,osm
    """
    from roadseg.config import change_config, find_config

    path = find_config(config_path)
    change_config(path, assignments)
    return _Changed(str(path), list(assignments))


@dataclass(frozen=True)
class _Changed:
    config: str
    assignments: list[str]

    def __str__(self) -> str:
        return f"{self.config}: {', '.join(self.assignments)}"


@config.command()
@CONFIG
@_ALWAYS_JSON
@click.argument("other", required=False, type=FILE)
def diff(config_path: Path | None, other: Path | None) -> None:
    """Print the settings that differ from another config.

    OTHER is a config file; without it the defaults are compared. Each key has the value there and
    the value of this config.

    \b
    Example: roadseg config diff other.json
    """
    from roadseg.config import Config, differences

    there = Config() if other is None else load(other, ())
    here = load(config_path, (), required=False)
    click.echo(json.dumps(differences(there, here), indent=2, ensure_ascii=False))
