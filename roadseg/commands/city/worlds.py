"""Worlds: what drawn cities look like and how dense they are; that of the demo, and any number."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from roadseg.commands.city.streets import ARTERIAL, COLLECTOR, RESIDENTIAL, Span

Colour = tuple[float, float, float]

_ASPHALT: Colour = (112, 112, 114)
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
_OLD_TOWN_ROOFS: Sequence[Colour] = (
    (150, 96, 78),
    (164, 120, 92),
    (132, 84, 66),
    (118, 117, 116),
)
# Grass and bare soil by season and climate.
_GROUNDS: Mapping[str, tuple[Colour, Colour]] = {
    "lush": ((60, 92, 48), (104, 98, 66)),
    "green": ((92, 106, 68), (152, 138, 108)),
    "dry": ((140, 128, 92), (166, 146, 112)),
    "brown": ((112, 100, 80), (128, 112, 90)),
    "desert": ((188, 166, 132), (204, 182, 148)),
    "snow": ((215, 218, 224), (190, 192, 196)),
}
_GROUND_SHARES = (0.25, 0.25, 0.2, 0.12, 0.12, 0.06)
_BARE_CROWNS: Mapping[str, Colour] = {"brown": (98, 88, 76), "snow": (92, 86, 80)}
_CROWN: Colour = (54, 76, 42)
# By kind of place: size of everything against the demo's; widths of pavement in metres, of
# arterials, collectors and residential streets; and roofs of homes.
_PLACES: Mapping[str, tuple[float, tuple[float, float, float], Sequence[Colour]]] = {
    "suburb": (1.0, (15.0, 10.5, 7.5), _HOME_ROOFS),
    "dense": (0.62, (13.0, 10.0, 7.5), _HOME_ROOFS),
    "old": (0.45, (12.0, 8.0, 5.0), _OLD_TOWN_ROOFS),
    "rural": (1.9, (11.0, 7.0, 4.5), _HOME_ROOFS),
    "modern": (1.5, (26.0, 16.0, 8.0), _SHOP_ROOFS),
}
_PLACE_SHARES = (0.28, 0.24, 0.22, 0.1, 0.16)
_PIXELS_M = (0.3, 0.4, 0.5, 0.5, 0.6, 0.8, 1.0)  # Ground sizes of pixels, each as probable.
_CLASSES = (ARTERIAL, COLLECTOR, RESIDENTIAL)


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
        widths_m: least and largest width of the pavement by name of a street class; others have
            those of `StreetClass`.
    """

    grass: Colour = (92, 106, 68)
    soil: Colour = (152, 138, 108)
    lawn: Colour = (94, 112, 70)
    concrete: Colour = (164, 160, 150)
    asphalt: Colour = _ASPHALT
    fresh_asphalt: Colour = (98, 98, 101)
    old_asphalt: Colour = (126, 125, 123)
    white_paint: Colour = (212, 212, 206)
    centre_paint: Colour = (204, 176, 92)
    crown: Colour = _CROWN
    pool: Colour = (92, 172, 182)
    home_roofs: Sequence[Colour] = _HOME_ROOFS
    shop_roofs: Sequence[Colour] = _SHOP_ROOFS
    shadow: tuple[float, float] = (-0.52, 0.6)
    shade: Colour = (0.46, 0.49, 0.58)
    street_trees: float = 0.4
    yard_trees: float = 1.0
    cars: float = 0.22
    clutter: float = 0.0
    widths_m: Mapping[str, Span] = field(default_factory=dict)


@dataclass(frozen=True)
class Setting:
    """A place to draw: its world, and how large it and its pixels are.

    Attributes:
        world: what it looks like.
        gsd_m: ground size of a pixel, metres.
        scale: size of blocks, houses and trees against those of the demo.
    """

    world: World
    gsd_m: float
    scale: float


DEMO = World()


def draw_setting(rng: np.random.Generator) -> Setting:
    """Draw a place at random: its kind, climate, season, sun, materials and pixel size.

    Widths in the world are before the scaling, so that streets keep the widths of their kind.
    """
    size, widths, roofs = _PLACES[str(rng.choice(list(_PLACES), p=_PLACE_SHARES))]
    scale = size * float(rng.uniform(0.8, 1.25))
    broad = float(rng.uniform(0.8, 1.3)) / scale
    spans = {
        kind.name: (0.85 * broad * width, 1.15 * broad * width)
        for kind, width in zip(_CLASSES, widths, strict=True)
    }
    climate = str(rng.choice(list(_GROUNDS), p=_GROUND_SHARES))
    grass, soil = _GROUNDS[climate]
    trees = 0.05 if climate == "desert" else float(rng.choice([0.05, 0.3, 0.7, 1.0]))
    fresh, middle, old = _draw_pavements(rng)
    world = World(
        grass=_near(grass, rng, 10),
        soil=_near(soil, rng, 10),
        lawn=_near(grass, rng, 10),
        concrete=_near((160, 158, 152), rng, 16),
        asphalt=middle,
        fresh_asphalt=fresh,
        old_asphalt=old,
        centre_paint=DEMO.centre_paint if rng.random() < 1 / 2 else DEMO.white_paint,
        crown=_near(_BARE_CROWNS.get(climate, _CROWN), rng, 9),
        home_roofs=[_near(colour, rng, 18) for colour in roofs],
        shop_roofs=[_near(colour, rng, 18) for colour in _SHOP_ROOFS],
        shadow=_draw_sun(rng),
        shade=_scaled(DEMO.shade, float(rng.uniform(0.5, 1.3))),
        street_trees=min(0.8, trees),
        yard_trees=trees,
        cars=float(rng.uniform(0, 0.6)),
        clutter=float(rng.uniform(0, 90)) / scale**2,
        widths_m=spans,
    )
    return Setting(world, gsd_m=float(rng.choice(_PIXELS_M)), scale=scale)


def _draw_sun(rng: np.random.Generator) -> tuple[float, float]:
    """Return metres east and north that a shadow reaches per metre of height."""
    azimuth, reach = rng.uniform(0, 2 * np.pi), rng.uniform(0.2, 1.6)
    return float(reach * np.cos(azimuth)), float(reach * np.sin(azimuth))


def _draw_pavements(rng: np.random.Generator) -> tuple[Colour, Colour, Colour]:
    """Return colours of fresh, middle and old pavement: of asphalt, concrete, dirt, or mixed."""
    material = str(rng.choice(["asphalt", "concrete", "dirt", "mixed"], p=(0.5, 0.25, 0.1, 0.15)))
    limits = {"asphalt": (60, 125), "concrete": (135, 185), "dirt": (130, 170), "mixed": (90, 150)}
    grey = rng.uniform(*limits[material])
    tint = np.array([14, 2, -18]) if material == "dirt" else np.zeros(3)
    spread = 30 if material == "mixed" else 10
    levels = grey + rng.normal(0, spread, 3)[:, None] + rng.normal(0, 4, (3, 3)) + tint
    fresh, middle, old = ((float(r), float(g), float(b)) for r, g, b in levels)
    return fresh, middle, old


def _near(colour: Colour, rng: np.random.Generator, spread: float) -> Colour:
    """Return a colour of another brightness, and a little of another hue."""
    return _as_colour(np.array(colour) + rng.normal(0, spread) + rng.normal(0, spread / 2, 3))


def _scaled(colour: Colour, factor: float) -> Colour:
    return _as_colour(np.array(colour) * factor)


def _as_colour(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> Colour:
    red, green, blue = values.tolist()
    return red, green, blue
