"""Tile: a square of metres in a zone of UTM, which has the same id in every network.

The ids are those of the Military Grid Reference System (MGRS), such as 32UMV75. Unlike there, all
zones are 6 degrees wide, also in Norway and around Svalbard.
"""

import math
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import shapely
from numpy.typing import NDArray
from pyproj import CRS

from roadseg.arrays import Floats, Ints
from roadseg.errors import ConfigError
from roadseg.raster.grid import DEGREES, reproject, transformer

SIDES_KM: Final = (1, 10, 100)  # Kilometres; sides of the squares that MGRS has names for.
ZONE_DEG = 6  # Degrees of longitude that a zone is wide.
SOUTHMOST, NORTHMOST = -80.0, 84.0  # Degrees of latitude between which there are tiles.
SOUTH_M = 10_000_000.0  # Metres north that UTM gives the equator in the south.

_ZONES = 60
_SQUARE_KM = 100  # Kilometres; side of the squares with two letters.
_COLUMNS = ("ABCDEFGH", "JKLMNPQR", "STUVWXYZ")  # From zone to zone in turns.
_ROWS = "ABCDEFGHJKLMNPQRSTUV"  # Of odd zones from the equator; even ones begin with F.
_EVEN_ROW = 5
_BANDS = "CDEFGHJKLMNPQRSTUVWX"  # 8 degrees of latitude each from 80 south; X has 12.
_BAND_DEG = 8
_FIRST_NORTH = "N"
_OFF_BAND_DEG = 1.0  # Degrees; the letter of a square on two bands may be that of either.
_TILE_ID = re.compile(r"(\d{1,2})([C-HJ-NP-X])([A-HJ-NP-Z])([A-HJ-NP-V])(\d\d|\d{4}|)")
_ON_EQUATOR_DEG = 1e-9  # Degrees, about 0.1 mm.
_REACH_M = 1.0  # Metres; an area that reaches no further into a square does not touch it.
_STEPS = 64  # Parts of a border that bends in another CRS.
_MOST_CELLS = 2_000_000  # Squares around an area of a zone that are looked at.


@dataclass(frozen=True, order=True)
class Tile:
    """A square of a zone of UTM, or the part of it in the zone.

    Attributes:
        zone: number of the zone, 1 to 60.
        is_south: whether it lies south of the equator.
        km: side of the square, of `SIDES_KM`.
        col: its western side in sides of a square, east of the origin of the zone.
        row: its southern side, north of this origin.
    """

    zone: int
    is_south: bool
    km: int
    col: int
    row: int

    def __str__(self) -> str:
        """Return its id."""
        return self.id

    @cached_property
    def id(self) -> str:
        """The reference of MGRS to the square: zone, band, two letters and digits."""
        squares, digits = _SQUARE_KM // self.km, {100: 0, 10: 1, 1: 2}[self.km]
        east, col = divmod(self.col, squares)
        north, row = divmod(self.row, squares)
        shift = _EVEN_ROW if self.zone % 2 == 0 else 0
        letters = _COLUMNS[(self.zone - 1) % 3][east - 1] + _ROWS[(north + shift) % len(_ROWS)]
        places = f"{col:0{digits}d}{row:0{digits}d}" if digits else ""
        return f"{self.zone:02d}{_band(self._middle_lat)}{letters}{places}"

    @property
    def square_id(self) -> str:
        """The id of the square of 100 km around it."""
        return self.id[:5]

    @property
    def crs(self) -> CRS:
        """The zone of UTM."""
        return CRS.from_epsg(zone_epsg(self.zone, is_south=self.is_south))

    @property
    def side_m(self) -> float:
        """Side of the square in metres."""
        return self.km * 1000.0

    @property
    def square(self) -> shapely.Polygon:
        """The whole square in `crs`."""
        west, south = self.col * self.side_m, self.row * self.side_m
        square: shapely.Polygon = shapely.box(west, south, west + self.side_m, south + self.side_m)
        return square

    @cached_property
    def ground(self) -> shapely.Polygon:
        """The part of the square in its zone and between the latitudes that UTM covers, in `crs`.

        It is empty for a square that lies in none.
        """
        west = ZONE_DEG * (self.zone - 1) - 180.0
        corners = self._degrees(shapely.get_coordinates(self.square))
        lat = corners[:, 1]
        inside = (corners[:, 0] >= west) & (corners[:, 0] <= west + ZONE_DEG)
        if inside.all() and lat.min() >= SOUTHMOST and lat.max() <= NORTHMOST:
            return self.square
        low, high = max(lat.min() - 0.1, SOUTHMOST), min(lat.max() + 0.1, NORTHMOST)
        if low >= high:
            return shapely.Polygon()
        zone = shapely.segmentize(
            shapely.box(west, low, west + ZONE_DEG, high), (high - low) / _STEPS
        )
        outline = reproject(np.array([zone], dtype=object), DEGREES, self.crs)[0]
        part = shapely.intersection(outline, self.square)
        return part if isinstance(part, shapely.Polygon) else shapely.Polygon()

    @cached_property
    def degrees(self) -> shapely.Polygon:
        """Its ground in degrees of longitude and latitude."""
        dense = shapely.segmentize(self.ground, self.side_m / 8)
        outline: shapely.Polygon = reproject(np.array([dense]), self.crs, DEGREES)[0]
        # Corners on the border of the zone lie there exactly.
        west = ZONE_DEG * (self.zone - 1) - 180.0
        return shapely.transform(
            outline, lambda xy: np.column_stack([xy[:, 0].clip(west, west + ZONE_DEG), xy[:, 1]])
        )

    def around(self, margin_m: float) -> shapely.Polygon:
        """Return its ground with a margin, which may reach into other tiles, in `crs`."""
        return shapely.buffer(self.ground, margin_m, join_style="mitre")

    @cached_property
    def _middle_lat(self) -> float:
        middle = np.array([[self.col + 0.5, self.row + 0.5]]) * self.side_m
        return float(self._degrees(middle)[0, 1])

    def _degrees(self, xy: Floats) -> Floats:
        return np.column_stack(transformer(self.crs, DEGREES).transform(*xy.T))


