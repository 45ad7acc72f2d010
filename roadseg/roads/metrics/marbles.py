"""Marbles: a road graph as a network on which they are laid, at the places of Sat2Graph's TOPO."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import shapely

from roadseg.roads.graph.road_graph import RoadGraph, require_one_crs, unique_pairs

METRES_PER_DEGREE = 111111.0  # Metres of a degree of latitude in the source.
METRE = 1e-5  # Degrees; a metre of the source, which is 1.11 m on the ground.
_STEP = 5 * METRE  # Degrees between marbles.
_LATITUDE, _LONGITUDE = 41.0, -71.0  # Degrees; the source pretends that every tile lies here.
_WIDE = math.cos(math.radians(_LATITUDE))  # Width of a degree of longitude there.
_DECIMALS = 3  # Decimals of metres to which coordinates are rounded before they are compared.

Marble = tuple[int, int, float]  # First and last vertex of its segment, and part of its length.


class Place(NamedTuple):
    """A place on a segment: its ends, the distance from each in degrees, latitude, longitude."""

    start: int
    goal: int
    from_start: float
    from_goal: float
    lat: float
    lon: float


@dataclass(frozen=True)
class Network:
    """Every vertex of a road graph at a made-up place, and its neighbours.

    Attributes:
        places: latitude and longitude of each vertex, south and east of 41 N, 71 W; degrees of
            111,111 m, those of longitude times the cosine of 41 N.
        around: the neighbours of each vertex, each with its distance in degrees.
        order: the vertices, in the order in which the source meets them.
    """

    places: list[tuple[float, float]]
    around: list[dict[int, float]]
    order: list[int]

    @classmethod
    def from_graph(cls, graph: RoadGraph, corner: tuple[float, float]) -> "Network":
        """Number the vertices as the lines of a graph meet them, each rounded to 1 mm.

        Args:
            corner: x and y, in metres, of what lies at 41 N, 71 W.
        """
        xy, line = shapely.get_coordinates(graph.lines, return_index=True)
        south_east = np.column_stack([corner[1] - xy[:, 1], xy[:, 0] - corner[0]]).round(_DECIMALS)
        moves = (np.diff(line) == 0) & (np.diff(south_east, axis=0) != 0).any(axis=1)
        steps = np.stack([south_east[:-1][moves], south_east[1:][moves]], axis=1)
        ends = steps.reshape(-1, 2) + 0.0  # This makes 0.0 of -0.0.
        first, key = unique_pairs(ends)
        order = np.argsort(first)
        number = np.empty_like(order)
        number[order] = np.arange(len(order))
        south, east = ends[first[order]].T
        lat = _LATITUDE - south / METRES_PER_DEGREE
        lon = _LONGITUDE + east / METRES_PER_DEGREE / _WIDE
        places = list(zip(lat.tolist(), lon.tolist(), strict=True))
        # Neighbours are in the order of their numbers.
        pairs = np.unique(np.sort(number[key].reshape(-1, 2), axis=1), axis=0)
        around: list[dict[int, float]] = [{} for _ in places]
        both = np.concatenate([pairs, pairs[:, ::-1]])
        for start, goal in both[np.lexsort(both.T[::-1])].tolist():
            around[start][goal] = apart(places[goal], places[start])
        met = (vertex for start, near in enumerate(around) for vertex in (start, *near))
        return cls(places, around, list(dict.fromkeys(met)))

    def walk(self, place: Place, radius: float) -> list[Marble]:
        """Return the marbles from a place on: of each its segment and the part of its length."""
        home = (place.start, place.goal)
        marbles = _along(home, self.around[home[0]][home[1]])
        laid: dict[tuple[int, int], float] = {}
        for near, far, distance, is_first in self._steps(place, radius, home):
            if is_first:
                parts = _parts((near, far), self.around[near][far], distance, radius, laid)
                marbles.extend((near, far, part) for part in parts)
        return list(dict.fromkeys(marbles))

    def _steps(
        self, place: Place, radius: float, home: tuple[int, int]
    ) -> Iterator[tuple[int, int, float, bool]]:
        """Go through the network, breadth first: each segment, its distance, and if it is laid.

        A vertex that is reached again, but sooner, passes it on without marbles where its next
        vertex is within the radius.
        """
        # The queue grows while it is walked; it starts at both ends of the segment of the place.
        queue = [(place.start, -1, place.from_start), (place.goal, -1, place.from_goal)]
        best: dict[int, float] = {}
        for vertex, before, distance in queue:
            old = best.get(vertex)
            if distance > radius or (old is not None and old <= distance):
                continue
            best[vertex] = distance
            for near, length in self.around[vertex].items():
                if near == before or near in home:
                    continue
                yield vertex, near, distance, old is None or old + length >= radius
                queue.append((near, vertex, distance + length))

    def reach(self, place: Place, radius: float) -> dict[tuple[int, int], float]:
        """Return the distance at which each segment around a place is entered.

        As in the source, both ends of the place's own segment are as far as its first.
        """
        both = place._replace(from_goal=place.from_start)
        entered: dict[tuple[int, int], float] = {}
        for vertex, near, distance, _ in self._steps(both, radius, (place.start, place.goal)):
            entered[vertex, near] = min(distance, entered.get((vertex, near), math.inf))
        return entered


def networks(reference: RoadGraph, predicted: RoadGraph) -> tuple[Network, Network]:
    """Return both graphs as networks where the source expects them.

    Args:
        predicted: graph to be scored, in the same metric CRS.

    Raises:
        ValueError: the CRSs differ, or a coordinate is not finite.
    """
    require_one_crs(reference, predicted)
    xy = shapely.get_coordinates(np.concatenate([reference.lines, predicted.lines]))
    if not np.isfinite(xy).all():
        raise ValueError("a line has a coordinate that is not finite")
    corner = (float(xy[:, 0].min()), float(xy[:, 1].max())) if len(xy) else (0.0, 0.0)
    return Network.from_graph(reference, corner), Network.from_graph(predicted, corner)


def apart(here: tuple[float, float], there: tuple[float, float]) -> float:
    """Return the distance of two places in degrees of latitude, as seen from the first."""
    north = here[0] - there[0]
    east = (here[1] - there[1]) * math.cos(math.radians(here[0]))
    return math.sqrt(north * north + east * east)


def _along(home: tuple[int, int], length: float) -> list[Marble]:
    """Return the marbles on the whole segment of a place, from its goal to its start."""
    marbles, part = [], 0.0
    while part <= 1:
        marbles.append((home[1], home[0], part))
        part += _STEP / length
    return marbles


def _parts(
    segment: tuple[int, int],
    length: float,
    distance: float,
    radius: float,
    laid: dict[tuple[int, int], float],
) -> Iterator[float]:
    """Yield where on a segment marbles lie, but for those laid before; note how far they go."""
    first = laid.get(segment, 0.0)
    last = length - laid.get(segment[::-1], 0.0)
    # Marbles lie where the distance from the place is a multiple of the step.
    at = _STEP * math.ceil(distance / _STEP) - distance
    while at < length:
        part = at / length
        if distance + length * part > radius or (length * part > last and length * part >= first):
            break
        if length * part >= first:
            yield part
        at += _STEP
    laid[segment] = at - _STEP
