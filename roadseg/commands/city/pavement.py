"""The surface of the demo city's streets: sidewalks, asphalt, lane lines and cars."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import shapely
from shapely.geometry.base import BaseGeometry

from roadseg.arrays import Floats
from roadseg.commands.city.scenery import (
    ASPHALT,
    CONCRETE,
    LAWN,
    WHITE_PAINT,
    Colour,
    Shape,
    Stations,
    cars,
    pick,
    rectangles,
    stations,
)
from roadseg.commands.city.streets import ARTERIAL, COLLECTOR, RESIDENTIAL, Street

YELLOW_PAINT: Colour = (204, 176, 92)  # between opposite directions
FRESH_ASPHALT: Colour = (98, 98, 101)  # arterials are resurfaced most often
OLD_ASPHALT: Colour = (126, 125, 123)  # residential streets

LANE_M = 3.6
BULB_RADIUS_M = 9.0  # turning circle of a cul-de-sac
_FILLET_M = 4.0  # radius of the kerb at a street corner
_CAR_STEP_M, _CAR_CHANCE = 9.0, 0.22  # one car in some 40 m of street

_SURFACES = {ARTERIAL: FRESH_ASPHALT, COLLECTOR: ASPHALT, RESIDENTIAL: OLD_ASPHALT}
_PAINTING_ORDER = (RESIDENTIAL, COLLECTOR, ARTERIAL)  # at a junction the wider street goes through


def paved_area(streets: Sequence[Street], dead_ends: Sequence[tuple[float, float]]) -> BaseGeometry:
    """Return all pavement as one geometry, with rounded street corners and turning circles."""
    strips = [_strip(street, street.width_m) for street in streets]
    return shapely.union_all([*strips, *_bulbs(dead_ends)]).buffer(_FILLET_M).buffer(-_FILLET_M)


def surface(
    streets: Sequence[Street],
    paved: BaseGeometry,
    dead_ends: Sequence[tuple[float, float]],
    junctions: dict[tuple[float, float], float],
    rng: np.random.Generator,
) -> Iterator[Shape]:
    """Pave and mark the streets; markings end before a junction.

    Args:
        streets: those to pave.
        paved: from `paved_area`.
        dead_ends: where a street ends in a turning circle.
        junctions: width of the widest street by the junction's position.
        rng: source of the random choices.
    """
    yield from _roadsides(streets, paved, rng)
    yield from (Shape(part, OLD_ASPHALT, grain=5) for part in shapely.get_parts(paved))
    ordered = sorted(streets, key=lambda street: _PAINTING_ORDER.index(street.kind))
    for street in ordered:
        colour = pick([_SURFACES[street.kind]], rng, spread=9)
        bulbs = _bulbs({street.line.coords[0], street.line.coords[-1]} & set(dead_ends))
        for part in (_strip(street, street.width_m), *bulbs):
            yield Shape(part, colour, grain=5)
    corners = [shapely.Point(xy).buffer(width * 0.65) for xy, width in junctions.items()]
    unmarked = shapely.union_all(corners)
    for street in ordered:
        yield from _markings(street, unmarked, rng)


def traffic(streets: Sequence[Street], rng: np.random.Generator) -> Iterator[Shape]:
    """Put cars on the right-hand lanes of main streets and along the kerbs of residential ones."""
    for street in streets:
        places = stations([street], step_m=_CAR_STEP_M)
        busy = rng.random(len(places)) < _CAR_CHANCE
        side = rng.choice([-1, 1], size=len(places))
        offsets = side * _car_offsets(street, len(places), rng)
        yield from cars(places.beside(offsets)[busy], (places.tangents * -side[:, None])[busy], rng)


def _strip(street: Street, width_m: float) -> shapely.Polygon:
    return street.line.buffer(width_m / 2, cap_style="flat")


def _bulbs(dead_ends: Iterable[tuple[float, ...]]) -> list[shapely.Polygon]:
    return [shapely.Point(end).buffer(BULB_RADIUS_M) for end in dead_ends]


def _roadsides(
    streets: Sequence[Street], paved: BaseGeometry, rng: np.random.Generator
) -> Iterator[Shape]:
    """Lay sidewalks, a strip of lawn between them and small streets, and the kerb."""
    walk = pick([CONCRETE], rng, spread=6)
    yield from (Shape(_strip(street, street.width_m + 6.4), walk) for street in streets)
    for street in streets:
        if street.kind == RESIDENTIAL:
            lawn = pick([LAWN], rng, spread=9)
            yield Shape(_strip(street, street.width_m + 3.4), lawn, opacity=0.85, grain=8)
    yield from (Shape(part, walk) for part in shapely.get_parts(paved.buffer(0.45)))


def _markings(street: Street, unmarked: BaseGeometry, rng: np.random.Generator) -> Iterator[Shape]:
    faded = float(rng.uniform(0.55, 0.95))
    if street.kind == RESIDENTIAL:
        seam = street.line.buffer(0.2).difference(unmarked)  # between two widths of asphalt
        yield from (Shape(part, FRESH_ASPHALT, opacity=0.35) for part in shapely.get_parts(seam))
        return
    double = street.line.buffer(0.55, cap_style="flat").difference(street.line.buffer(0.2))
    for part in shapely.get_parts(double.difference(unmarked)):
        yield Shape(part, YELLOW_PAINT, opacity=faded)
    if street.kind == ARTERIAL:
        yield from _lane_dashes(stations([street], step_m=9.0), unmarked, faded)


def _lane_dashes(places: Stations, unmarked: BaseGeometry, faded: float) -> Iterator[Shape]:
    for offset in (-LANE_M, LANE_M):
        centres = places.beside(np.full(len(places), offset))
        for dash in rectangles(centres, places.tangents, 3.0, 0.35):
            if not dash.intersects(unmarked):
                yield Shape(dash, WHITE_PAINT, opacity=faded)


def _car_offsets(street: Street, count: int, rng: np.random.Generator) -> Floats:
    """Return how far from the centreline cars keep: on a lane, or by the kerb."""
    if street.kind == RESIDENTIAL:
        return np.full(count, street.width_m / 2 - 1.1)
    lanes = 2 if street.kind == ARTERIAL else 1
    return np.asarray((rng.integers(lanes, size=count) + 0.5) * LANE_M + 0.3, dtype=np.float64)
