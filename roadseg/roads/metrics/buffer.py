"""BufferMatch: how much of two road networks lies near the other; correctness and completeness."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import shapely

from roadseg.arrays import Floats, Ints, Lines
from roadseg.roads.graph.directions import cross
from roadseg.roads.graph.road_graph import RoadGraph, require_one_crs
from roadseg.roads.metrics.pooling import Pooled, share

ROUNDING_M = 1e-6  # Metres by which a place may be further than the tolerance by rounding.
_LEVEL = 1e-12  # Directions of less slope are as good as parallel.
_SEGMENTS_AT_ONCE = 65536  # This many segments are compared together.


@dataclass(frozen=True)
class BufferMatch(Pooled):
    """Metres of road near the other side; add those of all pairs to pool.

    A share of nothing (0 / 0) is 1 when there is no road on either side, and 0 otherwise; the
    source refuses an empty reference.

    Attributes:
        predicted_near: what of it lies within the tolerance of the reference.
        reference_near: what of it lies within the tolerance of the prediction.
    """

    predicted: float = 0.0
    predicted_near: float = 0.0
    reference: float = 0.0
    reference_near: float = 0.0

    @property
    def correctness(self) -> float:
        """Share of the prediction near the reference, c = TP / (TP + FP)."""
        return share(self.predicted_near, self.predicted, other_side=self.reference)

    @property
    def completeness(self) -> float:
        """Share of the reference near the prediction, k = TP / (TP + FN)."""
        return share(self.reference_near, self.reference, other_side=self.predicted)

    @property
    def quality(self) -> float:
        """Both in one, c k / (c - c k + k); 0 if both are 0."""
        correct, complete = self.correctness, self.completeness
        whole = correct - correct * complete + complete
        return correct * complete / whole if whole else 0.0


def match_lines(
    reference: RoadGraph, predicted: RoadGraph, *, tolerance_m: float = 4.0
) -> BufferMatch:
    """Measure how much road of each side lies within a distance of the other.

    A place on a road counts if any place of the other side is no further away than `tolerance_m`,
    that distance included, whatever the direction of the road there; a road that is drawn twice
    counts twice. So nodes, order and splits of edges change nothing.

    Args:
        predicted: graph to be scored, in the same metric CRS.
        tolerance_m: greatest distance, above 0.

    Returns:
        Metres of road of both sides.

    Raises:
        ValueError: the CRSs differ, or `tolerance_m` is not above 0.

    Source: C. Heipke, H. Mayer, C. Wiedemann, O. Jamet, "Evaluation of automatic road extraction",
    IAPRS 32 (1997); quality as in C. Wiedemann, "External evaluation of road networks", IAPRS 34
    (2003). These match pieces of roads whose directions agree; we ask for the distance only.
    """
    check_sides(reference, predicted, tolerance_m)
    return BufferMatch(
        float(predicted.length_m.sum()),
        float(lengths_near(predicted.lines, reference.lines, tolerance_m=tolerance_m).sum()),
        float(reference.length_m.sum()),
        float(lengths_near(reference.lines, predicted.lines, tolerance_m=tolerance_m).sum()),
    )


def check_sides(reference: RoadGraph, predicted: RoadGraph, tolerance_m: float) -> None:
    """Check that two graphs can be compared within a distance.

    Raises:
        ValueError: the CRSs differ, or `tolerance_m` is not above 0.
    """
    if not tolerance_m > 0:
        raise ValueError(f"tolerance_m must be above 0, got {tolerance_m}")
    require_one_crs(reference, predicted)


def lengths_near(lines: Lines, others: Lines, *, tolerance_m: float) -> Floats:
    """Return how much of each line lies near any of the others, metres, shape (k,).

    Args:
        lines: LineStrings in metres, shape (k,).
        others: LineStrings in the same metres.
        tolerance_m: greatest distance, that distance included.
    """
    reach = tolerance_m + ROUNDING_M
    segments, line = segments_by_line(lines)
    near = np.zeros(len(lines))
    for block, row, start, end in near_parts(segments, segments_by_line(others)[0], reach):
        before = np.concatenate([[0.0], np.cumsum(_lengths(segments[block]))])[row]
        metres = _new_lengths(before + start, before + end)
        near += np.bincount(line[block][row], weights=metres, minlength=len(lines))
    # What is near as a whole has its own length, not a sum of parts of it.
    length = shapely.length(lines)
    return np.where(near > length - ROUNDING_M, length, near)


def near_parts(
    segments: Floats, others: Floats, reach: float
) -> Iterator[tuple[slice, Ints, Floats, Floats]]:
    """Find the parts of segments that are near others, some segments at a time.

    Args:
        segments: shape (k, 2, 2), straight pieces with length.
        others: shape (n, 2, 2), alike.

    Yields:
        The segments looked at, and of each pair that may be near: the row among these, and where
        on the segment the near part begins and ends; it begins after it ends if there is none.
    """
    tree = shapely.STRtree(np.asarray(shapely.linestrings(others)))
    for first in range(0, len(segments), _SEGMENTS_AT_ONCE):
        block = slice(first, first + _SEGMENTS_AT_ONCE)
        part = segments[block]
        low, high = part.min(axis=1) - reach, part.max(axis=1) + reach
        # Boxes also hold segments beyond reach, whose near part is empty.
        row, near = tree.query(shapely.box(*low.T, *high.T))
        yield block, row, *_part_near(part[row], others[near], reach)


def segments_by_line(lines: Lines) -> tuple[Floats, Ints]:
    """Return the pieces of lines that have length, shape (k, 2, 2), and the row of each's line."""
    xy, line = shapely.get_coordinates(lines, return_index=True)
    pieces = np.stack([xy[:-1], xy[1:]], axis=1)
    is_piece = (pieces[:, 0] != pieces[:, 1]).any(axis=1) & (np.diff(line) == 0)
    return np.asarray(pieces[is_piece]), np.asarray(line[:-1][is_piece])


