"""Probability rasters: one band per speed bin and one for any road, written and read."""

import io
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from pyproj import CRS
from rasterio.enums import MaskFlags

from roadseg.arrays import Array, Bools, Bytes
from roadseg.errors import DataError, OutputError
from roadseg.raster.extents import Extent
from roadseg.raster.grid import Grid
from roadseg.raster.images import open_raster, read_grid
from roadseg.raster.pixels import CACHE_BYTES
from roadseg.raster.strips import Strips
from roadseg.raster.tiff import copy_as_cog
from roadseg.raster.windows import CERTAIN, Rows, Window, cut_blocks
from roadseg.roads.logistic import EdgeModel, edge_model_text, parse_edge_model
from roadseg.roads.masks.burning import BACKGROUND, IGNORE, RoadAreas, burn_roads
from roadseg.roads.masks.mask_files import (
    CONTENT_TAG,
    KEY_TAG,
    SPEED_BINS,
    bins_of,
    bins_tags,
    read_raster_key,
)
from roadseg.roads.masks.mask_labels import require_clear, sample_values
from roadseg.roads.masks.raster_styles import probability_renderer, write_style
from roadseg.roads.speeds import DEFAULT_BINS, SpeedBins
from roadseg.system.files import atomic_write
from roadseg.system.text import one_line

_COG = {
    "level": "1",  # A higher one takes up to twice as long for 5 % less room.
    "num_threads": "all_cpus",
}
_BLOCK_PX = 4096  # Side of the blocks in which a raster is read.
_SHOWN_PX = 512  # Pixels; the larger side of a picture in a notebook.
_THRESHOLD_TAG = "ROADSEG_THRESHOLD"
_CONFIDENCE_TAG = "ROADSEG_CONFIDENCE"
_BEYOND = 2  # Times certain; where probabilities were resampled, they reach a little beyond.
_LARGEST_CLASS = 7  # Integer rasters of others with no larger value are masks.


@dataclass(frozen=True, repr=False)
class Probability:
    """Probabilities of the roads of a scene, in memory.

    Attributes:
        road: probability of any road, shape (row, col), uint8 with 255 for certain.
        bins: probability of each speed bin, shape (bin, row, col), alike; None if not known.
        speed_bins: which speeds the bins stand for; None if not known.
        threshold: probability from which on the network that predicted it says road, 0 to 1;
            None if not known.
        edge_model: how probable it is that edges traced on it are roads; None if not known.
        extent: the pixels in the area to work in; None is all of them.
        known: which pixels hold data, shape (row, col); None is all of them.
    """

    grid: Grid
    road: Bytes
    bins: Bytes | None = None
    speed_bins: SpeedBins | None = None
    threshold: float | None = None
    edge_model: EdgeModel | None = None
    extent: Extent | None = None
    known: Bools | None = None

    @cached_property
    def is_mask(self) -> bool:
        """Whether there is nothing but roads that are certain and background."""
        return are_certain(self.road)

    def touches(self, window: Window) -> bool:
        """Return whether any pixel of a window may be road."""
        return self.extent is None or self.extent.touches(window)

    def opened(self) -> AbstractContextManager["Probability"]:
        """Yield the same, as a raster in a file does."""
        return nullcontext(self)

    def read_road(self, window: Window) -> Bytes:
        """Return the probability of any road in a window, shape (row, col)."""
        return self.road[window.slices]

    def read_all(self, window: Window) -> tuple[Bytes, Bytes | None]:
        """Return that, and the probability of each speed bin, shape (bin, row, col), if known."""
        bins = None if self.bins is None else self.bins[:, *window.slices]
        return self.read_road(window), bins

    def read_valid(self, window: Window) -> Bools:
        """Return which pixels of a window hold data, shape (row, col)."""
        if self.known is None:
            return np.ones((window.height, window.width), dtype=bool)
        return self.known[window.slices]

    def save(self, path: str | Path) -> Path:
        """Write it as a Cloud Optimized GeoTIFF, as `roadseg predict` does.

        Raises:
            DataError: if it knows no speed bins, as that of a mask.
            OutputError: if the file cannot be written.
        """
        if self.bins is None or self.speed_bins is None:
            raise DataError(
                f"{path}: the probabilities have no speed bins, expected predicted ones"
            )
        values = np.concatenate([self.bins, self.road[np.newaxis]])
        rows = [Rows(0, values, self.read_valid(Window(0, 0, *self.road.shape)))]
        bins, tags = self.speed_bins, network_tags(self.threshold, self.edge_model)
        write_probability(Path(path), rows, self.grid, bins=bins, key="in memory", tags=tags)
        return Path(path)

    def __repr__(self) -> str:
        """Return its size."""
        height, width = self.road.shape
        bins = "no speed bins" if self.speed_bins is None else f"{self.speed_bins.count} speed bins"
        return f"<Probability: {width} x {height} pixels, {bins}>"

    def _repr_png_(self) -> bytes:
        """Show the probability of any road in a notebook, dark where there is one."""
        from PIL import Image

        picture = Image.fromarray(CERTAIN - self.road)
        picture.thumbnail((_SHOWN_PX, _SHOWN_PX))
        file = io.BytesIO()
        picture.save(file, "png")
        return file.getvalue()


