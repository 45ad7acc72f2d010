"""Areas: polygons of vector files, in which labels are complete or in which an analyst works."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import shapely
from pyproj import CRS

from roadseg.arrays import Floats, Shapes
from roadseg.errors import ConfigError, DataError
from roadseg.raster.extents import polygons_in
from roadseg.raster.grid import DEGREES, Grid, reproject
from roadseg.raster.options import box_numbers
from roadseg.roads.labels.roads import clean_shapes, file_crs
from roadseg.system.files import is_virtual, with_home
from roadseg.system.fingerprints import GONE, fingerprint, stamp
from roadseg.system.text import count, itemize, one_line

_HALF_TURN = 180.0  # Degrees.
_STEPS = 64  # Along an outline that bends when it is brought to another CRS.
_NAME = "name"  # Of the column of a file with the names of its polygons.
_BOUNDS = 4  # Numbers of a box: minx, miny, maxx, maxy.
_LABELS = "those in which labels are complete; draw them, or remove the file from labels.area"
_WORK = "an area to work in; draw it, or give a box of degrees: minx,miny,maxx,maxy"
_FORMS = (
    "a vector file with polygons, or a box in degrees such as 8.65,49.38,8.72,49.43 "
    "(minx,miny,maxx,maxy)"
)


@dataclass(frozen=True)
class Area:
    """Polygons on the ground, such as that which an analyst works on.

    Attributes:
        text: the name of its file, or its bounds as they were given.
        crs: coordinate system of the polygons.
        polygons: shape (n,), at least one.
        names: name of each, or else the number of its feature from 1 on; none for a box.
    """

    text: str
    crs: CRS
    polygons: Shapes
    names: tuple[str, ...] = ()

    @cached_property
    def degrees(self) -> shapely.MultiPolygon:
        """Its polygons as one geometry in EPSG:4326, longitude before latitude.

        Where it crosses the date line, it is cut there.
        """
        sides = shapely.total_bounds(self.polygons)
        step = max(sides[2] - sides[0], sides[3] - sides[1]) / _STEPS
        dense = np.asarray(shapely.segmentize(self.polygons, step), dtype=object)
        moved = reproject(dense, self.crs, DEGREES)
        if not self.crs.is_geographic:
            moved = np.array([_gathered(each) for each in moved], dtype=object)
        return polygons_in(shapely.union_all([_cut_at_date_line(each) for each in moved]))

    def on(self, grid: Grid) -> shapely.MultiPolygon:
        """Return the part of the area on and around a scene, in the metric CRS of the scene."""
        return area_on(grid, [self])

    def by_name(self) -> dict[str, "Area"]:
        """Return the polygons of each name as an area of their own; none if all have the same."""
        names = np.array(self.names)
        parts = {name: self.polygons[names == name] for name in dict.fromkeys(self.names)}
        if len(parts) < 2:  # noqa: PLR2004 - several
            return {}
        return {name: Area(self.text, self.crs, part) for name, part in parts.items()}

    @cached_property
    def tree(self) -> shapely.STRtree:
        """Index of the polygons."""
        return shapely.STRtree(self.polygons)


def read_area(text: str) -> Area:
    """Read an area from a vector file with polygons, or from a box.

    Args:
        text: the path of a file as `read_roads` takes it, or `minx,miny,maxx,maxy` in degrees of
            longitude and latitude (EPSG:4326).

    Raises:
        ConfigError: if the numbers are not a box on earth.
        DataError: if the file cannot be read whole, or holds no polygon.
    """
    if (boxes := _boxes(text)) is not None:
        return Area(text, DEGREES, boxes)
    path = Path(with_home(text))
    if path.is_dir() or (not path.suffix and not path.exists()):
        raise ConfigError(f"{text}: expected an area: {_FORMS}")
    if not (is_virtual(path) or path.exists()):
        raise DataError(f"{text} does not exist; expected an area: {_FORMS}")
    area = replace(read_area_file(path, purpose=_WORK), text=text)
    west, south, east, north = shapely.bounds(area.degrees).tolist()
    if not max(-west, east) <= _HALF_TURN or not max(-south, north) <= _HALF_TURN / 2:
        x, y = shapely.total_bounds(area.polygons)[:2]
        raise DataError(
            f"{text}: its polygons, at x {x:.9g}, y {y:.9g} of {area.crs.name}, are not on earth; "
            "expected longitude before latitude, or the coordinate system that they are in"
        )
    return area


def work_area(text: str | None) -> Area | None:
    """Return the area that `imagery.area` names, read once while its file stays as it is.

    Args:
        text: as `read_area` takes it; None is everywhere.

    Raises:
        ConfigError: if the numbers are not a box on earth.
        DataError: if the file cannot be read whole, or holds no polygon.
    """
    if text is None:
        return None
    path = Path(text)
    is_file = box_numbers(text) is None and not is_virtual(path) and path.is_file()
    return _read_once(text, stamp(path) if is_file else "")


@lru_cache(maxsize=8)
def _read_once(text: str, _stamp: str) -> Area:
    return read_area(text)


def area_content(text: str) -> str:
    """Return what changes when an area does: the bounds of a box, or the fingerprint of its file.

    Raises:
        DataError: if the file is missing.
    """
    if (numbers := box_numbers(text)) is not None:
        return ",".join(f"{number:.9g}" for number in numbers)
    if (content := fingerprint(Path(text))) == GONE:
        raise DataError(
            f"imagery.area: {text} does not exist; expected a vector file with polygons, or a box "
            "in degrees: minx,miny,maxx,maxy"
        )
    return content


def _boxes(text: str) -> Shapes | None:
    """Return the box that a text names by numbers; None if it is not a list of numbers.

    A box whose west lies east of its east crosses the antimeridian, and becomes two.
    """
    numbers = box_numbers(text)
    if numbers is None:
        return None
    west, south, east, north = numbers if len(numbers) == _BOUNDS else [math.nan] * _BOUNDS
    is_on_earth = max(map(abs, (west, east))) <= _HALF_TURN and -90 <= south < north <= 90  # noqa: PLR2004 - degrees
    if is_on_earth and west - east > _HALF_TURN:
        sides = ((west, _HALF_TURN), (-_HALF_TURN, east))
        return np.array([shapely.box(w, south, e, north) for w, e in sides if w < e], dtype=object)
    if not (is_on_earth and west < east):
        raise ConfigError(
            f"{text}: not a box in degrees; expected minx < maxx from -180 to 180 (longitude), "
            "then miny < maxy from -90 to 90 (latitude), in the order minx,miny,maxx,maxy"
        )
    return np.array([shapely.box(west, south, east, north)], dtype=object)


def read_area_file(path: Path, *, crs: CRS | None = None, purpose: str = _LABELS) -> Area:
    """Read the polygons of a vector file, whatever their attributes say; invalid ones are mended.

    Args:
        path: a file as `read_roads` takes it.
        crs: coordinate system to use for a file that does not name a known one.
        purpose: what polygons are expected, and what to do without them, for the error.

    Raises:
        DataError: if the file cannot be read whole, or holds no polygon.
    """
    from roadseg.roads.labels.vectors import read_vectors

    file = read_vectors(path, lambda keys: [key for key in keys if key.lower() == _NAME][:1])
    cleaned = clean_shapes(file.geometries)
    is_polygon = shapely.get_type_id(cleaned.shapes) == shapely.GeometryType.POLYGON
    polygons = cleaned.shapes[is_polygon]
    if not len(polygons):
        dropped = f" ({itemize(cleaned.dropped)})" if +cleaned.dropped else ""
        raise DataError(
            f"{path}: found no polygon in {count(len(file.geometries), 'feature')}{dropped}, "
            f"expected {purpose}"
        )
    owners = cleaned.owner[is_polygon].tolist()
    texts = next(iter(file.columns.values()), np.full(len(file.geometries), None))
    names = tuple(_name(texts[owner]) or f"polygon {owner + 1}" for owner in owners)
    return Area(str(path), file_crs(path, file, polygons, crs), polygons, names)


def _name(value: object) -> str:
    """Return a value of the column of names; "" if it has none."""
    is_missing = value is None or value != value  # noqa: PLR0124 - NaN
    return "" if is_missing else one_line(value)


def area_on(grid: Grid, areas: Iterable[Area]) -> shapely.MultiPolygon:
    """Return the union of areas, as far as they lie on and around a scene, in its metric CRS.

    Args:
        grid: of a scene with a place on earth.
        areas: at least one.
    """
    return polygons_in(shapely.union_all(np.concatenate([_around(grid, each) for each in areas])))


def _around(grid: Grid, area: Area) -> Shapes:
    """Return polygons cut to a box around a scene: far away a metric CRS has no place for them."""
    polygons, crs, tree = area.polygons, area.crs, area.tree
    margin_m = grid.footprint_m.length / 100  # Sides of the box bend less than this.
    ground = shapely.segmentize(grid.footprint_m.buffer(margin_m), grid.footprint_m.length / _STEPS)
    outline = reproject(np.array([ground], dtype=object), grid.metric_crs, crs)
    if not crs.is_geographic:
        box = shapely.box(*shapely.total_bounds(outline))
        cut = _cut(polygons, tree, box)
    else:
        box = _box_of_degrees(grid, shapely.get_coordinates(outline))
        # The date line may lie in the box, or the degrees of the file count from elsewhere.
        turns = (-2 * _HALF_TURN, 0, 2 * _HALF_TURN)
        parts = [_turned(_cut(polygons, tree, _turned(box, turn)), -turn) for turn in turns]
        cut = np.concatenate(parts)
    moved = reproject(shapely.segmentize(cut, box.length / _STEPS), crs, grid.metric_crs)
    return np.asarray(shapely.make_valid(moved), dtype=object)


def _cut(polygons: Shapes, tree: shapely.STRtree, box: shapely.Geometry) -> Shapes:
    near = polygons[tree.query(box)]
    return np.asarray(shapely.intersection(near, box), dtype=object)


def _turned(shapes: Any, degrees: float) -> Any:  # noqa: ANN401 - one geometry or an array
    return shapely.transform(shapes, lambda xy: xy + np.array([degrees, 0]))


def _box_of_degrees(grid: Grid, lon_lat: Floats) -> shapely.Polygon:
    """Return a box around places near a scene, as far as half a turn from it on either side."""
    lon, lat = lon_lat.T
    middle = grid.centre_degrees[0]
    lon = middle + (lon - middle + _HALF_TURN) % (2 * _HALF_TURN) - _HALF_TURN
    west, east, south, north = lon.min(), lon.max(), lat.min(), lat.max()
    return shapely.Polygon([(west, south), (east, south), (east, north), (west, north)])


def _cut_at_date_line(shape: shapely.Geometry) -> shapely.Geometry:
    """Return a shape in degrees whose parts beyond half a turn lie on the other side again."""
    west, _, east, _ = shapely.bounds(shape)
    if not max(-west, east) > _HALF_TURN:
        return shape
    world = shapely.box(-_HALF_TURN, -_HALF_TURN, _HALF_TURN, _HALF_TURN)
    turns = (-2 * _HALF_TURN, 0, 2 * _HALF_TURN)
    return shapely.union_all([shapely.intersection(_turned(shape, turn), world) for turn in turns])


def _gathered(shape: Any) -> Any:  # noqa: ANN401 - any geometry
    """Return a shape in degrees, with those from 0 to 360 if it lies around the date line."""
    west, _, east, _ = shapely.bounds(shape)
    if not east - west > _HALF_TURN:
        return shape
    turned = shapely.transform(
        shape, lambda xy: np.column_stack([xy[:, 0] % (2 * _HALF_TURN), xy[:, 1]])
    )
    left, _, right, _ = shapely.bounds(turned)
    return turned if right - left < east - west else shape
