"""Scenery of the demo city around its streets: blocks, buildings, lots and trees; their looks."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import shapely
from shapely.geometry.base import BaseGeometry

from roadseg.arrays import Floats
from roadseg.commands.city.streets import ARTERIAL, Street

Colour = tuple[float, float, float]

# Tile, brown shingle, grey shingle (the colour of asphalt), slate, tan, bleached.
_HOME_ROOFS: Sequence[Colour] = (
    (150, 96, 78),
    (122, 102, 86),
    (118, 117, 116),
    (92, 96, 102),
    (158, 138, 114),
    (174, 170, 161),
)
# White membrane, light gravel, tar (the colour of asphalt), sheet metal.
_SHOP_ROOFS: Sequence[Colour] = ((198, 197, 192), (176, 172, 163), (114, 114, 116), (146, 156, 166))
# White, silver, grey and black are common, red and blue are not.
CARS: Sequence[Colour] = (
    (228, 228, 228),
    (226, 226, 224),
    (170, 172, 176),
    (160, 164, 168),
    (96, 98, 102),
    (46, 47, 50),
    (44, 45, 48),
    (138, 52, 48),
    (58, 78, 118),
)
_CAR_M = (4.6, 1.9)  # Length and width of a car in metres.
_STALL_M = (2.8, 5.2)  # Width and length of a parking stall in metres.
_KERB_GAP_M = 4.0  # Metres between the pavement and anything built.
_CLUTTER_M = ((1.5, 7.0), (3.0, 16.0))  # Least and largest width and length of a yard or shed.


@dataclass(frozen=True)
class World:
    """How a drawn city looks. The defaults are the demo's: a suburb in early summer.

    Colours are red, green and blue, 0..255.

    Attributes:
        grass: ground where it is not bare.
        soil: bare ground.
        lawn: tint of gardens and parks.
        concrete: sidewalks, driveways and the ground around shops.
        asphalt: of middle age; streets and parking lots scatter around it.
        fresh_asphalt: of arterials, which are resurfaced most often.
        old_asphalt: of residential streets, which are resurfaced least often.
        white_paint: lane lines and parking stalls.
        centre_paint: lines between opposite directions.
        crown: a tree from above.
        pool: water in gardens.
        home_roofs: roofs of homes.
        shop_roofs: roofs of large buildings.
        shadow: metres east and north that a shadow reaches per metre of height.
        shade: share of red, green and blue that skylight leaves in a shadow.
        street_trees: chance of a tree at each place, every 12 m on each side of a street.
        yard_trees: share of the trees away from streets that grow.
        cars: chance of a car at each place, every 9 m of a street.
        clutter: yards, paths and sheds on a hectare of ground between the streets.
    """

    grass: Colour = (92, 106, 68)
    soil: Colour = (152, 138, 108)
    lawn: Colour = (94, 112, 70)
    concrete: Colour = (164, 160, 150)
    asphalt: Colour = (112, 112, 114)
    fresh_asphalt: Colour = (98, 98, 101)
    old_asphalt: Colour = (126, 125, 123)
    white_paint: Colour = (212, 212, 206)
    centre_paint: Colour = (204, 176, 92)
    crown: Colour = (54, 76, 42)
    pool: Colour = (92, 172, 182)
    home_roofs: Sequence[Colour] = _HOME_ROOFS
    shop_roofs: Sequence[Colour] = _SHOP_ROOFS
    shadow: tuple[float, float] = (-0.52, 0.6)
    shade: Colour = (0.46, 0.49, 0.58)
    street_trees: float = 0.4
    yard_trees: float = 1.0
    cars: float = 0.22
    clutter: float = 0.0


DEMO = World()


@dataclass(frozen=True)
class Shape:
    """A polygon to paint.

    Attributes:
        outline: polygon in local metres.
        colour: red, green, blue, 0..255.
        height_m: 0 for what lies flat; what is higher is painted last and casts a shadow.
        opacity: 0..1.
        grain: strength of its texture, grey levels.
    """

    outline: shapely.Polygon
    colour: Colour
    height_m: float = 0.0
    opacity: float = 1.0
    grain: float = 3.0


@dataclass(frozen=True)
class SamplePoints:
    """Points along streets (n, 2), unit tangents (n, 2), pavement widths (n,); all metres."""

    points: Floats
    tangents: Floats
    widths_m: Floats

    def __len__(self) -> int:
        """Return the number of points."""
        return len(self.points)

    def beside(self, offsets_m: Floats) -> Floats:
        """Return every point moved to the left of its tangent; right for negative offsets."""
        moved: Floats = self.points + self.tangents[:, ::-1] * [-1, 1] * offsets_m[:, None]
        return moved


@dataclass(frozen=True)
class Blocks:
    """Ground between the streets, by use."""

    homes: list[shapely.Polygon]
    shops: list[shapely.Polygon]
    parks: list[shapely.Polygon]


def sample_points(streets: Sequence[Street], *, step_m: float) -> SamplePoints:
    """Return a point every `step_m` along each street, the first half a step from its start."""
    points, tangents, widths = [np.empty((0, 2))], [np.empty((0, 2))], [np.empty(0)]
    for street in streets:
        at = np.arange(step_m / 2, street.line.length - 1, step_m)
        here, ahead = (
            shapely.get_coordinates(shapely.line_interpolate_point(street.line, at + ahead_m))
            for ahead_m in (0, 1)
        )
        points.append(here)
        tangents.append((ahead - here) / np.linalg.norm(ahead - here, axis=1, keepdims=True))
        widths.append(np.full(len(at), street.width_m))
    return SamplePoints(np.concatenate(points), np.concatenate(tangents), np.concatenate(widths))


def make_rectangles(
    centres: Floats, tangents: Floats, lengths: Floats | float, widths: Floats | float
) -> list[shapely.Polygon]:
    """Return rectangles whose first side, and every length, runs along the tangent."""
    half_along = tangents * np.reshape(lengths, (-1, 1)) / 2
    half_across = tangents[:, ::-1] * [-1, 1] * np.reshape(widths, (-1, 1)) / 2
    signs = ((-1, -1), (1, -1), (1, 1), (-1, 1))
    corners = [centres + a * half_along + b * half_across for a, b in signs]
    return _polygons(np.stack(corners, axis=1))


def pick(colours: Sequence[Colour], rng: np.random.Generator, *, spread: float) -> Colour:
    """Choose a colour and vary its brightness by `spread` and its hue by a fifth of that."""
    chosen = np.array(colours[int(rng.integers(len(colours)))])
    varied = chosen + rng.normal(0, spread) + rng.normal(0, spread / 5, size=3)
    return float(varied[0]), float(varied[1]), float(varied[2])


def draw_blocks(
    streets: Sequence[Street], area: shapely.Polygon, rng: np.random.Generator
) -> Blocks:
    """Return the blocks between the streets by use: seven in ten homes, some shops, some parks."""
    lines = shapely.union_all([*(street.line for street in streets), area.exterior])
    uses: tuple[list[shapely.Polygon], ...] = ([], [], [])
    for block in shapely.get_parts(shapely.polygonize([*shapely.get_parts(lines)])):
        uses[rng.choice(3, p=(0.68, 0.22, 0.10))].append(block)
    return Blocks(*uses)


def draw_ground(blocks: Blocks, rng: np.random.Generator, world: World) -> Iterator[Shape]:
    """Yield each block tinted by its use; the ground's own texture shows through."""
    for block in blocks.homes:
        yield Shape(block, pick([world.lawn], rng, spread=9), opacity=0.38)
    for block in blocks.shops:
        yield Shape(block, pick([world.concrete], rng, spread=10), opacity=0.75)
    for block in blocks.parks:
        yield Shape(block, pick([world.lawn], rng, spread=5), opacity=0.65)