@dataclass(frozen=True)
class ProbabilityFile:
    """A probability raster or a mask, read by window; see `open_probability`.

    Attributes:
        speed_bins: which speeds its bins stand for; None if not known.
        is_mask: whether every value but 0 is road, of the speed bin of that number if known.
        model: the fold and epoch of the checkpoint that predicted it, or its name; empty if not
            known.
        threshold: probability from which on that checkpoint says road, 0 to 1; None if not known.
        edge_model: how probable it is that edges traced on it are roads; None if not known.
        extent: the pixels in the area to work in; no road is seen in others. None is all of them.
        source: the opened raster; None opens it for every window, also where it is unpickled.
    """

    path: Path
    grid: Grid
    speed_bins: SpeedBins | None
    is_mask: bool
    model: str = ""
    threshold: float | None = None
    edge_model: EdgeModel | None = None
    extent: Extent | None = None
    source: Any = field(default=None, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        """Return what other processes can use: all but what is open."""
        return {**vars(self), "source": None}

    def touches(self, window: Window) -> bool:
        """Return whether any pixel of a window may be road."""
        return self.extent is None or self.extent.touches(window)

    @contextmanager
    def opened(self) -> Iterator["ProbabilityFile"]:
        """Give the same for many windows: the file stays open, and some of what is decoded.

        Raises:
            DataError: if it cannot be read, now or inside the block.
        """
        with rasterio.Env(GDAL_CACHEMAX=CACHE_BYTES), open_raster(self.path) as source:
            yield replace(self, source=source)

    def read_road(self, window: Window) -> Bytes:
        """Return the probability of any road in a window, shape (row, col), 255 for certain.

        Raises:
            DataError: if it cannot be read.
        """
        if not self.touches(window):
            return np.zeros(window[2:], dtype=np.uint8)
        with self._reading() as source:
            return self._inside(self.as_road(_known(source, source.count, window)), window)

    def read_all(self, window: Window) -> tuple[Bytes, Bytes | None]:
        """Return that, and the probability of each speed bin, shape (bin, row, col), if known.

        Raises:
            DataError: if it cannot be read.
        """
        if not self.touches(window):
            count = 0 if self.speed_bins is None else self.speed_bins.count
            nothing = np.zeros((count + 1, *window[2:]), dtype=np.uint8)
            return nothing[-1], nothing[:-1] if count else None
        with self._reading() as source:
            # All bands are read at once, as they mostly lie together in the file.
            if source.count > 1:
                bands = self._inside(_as_bytes(source.read(window=window.to_rasterio())), window)
                return bands[-1], bands[:-1]
            if self.speed_bins is None:
                return self._inside(self.as_road(_known(source, 1, window)), window), None
            band = self._inside(_known(source, 1, window), window)
        numbers = range(1, self.speed_bins.count + 1)
        return _certain(band > 0), np.stack([_certain(band == number) for number in numbers])

    def read_valid(self, window: Window) -> Bools:
        """Return which pixels of a window hold data, shape (row, col).

        Raises:
            DataError: if it cannot be read.
        """
        if not self.touches(window):
            return np.zeros(window[2:], dtype=bool)
        with self._reading() as source:
            valid = np.asarray(source.dataset_mask(window=window.to_rasterio()) > 0)
        return valid & self.extent.inside(window) if self.extent else valid

    def _inside(self, values: Array, window: Window) -> Array:
        """Return values of a window, shape (..., row, col), that are 0 outside of the area."""
        return values * self.extent.inside(window) if self.extent else values

    def _reading(self) -> AbstractContextManager[Any]:
        return nullcontext(self.source) if self.source else open_raster(self.path)

    def as_road(self, band: Array) -> Bytes:
        """Return pixels of its last band as the probability of any road, 255 for certain."""
        return _certain(band > 0) if self.is_mask else _as_bytes(band)


def write_probability(
    path: Path,
    rows: Iterable[Rows],
    grid: Grid,
    *,
    bins: SpeedBins,
    key: str,
    tags: Mapping[str, str],
) -> None:
    """Write a probability raster as a Cloud Optimized GeoTIFF, as its rows come.

    They are kept as strips in a hidden folder beside the file until it is whole, so that a
    process that is killed, or whose disk is full, loses at most what it was at: the next one
    goes on with the rows that `Strips.missing` lists.

    Args:
        rows: what is missing of the raster, from left to right and top to bottom; probabilities
            are uint8 with 255 for certain, or 0..1.
        bins: the speed bins that all bands but the last stand for; they name the bands.
        key: digest of all that the raster is made from, for `read_raster_key` of `mask_files`.
        tags: provenance, kept in the file.

    Raises:
        OutputError: if the file cannot be written in whole (a full disk).
    """
    strips = Strips.beside(path, key, grid=grid, bands=len(bins.band_names))
    strips.remove_others()
    tags = {**tags, **bins_tags(bins), KEY_TAG: key}
    with unless_made(path, key), atomic_write(path) as partial:
        given = (Rows(*each) for each in rows)
        strips.write(each._replace(values=_as_bytes(each.values)) for each in given)
        if strips.missing:
            raise ValueError(f"{path}: no rows {strips.missing[0]} were given")
        with (
            strips.joined(names=bins.band_names, tags=tags) as joined,
            rasterio.Env(GDAL_CACHEMAX=CACHE_BYTES),
        ):
            copy_as_cog(joined, partial, size=strips.size, options=_COG)
    write_style(path, probability_renderer(bins))
    strips.remove()


@contextmanager
def unless_made(path: Path, key: str) -> Iterator[None]:
    """Pass over errors of writing if another process makes the same raster meanwhile.

    The one that ends first removes the strips of both.

    Raises:
        OutputError: as the block, if nobody has made the raster.
    """
    before = path.stat().st_ino if path.exists() else None
    try:
        yield
    except (OutputError, ValueError):
        is_new = path.exists() and path.stat().st_ino != before
        if not is_new or read_raster_key(path) != key:
            raise


def network_tags(threshold: float | None, edge_model: EdgeModel | None) -> dict[str, str]:
    """Return the tags with which a raster says how what its network predicts is to be taken.

    Args:
        threshold: probability from which on there is road.
        edge_model: how probable it is that edges traced on it are roads.
    """
    tags = {} if threshold is None else {_THRESHOLD_TAG: f"{threshold:g}"}
    return tags | ({} if edge_model is None else {_CONFIDENCE_TAG: edge_model_text(edge_model)})


def open_probability(
    path: Path, *, crs: CRS | None = None, gsd_m: float | None = None
) -> ProbabilityFile:
    """Return what the bands of a probability raster, or of a mask, are.

    Rasters of several bands are what `write_probability` writes: its tags say which speeds the
    bands stand for, from which probability on there is road, and how sure its edges are; without
    tags, eight bands are the default bins and any road. Of a single band, floats are probabilities
    0..1, and integers 0..255; but they are a mask if `roadseg prepare` wrote them, if they are
    integers and none is above 7, or if all are 0 or certain. Then any value but 0 and nodata is
    road, and its speed bin in a mask of `roadseg prepare`.

    Args:
        crs: coordinate system to use for a raster that does not name its own.
        gsd_m: ground size of the pixels of a raster without georeference, metres; others keep
            their pixels.

    Raises:
        DataError: if it cannot be read, lies nowhere, has another number of bands or tags that say
            what cannot be, has values beyond probabilities, or if both 1 and 255 may be road.
    """
    grid = read_grid(path, crs=crs, gsd_m=gsd_m)
    with rasterio.Env(GDAL_CACHEMAX=CACHE_BYTES), open_raster(path) as source:
        tags = source.tags()
        known = bins_of(path, tags)
        if source.count > 1:
            bins = _bins_of_bands(path, source.count, known)
            facts = _of_network(path, tags)
            return ProbabilityFile(path, grid, bins, is_mask=False, model=_model(tags), **facts)
        if tags.get(CONTENT_TAG) == SPEED_BINS and known:
            return ProbabilityFile(path, grid, known, is_mask=True)
        if _is_mask(source):
            return ProbabilityFile(path, grid, None, is_mask=True)
        values, valid = sample_values(source)
        _require_probabilities(path, values[valid], source)
        return ProbabilityFile(path, grid, None, is_mask=False, **_of_network(path, tags))


def pseudo_labels(
    found: ProbabilityFile,
    level: int,
    *,
    road: RoadAreas,
    ignored: RoadAreas,
    background: RoadAreas | None = None,
) -> Iterator[tuple[Window, Bytes]]:
    """Yield labels that are made of probabilities, block by block, for `write_mask`.

    Where the network sees no road is background, and where it does is ignored, as that may be a car
    park. What is known about roads overrides this: first what is ignored, then background, then
    road.

    Args:
        found: probabilities, on whose grid the labels lie.
        level: lowest byte of probability that is road.
        road: areas of roads, with the speed bins that the labels get.
    """
    grid = found.grid
    for window in cut_blocks(grid.height, grid.width, block_px=_BLOCK_PX):
        part = grid.crop(*window)
        is_ignored = (found.read_road(window) >= level) | (burn_roads(ignored, part) > 0)
        if background is not None:
            is_ignored &= burn_roads(background, part) == 0
        burnt = burn_roads(road, part)
        others = np.where(is_ignored, np.uint8(IGNORE), np.uint8(BACKGROUND))
        yield window, np.where(burnt > 0, burnt, others)


def _model(tags: Mapping[str, str]) -> str:
    # A network that is of no fold, such as the starter, has a name in place of its number.
    if (name := tags.get("ROADSEG_FOLD", "")).isalpha() and name != "all":
        return name
    values = ((name.lower(), tags.get(f"ROADSEG_{name}")) for name in ("FOLD", "EPOCH"))
    return " ".join(f"{name} {value}" for name, value in values if value)


def _of_network(path: Path, tags: Mapping[str, str]) -> dict[str, Any]:
    """Return threshold and model of edges, as `network_tags` writes them; None for none."""
    threshold, model = tags.get(_THRESHOLD_TAG), tags.get(_CONFIDENCE_TAG)
    try:
        return {
            "threshold": None if threshold is None else float(threshold),
            "edge_model": None if model is None else parse_edge_model(model),
        }
    except ValueError as error:
        raise DataError(
            f"{path}: its tags {_THRESHOLD_TAG} or {_CONFIDENCE_TAG} are not what roadseg writes "
            f"({one_line(error)}); predict it again, or remove the tags"
        ) from error


def _bins_of_bands(path: Path, bands: int, stated: SpeedBins | None) -> SpeedBins:
    bins = stated or DEFAULT_BINS
    if bands != bins.count + 1:
        said = f", as its tags name {bins.count} speed bins" if stated else ""
        raise DataError(
            f"{path}: has {bands} bands, expected 1 or {bins.count + 1}{said}; for an image, run "
            "`roadseg predict` first"
        )
    return bins


def _known(source: Any, band: int, window: Window) -> Array:  # noqa: ANN401 - rasterio has no types
    """Read a band, 0 where a raster of one band holds no data."""
    values: Array = source.read(band, window=window.to_rasterio())
    if source.count > 1 or MaskFlags.all_valid in source.mask_flag_enums[0]:
        return values
    return np.where(source.dataset_mask(window=window.to_rasterio()) > 0, values, 0)


def _is_mask(source: Any) -> bool:  # noqa: ANN401
    """Return whether a raster of one band is a mask: its values are classes, or one value."""
    is_float, least, most = np.dtype(source.dtypes[0]).kind == "f", np.inf, 0.0
    for block in cut_blocks(source.height, source.width, block_px=_BLOCK_PX):
        values = _known(source, 1, block)
        if (road := values[values > 0]).size:
            least, most = min(least, float(road.min())), max(most, float(road.max()))
        are_classes = most <= _LARGEST_CLASS and (least >= 1 or not is_float)
        if not (are_classes or (1 if is_float else CERTAIN) <= least == most):
            return False
    return True


def are_certain(values: Array) -> bool:
    """Return whether probabilities, 0..255 or as floats 0..1, are all 0, or certain or above."""
    certain = 1 if values.dtype.kind == "f" else CERTAIN
    return not bool(((values > 0) & (values < certain)).any())


def _require_probabilities(path: Path, values: Array, source: Any) -> None:  # noqa: ANN401
    """Refuse a raster of which a sample of values is on another scale, or may be a mask."""
    certain, most = 1 if values.dtype.kind == "f" else CERTAIN, values.max(initial=0)
    if most > _BEYOND * certain:
        raise DataError(
            f"{path}: has values up to {most:g}, expected probabilities from 0 to 1, or from 0 to "
            f"{CERTAIN} in integers; scale them, such as percent with gdal_translate -ot Byte "
            f"-scale 0 100 0 {CERTAIN} {path.name} roads.tif"
        )
    if values.dtype.kind != "f":
        require_clear(path, values, source)


def _certain(claim: Bools) -> Bytes:
    return np.where(claim, np.uint8(CERTAIN), np.uint8(0))


def _as_bytes(values: Array) -> Bytes:
    if values.dtype == np.uint8:
        return values
    if values.dtype.kind == "f":
        values = np.rint(np.nan_to_num(values) * CERTAIN)
    return np.asarray(np.clip(values, 0, CERTAIN), dtype=np.uint8)
