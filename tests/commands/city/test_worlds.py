"""Worlds: what they change of a drawn city, and what they do not."""

import numpy as np
import pytest
import shapely

from roadseg.commands.city.aerial import draw_scene
from roadseg.commands.city.scenery import DEMO, World, draw_clutter
from roadseg.commands.city.streets import COLLECTOR, draw_streets

SMALL = {"x_m": 300.0, "y_m": 200.0, "size_px": 200, "seed": 0}
EXTENT_M = (900.0, 700.0)


def test_widths_of_streets_are_those_of_the_world():
    broad = draw_streets(extent_m=EXTENT_M, seed=0, widths_m={"collector": (20.0, 21.0)})
    usual = draw_streets(extent_m=EXTENT_M, seed=0)
    assert [street.line for street in broad] == [street.line for street in usual]
    for wide, narrow in zip(broad, usual, strict=True):
        is_wide = 20 <= wide.width_m <= 21
        assert is_wide if wide.kind == COLLECTOR else wide.width_m == narrow.width_m


@pytest.mark.parametrize(
    "world", [World(grass=(10, 10, 10)), World(clutter=60.0), World(shadow=(0.9, 0.2))]
)
def test_a_world_changes_the_picture(world):
    streets = draw_streets(extent_m=EXTENT_M, seed=0)
    usual = draw_scene(streets, **SMALL)
    assert not np.array_equal(draw_scene(streets, **SMALL, world=world), usual)
    assert np.array_equal(draw_scene(streets, **SMALL, world=DEMO), usual)


def test_clutter_stays_off_the_pavement():
    area, paved = shapely.box(0, 0, 200, 100), shapely.box(0, 40, 200, 60)
    shapes = list(draw_clutter(area, paved, np.random.default_rng(0), World(clutter=40.0)))
    assert 30 < len(shapes) < 80  # on two hectares, of which a fifth is paved
    assert not any(shape.outline.intersects(paved) for shape in shapes)
    assert {shape.height_m > 0 for shape in shapes} == {True, False}
    assert not list(draw_clutter(area, paved, np.random.default_rng(0), DEMO))