def draw_clutter(
    area: shapely.Polygon, pavement: BaseGeometry, rng: np.random.Generator, world: World
) -> Iterator[Shape]:
    """Yield yards, paths and sheds: rectangles in any direction, off the pavement of streets."""
    west, south, east, north = area.bounds
    count = int(area.area / 10_000 * world.clutter)
    centres = rng.uniform((west, south), (east, north), size=(count, 2))
    angles = rng.uniform(0, np.pi, size=count)
    facing = np.column_stack([np.cos(angles), np.sin(angles)])
    widths, lengths = (rng.uniform(*limits, size=count) for limits in _CLUTTER_M)
    outlines = np.array(make_rectangles(centres, facing, lengths, widths), dtype=object)
    shapely.prepare(pavement)
    looks = (world.concrete, world.asphalt, world.soil, *world.home_roofs)
    for outline in outlines[shapely.disjoint(pavement, outlines)] if count else ():
        yield Shape(
            outline, pick(looks, rng, spread=14), height_m=2.5 if rng.random() < 1 / 3 else 0.0
        )


def draw_homes(
    streets: Sequence[Street], pavement: BaseGeometry, blocks: Blocks, rng: np.random.Generator
) -> list[shapely.Polygon]:
    """Place houses along both sides of the streets, inside the blocks of homes."""
    places = sample_points(streets, step_m=19.0)
    outlines = []
    for side in (-1, 1):
        size = rng.uniform((10, 8), (16, 12), size=(len(places), 2))
        setback = rng.uniform(6, 10, size=len(places))
        centres = places.beside(side * (places.widths_m / 2 + setback + size[:, 1] / 2))
        outlines += make_rectangles(centres, _turn(places.tangents, rng), size[:, 0], size[:, 1])
    return _keep_fitting(outlines, pavement, blocks.homes)


