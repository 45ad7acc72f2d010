"""Images: open rasters, and read their facts without their pixels."""

import math
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import rasterio
from pyproj import CRS
from rasterio.dtypes import in_dtype_range
from rasterio.enums import ColorInterp, MaskFlags, Resampling
from rasterio.errors import NotGeoreferencedWarning, RasterioIOError
from rasterio.vrt import WarpedVRT

from roadseg.errors import DataError
from roadseg.raster.extents import LEAST_SIDE_PX, Extent, ScenePart
from roadseg.raster.grid import Grid, crs_setting, grid_of
from roadseg.raster.options import ImageryOptions
from roadseg.raster.tiff import is_cut_short
from roadseg.raster.windows import Window
from roadseg.system.files import is_virtual
from roadseg.system.text import one_line

# GDAL's drivers of files that contain all of their pixels, and its names of files on servers.
_OWN_PIXELS = ("GTiff", "JP2OpenJPEG", "JPEG", "PNG", "WEBP")
_REMOTE = re.compile(r"vsi(?:curl|s3|gs|az|adls|oss|swift|hdfs|webhdfs)")
_PLAIN = ImageryOptions()
_OPAQUE = 255  # Alpha of a colour that hides what is behind it.


@dataclass(frozen=True)
class RasterFacts:
    """The facts of a raster, and how to read it.

    Attributes:
        grid: grid of the pixels, in which windows are counted.
        bands: numbers of the bands of the image, from 1.
        dtype: numpy's name for the type of the pixels.
        names: description of each of `bands`, empty if there is none.
        nodata: pixels with this value in each of `bands` have no data, in addition to the pixels
            that the file marks as such.
        is_masked: whether the file can mark pixels without data, by an alpha band, a mask or a
            nodata value.
        part: part of the scene that `grid` covers; None for all of it, see `cut`.
        scene_grid: grid of the whole scene if `grid` covers only a part of it.
    """

    path: Path
    grid: Grid
    bands: tuple[int, ...]
    dtype: str
    names: tuple[str, ...]
    nodata: float | None = None
    is_masked: bool = True
    part: ScenePart | None = None
    scene_grid: Grid | None = None

    @property
    def extent(self) -> Extent | None:
        """The pixels of `grid` that are in the area to work in; None is all of them."""
        return self.part.extent if self.part else None

    def cut(self, part: ScenePart | None) -> "RasterFacts":
        """Return the facts of a part of the whole scene; None returns the same facts."""
        if part is None:
            return self
        grid = self.grid.crop(*part.window)
        return replace(self, grid=grid, part=part, scene_grid=self.grid)

    @property
    def whole_grid(self) -> Grid:
        """Grid of the whole scene."""
        return self.scene_grid or self.grid

    @property
    def pixels(self) -> int:
        """Approximate number of pixels that may have data."""
        return self.extent.pixels if self.extent else self.grid.height * self.grid.width

    def touches(self, window: Window) -> bool:
        """Return whether any pixel of a window of `grid` may have data."""
        return self.extent is None or self.extent.touches(window)

    def in_scene(self, window: Window) -> Window:
        """Convert a window of `grid` to one of the whole scene."""
        row, col = self.part.window[:2] if self.part else (0, 0)
        return Window(window[0] + row, window[1] + col, *window[2:])

    def in_part(self, window: Window) -> Window:
        """Convert a window of the whole scene to one of `grid`, beyond which it may reach."""
        return window.within(self.part.window) if self.part else window

    @property
    def is_file_valid(self) -> bool:
        """Whether every pixel of the file is known to be valid, inside the area or not."""
        return not self.is_masked and self.nodata is None and self.is_whole_numbers

    @property
    def is_whole_numbers(self) -> bool:
        """Whether the pixels are integers."""
        return np.dtype(self.dtype).kind in "iu"

    @property
    def nodata_or_nan(self) -> float | None:
        """Value to leave out in resampling if the file names no nodata value."""
        return math.nan if self.nodata is None and not self.is_whole_numbers else self.nodata


