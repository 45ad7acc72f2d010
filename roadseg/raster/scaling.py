"""Scaling: bands of any type to uint8 with one scaling for the whole dataset."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from roadseg.arrays import Array, Bytes
from roadseg.system.records import write_json
from roadseg.system.schemas import read_strict
from roadseg.system.workspace import require

Range = tuple[float, float]

_PERCENTILES = (2.0, 98.0)
LARGEST = 1e38  # Of floats; programs fill pixels without data with larger ones, such as -3.4e38.


@dataclass(frozen=True)
class Scaling:
    """Linear map of each band to 0..255, and the statistics of the result.

    A dataset may hold scenes of several pixel types; each type has its own map, all have the
    same statistics.

    Attributes:
        ranges: for each pixel type (numpy's name), the values of each band that become 0 and 255.
        mean: mean of the scaled values of each band, 0..255.
        std: standard deviation of the scaled values of each band, at least 1.

    Raises:
        ValueError: if the numbers of bands differ.
    """

    ranges: Mapping[str, tuple[Range, ...]]
    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __post_init__(self) -> None:
        """Check the numbers of bands."""
        counts = [len(self.mean), len(self.std), *map(len, self.ranges.values())]
        if len(set(counts)) > 1:
            raise ValueError(f"expected the same number of bands everywhere, got {counts}")

    def apply(self, bands: Array) -> Bytes:
        """Scale an array of shape (band, row, col) to uint8, rounding and clipping at both ends.

        Raises:
            ValueError: if the dataset had no pixels of this type, or another number of bands.
        """
        limits = self.ranges.get(bands.dtype.name)
        if limits is None or len(limits) != len(bands):
            known = ", ".join(f"{len(ranges)} of {name}" for name, ranges in self.ranges.items())
            raise ValueError(f"got {len(bands)} bands of {bands.dtype.name}, expected {known}")
        return _scale(bands, limits)


def fit_scaling(samples: Sequence[Array]) -> Scaling:
    """Find the scaling of a dataset from pixels sampled over all of its scenes.

    The 2nd and the 98th percentile of each band become 0 and 255; uint8 is kept as it is.

    Args:
        samples: valid pixels of each scene, shape (band, pixel); NaN is left out. Scenes with the
            same pixel type are pooled.

    Raises:
        ValueError: if there is no sample, or a band has no finite value.
    """
    if sum(pixels.shape[1] for pixels in samples) == 0:
        raise ValueError("no image contains a valid pixel")
    by_type: dict[str, list[Array]] = {}
    for pixels in samples:
        by_type.setdefault(pixels.dtype.name, []).append(pixels)
    pooled = {
        name: np.concatenate(samples_of_type, axis=1) for name, samples_of_type in by_type.items()
    }
    ranges = {name: tuple(_range(band) for band in pixels) for name, pixels in pooled.items()}
    scaled = [_scale(pixels, ranges[name]) for name, pixels in pooled.items()]
    bands = np.concatenate(scaled, axis=1)
    finite = np.concatenate([np.isfinite(pixels) for pixels in pooled.values()], axis=1)
    return Scaling(
        ranges=ranges,
        mean=tuple(bands.mean(axis=1, where=finite).tolist()),
        std=tuple(np.maximum(bands.std(axis=1, where=finite), 1.0).tolist()),
    )


def stretch_to(scaling: Scaling, pixels: Array) -> Scaling:
    """Return a scaling that also covers an image of another pixel type.

    The 2nd and the 98th percentile of each band become 0 and 255; mean and standard deviation stay
    those of the dataset.

    Args:
        pixels: valid pixels of the image, shape (band, n); NaN is left out.

    Raises:
        ValueError: if there are no pixels, or another number of bands.
    """
    ranges = tuple(_range(band) for band in pixels)
    return replace(scaling, ranges={**scaling.ranges, pixels.dtype.name: ranges})


def _range(band: Array) -> Range:
    if band.dtype == np.uint8:
        return 0.0, 255.0
    finite = band[np.isfinite(band)]
    if finite.size == 0:
        raise ValueError("a band contains no valid pixel")
    low, high = np.percentile(finite, _PERCENTILES).tolist()
    return low, high if np.float32(high) > np.float32(low) else low + 1.0


def _scale(bands: Array, limits: Sequence[Range]) -> Bytes:
    if bands.dtype == np.uint8 and set(limits) == {(0.0, 255.0)}:
        return bands
    scaled = np.empty(bands.shape, dtype=np.uint8)
    for band, target, (low, high) in zip(bands, scaled, limits, strict=True):
        # One band after the other, changed in place, stays in the cache of the CPU. What fills
        # floats without data would overflow.
        values = (band.clip(low, high) if band.dtype.kind == "f" else band).astype(np.float32)
        values -= np.float32(low)
        values *= np.float32(255) / (np.float32(high) - np.float32(low))
        if band.dtype.kind == "f":
            np.nan_to_num(values, copy=False)
        target[...] = np.clip(np.rint(values, out=values), 0, 255, out=values)
    return scaled


def write_scaling(path: Path, scaling: Scaling) -> None:
    """Write a scaling."""
    write_json(path, asdict(scaling))


def read_scaling(path: Path) -> Scaling:
    """Read a scaling.

    Raises:
        MissingInputError: if there is no such file.
        DataError: if the file is not what `write_scaling` writes.
    """
    path = require(path, made_by="prepare")
    return read_strict(path, Scaling, advice="run `roadseg prepare --force`")
