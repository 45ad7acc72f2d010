"""Tools beside the stages: inspect data, map in one call, draw the synthetic city."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from roadseg.api.arguments import AnyPath
from roadseg.api.notebooks import progress_in_notebook
from roadseg.api.runs import Overrides, load_config, settings_of
from roadseg.config import Config

if TYPE_CHECKING:
    from roadseg.commands.tools.demo import DemoSummary
    from roadseg.commands.tools.map import MapSummary


def init(
    images: AnyPath | Iterable[AnyPath] = (),
    labels: AnyPath | Iterable[AnyPath] = (),
    *,
    cities: AnyPath | Iterable[AnyPath] = (),
    overrides: Overrides = None,
) -> Config:
    """Inspect images and road labels, and return a config for them, like `roadseg init`.

    Args:
        images: files, folders or patterns of images.
        labels: likewise, of road labels.
        cities: folders with images and labels instead, each a set with its own options;
            "NAME=FOLDER" gives the set another name.
        overrides: settings by key, which are kept.

    Raises:
        DataError: if there are no images or labels, or they cannot be used.
    """
    from roadseg.commands.tools import init as tool

    settings = load_config(overrides=overrides)
    return tool.find_config(_texts(images), _texts(labels), settings, _texts(cities))


def map_roads(
    images: AnyPath | Iterable[AnyPath],
    output: AnyPath,
    *,
    labels: AnyPath | Iterable[AnyPath] = (),
    checkpoints: AnyPath | Iterable[AnyPath] = (),
    adapt: bool = False,
    minutes: float | None = None,
    overrides: Overrides = None,
    force: bool = False,
) -> "MapSummary":
    """Map the roads of images, like `roadseg map`; called again it goes on where it ended.

    Args:
        images: files, folders or patterns.
        output: folder for the config, the graphs, the report and all else.
        labels: known roads, on which a network is trained.
        checkpoints: folders of trained networks instead; without both, the starter maps.
        adapt: let the network first learn from the roads of the images that it is sure of.
        minutes: time limit of the training; None for that of the first call, or else 20 with
            labels, and 2 with `adapt`.
        overrides: settings by key.
        force: do everything again.

    Raises:
        ConfigError: if there are both labels and networks, labels are to be adapted to, `minutes`
            limits no training, or `output` has another map.
        DataError: if images or labels cannot be used.
    """
    from roadseg.commands.tools import map as tool

    with progress_in_notebook():
        return tool.run(
            _texts(images),
            Path(output),
            labels=_texts(labels),
            checkpoints=list(map(Path, _texts(checkpoints))),
            adapt=adapt,
            minutes=minutes,
            settings=settings_of(overrides),
            force=force,
            say=lambda *_: None,
        )


def demo(folder: AnyPath) -> "DemoSummary":
    """Write images, labels and config of a synthetic city to a new folder.

    `roadseg.run(folder / "roadseg.json")` then does the rest of `roadseg demo`.
    """
    from roadseg.commands.tools import demo as tool

    return tool.run(Path(folder))


def _texts(paths: AnyPath | Iterable[AnyPath]) -> list[str]:
    return [str(paths)] if isinstance(paths, str | Path) else [str(path) for path in paths]
