"""The pixels that an area touches, and the part of a scene that shows them."""

import pickle

import numpy as np
import pytest
import shapely
from affine import Affine

from roadseg.raster.extents import Extent, ScenePart, border_of, ground_of, joined_extent, part_of
from roadseg.raster.grid import Grid
from roadseg.raster.windows import Window
from tests.drawing import UTM, grid_of

GRID = grid_of(200, 300)
ALL = Window(0, 0, 200, 300)


def box(row, col, height, width):
    """Return ground of whole pixels of the grid, in metres."""
    west, north = 660000 + col, 4000000 - row
    return shapely.MultiPolygon([shapely.box(west, north - height, west + width, north)])


def shown(ground):
    """Return which pixels of the grid a part has."""
    part = part_of(GRID, ground).within(ALL)
    return Extent.whole(ALL).inside(ALL) if part.extent is None else part.extent.inside(ALL)


def pixels(row, col, height, width):
    drawn = np.zeros(ALL[2:], dtype=bool)
    drawn[row : row + height, col : col + width] = True
    return drawn


@pytest.mark.parametrize(
    ("area", "touched"),
    [
        ((50, 60, 40, 70), (50, 60, 40, 70)),
        ((50.5, 60.5, 40, 70), (50, 60, 41, 71)),
        ((50.4, 60.4, 0.1, 0.1), (50, 60, 1, 1)),
    ],
    ids=["whole pixels", "parts of pixels", "inside of one pixel"],
)
def test_all_pixels_that_an_area_touches_belong_to_it(area, touched):
    assert np.array_equal(shown(box(*area)), pixels(*touched))


def test_a_tiny_part_is_as_large_as_a_scene_has_to_be():
    assert part_of(GRID, box(50.4, 60.4, 0.1, 0.1)).window == (35, 45, 32, 32)
    assert part_of(GRID, box(0, 299, 1, 1)).window == (0, 268, 32, 32)


@pytest.mark.parametrize(
    "ground", [box(500, 0, 10, 10), box(200, 0, 10, 10), shapely.MultiPolygon()]
)
def test_ground_beside_a_scene_is_no_part_of_it(ground):
    assert part_of(GRID, ground) is None


def test_a_scene_inside_of_an_area_is_whole():
    for ground in (box(-10, -10, 500, 500), box(0, 0, 200, 300)):
        part = part_of(GRID, ground)
        assert part == ScenePart(ALL)
        assert part.shows_all(GRID)


def test_an_area_of_whole_pixels_has_data_all_over_its_part():
    assert part_of(GRID, box(50, 60, 40, 70)) == ScenePart(Window(50, 60, 40, 70))


def test_holes_have_no_data():
    ring = box(20, 20, 100, 100) - box(40, 40, 50, 50)
    assert shown(ring).sum() == 100 * 100 - 50 * 50


def test_pixels_are_the_same_however_they_are_asked_for():
    extent = part_of(GRID, shapely.MultiPolygon([shapely.Point(660100, 3999900).buffer(77.3)]))
    extent = extent.within(ALL).extent
    for window in (Window(10, 10, 64, 64), Window(-20, 250, 64, 90), Window(90, 90, 32, 32)):
        whole = np.pad(extent.inside(ALL), 100)
        row, col = window.row + 100, window.col + 100
        expected = whole[row : row + window.height, col : col + window.width]
        assert np.array_equal(extent.inside(window), expected)
        assert extent.touches(window) == expected.any()


def test_the_digest_is_of_the_pixels():
    extent = part_of(GRID, box(50.5, 60.5, 40, 70)).extent
    same = part_of(GRID, box(50.5, 60.5, 40, 70).reverse()).extent
    assert extent.digest == same.digest == pickle.loads(pickle.dumps(extent)).digest  # noqa: S301
    assert extent.digest != part_of(GRID, box(50.5, 60.5, 40, 71)).extent.digest


def test_a_grid_that_is_turned_has_its_own_pixels():
    turned = Grid(UTM, Affine.translation(660000, 4000000) @ Affine.rotation(30), 200, 300)
    ground = shapely.MultiPolygon([shapely.Polygon(turned.crop(50, 60, 40, 70).footprint_m)])
    assert part_of(turned, ground).window == Window(50, 60, 40, 70)


def test_roads_may_be_cut_at_the_edge_and_outside_of_the_area():
    extent = part_of(GRID, box(50.5, 60.5, 100, 200)).within(ALL).extent
    border = border_of(GRID, extent)
    metres = [border.distance(shapely.Point(660000 + x, 3999900)) for x in (0, 30, 65, 100)]
    assert metres == pytest.approx([0, 0, 0, 100 - 60.5 - 6], abs=0.1)
    assert border_of(GRID, None).distance(shapely.Point(660030, 3999900)) == pytest.approx(30)
    assert ground_of(GRID, extent).area == pytest.approx(100 * 200, rel=0.001)


def test_extents_that_meet_are_one():
    left, right = Extent.whole(Window(0, 0, 10, 10)), Extent.whole(Window(0, 10, 10, 10))
    inset = [Extent(e.polygons.buffer(-0.001, join_style="mitre")) for e in (left, right)]
    inset = [Extent(shapely.MultiPolygon([e.polygons])) for e in inset]
    assert len(joined_extent(inset).polygons.geoms) == 1