@contextmanager
def open_raster(
    path: Path, grid: Grid | None = None, *, nodata: float | None = None, as_image: bool = False
) -> Iterator[rasterio.DatasetReader]:
    """Open a raster to read it, resampled to `grid` if that has other pixels on its ground.

    Args:
        path: raster in any format of GDAL; GDAL paths such as /vsizip/... are allowed.
        grid: grid to resample to; None for the raster's own.
        nodata: value to leave out in resampling, for a file that names no such value.
        as_image: whether pixels with a colour table become its colours, in three bands, or four
            if some are transparent; in masks these pixels are classes.

    Raises:
        DataError: if it cannot be read, now or inside the block.
    """
    if not is_virtual(path) and not path.exists():
        raise DataError(f"{path} does not exist")
    name = path.as_posix()  # GDAL's own paths have slashes on Windows, too.
    remote = is_virtual(path) and _REMOTE.search(name)
    with reading(path), warnings.catch_warnings():
        warnings.simplefilter("ignore", NotGeoreferencedWarning)
        if remote:
            opened = open_self_contained(name, name)
        else:
            opened = rasterio.open(name if is_virtual(path) else path)
        with (
            opened as source,
            _coloured(path, source) if as_image else nullcontext(source) as image,
            resampled_to(image, grid, nodata) as seen,
        ):
            yield seen


@contextmanager
def open_self_contained(
    path: str, name: str, opener: object | None = None
) -> Iterator[rasterio.DatasetReader]:
    """Open a raster on a server or in a bucket, in a format that cannot refer to other files.

    Files beside it are not looked for.

    Args:
        name: name of the raster, for errors.
        opener: opener of rasterio that reads its bytes; None lets GDAL request them.

    Raises:
        DataError: if it has another format, or names a file of overviews.
        RasterioIOError: if it cannot be read, now or inside the block.
    """
    with (
        rasterio.Env(GDAL_DISABLE_READDIR_ON_OPEN="EMPTY_DIR"),
        _own_pixels(path, name, opener) as source,
    ):
        if "OVERVIEW_FILE" in source.tags(ns="OVERVIEWS"):
            raise DataError(
                f"{name}: names another file for its overviews, expected a raster that contains "
                "them; download it if you trust it"
            )
        yield source


def _own_pixels(path: str, name: str, opener: object | None) -> rasterio.DatasetReader:
    for driver in _OWN_PIXELS:
        try:
            return rasterio.open(path, driver=driver, opener=opener)
        except RasterioIOError as error:
            if "not recognized as being in a supported" not in str(error):
                raise
    raise DataError(
        f"{name}: cannot be read as a GeoTIFF, JPEG 2000, JPEG, PNG or WebP; a raster on a server "
        "is read in no other format, as others may name any file of this machine: download it"
    )


