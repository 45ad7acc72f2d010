"""TensorBoard: scalars and example images of a running training."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Self

import torch
from torch import Tensor

from roadseg.errors import ConfigError
from roadseg.roads.masks.burning import BACKGROUND, IGNORE

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

_WINDOWS = 4  # Most windows of a picture.
_SIDE_PX = 256  # Longest side of a panel; larger windows are thinned.
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
        thin = -(-max(images.shape[2:]) // _SIDE_PX)
        small = (slice(_WINDOWS), ..., slice(None, None, thin), slice(None, None, thin))
        image, mask, road = (
            each.detach()[small].cpu() for each in (images, references, predictions)
        )
        bands = [0, 1, 2] if image.shape[1] >= len(_ROAD) else [0, 0, 0]
        shown = image[:, bands]
        labels = shown.clone()
        pixels = labels.permute(0, 2, 3, 1)
        pixels[(mask != BACKGROUND) & (mask != IGNORE)] = torch.tensor(_ROAD, dtype=torch.uint8)
        pixels[mask == IGNORE] = torch.tensor(_UNKNOWN, dtype=torch.uint8)
        grey = (road.float() * 255).round().to(torch.uint8).unsqueeze(1).expand_as(shown)
        rows = torch.cat([shown, labels, grey], dim=3)
        self._writer.add_image("validation windows", torch.cat([*rows], dim=1), step)
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
