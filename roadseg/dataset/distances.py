"""Distances on the ground between the footprints of chips."""

from collections.abc import Sequence

import numpy as np
import shapely
from pyproj import CRS

from roadseg.arrays import Floats, Shapes
from roadseg.dataset.chips import NO_ZONE, ChipRecord
from roadseg.dataset.footprints import Pairs, corners_degrees
from roadseg.raster.grid import DEGREES, transformer

Ground = int | str  # EPSG number of a metric CRS, or the name of a scene without georeference.


def ground_of(chip: ChipRecord) -> Ground:
    """Return what the metres of a chip count from: its zone, or its scene without georeference."""
    return chip.scene if chip.zone == NO_ZONE else chip.zone


def nearest_m(chips: Sequence[ChipRecord], others: Sequence[ChipRecord]) -> Floats:
    """Return how far each chip is from the nearest of others, from footprint to footprint.

    Distances are measured in the metric CRS of the chip, also to others beyond the edge of its
    zone. A scene without georeference is at no distance from other scenes.

    Returns:
        Metres, shape (n,): 0 where footprints touch or overlap, infinite if there is no other.
    """
    grounds = np.array([ground_of(chip) for chip in chips], dtype=object)
    nearest = np.full(len(chips), np.inf)
    for ground in dict.fromkeys(grounds):
        here = np.flatnonzero(grounds == ground)
        tree = shapely.STRtree(_footprints(others, ground))
        own = _footprints([chips[index] for index in here.tolist()], ground)
        (found, _), metres = tree.query_nearest(own, all_matches=False, return_distance=True)
        nearest[here[found]] = metres
    return nearest


def near_pairs(chips: Sequence[ChipRecord], *, within_m: float) -> Pairs:
    """Find the pairs of chips up to a distance from each other, as `nearest_m` measures it.

    Returns:
        Indices, shape (m, 2), in no order; a pair may come twice.
    """
    pairs = [np.empty((0, 2), dtype=np.int64)]
    grounds = np.array([ground_of(chip) for chip in chips], dtype=object)
    for ground in dict.fromkeys(grounds):
        here = np.flatnonzero(grounds == ground)
        tree = shapely.STRtree(_footprints(chips, ground))
        first, second = tree.query(tree.geometries[here], "dwithin", within_m)
        pairs.append(np.column_stack([here[first], second]))
    found = np.concatenate(pairs)
    return np.asarray(found[found[:, 0] < found[:, 1]])


def _footprints(chips: Sequence[ChipRecord], ground: Ground) -> Shapes:
    """Return the footprint of each chip in the metres of a ground; None where it is not on it."""
    shapes = np.full(len(chips), None, dtype=object)
    is_home = np.array([ground_of(chip) == ground for chip in chips], dtype=bool)
    corners = np.array([chip.corners_m for chip in chips], dtype=np.float64).reshape(-1, 4, 2)
    shapes[is_home] = shapely.polygons(corners[is_home])
    zones = np.array([chip.zone for chip in chips], dtype=np.int64)
    beyond = np.flatnonzero(~is_home & (zones != NO_ZONE))
    if isinstance(ground, int) and len(beyond):
        lon, lat = np.moveaxis(corners_degrees(corners[beyond], zones[beyond]), -1, 0)
        to_metres = transformer(DEGREES, CRS.from_epsg(ground))
        moved = np.stack(to_metres.transform(lon, lat), axis=-1)
        is_found = np.isfinite(moved).all(axis=(1, 2))  # No zone reaches all around the globe.
        shapes[beyond[is_found]] = shapely.polygons(moved[is_found])
    return shapes