def draw_shops(
    streets: Sequence[Street], pavement: BaseGeometry, blocks: Blocks, rng: np.random.Generator
) -> tuple[list[shapely.Polygon], list[shapely.Polygon]]:
    """Place large buildings and parking lots along the streets, inside the blocks of shops."""
    places = sample_points(streets, step_m=16.0)
    outlines = []
    for side, row_m in ((-1, 0), (1, 0), (-1, 40), (1, 40)):
        size = rng.uniform((22, 16), (46, 32), size=(len(places), 2))
        setback = row_m + rng.uniform(_KERB_GAP_M + 0.5, 9, size=len(places))
        centres = places.beside(side * (places.widths_m / 2 + setback + size[:, 1] / 2))
        outlines += make_rectangles(centres, places.tangents, size[:, 0], size[:, 1])
    rng.shuffle(outlines)
    fitting = _keep_fitting(outlines, pavement, blocks.shops)
    return fitting[::2], fitting[1::2]


def _turn(tangents: Floats, rng: np.random.Generator) -> Floats:
    """Return each direction turned by a few degrees."""
    angles = np.arctan2(tangents[:, 1], tangents[:, 0]) + rng.normal(0, 0.05, size=len(tangents))
    return np.column_stack([np.cos(angles), np.sin(angles)])


def _keep_fitting(
    outlines: list[shapely.Polygon], pavement: BaseGeometry, blocks: list[shapely.Polygon]
) -> list[shapely.Polygon]:
    """Return the outlines inside the blocks, off the pavement, and 2 m off those kept before."""
    allowed = shapely.union_all(blocks).difference(pavement.buffer(_KERB_GAP_M))
    shapely.prepare(allowed)
    candidates = np.array(outlines, dtype=object)
    inside = candidates[shapely.contains(allowed, candidates)]
    first, second = shapely.STRtree(inside).query(inside, predicate="dwithin", distance=2.0)
    fits = np.ones(len(inside), dtype=bool)
    for i in range(len(inside)):
        fits[i] = not fits[second[(first == i) & (second < i)]].any()
    return list(inside[fits])


def draw_driveways(
    buildings: list[shapely.Polygon],
    streets: Sequence[Street],
    colour: Colour,
    *,
    width_m: float,
    rng: np.random.Generator,
) -> Iterator[Shape]:
    """Yield a strip of pavement from each building or lot to the nearest street."""
    lines = shapely.union_all([street.line for street in streets])
    for building in buildings:
        corner, next_corner = np.array(building.exterior.coords)[:2]
        start = shapely.Point(building.centroid.coords[0] + (next_corner - corner) * 0.28)
        way = shapely.shortest_line(start, lines).buffer(width_m / 2, cap_style="flat")
        yield Shape(way, pick([colour], rng, spread=9))


