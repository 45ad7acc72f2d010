"""Directions: unit vectors and the angles between them; places and headings near ends of lines."""

import numpy as np
import shapely

from roadseg.arrays import Bools, Floats, Lines


def unit(vectors: Floats) -> Floats:
    """Return vectors, shape (n, 2), with a length of 1; those of length 0 stay."""
    lengths = np.hypot(*vectors.T)[:, np.newaxis]
    return vectors / np.where(lengths > 0, lengths, 1)


def left_of(vectors: Floats) -> Floats:
    """Return vectors, shape (n, 2), turned by 90 degrees to the left."""
    return np.column_stack([-vectors[:, 1], vectors[:, 0]])


def cross(one: Floats, other: Floats) -> Floats:
    """Return the cross products of vectors, above 0 where the other one points to the left."""
    return np.asarray(one[:, 0] * other[:, 1] - one[:, 1] * other[:, 0])


def cosine(steps: Floats, headings: Floats) -> Floats:
    """Return the cosine of the angle between steps and headings (unit vectors)."""
    return np.asarray(np.sum(unit(steps) * headings, axis=1), dtype=np.float64)


def places_inside(lines: Lines, metres: Floats | float, at_start: Bools) -> Floats:
    """Return the places `metres` from the start of lines, or else from their end, (n, 2)."""
    from_start = np.where(at_start, metres, np.maximum(shapely.length(lines) - metres, 0))
    return np.asarray(shapely.get_coordinates(shapely.line_interpolate_point(lines, from_start)))


def end_steps(lines: Lines, at_start: Bools, *, over_m: Floats | float) -> Floats:
    """Return the steps to an end of lines from `over_m` before it or from the other end, (n, 2)."""
    inside = places_inside(lines, np.minimum(over_m, shapely.length(lines)), at_start)
    ends = shapely.get_point(lines, np.where(at_start, 0, -1))
    return np.asarray(shapely.get_coordinates(ends) - inside)
