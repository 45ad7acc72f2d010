"""Cameras: how different sensors, air and file formats change the image of a drawn city."""

import io
from typing import cast

import numpy as np
from PIL import Image
from scipy.ndimage import gaussian_filter

from roadseg.arrays import Bytes

_FULL = 255
_JPEG_SHARE = 0.6  # Share of the images that were once stored as JPEG.


def photograph_again(image: Bytes, rng: np.random.Generator) -> Bytes:
    """Return an image as another camera might have taken it.

    Saturation, contrast, brightness, colour of each band, gamma, blur, noise and JPEG are drawn at
    random, in this order.

    Args:
        image: red, green and blue, shape (3, row, col).
        rng: random generator that chooses how.

    Returns:
        The same shape.
    """
    pixels = image.astype(np.float64)
    grey = pixels.mean(axis=0, keepdims=True)
    pixels = grey + (pixels - grey) * rng.uniform(0.3, 1.4)
    pixels = (pixels - pixels.mean()) * rng.uniform(0.5, 1.2) + rng.uniform(60, 150)
    pixels = pixels * (1 + rng.normal(0, 0.06, (3, 1, 1))) + rng.normal(0, 5, (3, 1, 1))
    pixels = _FULL * np.clip(pixels / _FULL, 0, 1) ** rng.uniform(0.75, 1.35)
    blur = abs(rng.normal(0, 0.7))
    pixels = gaussian_filter(pixels, (0, blur, blur))
    pixels = pixels + rng.normal(0, abs(rng.normal(0, 5)), pixels.shape)
    taken = np.clip(np.round(pixels), 0, _FULL).astype(np.uint8)
    if rng.random() < _JPEG_SHARE:
        taken = _as_jpeg(taken, quality=int(rng.uniform(40, 95)))
    return np.ascontiguousarray(taken)


def _as_jpeg(image: Bytes, *, quality: int) -> Bytes:
    file = io.BytesIO()
    Image.fromarray(np.moveaxis(image, 0, -1)).save(file, "JPEG", quality=quality)
    pixels = np.moveaxis(np.asarray(Image.open(file)), -1, 0)
    return cast("Bytes", pixels)
