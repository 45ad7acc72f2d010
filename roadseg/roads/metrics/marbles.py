"""Marbles: a road graph as a network on which they are laid, for TOPO."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from roadseg.roads.metrics.vertex_graphs import VertexGraph

METRE = 1e-5  # Degrees; a metre of the source, which is 1.11 m on the ground.
_STEP = 5 * METRE  # Degrees between marbles.

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
    """A vertex graph as lists.

    Attributes:
        places: latitude and longitude of each vertex.
        around: the neighbours of each vertex, each with its distance in degrees.
        order: the vertices, in the order in which the source meets them.
    """

    places: list[tuple[float, float]]
    around: list[dict[int, float]]
    order: list[int]

    @classmethod
    def of(cls, graph: VertexGraph) -> "Network":
        """Take the vertices of a graph, their neighbours in the order of their numbers."""
        places = list(zip(graph.lat.tolist(), graph.lon.tolist(), strict=True))
        around: list[dict[int, float]] = [{} for _ in places]
        both = np.concatenate([graph.pairs, graph.pairs[:, ::-1]])
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
