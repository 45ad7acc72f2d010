"""TensorBoard: scalars and example images of a running training."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from roadseg.arrays import Bytes
from roadseg.errors import ConfigError
from roadseg.roads.masks.burning import IGNORE, road_pixels

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

_WINDOWS = 4  # Most windows of a picture.
_SIDE_PX = 256  # Longest side of a panel; larger windows are thinned.
_GAP_PX = 4
_RGB = 3
_ROAD, _UNKNOWN = (255, 60, 0), (128, 128, 128)


class Board:
    """Scalars and images of a training for TensorBoard; without a writer it does nothing.

    It is closed at the end of a `with` block.
    """

    def __init__(self, writer: "SummaryWriter | None") -> None:
        """Wrap a writer of event files, or None."""
        self._writer = writer

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close the event file."""
        if self._writer is not None:
            self._writer.close()

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Write numbers by name; a name such as "loss/training" puts it in the group "loss"."""
        if self._writer is None:
            return
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def pictures(self, step: int, images: Tensor, references: Tensor, predictions: Tensor) -> None:
        """Write one image of up to four windows, one per row.

        The row shows the image, the labels over it (ignored pixels are grey), and the predicted
        probability of road.

        Args:
            images: scaled bands, uint8 (window, band, row, col); the first three are shown, or
                the first alone.
            references: masks, uint8 (window, row, col).
            predictions: probability of any road, 0 to 1, (window, row, col).
        """
        if self._writer is None:
            return
        pieces = (each[:_WINDOWS].cpu() for each in (images, references, predictions.detach()))
        image, reference, probability = (piece.float().numpy() for piece in pieces)
        picture = _rows(image.astype(np.uint8), reference.astype(np.uint8), probability)
        self._writer.add_image("validation windows", picture, step, dataformats="HWC")
        self._writer.flush()


def open_board(folder: Path | None, *, first_step: int = 0) -> Board:
    """Return a board that writes event files for TensorBoard into a folder.

    Args:
        folder: folder of the event files; None returns a board that writes nothing.
        first_step: the next step; TensorBoard hides what an earlier run wrote for it and later
            steps.

    Raises:
        ConfigError: if TensorBoard is not installed.
    """
    if folder is None:
        return Board(None)
    return Board(require_tensorboard()(str(folder), purge_step=first_step))


def require_tensorboard() -> "type[SummaryWriter]":
    """Return the class that writes event files.

    Raises:
        ConfigError: if TensorBoard is not installed.
    """
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise ConfigError(
            f"train.tensorboard: TensorBoard is not installed ({error}); "
            "pip install 'roadseg[tensorboard]', or set it to false"
        ) from error
    return SummaryWriter


def _rows(images: Bytes, references: Bytes, probability: NDArray[np.float32]) -> Bytes:
    """Draw a row for each window: image, labels over it, probability of road.

    Args:
        images: (window, band, row, col).
        references: masks (window, row, col).
        probability: 0..1 (window, row, col).

    Returns:
        An image (row, col, 3); sides of windows above 256 pixels are thinned.
    """
    thin = -(-max(references.shape[1:]) // _SIDE_PX)
    small = (..., slice(None, None, thin), slice(None, None, thin))
    rows = [
        _row(*parts)
        for parts in zip(images[small], references[small], probability[small], strict=True)
    ]
    return np.vstack([np.pad(row, ((0, _GAP_PX), (0, 0), (0, 0))) for row in rows])


def _row(image: Bytes, reference: Bytes, probability: NDArray[np.float32]) -> Bytes:
    shown = np.moveaxis(image[:_RGB] if len(image) >= _RGB else image[[0, 0, 0]], 0, -1)
    labels = shown.copy()
    labels[road_pixels(reference)] = _ROAD
    labels[reference == IGNORE] = _UNKNOWN
    grey = np.repeat(np.rint(probability * 255).astype(np.uint8)[..., np.newaxis], _RGB, axis=-1)
    return np.hstack(
        [np.pad(panel, ((0, 0), (0, _GAP_PX), (0, 0))) for panel in (shown, labels, grey)]
    )
