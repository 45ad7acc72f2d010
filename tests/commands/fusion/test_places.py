import numpy as np
from affine import Affine
from pyproj import CRS

from roadseg.commands.fusion.fused_places import group_images
from roadseg.raster.grid import Grid, reproject

UTM = CRS.from_epsg(32611)


def grid(left_m, *, side_px=100, gsd_m=1.0):
    return Grid(UTM, Affine(gsd_m, 0, 660000 + left_m, 0, -gsd_m, 4000000), side_px, side_px)


def test_images_of_the_same_ground_are_one_place_with_the_first_name():
    assert group_images({"b": grid(0), "a": grid(0), "c": grid(3)}) == {"a": ["a", "b", "c"]}


def test_the_largest_image_gives_its_name():
    assert group_images({"a": grid(0, side_px=50), "b": grid(0)}) == {"b": ["b", "a"]}


def test_images_with_pixels_of_other_sizes_show_the_same_ground():
    assert group_images({"a": grid(0), "b": grid(0, side_px=50, gsd_m=2)}) == {"a": ["a", "b"]}


def test_adjoining_images_are_places_of_their_own():
    assert group_images({"a": grid(0), "b": grid(100)}) == {"a": ["a"], "b": ["b"]}


def test_images_that_share_less_than_a_tenth_are_not_fused():
    assert group_images({"a": grid(0), "b": grid(91)}) == {"a": ["a"], "b": ["b"]}


def test_images_that_share_more_than_a_tenth_are_fused_with_each_other():
    assert group_images({"a": grid(0), "b": grid(89)}) == {"a": ["a", "b"], "b": ["b", "a"]}


def test_an_image_needs_no_raster_of_its_own_from_nine_tenths_on():
    assert list(group_images({"a": grid(0), "b": grid(9)})) == ["a"]
    assert list(group_images({"a": grid(0), "b": grid(11)})) == ["a", "b"]


def test_images_in_other_coordinate_systems_show_the_same_ground():
    here = grid(0)
    corner, far = reproject_corners(here)
    size = (far[0] - corner[0]) / 100, (corner[1] - far[1]) / 100
    there = Grid(
        CRS.from_epsg(4326), Affine(size[0], 0, corner[0], 0, -size[1], corner[1]), 100, 100
    )
    assert len(group_images({"a": here, "b": there})) == 1


def reproject_corners(here):
    """Return the north-western and the south-eastern corner of a grid in degrees."""
    outline = reproject(np.array([here.footprint]), UTM, CRS.from_epsg(4326))[0]
    west, south, east, north = outline.bounds
    return (west, north), (east, south)
