"""Chips as training data: random augmented windows to learn from, a fixed cover to validate on."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset, Sampler

from roadseg.core.masks import BACKGROUND, IGNORE
from roadseg.core.scaling import Scaling
from roadseg.core.windows import Window, cover
from roadseg.errors import DataError
from roadseg.io.masks import read_mask
from roadseg.io.rasters import RasterFacts, read_window
from roadseg.learn.augment import Augmenter

_DRAWS = 4  # positions tried for a training window until it shows a road
_KEEP_EMPTY = 0.25  # how often a window without a road is taken all the same

Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class Chip:
    """A window of a scene, with its mask.

    Attributes:
        scene: the raster, its bands to use, and the grid that mask and window count in.
        mask: uint8 raster of the whole scene: 0 background, else the speed bin, 255 ignore.
        window: row, col, height and width of the chip in the scene.
        scaling: how the bands become uint8.
    """

    scene: RasterFacts
    mask: Path
    window: Window
    scaling: Scaling


class TrainingWindows(Dataset[tuple[Tensor, Tensor]]):
    """Random windows of chips, augmented: image uint8 (band, row, col), mask uint8 (row, col).

    Epoch e, counted from 1, has the indices e * len(self) onwards. A window depends on seed and
    index alone, so that an epoch which was interrupted repeats exactly, in any process.

    Windows without a road are drawn again three times out of four, at most three times, because
    most of a scene is not road. Chips smaller than a window are filled up with 0 and ignore.
    """

    def __init__(
        self,
        chips: Sequence[Chip],
        *,
        window_px: int,
        windows_per_chip: int,
        seed: int,
    ) -> None:
        """Draw `windows_per_chip` windows of each chip an epoch."""
        self._chips = list(chips)
        self._window_px = window_px
        self._per_chip = windows_per_chip
        self._seed = seed
        self._augment = Augmenter(len(self._chips[0].scene.bands))

    def __len__(self) -> int:
        """Windows of one epoch."""
        return len(self._chips) * self._per_chip

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        """Draw, read and augment a window."""
        chip = self._chips[index % len(self) // self._per_chip]
        rng = np.random.default_rng([self._seed, index])
        area, mask = self._draw(chip, rng)
        image, mask = _read_image(chip, area, mask)
        image, mask = _fill(image, self._window_px, 0), _fill(mask, self._window_px, IGNORE)
        image, mask = self._augment(image, mask, seed=int(rng.integers(2**32)))
        return torch.from_numpy(image), torch.from_numpy(mask)

    def _draw(self, chip: Chip, rng: np.random.Generator) -> tuple[Window, Bytes]:
        for _ in range(_DRAWS):
            area = self._random_area(chip.window, rng)
            mask = read_mask(chip.mask, area)
            has_road = bool(np.any((mask != BACKGROUND) & (mask != IGNORE)))
            if has_road or area == chip.window or rng.random() < _KEEP_EMPTY:
                break
        return area, mask

    def _random_area(self, chip: Window, rng: np.random.Generator) -> Window:
        row, col, height, width = chip
        rows, cols = min(height, self._window_px), min(width, self._window_px)
        down, right = rng.integers(height - rows + 1), rng.integers(width - cols + 1)
        return Window(row + int(down), col + int(right), rows, cols)


class ValidationWindows(Dataset[tuple[Tensor, Tensor]]):
    """Windows that cover each chip, unchanged, in a fixed order; each pixel counts once.

    The last windows end at the edge of the chip. What they share with the windows before is
    ignored in their masks, and so is what lies beyond a chip smaller than a window.
    """

    def __init__(self, chips: Sequence[Chip], *, window_px: int) -> None:
        """Cover the chips with windows."""
        self._window_px = window_px
        self._windows = [
            (chip, window)
            for chip in chips
            for window in cover(*chip.window[2:], window_px=window_px, overlap_px=0)
        ]

    def __len__(self) -> int:
        """Windows of all chips."""
        return len(self._windows)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        """Read a window."""
        chip, window = self._windows[index]
        row, col, height, width = chip.window
        rows, cols = min(height, self._window_px), min(width, self._window_px)
        area = Window(row + window.row, col + window.col, rows, cols)
        image, mask = _read_image(chip, area, read_mask(chip.mask, area))
        mask[: -window.row % self._window_px] = IGNORE
        mask[:, : -window.col % self._window_px] = IGNORE
        image, mask = _fill(image, self._window_px, 0), _fill(mask, self._window_px, IGNORE)
        return torch.from_numpy(image), torch.from_numpy(mask)


class ShuffledEpoch(Sampler[int]):
    """The indices of one epoch of `TrainingWindows`, in an order that seed and epoch decide."""

    def __init__(self, windows: int, *, seed: int) -> None:
        """Shuffle so many windows; set `epoch` before each epoch."""
        self.epoch = 1
        self._windows = windows
        self._seed = seed

    def __len__(self) -> int:
        """Windows of one epoch."""
        return self._windows

    def __iter__(self) -> Iterator[int]:
        """Go through the epoch."""
        order = np.random.default_rng([self._seed, self.epoch]).permutation(self._windows)
        yield from (self.epoch * self._windows + order).tolist()


def _read_image(chip: Chip, area: Window, mask: Bytes) -> tuple[Bytes, Bytes]:
    """Read and scale a window; where it holds no data, the image is 0 and the mask ignores."""
    values, valid = read_window(chip.scene, area)
    try:
        scaled = chip.scaling.apply(values)
    except ValueError as error:
        raise DataError(f"{chip.scene.path}: {error}; run `roadseg prepare` again") from error
    return np.where(valid, scaled, np.uint8(0)), np.where(valid, mask, np.uint8(IGNORE))


def _fill(array: NDArray[Any], window_px: int, value: int) -> NDArray[Any]:
    """Fill the last two axes up to the size of a window, at their end."""
    missing = [(0, 0)] * (array.ndim - 2) + [(0, window_px - n) for n in array.shape[-2:]]
    return np.pad(array, missing, constant_values=value)
