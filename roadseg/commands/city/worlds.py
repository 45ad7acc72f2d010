"""Worlds: what drawn cities look like, and how dense they are."""

from collections.abc import Sequence
from dataclasses import dataclass

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