def parse_tile(text: str) -> Tile:
    """Return the tile that an id names.

    The letter of the band may be that of any place in the square, as other programs choose it.

    Raises:
        ConfigError: if there is no such tile.
    """
    parts = _TILE_ID.fullmatch(text.strip().upper())
    if parts is None or not 1 <= int(parts[1]) <= _ZONES:
        raise _no_tile(text)
    zone, band, digits = int(parts[1]), parts[2], parts[5]
    km = {0: 100, 2: 10, 4: 1}[len(digits)]
    half, squares = len(digits) // 2, _SQUARE_KM // km
    east = _COLUMNS[(zone - 1) % 3].find(parts[3]) + 1
    if east == 0:
        raise _no_tile(text)
    shift = _EVEN_ROW if zone % 2 == 0 else 0
    first = (_ROWS.index(parts[4]) - shift) % len(_ROWS)
    col = east * squares + int(digits[:half] or 0)
    for north in range(first, 100, len(_ROWS)):  # The letters of rows come again and again.
        row = north * squares + int(digits[half:] or 0)
        tile = Tile(zone, band < _FIRST_NORTH, km, col, row)
        if _is_in_band(tile, band) and not tile.ground.is_empty:
            return tile
    raise _no_tile(text)


def check_km(km: int) -> None:
    """Refuse a side that no tile has.

    Raises:
        ConfigError: if so.
    """
    if km not in SIDES_KM:
        raise ConfigError(f"km: expected 1, 10 or 100, got {km}")


