"""Compatibility: whether a scene is what a network was trained on, and how to read it."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from roadseg.errors import CheckpointError, ConfigError, DataError
from roadseg.raster.images import RasterFacts, read_facts
from roadseg.raster.options import ImageryOptions
from roadseg.raster.pixels import sample_pixels
from roadseg.raster.scaling import Scaling, stretch_to
from roadseg.system.text import one_line

_GSD_TOLERANCE = 0.2  # Relative difference of pixel sizes up to which a scene still fits.
_SAMPLE_PX = 2**18  # Pixels of a scene by which it is stretched.


def scene_to_predict(
    image: Path,
    trained: Mapping[str, Any],
    *,
    imagery: ImageryOptions,
    gsd: Literal["strict", "auto"],
) -> RasterFacts:
    """Read what a scene is, and how to read it so that a network can predict it.

    Bands, ground size and value without data are those of the training; the settings add what
    the training images did not need, and `imagery.bands` chooses other bands of the scene.

    Args:
        trained: facts of the checkpoint, see `require_fit`; also bands, and resample_m and
            nodata, which may be None.
        gsd: what to do about pixels of another ground size, see `require_fit`.

    Raises:
        CheckpointError: if the pixels are not what the network was trained on.
        ConfigError: if `imagery.bands` names more or fewer bands than the network has.
        DataError: if the raster cannot be used, or lacks a band.
    """
    bands = imagery.bands or tuple(trained["bands"])
    if len(bands) != len(trained["bands"]):
        raise ConfigError(
            f"imagery.bands: found {len(bands)} bands, expected {len(trained['bands'])} like those "
            f"that the checkpoint was trained on ({_listed(trained['bands'])})"
        )
    nodata = imagery.nodata if trained["nodata"] is None else trained["nodata"]
    options = imagery.model_copy(update={"bands": bands, "nodata": nodata})
    gsd_m = trained["resample_m"] or imagery.gsd_m
    scene = read_facts(image, options.model_copy(update={"gsd_m": gsd_m}))
    if scene.grid.is_local and imagery.gsd_m:  # Then it is the size of its pixels.
        scene = read_facts(image, options)
    if imagery.bands is None:
        _require_names(scene, trained.get("band_names", ()))
    return require_fit(scene, trained, gsd=gsd)


def require_fit(
    scene: RasterFacts, trained: Mapping[str, Any], *, gsd: Literal["strict", "auto"]
) -> RasterFacts:
    """Refuse pixels of a size in which the network was not trained.

    Args:
        trained: facts of the checkpoint: gsd_m, the median ground size of the pixels of the
            training, metres, and gsd_range_m, the least and the largest, if it is there.
        gsd: pixels that are more than 20 % smaller or larger than those of the training are
            refused ("strict"), or resampled to gsd_m when they are read ("auto").

    Returns:
        The scene, with another grid if it is to be resampled.

    Raises:
        CheckpointError: if the ground size of its pixels does not fit.
    """
    trained_m = float(trained["gsd_m"])
    least_m, most_m = trained.get("gsd_range_m", (trained_m, trained_m))
    found_m = sum(scene.grid.pixel_size_m) / 2
    if fits(found_m, (least_m, most_m)):
        return scene
    differ = f"pixels of {found_m:.3g} m, but the checkpoint was trained on {trained_m:.3g} m"
    if scene.grid.is_local:
        raise CheckpointError(
            f"{scene.path}: {differ}; correct imagery.gsd_m, or resize the image (gdal_translate "
            "-outsize), because roadseg does not resample images without georeference"
        )
    if gsd == "strict":
        raise CheckpointError(
            f"{scene.path}: {differ}; use --gsd auto (predict.gsd) to resample it when it is "
            "read, or choose the size with imagery.gsd_m"
        )
    crs, own = scene.grid.crs.to_wkt(), {"bands": scene.bands, "nodata": scene.nodata}
    options = ImageryOptions().model_copy(update=own | {"crs": crs, "gsd_m": trained_m})
    return read_facts(scene.path, options)


def fits(size_m: float, trained_m: Sequence[float]) -> bool:
    """Return whether a network takes pixels of a size as they are, which learned pixels of some."""
    return (1 - _GSD_TOLERANCE) * min(trained_m) <= size_m <= (1 + _GSD_TOLERANCE) * max(trained_m)


def scaling_to_predict(
    scene: RasterFacts, scaling: Scaling, *, unknown: Literal["strict", "auto"]
) -> Scaling:
    """Return how the pixels of a scene become the bytes that a network takes.

    Args:
        unknown: pixels of a type that the training did not have are refused ("strict"), or
            stretched by what the scene holds ("auto").

    Raises:
        CheckpointError: if the type of its pixels does not fit.
        DataError: if the scene cannot be read, or has no data to stretch.
    """
    if scene.dtype in scaling.ranges:
        return scaling
    if unknown == "strict":
        raise CheckpointError(
            f"{scene.path}: pixels of {scene.dtype}, but the checkpoint was trained on "
            f"{' and '.join(scaling.ranges)}; use --scaling auto (predict.scaling) to stretch "
            "them when they are read, convert the image, or train on images of this type"
        )
    pixels = sample_pixels(scene, pixels=_SAMPLE_PX)
    if not pixels.shape[1]:
        raise DataError(f"{scene.path}: contains no valid pixel")
    return stretch_to(scaling, pixels)


def _require_names(scene: RasterFacts, trained: Sequence[str]) -> None:
    """Refuse bands in another order, if both image and checkpoint name their bands."""
    names = [name.strip().lower() for name in scene.names]
    expected = [name.strip().lower() for name in trained]
    if all(names) and all(expected) and expected and names != expected:
        raise CheckpointError(
            f"{scene.path}: bands {_listed(scene.bands)} are {_listed(scene.names)}, but the "
            f"checkpoint was trained on {_listed(trained)}; list the corresponding bands, in "
            "this order, in imagery.bands"
        )


def _listed(values: Iterable[int | str]) -> str:
    return ", ".join(one_line(value) or "without a name" for value in values)
