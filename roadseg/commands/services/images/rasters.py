"""Rasters on servers and in buckets, of which the part in an area is copied."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.request import url2pathname

import numpy as np
import rasterio
import shapely
from numpy.typing import NDArray
from pyproj import CRS
from rasterio.enums import ColorInterp, MaskFlags
from rasterio.errors import RasterioIOError
from rasterio.windows import Window as RasterWindow

from roadseg.commands.services.images.levels import reprojected
from roadseg.commands.services.images.records import Credit, Origin, tags_of
from roadseg.errors import ConfigError, DataError
from roadseg.raster.grid import Grid, grid_of
from roadseg.raster.images import open_elsewhere, open_raster
from roadseg.raster.tiff import new_profile, open_new
from roadseg.raster.windows import Window
from roadseg.roads.labels.areas import Area
from roadseg.system.files import whole
from roadseg.system.progress import Progress
from roadseg.system.text import one_line
from roadseg.system.web.answers import split_address
from roadseg.system.web.cache import Cache
from roadseg.system.web.client import Client
from roadseg.system.web.keys import without_keys
from roadseg.system.web.ranges import Opener, RemoteFile, name_of

RASTER_SUFFIXES = (".tif", ".tiff", ".jp2", ".vrt", ".img", ".nitf", ".ntf")

_BUCKETS = {"s3": "/vsis3/", "gs": "/vsigs/", "az": "/vsiaz/"}
_STRIP_PX = 512  # Rows that are copied at once, as high as the blocks of the copy.
_USUAL_SHARE = 0.5  # Of the bytes of pixels, what a file in a bucket has; its size is not known.
_LEAST_SHARE = 0.01  # The same of any file: a small one that says it is huge takes time, too.
# How GDAL asks buckets, which it does itself, as it knows how to sign requests.
_GDAL = {
    "GDAL_TIFF_INTERNAL_MASK": True,
    "GDAL_HTTP_MAX_RETRY": 3,
    "GDAL_HTTP_RETRY_DELAY": 1,
    "GDAL_HTTP_CONNECTTIMEOUT": 10,
    "GDAL_HTTP_LOW_SPEED_TIME": 30,
    "GDAL_HTTP_LOW_SPEED_LIMIT": 1000,
    "VSI_CACHE": True,
}


@dataclass(frozen=True)
class RemoteRaster:
    """A raster somewhere else.

    Attributes:
        address: https, s3, gs or az, with places for keys; or the path of a file.
        name: of the image that is made of it.
        service: kind of service that named it.
        layer: asset of a STAC item; empty for none.
        credit: what the service says of it.
    """

    address: str
    name: str
    service: str
    layer: str = ""
    credit: Credit = field(default_factory=Credit)


class _UnreadError(Exception):
    """Pixels that GDAL cannot read."""


@dataclass(frozen=True)
class CutPlan:
    """The part of a raster to copy.

    Attributes:
        window: the box around the area, in pixels of the raster.
        size: bytes that are to be fetched, about.
    """

    window: Window
    size: int


def is_raster(source: str) -> bool:
    """Return whether an address is that of a raster, by its scheme or suffix."""
    parts = split_address(source, ConfigError)
    return parts.scheme in _BUCKETS or parts.path.lower().endswith(RASTER_SUFFIXES)


@contextmanager
def open_remote(
    raster: RemoteRaster, client: Client, cache: Cache
) -> Iterator[tuple[rasterio.DatasetReader, int | None]]:
    """Open a raster; yield it, and the bytes of its file as far as they are known.

    Raises:
        DataError: if it cannot be opened, or read inside the block.
    """
    shown, file = without_keys(raster.address), None
    parts = split_address(raster.address)
    with rasterio.Env(**_GDAL):
        try:
            if parts.scheme in _BUCKETS:
                filled = split_address(client.with_keys(raster.address))
                path = _BUCKETS[parts.scheme] + filled.netloc + filled.path
                with open_elsewhere(path, shown) as source:
                    yield source, None
            elif parts.scheme in {"http", "https"}:
                file = RemoteFile(raster.address, client, cache)
                with open_elsewhere(name_of(file), shown, Opener(file)) as source:
                    yield source, file.size
                if file.failure:
                    raise file.failure
            else:
                local = _local(raster.address)
                with open_raster(local) as source:
                    yield source, _size(local)
        except (RasterioIOError, DataError, _UnreadError) as error:
            if file is not None and file.failure:
                raise file.failure from error
            if isinstance(error, DataError):
                raise
            reason = one_line(_innermost(error)).replace(shown, "").strip(" :")
            reason = f"{without_keys(reason):.300}"
            hint = _hint(parts.scheme)
            raise DataError(f"{shown}: cannot be read as a raster ({reason}){hint}") from error


def _local(address: str) -> Path:
    parts = split_address(address)
    if parts.scheme not in {"", "file"}:
        raise DataError(
            f"{without_keys(address):.200}: expected a file, or an address that begins with https, "
            f"{', '.join(_BUCKETS)} or file"
        )
    return Path(url2pathname(parts.path) if parts.scheme else address)


def _size(path: Path) -> int | None:
    """Return the bytes of a file; None for what is none, such as a part of another one."""
    return path.stat().st_size if path.is_file() else None


def _innermost(error: BaseException) -> BaseException:
    """Return the first of the errors that followed from each other."""
    return error if error.__cause__ is None else _innermost(error.__cause__)


def _hint(scheme: str) -> str:
    """Return where GDAL finds the keys of a bucket."""
    of = {
        "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_NO_SIGN_REQUEST=YES for open "
        "data",
        "gs": "GOOGLE_APPLICATION_CREDENTIALS, or GS_NO_SIGN_REQUEST=YES for open data",
        "az": "AZURE_STORAGE_CONNECTION_STRING, or AZURE_NO_SIGN_REQUEST=YES and "
        "AZURE_STORAGE_ACCOUNT for open data",
    }
    return f"; GDAL takes access from the environment: {of[scheme]}" if scheme in of else ""


def plan_cut(
    raster: RemoteRaster, source: rasterio.DatasetReader, size: int | None, area: Area
) -> CutPlan | None:
    """Plan which part of an open raster to copy; None if the area does not touch it.

    Args:
        raster: that is open.
        source: the open raster.
        size: bytes of its file, None if they are not known.
        area: that is wanted.

    Raises:
        DataError: if the raster lies nowhere.
        ConfigError: if its bands are of different types.
    """
    shown = without_keys(raster.address)
    if len(set(source.dtypes)) > 1:
        raise ConfigError(
            f"{shown}: bands of different types ({', '.join(source.dtypes)}), expected one"
        )
    grid = grid_of(shown, source, crs=None, gsd_m=None)
    window = _window(grid, area)
    if window is None:
        return None
    each = sum(np.dtype(dtype).itemsize for dtype in source.dtypes)
    pixels = window.height * window.width
    # A file is fetched in tiles and parts, so somewhat more than the window is read.
    share = size / (grid.height * grid.width * each) if size else _USUAL_SHARE
    fetched = round(pixels * each * share)
    fetched = min(fetched, size) if size else fetched
    return CutPlan(window, max(fetched, round(pixels * each * _LEAST_SHARE)))


def _window(grid: Grid, area: Area) -> Window | None:
    shape = reprojected(area.degrees, CRS(grid.crs))
    if shape.is_empty or not np.isfinite(shapely.bounds(shape)).all():
        return None
    if not shapely.intersects(shape, grid.footprint):
        return None
    shape = shapely.intersection(shape, grid.footprint)
    places = grid.to_pixel(shapely.get_coordinates(shape))
    # A corner that lies on the border of a pixel does not need the next one.
    first, stop = places.min(axis=0) + 1e-6, places.max(axis=0) - 1e-6
    row, col = (max(0, math.floor(value)) for value in first)
    until_row, until_col = min(grid.height, math.ceil(stop[0])), min(grid.width, math.ceil(stop[1]))
    if until_row <= row or until_col <= col:
        return None
    return Window(row, col, until_row - row, until_col - col)


def copy_part(path: Path, source: rasterio.DatasetReader, window: Window, origin: Origin) -> None:
    """Copy a window of an open raster to a tiled GeoTIFF, holding a strip of it in memory.

    Bands, their names and colours, nodata and mask stay.

    Raises:
        DataError: if its pixels cannot be written as a GeoTIFF.
        OutputError: if the file cannot be written.
    """
    profile = _profile(source, window)
    has_mask = source.mask_flag_enums[0] == [MaskFlags.per_dataset]
    rows = range(0, window.height, _STRIP_PX)
    with (
        whole(path) as partial,
        open_new(partial, profile) as target,
        Progress(f"fetch {path.name}", total=len(rows), unit="strips") as progress,
    ):
        target.update_tags(**tags_of(origin))
        target.colorinterp = source.colorinterp
        target.descriptions = source.descriptions
        if ColorInterp.palette in source.colorinterp:
            target.write_colormap(1, source.colormap(1))
        for row in rows:
            height = min(_STRIP_PX, window.height - row)
            there = RasterWindow(window.col, window.row + row, window.width, height)
            here = RasterWindow(0, row, window.width, height)
            pixels, mask = _read(source, there, has_mask=has_mask)
            target.write(pixels, window=here)
            if mask is not None:
                target.write_mask(mask, window=here)
            progress.add()


def _read(
    source: rasterio.DatasetReader, window: RasterWindow, *, has_mask: bool
) -> tuple[NDArray[Any], NDArray[np.uint8] | None]:
    """Read the bands of a window, and its mask.

    Raises:
        _UnreadError: if GDAL cannot; another error of its kind means that writing failed.
    """
    try:
        mask = source.dataset_mask(window=window) if has_mask else None
        return source.read(window=window), mask
    except RasterioIOError as error:
        raise _UnreadError from error


def _profile(source: rasterio.DatasetReader, window: Window) -> dict[str, Any]:
    own = Grid(CRS.from_wkt(source.crs.to_wkt()), source.transform, source.height, source.width)
    grid = own.crop(window.row, window.col, window.height, window.width)
    profile = new_profile(grid, count=source.count, dtype=source.dtypes[0])
    return profile | {
        "nodata": source.nodata,
        "compress": "deflate",
        "interleave": "pixel",
        "bigtiff": "IF_SAFER",
    }
