"""Sliding window: run an engine over a scene, with only the unfinished rows in memory."""

import itertools
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from roadseg.arrays import Bools, Bytes
from roadseg.errors import RoadsegError
from roadseg.learn.inference.engines import Engine
from roadseg.learn.options import WINDOW_MULTIPLE
from roadseg.raster.images import RasterFacts
from roadseg.raster.windows import CERTAIN, Rows, Window, blend_weights, mirrored, spread_starts

Reader = Callable[[Window], tuple[Bytes, Bools]]

_READERS = 4  # Threads that read windows, at most; one for every four that compute.
_MOST_MEAN = 1.001  # Largest mean of probabilities, since sums are rounded.
_BATCHES_AHEAD = 2  # Batches that are read and wait for the network.


class _Item(NamedTuple):
    """A window that was read."""

    row: int  # Number of its row of windows.
    col: int  # Number of its column of windows.
    image: Bytes  # Scaled bands, shape (band, row, col).
    known: Bools  # Whether each pixel has data, shape (row, col).


class _Part(NamedTuple):
    """Finished pixels of a scene, on the device of the engine."""

    row: int  # The first one.
    col: int
    values: Tensor  # Probabilities in bytes, shape (row, col, class).
    known: Bools  # Whether each pixel has data, shape (row, col).
    # Whether all outputs of the network so far are probabilities; None before it has run.
    sound: Tensor | None = None


def predict_parts(
    engine: Engine,
    reader: Reader,
    *,
    classes: int,
    height: int,
    width: int,
    overlap_px: int,
    rows: range | None = None,
    cols: range | None = None,
) -> Generator[Rows, None, None]:
    """Predict the probabilities of a scene of any size; yield parts as soon as they are finished.

    Windows are read ahead in threads; windows without a valid pixel are not passed to the network.
    Only the rows that two rows of windows share are held in memory. The probability of a pixel
    does not depend on `rows` and `cols`, bit for bit, as long as the engine treats all windows of
    a batch the same way.

    Args:
        engine: engine for batches of one size; a window is repeated to fill up the last batch.
        reader: function that reads a window inside the scene, in any thread. It returns scaled
            bands, uint8 (band, row, col), and whether each pixel has data, (row, col). Beyond the
            scene, windows are filled up with its mirror image, as pixels without data.
        classes: number of probabilities that the engine returns for each pixel.
        height: rows of the scene.
        width: columns of the scene.
        overlap_px: smallest overlap of neighbouring windows.
        rows: rows of the scene to predict; None for all.
        cols: columns of the scene to predict; None for all.

    Yields:
        Parts from left to right and top to bottom, with probabilities as uint8: 255 for certain, 0
        where there is no data.

    Raises:
        RoadsegError: if the network returns values that are not probabilities.
    """
    wanted = ((height, rows), (width, cols))
    blend = _Blend(engine.window_px, overlap_px, classes=classes, wanted=wanted)
    launched: list[_Part] = []

    def read(window: Window) -> tuple[Bytes, Bools]:
        """Read a window that may reach beyond the scene."""
        size = min(window.height, height - window.row), min(window.width, width - window.col)
        bands, valid = reader(Window(window.row, window.col, *size))
        return mirrored(bands, valid, height=window.height, width=window.width)

    with closing(_predict(engine, read, blend)) as batches:
        for parts in batches:
            yield from map(_fetched, launched)  # The device works on the next batch meanwhile.
            launched = parts
    yield from map(_fetched, launched)


def whole_of(
    parts: Iterable[Rows], *, classes: int, height: int, width: int
) -> tuple[Bytes, Bools]:
    """Return the parts of a scene that fits into memory as one: values, and which are known."""
    values = np.zeros((classes, height, width), dtype=np.uint8)
    known = np.zeros((height, width), dtype=bool)
    for part in parts:
        rows, cols = part.known.shape
        place = (slice(part.start, part.start + rows), slice(part.col, part.col + cols))
        values[:, *place], known[place] = part.values, part.known
    return values, known


def count_windows(height: int, width: int, *, window_px: int, overlap_px: int) -> int:
    """Return the number of windows of a whole scene."""
    down, across = (_Side(length, window_px, overlap_px).starts for length in (height, width))
    return len(down) * len(across)


def count_touching(facts: RasterFacts, *, window_px: int, overlap_px: int) -> int:
    """Return the number of windows of a scene, or of its part, that touch the area to work in."""
    lengths = (facts.whole_grid.height, facts.whole_grid.width)
    down, across = (
        _Side(length, window_px, overlap_px, wanted).starts
        for length, wanted in zip(lengths, rows_and_cols(facts), strict=True)
    )
    windows = (Window(*place, window_px, window_px) for place in itertools.product(down, across))
    return sum(facts.touches(facts.in_part(window)) for window in windows)


