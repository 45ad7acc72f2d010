"""Extents: the part of a scene to work on, as polygons in pixels."""

import hashlib
import math
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import shapely
from rasterio.features import rasterize

from roadseg.arrays import Bools
from roadseg.raster.grid import Grid
from roadseg.raster.windows import Window

Polygons = shapely.Polygon | shapely.MultiPolygon

LEAST_SIDE_PX = 32  # Pixels of a scene or of a part of one; the network halves windows five times.
_MIN_OVERLAP_PX = 0.001  # Pixels; windows that overlap the area by less do not touch it.
_ROAD_M = 6.0  # Metres; thinning ends half of a road before the outline that cuts the road.

_GEOS_LOCK = threading.Lock()  # Prepared geometries are not thread-safe.


@dataclass(frozen=True)
class Extent:
    """The pixels of a raster that an area touches; all others have no data.

    Attributes:
        polygons: the area in pixels, with columns as x and rows as y.
    """

    polygons: shapely.MultiPolygon

    def __post_init__(self) -> None:
        """Prepare the polygons for fast tests."""
        shapely.prepare(self.polygons)

    @classmethod
    def whole(cls, window: Window) -> "Extent":
        """Return the extent with all pixels of a window."""
        return cls(shapely.MultiPolygon([_box(window)]))

    @property
    def pixels(self) -> int:
        """Approximate number of pixels; the error is about the length of the outline."""
        return math.ceil(self.polygons.area)

    @property
    def digest(self) -> str:
        """Text that differs between extents that differ by more than a thousandth of a pixel."""
        rounded = shapely.normalize(shapely.set_precision(self.polygons, _MIN_OVERLAP_PX))
        return hashlib.sha256(shapely.to_wkb(rounded)).hexdigest()[:16]

    def touches(self, window: Window) -> bool:
        """Return whether any pixel of a window belongs to the extent."""
        with _GEOS_LOCK:
            return bool(self.polygons.intersects(_box(window)))

    def inside(self, window: Window) -> Bools:
        """Return which pixels of a window belong to the extent, shape (row, col)."""
        row, col, height, width = window
        box = _box(window)
        with _GEOS_LOCK:
            is_all, is_some = self.polygons.contains(box), self.polygons.intersects(box)
        if is_all or not is_some:
            return np.full((height, width), is_all)
        # Of a long outline only what is near is burnt.
        near = polygons_in(shapely.intersection(self.polygons, box.buffer(2, join_style="mitre")))
        shapes = shapely.transform(near, lambda xy: xy - (col, row))
        return np.asarray(
            rasterize([(shapes, 1)], (height, width), all_touched=True, dtype="uint8") > 0
        )

    def counted_from(self, row: int, col: int) -> "Extent":
        """Return the extent with the rows and columns counted from another first pixel."""
        return Extent(shapely.transform(self.polygons, lambda xy: xy - (col, row)))

    def scaled(self, down: float, across: float) -> "Extent":
        """Return the extent in pixels of another size, by factors for rows and columns."""
        return Extent(shapely.transform(self.polygons, lambda xy: xy * (across, down)))


@dataclass(frozen=True)
class ScenePart:
    """The part of a scene that its rasters show, and the pixels in it that may have data.

    Attributes:
        window: the part, in pixels of the scene.
        extent: pixels that may have data, counted in the window; None for all.
    """

    window: Window
    extent: Extent | None = None

    @property
    def digest(self) -> list[Any]:
        """JSON values that differ between different parts."""
        return [*self.window, self.extent and self.extent.digest]

    def within(self, window: Window) -> "ScenePart":
        """Return the part as a larger window of the scene, in which other pixels have no data."""
        shown = self.window.within(window)
        if self.extent is None and shown == (0, 0, *window[2:]):
            return ScenePart(window)
        extent = self.extent or Extent.whole(Window(0, 0, *shown[2:]))
        return ScenePart(window, extent.counted_from(-shown.row, -shown.col))

    def shows_all(self, grid: Grid) -> bool:
        """Return whether the part is the whole scene."""
        return self.extent is None and self.window == (0, 0, grid.height, grid.width)


def part_of(grid: Grid, ground: Polygons) -> ScenePart | None:
    """Return the part of a scene that lies in an area; None if they do not overlap.

    Args:
        ground: the area, in `grid.metric_crs`.
    """
    scene = shapely.box(0, 0, grid.width, grid.height)
    polygons = shapely.transform(ground, lambda xy: grid.from_metric(xy)[:, ::-1])
    shared = polygons_in(shapely.intersection(shapely.make_valid(polygons), scene))
    # What only meets the border of a pixel does not touch the pixel.
    held = _widened(shared, -_MIN_OVERLAP_PX)
    if held.is_empty:
        return None
    west, north, east, south = shapely.total_bounds(held)
    row, height = _side(north, south, grid.height)
    col, width = _side(west, east, grid.width)
    window = Window(row, col, height, width)
    # A hair of the scene is missing along its own border, which is not an outline.
    if _widened(shared, 2 * _MIN_OVERLAP_PX).contains(_box(window)):
        return ScenePart(window)
    return ScenePart(window, Extent(held).counted_from(row, col))


def joined_extent(extents: Iterable[Extent]) -> Extent:
    """Return the union of several extents, whose pixels are counted from a common first pixel.

    Tiny gaps between adjoining rasters, in which the area goes on, are closed.
    """
    wider = [_widened(each.polygons, _MIN_OVERLAP_PX) for each in extents]
    return Extent(polygons_in(shapely.union_all(wider)))


def polygons_in(geometry: shapely.Geometry) -> shapely.MultiPolygon:
    """Return the polygons of a geometry without its lines and points, possibly none."""
    parts = shapely.get_parts(shapely.get_parts(geometry))
    return shapely.MultiPolygon([part for part in parts if isinstance(part, shapely.Polygon)])


def ground_of(grid: Grid, extent: Extent | None) -> Polygons:
    """Return the outline of a raster, or of its extent if there is one, in `grid.metric_crs`."""
    if extent is None:
        return grid.footprint_m
    return shapely.transform(extent.polygons, lambda xy: grid.to_metric(xy[:, ::-1]))


def border_of(grid: Grid, extent: Extent | None) -> shapely.Geometry:
    """Return where roads may be cut although they go on: the edge of a raster and of its extent.

    Returns:
        In `grid.metric_crs`, the outline of the raster and, if there is an extent, all ground that
        is not well inside it.
    """
    edge = grid.footprint_m.exterior
    if extent is None:
        return edge
    margin_m = max(_ROAD_M, 2 * max(grid.pixel_size_m))
    outside = shapely.difference(grid.footprint_m, ground_of(grid, extent).buffer(-margin_m))
    return shapely.GeometryCollection([edge, outside])


def _box(window: Window) -> shapely.Polygon:
    row, col, height, width = window
    return shapely.box(col, row, col + width, row + height)


def _side(start: float, stop: float, length: int) -> tuple[int, int]:
    """Return the first pixel between two places along a side, and how many there are."""
    first, last = max(math.floor(start), 0), min(math.ceil(stop), length)
    lacking = max(LEAST_SIDE_PX - (last - first), 0)
    first = max(min(first - lacking // 2, length - LEAST_SIDE_PX), 0) if lacking else first
    return first, min(max(last - first, LEAST_SIDE_PX), length - first)


def _widened(polygons: shapely.MultiPolygon, pixels: float) -> shapely.MultiPolygon:
    with np.errstate(divide="ignore", invalid="ignore"):  # GEOS divides where corners coincide.
        return polygons_in(shapely.buffer(polygons, pixels, join_style="mitre"))
