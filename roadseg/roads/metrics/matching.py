"""Matching: which lines of two road networks show the same road, place by place."""

from dataclasses import dataclass

import numpy as np
import shapely

from roadseg.arrays import Columns, Floats, Ints, Lines
from roadseg.roads.graph.groups import begin_runs
from roadseg.roads.graph.road_graph import ranges
from roadseg.roads.metrics.buffer import ROUNDING_M, segments_by_line

SPACING_M = 5.0  # Metres between the places at which lines are compared, at most; as in TOPO.
MOST_TURN_DEG = 45.0  # Degrees; lines that differ by as much are not the same road, as in TOPO.
_SAMPLES_AT_ONCE = 50_000  # This many are compared together.


@dataclass(frozen=True)
class Samples:
    """Points on lines, in the order in which they lie on these.

    Attributes:
        xy: shape (k, 2), metres.
        direction: shape (k, 2), of length 1, along the line.
        line: shape (k,), the row of the line.
        along_m: shape (k,), metres from its start.
    """

    xy: Floats
    direction: Floats
    line: Ints
    along_m: Floats


@dataclass(frozen=True)
class Matches(Columns):
    """Samples and lines that show the same road; shape (k,) each.

    Attributes:
        along_m: metres from the start of this line to its nearest place.
        distance_m: of this place from the sample.
        turned_deg: angle between both lines there, whichever way they are drawn, 0 to 45.
    """

    sample: Ints
    line: Ints
    along_m: Floats
    distance_m: Floats
    turned_deg: Floats


def samples(lines: Lines) -> Samples:
    """Spread places over lines: the middles of the fewest equal parts of at most `SPACING_M`.

    Args:
        lines: LineStrings in metres; one without length has no sample.
    """
    segments, line = segments_by_line(lines)
    vectors = segments[:, 1] - segments[:, 0]
    length = np.hypot(*vectors.T)
    total = np.bincount(line, weights=length, minlength=len(lines))
    parts = np.ceil(total / SPACING_M).astype(np.int64)
    row = np.repeat(np.arange(len(lines)), parts)
    nth = ranges(np.zeros_like(parts), parts)
    along = (nth + 0.5) / parts[row] * total[row]
    # On one axis with all lines behind each other, the segment is the last that begins before.
    begin = np.cumsum(length) - length
    before = np.cumsum(total) - total
    segment = np.searchsorted(begin, before[row] + along, side="right") - 1
    unit = vectors[segment] / length[segment, None]
    past = before[row] + along - begin[segment]
    return Samples(segments[segment, 0] + unit * past[:, None], unit, row, along)


def match(places: Samples, lines: Lines, *, tolerance_m: float) -> Matches:
    """Find the lines that show the same road as each place.

    Args:
        lines: LineStrings in the same metres.
        tolerance_m: greatest distance, that distance included.

    Returns:
        Each sample with the nearest place of each line within the tolerance that differs in
        direction by less than 45 degrees; by sample, the nearest line first.
    """
    segments, line = segments_by_line(lines)
    length = np.hypot(*(segments[:, 1] - segments[:, 0]).T)
    total = np.bincount(line, weights=length, minlength=len(lines))
    begin = np.cumsum(length) - length - (np.cumsum(total) - total)[line]
    tree = shapely.STRtree(np.asarray(shapely.linestrings(segments)))
    reach = tolerance_m + ROUNDING_M
    blocks = []
    for first in range(0, max(len(places.xy), 1), _SAMPLES_AT_ONCE):
        xy = places.xy[first : first + _SAMPLES_AT_ONCE]
        near = tree.query(shapely.points(xy), predicate="dwithin", distance=reach)
        sample, segment = near[0] + first, near[1]
        pair = _feet(places.xy[sample], places.direction[sample], segments[segment])
        at = Matches(sample, line[segment], begin[segment] + pair[0], pair[1], pair[2])
        blocks.append(_nearest_of_each(at.take(at.turned_deg < MOST_TURN_DEG)))
    return Matches.joined(blocks)


def _feet(xy: Floats, direction: Floats, segments: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the nearest place on each segment, metres from its start, its distance and angle."""
    vector = segments[:, 1] - segments[:, 0]
    length = np.hypot(*vector.T)
    unit = vector / length[:, None]
    offset = xy - segments[:, 0]
    along = np.clip((offset * unit).sum(axis=1), 0, length)
    distance = np.hypot(*(offset - along[:, None] * unit).T)
    cosine = np.minimum(np.abs((unit * direction).sum(axis=1)), 1)
    return along, distance, np.degrees(np.arccos(cosine))


def _nearest_of_each(matches: Matches) -> Matches:
    """Keep the nearest place on each line of each sample, by sample and then by distance."""
    distance = np.round(matches.distance_m, 6)
    matches = matches.take(np.lexsort([matches.turned_deg, distance, matches.line, matches.sample]))
    matches = matches.take(begin_runs(matches.sample, matches.line))
    # Of lines equally near, such as two that cross, the one that turns least is first.
    distance = np.round(matches.distance_m, 6)
    order = np.lexsort([matches.line, matches.turned_deg, distance, matches.sample])
    return matches.take(order)
