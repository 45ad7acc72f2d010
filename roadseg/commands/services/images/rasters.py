"""Rasters on servers and in buckets, of which the part in an area is copied."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import rasterio
from numpy.typing import NDArray
from pyproj import CRS
from rasterio.enums import ColorInterp, MaskFlags
from rasterio.errors import RasterioIOError
from rasterio.windows import Window as RasterWindow

from roadseg.commands.services.images.fetching import (
    FETCHED,
    THERE,
    WANTED,
    Credit,
    Fetch,
    FetchedImage,
    FetchSummary,
    ImageOrigin,
    is_fetched,
    tags_of,
    write_record,
)
from roadseg.errors import ConfigError, DataError, root_cause
from roadseg.raster.extents import part_of
from roadseg.raster.grid import Grid, grid_of
from roadseg.raster.images import open_self_contained
from roadseg.raster.tiff import new_profile, open_new
from roadseg.raster.windows import Window
from roadseg.system.files import atomic_write
from roadseg.system.progress import Progress
from roadseg.system.text import count, one_line, size_text
from roadseg.system.web.answers import split_address
from roadseg.system.web.cache import Cache
from roadseg.system.web.client import Client
from roadseg.system.web.keys import without_keys
from roadseg.system.web.ranges import RemoteFile

RASTER_SUFFIXES = (".tif", ".tiff", ".jp2", ".vrt", ".img", ".nitf", ".ntf")

_BUCKETS = {"s3": "/vsis3/", "gs": "/vsigs/", "az": "/vsiaz/"}
_KEYS = {  # Where GDAL finds the keys of buckets.
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_NO_SIGN_REQUEST=YES for open data",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS, or GS_NO_SIGN_REQUEST=YES for open data",
    "az": "AZURE_STORAGE_CONNECTION_STRING, or AZURE_NO_SIGN_REQUEST=YES and "
    "AZURE_STORAGE_ACCOUNT for open data",
}
_STRIP_PX = 512  # Rows that are copied at once, as high as the blocks of the copy.
_USUAL_SHARE = 0.5  # Of the bytes of pixels, what a file in a bucket has; its size is not known.
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
        address: https, s3, gs or az, with places for keys.
        layer: asset of a STAC item; empty for none.
    """

    address: str
    name: str
    service: str
    layer: str = ""
    credit: Credit = field(default_factory=Credit)


class _UnreadError(Exception):
    """Pixels that GDAL cannot read."""


class _Plan(NamedTuple):
    """The part of a raster to copy: its image, pixels, origin, and bytes to fetch, about."""

    raster: RemoteRaster
    image: FetchedImage
    window: Window
    origin: ImageOrigin
    size: int


def fetch_rasters(fetch: Fetch, rasters: Sequence[RemoteRaster]) -> FetchSummary:
    """Fetch the part of each raster that lies in the area, as an image.

    Raises:
        ConfigError: if it is more than the limit.
        DataError: if a raster cannot be read, or none touches the area.
        OutputError: if an image cannot be written, or another one has its name.
    """
    plans = [plan for raster in rasters if (plan := _plan(fetch, raster)) is not None]
    if not plans:
        raise DataError(f"{without_keys(fetch.request.source)}: lies outside of {fetch.area.text}")
    size_mb = sum(plan.size for plan in plans if plan.image.state == WANTED) / 1e6
    expected = f"about {size_text(size_mb)}"
    fetch.require_within_limit(size_mb, f"{count(len(plans), 'image')}, {expected}")
    images = [
        plan.image if fetch.dry_run or plan.image.state == THERE else _copy(fetch, plan)
        for plan in plans
    ]
    return FetchSummary(images, expected, fetch.client.received / 1e6)


def is_raster(source: str) -> bool:
    """Return whether an address is that of a raster, by its scheme or suffix."""
    parts = split_address(source, ConfigError)
    return parts.scheme in _BUCKETS or parts.path.lower().endswith(RASTER_SUFFIXES)


