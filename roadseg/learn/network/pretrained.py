"""Pretrained weights: new networks with the weights of a file, a package or another run."""

import itertools
import logging
import pickle
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from roadseg.errors import CheckpointError, RoadsegError
from roadseg.learn.network.checkpoints import Tensors, init_from
from roadseg.learn.network.installed_weights import NAME as STARTER
from roadseg.learn.network.installed_weights import (
    PACKAGE,
    PACKAGED,
    is_like_starter,
    names_file,
    packaged_weights,
    starter_folder,
)
from roadseg.learn.network.models import NetworkSpec, build_model
from roadseg.learn.options import TrainOptions
from roadseg.roads.speeds import SpeedBins
from roadseg.system.files import with_home
from roadseg.system.text import first, one_line

_log = logging.getLogger(__name__)

_IN_FOLDER = ("best.safetensors", "model.safetensors", "pytorch_model.bin")
_NESTED = ("state_dict", "model_state_dict", "model")  # Keys of the weights in training scripts.
_RGB = 3
_COUNTER = "num_batches_tracked"  # A counter of batch norm, which old files lack and nothing reads.
_HEADS = ("fc", "head", "classifier")  # Heads of networks that classify images.
_SHOWN = 3  # Names in an error, at most.
_IMAGENET, _AT_RANDOM = "imagenet", "none"
_STARTER = "the starter of roadseg"

AUTO = "auto"  # The starter if the network has its form, else ImageNet weights, else random ones.


def build_pretrained(spec: NetworkSpec, encoder_weights: str | None) -> tuple[nn.Module, str]:
    """Build a network as `build_model` does, with encoder weights of a file, a package or the hub.

    "imagenet" is taken from an installed package (`installed_weights`), else from the cache of the
    Hugging Face hub, else downloaded. "auto" is the same, but with random weights if the download
    fails.

    Args:
        encoder_weights: "auto", a name, None, or a file or folder (see `names_file`,
            `load_encoder`).

    Returns:
        The network, and where its encoder weights come from, in a few words.

    Raises:
        ConfigError: if a name is unknown, or the parts cannot be combined.
        CheckpointError: if the file cannot be used, or does not hold this encoder.
        RoadsegError: if the pretrained weights cannot be downloaded.
    """
    if encoder_weights is None:
        return build_model(spec), _AT_RANDOM
    if names_file(encoder_weights):
        model, path = build_model(spec), with_home(encoder_weights)
        load_encoder(cast("nn.Module", model.encoder), path, name=spec.encoder)
        return model, encoder_weights
    file = packaged_weights(spec.encoder) if encoder_weights in (AUTO, _IMAGENET) else None
    if file:
        model = build_model(spec)
        encoder = cast("nn.Module", model.encoder)
        tensors = _named_by_order(_read_weights(file), encoder)
        _take_over(encoder, file, tensors, name=spec.encoder)
        return model, f"{_IMAGENET}, from the package {PACKAGE}"
    if encoder_weights != AUTO:
        return build_model(spec, encoder_weights), encoder_weights
    try:
        return build_model(spec, _IMAGENET), _IMAGENET
    except RoadsegError:
        return build_model(spec), _AT_RANDOM


def new_network(options: TrainOptions, *, bands: int, bins: SpeedBins) -> tuple[nn.Module, str]:
    """Return the network of a training in its first weights, and where these come from.

    Args:
        options: names of architecture and encoder, and of the first weights: those of the run
            `init`, else `encoder_weights`, else random ones. "starter" is the whole starter
            network, and so is "auto" if the network has its architecture.
        bins: speed bins to learn; the last logit is any road.

    Raises:
        ConfigError, CheckpointError, RoadsegError: see `build_pretrained` and `init_from`.
    """
    spec = NetworkSpec.for_training(options, bands=bands, bins=bins.count)
    if options.init is not None:
        run, setting, origin = options.init, "train.init", str(options.init)
    elif options.encoder_weights == STARTER or (
        options.encoder_weights == AUTO and is_like_starter(options, bands=bands)
    ):
        run, setting, origin = starter_folder(), "train.encoder_weights", _STARTER
    else:
        return build_pretrained(spec, options.encoder_weights)
    model, taken = init_from(spec, run, bins=bins, setting=setting)
    return model, f"{origin}: {taken}"