def rows_and_cols(facts: RasterFacts) -> tuple[range, range]:
    """Return the rows and columns of the part of a scene, counted in the whole scene."""
    row, col, height, width = facts.in_scene(Window(0, 0, facts.grid.height, facts.grid.width))
    return range(row, row + height), range(col, col + width)


class _Side:
    """The windows along one side of a scene that contain wanted pixels."""

    def __init__(
        self, length: int, window_px: int, overlap_px: int, wanted: range | None = None
    ) -> None:
        self.wanted = wanted or range(length)
        # Networks halve the image five times. Windows at multiples of 32 pixels are halved alike,
        # so that two of them agree where they overlap.
        is_halved = window_px - overlap_px >= WINDOW_MULTIPLE
        multiple = WINDOW_MULTIPLE if is_halved else 1
        starts = spread_starts(
            length, window_px=window_px, overlap_px=overlap_px, multiple=multiple
        )
        ends = [*starts[1:], length]
        numbers = [
            number
            for number, start in enumerate(starts)
            if start < self.wanted.stop and start + window_px > self.wanted.start
        ]
        # Weights are those among all windows of the side, so that no pixel depends on `wanted`.
        weights = blend_weights(starts, window_px=window_px)
        self.weights = torch.from_numpy(weights[numbers])
        self.starts = [starts[number] for number in numbers]
        self.finished = [ends[number] - starts[number] for number in numbers]

    def wanted_of(self, number: int) -> tuple[int, slice]:
        """Return the first wanted pixel that a window finishes, and the slice of such pixels."""
        start = self.starts[number]
        first = max(start, self.wanted.start)
        stop = max(min(start + self.finished[number], self.wanted.stop), first)
        return first, slice(first - start, stop - start)


class _Blend:
    """Weighted sums of the pixels of a scene that later windows may still touch.

    Each row of windows is summed on its own, from left to right, and then added to the sums of the
    rows above it. So a pixel does not depend on which row of windows is the first.
    """

    def __init__(
        self,
        window_px: int,
        overlap_px: int,
        *,
        classes: int,
        wanted: tuple[tuple[int, range | None], tuple[int, range | None]],
    ) -> None:
        """Lay out the windows.

        Args:
            wanted: for the rows and for the columns of the scene, how many there are and which are
                wanted; None for all.
        """
        self._rows, self._cols = (_Side(n, window_px, overlap_px, part) for n, part in wanted)
        self._classes = classes
        self._window_px = window_px
        self._depth = window_px - min(self._rows.finished[:-1], default=window_px)
        self._below: Tensor | None = None  # Sums of the rows of windows so far, (row, col, class).
        self._right: Tensor | None = None  # Sums of the windows of this row so far.
        self._summed: Tensor | None = None  # Sums of the present window.
        self._across: Tensor  # Weights of the columns of each window, (window, col, class).
        self._down: Tensor  # Weights of its rows, (window, row, 1, 1).

    def windows(self) -> Iterator[tuple[int, int, Window]]:
        """Yield the number of the row, the number of the column, and each window to predict."""
        size = self._window_px
        for row, top in enumerate(self._rows.starts):
            for col, left in enumerate(self._cols.starts):
                yield row, col, Window(top, left, size, size)

    @torch.inference_mode()
    def add(self, item: _Item, values: Tensor | None) -> _Part:
        """Add a window.

        Args:
            values: its probabilities, shape (class, row, col); None if it has no data.

        Returns:
            The wanted pixels that are finished, because no later window covers them.
        """
        height, width = self._rows.finished[item.row], self._cols.finished[item.col]
        (top, rows), (left, cols) = self._rows.wanted_of(item.row), self._cols.wanted_of(item.col)
        known = item.known[rows, cols]
        place = self._cols.starts[item.col] - self._cols.starts[0]
        if values is None:
            self._right = None
            if self._below is not None:
                self._below[:, place : place + width] = 0
            zeros = torch.zeros(*known.shape, self._classes, dtype=torch.uint8)
            return _Part(top, left, zeros, known)
        summed = self._sum_up(item, values)[:, :width]
        if self._depth:
            self._carry(summed, place, height)
        finished = summed[rows, cols]
        if not known.all():
            mask = torch.from_numpy(known).to(finished.device, non_blocking=True)
            finished = finished * mask[..., None]
        # The sums are used again by no later window, and may be changed.
        in_bytes = finished.mul_(CERTAIN).round_().to(torch.uint8)
        return _Part(top, left, in_bytes, known)

    def _sum_up(self, item: _Item, values: Tensor) -> Tensor:
        """Return the weighted probabilities of a window, plus the sums of windows to its left."""
        if self._summed is None:
            shape = (self._window_px, self._window_px, self._classes)
            self._summed = torch.empty(shape, device=values.device)
            # one side after the other: a weight for each class keeps pixels in one run, twice as
            # fast; and on the device at once, as it would stop to take them with every window
            across = self._cols.weights[..., None].repeat(1, 1, self._classes)
            self._across = across.to(values.device)
            self._down = self._rows.weights[..., None, None].to(values.device)
        torch.mul(values.permute(1, 2, 0), self._across[item.col], out=self._summed)
        self._summed *= self._down[item.row]
        if self._right is not None:
            self._summed[:, : self._right.shape[1]] += self._right
        self._right = None
        if item.col + 1 < len(self._cols.starts):
            self._right = self._summed[:, self._cols.finished[item.col] :].clone()
        return self._summed

    def _carry(self, summed: Tensor, left: int, height: int) -> None:
        """Add the sums of the rows of windows above; store those that the next row may change."""
        if self._below is None:
            size = (self._depth, sum(self._cols.finished), self._classes)
            self._below = torch.zeros(size, device=summed.device)
        below = self._below[:, left : left + summed.shape[1]]
        summed[: self._depth] += below
        shared = min(self._window_px - height, self._depth)
        below[:shared] = summed[height : height + shared]
        below[shared:] = 0


