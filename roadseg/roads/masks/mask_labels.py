"""Raster masks as road labels: read on the grid of an image, and turned into speed bins."""

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import rasterio
import shapely
from pyproj import CRS
from rasterio.enums import ColorInterp, Compression, Resampling
from rasterio.vrt import WarpedVRT

from roadseg.arrays import Array, Bools, Bytes
from roadseg.errors import DataError
from roadseg.raster.grid import XY, Grid, crs_of, crs_setting, has_transform, reproject
from roadseg.raster.images import RasterFacts, open_raster, read_grid
from roadseg.raster.pixels import valid_pixels
from roadseg.raster.windows import Window, spread_windows
from roadseg.roads.labels.roads import places_text
from roadseg.roads.masks.burning import IGNORE
from roadseg.roads.masks.mask_files import CONTENT_TAG, SPEED_BINS, bins_of
from roadseg.roads.options import LabelOptions
from roadseg.roads.speeds import DEFAULT_BINS
from roadseg.system.text import count

logger = logging.getLogger(__name__)

_HALF = 0.5  # Floats from here on are road, be they probabilities or class numbers.
_HALF_BYTE = 128  # Bytes from here on are road under JPEG, which blurs 0 and 255.
_MASK_VALUES = 8  # A raster of more different values is an image.
_SAMPLE_PX = 65536
_SAME_PX = 0.01  # Pixels; corners that differ by less are the same.
_STEPS = 16  # Along a footprint that is brought to another CRS, where its edges bend.

Values = tuple[Array, Bools]


@dataclass(frozen=True)
class MaskLabels:
    """A raster mask that lies open over an image, to be read as a mask of speed bins.

    Attributes:
        source: the mask as it is in the file.
        seen: the same on the grid of the image.
        bin_by_value: speed bin of each value that is road; None if it has none of its own.
        default_bin: speed bin of what is road where `bin_by_value` is None.
    """

    source: rasterio.DatasetReader
    seen: rasterio.DatasetReader
    bin_by_value: Mapping[int, np.uint8] | None
    default_bin: np.uint8

    def read(self, window: Window) -> Bytes:
        """Read a window that lies inside the grid of the image.

        Returns:
            Shape (row, col): 0 background, else the speed bin; 255 where the mask says nothing or
            does not reach.

        Raises:
            DataError: if the mask cannot be read.
        """
        values, valid = _read_values(self.source, self.seen, window)
        if self.bin_by_value is None:
            mask = _drawn_roads(values, self.source) * self.default_bin
        else:
            mask = np.zeros(values.shape, dtype=np.uint8)
            for value, number in self.bin_by_value.items():
                mask[values == value] = number
        mask[~valid] = IGNORE
        return mask


@contextmanager
def open_mask_labels(
    path: Path, facts: RasterFacts, options: LabelOptions, *, shift_m: XY = (0.0, 0.0)
) -> Iterator[MaskLabels]:
    """Open a raster mask to read the mask of speed bins that it gives an image.

    A mask with georeference may have any CRS and pixels: each pixel of the image takes the value
    at its centre. One without, or that of an image without, must have the size of the image.

    The value of a pixel is that of its band, or the largest of several bands (a drawing in
    colours); alpha is not a band. Where `options.mask_speeds_mph` is None, road is: in integers all
    but 0; in floats 0.5 and more; under JPEG, which blurs, 128 and more. A mask of `write_mask`
    keeps its speeds. Nodata, transparent and masked pixels are ignored; but a nodata value of 0 is
    background, as nothing else can be in such a file.

    Args:
        options: the speed bins wanted, the speed of each value that is road or of all roads, and
            the CRS of a mask that does not name its own.
        shift_m: metres east and north by which the mask is moved; what it no longer reaches is
            ignored.

    Raises:
        DataError: if the mask cannot be read, cannot be laid over the image or misses it, or
            has a speed for each value but a compression that changes them.
    """
    crs, bins = crs_setting(options.crs, "labels.crs"), options.bins
    with open_raster(path) as source:
        speeds_mph: Mapping[int, float] | None = options.mask_speeds_mph
        if speeds_mph is None:
            speeds_mph = _own_speeds(path, source)
        if speeds_mph is not None and _is_lossy(source):
            raise DataError(
                f"{path}: JPEG changes the values of pixels, so labels.mask_speeds_mph cannot be "
                "used; save the mask as PNG or GeoTIFF"
            )
        bin_by_value = None
        if speeds_mph is not None:
            numbers = bins.bin_of(list(speeds_mph.values()))
            bin_by_value = dict(zip(speeds_mph, numbers, strict=True))
        default_bin = np.uint8(bins.bin_of(options.default_speed_mph))
        with _lay_over(path, source, facts, crs, shift_m) as seen:
            yield MaskLabels(source, seen, bin_by_value, default_bin)


