"""Areas: the polygons in which road labels are complete."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import shapely
from pyproj import CRS

from roadseg.errors import DataError
from roadseg.raster.grid import Grid, reproject
from roadseg.roads.labels.roads import Roads, Shapes, read_roads
from roadseg.roads.options import LabelOptions

_STEPS = 64  # Along an outline that bends when it is brought to another CRS.
_ANY_SHAPE = LabelOptions(scheme="constant", exclude=(), tunnels=True)


def read_areas(path: Path, *, crs: CRS | None = None) -> Roads:
    """Read the polygons of a vector file, whatever their attributes say.

    Args:
        path: a file as `read_roads` takes it.
        crs: coordinate system to use for a file that does not name a known one.

    Raises:
        DataError: if the file cannot be read whole, or holds no polygon.
    """
    shapes = read_roads(path, options=_ANY_SHAPE, crs=crs).roads
    if not shapes.has_areas:
        raise DataError(
            f"{path}: found no polygon among its {len(shapes.shapes)} shapes, expected those in "
            "which labels are complete; draw them, or remove the file from labels.area"
        )
    return shapes.take(shapes.is_area)


def area_on(grid: Grid, files: Iterable[Roads]) -> shapely.MultiPolygon:
    """Return the union of polygons, as far as they lie on and around a scene, in its metric CRS.

    Args:
        grid: of a scene with a place on earth.
        files: of `read_areas`, at least one.
    """
    shapes = np.concatenate([_around(grid, areas) for areas in files])
    return polygons_in(shapely.union_all(shapes))


def _around(grid: Grid, areas: Roads) -> Shapes:
    """Return polygons cut to a box around a scene: far away a metric CRS has no place for them."""
    margin_m = grid.footprint_m.length / 100  # Sides of the box bend less than this.
    ground = shapely.segmentize(grid.footprint_m.buffer(margin_m), grid.footprint_m.length / _STEPS)
    outline = reproject(np.array([ground], dtype=object), grid.metric_crs, areas.crs)
    box = shapely.box(*shapely.total_bounds(outline))
    cut = shapely.intersection(areas.shapes[areas.tree.query(box)], box)
    return reproject(shapely.segmentize(cut, box.length / _STEPS), areas.crs, grid.metric_crs)


def polygons_in(geometry: shapely.Geometry) -> shapely.MultiPolygon:
    """Return the polygons of a geometry without its lines and points; none is a valid answer."""
    parts = shapely.get_parts(shapely.get_parts(geometry))
    return shapely.MultiPolygon([part for part in parts if isinstance(part, shapely.Polygon)])
