"""Mask cleaning: cracks closed, small blobs removed, small holes filled."""

from collections.abc import Sequence
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from roadseg.arrays import Array, Bools, Bytes, Ints

Outlines = Sequence[Array]


class Sides(NamedTuple):
    """The sides of a window beyond which its scene goes on."""

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
        min_blob_px: blobs of fewer pixels go, blobs of just as many stay (8 neighbours).
        min_hole_px: holes of fewer pixels are filled, holes of just as many stay
            (4 neighbours). Background that touches the border of the mask is no hole.
        goes_on: blobs that touch such a side stay, as they may be larger than they seem.

    Source: pixels are counted from outlines by Pick's theorem (G. Pick, 1899), which takes a
    quarter of the time that numbering all pixels does.
    """
    roads = np.array(mask, dtype=bool, order="C")
    if not roads.any():
        return roads
    # Outlines of blobs and of their holes, each with the one that it lies in as its parent.
    pixels = roads.view(np.uint8)
    outlines, tree = cv2.findContours(pixels, cv2.RETR_TREE, cv2.CHAIN_APPROX_NONE)
    parent = tree[0, :, 3].astype(np.int64)
    is_hole = _is_hole(parent)
    inside = _pixels_inside(outlines, is_hole)
    # A blob has the pixels inside of its outline less those of its holes.
    goes = ~is_hole & (inside - _of_children(inside, parent, is_hole) < min_blob_px)
    for row in np.flatnonzero(goes).tolist() if any(goes_on) else ():
        goes[row] = not _touches(outlines[row], roads.shape, goes_on)
    # Holes of a blob that is gone are background, and blobs in them lie in the hole around it.
    opened, stays = is_hole & _parent_is(goes, parent), ~is_hole & ~goes
    parent = _without(parent, opened)
    left = inside - _of_children(inside, parent, stays)
    filled = is_hole & ~opened & (left < min_hole_px)
    # An even number of outlines around a pixel leaves it as it is.
    _paint(pixels, outlines, goes | opened, 0)
    _paint(pixels, outlines, filled | (stays & _parent_is(filled, parent)), 1)
    return roads


def close_cracks(mask: NDArray[np.generic], *, reach_px: tuple[int, int]) -> Bools:
    """Close what parts roads by no more than twice `reach_px`, and as narrow notches.

    Nothing is added at the border of the mask.

    Args:
        mask: shape (row, col); zero is background.
        reach_px: rows and columns by which roads grow, and shrink again.
    """
    roads = np.ascontiguousarray(mask, dtype=bool)
    rows, cols = reach_px
    if max(rows, cols) == 0 or roads.size == 0:
        return roads
    # A flat ellipse would be a dot.
    shape = cv2.MORPH_ELLIPSE if min(reach_px) else cv2.MORPH_RECT
    kernel = cv2.getStructuringElement(shape, (2 * cols + 1, 2 * rows + 1))
    grown = cv2.dilate(roads.view(np.uint8), kernel)
    closed = cv2.erode(grown, kernel, borderType=cv2.BORDER_CONSTANT, borderValue=0)
    return np.asarray(closed.view(bool) | roads)


def _is_hole(parent: Ints) -> Bools:
    """Return which outlines are holes: those directly in a blob, which lie in holes in turn."""
    is_hole = np.zeros(len(parent), dtype=bool)
    row = np.flatnonzero(parent >= 0)
    ancestor = parent[row]
    while len(row):
        is_hole[row] ^= True
        ancestor = parent[ancestor]
        row, ancestor = row[ancestor >= 0], ancestor[ancestor >= 0]
    return is_hole


def _pixels_inside(outlines: Outlines, is_hole: Bools) -> Ints:
    """Count the pixels inside of outlines, with those on it for blobs, without for holes."""
    area = np.array([cv2.contourArea(outline) for outline in outlines])
    steps = np.array([len(outline) if len(outline) > 1 else 0 for outline in outlines])
    return np.rint(area + np.where(is_hole, -steps, steps) / 2 + 1).astype(np.int64)


def _of_children(inside: Ints, parent: Ints, chosen: Bools) -> Ints:
    """Return for each outline how many pixels lie in the chosen ones directly in it."""
    rows = chosen & (parent >= 0)
    return np.bincount(parent[rows], inside[rows], minlength=len(parent)).astype(np.int64)


def _parent_is(chosen: Bools, parent: Ints) -> Bools:
    return np.asarray((parent >= 0) & chosen[parent])


def _without(parent: Ints, opened: Bools) -> Ints:
    """Return the parents once blobs are gone: what lay in their holes lies in the hole around."""
    while (lost := _parent_is(opened, parent)).any():
        parent = np.where(lost, parent[parent[parent]], parent)
    return parent


def _touches(outline: Array, shape: tuple[int, ...], sides: Sides) -> bool:
    left, top, width, height = cv2.boundingRect(outline)
    return (
        (sides.top and top == 0)
        or (sides.right and left + width == shape[1])
        or (sides.bottom and top + height == shape[0])
        or (sides.left and left == 0)
    )


def _paint(pixels: Bytes, outlines: Outlines, chosen: Bools, value: int) -> None:
    """Set the pixels that lie in an odd number of the chosen outlines, and those on them."""
    rows = np.flatnonzero(chosen).tolist()
    if rows:
        cv2.fillPoly(pixels, [outlines[row] for row in rows], [value])
