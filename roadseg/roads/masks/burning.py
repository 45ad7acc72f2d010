"""Road labels to a mask of speed bins."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import shapely
from rasterio.features import rasterize

from roadseg.arrays import Bools, Bytes, Floats, Shapes
from roadseg.raster.grid import Grid
from roadseg.roads.labels.roads import Roads
from roadseg.roads.speeds import SpeedBins

BACKGROUND = 0
IGNORE = 255
_QUADRANT_SEGMENTS = 16  # Edges of a quarter of a round end, as in geopandas.


@dataclass(frozen=True)
class RoadAreas:
    """The ground that roads cover, ready to be burnt.

    Attributes:
        shapes: shape (n,), polygons in the CRS of the scene, from slow to fast.
        bins: shape (n,), the speed bin of each.
    """

    shapes: Shapes
    bins: Bytes

    @cached_property
    def tree(self) -> shapely.STRtree:
        """Index of the shapes."""
        return shapely.STRtree(self.shapes)


def areas_of_roads(roads: Roads, grid: Grid, *, bins: SpeedBins) -> RoadAreas:
    """Widen lines to areas, and bring all to the CRS of a scene, ready to be burnt.

    Args:
        roads: in `grid.metric_crs`; lines become `width_m` wide, polygons stay as they are.
    """
    return areas_of_lines(roads.shapes, roads.half_width_m, roads.speed_mph, grid, bins=bins)


def areas_of_lines(
    shapes: Shapes, half_m: Floats, speed_mph: Floats, grid: Grid, *, bins: SpeedBins
) -> RoadAreas:
    """Widen shapes, and bring them to the CRS of a scene, ready to be burnt.

    Args:
        shapes: in `grid.metric_crs`.
        half_m: shape (n,), metres by which each is widened on all sides.
        speed_mph: shape (n,).
    """
    numbers = bins.bin_of(speed_mph)
    # What is burnt last is seen, so that overlaps go to the faster road.
    order = np.argsort(numbers, kind="stable")
    areas = shapely.buffer(shapes[order], half_m[order], quad_segs=_QUADRANT_SEGMENTS)
    return RoadAreas(grid.placed(np.asarray(areas, dtype=object)), numbers[order])


def areas_of_polygons(polygons: shapely.MultiPolygon, grid: Grid) -> RoadAreas:
    """Make polygons ready to be burnt with 1.

    Args:
        polygons: in `grid.metric_crs`.
    """
    shapes = grid.placed(shapely.get_parts(polygons))
    return RoadAreas(shapes, np.ones(len(shapes), dtype=np.uint8))


def burn_roads(areas: RoadAreas, grid: Grid) -> Bytes:
    """Burn roads into the mask of a scene or of a window of it; overlaps go to the faster road.

    A pixel belongs to a road when its centre lies inside of the road's area.

    Args:
        areas: in the CRS of the grid.

    Returns:
        Mask of shape (grid.height, grid.width): 0 background, else the speed bin.
    """
    chosen = np.sort(areas.tree.query(grid.footprint))
    if len(chosen) == 0:
        return np.zeros((grid.height, grid.width), dtype=np.uint8)
    mask: Bytes = rasterize(
        zip(_mappings(areas.shapes[chosen]), areas.bins[chosen].tolist(), strict=True),
        out_shape=(grid.height, grid.width),
        transform=grid.transform,
        fill=BACKGROUND,
        dtype="uint8",
    )
    return mask


def road_pixels(mask: Bytes) -> Bools:
    """Return which pixels of a mask are road, of any speed; same shape."""
    return np.asarray((mask != BACKGROUND) & (mask != IGNORE))


def _mappings(polygons: Shapes) -> Iterator[dict[str, Any]]:
    """Yield polygons as rasterio takes them; shapely's own way to do it takes twice as long."""
    kind, points, (rings, *groups) = shapely.to_ragged_array(polygons)
    # The buffer of a line may be nothing, or have several parts.
    if kind != shapely.GeometryType.POLYGON:
        yield from (shapely.geometry.mapping(polygon) for polygon in polygons)
        return
    edges = points.tolist()
    for first, last in itertools.pairwise(groups[0].tolist()):
        bounds = itertools.pairwise(rings[first : last + 1].tolist())
        yield {"type": "Polygon", "coordinates": [edges[start:end] for start, end in bounds]}
