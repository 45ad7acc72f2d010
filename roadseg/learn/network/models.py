"""Models: networks by name, and the way from bytes to their input."""

import copy
import difflib
import functools
import itertools
import math
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any, Self, cast

import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from roadseg.errors import ConfigError, RoadsegError, first_line
from roadseg.learn.network import lite_unet
from roadseg.learn.options import WINDOW_MULTIPLE, TrainOptions
from roadseg.raster.scaling import Scaling

_PRIOR = 0.05  # Probability of road that a new network gives, near the share of roads.
_PRIOR_LOGIT = math.log(_PRIOR / (1 - _PRIOR))
_PATIENCE_S = 5  # Seconds that the hub has to answer.
_LISTED = 100  # Names in an error, at most.
WITH_CHANNELS = ("unet", "unetplusplus", "manet")  # Architectures with `decoder_channels`.
_LITE = ("unet", lite_unet.ENCODER)  # Architecture and encoder of the default network.
_TRIAL_PX = 4 * WINDOW_MULTIPLE
_ROUNDING = 1e-4  # Largest difference of logits by rounding, relative to the largest of them.
_TIMM = "tu-"  # Names of timm's encoders begin with it.
_UNBUILDABLE = (  # Errors of libraries for parts that cannot be combined.
    *(ValueError, LookupError, NotImplementedError, RuntimeError, TypeError),
    *(AttributeError, AssertionError),
)
_UNFIT = (RuntimeError, ValueError, AssertionError)  # Errors of windows that a network cannot take.
_ANY_SIZE = {  # Options of timm for encoders that otherwise take windows of one size only.
    "tu-vit_": {"dynamic_img_size": True},
    "tu-deit": {"dynamic_img_size": True},
    "tu-swin": {"strict_img_size": False},
}


@dataclass(frozen=True, kw_only=True)
class NetworkSpec:
    """What a network is built from.

    Attributes:
        architecture: name in segmentation-models, such as "unet".
        encoder: name in segmentation-models, such as "resnet34", or "tu-" and a name in timm.
        classes: logits for each pixel: one for each speed bin, the last for any road.
        decoder_channels: of the levels of the decoder, from coarse to fine, if the architecture is
            one of `WITH_CHANNELS`; None: those of segmentation-models. A unet of four levels
            instead of five ends at half the resolution, and its logits are enlarged.
    """

    architecture: str = "unet"
    encoder: str = "resnet34"
    in_channels: int
    classes: int
    decoder_channels: tuple[int, ...] | None = None

    @classmethod
    def for_training(cls, options: TrainOptions, *, bands: int, bins: int) -> Self:
        """Return the network that options ask for, for some bands and speed bins."""
        return cls(
            architecture=options.architecture,
            encoder=options.encoder,
            in_channels=bands,
            classes=bins + 1,
            decoder_channels=options.decoder_channels,
        )

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> Self:
        """Return the network that the facts of a checkpoint describe."""
        channels = facts.get("decoder_channels")
        return cls(
            architecture=facts["architecture"],
            encoder=facts["encoder"],
            in_channels=facts["in_channels"],
            classes=facts["classes"],
            decoder_channels=channels and tuple(channels),
        )


