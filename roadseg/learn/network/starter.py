"""The starter: the network that comes with roadseg; maps without labels, and begins trainings."""

from importlib.resources import files
from pathlib import Path

from roadseg.learn.network.checkpoint_facts import read_weights_facts
from roadseg.learn.options import TrainOptions

NAME = "starter"  # What commands take for its folder, and the `model` of its roads.


def starter_folder() -> Path:
    """Return the checkpoint folder of the starter."""
    return Path(str(files("roadseg"))) / NAME


def checkpoint_folder(path: Path) -> Path:
    """Return a checkpoint folder; `starter` always means that of roadseg, not one of that name."""
    return starter_folder() if str(path) == NAME else path


def is_like_starter(options: TrainOptions, *, bands: int) -> bool:
    """Return whether a network will have the form of the starter, but for its speed bins."""
    facts = read_weights_facts(starter_folder() / "best.safetensors")
    channels = options.decoder_channels and list(options.decoder_channels)
    form = {
        "architecture": options.architecture,
        "encoder": options.encoder,
        "decoder_channels": channels,
        "in_channels": bands,
    }
    return form.items() <= facts.items()