def check_weights(options: TrainOptions) -> None:
    """Refuse a training whose first weights are not available.

    Raises:
        RoadsegError: if they are not available.
    """
    name = options.encoder_weights
    if options.init is None and name not in (None, AUTO, STARTER) and not names_file(name):
        build_pretrained(NetworkSpec.for_training(options, bands=_RGB, bins=1), name)


def log_first_weights(options: TrainOptions, origin: str) -> None:
    """Log where the first weights of a training come from, as `new_network` returned it."""
    if options.init is not None or origin.startswith(_STARTER):
        _log.info("starting from %s", origin)
    elif origin != _AT_RANDOM:
        _log.info("first weights of encoder %s: %s", options.encoder, origin)
    elif options.encoder_weights is not None:
        _log.warning(
            "the ImageNet weights of %s are not on this machine, and the download failed: the "
            "encoder starts from random weights, which needs several times as many epochs; "
            "those of %s come with roadseg",
            *(options.encoder, PACKAGED),
        )


def load_encoder(encoder: nn.Module, path: Path, *, name: str) -> None:
    """Load the weights of an encoder from a file, which must have exactly its blocks.

    The file is one of torchvision or timm (.pth, .bin or .safetensors), a checkpoint of roadseg,
    or the weights of a whole segmentation model. Its names may have any common beginning
    ("module.", "backbone."); heads for classification are ignored. Weights for three bands are
    spread over any other number: band i takes those of colour i modulo 3, and all are scaled by
    3 / bands; a single band takes their sum.

    Source: the spreading is that of segmentation-models (patch_first_conv).

    Args:
        encoder: encoder of a network of segmentation-models; changed in place.
        path: the file, or a folder with best.safetensors, model.safetensors or pytorch_model.bin.
        name: name of the encoder, for errors.

    Raises:
        CheckpointError: if the file is missing, damaged, holds more than tensors, or does not
            hold this encoder.
    """
    file = _file_in(path)
    _take_over(encoder, file, _read_weights(file), name=name)


def _named_by_order(tensors: Tensors, encoder: nn.Module) -> dict[str, Tensor]:
    """Return tensors with the names that they have in an encoder.

    The package names its tensors differently from timm, but has them in the same order. Tensors
    after the last one of the encoder are its head for classification. Shapes are checked by
    `_take_over`.
    """
    names = [name for name in encoder.state_dict() if not name.endswith(_COUNTER)]
    values = [value for name, value in tensors.items() if not name.endswith(_COUNTER)]
    return dict(zip(names, values, strict=False))


def _take_over(encoder: nn.Module, file: Path, weights: Tensors, *, name: str) -> None:
    """Copy the weights of a file into an encoder; the file must have exactly those weights."""
    plain = _plain_names(encoder)
    wanted = {key: value for key, value in encoder.state_dict().items() if key in plain}
    tensors = _under_best_prefix(weights, set(plain.values()))
    fitting = {
        key: _spread(tensors[plain[key]], value)
        for key, value in wanted.items()
        if plain[key] in tensors
    }
    if lacking := [
        key
        for key, value in wanted.items()
        if key not in fitting or fitting[key].shape != value.shape
    ]:
        raise CheckpointError(
            f"{file}: expected the {len(wanted)} tensors of encoder {name}, missing or of another "
            f"shape are {first(lacking, _SHOWN)}; use a file of this encoder, or set train.encoder "
            "to that of the file"
        )
    if deeper := _of_further_blocks(set(tensors), set(plain.values())):
        raise CheckpointError(
            f"{file}: found {len(deeper)} weights of further blocks, such as {deeper[0]}, expected "
            f"those of encoder {name}; set train.encoder to that of the file"
        )
    with torch.no_grad():
        for key, value in fitting.items():
            wanted[key].copy_(value)