def build_model(spec: NetworkSpec, encoder_weights: str | None = None) -> nn.Module:
    """Build a network from float windows (window, band, row, col) to logits of the same size.

    The bias of its last layer is that of a rare class, so that training does not begin by
    unlearning roads everywhere. Source: Lin et al., Focal Loss for Dense Object Detection, 2017.

    Args:
        spec: architecture, encoder and the number of bands and logits.
        encoder_weights: name of pretrained encoder weights, downloaded at first use, and spread
            over other numbers of bands than 3; None draws weights from torch's generator. timm has
            one set for each name, and any name of weights takes it.

    Raises:
        ConfigError: if a name is unknown, or the parts cannot be combined.
        RoadsegError: if the pretrained weights are not available.
    """
    import segmentation_models_pytorch as smp

    architecture, encoder = spec.architecture, spec.encoder
    check_names(architecture, encoder)
    # Timm has one set of weights for each name.
    weights = True if encoder.startswith(_TIMM) and encoder_weights else encoder_weights
    options: dict[str, Any] = {}
    channels = spec.decoder_channels if architecture.lower() in WITH_CHANNELS else None
    ends_at_half = channels is not None and len(channels) < lite_unet.LEVELS
    if ends_at_half and architecture.lower() != "unet":
        raise ConfigError(
            f"train.decoder_channels: {architecture} needs five levels; only unet also takes four"
        )
    if channels is not None:
        options["decoder_channels"] = (*channels, channels[-1]) if ends_at_half else channels
    options |= next((o for name, o in _ANY_SIZE.items() if encoder.startswith(name)), {})
    try:
        with _hub() if encoder_weights else nullcontext():
            model: nn.Module = smp.create_model(
                architecture, encoder, weights, spec.in_channels, spec.classes, **options
            )
    except (OSError, SafetensorError) as error:
        raise RoadsegError(
            f"the {encoder_weights} weights of encoder {encoder} are not on this machine, and "
            f"the download failed ({first_line(error)}); set train.encoder_weights to null or "
            "to a local file, or run once with access to huggingface.co"
        ) from error
    except _UNBUILDABLE as error:
        parts = f"{architecture} with encoder {encoder}, {encoder_weights or 'new'} weights, "
        what = f"{parts}{spec.in_channels} bands cannot be built: {first_line(error)}"
        if "pretrained weights" in what:
            what += "; for random ones, set train.encoder_weights to null"
        raise ConfigError(what) from error
    if ends_at_half:
        decoder = cast("nn.Module", model.decoder)
        decoder.blocks = cast("nn.ModuleList", decoder.blocks)[:-1]
        model.segmentation_head = lite_unet.enlarged(last_layer(model))
    nn.init.constant_(cast("Tensor", last_layer(model).bias), _PRIOR_LOGIT)
    return model


def model_to_fill(spec: NetworkSpec) -> nn.Module:
    """Build a network whose weights are assigned next: the default one quickly, without values.

    Raises:
        ConfigError: see `build_model`.
    """
    channels = spec.decoder_channels
    if channels and (spec.architecture, spec.encoder) == _LITE:
        return lite_unet.LiteUnet(spec.in_channels, spec.classes, channels)
    return build_model(spec)


def check_names(architecture: str, encoder: str) -> None:
    """Refuse an architecture or an encoder that is not installed here.

    Raises:
        ConfigError: that names similar ones.
    """
    if (architecture, encoder) == _LITE:
        return
    import segmentation_models_pytorch as smp

    _check_name("architecture", architecture.lower(), list(smp.MODEL_ARCHITECTURES_MAPPING))
    if not knows_encoder(encoder):
        if encoder.startswith(_TIMM):
            _check_name("encoder", encoder, _timm_encoders())
        of_timm = f" (encoders of timm are {_TIMM}NAME, such as {_TIMM}convnext_tiny)"
        _check_name("encoder", encoder, list(smp.encoders.encoders), more=of_timm)


def knows_encoder(name: str) -> bool:
    """Return whether an encoder is installed here, by its whole name.

    Others are refused before a library sees them: timm would take `tu-hf-hub:...` for a download
    and `tu-local-dir:...` for a folder to read.
    """
    if name == lite_unet.ENCODER:
        return True
    if not name.startswith(_TIMM):
        import segmentation_models_pytorch as smp

        return name in smp.encoders.encoders
    import timm

    plain = name.removeprefix(_TIMM)
    # models that go by an older name are not listed; what follows a dot is a set of weights
    return name in _timm_encoders() or ("." not in plain and timm.is_model(plain))


def last_layer(model: nn.Module) -> nn.Conv2d:
    """Return the layer of a network of `build_model` that gives the logits."""
    head = cast("nn.Module", model.segmentation_head)
    return [layer for layer in head.modules() if isinstance(layer, nn.Conv2d)][-1]


