"""Road masks: probabilities above a threshold as a mask of speed bins, for people and for GIS."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import rasterio

from roadseg.arrays import Bools, Bytes
from roadseg.errors import DataError
from roadseg.raster.images import open_raster, read_grid
from roadseg.raster.strips import require_room
from roadseg.raster.tiff import copy_as_cog
from roadseg.raster.windows import CERTAIN, Window, cut_blocks
from roadseg.roads.masks.burning import BACKGROUND, IGNORE
from roadseg.roads.masks.mask_files import bins_of, write_mask
from roadseg.roads.masks.raster_styles import mask_renderer, write_style
from roadseg.roads.speeds import DEFAULT_BINS, SpeedBins
from roadseg.system.files import atomic_write, partial_path

_BLOCK_PX = 2048  # Side of the squares that are read at once; whole tiles of the mask.
_ROOM = 1.2  # Bytes of a pixel of the draft or of the mask, nearly at most.


def write_road_mask(probability: Path, mask: Path, *, threshold: float, key: str) -> None:
    """Write the mask of a probability raster as a Cloud Optimized GeoTIFF with a colour table.

    It is a mask as `roadseg prepare` makes them: 0 is background, 255 no data, anything else
    the most probable speed bin of a pixel whose probability of any road is at least the
    threshold. It is written block by block.

    Args:
        probability: raster that `write_probability` wrote.
        threshold: a pixel is road where its probability, 0 to 1, is at least this.
        key: digest of all that the mask is made from, for `read_raster_key`.

    Raises:
        DataError: if the probabilities cannot be read.
        OutputError: if the mask cannot be written in whole.
    """
    plain = partial_path(mask, "plain-")
    grid = read_grid(probability)
    require_room(mask, int(_ROOM * grid.height * grid.width))
    with open_raster(probability) as source:
        bins = _bins(probability, source)
        try:
            write_mask(plain, _blocks(source, threshold), grid, bins=bins, key=key)
            with atomic_write(mask) as partial:
                copy_as_cog(plain, partial, size=grid.height * grid.width)
            write_style(mask, mask_renderer(bins))
        finally:
            plain.unlink(missing_ok=True)


def classify(values: Bytes, valid: Bools, *, threshold: float) -> Bytes:
    """Return the mask of probabilities.

    Args:
        values: shape (band, row, col), 255 for certain: one band for each speed bin, the last
            for any road.
        valid: which pixels hold data, shape (row, col).
        threshold: probability from which on a pixel is road, 0 to 1.

    Returns:
        Shape (row, col): 0 background, else the number of the most probable speed bin, the
        slowest of those alike; 255 no data.
    """
    mask: Bytes = values[:-1].argmax(axis=0).astype(np.uint8) + np.uint8(1)
    mask[values[-1] < threshold * CERTAIN] = BACKGROUND
    mask[~valid] = IGNORE
    return mask


def _blocks(source: rasterio.DatasetReader, threshold: float) -> Iterator[tuple[Window, Bytes]]:
    for block in cut_blocks(source.height, source.width, block_px=_BLOCK_PX):
        valid = source.dataset_mask(window=block.to_rasterio()) > 0
        yield block, classify(source.read(window=block.to_rasterio()), valid, threshold=threshold)


def _bins(path: Path, source: rasterio.DatasetReader) -> SpeedBins:
    bins = bins_of(path, source.tags()) or DEFAULT_BINS
    if source.count != bins.count + 1 or source.dtypes[0] != "uint8":
        raise DataError(
            f"{path}: has {source.count} bands of {source.dtypes[0]}, expected {bins.count + 1} "
            "of uint8, as `roadseg predict` writes them"
        )
    return bins
