"""The street plan of the demo city: curved streets of three speed classes.

The plan is laid out as straight streets on a plane (crossing coordinates are exact there) and the
plane is then bent as a whole, so that streets curve gently and a junction stays one shared vertex.
Local metres: x east, y north, the city's south-west corner at (0, 0).
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import shapely

from roadseg.arrays import Floats

Points = Floats
Span = tuple[float, float]

_MARGIN_M = 150.0  # Metres of the plan beyond the extent, so that no street ends at its edge.
_VERTEX_STEP_M = 9.0  # Metres between the vertices of a bent street, at most.
# Shares of a block's side; streets meet at these places only, so that vertices can be shared.
_THIRD, _HALF, _TWO_THIRDS = 1 / 3, 1 / 2, 2 / 3


@dataclass(frozen=True)
class StreetClass:
    """Properties that the streets of one class share.

    Attributes:
        name: "arterial", "collector" or "residential".
        road_type: SpaceNet's code; with `lane_number` it implies `speed_mph` in SpaceNet's table.
        lane_number: lanes as SpaceNet's labels count them.
        speed_mph: speed limit, miles an hour.
        widths_m: least and largest width of the pavement, metres.
    """

    name: str
    road_type: str
    lane_number: str
    speed_mph: float
    widths_m: Span


ARTERIAL = StreetClass("arterial", "2", "2", 45.0, (15.0, 16.5))
COLLECTOR = StreetClass("collector", "3", "2", 35.0, (10.5, 11.5))
RESIDENTIAL = StreetClass("residential", "5", "2", 25.0, (7.0, 8.0))


@dataclass(frozen=True)
class Street:
    """One street: its centreline in local metres, its class, the full width of its pavement."""

    line: shapely.LineString
    kind: StreetClass
    width_m: float


@dataclass(frozen=True)
class _Straight:
    """A street of the plan before it is bent.

    With `axis` 0 it runs along x at y = `at`, with 1 along y at x = `at`; `span` are its two ends
    along the axis. All are metres of the plan.
    """

    axis: int
    at: float
    span: Span
    kind: StreetClass


@dataclass(frozen=True)
class _Crescent:
    """A U-shaped street of the plan: both ends lie on one side of its block.

    The side runs along `axis` at `base`; the street leaves it at one end of `span`, ends at the
    other, and reaches `depth` into the block, negative towards lower positions. All are metres.
    """

    axis: int
    base: float
    span: Span
    depth: float


_Piece = _Straight | _Crescent


def draw_streets(
    *, extent_m: Span, seed: int, widths_m: Mapping[str, Span] | None = None
) -> list[Street]:
    """Draw the street network of a city.

    Arterials and collectors alternate in both directions and bound blocks of 200 to 270 m; each
    block holds residential streets (rows, a grid, cul-de-sacs or crescents) or none.

    Args:
        extent_m: width and height of the city, metres.
        seed: number that starts the random choices; the same one gives the same streets.
        widths_m: least and largest width of the pavement by the name of a class, metres; others
            have those of the class.

    Returns:
        Streets that touch the extent. Where two meet, both have exactly the same vertex there.
    """
    rng = np.random.default_rng((seed, 1))
    half = float(np.hypot(*extent_m)) / 2 + _MARGIN_M
    xs, ys = _lattice(half, rng), _lattice(half, rng)
    pieces = [*_main_streets(xs, ys), *_block_streets(xs, ys, rng)]
    bend = _bend(extent_m, rng)
    extent = shapely.box(0, 0, *extent_m)
    widths = widths_m or {}
    streets = [
        Street(
            shapely.LineString(bend(plan)),
            kind,
            float(rng.uniform(*widths.get(kind.name, kind.widths_m))),
        )
        for plan, kind in _with_shared_vertices(pieces)
    ]
    return [street for street in streets if street.line.intersects(extent)]


def find_junctions(streets: list[Street]) -> dict[tuple[float, float], float]:
    """Return the vertices that several streets share.

    Returns:
        Width in metres of the widest street that meets there, by the junction's (x, y).
    """
    widths = defaultdict(list)
    for street in streets:
        for xy in set(street.line.coords):
            widths[xy].append(street.width_m)
    return {(xy[0], xy[1]): max(meeting) for xy, meeting in widths.items() if len(meeting) > 1}


def find_dead_ends(streets: list[Street]) -> list[tuple[float, float]]:
    """Return the (x, y) where a residential street ends without meeting another, metres."""
    uses = Counter(xy for street in streets for xy in set(street.line.coords))
    homes = (street.line.coords for street in streets if street.kind == RESIDENTIAL)
    ends = (xy for coords in homes for xy in (coords[0], coords[-1]))
    return [(xy[0], xy[1]) for xy in ends if uses[xy] == 1]


def scene_labels(
    streets: list[Street], *, bounds: tuple[float, float, float, float], with_speed: bool
) -> list[tuple[shapely.LineString, dict[str, object]]]:
    """Cut the centrelines at the edge of a scene and describe them as SpaceNet does.

    Args:
        bounds: west, south, east and north of the scene, local metres.
        with_speed: whether `speed_mph` is one of the properties; else the speed follows from type,
            lanes and surface.

    Returns:
        Lines within the bounds, local metres, each with its properties. A street that leaves the
        scene and comes back gives several lines.
    """
    return [
        (street.line, _properties(street.kind, str(number), with_speed=with_speed))
        for number, street in enumerate(cut_streets(streets, shapely.box(*bounds)), start=1)
    ]


def cut_streets(streets: list[Street], area: shapely.Polygon) -> list[Street]:
    """Cut streets at the edge of an area; one that leaves and comes back becomes several."""
    return [
        replace(street, line=part)
        for street in streets
        for part in shapely.get_parts(street.line.intersection(area))
        if part.length > 0
    ]


def _properties(kind: StreetClass, road_id: str, *, with_speed: bool) -> dict[str, object]:
    properties: dict[str, object] = {
        "road_id": road_id,
        "road_type": kind.road_type,
        "lane_number": kind.lane_number,
        "paved": "1",
        "one_way_ty": "2",
        "bridge_type": "2",
    }
    return properties | {"speed_mph": kind.speed_mph} if with_speed else properties


def _lattice(half: float, rng: np.random.Generator) -> Points:
    """Return ascending positions of main streets, metres: -half to beyond it, 200 to 270 apart."""
    gaps = rng.uniform(200.0, 270.0, size=int(2 * half / 200) + 2)
    positions: Points = np.cumsum(gaps) - half - rng.uniform(0, 200)
    return positions[: int(np.searchsorted(positions, half)) + 1]


def _main_streets(xs: Points, ys: Points) -> Iterator[_Straight]:
    """Yield the streets on the lattice; every second one is an arterial."""
    for axis, across, along in ((0, ys, xs), (1, xs, ys)):
        span = (float(along[0]), float(along[-1]))
        for rank, at in enumerate(across):
            yield _Straight(axis, float(at), span, (ARTERIAL, COLLECTOR)[rank % 2])


def _block_streets(xs: Points, ys: Points, rng: np.random.Generator) -> Iterator[_Piece]:
    """Fill each block of the lattice with a pattern drawn at random, along x or along y."""
    patterns = (_rows, _grid, _cul_de_sacs, _crescents, _park)
    shares = (0.28, 0.16, 0.24, 0.22, 0.10)
    for x in pairwise(xs.tolist()):
        for y in pairwise(ys.tolist()):
            # Each pattern takes the same arguments and uses the random generator as it needs.
            pattern = patterns[rng.choice(len(patterns), p=shares)]
            axis = int(rng.integers(2))
            yield from pattern(axis, *((x, y) if axis == 0 else (y, x)), rng)


def _rows(axis: int, along: Span, across: Span, _: np.random.Generator) -> Iterator[_Piece]:
    """Yield two streets through the block and one between them, which makes two T-junctions."""
    low, high = _part(across, _THIRD), _part(across, _TWO_THIRDS)
    yield _Straight(axis, low, along, RESIDENTIAL)
    yield _Straight(axis, high, along, RESIDENTIAL)
    yield _Straight(1 - axis, _part(along, _HALF), (low, high), RESIDENTIAL)


def _grid(axis: int, along: Span, across: Span, _: np.random.Generator) -> Iterator[_Piece]:
    """Yield one street through the block and two that cross it."""
    yield _Straight(axis, _part(across, _HALF), along, RESIDENTIAL)
    yield _Straight(1 - axis, _part(along, _THIRD), across, RESIDENTIAL)
    yield _Straight(1 - axis, _part(along, _TWO_THIRDS), across, RESIDENTIAL)


def _cul_de_sacs(
    axis: int, along: Span, across: Span, rng: np.random.Generator
) -> Iterator[_Piece]:
    """Yield one street through the block, and two dead ends, each to a side drawn at random."""
    middle = _part(across, _HALF)
    yield _Straight(axis, middle, along, RESIDENTIAL)
    for place in (_THIRD, _TWO_THIRDS):
        end = _part(across, float(rng.choice([0.18, 0.82]) + rng.uniform(-0.03, 0.03)))
        span = (min(middle, end), max(middle, end))
        yield _Straight(1 - axis, _part(along, place), span, RESIDENTIAL)


def _crescents(axis: int, along: Span, across: Span, rng: np.random.Generator) -> Iterator[_Piece]:
    """Yield a crescent on one side of the block; on the other another one or a dead end."""
    span = (_part(along, _THIRD), _part(along, _TWO_THIRDS))
    height = across[1] - across[0]
    yield _Crescent(axis, across[0], span, height * float(rng.uniform(0.38, 0.46)))
    if rng.random() < _HALF:
        yield _Crescent(axis, across[1], span, -height * float(rng.uniform(0.3, 0.36)))
    else:
        dead_end = (_part(across, float(rng.uniform(0.62, 0.68))), across[1])
        yield _Straight(1 - axis, _part(along, _HALF), dead_end, RESIDENTIAL)


def _park(_axis: int, _along: Span, _across: Span, _: np.random.Generator) -> Iterator[_Piece]:
    """Yield no street at all."""
    return iter(())


def _part(span: Span, fraction: float) -> float:
    """Return the position at a share of a span."""
    return span[0] + (span[1] - span[0]) * fraction


def _with_shared_vertices(pieces: list[_Piece]) -> Iterator[tuple[Points, StreetClass]]:
    """Yield the vertices of every street, one where another meets it, and its class.

    Positions are metres of the plan: streets are bent later, and a shared vertex stays shared.
    """
    straights = [piece for piece in pieces if isinstance(piece, _Straight)]
    crescents = [piece for piece in pieces if isinstance(piece, _Crescent)]
    for straight in straights:
        stops = [*_crossings(straight, straights), *_crescent_ends(straight, crescents)]
        along = _fill_in(np.unique([*straight.span, *stops]))
        yield _place(straight.axis, along, np.full(len(along), straight.at)), straight.kind
    for crescent in crescents:
        yield _crescent_points(crescent), RESIDENTIAL


def _crossings(street: _Straight, others: list[_Straight]) -> Iterator[float]:
    """Yield the positions along a street at which others cross it or end at it."""
    for other in others:
        reaches = other.span[0] <= street.at <= other.span[1]
        if other.axis != street.axis and reaches and street.span[0] <= other.at <= street.span[1]:
            yield other.at


def _crescent_ends(street: _Straight, crescents: list[_Crescent]) -> Iterator[float]:
    """Yield the positions along a street at which crescents begin and end."""
    low, high = street.span
    for crescent in crescents:
        if crescent.axis == street.axis and crescent.base == street.at:
            yield from (end for end in crescent.span if low <= end <= high)


def _fill_in(stops: Points) -> Points:
    """Add evenly spaced positions between the stops, at most the vertex step apart."""
    pieces = [
        np.linspace(low, high, int((high - low) / _VERTEX_STEP_M) + 1, endpoint=False)
        for low, high in pairwise(stops)
    ]
    return np.concatenate([*pieces, stops[-1:]])


def _crescent_points(crescent: _Crescent) -> Points:
    """Return the vertices of a U with a round far side; its two ends are exact."""
    # A superellipse: powers of sine and cosine below 1 make a half circle squarer.
    turn = np.linspace(0, np.pi, 25)
    low, high = crescent.span
    along = (low + high) / 2 - (high - low) / 2 * np.sign(np.cos(turn)) * np.abs(
        np.cos(turn)
    ) ** 0.7
    across = crescent.base + crescent.depth * np.sin(turn) ** 0.8
    along[[0, -1]], across[[0, -1]] = crescent.span, crescent.base
    return _place(crescent.axis, along, across)


def _place(axis: int, along: Points, across: Points) -> Points:
    """Return positions along and across an axis as (x, y), shape (n, 2)."""
    return np.column_stack([along, across] if axis == 0 else [across, along])


def _bend(extent_m: Span, rng: np.random.Generator) -> Callable[[Points], Points]:
    """Return the function that maps the plan to local metres by a turn, a shift and long waves.

    Waves of 450 to 900 m bend streets by at most some 20 degrees. Results are rounded to 0.1 mm,
    so that equal plan positions give equal coordinates on every processor.
    """
    turn = rng.uniform(-0.5, 0.5)
    middle = np.array(extent_m) / 2
    heading = rng.uniform(0, 2 * np.pi, size=4)
    waves = np.column_stack([np.cos(heading), np.sin(heading)])
    waves *= 2 * np.pi / rng.uniform([[450], [550], [650], [800]], [[550], [650], [750], [900]])
    phases = rng.uniform(0, 2 * np.pi, size=4)
    pushes = rng.uniform(-1, 1, size=(4, 2)) * [[12], [16], [22], [28]]
    rotation = np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]])

    def bend(plan: Points) -> Points:
        pushed = plan + np.sin(plan @ waves.T + phases) @ pushes
        return np.asarray(np.round(pushed @ rotation + middle, 4))

    return bend
