"""Domain shift: how the pixels of images differ from those that a network was trained on."""

import contextlib
import logging
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roadseg.errors import DataError
from roadseg.raster.images import RasterFacts
from roadseg.raster.pixels import sample_pixels
from roadseg.raster.scaling import Scaling
from roadseg.system.text import first

# Standard deviations of the training's pixels by which the mean of an image may differ, and how
# many times as large or small its own standard deviation may be: about as far as single images of
# San Diego, Tianjin and New York lie from a training on their own city.
MOST_OFF, MOST_TIMES = 1.2, 3.0
_SAMPLE_PX = 2**14  # Pixels of an image that are looked at.
_SHOWN = 3  # Images that the warning names.
_log = logging.getLogger(__name__)


def describe_shift(pixels: NDArray[Any], scaling: Scaling) -> str:
    """Return in words how pixels differ in brightness or contrast from those of a training.

    Differences are means over the bands, after the scaling to 0..255.

    Args:
        pixels: shape (band, n), of a type that the scaling knows.

    Returns:
        Such as "darker by 1.4 standard deviations"; empty if they resemble them.
    """
    if not pixels.shape[1]:
        return ""
    scaled = scaling.apply(pixels).astype(np.float64)
    off = float(np.mean((scaled.mean(axis=1) - scaling.mean) / np.array(scaling.std)))
    times = float(np.mean(scaled.std(axis=1) / np.array(scaling.std)))
    parts = []
    if abs(off) > MOST_OFF:
        how = "brighter" if off > 0 else "darker"
        parts.append(f"{how} by {abs(off):.1f} standard deviations")
    if not 1 / MOST_TIMES <= times <= MOST_TIMES:
        parts.append(f"{times:.2g} times the contrast")
    return ", ".join(parts)


def warn_of_shift(scenes: Iterable[tuple[RasterFacts, Scaling]]) -> None:
    """Log a warning that names the images that are unlike those of a training, if there are any.

    Args:
        scenes: images, each with the scaling by which the network takes it.
    """
    shifts: dict[str, str] = {}
    for scene, scaling in scenes:
        with contextlib.suppress(DataError):  # The prediction reports what cannot be read.
            pixels = sample_pixels(scene, pixels=_SAMPLE_PX)
            if how := describe_shift(pixels, scaling):
                shifts[scene.path.name] = how
    if shifts:
        named = [f"{name} ({how})" for name, how in shifts.items()]
        _log.warning(
            "these images look unlike the training images: %s; do not trust roads and confidence "
            "there without a check, or train with labels of such images",
            first(named, _SHOWN),
        )
