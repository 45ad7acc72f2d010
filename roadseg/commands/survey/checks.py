"""Checks of a config before anything runs: its files are there, and its names are known."""

from pathlib import Path

from roadseg.config import Config
from roadseg.errors import ConfigError
from roadseg.roads.formats.by_suffix import check_formats
from roadseg.system.files import with_home
from roadseg.system.workspace import Fold, FoldOrEach

_BY_FILE = "file"  # Method of the split that takes folds, and their number, from a file.


def check_settings(config: Config, *, fold: Fold | FoldOrEach = 0) -> None:
    """Check that the fold exists and that the formats of graphs can be written here.

    Raises:
        ConfigError: if not.
    """
    check_formats(config.graph.formats)
    is_number_known = config.split.method != _BY_FILE
    if isinstance(fold, int) and is_number_known and fold >= config.folds:
        raise ConfigError(
            f"--fold {fold} does not exist; choose 0 to {config.folds - 1} (split.folds)"
        )


def check_training(config: Config) -> None:
    """Check that the files that a training needs exist, and that its network is known.

    Raises:
        ConfigError: if not; the message names the file, or similar names of networks.
    """
    for key, path in _files(config).items():
        if not path.exists():
            raise ConfigError(f"{key}: {path} does not exist")
    from roadseg.learn.network.models import check_names

    check_names(config.train.architecture, config.train.encoder)


def _files(config: Config) -> dict[str, Path]:
    """Return the files that settings of the training and the split name."""
    weights = config.train.encoder_weights
    named = {"train.init": config.train.init}
    if config.split.method == _BY_FILE:
        named["split.file"] = config.split.file
    if weights and "/" in weights:
        named["train.encoder_weights"] = with_home(weights)
    return {key: path for key, path in named.items() if path is not None}
