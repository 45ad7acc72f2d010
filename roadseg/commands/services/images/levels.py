"""Levels of tiles: where the tiles of a service lie, and which of them an area needs."""

import logging
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import shapely
from affine import Affine
from pyproj import CRS
from shapely.geometry.base import BaseGeometry

from roadseg.commands.services.images.fetching import Fetch
from roadseg.errors import ConfigError, DataError
from roadseg.raster.grid import DEGREES, Grid, reproject
from roadseg.raster.windows import Window
from roadseg.roads.labels.areas import Area

_log = logging.getLogger(__name__)

WEB_MERCATOR = CRS.from_epsg(3857)

_HALF_M = 20_037_508.342789244  # Half the side of the square of Web Mercator.
_XYZ_PX = 256  # Rows and columns of a tile, unless a service has others.
_AS_FINE = 1.05  # Times the wanted pixel size; a level with such pixels is fine enough.
_MOST_TILES = 5_000_000  # Of a plan; more are refused before they are counted one by one.
_MOST_COLUMNS = 250_000  # Pixels of an image, of which strips of 512 rows are held in memory.
_STEPS = 64  # Along an outline that bends when it is brought to another CRS.

Place = tuple[int, int]  # Row and column of a tile.


@dataclass(frozen=True)
class Level:
    """A level of a pyramid of tiles.

    Attributes:
        name: of the level at the service: its zoom, or the identifier of its matrix.
        left: x of the left side of the first column.
        top: y of the upper side of the first row.
        pixel: width and height of a pixel in units of the CRS.
        tile_px: rows and columns of a tile.
        tiles: rows and columns of tiles, from the first.
        first: row and column of the first tile.
    """

    name: str
    crs: CRS
    left: float
    top: float
    pixel: float
    tile_px: tuple[int, int]
    tiles: tuple[int, int]
    first: Place = (0, 0)

    def grid(self, window: Window) -> Grid:
        """Return the grid of a window that is counted in pixels from the origin of the level."""
        x, y = self.left + window.col * self.pixel, self.top - window.row * self.pixel
        transform = Affine(self.pixel, 0, x, 0, -self.pixel, y)
        return Grid(self.crs, transform, window.height, window.width)

    def gsd_m(self, area: Area) -> float:
        """Return the size on the ground of a pixel in the middle of an area, metres."""
        x, y = shapely.get_coordinates(self.shape_of(area).centroid)[0]
        there = Affine(self.pixel, 0, x, 0, -self.pixel, y)
        return math.sqrt(math.prod(Grid(self.crs, there, 1, 1).pixel_size_m))

    def shape_of(self, area: Area) -> BaseGeometry:
        """Return an area in the CRS of the level.

        Raises:
            DataError: if it lies outside of what the CRS covers.
        """
        shape = _reprojected(area.degrees, self.crs)
        # Web Mercator goes on beyond its square, up to a pole where pixels have no size.
        is_beyond = self.crs == WEB_MERCATOR or not np.isfinite(shapely.bounds(shape)).all()
        if is_beyond and self.crs.area_of_use:
            limits = shapely.box(*self.crs.area_of_use.bounds)
            inside = area.degrees.intersection(limits)
            shape = inside if inside.is_empty else _reprojected(inside, self.crs)
        if shape.is_empty or not np.isfinite(shapely.bounds(shape)).all():
            raise DataError(
                f"{area.text}: lies outside of what the coordinate system of the service covers, "
                f"{self.crs.name}"
            )
        return shape


