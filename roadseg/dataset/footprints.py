"""Footprints of chips on the ground: overlaps, distances, and areas far apart."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import shapely
from pyproj import CRS

from roadseg.arrays import Floats, Ints, Shapes
from roadseg.dataset.chips import NO_ZONE, ChipRecord
from roadseg.raster.grid import DEGREES, transformer
from roadseg.roads.graph.groups import connected_groups

Corners = Floats
Pairs = Ints
Frame = int | str  # EPSG number of a metric CRS, or the name of a scene without georeference.

_OVERLAP_SHARE = 0.01
_EARTH_KM = 6371.0
_FAR_M = 1.5e7  # Metres from the origin of a zone; the other side of the globe is farther.


def overlapping_pairs(
    corners_m: Corners, zones: Sequence[int] | Ints, *, share: float = _OVERLAP_SHARE
) -> Pairs:
    """Find pairs of overlapping footprints; those without georeference overlap none.

    Footprints are compared in the metres of their zone, those of two zones in the metres of both.
    Tiles whose edges only touch do not overlap. The time grows with the number of footprints and
    pairs.

    Args:
        corners_m: shape (n, 4, 2), x and y of the corners in order around each footprint, in
            the metric CRS of its zone.
        zones: EPSG number of each footprint's metric CRS; `NO_ZONE` without georeference.
        share: footprints overlap if they share more than this of the area of the smaller one.

    Returns:
        Shape (m, 2), the smaller index first, sorted.
    """
    corners, number = np.asarray(corners_m).reshape(-1, 4, 2), np.asarray(zones, dtype=np.int64)
    overlapping = [np.empty((0, 2), dtype=np.int64)]
    middle = corners.mean(axis=1, keepdims=True)
    # Shrunk by this share, tiles that only touch do not meet, but the smaller one of a pair does.
    inner = shapely.polygons(middle + (corners - middle) * np.sqrt(1 - share))
    for zone in np.unique(number[number != NO_ZONE]).tolist():
        here, shapes = np.flatnonzero(number == zone), _shapes_in(corners, number, zone)
        row, other = shapely.STRtree(shapes).query(inner[here], predicate="intersects")
        pairs = np.column_stack([here[row], other])[here[row] != other]
        first, second = shapes[pairs].T
        smaller = np.minimum(shapely.area(first), shapely.area(second))
        is_overlap = shapely.area(shapely.intersection(first, second)) > share * smaller
        overlapping.append(np.sort(pairs[is_overlap], axis=1))
    return np.unique(np.concatenate(overlapping), axis=0)


def corners_degrees(corners_m: Corners, zones: Sequence[int] | Ints) -> Corners:
    """Convert footprints to longitude and latitude.

    Args:
        corners_m: shape (n, 4, 2), x and y in the metric CRS of each footprint's zone.
        zones: EPSG number of each footprint's metric CRS.

    Returns:
        The same shape; in a footprint that crosses the 180th meridian, longitudes exceed 180.
    """
    number = np.asarray(zones)
    degrees = np.empty_like(corners_m)
    for zone in np.unique(number):
        here = number == zone
        x, y = corners_m[here].reshape(-1, 2).T
        lon_lat = transformer(CRS.from_epsg(int(zone)), DEGREES).transform(x, y)
        degrees[here] = np.column_stack(lon_lat).reshape(-1, 4, 2)
    first = degrees[:, :1, 0]
    degrees[..., 0] = first + (degrees[..., 0] - first + 180) % 360 - 180
    return degrees


def unbroken(degrees: Corners) -> Corners:
    """Shift longitudes by multiples of 360 degrees so that neighbours are not separated at 180.

    The new seam is in the middle of the longest stretch without a footprint.

    Args:
        degrees: shape (n, 4, 2), longitude and latitude.
    """
    if len(degrees) == 0:
        return degrees
    west = degrees[..., 0].min(axis=1)
    around = np.sort(west % 360)
    gaps = np.diff(around, append=around[0] + 360)
    seam = around[gaps.argmax()] + gaps.max() / 2
    turned = degrees.copy()
    turned[..., 0] -= 360 * np.floor((west - seam) / 360)[:, None]
    return turned


def globe_km(degrees: Floats) -> Floats:
    """Convert longitudes and latitudes to km from the centre of the globe, shape (n, 3)."""
    lon, lat = np.deg2rad(degrees).T
    around = [np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)]
    return np.asarray(np.column_stack(around) * _EARTH_KM)


def areas_apart(degrees: Corners, *, gap_km: float) -> Ints:
    """Group footprints into areas that lie far apart from each other.

    Args:
        degrees: shape (n, 4, 2), longitude and latitude.
        gap_km: footprints whose centres are nearer to each other than this belong to one area, and
            so do chains of them.

    Returns:
        Area of each footprint, shape (n,), numbered from 0 by the first footprint of each.
    """
    from scipy.spatial import cKDTree

    cells = np.floor(globe_km(degrees.mean(axis=1)) / gap_km)
    cells, of_chip = np.unique(cells, axis=0, return_inverse=True)
    links = cKDTree(cells).query_pairs(1, p=np.inf, output_type="ndarray")
    area = connected_groups(links, nodes=len(cells))[of_chip.reshape(-1)]
    _, first, number = np.unique(area, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[number]


def frame_of(chip: ChipRecord) -> Frame:
    """Return the coordinate frame of a chip: its zone or, without georeference, its scene."""
    return chip.scene if chip.zone == NO_ZONE else chip.zone


def nearest_m(chips: Sequence[ChipRecord], others: Sequence[ChipRecord]) -> Floats:
    """Return the distance of each chip from the nearest of others, between footprints.

    Distances are measured in the metric CRS of the chip, also to others beyond the edge of its
    zone. Between a scene without georeference and other scenes, there is no distance.

    Returns:
        Metres, shape (n,): 0 if footprints touch or overlap, infinite if there is no other chip.
    """
    frames = np.array([frame_of(chip) for chip in chips], dtype=object)
    nearest = np.full(len(chips), np.inf)
    for frame in dict.fromkeys(frames):
        here = np.flatnonzero(frames == frame)
        tree = shapely.STRtree(_shapes_on(others, frame))
        own = _shapes_on([chips[index] for index in here.tolist()], frame)
        (found, _), metres = tree.query_nearest(own, all_matches=False, return_distance=True)
        nearest[here[found]] = metres
    return nearest


def near_pairs(chips: Sequence[ChipRecord], *, within_m: float) -> Pairs:
    """Find the pairs of chips up to a distance from each other, measured as by `nearest_m`.

    Returns:
        Indices, shape (m, 2), in any order; a pair may occur twice.
    """
    pairs = [np.empty((0, 2), dtype=np.int64)]
    frames = np.array([frame_of(chip) for chip in chips], dtype=object)
    for frame in dict.fromkeys(frames):
        here = np.flatnonzero(frames == frame)
        tree = shapely.STRtree(_shapes_on(chips, frame))
        first, second = tree.query(tree.geometries[here], "dwithin", within_m)
        pairs.append(np.column_stack([here[first], second]))
    found = np.concatenate(pairs)
    return np.asarray(found[found[:, 0] < found[:, 1]])


def same_place_pairs(chips: Sequence[ChipRecord], labels: Mapping[str, Path]) -> Pairs:
    """Find chips that show one place: they overlap or, without georeference, share a label file.

    A file that serves all scenes without georeference says nothing about their places.

    Args:
        labels: the label file of each scene.

    Returns:
        Indices, shape (m, 2): pairs of overlapping chips, and pairs of one chip of each label file
        with every other chip of this file.
    """
    corners_m = np.array([chip.corners_m for chip in chips])
    overlaps = overlapping_pairs(corners_m, [chip.zone for chip in chips])
    local = [row for row, chip in enumerate(chips) if chip.zone == NO_ZONE]
    files = [labels[chips[row].scene] for row in local]
    if not 1 < len(set(files)) < len({chips[row].scene for row in local}):
        return overlaps
    first: dict[Path, int] = {}
    pairs = [(first.setdefault(file, row), row) for file, row in zip(files, local, strict=True)]
    of_labels = np.array([pair for pair in pairs if pair[0] != pair[1]], dtype=np.int64)
    return np.concatenate([overlaps, of_labels])


def _shapes_on(chips: Sequence[ChipRecord], frame: Frame) -> Shapes:
    """Return the footprint of each chip in a coordinate frame, metres; None if it is not in it."""
    corners = np.array([chip.corners_m for chip in chips], dtype=np.float64).reshape(-1, 4, 2)
    if isinstance(frame, int):
        return _shapes_in(corners, np.array([chip.zone for chip in chips], dtype=np.int64), frame)
    shapes = np.full(len(chips), None, dtype=object)
    is_home = np.array([frame_of(chip) == frame for chip in chips], dtype=bool)
    shapes[is_home] = shapely.polygons(corners[is_home])
    return shapes


def _shapes_in(corners: Corners, zones: Ints, zone: int) -> Shapes:
    """Return footprints in the metres of a zone; None if one has no place there."""
    shapes = np.full(len(corners), None, dtype=object)
    shapes[zones == zone] = shapely.polygons(corners[zones == zone])
    beyond = np.flatnonzero((zones != zone) & (zones != NO_ZONE))
    if len(beyond):
        lon, lat = np.moveaxis(corners_degrees(corners[beyond], zones[beyond]), -1, 0)
        to_metres = transformer(DEGREES, CRS.from_epsg(zone))
        moved = np.stack(to_metres.transform(lon, lat), axis=-1)
        # No zone reaches all around the globe: there, what crosses the equator would be torn.
        is_found = (np.abs(moved) < _FAR_M).all(axis=(1, 2))
        shapes[beyond[is_found]] = shapely.polygons(moved[is_found])
    return shapes
