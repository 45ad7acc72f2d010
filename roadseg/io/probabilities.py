"""Probability rasters: one band per speed bin and one for any road, written and read."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from numpy.typing import NDArray
from pyproj import CRS
from rasterio.shutil import copy as copy_raster
from rasterio.windows import Window

from roadseg.core.grid import Grid
from roadseg.core.speeds import BAND_NAMES, BINS
from roadseg.core.windows import Rows
from roadseg.errors import DataError
from roadseg.io.files import whole
from roadseg.io.rasters import (
    CONTENT_TAG,
    SPEED_BINS,
    new_profile,
    open_new,
    open_raster,
    read_facts,
)

CERTAIN = 255
_KEY_TAG = "ROADSEG_KEY"  # digest of all that the raster was made from
_MASK_VALUES = 7  # integer rasters with no larger value are masks


@dataclass(frozen=True)
class Probability:
    """What is known of the roads of a scene.

    Attributes:
        grid: where its pixels lie.
        road: probability of any road, shape (row, col), uint8 with 255 for certain.
        bins: probability of each speed bin, shape (7, row, col), alike; None if not known.
    """

    grid: Grid
    road: NDArray[np.uint8]
    bins: NDArray[np.uint8] | None


def write_probability(
    path: Path, rows: Iterable[Rows], grid: Grid, *, key: str, tags: dict[str, str]
) -> None:
    """Write a probability raster as a Cloud Optimized GeoTIFF, some rows at a time.

    Args:
        path: file to write.
        rows: from top to bottom: the first row, probabilities 0..1 as (band, row, col), and
            which pixels hold data as (row, col).
        grid: where the pixels lie.
        key: digest of all that the raster is made from, for `read_key`.
        tags: provenance, kept in the file.
    """
    plain = path.with_name(f".rows-{path.name}")
    profile = new_profile(grid, count=len(BAND_NAMES), dtype="uint8")
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True), whole(path) as partial:
        try:
            with open_new(plain, **profile, compress="lzw", bigtiff="if_safer") as target:
                for first, values, valid in rows:
                    area = Window(0, first, grid.width, values.shape[1])
                    target.write(np.rint(values * CERTAIN).astype(np.uint8), window=area)
                    target.write_mask(valid, window=area)
                target.descriptions = BAND_NAMES
                target.update_tags(**tags, **{_KEY_TAG: key})
            copy_raster(plain, partial, driver="COG", compress="deflate", predictor="2")
        finally:
            plain.unlink(missing_ok=True)


def read_key(path: Path) -> str | None:
    """Return the key that a probability raster was written with; None if there is none."""
    if not path.exists():
        return None
    with open_raster(path) as source:
        key: str | None = source.tags().get(_KEY_TAG)
        return key


def read_probability(path: Path, *, crs: CRS | None = None) -> Probability:
    """Read a probability raster, or a mask as certain probabilities.

    Rasters of 8 bands are what `write_probability` writes. Of a single band, floats are
    probabilities 0..1; integers are a mask if none is above 7 (any value but 0 and nodata is
    road, and its speed bin in a mask of `roadseg prepare`), else probabilities 0..255.

    Args:
        path: the raster.
        crs: coordinate system to use for a raster that does not name its own.

    Raises:
        DataError: if it cannot be read, lies nowhere, or has another number of bands.
    """
    grid = read_facts(path, crs=crs).grid
    with open_raster(path) as source:
        if source.count == len(BAND_NAMES):
            bands = _as_bytes(source.read())
            return Probability(grid, bands[-1], bands[:-1])
        if source.count != 1:
            raise DataError(f"{path}: has {source.count} bands, expected 1 or {len(BAND_NAMES)}")
        band = np.where(source.dataset_mask() > 0, source.read(1), 0)
        has_bins = source.tags().get(CONTENT_TAG) == SPEED_BINS
    if band.dtype.kind == "f" or band.max(initial=0) > _MASK_VALUES:
        return Probability(grid, _as_bytes(band), None)
    road = _certain(band > 0)
    bins = np.stack([_certain(band == b) for b in range(1, BINS + 1)]) if has_bins else None
    return Probability(grid, road, bins)


def _certain(claim: NDArray[np.bool_]) -> NDArray[np.uint8]:
    return np.where(claim, np.uint8(CERTAIN), np.uint8(0))


def _as_bytes(values: NDArray[Any]) -> NDArray[np.uint8]:
    if values.dtype.kind == "f":
        values = np.rint(np.nan_to_num(values) * CERTAIN)
    return np.asarray(np.clip(values, 0, CERTAIN), dtype=np.uint8)
