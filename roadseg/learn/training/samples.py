"""Samples: batches of random augmented windows, and of windows that cover chips, read ahead."""

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from roadseg.arrays import Bytes, Ints
from roadseg.errors import ConfigError, DataError
from roadseg.learn.hardware.distributed import Parallel
from roadseg.learn.hardware.interrupts import ignore_signals
from roadseg.learn.options import TrainOptions
from roadseg.raster.images import RasterFacts
from roadseg.raster.pixels import read_window
from roadseg.raster.scaling import Scaling
from roadseg.raster.windows import Window, cover, spread
from roadseg.roads.masks.burning import IGNORE, road_pixels
from roadseg.roads.masks.mask_files import read_mask

_CELL_PX = 32  # Side of the cells of a chip, of which those with road are listed.
_ROAD_SHARE = 0.75  # Of the windows, which contain a random cell with road; others lie anywhere.
_AHEAD = 4  # Batches that each worker process reads ahead.
_GOLDEN = (math.sqrt(5) - 1) / 2  # Steps of this fraction are spread evenly over 0 to 1.


@dataclass(frozen=True)
class Chip:
    """A window of a scene, with its mask.

    Attributes:
        scene: the raster, its bands to use, and the grid of mask and window.
        mask: uint8 raster of the whole scene: 0 background, else the speed bin, 255 ignore.
        window: row, col, height and width of the chip in the scene.
        set: name of the set of the scene; empty without sets.
        weight: how often its windows are drawn, relative to other chips.
    """

    scene: RasterFacts
    mask: Path
    window: Window
    scaling: Scaling
    set: str = ""
    weight: float = 1.0


class TrainingWindows(Dataset[tuple[Tensor, Tensor]]):
    """Random windows of chips, augmented: image uint8 (band, row, col), mask uint8 (row, col).

    Epoch e, counted from 1, has the indices from e * len(self) on. A window depends only on seed
    and index, so that an interrupted epoch repeats exactly, in any process. Chips get windows in
    proportion to their weights. With less than one window per chip, each epoch continues where the
    previous one ended, in passes over all chips, each in a random order.

    As most pixels are not road, most windows contain one: a random cell of 32 x 32 pixels with
    road, at a random position in the window. Chips smaller than a window are padded with 0 and
    ignore.
    """

    def __init__(self, chips: Sequence[Chip], options: TrainOptions) -> None:
        """Prepare to draw windows of chips, at least one, which all have the same bands."""
        from roadseg.learn.training.augment import Augmenter

        self._chips = list(chips)
        self._window_px, windows_per_chip = options.window_px, options.windows_per_chip
        weights = np.array([chip.weight for chip in self._chips])
        self._total, self._ends = weights.sum(), weights.cumsum()
        self._windows = max(1, round(windows_per_chip * float(self._total)))
        # Windows of a pass, which visits all chips: an epoch, or several if these are shorter.
        self._in_order = windows_per_chip >= 1
        self._pass = self._windows if self._in_order else max(1, round(self._total))
        # Whether each chip has a window in every pass.
        self._reaches_all = weights.min() * self._pass >= self._total
        self._seed = options.seed
        self._augment = Augmenter(len(self._chips[0].scene.bands), options.augment)
        self._road_cells: dict[int, Ints] = {}  # By chip, filled on demand.

    def __len__(self) -> int:
        """Return the number of windows of an epoch."""
        return self._windows

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        """Draw, read and augment a window."""
        number = self.chip_of(index)
        rng = np.random.default_rng([self._seed, index])
        image, mask = _read(self._chips[number], self._draw(number, rng), self._window_px)
        image, mask = self._augment(image, mask, seed=int(rng.integers(2**32)))
        return _tensors(image, mask)

    def chip_of(self, index: int) -> int:
        """Return the number of the chip of a window."""
        # Epochs count from 1, so the first pass starts at index `self._windows`.
        turn, place = divmod(index - self._windows, self._pass)
        if not self._in_order:
            place = int(_pass_order(self._seed, turn + 1, self._pass)[place])
        # Chips with less than one window per pass have one in some passes only: places move by the
        # golden ratio from pass to pass, which spreads these windows evenly.
        moved = 0.5 if self._reaches_all else (0.5 + _GOLDEN * turn) % 1
        at = (place + moved) / self._pass * self._total
        number = int(np.searchsorted(self._ends, at, side="right"))
        return min(number, len(self._chips) - 1)  # Rounding may make the last sum too small.

    def _draw(self, number: int, rng: np.random.Generator) -> Window:
        row, col, height, width = self._chips[number].window
        rows, cols = min(height, self._window_px), min(width, self._window_px)
        lowest, highest = np.zeros(2, dtype=np.int64), np.array([height - rows, width - cols])
        cells = self._cells(number)
        if rng.random() < _ROAD_SHARE and len(cells):
            start = cells[rng.integers(len(cells))] * _CELL_PX
            stop = np.minimum(start + _CELL_PX, (height, width))
            lowest, highest = np.maximum(stop - (rows, cols), 0), np.minimum(start, highest)
        down, right = rng.integers(lowest, highest + 1).tolist()
        return Window(row + down, col + right, rows, cols)

    def _cells(self, number: int) -> Ints:
        if number not in self._road_cells:
            chip = self._chips[number]
            self._road_cells[number] = _road_cells(read_mask(chip.mask, chip.window))
        return self._road_cells[number]


