"""Images and probabilities: from files or arrays, and predicted."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import numpy as np
from affine import Affine
from pyproj import CRS
from pyproj.exceptions import CRSError

from roadseg.api.arguments import AnyPath, as_file, sections_of, takes
from roadseg.api.notebooks import progress_in_notebook
from roadseg.arrays import Array, Bytes
from roadseg.errors import ConfigError
from roadseg.learn.options import ComputeOptions, PredictOptions
from roadseg.raster.grid import Grid, local_grid
from roadseg.raster.options import ImageryOptions
from roadseg.raster.windows import CERTAIN
from roadseg.roads.masks.probabilities import Probability

AnyImage = AnyPath | Array

_PLANE, _STACK = 2, 3  # Dimensions of an array of one band, and of several.
_THE_ARRAY = "the array"


@takes(PredictOptions, ImageryOptions, ComputeOptions)
def predict(
    image: AnyImage,
    checkpoint: AnyPath | Sequence[AnyPath],
    *,
    transform: Affine | None = None,
    **options: Any,  # noqa: ANN401 - of several sections
) -> Probability:
    """Predict the roads in an image that fits into memory; `roadseg predict` handles any size.

    Args:
        image: any raster that GDAL reads; or its pixels, shape (band, row, col) or (row, col), of
            the type that the network was trained on, or of any type with `scaling="auto"`. Masked
            pixels have no data.
        checkpoint: folder of a trained network, or several whose probabilities are averaged;
            "starter" is the network that comes with roadseg.
        transform: for an array: the transform from (col, row) to (x, y) in the CRS `crs`, as in
            rasterio. Without it, set the pixel size with `gsd_m`.
        options: of the sections predict, imagery and compute of the config, such as `tta=True`,
            `engine="eager"`, `device="cpu"`, `bands=(1, 2, 3)`, `crs="EPSG:32632"`, `gsd_m=0.5`,
            `area="area.geojson"`.

    Returns:
        Probabilities of any road and of each speed bin, with their grid.

    Raises:
        CheckpointError: if a checkpoint cannot be read, or was trained on other pixels.
        DataError: if the image cannot be read.
        ConfigError: if there is no such option, or an array has no location (transform and crs, or
            gsd_m).
    """
    from roadseg.learn.inference.jobs import PredictionJob
    from roadseg.learn.network.installed_weights import checkpoint_folder

    several = [checkpoint] if isinstance(checkpoint, str | Path) else checkpoint
    folders = tuple(checkpoint_folder(Path(folder)).absolute() for folder in several)
    predicting, imagery, compute = sections_of(
        options, PredictOptions, ImageryOptions, ComputeOptions
    )
    if not isinstance(image, str | Path):
        _require_place(transform, imagery.crs, imagery.gsd_m)
    with image_file(image, transform) as path, progress_in_notebook():
        only = compute.model_copy(update={"on_error": "stop"})  # There is no other image.
        job = PredictionJob(folders, Path(), imagery=imagery, predict=predicting, compute=only)
        return job.in_memory(path)


@contextmanager
def image_file(image: AnyImage, transform: Affine | None) -> Iterator[Path]:
    """Yield the file of an image; for an array, a temporary one."""
    from rasterio.dtypes import check_dtype

    if isinstance(image, str | Path):
        refuse_transform(image, transform)
        yield Path(image).absolute()
        return
    _require_array(image)
    stack = image if image.ndim == _STACK else image[np.newaxis]
    if stack.ndim != _STACK or 0 in stack.shape:
        raise ConfigError(
            f"{_THE_ARRAY}: has shape {image.shape}, expected (band, row, col) or (row, col)"
        )
    stack = stack.astype(stack.dtype.newbyteorder("="), copy=False)
    if not check_dtype(stack.dtype):
        raise ConfigError(
            f"{_THE_ARRAY}: {stack.dtype} is not a type of pixels, expected one such as uint8, "
            "uint16 or float32"
        )
    with as_file(lambda path: _write(path, stack, transform), ".tif", name=_THE_ARRAY) as path:
        yield path


def in_memory(
    pixels: Array, transform: Affine | None, crs: object, gsd_m: float | None
) -> Probability:
    """Return an array of probabilities or of road pixels, with its location.

    Args:
        pixels: shape (row, col): bool; uint8 with 255 for certain; or 0 to 1. Masked pixels are no
            road.
        transform: from (col, row) to (x, y), as in rasterio.
        crs: of x and y: any form of CRS that pyproj knows; None for metres without georeference.
        gsd_m: pixel size in metres, if there is no transform; see `local_grid`.

    Raises:
        ConfigError: if the array has another shape or other values, or no location.
    """
    _require_array(pixels)
    if pixels.ndim != _PLANE or 0 in pixels.shape:
        raise ConfigError(f"{_THE_ARRAY}: has shape {pixels.shape}, expected (row, col)")
    _require_place(transform, crs, gsd_m)
    located = known_crs(crs)
    if transform is None or located is None:
        grid = local_grid(*pixels.shape, gsd_m=cast("float", gsd_m))  # Or refused above.
    else:
        grid = Grid(located, transform, *pixels.shape)
    return Probability(grid, _as_bytes(np.ma.filled(pixels, 0)))


def _require_array(value: object) -> None:
    if not isinstance(value, np.ndarray):
        raise ConfigError(
            f"found {type(value).__name__}, expected the path of a file, or an array of numpy"
        )


def _require_place(transform: Affine | None, crs: object, gsd_m: float | None) -> None:
    if transform is None and (gsd_m or 0) <= 0:
        raise ConfigError(
            f"{_THE_ARRAY}: has no location; expected transform and crs, as in rasterio, or "
            "gsd_m, the pixel size in metres, above 0"
        )
    if (transform is None) != (crs is None):
        has = "crs but no transform" if transform is None else "transform but no crs"
        raise ConfigError(f"{_THE_ARRAY}: has a {has}, expected both")


def refuse_transform(path: AnyPath, transform: Affine | None) -> None:
    """Refuse a transform for a file.

    Raises:
        ConfigError: if there is one.
    """
    if transform is not None:
        raise ConfigError(f"{path}: transform is only for arrays, because a file has its own")


def known_crs(crs: object) -> CRS | None:
    """Return a CRS in any form that pyproj knows; None for None.

    Raises:
        ConfigError: if there is no such CRS.
    """
    try:
        return None if crs is None else CRS.from_user_input(crs)
    except CRSError as error:
        raise ConfigError(f"crs: {crs} is not a coordinate system known to PROJ") from error


def _as_bytes(pixels: Array) -> Bytes:
    if pixels.dtype == np.bool_:
        return np.where(pixels, np.uint8(CERTAIN), np.uint8(0))
    if pixels.dtype == np.uint8:
        if pixels.max() == 1:
            raise ConfigError(
                f"{_THE_ARRAY}: uint8 up to 1, expected 255 for certain; give a mask as bool"
            )
        return pixels
    if pixels.dtype.kind != "f" or np.any((pixels < 0) | (pixels > 1)):
        extent = f" from {np.nanmin(pixels)} to {np.nanmax(pixels)}" if pixels.dtype != "O" else ""
        raise ConfigError(
            f"{_THE_ARRAY}: {pixels.dtype}{extent}, expected bool, uint8 (255 for certain), or "
            "floats from 0 to 1"
        )
    return np.round(np.nan_to_num(pixels) * CERTAIN).astype(np.uint8)


def _write(path: Path, stack: Array, transform: Affine | None) -> None:
    import rasterio
    from rasterio.errors import NotGeoreferencedWarning

    count, height, width = stack.shape
    profile = {"count": count, "height": height, "width": width, "dtype": stack.dtype}
    place = {} if transform is None else {"transform": transform}
    with (
        warnings.catch_warnings(action="ignore", category=NotGeoreferencedWarning),
        rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True),
        rasterio.open(path, "w", driver="GTiff", bigtiff="if_safer", **profile, **place) as target,
    ):
        target.write(np.ma.filled(stack, 0))
        if np.ma.is_masked(stack):
            target.write_mask(~np.ma.getmaskarray(stack).any(axis=0))
