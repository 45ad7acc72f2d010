"""Inference: a network over a scene, window by window, in the memory of one row of windows."""

from collections.abc import Callable, Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from roadseg.core.scaling import Scaling
from roadseg.core.windows import Floats, Known, Piece, Rows, Window, blend, cover
from roadseg.learn.devices import Device
from roadseg.learn.models import Normalise, check_batch, check_window

Reader = Callable[[Window], tuple[NDArray[np.uint8], Known]]


def predict_windows(
    model: nn.Module,
    reader: Reader,
    *,
    classes: int,
    height: int,
    width: int,
    window_px: int,
    overlap_px: int,
    batch_size: int,
    scaling: Scaling,
    device: Device,
) -> Iterator[Rows]:
    """Predict the probabilities of a scene, and give out rows as soon as they are final.

    Windows without a valid pixel are not shown to the network.

    Args:
        model: from normalised windows to logits; it is moved to the device, in evaluation mode.
        reader: reads a window in whole, also where it reaches beyond the scene: scaled bands,
            uint8 (band, row, col), and which pixels hold data, (row, col).
        classes: number of logits that the model gives for each pixel.
        height: rows of the scene.
        width: columns of the scene.
        window_px: side of the windows, a multiple of 32.
        overlap_px: overlap of neighbouring windows.
        batch_size: windows shown to the network at once.
        scaling: mean and standard deviation of the bands.
        device: where the network runs.

    Yields:
        Rows from top to bottom: the first row, probabilities 0..1 as float32 (class, row, col),
        0 where there is no data, and which pixels hold data.

    Raises:
        ConfigError: if the networks cannot work on windows of this size.
    """
    device = device.in_inference
    check_window(window_px)
    check_batch(
        model.eval(), in_channels=len(scaling.mean), window_px=window_px, batch_size=batch_size
    )
    fast = device.for_inference(device.to(model).eval())
    network = device.compile(device.to(nn.Sequential(Normalise(scaling), fast)).eval())
    windows = cover(height, width, window_px=window_px, overlap_px=overlap_px)
    pieces = _predict(network, device, map(reader, windows), windows, batch_size)
    yield from blend(pieces, classes=classes, height=height, width=width)


def _predict(
    network: nn.Module,
    device: Device,
    images: Iterator[tuple[NDArray[np.uint8], Known]],
    windows: list[Window],
    batch_size: int,
) -> Iterator[Piece]:
    """Predict windows in their order; those without data pass through unseen."""
    waiting: list[Piece] = []
    batch: list[NDArray[np.uint8]] = []
    for window, (image, valid) in zip(windows, images, strict=True):
        waiting.append(Piece(window, None, valid))
        if valid.any():
            batch.append(image)
        if len(batch) == batch_size or not batch:
            yield from _fill_in(waiting, _probabilities(network, device, batch))
            waiting, batch = [], []
    yield from _fill_in(waiting, _probabilities(network, device, batch))


def _fill_in(waiting: list[Piece], probabilities: list[Floats]) -> Iterator[Piece]:
    found = iter(probabilities)
    for piece in waiting:
        yield piece._replace(values=next(found)) if piece.known.any() else piece


@torch.inference_mode()
def _probabilities(
    network: nn.Module, device: Device, images: list[NDArray[np.uint8]]
) -> list[Floats]:
    if not images:
        return []
    batch: Tensor = device.to(torch.from_numpy(np.stack(images)))
    with device.autocast():
        logits = network(batch)
    device.mark()
    return list(logits.float().sigmoid().cpu().numpy())