def _file_in(path: Path) -> Path:
    """Return the file of weights at a path, which may be its folder."""
    files = [path / name for name in _IN_FOLDER] if path.is_dir() else [path]
    for file in files:
        if file.is_file():
            return file
    expected = f"contains none of {', '.join(_IN_FOLDER)}" if path.is_dir() else "does not exist"
    raise CheckpointError(
        f"train.encoder_weights: {path} {expected}; use a .pth or .safetensors file, or a "
        "checkpoint folder of roadseg"
    )


def _read_weights(file: Path) -> dict[str, Tensor]:
    """Read the tensors of a file by name, without running code from it."""
    try:
        if file.suffix == ".safetensors":
            return load_file(file)
        content = torch.load(file, map_location="cpu", weights_only=True)
    except (SafetensorError, pickle.UnpicklingError, RuntimeError, OSError, EOFError) as error:
        # Of pickles, PyTorch's reason begins with advice to load them unsafely.
        is_pickle = isinstance(error, pickle.UnpicklingError)
        reason = "" if is_pickle else f" ({one_line(error)[:120]})"
        raise CheckpointError(
            f"{file}: damaged, or contains more than tensors{reason}; save only the weights, "
            "as safetensors or with torch.save(model.state_dict(), ...)"
        ) from error
    return _tensors_in(content)


def _tensors_in(content: Any) -> dict[str, Tensor]:  # noqa: ANN401 - whatever a file contains
    """Return the weights in a saved object: the object itself, or its value under a usual name."""
    if not isinstance(content, Mapping):
        return {}
    for name in _NESTED:
        if isinstance(content.get(name), Mapping):
            return _tensors_in(content[name])
    return {key: value for key, value in content.items() if isinstance(value, Tensor)}


def _plain_names(encoder: nn.Module) -> dict[str, str]:
    """Return, for each tensor that an encoder needs, its name in files, without prefix."""
    parts = {key: key.split(".") for key in encoder.state_dict()}
    levels = zip(*parts.values(), strict=False)
    shared = sum(1 for _ in itertools.takewhile(lambda level: len(set(level)) == 1, levels))
    return {
        key: _plain(".".join(names[shared:]))
        for key, names in parts.items()
        if names[-1] != _COUNTER and names[shared] not in _HEADS
    }


def _plain(key: str) -> str:
    """Write a name without underscores: timm has `stages_0` in encoders, `stages.0` in files."""
    return key.replace("_", ".")


def _under_best_prefix(tensors: Tensors, wanted: set[str]) -> dict[str, Tensor]:
    """Return the tensors under the prefix with most of the wanted names."""
    plain = {_plain(key): value for key, value in tensors.items()}
    matches: Counter[str] = Counter()
    for key in plain:
        starts = [0, *(dot.end() for dot in re.finditer(r"\.", key))]
        matches.update(key[:start] for start in starts if key[start:] in wanted)
    if not matches:
        return {}
    best = min(matches, key=lambda prefix: (-matches[prefix], len(prefix), prefix))
    return {key[len(best) :]: value for key, value in plain.items() if key.startswith(best)}


def _spread(weights: Tensor, wanted: Tensor) -> Tensor:
    """Spread weights for three bands over those of `wanted`; return other weights unchanged."""
    of_colours = weights.ndim > 1 and weights.shape[1] == _RGB
    if not of_colours or weights.shape == wanted.shape or weights.ndim != wanted.ndim:
        return weights
    bands = wanted.shape[1]
    if bands == 1:
        return weights.sum(dim=1, keepdim=True)
    return weights[:, [band % _RGB for band in range(bands)]] * (_RGB / bands)


def _of_further_blocks(names: set[str], wanted: set[str]) -> list[str]:
    """Return the weights of blocks that a deeper encoder has in the same lists, sorted."""
    lists = {_list_of(key) for key in wanted} - {""}
    return sorted(
        key for key in names - wanted if key.endswith("weight") and _list_of(key) in lists
    )


def _list_of(key: str) -> str:
    """Return the part of a name before its last number: `layer1` of `layer1.0.conv1.weight`."""
    numbered = re.match(r"(.*)\.\d+\.", key)
    return numbered[1] if numbered else ""