def check_masks(paths: Collection[Path]) -> None:
    """Refuse masks of classes with 255, and warn of those in which the roads seem to be wrong.

    In these most is road, or all that may be road has the nodata value. A sample of each is read.
    In a line each, the first of these masks is named, and how many there are. Nodata values are
    looked at only if no mask has a road.

    Raises:
        DataError: if a mask cannot be read, or has few values with 1 and 255 among them: beside
            classes, 255 usually stands for pixels to ignore, while beside 0 alone it is road.
    """
    inverted, hidden, roads = [], [], 0
    for path in paths:
        with open_raster(path) as source:
            values, valid = sample_values(source)
            # Masks of `write_mask` are right, and their nodata value is not known.
            if not valid.any() or _own_speeds(path, source) is not None:
                continue
            require_clear(path, values[valid], source)
            share = _drawn_roads(values[valid], source).mean()
            roads += share > 0
            if share > _HALF:
                inverted.append(path)
            elif source.nodata and (values == source.nodata).any():
                hidden.append(path)
    if inverted:
        logger.warning(
            "%s: more than half of its pixels are road%s; if 0 stands for roads, swap the values "
            '(gdal_calc.py -A mask.tif --calc="A==0" --outfile roads.tif), or, for the labels of a '
            'run, set labels.mask_speeds_mph={"0": 25}',
            *(inverted[0], _as_others(inverted)),
        )
    if hidden and not roads:
        logger.warning(
            "%s: has no road, but its nodata value%s; if this stands for roads, take nodata away: "
            "gdal_translate -a_nodata none %s roads.tif",
            *(hidden[0], _as_others(hidden), hidden[0].name),
        )


def require_clear(path: Path, values: Array, source: rasterio.DatasetReader) -> None:
    """Refuse a raster in which both 1 and 255 may be road.

    Args:
        values: of a sample of its pixels, those that hold data.

    Raises:
        DataError: if both occur among few values.
    """
    found = np.unique(values)
    if np.isin([1, IGNORE], found).all() and len(found) <= _MASK_VALUES and not _is_lossy(source):
        raise DataError(
            f"{path}: has pixels of 1 and of {IGNORE}; if {IGNORE} stands for pixels to ignore, "
            f"say so in the file (gdal_translate -a_nodata {IGNORE} {path.name} roads.tif); if it "
            f"is road, too, save it as 1; or, for labels of a run, set labels.mask_speeds_mph="
            f'{{"1": 25, "{IGNORE}": 25}}'
        )


def _as_others(paths: Sequence[Path]) -> str:
    return f", as in {count(len(paths) - 1, 'more mask')}" if len(paths) > 1 else ""


def mask_values(path: Path) -> dict[int, float]:
    """Return which values a raster mask has, and the share of its pixels that has each.

    A sample is read. Floats are rounded, as `labels.mask_speeds_mph` names whole numbers.

    Raises:
        DataError: if it cannot be read.
    """
    with open_raster(path) as source:
        every, valid = sample_values(source)
    values = np.rint(every[valid]).astype(np.int64)
    different, counts = np.unique(values, return_counts=True)
    return dict(zip(different.tolist(), (counts / len(values)).tolist(), strict=True))


def looks_like_mask(path: Path) -> bool:
    """Return whether a raster is a mask, not an image: one band of few different integers.

    Raises:
        DataError: if it cannot be read.
    """
    with open_raster(path) as source:
        if len(_bands(source)) > 1 or np.dtype(source.dtypes[0]).kind not in "iu":
            return False
        values, valid = sample_values(source)
    return len(np.unique(values[valid])) <= _MASK_VALUES


def sample_values(source: rasterio.DatasetReader) -> Values:
    """Read the values of pixels spread over a mask, and which hold any, both of shape (n,)."""
    windows = spread_windows(*source.shape, block=source.block_shapes[0], pixels=_SAMPLE_PX)
    parts = [_read_values(source, source, window) for window in windows]
    values, valid = (np.concatenate([part[k].ravel() for part in parts]) for k in (0, 1))
    return values, valid


def _own_speeds(path: Path, source: rasterio.DatasetReader) -> Mapping[int, float] | None:
    """Return the speeds of the values of a mask of `write_mask`; None for others."""
    tags = source.tags()
    if tags.get(CONTENT_TAG) != SPEED_BINS:
        return None
    bins = bins_of(path, tags) or DEFAULT_BINS
    return dict(enumerate(bins.speeds_mph, 1))