class ValidationWindows(Dataset[tuple[Tensor, Tensor]]):
    """Windows that cover each chip, without augmentation, in a fixed order; each pixel counts once.

    The last windows end at the edge of the chip. Their overlap with previous windows is ignored in
    the mask, and so is the padding of a chip smaller than a window. Index -1 is an empty window,
    all of it ignored, which fills up the last batch.
    """

    def __init__(self, chips: Sequence[Chip], *, window_px: int, most: int | None = None) -> None:
        """Cover the chips with windows; if there are more than `most`, they are sampled evenly."""
        self._window_px = window_px
        self._bands = len(chips[0].scene.bands)
        windows = [
            (chip, window)
            for chip in chips
            for window in cover(*chip.window[2:], window_px=window_px)
        ]
        self._windows = windows if most is None else spread(windows, most)

    def __len__(self) -> int:
        """Return the number of windows of all chips."""
        return len(self._windows)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        """Read a window; -1 is the empty one."""
        if index == -1:
            shape = (self._window_px, self._window_px)
            image = np.zeros((self._bands, *shape), np.uint8)
            return _tensors(image, np.full(shape, IGNORE, np.uint8))
        return _tensors(*self._read(*self._windows[index]))

    def set_of(self, index: int) -> str:
        """Return the set of a window; an empty window, which counts nothing, has any set."""
        return self._windows[index][0].set

    def _read(self, chip: Chip, window: Window) -> tuple[Bytes, Bytes]:
        row, col, height, width = chip.window
        rows, cols = min(height, self._window_px), min(width, self._window_px)
        area = Window(row + window.row, col + window.col, rows, cols)
        image, mask = _read(chip, area, self._window_px)
        mask[: -window.row % self._window_px] = IGNORE
        mask[:, : -window.col % self._window_px] = IGNORE
        return image, mask