@dataclass(frozen=True)
class TilePlan:
    """The tiles of a level that an area needs.

    Attributes:
        shape: the area in the CRS of the level.
        window: the box around it, in pixels from the origin of the level.
    """

    level: Level
    shape: BaseGeometry
    window: Window

    @property
    def grid(self) -> Grid:
        """The grid of the image that the tiles fill."""
        return self.level.grid(self.window)

    @property
    def box(self) -> tuple[range, range]:
        """The rows and columns of the tiles in the box."""
        high, wide = self.level.tile_px
        row, col, height, width = self.window
        rows = range(row // high, -(-(row + height) // high))
        return rows, range(col // wide, -(-(col + width) // wide))

    def places(self) -> Iterator[Place]:
        """Yield the tiles that the area touches, row by row."""
        rows, cols = self.box
        shapely.prepare(self.shape)
        wide, high = (side * self.level.pixel for side in reversed(self.level.tile_px))
        left = self.level.left + np.array(cols) * wide
        for row in rows:
            top = self.level.top - row * high
            boxes = shapely.box(
                left, np.full(len(left), top - high), left + wide, np.full(len(left), top)
            )
            touched = shapely.intersects(self.shape, boxes)
            yield from ((row, col) for col, is_in in zip(cols, touched, strict=True) if is_in)

    def middle(self) -> Place:
        """Return a tile well inside of the area."""
        x, y = shapely.get_coordinates(self.shape.representative_point())[0]
        high, wide = (side * self.level.pixel for side in self.level.tile_px)
        return int((self.level.top - y) // high), int((x - self.level.left) // wide)


def plan_tiles(level: Level, area: Area) -> TilePlan:
    """Plan which tiles of a level an area needs.

    Raises:
        DataError: if the area lies outside of the level.
        ConfigError: if it needs too many tiles.
    """
    shape = level.shape_of(area)
    west, south, east, north = shapely.bounds(shape)
    row, col = (level.top - north) / level.pixel, (west - level.left) / level.pixel
    until_row, until_col = (level.top - south) / level.pixel, (east - level.left) / level.pixel
    first = [a * b for a, b in zip(level.first, level.tile_px, strict=True)]
    end = [(a + n) * b for a, n, b in zip(level.first, level.tiles, level.tile_px, strict=True)]
    start = max(math.floor(row), first[0]), max(math.floor(col), first[1])
    stop = min(math.ceil(until_row), end[0]), min(math.ceil(until_col), end[1])
    if min(stop[0] - start[0], stop[1] - start[1]) <= 0:
        raise DataError(f"{area.text}: lies outside of the images of the service")
    window = Window(*start, stop[0] - start[0], stop[1] - start[1])
    plan = TilePlan(level, shape, window)
    rows, cols = plan.box
    if len(rows) * len(cols) > _MOST_TILES or window.width > _MOST_COLUMNS:
        raise ConfigError(
            f"{area.text}: the box around the area has {len(rows) * len(cols):,} tiles of level "
            f"{level.name} and is {window.width:,} pixels wide, more than {_MOST_TILES:,} tiles or "
            f"{_MOST_COLUMNS:,} pixels; choose a smaller area or larger pixels"
        )
    return plan


def xyz_level(zoom: int) -> Level:
    """Return a zoom of Web Mercator's square, with tiles of 256 x 256 pixels."""
    pixel = 2 * _HALF_M / _XYZ_PX / 2**zoom
    sides = (2**zoom, 2**zoom)
    return Level(str(zoom), WEB_MERCATOR, -_HALF_M, _HALF_M, pixel, (_XYZ_PX, _XYZ_PX), sides)


def with_tile_px(level: Level, side: int) -> Level:
    """Return a zoom with tiles of other rows and columns, which have smaller pixels."""
    pixel = level.pixel * level.tile_px[0] / side
    return replace(level, tile_px=(side, side), pixel=pixel)


def drawn_level(crs: CRS, gsd_m: float, area: Area, *, tile_px: int) -> Level:
    """Return a level for a service that draws any box: pixels of a size on the ground.

    Its tiles are counted from the origin of the CRS, so that tiles of touching areas are the same.
    """
    unit = Level("", crs, 0, 0, 1e-5 if crs.is_geographic else 1.0, (1, 1), (1, 1))
    pixel = unit.pixel * gsd_m / unit.gsd_m(area)
    # Rounded, so that areas beside each other have the same pixels in spite of Web Mercator.
    pixel = float(f"{pixel:.2g}")
    far = 10**9
    return Level(
        f"{gsd_m:g} m", crs, 0, 0, pixel, (tile_px, tile_px), (2 * far, 2 * far), (-far, -far)
    )


def choose_level(levels: list[Level], fetch: Fetch) -> Level:
    """Return the level of a zoom, or the first one whose pixels are small enough; else the finest.

    Args:
        levels: from the coarsest to the finest.
        fetch: its zoom is the name of a level, or its number from 0; or its `gsd_m` the size of
            pixels on the ground in the middle of the area.

    Raises:
        ConfigError: if there is no such level, or neither is given.
    """
    zoom, gsd_m = fetch.request.zoom, fetch.request.gsd_m
    if zoom is not None:
        names = [level.name for level in levels]
        if str(zoom) in names:
            return levels[names.index(str(zoom))]
        # Only levels without numbers are counted.
        if zoom >= len(levels) or all(map(str.isdecimal, names)):
            listed = ", ".join(names)
            raise ConfigError(f"--zoom {zoom}: the service has no such level; it has {listed}")
        return levels[zoom]
    if gsd_m is None:
        raise ConfigError(
            "choose the size of the pixels: --gsd-m in metres on the ground, or --zoom"
        )
    for level in levels:
        if level.gsd_m(fetch.area) <= gsd_m * _AS_FINE:
            return level
    finest = levels[-1].gsd_m(fetch.area)
    _log.warning("--gsd-m %g: the finest level of the service has pixels of %.3g m", gsd_m, finest)
    return levels[-1]


def _reprojected(shape: BaseGeometry, crs: CRS) -> BaseGeometry:
    """Return a shape in degrees in another CRS; what has no place there becomes infinite."""
    west, south, east, north = shapely.bounds(shape)
    dense = shapely.segmentize(shape, max(east - west, north - south) / _STEPS)
    moved: BaseGeometry = reproject(np.array([dense], dtype=object), DEGREES, crs)[0]
    return moved