def draw_pools(
    homes: list[shapely.Polygon],
    streets: Sequence[Street],
    rng: np.random.Generator,
    world: World,
) -> Iterator[Shape]:
    """Yield a pool behind one home in seven, with its concrete border."""
    lines = shapely.union_all([street.line for street in streets])
    for home in homes:
        if rng.random() < 1 / 7:
            centre = np.array(home.centroid.coords[0])
            away = centre - np.array(shapely.shortest_line(home.centroid, lines).coords[-1])
            place = centre + away / np.linalg.norm(away) * 11.5
            outline = shapely.Point(place).buffer(rng.uniform(1.8, 3.2), quad_segs=2)
            yield Shape(outline.buffer(1.0), pick([world.concrete], rng, spread=6))
            yield Shape(outline, world.pool)


def draw_parking(lot: shapely.Polygon, rng: np.random.Generator, world: World) -> Iterator[Shape]:
    """Yield a rectangular lot of asphalt, its rows of stalls, and cars in half of them."""
    yield Shape(lot, pick([world.asphalt], rng, spread=13), grain=5)
    corner, right, _, up = np.array(lot.exterior.coords)[:4]
    length, depth = np.linalg.norm(right - corner), np.linalg.norm(up - corner)
    along, across = (right - corner) / length, (up - corner) / depth
    columns = np.arange(2.0, length - 2.0, _STALL_M[0])
    for row in np.arange(_STALL_M[1] / 2 + 0.6, depth - _STALL_M[1] / 2, 2 * _STALL_M[1] + 1.5):
        ticks = corner + columns[:, None] * along + row * across
        for tick in make_rectangles(ticks, np.tile(across, (len(ticks), 1)), _STALL_M[1], 0.25):
            yield Shape(tick, world.white_paint, opacity=0.7)
        parked = (ticks + along * _STALL_M[0] / 2)[rng.random(len(ticks)) < 1 / 2]
        yield from draw_cars(parked, np.tile(across, (len(parked), 1)), rng)


def draw_cars(centres: Floats, headings: Floats, rng: np.random.Generator) -> Iterator[Shape]:
    """Yield a car at each centre; its cabin is darker than its bonnet."""
    bodies = make_rectangles(centres, headings, *_CAR_M)
    cabins = make_rectangles(centres - headings * 0.3, headings, _CAR_M[0] * 0.45, _CAR_M[1] * 0.8)
    for body, cabin in zip(bodies, cabins, strict=True):
        colour = pick(CARS, rng, spread=8)
        yield Shape(body, colour)
        yield Shape(cabin, colour=(colour[0] * 0.7, colour[1] * 0.7, colour[2] * 0.72))


def draw_gable_roof(
    outline: shapely.Polygon, rng: np.random.Generator, world: World
) -> Iterator[Shape]:
    """Yield the two slopes of a house's roof; the one towards the sun is brighter."""
    a, b, c, d = np.array(outline.exterior.coords)[:4]
    ridge = [(a + d) / 2, (b + c) / 2]
    colour = np.array(pick(world.home_roofs, rng, spread=9))
    # The cosine of the angle between the first slope and the sun, seen from above.
    shadow = np.array(world.shadow)
    towards_sun = float((d - a) @ shadow) / float(np.linalg.norm(d - a) * np.linalg.norm(shadow))
    for corners, lit in (((a, b), towards_sun), ((d, c), -towards_sun)):
        slope = shapely.Polygon([*corners, *ridge[::-1]])
        red, green, blue = (colour * (1 + 0.14 * lit)).tolist()
        yield Shape(slope, (red, green, blue), height_m=5.5)


