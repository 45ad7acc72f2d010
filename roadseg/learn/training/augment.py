"""Augmentation: turn, stretch and recolour training windows; the only user of albumentations."""

import os
import random
from collections.abc import Collection
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from roadseg.arrays import Bytes, Floats
from roadseg.learn.options import KINDS, Kind
from roadseg.roads.masks.burning import IGNORE

os.environ["NO_ALBUMENTATIONS_UPDATE"] = "1"  # Otherwise its import asks PyPI for a newer version.
import albumentations as A  # noqa: N812 - after the line above, under its usual name

_TURNS = 8  # Rotations and flips of a square.
_RGB = 3  # Bands that changes of hue and saturation need.


class Augmenter:
    """Random changes of a window and its mask; built once, for any number of bands.

    "turns": all eight rotations and flips. "warp": rotation by up to 30 degrees with scale 0.85 to
    1.15, where the image is mirrored at its border and the mask ignores what it cannot know.
    "colour": brightness, contrast and gamma; hue and saturation if there are three bands.
    """

    def __init__(self, bands: int, kinds: Collection[Kind] = KINDS) -> None:
        """Build the chain of these kinds of augmentation, for windows with this many bands."""
        self._turns = _TURNS if "turns" in kinds else 1
        colours = [A.HueSaturationValue(10, 30, 0, p=0.5)] if bands == _RGB else []
        warp = _RotateAndScale(
            rotate=(-30, 30),
            scale=(0.85, 1.15),
            keep_ratio=True,
            border_mode=cv2.BORDER_REFLECT_101,
            p=0.75,
        )
        light = [A.RandomBrightnessContrast(0.2, 0.2, p=0.5), A.RandomGamma((80, 125), p=0.3)]
        chain = [warp] * ("warp" in kinds) + (light + colours) * ("colour" in kinds)
        self._chain = A.Compose(chain)

    def __call__(self, image: Bytes, mask: Bytes, *, seed: int) -> tuple[Bytes, Bytes]:
        """Change a window; the same seed makes the same changes.

        Args:
            image: shape (band, row, col).
            mask: shape (row, col).
            seed: from 0.
        """
        # All changes share one generator; set_random_seed would seed each of them equally, so that
        # their first random numbers were the same.
        generator = random.Random(seed)  # noqa: S311 - not a secret
        numbers = np.random.default_rng(seed)
        self._chain.set_random_state(numbers, generator)
        turns = int(numbers.integers(self._turns))
        *bands, mask = (_turned(plane, turns) for plane in (*image, mask))
        changed = self._chain(image=np.stack(bands, axis=-1), mask=mask)
        bands_first = np.ascontiguousarray(changed["image"].transpose(2, 0, 1))
        return bands_first, np.ascontiguousarray(changed["mask"])


def _turned(plane: NDArray[Any], turns: int) -> NDArray[Any]:
    """Return one of the eight rotations and flips of a plane, several times faster than NumPy."""
    if turns & 1:
        plane = cv2.transpose(plane)
    return plane if turns < 2 else cv2.flip(plane, turns // 2 - 2)  # noqa: PLR2004


class _RotateAndScale(A.Affine):  # type: ignore[misc] # albumentations is untyped
    """Affine change that mirrors the image at its border, but not the mask."""

    def apply_to_mask(
        self, mask: Bytes, matrix: Floats, output_shape: tuple[int, int], **_: object
    ) -> Bytes:
        """Warp a mask; pixels from outside are ignored."""
        height, width = output_shape
        warped = cv2.warpAffine(
            mask,
            matrix[:2],
            (width, height),
            flags=cv2.INTER_NEAREST,
            borderMode=cv2.BORDER_CONSTANT,
            borderValue=IGNORE,
        )
        return warped.astype(np.uint8, copy=False)