def epoch_batches(
    windows: int, epoch: int, *, seed: int, batch_size: int, parallel: Parallel
) -> list[list[int]]:
    """Return the batches of an epoch of `TrainingWindows`, in a random order by seed and epoch.

    Processes that train together split every batch into parts that differ by at most one window.
    Windows that do not fill a batch are left out.

    Args:
        windows: windows of an epoch, all processes together.
        epoch: number of the epoch, from 1.
        batch_size: windows of a batch, all processes together; at least one for each.
    """
    order = np.random.default_rng([seed, epoch]).permutation(windows)
    indices = (epoch * windows + order).tolist()
    numbers = range(windows // batch_size)
    return [_share(indices, number, batch_size, parallel) for number in numbers]


def validation_batches(windows: int, *, batch_size: int, parallel: Parallel) -> list[list[int]]:
    """Return the batches of `ValidationWindows` in order, split as by `epoch_batches`.

    All processes get equally many; the last batch is filled up with -1, the empty window.
    """
    number = math.ceil(windows / batch_size)
    indices = [*range(windows), *[-1] * (number * batch_size - windows)]
    return [_share(indices, batch, batch_size, parallel) for batch in range(number)]


def _share(indices: list[int], number: int, size: int, parallel: Parallel) -> list[int]:
    """Return the part of batch `number` for a process; parts differ by at most one window."""
    ranks = (parallel.rank, parallel.rank + 1)
    first, last = (size * number + size * rank // parallel.size for rank in ranks)
    return indices[first:last]


class TrainingBatches:
    """The batches of one epoch after another, for one of the processes that train together."""

    def __init__(
        self,
        chips: Sequence[Chip],
        options: TrainOptions,
        *,
        parallel: Parallel,
        workers: int,
        pin_memory: bool,
    ) -> None:
        """Prepare to read the batches of this process.

        Raises:
            ConfigError: if an epoch has too few windows for a step, or a batch has fewer windows
                than there are processes.
        """
        self._windows = TrainingWindows(chips, options)
        if options.batch_size < parallel.size:
            raise ConfigError(
                f"train.batch_size: expected at least {parallel.size}, one window for each process "
                f"that trains, got {options.batch_size}; raise it, or start fewer processes"
            )
        self._options, self._parallel = options, parallel
        self._workers, self._pin_memory = workers, pin_memory
        self.steps = len(self._windows) // options.batch_size
        if self.steps == 0:
            raise ConfigError(
                f"train.batch_size: expected at most {len(self._windows)} windows, all those of an "
                f"epoch, got {options.batch_size}"
            )

    def after(self, step: int) -> Iterator[Sequence[Tensor]]:
        """Yield the batch of each step after the first ones, epoch after epoch without end."""
        batches, pin = self._order(step), self._pin_memory
        yield from load_ahead(self._windows, batches, self._workers, pin_memory=pin)

    def _order(self, step: int) -> Iterator[list[int]]:
        """Yield the indices of the windows of each batch after the first steps."""
        epochs, done = divmod(step, self.steps)
        for epoch in itertools.count(epochs + 1):
            batches = epoch_batches(
                len(self._windows),
                epoch,
                seed=self._options.seed,
                batch_size=self._options.batch_size,
                parallel=self._parallel,
            )
            yield from batches[done:]
            done = 0


def held_out_windows(chips: Sequence[Chip], options: TrainOptions) -> ValidationWindows:
    """Return the windows of held-out chips on which a training is validated."""
    return ValidationWindows(chips, window_px=options.window_px, most=options.validation_windows)


class HeldOutBatches:
    """The windows that cover the held-out chips, in batches of one size.

    Attributes:
        sets: names of the sets of the chips; a single empty name without sets.
        set_numbers: for every batch, the index into `sets` of each window.
    """

    def __init__(
        self,
        chips: Sequence[Chip],
        options: TrainOptions,
        *,
        parallel: Parallel,
        workers: int,
        pin_memory: bool,
    ) -> None:
        """Prepare to read the share of this process."""
        windows = held_out_windows(chips, options)
        order = validation_batches(len(windows), batch_size=options.batch_size, parallel=parallel)
        self.sets = list(dict.fromkeys(chip.set for chip in chips))
        self.set_numbers = [[self.sets.index(windows.set_of(i)) for i in each] for each in order]
        self._loader = load_ahead(windows, order, workers, pin_memory=pin_memory)

    def __len__(self) -> int:
        """Return the number of batches of this process."""
        return len(self.set_numbers)

    def __iter__(self) -> Iterator[Any]:
        """Yield the batches in order."""
        return iter(self._loader)


def _read(chip: Chip, area: Window, window_px: int) -> tuple[Bytes, Bytes]:
    """Read, scale and pad a window; pixels without data are ignored in the mask."""
    values, valid = read_window(chip.scene, area)
    try:
        image = chip.scaling.apply(values)
    except ValueError as error:
        raise DataError(f"{chip.scene.path}: {error}; run `roadseg prepare` again") from error
    mask = read_mask(chip.mask, area)
    if not valid.all():
        image, mask = np.where(valid, image, np.uint8(0)), np.where(valid, mask, np.uint8(IGNORE))
    return _fill(image, window_px, 0), _fill(mask, window_px, IGNORE)


def _fill(array: Bytes, window_px: int, value: int) -> Bytes:
    """Pad the last two axes at their end to the size of a window."""
    missing = [(0, 0)] * (array.ndim - 2) + [(0, window_px - n) for n in array.shape[-2:]]
    return np.pad(array, missing, constant_values=value) if np.any(missing) else array


def _tensors(image: Bytes, mask: Bytes) -> tuple[Tensor, Tensor]:
    return torch.from_numpy(image), torch.from_numpy(mask)


@lru_cache(maxsize=4)  # The windows of one epoch come from two or three passes.
def _pass_order(seed: int, number: int, windows: int) -> Ints:
    """Return the random order of the windows of a pass."""
    return np.random.default_rng([seed, number, windows]).permutation(windows)


def _road_cells(mask: Bytes) -> Ints:
    """Return row and col, counted in cells, of the cells of a mask that contain road."""
    rows, cols = (np.arange(0, length, _CELL_PX) for length in mask.shape)
    by_rows = np.logical_or.reduceat(road_pixels(mask), rows, axis=0)
    return np.argwhere(np.logical_or.reduceat(by_rows, cols, axis=1))


def load_ahead(
    windows: Dataset[Any], order: Iterable[list[int]], workers: int, *, pin_memory: bool
) -> DataLoader[Any]:
    """Return a loader of these batches, which worker processes read ahead."""
    return DataLoader(
        windows,
        batch_sampler=order,
        num_workers=workers,
        persistent_workers=workers > 0,
        pin_memory=pin_memory,
        prefetch_factor=_AHEAD if workers else None,
        worker_init_fn=_begin_worker,
    )


def _begin_worker(_worker: int) -> None:
    cv2.setNumThreads(0)  # There are enough processes.
    ignore_signals()