def draw_flat_roof(
    outline: shapely.Polygon, rng: np.random.Generator, world: World
) -> Iterator[Shape]:
    """Yield the flat roof of a shop with a parapet and a few machines."""
    red, green, blue = pick(world.shop_roofs, rng, spread=8)
    yield Shape(outline, (red * 0.86, green * 0.86, blue * 0.86), height_m=9.0)
    yield Shape(outline.buffer(-0.7, join_style="mitre"), (red, green, blue), height_m=9.0)
    corner, right, _, up = np.array(outline.exterior.coords)[:4]
    places = rng.uniform(0.15, 0.85, size=(int(rng.integers(2, 6)), 2)) @ [
        right - corner,
        up - corner,
    ]
    facing = np.tile((right - corner) / np.linalg.norm(right - corner), (len(places), 1))
    for machine in make_rectangles(corner + places, facing, 3.0, 2.2):
        yield Shape(machine, (red * 0.72, green * 0.72, blue * 0.74), height_m=9.0)


def draw_trees(
    streets: Sequence[Street],
    area: shapely.Polygon,
    blocks: Blocks,
    taken: BaseGeometry,
    *,
    rng: np.random.Generator,
    world: World,
) -> Iterator[Shape]:
    """Yield trees along the streets, where some hang over the pavement, and in yards and parks.

    Args:
        streets: trees line all but the arterials.
        blocks: parks get more trees than homes, shops fewer.
        taken: pavement and buildings; no trunk stands there, crowns may reach over.
    """
    candidates = np.concatenate(
        [_street_trees(streets, rng, world), _yard_trees(area, blocks, rng, world)]
    )
    shapely.prepare(taken)
    planted = candidates[~shapely.intersects(taken, shapely.points(candidates))]
    radii = rng.uniform(1.5, 4.2, size=len(planted))
    shade = rng.normal(0, 7, size=len(planted))
    crowns = _crowns(planted, radii, rng)
    sunny_sides = _crowns(planted - np.array(world.shadow) * radii[:, None] * 0.4, radii * 0.6, rng)
    for crown, sunny_side, change in zip(crowns, sunny_sides, shade, strict=True):
        red, green, blue = (np.array(world.crown) + change * np.array([1.2, 1.0, 0.7])).tolist()
        yield Shape(crown, (red, green, blue), height_m=4.5, grain=12)
        yield Shape(
            sunny_side, (red + 24, green + 25, blue + 14), height_m=4.5, opacity=0.7, grain=9
        )


def _street_trees(streets: Sequence[Street], rng: np.random.Generator, world: World) -> Floats:
    """Return places of trees on both sides of all streets but arterials, shape (n, 2)."""
    places = sample_points([street for street in streets if street.kind != ARTERIAL], step_m=12.0)
    sides = [
        places.beside(side * (places.widths_m / 2 + rng.uniform(1.0, 3.6, size=len(places))))
        for side in (-1, 1)
    ]
    both = np.concatenate(sides)
    return both[rng.random(len(both)) < world.street_trees]


def _yard_trees(
    area: shapely.Polygon, blocks: Blocks, rng: np.random.Generator, world: World
) -> Floats:
    """Return places of trees away from the streets, shape (n, 2)."""
    west, south, east, north = area.bounds
    # 160 candidates a hectare; the use of the block decides how many of them grow.
    count = int(area.area / 10_000 * 160)
    anywhere = rng.uniform((west, south), (east, north), size=(count, 2))
    points = shapely.points(anywhere)
    chance = np.full(count, 0.45)
    for use, share in ((blocks.shops, 0.08), (blocks.parks, 0.9)):
        chance[shapely.contains(shapely.union_all(use), points)] = share
    return anywhere[rng.random(count) < chance * world.yard_trees]


def _crowns(centres: Floats, radii: Floats, rng: np.random.Generator) -> list[shapely.Polygon]:
    """Return uneven discs of twelve corners around the centres, metres."""
    angles = np.linspace(0, 2 * np.pi, 12, endpoint=False)
    reach = radii[:, None] * rng.uniform(0.78, 1.15, size=(len(radii), 12))
    around = np.stack([np.cos(angles) * reach, np.sin(angles) * reach], axis=-1)
    return _polygons(centres[:, None] + around)


def _polygons(corners: Floats) -> list[shapely.Polygon]:
    """Return one polygon for each row of corners, shape (n, corner, 2)."""
    rings = shapely.linearrings(corners)
    return list(np.asarray(shapely.polygons(rings), dtype=object))
