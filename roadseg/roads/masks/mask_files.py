"""Masks of speed bins, written and read; and how any raster says what its speed bins are.

They are labels, or probabilities above a threshold, for people and for GIS.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import get_args

import numpy as np
import rasterio

from roadseg.arrays import Bools, Bytes
from roadseg.errors import DataError
from roadseg.raster.grid import Grid
from roadseg.raster.images import open_complete, open_raster, read_grid
from roadseg.raster.strips import require_room
from roadseg.raster.tiff import copy_as_cog, new_profile, open_new
from roadseg.raster.windows import CERTAIN, Window, cut_blocks
from roadseg.roads.colours import bin_colours
from roadseg.roads.masks.burning import BACKGROUND, IGNORE
from roadseg.roads.masks.raster_styles import mask_renderer, write_style
from roadseg.roads.speeds import DEFAULT_BINS, BinUnit, SpeedBins
from roadseg.system.files import atomic_write, partial_path
from roadseg.system.records import parse_json

CONTENT_TAG = "ROADSEG_CONTENT"
SPEED_BINS = "speed bins"  # The value of that tag for masks made by write_mask.
KEY_TAG = "ROADSEG_KEY"  # The tag for a digest of all that a raster was made from.
_BINS_TAG = "ROADSEG_SPEED_BINS"

# A mask of up to this side is written in one piece, so that its tiles can be of any size.
_FIT_PX = 2048
_TILE_PX = 512
_BLOCK_PX = 2048  # Side of the squares that are read at once; whole tiles of the mask.
_ROOM = 1.2  # Bytes of a pixel of the draft or of the mask, nearly at most.


def write_mask(
    path: Path,
    blocks: Iterable[tuple[Window, Bytes]],
    grid: Grid,
    *,
    bins: SpeedBins | None,
    key: str = "",
) -> None:
    """Write a mask of speed bins, block by block, as a GeoTIFF with a colour table.

    Args:
        blocks: windows of the mask with their pixels, shape (row, col): 0 background, else the
            speed bin, 255 ignored; as is what no block covers. Blocks that are whole tiles of
            512 pixels, or the whole mask, are written once.
        bins: what the speed bins stand for; None for a mask of roads of unknown speed, which
            are 1.
        key: digest of all that the mask is made from, for `read_raster_key`.

    Raises:
        OutputError: if the file cannot be written in whole.
    """
    profile = new_profile(grid, count=1, dtype="uint8", nodata=IGNORE) | {
        "compress": "packbits",  # It is as quick as none, and every reader of TIFF knows it.
        "photometric": "palette",
        "blockxsize": _tile_px(grid.width),
        "blockysize": _tile_px(grid.height),
        "bigtiff": "if_safer",
    }
    tags = {} if bins is None else {CONTENT_TAG: SPEED_BINS, **bins_tags(bins)}
    tags |= {KEY_TAG: key} if key else {}
    with atomic_write(path) as partial, open_new(partial, profile) as target:
        target.write_colormap(1, colour_table(bins or DEFAULT_BINS))
        target.update_tags(**tags)
        for window, pixels in blocks:
            target.write(pixels, 1, window=window.to_rasterio())


def read_mask(path: Path, window: Window | None = None) -> Bytes:
    """Read a mask that `write_mask` wrote, or a window of it, shape (row, col).

    Raises:
        DataError: if the file cannot be read.
    """
    with open_raster(path) as source:
        pixels = source.read(1, window=None if window is None else window.to_rasterio())
        return np.asarray(pixels, dtype=np.uint8)


def read_raster_key(path: Path) -> str | None:
    """Return the key that a raster was written with; None if it has none or is not complete."""
    try:
        with open_complete(path) as source:
            key: str | None = source.tags().get(KEY_TAG)
            return key
    except DataError:
        return None


def bins_tags(bins: SpeedBins) -> dict[str, str]:
    """Return the tags with which a raster says what its speed bins are."""
    facts = {"edges": bins.edges, "unit": bins.unit} | ({} if bins.are_known else {"known": False})
    return {_BINS_TAG: json.dumps(facts)}


def bins_of(path: Path, tags: Mapping[str, str]) -> SpeedBins | None:
    """Return the speed bins that the tags of a raster name; None if they name none.

    Raises:
        DataError: if they cannot be understood.
    """
    if _BINS_TAG not in tags:
        return None
    try:
        values = parse_json(tags[_BINS_TAG])
        unit = next(unit for unit in get_args(BinUnit) if unit == values["unit"])
        edges = tuple(float(edge) for edge in values["edges"])
        return SpeedBins(edges, unit, are_known=bool(values.get("known", True)))
    except (ValueError, LookupError, TypeError, StopIteration) as error:
        raise DataError(
            f"{path}: the tag {_BINS_TAG} is not a list of speed bins: {tags[_BINS_TAG]}; expected "
            "a file that roadseg wrote"
        ) from error


def colour_table(bins: SpeedBins) -> dict[int, tuple[int, int, int, int]]:
    """Return the colour of each value of a mask: red, green, blue and opacity, 0 to 255."""
    table = {number: (*colour, 255) for number, colour in enumerate(bin_colours(bins), 1)}
    return {BACKGROUND: (0, 0, 0, 255), **table, IGNORE: (128, 128, 128, 0)}


def _tile_px(length: int) -> int:
    """Return a side for tiles: at most 512, and little is left over of those of a small mask."""
    if length > _FIT_PX:
        return _TILE_PX
    return math.ceil(length / math.ceil(length / _TILE_PX) / 16) * 16


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
        bins = bins_of(probability, source.tags()) or DEFAULT_BINS
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
