"""Pictures of a report: images and probabilities, warped to a map, small enough for a page."""

import base64
import io
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import rasterio.crs
from affine import Affine
from numpy.typing import NDArray
from PIL import Image
from pyproj import CRS
from rasterio.enums import Resampling
from rasterio.transform import array_bounds
from rasterio.warp import reproject

from roadseg.arrays import Bools, Bytes
from roadseg.errors import DataError
from roadseg.raster.grid import Grid
from roadseg.raster.images import RasterFacts, open_raster
from roadseg.raster.pixels import preview_shape, read_preview
from roadseg.raster.scaling import Scaling, fit_scaling
from roadseg.raster.windows import CERTAIN, Window
from roadseg.report.plots.figures import probability_colours, rgb
from roadseg.roads.masks.probabilities import ProbabilityFile

_QUALITY = 74  # Quality of WebP, 0 to 100.
_LEAST_PX = 48  # Pixels; smaller pictures are left out.
_TRIES = 6  # Sizes that are tried until a picture is small enough.
_LEVELS = 16  # Levels of probability, for PNG with 4 bits.
_MASK_COLOUR = (0, 209, 224)


@dataclass(frozen=True)
class MapImage:
    """An image whose rows run from west to east on a map.

    Attributes:
        pixels: shape (band, row, col); the last band is 255 where there is data.
        bounds: west, south, east and north in metres.
    """

    pixels: Bytes
    bounds: tuple[float, float, float, float]


def read_photo(facts: RasterFacts, scaling: Scaling | None, crs: CRS, *, side_px: int) -> MapImage:
    """Read the first three bands of a scene, or its first, for a map.

    Args:
        scaling: scaling of the bands to bytes; without one for this type of pixels, they are
            stretched between percentiles.

    Raises:
        DataError: if it cannot be read.
    """
    pixels, valid = read_preview(facts, side=side_px)
    shown = rgb(_to_bytes(pixels, valid, scaling))
    return _warp_to_map(np.concatenate([shown, _opaque(valid)]), facts.grid, crs)


def read_road(
    file: ProbabilityFile, crs: CRS, *, side_px: int, window: Window | None = None
) -> MapImage:
    """Read the probability of any road for a map, 255 for certain.

    Args:
        file: probabilities or a mask.
        window: pixels to read; None is all of them.

    Raises:
        DataError: if it cannot be read.
    """
    window = window or Window(0, 0, file.grid.height, file.grid.width)
    grid, read = file.grid.crop(*window), window.to_rasterio()
    shape = preview_shape(grid, side=side_px)
    with open_raster(file.path) as source:
        resampling = Resampling.nearest if file.is_mask else Resampling.average
        band = source.read(source.count, window=read, out_shape=shape, resampling=resampling)
        valid = source.dataset_mask(window=read, out_shape=shape) > 0
    road = file.as_road(np.where(valid, band, 0) if file.is_mask else band)
    return _warp_to_map(np.concatenate([road[np.newaxis], _opaque(valid)]), grid, crs)


def mosaic(
    flats: Iterable[MapImage], bounds: tuple[float, float, float, float], *, side_px: int
) -> Bytes:
    """Return images of a map as one, without seams where they touch.

    Args:
        bounds: west, south, east and north of the map.

    Returns:
        Red, green, blue and opacity, shape (row, col, 4).
    """
    west, south, east, north = bounds
    per_m = side_px / max(east - west, north - south)
    size = (max(round((east - west) * per_m), 1), max(round((north - south) * per_m), 1))
    whole = Image.new("RGBA", size)
    for flat in flats:
        sides = np.array(flat.bounds) - (west, south, west, south)
        left, low, right, high = np.rint(sides * per_m).astype(int).tolist()
        part = Image.fromarray(np.ascontiguousarray(np.moveaxis(flat.pixels, 0, -1)))
        part = part.resize((max(right - left, 1), max(high - low, 1)))
        whole.paste(part, (left, size[1] - high), part.getchannel("A"))
    return np.asarray(whole)


def photo_uri(flat: MapImage, *, most_bytes: int) -> str | None:
    """Return a picture as a `data:` address of WebP; None if it would be too small to be seen."""
    is_whole = bool((flat.pixels[-1] == CERTAIN).all())
    bands = flat.pixels[:-1] if is_whole else flat.pixels
    picture = Image.fromarray(np.ascontiguousarray(np.moveaxis(bands, 0, -1)))
    return _encode_small(picture, partial(_as_webp, method=2), "image/webp", most_bytes)