def _lengths(segments: Floats) -> Floats:
    return np.asarray(np.linalg.norm(segments[:, 1] - segments[:, 0], axis=1))


def _part_near(segments: Floats, others: Floats, reach: float) -> tuple[Floats, Floats]:
    """Return from where to where on each segment the other one is within reach, in metres.

    All that is within reach of a segment is convex: a rectangle and two discs. So the part is one
    piece, from the first place in any of the three to the last.
    """
    length = _lengths(segments)
    along = (segments[:, 1] - segments[:, 0]) / length[:, None]
    # The discs around both ends of the other segment, and the rectangle beside it.
    parts = [_in_disc(segments[:, 0], along, others[:, end], reach) for end in (0, 1)]
    parts.append(_in_rectangle(segments[:, 0], along, others, reach))
    low = np.min([part[0] for part in parts], axis=0)
    high = np.max([part[1] for part in parts], axis=0)
    return np.clip(low, 0, length), np.clip(high, 0, length)


def _in_disc(start: Floats, along: Floats, centre: Floats, reach: float) -> tuple[Floats, Floats]:
    """Return where straight lines enter and leave discs; (inf, -inf) where they do not."""
    middle = ((centre - start) * along).sum(axis=1)
    beside = cross(along, centre - start)
    half = np.sqrt(np.maximum(reach**2 - beside**2, 0))
    meets = np.abs(beside) <= reach
    return np.where(meets, middle - half, np.inf), np.where(meets, middle + half, -np.inf)


def _in_rectangle(
    start: Floats, along: Floats, others: Floats, reach: float
) -> tuple[Floats, Floats]:
    """Return where straight lines enter and leave what lies beside other segments, as above."""
    length = _lengths(others)
    axis = (others[:, 1] - others[:, 0]) / length[:, None]
    offset = start - others[:, 0]
    ahead = _within((offset * axis).sum(axis=1), (along * axis).sum(axis=1), 0, length)
    beside = _within(cross(axis, offset), cross(axis, along), -reach, reach)
    low, high = np.maximum(ahead[0], beside[0]), np.minimum(ahead[1], beside[1])
    meets = low <= high
    return np.where(meets, low, np.inf), np.where(meets, high, -np.inf)


def _within(
    value: Floats, slope: Floats, least: float, most: Floats | float
) -> tuple[Floats, Floats]:
    """Return from where to where value + slope s lies between two limits."""
    # A line along the limits lies between them as a whole or not at all.
    is_level = np.abs(slope) < _LEVEL
    safe = np.where(is_level, 1, slope)
    ends = (least - value) / safe, (most - value) / safe
    inside = (least <= value) & (value <= most)
    low = np.where(is_level, np.where(inside, -np.inf, np.inf), np.minimum(*ends))
    high = np.where(is_level, np.where(inside, np.inf, -np.inf), np.maximum(*ends))
    return low, high


def _new_lengths(low: Floats, high: Floats) -> Floats:
    """Return the length that each interval adds to those that begin before it.

    One that ends before its start adds none.
    """
    order = np.argsort(low)
    start, end = low[order], np.maximum(high, low)[order]
    reached = np.maximum.accumulate(np.concatenate([[0.0], end]))[:-1]
    added = np.empty(len(low))
    added[order] = np.maximum(end - np.maximum(start, reached), 0)
    return added