def _predict(engine: Engine, reader: Reader, blend: _Blend) -> Generator[list[_Part], None, None]:
    """Predict windows in order, and yield the finished parts after every batch."""
    sound: Tensor | None = None
    with closing(_read_ahead(reader, blend, engine.batch_size)) as items:
        for batch in _batches(items, engine.batch_size):
            images = [item.image for item in batch if item.known.any()]
            sums: Iterator[Tensor] = iter(())
            if images:
                images += images[-1:] * (engine.batch_size - len(images))
                values = engine.run(torch.from_numpy(np.stack(images)))
                sound = _are_probabilities(values, before=sound)
                sums = iter(values)
            parts = [blend.add(item, next(sums) if item.known.any() else None) for item in batch]
            yield [part._replace(sound=sound) for part in parts if part.known.size]


@torch.inference_mode()
def _are_probabilities(values: Tensor, *, before: Tensor | None) -> Tensor:
    """Return whether values, and those before, are finite with a mean from 0 to 1.

    The answer is a tensor, so that the host need not wait for the device. A sum is enough, and
    reads the values once in any memory layout; to find the smallest and the largest value takes 18
    times as long if the classes of a pixel lie side by side.
    """
    total = values.sum()
    now = (total >= 0) & (total <= _MOST_MEAN * values.numel())
    return now if before is None else now & before


def _fetched(part: _Part) -> Rows:
    """Return a part in the memory of the host; refuse values that are not probabilities."""
    if part.sound is not None and not bool(part.sound):
        raise RoadsegError(
            "the network returned invalid probabilities (NaN, or outside 0 to 1); try engine "
            "eager with compute.precision fp32, and retrain if that does not help"
        )
    return Rows(part.row, part.values.permute(2, 0, 1).cpu().numpy(), part.known, part.col)


def _batches(items: Iterator[_Item], size: int) -> Iterator[list[_Item]]:
    """Group windows into batches with `size` windows that have data, and any number without.

    Windows without data at the start of a batch are yielded alone.
    """
    batch: list[_Item] = []
    filled = 0
    for item in items:
        batch.append(item)
        filled += bool(item.known.any())
        if filled in (0, size):
            yield batch
            batch, filled = [], 0
    if batch:
        yield batch


def _read_ahead(reader: Reader, blend: _Blend, size: int) -> Generator[_Item, None, None]:
    """Read windows in threads, neighbours in the same thread, and yield them in order."""

    def read(windows: tuple[tuple[int, int, Window], ...]) -> list[_Item]:
        return [_Item(row, col, *reader(window)) for row, col, window in windows]

    threads = max(1, min(_READERS, torch.get_num_threads() // 4))
    waiting: deque[Future[list[_Item]]] = deque()
    pool = ThreadPoolExecutor(threads, thread_name_prefix="reader")
    try:
        every = blend.windows()
        while windows := tuple(itertools.islice(every, size)):
            waiting.append(pool.submit(read, windows))
            if len(waiting) >= _BATCHES_AHEAD + threads:
                yield from waiting.popleft().result()
        while waiting:
            yield from waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
