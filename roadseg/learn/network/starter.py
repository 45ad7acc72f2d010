"""The starter, the network that comes with roadseg; which weights a training begins with."""

from importlib.resources import files
from pathlib import Path

from roadseg.learn.network.checkpoint_facts import read_weights_facts
from roadseg.learn.options import TrainOptions
from roadseg.system.files import with_home
from roadseg.system.fingerprints import fingerprint

NAME = "starter"  # What commands take for its folder, and the `model` of its roads.
_SUFFIXES = (".safetensors", ".pth", ".pt", ".bin", ".ckpt", ".tar")
_BEST = "best.safetensors"


def starter_folder() -> Path:
    """Return the checkpoint folder of the starter."""
    return Path(str(files("roadseg"))) / NAME


def checkpoint_folder(path: Path) -> Path:
    """Return a checkpoint folder; `starter` always means that of roadseg, not one of that name."""
    return starter_folder() if str(path) == NAME else path


def is_like_starter(options: TrainOptions, *, bands: int) -> bool:
    """Return whether a network will have the form of the starter, but for its speed bins."""
    facts = read_weights_facts(starter_folder() / _BEST)
    channels = options.decoder_channels and list(options.decoder_channels)
    form = {
        "architecture": options.architecture,
        "encoder": options.encoder,
        "decoder_channels": channels,
        "in_channels": bands,
    }
    return form.items() <= facts.items()


def names_file(encoder_weights: str) -> bool:
    """Return whether encoder weights name a file or folder: by a slash, or a suffix of files."""
    return "/" in encoder_weights or encoder_weights.endswith(_SUFFIXES)


def first_weights(options: TrainOptions) -> dict[str, str]:
    """Return the weights that training starts from, by the options that name them.

    Files count by their contents, wherever they lie; see `fingerprint`.
    """
    weights = options.encoder_weights
    is_file = weights is not None and names_file(weights)
    if weights == NAME:
        weights = f"{NAME} {fingerprint(starter_folder() / _BEST)}"
    return {
        "init": fingerprint(options.init / _BEST) if options.init else "none",
        "encoder_weights": fingerprint(with_home(weights)) if weights and is_file else str(weights),
    }