@contextmanager
def open_complete(path: Path, *, as_image: bool = False) -> Iterator[rasterio.DatasetReader]:
    """Open a raster as `open_raster`, and check that a TIFF is not cut short.

    Other formats would have to be read as a whole for that.

    Raises:
        DataError: if it cannot be read, now or inside the block, or lacks pixels at its end.
    """
    with open_raster(path, as_image=as_image) as source:
        if not is_virtual(path) and is_cut_short(path):
            raise DataError(f"{path}: cut short; download or copy it again")
        yield source


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn errors of GDAL inside the block into one line that says what is wrong.

    Raises:
        DataError: if a raster cannot be read.
    """
    try:
        yield
    except RasterioIOError as error:
        why = one_line(error.__cause__ or error)
        fault = "cut short" if is_cut_short(path) else f"not a readable raster ({why})"
        raise DataError(f"{path}: {fault}; download or copy it again") from error


def read_facts(
    path: Path, options: ImageryOptions = _PLAIN, *, part: ScenePart | None = None
) -> RasterFacts:
    """Read the grid and the bands of a scene, without its pixels.

    Args:
        options: how to read it. If `gsd_m` is set, the scene is resampled to this ground size; a
            raster without georeference takes it as the size of its pixels, see `read_grid`.
        part: part of the scene; None for all of it.

    Raises:
        DataError: if the file cannot be read or is cut short, lacks one of the bands, has
            pixels that are not real numbers of one type, has no place on the ground, or is
            less than 32 pixels high or wide.
    """
    with open_complete(path, as_image=True) as source:
        return facts_of(path, source, options, part=part)


def facts_of(
    path: Path,
    source: rasterio.DatasetReader,
    options: ImageryOptions,
    *,
    part: ScenePart | None = None,
) -> RasterFacts:
    """Return the facts of an open scene, see `read_facts`."""
    gsd_m = options.gsd_m
    grid = grid_of(path, source, crs=crs_setting(options.crs, "imagery.crs"), gsd_m=gsd_m)
    if gsd_m and not grid.is_local:
        grid = grid.resampled(gsd_m)
    if min(grid.height, grid.width) < LEAST_SIDE_PX:
        raise DataError(
            f"{path}: found {grid.height} x {grid.width} pixels"
            + (f" of {gsd_m:g} m" if gsd_m else "")
            + f", expected at least {LEAST_SIDE_PX} on each side"
        )
    numbers = _bands(path, source, options.bands)
    facts = RasterFacts(
        path=path,
        grid=grid,
        bands=numbers,
        dtype=_dtype(path, source, numbers),
        names=tuple(source.descriptions[i - 1] or "" for i in numbers),
        nodata=options.nodata,
        is_masked=is_masked(source),
    )
    return facts.cut(part)


def read_grid(path: Path, *, crs: CRS | None = None, gsd_m: float | None = None) -> Grid:
    """Read the grid of a raster of any size, not resampled.

    A raster with neither a geotransform nor control points has no georeference. With `gsd_m`, its
    grid is in `LOCAL_CRS`, with pixels of that size and the origin at its lower left corner.

    Args:
        crs: coordinate system for a raster that does not name its own.
        gsd_m: ground size of the pixels of a raster without georeference, metres.

    Raises:
        DataError: if the file cannot be read or is cut short, or has no place on the ground.
    """
    with open_complete(path) as source:
        return grid_of(path, source, crs=crs, gsd_m=gsd_m)


def read_scene_grid(path: Path, options: ImageryOptions) -> Grid:
    """Read the grid of a scene of a dataset, without checking its bands.

    Raises:
        DataError: if the file cannot be read, or has no place on the ground.
    """
    crs = crs_setting(options.crs, "imagery.crs")
    grid = read_grid(path, crs=crs, gsd_m=options.gsd_m)
    return grid.resampled(options.gsd_m) if options.gsd_m and not grid.is_local else grid


def require_equal_bands(images: Mapping[Path, tuple[int, str]]) -> None:
    """Refuse images with different numbers of bands; types of pixels may differ.

    Args:
        images: number of bands and type of pixels of each image.

    Raises:
        DataError: if the numbers differ.
    """
    kinds: dict[int, tuple[Path, str]] = {}
    for path, (bands, dtype) in images.items():
        kinds.setdefault(bands, (path, dtype))
    if len(kinds) > 1:
        few = min(kinds)
        examples = (f"{kinds[n][0].name} with {n} of {kinds[n][1]}" for n in (few, max(kinds)))
        first = ",".join(map(str, range(1, few + 1)))
        raise DataError(
            f"images with different numbers of bands found, such as {' and '.join(examples)}; "
            f"choose bands that they all have, such as --set imagery.bands={first}, or images of "
            "one kind, such as --images 'folder/*_MS_*.tif'"
        )


def is_masked(source: rasterio.DatasetReader) -> bool:
    """Return whether a raster has an alpha band, a mask or a nodata value."""
    marked = any(flags != [MaskFlags.all_valid] for flags in source.mask_flag_enums)
    return marked or ColorInterp.alpha in source.colorinterp


def _coloured(
    path: Path, source: rasterio.DatasetReader
) -> AbstractContextManager[rasterio.DatasetReader]:
    """Return an open raster; if it has a colour table, with its colours as bands."""
    if ColorInterp.palette not in source.colorinterp:
        return nullcontext(source)
    is_opaque = all(alpha == _OPAQUE for *_, alpha in source.colormap(1).values())
    # The options begin at the first question mark, which the path of an address has as well.
    name = re.sub(
        r"^/vsicurl\?url=(.+)", lambda url: f"/vsicurl/{unquote(url[1])}", path.as_posix()
    )
    opened: AbstractContextManager[rasterio.DatasetReader] = rasterio.open(
        f"vrt://{name}?expand={'rgb' if is_opaque else 'rgba'}&if={source.driver}"
    )
    return opened


def resampled_to(
    source: rasterio.DatasetReader, grid: Grid | None, nodata: float | None
) -> AbstractContextManager[rasterio.DatasetReader]:
    """Return an open raster on the pixels of a grid, resampled if its own pixels differ."""
    if grid is None or (grid.height, grid.width) == source.shape:
        return nullcontext(source)
    has_alpha = ColorInterp.alpha in source.colorinterp
    options: dict[str, Any] = {"add_alpha": source.nodata is None and not has_alpha}
    # Of a value that pixels cannot have, GDAL would make pixels of another type.
    if nodata is not None and not is_masked(source) and in_dtype_range(nodata, source.dtypes[0]):
        options = {"src_nodata": nodata, "nodata": nodata, "UNIFIED_SRC_NODATA": "YES"}
    crs = grid.crs.to_wkt()
    resampled: AbstractContextManager[rasterio.DatasetReader] = WarpedVRT(
        source,
        src_crs=crs,
        crs=crs,
        transform=grid.transform,
        height=grid.height,
        width=grid.width,
        resampling=Resampling.average if grid.height < source.height else Resampling.bilinear,
        **options,
    )
    return resampled


def _bands(
    path: Path, source: rasterio.DatasetReader, wanted: tuple[int | str, ...] | None
) -> tuple[int, ...]:
    if wanted is not None:
        return tuple(_band(path, source, band) for band in wanted)
    colours = zip(source.indexes, source.colorinterp, strict=True)
    bands = tuple(number for number, color in colours if color != ColorInterp.alpha)
    if not bands:
        raise DataError(f"{path}: has only an alpha band")
    return bands


def _band(path: Path, source: rasterio.DatasetReader, wanted: int | str) -> int:
    if isinstance(wanted, int):
        if wanted not in source.indexes:
            raise DataError(
                f"{path}: has no band {wanted}, only bands 1 to {source.count}; choose others with "
                "imagery.bands, in which one may stand for several, such as 1,1,1"
            )
        return wanted
    names = [(name or "").strip() for name in source.descriptions]
    numbers = [i for i, name in enumerate(names, 1) if name.lower() == wanted.strip().lower()]
    if len(numbers) == 1:
        return numbers[0]
    known = ", ".join(name for name in names if name) or "no descriptions"
    raise DataError(
        f"{path}: has {len(numbers) or 'no'} bands with the description {wanted!r}, expected "
        f"one; its {source.count} bands have {known}; you can also choose bands by number, from 1"
    )


def _dtype(path: Path, source: rasterio.DatasetReader, bands: tuple[int, ...]) -> str:
    dtypes = sorted({str(source.dtypes[i - 1]) for i in bands})
    if len(dtypes) > 1:
        raise DataError(
            f"{path}: its bands are of different types ({' and '.join(dtypes)}); choose bands of "
            "one type with imagery.bands"
        )
    if dtypes[0].startswith("complex"):
        raise DataError(
            f"{path}: pixels are complex numbers ({dtypes[0]}), expected real ones; convert them, "
            "for example to their amplitude"
        )
    return dtypes[0]