@contextmanager
def _open_remote(
    raster: RemoteRaster, client: Client, cache: Cache
) -> Iterator[tuple[rasterio.DatasetReader, int | None]]:
    """Open a raster; yield it, and the bytes of its file as far as they are known.

    Raises:
        DataError: if it cannot be opened, or read inside the block.
    """
    shown, file = without_keys(raster.address), None
    parts = split_address(raster.address)
    if parts.scheme not in {*_BUCKETS, "http", "https"}:
        raise DataError(
            f"{shown:.200}: expected an address that begins with https, {', '.join(_BUCKETS)}; "
            "files of this machine are used as they are"
        )
    with rasterio.Env(**_GDAL):
        try:
            if parts.scheme in _BUCKETS:
                filled = split_address(client.with_keys(raster.address))
                path = _BUCKETS[parts.scheme] + filled.netloc + filled.path
                with open_self_contained(path, shown) as source:
                    yield source, None
            else:
                file = RemoteFile(raster.address, client, cache)
                with open_self_contained(file.name, shown, file.open) as source:
                    yield source, file.size
                if file.failure:
                    raise file.failure
        except (RasterioIOError, DataError, _UnreadError) as error:
            if file is not None and file.failure:
                raise file.failure from error
            if isinstance(error, DataError):
                raise
            reason = one_line(root_cause(error)).replace(shown, "").strip(" :")
            reason = f"{without_keys(reason):.300}"
            keys = _KEYS.get(parts.scheme)
            hint = f"; GDAL takes access from the environment: {keys}" if keys else ""
            raise DataError(f"{shown}: cannot be read as a raster ({reason}){hint}") from error


def _plan(fetch: Fetch, raster: RemoteRaster) -> _Plan | None:
    """Plan which part of a raster to copy; None if the area does not touch it."""
    shown = without_keys(raster.address)
    with _open_remote(raster, fetch.client, fetch.cache) as (source, size):
        if len(set(source.dtypes)) > 1:
            raise ConfigError(
                f"{shown}: bands of different types ({', '.join(source.dtypes)}), expected one"
            )
        grid = grid_of(shown, source, crs=None, gsd_m=None)
        each = sum(np.dtype(dtype).itemsize for dtype in source.dtypes)
    part = part_of(grid, fetch.area.on(grid))
    if part is None:
        return None
    window = part.window
    # A file is fetched in tiles and parts, so somewhat more than the window is read.
    share = size / (grid.height * grid.width * each) if size else _USUAL_SHARE
    fetched = min(round(window.height * window.width * each * share), size or math.inf)
    origin = fetch.origin(raster.service, raster.credit, source=shown, layer=raster.layer)
    path = fetch.path(raster.name)
    state = THERE if is_fetched(path, origin) else WANTED
    image = FetchedImage.on(grid.crop(*window), path, state, origin.credit)
    return _Plan(raster, image, window, origin, int(fetched))


def _copy(fetch: Fetch, plan: _Plan) -> FetchedImage:
    raster, path, origin = plan.raster, plan.image.image, plan.origin
    with _open_remote(raster, fetch.client, fetch.cache) as (source, _):
        # What the file itself says of its owner counts where the service says nothing.
        own = source.tags().get("TIFFTAG_COPYRIGHT", "").strip()
        if own and not origin.credit.copyright:
            origin = replace(origin, credit=Credit(own, "", origin.credit.date))
        _copy_part(path, source, plan.window, origin)
    write_record(path, origin, {"gsd_m": plan.image.gsd_m})
    return replace(plan.image, state=FETCHED, credit=origin.credit.copyright)


def _copy_part(
    path: Path, source: rasterio.DatasetReader, window: Window, origin: ImageOrigin
) -> None:
    """Copy a window of an open raster to a tiled GeoTIFF, holding a strip of it in memory.

    Bands, their names and colours, nodata and mask stay.

    Raises:
        DataError: if its pixels cannot be written as a GeoTIFF.
        OutputError: if the file cannot be written.
    """
    whole_grid = Grid(CRS.from_wkt(source.crs.to_wkt()), source.transform, *source.shape)
    grid = whole_grid.crop(*window)
    profile = new_profile(grid, count=source.count, dtype=source.dtypes[0]) | {
        "nodata": source.nodata,
        "compress": "deflate",
        "interleave": "pixel",
        "bigtiff": "IF_SAFER",
    }
    has_mask = source.mask_flag_enums[0] == [MaskFlags.per_dataset]
    rows = range(0, window.height, _STRIP_PX)
    with (
        atomic_write(path) as partial,
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
