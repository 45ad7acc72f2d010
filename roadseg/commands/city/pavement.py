"""The surface of the demo city's streets: sidewalks, asphalt, lane lines and cars."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import shapely
from shapely.geometry.base import BaseGeometry

from roadseg.arrays import Floats
from roadseg.commands.city.scenery import (
    Colour,
    SamplePoints,
    Shape,
    World,
    draw_cars,
    make_rectangles,
    pick,
    sample_points,
)
from roadseg.commands.city.streets import ARTERIAL, COLLECTOR, RESIDENTIAL, Street

_LANE_M = 3.6  # Width of a lane in metres.
_BULB_RADIUS_M = 9.0  # Metres; the turning circle of a cul-de-sac.
_FILLET_M = 4.0  # Metres; the radius of the kerb at a street corner.
_CAR_STEP_M = 9.0  # Metres between places that a car may take.

# At a junction the asphalt of the wider street goes through, so that it is painted last.
_PAINTING_ORDER = (RESIDENTIAL, COLLECTOR, ARTERIAL)


def paved_area(streets: Sequence[Street], dead_ends: Sequence[tuple[float, float]]) -> BaseGeometry:
    """Return all pavement as one geometry, with rounded street corners and turning circles."""
    strips = [_strip(street, street.width_m) for street in streets]
    return shapely.union_all([*strips, *_bulbs(dead_ends)]).buffer(_FILLET_M).buffer(-_FILLET_M)


def draw_surface(
    streets: Sequence[Street],
    paved: BaseGeometry,
    dead_ends: Sequence[tuple[float, float]],
    junctions: dict[tuple[float, float], float],
    *,
    rng: np.random.Generator,
    world: World,
) -> Iterator[Shape]:
    """Pave and mark the streets; markings end before a junction.

    Args:
        paved: the area that `paved_area` returns.
        dead_ends: positions (x, y) of turning circles, local metres.
        junctions: width in metres of the widest street by the junction's (x, y).
    """
    surfaces = {
        ARTERIAL: world.fresh_asphalt,
        COLLECTOR: world.asphalt,
        RESIDENTIAL: world.old_asphalt,
    }
    yield from _roadsides(streets, paved, rng, world)
    yield from (Shape(part, world.old_asphalt, grain=5) for part in shapely.get_parts(paved))
    ordered = sorted(streets, key=lambda street: _PAINTING_ORDER.index(street.kind))
    for street in ordered:
        colour = pick([surfaces[street.kind]], rng, spread=9)
        bulbs = _bulbs({street.line.coords[0], street.line.coords[-1]} & set(dead_ends))
        for part in (_strip(street, street.width_m), *bulbs):
            yield Shape(part, colour, grain=5)
    corners = [shapely.Point(xy).buffer(width * 0.65) for xy, width in junctions.items()]
    unmarked = shapely.union_all(corners)
    for street in ordered:
        yield from _markings(street, unmarked, rng, world)


def draw_traffic(
    streets: Sequence[Street], rng: np.random.Generator, world: World
) -> Iterator[Shape]:
    """Yield cars on the right-hand lanes of main streets, and at the kerbs of residential ones."""
    for street in streets:
        places = sample_points([street], step_m=_CAR_STEP_M)
        busy = rng.random(len(places)) < world.cars
        side = rng.choice([-1, 1], size=len(places))
        offsets = side * _car_offsets(street, len(places), rng)
        yield from draw_cars(
            places.beside(offsets)[busy], (places.tangents * -side[:, None])[busy], rng
        )


def _strip(street: Street, width_m: float) -> shapely.Polygon:
    """Return the ground within half a width of a street's centreline."""
    return street.line.buffer(width_m / 2, cap_style="flat")


def _bulbs(dead_ends: Iterable[tuple[float, ...]]) -> list[shapely.Polygon]:
    """Return the turning circles at dead ends."""
    return [shapely.Point(end).buffer(_BULB_RADIUS_M) for end in dead_ends]


def _roadsides(
    streets: Sequence[Street], paved: BaseGeometry, rng: np.random.Generator, world: World
) -> Iterator[Shape]:
    """Yield sidewalks, a strip of lawn between them and small streets, and the kerb."""
    walk = pick([world.concrete], rng, spread=6)
    yield from (Shape(_strip(street, street.width_m + 6.4), walk) for street in streets)
    for street in streets:
        if street.kind == RESIDENTIAL:
            lawn = pick([world.lawn], rng, spread=9)
            yield Shape(_strip(street, street.width_m + 3.4), lawn, opacity=0.85, grain=8)
    yield from (Shape(part, walk) for part in shapely.get_parts(paved.buffer(0.45)))


def _markings(
    street: Street, unmarked: BaseGeometry, rng: np.random.Generator, world: World
) -> Iterator[Shape]:
    """Yield the lines on a street: a seam on small ones, a double yellow line on others."""
    faded = float(rng.uniform(0.55, 0.95))
    if street.kind == RESIDENTIAL:
        # The two sides are paved one after the other, which leaves a dark seam in the middle.
        seam = street.line.buffer(0.2).difference(unmarked)
        yield from (
            Shape(part, world.fresh_asphalt, opacity=0.35) for part in shapely.get_parts(seam)
        )
        return
    double = street.line.buffer(0.55, cap_style="flat").difference(street.line.buffer(0.2))
    for part in shapely.get_parts(double.difference(unmarked)):
        yield Shape(part, world.centre_paint, opacity=faded)
    if street.kind == ARTERIAL:
        places = sample_points([street], step_m=9.0)
        yield from _lane_dashes(places, unmarked, world.white_paint, faded)


def _lane_dashes(
    places: SamplePoints, unmarked: BaseGeometry, paint: Colour, faded: float
) -> Iterator[Shape]:
    """Yield the dashes between the lanes of each direction; none touches an unmarked area."""
    for offset in (-_LANE_M, _LANE_M):
        centres = places.beside(np.full(len(places), offset))
        for dash in make_rectangles(centres, places.tangents, 3.0, 0.35):
            if not dash.intersects(unmarked):
                yield Shape(dash, paint, opacity=faded)


def _car_offsets(street: Street, count: int, rng: np.random.Generator) -> Floats:
    """Return the distance of cars from the centreline, metres: on a lane, or by the kerb."""
    if street.kind == RESIDENTIAL:
        return np.full(count, street.width_m / 2 - 1.1)
    lanes = 2 if street.kind == ARTERIAL else 1
    return np.asarray((rng.integers(lanes, size=count) + 0.5) * _LANE_M + 0.3, dtype=np.float64)
