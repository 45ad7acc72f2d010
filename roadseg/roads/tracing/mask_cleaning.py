"""Mask cleaning: remove small blobs, fill small holes."""

from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from roadseg.arrays import Array, Bools


class Sides(NamedTuple):
    """Which sides of a window lie inside its scene; the others are the border of the scene."""

    top: bool = False
    right: bool = False
    bottom: bool = False
    left: bool = False


NO_SIDES = Sides()


def clean_mask(
    mask: NDArray[np.generic], *, min_blob_px: int, min_hole_px: int, goes_on: Sides = NO_SIDES
) -> Bools:
    """Remove small blobs of a mask, then fill its small holes.

    Args:
        mask: shape (row, col); zero is background.
        min_blob_px: blobs of fewer pixels, their holes included, go with all that is in these;
            blobs of just as many stay (8 neighbours).
        min_hole_px: holes of fewer pixels, blobs in them included, are filled; holes of just as
            many stay (4 neighbours). Background that touches the border of the mask is not a hole.
        goes_on: sides at which the scene goes on; blobs that touch them stay.

    Source: pixels are counted from outlines by Pick's theorem (G. Pick, 1899), which is four times
    as fast as connected components.
    """
    roads = np.array(mask, dtype=bool, order="C")
    if not roads.any():
        return roads
    # Outlines of blobs, and those of their holes, each with the row of its blob.
    pixels = roads.view(np.uint8)
    outlines, tree = cv2.findContours(pixels, cv2.RETR_CCOMP, cv2.CHAIN_APPROX_NONE)
    blob = tree[0, :, 3]
    is_hole = blob >= 0
    # Count the pixels inside outlines; those on the outline count for blobs, not for holes.
    area = np.array([cv2.contourArea(outline) for outline in outlines])
    steps = np.array([len(outline) if len(outline) > 1 else 0 for outline in outlines])
    inside = np.rint(area + np.where(is_hole, -steps, steps) / 2 + 1).astype(np.int64)
    removed = ~is_hole & (inside < min_blob_px)
    for row in np.flatnonzero(removed).tolist() if any(goes_on) else ():
        removed[row] = not _touches(outlines[row], roads.shape, goes_on)
    filled = is_hole & (inside < min_hole_px) & ~removed[blob]
    for chosen, value in ((removed, 0), (filled, 1)):
        for row in np.flatnonzero(chosen).tolist():
            cv2.fillPoly(pixels, [outlines[row]], [value])
    return roads


def _touches(outline: Array, shape: tuple[int, ...], sides: Sides) -> bool:
    left, top, width, height = cv2.boundingRect(outline)
    return (
        (sides.top and top == 0)
        or (sides.right and left + width == shape[1])
        or (sides.bottom and top + height == shape[0])
        or (sides.left and left == 0)
    )