def _is_lossy(source: rasterio.DatasetReader) -> bool:
    return bool(source.driver == "JPEG" or source.compression == Compression.jpeg)


def _read_values(
    source: rasterio.DatasetReader, seen: rasterio.DatasetReader, window: Window
) -> Values:
    """Read the values of a window, and where there are any, both of shape (row, col).

    Args:
        source: the mask as it is in the file.
        seen: the same on the grid of the window.
    """
    pixels = seen.read(_bands(source), window=window.to_rasterio())
    if seen is source and source.nodata is not None:
        valid = np.ones(pixels.shape[1:], dtype=bool)
    else:
        valid = valid_pixels(seen, window.to_rasterio())
    if source.nodata:  # A value of 0 is background.
        is_nodata = np.isnan(pixels) if np.isnan(source.nodata) else pixels == source.nodata
        valid &= ~is_nodata.all(axis=0)
    if pixels.dtype.kind == "f":
        valid &= ~np.isnan(pixels).any(axis=0)
    return pixels.max(axis=0), valid


def _bands(source: rasterio.DatasetReader) -> list[int]:
    colours = zip(source.indexes, source.colorinterp, strict=True)
    return [number for number, colour in colours if colour != ColorInterp.alpha] or [1]


def _drawn_roads(values: Array, source: rasterio.DatasetReader) -> Bools:
    if values.dtype.kind == "f":
        return np.asarray(values >= _HALF)
    return np.asarray(values >= _HALF_BYTE if _is_lossy(source) else values != 0)


def _lay_over(
    path: Path, source: rasterio.DatasetReader, facts: RasterFacts, crs: CRS | None, shift_m: XY
) -> AbstractContextManager[rasterio.DatasetReader]:
    """Return the mask, moved, as seen on the grid of an image."""
    grid = _grid(path, source, facts, crs)
    if any(shift_m):
        grid = grid.moved(*shift_m)
    wanted = facts.grid
    if grid.coincides(wanted, within_px=_SAME_PX):
        return nullcontext(source)
    _require_touch(path, grid, facts)
    seen: AbstractContextManager[rasterio.DatasetReader] = WarpedVRT(
        source,
        src_crs=grid.crs.to_wkt(),
        src_transform=grid.transform,
        src_nodata=None,
        crs=wanted.crs.to_wkt(),
        transform=wanted.transform,
        height=wanted.height,
        width=wanted.width,
        resampling=Resampling.nearest,
        add_alpha=ColorInterp.alpha not in source.colorinterp,
    )
    return seen


def _grid(path: Path, source: rasterio.DatasetReader, facts: RasterFacts, crs: CRS | None) -> Grid:
    """Return where the pixels of a mask lie, in a CRS that the image can be brought to."""
    crs = crs_of(path, source) or crs
    shape = (source.height, source.width)
    if has_transform(source) and crs is not None and not facts.grid.is_local:
        grid = Grid(crs, source.transform, *shape)
        if not grid.is_local:
            return grid
    own = facts.whole_grid
    if (own.height, own.width) != shape and not own.is_local:
        own = read_grid(facts.path, crs=own.crs)
    if (own.height, own.width) != shape:
        raise DataError(
            f"{path}: found {shape[0]} x {shape[1]} pixels, expected {own.height} x {own.width} "
            f"as in {facts.path}, since one of both has no georeference; use a mask of that size, "
            "or set labels.crs if the mask only lacks a coordinate system"
        )
    return own


def _require_touch(path: Path, grid: Grid, facts: RasterFacts) -> None:
    """Check that a mask and an image share ground, not only an edge."""
    outline = shapely.segmentize(facts.grid.footprint, facts.grid.footprint.length / _STEPS)
    there = reproject(np.array([outline], dtype=object), facts.grid.crs, grid.crs)
    places = grid.to_pixel(shapely.get_coordinates(there))
    low, high = places.min(axis=0), places.max(axis=0)
    size = np.array([grid.height, grid.width])
    if not ((high > _SAME_PX).all() and (low < size - _SAME_PX).all()):
        mask, image = (np.array([each.footprint], dtype=object) for each in (grid, facts.grid))
        where = places_text(
            ("mask is", mask, grid.crs),
            ("image", image, facts.grid.crs),
            advice="check the CRS of both, or the file names",
        )
        raise DataError(f"{path}: does not touch {facts.path}: {where}")
