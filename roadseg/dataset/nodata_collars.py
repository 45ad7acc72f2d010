"""Nodata collars: the black around a turned or cut image whose file declares no nodata value."""

import numpy as np
import shapely
from scipy import ndimage

from roadseg.arrays import Array, Bools

_AROUND = 0.5  # Share of a black area that lies outside the image, if it is a collar.
_BRIGHT = 0.25  # Pixels beside a collar are at least this share as bright as the image.
_BESIDE_PX = 2  # Pixels beside a collar that are looked at.


def collar_share(bands: Array, valid: Bools) -> float:
    """Return the share of a scene that is a nodata collar: areas of 0 in every band around it.

    A collar lies mostly outside the convex hull of all that is not 0, and ends where the image
    begins, at pixels as bright as others. So shadows, dark water and dark images have none.

    Args:
        bands: shape (band, row, col).
        valid: shape (row, col), false where a pixel is known to have no data.

    Returns:
        From 0 to 1; 1 if all valid pixels are 0.
    """
    empty = valid & (bands == 0).all(axis=0)
    if not empty.any() or empty.all():
        return float(empty.any())
    outside = _outside_hull(empty)
    areas, _ = ndimage.label(empty)
    collar = empty & np.isin(areas, np.unique(areas[outside]))
    is_around = outside.any() and outside.sum() >= _AROUND * collar.sum()
    return float(collar.mean()) if is_around and _ends_bright(bands, collar, valid) else 0.0


def _outside_hull(empty: Bools) -> Bools:
    """Return the empty pixels outside the convex hull of all others."""
    rows = np.flatnonzero(~empty.all(axis=1))
    first = (~empty[rows]).argmax(axis=1)
    last = empty.shape[1] - (~empty[rows, ::-1]).argmax(axis=1)
    corners = [(cols, rows + below) for cols in (first, last) for below in (0, 1)]
    hull = shapely.MultiPoint(np.concatenate([np.column_stack(c) for c in corners])).convex_hull
    outside = empty.copy()
    rows, cols = np.nonzero(empty)
    outside[rows, cols] = ~shapely.contains_xy(hull, cols + 0.5, rows + 0.5)
    return outside


def _ends_bright(bands: Array, collar: Bools, valid: Bools) -> bool:
    beside = ndimage.binary_dilation(collar, iterations=_BESIDE_PX) & ~collar & valid
    shown = valid & ~collar
    brightest = bands.max(axis=0)
    return bool(np.median(brightest[beside]) >= _BRIGHT * np.median(brightest[shown]))