def probability_uri(flat: MapImage, *, most_bytes: int) -> str | None:
    """Return probabilities as a `data:` address of PNG; pixels without road are transparent.

    They have sixteen levels. None if the picture would be too small to be seen.
    """
    road = _where_valid(flat)
    colours = probability_colours(_LEVELS).ravel().tobytes()
    # The square root makes low probabilities visible; 235 lets the image show through high ones.
    alpha = bytes(round(235 * math.sqrt(level / (_LEVELS - 1))) for level in range(_LEVELS))

    def encode(shown: Image.Image) -> bytes:
        levels = np.asarray(shown, dtype=np.uint16) * (_LEVELS - 1)
        return _as_png((levels + CERTAIN // 2) // CERTAIN, colours, alpha, bits=4)

    return _encode_small(Image.fromarray(road), encode, "image/png", most_bytes)


def mask_uri(flat: MapImage, *, threshold: float, most_bytes: int) -> str | None:
    """Return which pixels are road as a `data:` address of PNG; None if it would be too small."""
    colours, alpha = bytes((0, 0, 0, *_MASK_COLOUR)), bytes((0, 170))

    def encode(shown: Image.Image) -> bytes:
        return _as_png(np.asarray(shown) >= threshold * CERTAIN, colours, alpha, bits=1)

    return _encode_small(Image.fromarray(_where_valid(flat)), encode, "image/png", most_bytes)


def sheet_uri(path: Path, *, side_px: int, most_bytes: int) -> str | None:
    """Return a picture file, reduced, as a `data:` address of WebP.

    Raises:
        DataError: if it cannot be read.
    """
    try:
        with Image.open(path) as file:
            picture = file.convert("RGB")
    except (OSError, SyntaxError) as error:  # Pillow raises SyntaxError for a damaged PNG.
        raise DataError(f"{path}: not a readable picture; delete it, or make it again") from error
    picture.thumbnail((side_px, side_px))
    return _encode_small(picture, partial(_as_webp, method=4), "image/webp", most_bytes)


def _to_bytes(pixels: NDArray[Any], valid: Bools, scaling: Scaling | None) -> Bytes:
    if scaling is None or len(scaling.ranges.get(pixels.dtype.name, ())) != len(pixels):
        if not valid.any():
            return np.zeros(pixels.shape, dtype=np.uint8)
        scaling = fit_scaling([pixels[:, valid]])
    return scaling.apply(pixels)


def _opaque(valid: Bools) -> Bytes:
    return np.where(valid, np.uint8(CERTAIN), np.uint8(0))[np.newaxis]


def _where_valid(flat: MapImage) -> Bytes:
    road, valid = flat.pixels
    return np.where(valid > 0, road, np.uint8(0))


def _warp_to_map(pixels: Bytes, grid: Grid, crs: CRS) -> MapImage:
    """Warp thinned pixels of a scene to a map, unless their axes agree already."""
    height, width = pixels.shape[1:]
    transform = grid.with_shape(height, width).transform
    is_flat = transform.b == transform.d == 0 and transform.a > 0 > transform.e
    # Rows that run from west to east need no warping, which would blur them.
    if is_flat and (grid.crs == crs or grid.is_local):
        return MapImage(pixels, array_bounds(height, width, transform))
    target, rows, columns = _map_grid(grid, crs, pixels=height * width)
    flat = np.zeros((len(pixels), rows, columns), dtype=np.uint8)
    # The last band is a mask of data, which must not be interpolated.
    colours, validity = slice(None, -1), slice(-1, None)
    for bands, resampling in ((colours, Resampling.bilinear), (validity, Resampling.nearest)):
        reproject(
            pixels[bands],
            flat[bands],
            src_transform=transform,
            src_crs=rasterio.crs.CRS.from_wkt(grid.crs.to_wkt()),
            dst_transform=target,
            dst_crs=rasterio.crs.CRS.from_wkt(crs.to_wkt()),
            resampling=resampling,
        )
    return MapImage(flat, array_bounds(rows, columns, target))


def _map_grid(grid: Grid, crs: CRS, *, pixels: int) -> tuple[Affine, int, int]:
    """Return transform, rows and columns of a map around a scene, with as many pixels on it."""
    moved = grid.footprint_in(crs)
    west, south, east, north = moved.bounds
    size_m = math.sqrt(moved.area / pixels)
    rows, columns = (max(1, math.ceil(side / size_m)) for side in (north - south, east - west))
    return Affine(size_m, 0, west, 0, -size_m, north), rows, columns


def _encode_small(
    picture: Image.Image, encode: Callable[[Image.Image], bytes], kind: str, most_bytes: int
) -> str | None:
    """Encode a picture, reduced until its `data:` address has at most `most_bytes`."""
    # Base64 encodes three bytes as four characters, after a prefix of less than 64.
    most = max(most_bytes - 64, 0) * 3 // 4
    shown = picture
    for _ in range(_TRIES):
        encoded = encode(shown)
        if len(encoded) <= most:
            return f"data:{kind};base64,{base64.b64encode(encoded).decode()}"
        # The size in bytes is about proportional to the area; 0.95 is a margin against more tries.
        by = min(0.8, 0.95 * math.sqrt(most / len(encoded)))
        size = (round(shown.width * by), round(shown.height * by))
        if max(size) < _LEAST_PX:
            return None
        shown = picture.resize((max(size[0], 1), max(size[1], 1)), Image.Resampling.BOX)
    return None


def _as_png(indices: NDArray[Any], colours: bytes, alpha: bytes, *, bits: int) -> bytes:
    picture = Image.fromarray(indices.astype(np.uint8), mode=None).convert("L")
    paletted = Image.frombytes("P", picture.size, picture.tobytes())
    paletted.putpalette(colours)
    file = io.BytesIO()
    paletted.save(file, "PNG", bits=bits, transparency=alpha, compress_level=7)
    return file.getvalue()


def _as_webp(picture: Image.Image, *, method: int) -> bytes:
    """Encode a picture; a higher method takes longer and saves bytes."""
    file = io.BytesIO()
    picture.save(file, "WEBP", quality=_QUALITY, method=method)
    return file.getvalue()