def tiles_on(area: shapely.Geometry, *, km: int) -> list[Tile]:
    """Return the tiles whose ground an area touches, sorted.

    Where an area follows the side of a tile, rounding decides: less than 1 m does not count.

    Args:
        area: polygons in degrees of longitude and latitude, from -180 to 180.
        km: side of the squares, of `SIDES_KM`.

    Raises:
        ConfigError: if no tile has this side, or the area has more than 2 million squares around it
            in a zone.
    """
    check_km(km)
    west, south, east, north = shapely.bounds(area).tolist()
    if not math.isfinite(west):
        return []
    tiles: list[Tile] = []
    last_zone = min(int((east + 180) // ZONE_DEG), _ZONES - 1)
    for zone in range(int((west + 180) // ZONE_DEG), last_zone + 1):
        for is_south in (True, False):
            low, high = (SOUTHMOST, 0.0) if is_south else (0.0, NORTHMOST)
            if south < high and north > low:
                box = shapely.box(*_zone_bounds(zone, max(low, south), min(high, north)))
                part = shapely.intersection(area, box)
                if not part.is_empty and part.area > 0:
                    tiles += _in_zone(part, zone + 1, is_south=is_south, km=km)
    return sorted(tiles)


def tile_cells(xy: Floats, side_m: float, *, is_south: bool) -> Ints:
    """Return the column and row of the square at each place of a zone, shape (n, 2)."""
    cells = np.floor(xy / side_m).astype(np.int64)
    # What lies on the equator but for rounding is on this side of it.
    last = round(SOUTH_M / side_m) - 1
    cells[:, 1] = np.minimum(cells[:, 1], last) if is_south else np.maximum(cells[:, 1], 0)
    return cells


def zones_at(degrees: Floats) -> tuple[Ints, NDArray[np.bool_]]:
    """Return the zone at each place, shape (n,), and whether it lies south of the equator.

    Args:
        degrees: shape (n, 2), longitude and latitude.
    """
    lon, lat = degrees.T
    return ((lon + 180) % 360 // ZONE_DEG).astype(np.int64) + 1, lat < -_ON_EQUATOR_DEG


def zone_epsg(zone: int, *, is_south: bool) -> int:
    """Return the EPSG number of a zone of UTM."""
    return (32700 if is_south else 32600) + zone


def zone_of(crs: CRS) -> tuple[int, bool]:
    """Return the zone of a CRS that `zone_epsg` names, and whether it is that of the south.

    Raises:
        ValueError: if it is another one.
    """
    south, zone = divmod(crs.to_epsg() or 0, 100)
    if south not in (326, 327) or not 1 <= zone <= _ZONES:
        raise ValueError(f"{crs.name}: expected a zone of UTM")
    return zone, south == 327  # noqa: PLR2004 - of the south


def _zone_bounds(zone: int, south: float, north: float) -> tuple[float, float, float, float]:
    west = ZONE_DEG * zone - 180.0
    return west, south, west + ZONE_DEG, north


def _in_zone(part: shapely.Geometry, zone: int, *, is_south: bool, km: int) -> list[Tile]:
    """Return the tiles that an area touches which lies in one zone."""
    crs, side_m = CRS.from_epsg(zone_epsg(zone, is_south=is_south)), km * 1000.0
    bounds = shapely.bounds(part)
    step = min(float(max(bounds[2:] - bounds[:2])) / _STEPS, km / 100)
    dense = shapely.segmentize(part, max(step, 1e-4))
    ground = shapely.make_valid(reproject(np.array([dense], dtype=object), DEGREES, crs)[0])
    low = np.floor(shapely.bounds(ground)[:2] / side_m).astype(np.int64)
    high = np.ceil(shapely.bounds(ground)[2:] / side_m).astype(np.int64)
    cols, rows = (np.arange(first, last) for first, last in zip(low, high, strict=True))
    if len(cols) * len(rows) > _MOST_CELLS:
        raise ConfigError(
            f"found {len(cols) * len(rows)} squares of {km} km around the area, expected at most "
            f"{_MOST_CELLS}; use larger tiles, or a smaller area"
        )
    col, row = (each.ravel() for each in np.meshgrid(cols, rows))
    west, south = col * side_m, row * side_m
    inner = shapely.box(
        west + _REACH_M, south + _REACH_M, west + side_m - _REACH_M, south + side_m - _REACH_M
    )
    shapely.prepare(ground)
    shares = shapely.intersects(ground, inner)
    chosen = zip(col[shares].tolist(), row[shares].tolist(), strict=True)
    return [Tile(zone, is_south, km, east, north) for east, north in chosen]


def _band(lat: float) -> str:
    place = int((min(max(lat, SOUTHMOST), NORTHMOST) - SOUTHMOST) // _BAND_DEG)
    return _BANDS[min(place, len(_BANDS) - 1)]


def _is_in_band(tile: Tile, band: str) -> bool:
    low = SOUTHMOST + _BAND_DEG * _BANDS.index(band)
    high = NORTHMOST if band == _BANDS[-1] else low + _BAND_DEG
    return low - _OFF_BAND_DEG <= tile._middle_lat <= high + _OFF_BAND_DEG  # noqa: SLF001 - its own


def _no_tile(text: str) -> ConfigError:
    return ConfigError(
        f"{text}: no such tile; expected a reference of MGRS such as 32UMV (100 km), 32UMV75 "
        "(10 km) or 32UMV7752 (1 km); `roadseg tiles list --area` lists those of an area"
    )