def check_batch(model: nn.Module, *, in_channels: int, window_px: int, batch_size: int) -> None:
    """Check that a network takes batches of a shape in its present mode, training or evaluation.

    Only shapes are followed, on torch's meta device: nothing is computed, and the network stays
    as it is.

    Raises:
        ConfigError: if it does not: some encoders take windows of one size only, some decoders
            large ones only, and batch norm cannot train on a single value.
    """
    has_one_value = model.training and batch_size * window_px**2 <= WINDOW_MULTIPLE**2
    if isinstance(model, lite_unet.LiteUnet) and not has_one_value:
        return  # It takes windows of all sizes.
    trial = copy.deepcopy(model).to("meta")
    try:
        with torch.no_grad():
            trial(torch.empty(batch_size, in_channels, window_px, window_px, device="meta"))
    except _UNFIT as error:
        mode = "train on" if model.training else "predict"
        raise ConfigError(
            f"this network cannot {mode} {batch_size} windows of {window_px} pixels: "
            f"{first_line(error)}; set another window_px or batch_size, or train another "
            "architecture or encoder"
        ) from error


def fold_batch_norms(model: nn.Module, *, in_channels: int) -> nn.Module:
    """Return a copy for inference, whose convolutions do the work of the batch norms behind them.

    It computes the same up to rounding, in four fifths of the time on a CPU. A norm is taken to
    follow the convolution that is declared before it. Where that is not so, which the logits of a
    window of noise show, or where a network does not take this window, it is returned as it is.
    """
    folded = copy.deepcopy(model.eval()).cpu()
    noise = torch.randn(1, in_channels, _TRIAL_PX, _TRIAL_PX, generator=torch.Generator())
    with torch.no_grad(), suppress(*_UNFIT):
        logits = folded(noise)
        for parent in folded.modules():
            for (name, before), (norm_name, norm) in itertools.pairwise(parent.named_children()):
                if isinstance(before, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d):
                    setattr(parent, name, fuse_conv_bn_eval(before, norm))
                    # Those of timm and of the default network have an activation behind them.
                    setattr(parent, norm_name, nn.Sequential(*norm.children()))
        if (folded(noise) - logits).abs().max() <= _ROUNDING * logits.abs().max():
            return folded
    return model


class Normalise(nn.Module):
    """Turn scaled bands (window, band, row, col), uint8, into the float32 input of a network.

    It runs on the device, so that windows travel there as bytes.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, scaling: Scaling) -> None:
        """Take mean and standard deviation of each band from the scaling."""
        super().__init__()
        for name, values in (("mean", scaling.mean), ("std", scaling.std)):
            self.register_buffer(name, torch.tensor(values).view(1, -1, 1, 1))

    def forward(self, images: Tensor) -> Tensor:
        """Subtract the mean and divide by the standard deviation."""
        return (images.float() - self.mean) / self.std


@contextmanager
def _hub() -> Iterator[None]:
    """Load weights from the cache alone if the hub does not answer within seconds.

    Its library would try for half a minute, with a dozen messages.
    """
    from huggingface_hub import constants

    is_offline = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = is_offline or not _answers(constants.ENDPOINT)
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = is_offline


def _answers(address: str) -> bool:
    """Return whether a server answers at all, through the configured proxy if there is one."""
    request = urllib.request.Request(address, method="HEAD")  # noqa: S310 - an address of https
    try:
        with urllib.request.urlopen(request, timeout=_PATIENCE_S):  # noqa: S310 - the same
            return True
    except OSError as error:
        return isinstance(error, urllib.error.HTTPError)


@functools.cache
def _timm_encoders() -> list[str]:
    """Return the names of timm's models, and with them of each set of weights."""
    import timm

    plain, with_weights = timm.list_models(), timm.list_models(include_tags=True)
    return [f"{_TIMM}{name}" for name in dict.fromkeys([*plain, *with_weights])]


def _check_name(key: str, name: str, known: list[str], *, more: str = "") -> None:
    if name not in known:
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
        some = [*known[:_LISTED], *(["..."] if len(known) > _LISTED else [])]
        hint = f"did you mean {' or '.join(near)}?" if near else f"expected {', '.join(some)}"
        raise ConfigError(f"train.{key}: {name!r:.100} is unknown; {hint}{more}")
