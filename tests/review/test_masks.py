"""Masks of edits: what was decided is known, the rest is not."""

import numpy as np
import pytest
import shapely
from affine import Affine
from pyproj import CRS

from roadseg.raster.grid import Grid
from roadseg.raster.windows import Window
from roadseg.review.apply import Revision
from roadseg.review.edits import Edit
from roadseg.review.masks import decided_roads, edited_blocks
from roadseg.roads.graph.road_graph import graph_from_lines
from roadseg.roads.masks.mask_files import write_mask
from roadseg.roads.speeds import DEFAULT_BINS

UTM = CRS.from_epsg(32611)
WEST, NORTH = 480_000, 3_650_100
GRID = Grid(UTM, Affine(1, 0, WEST, 0, -1, NORTH), 100, 100)
KPH = 40.0  # 25 mph, the third bin


def road_at(row):
    """Give a road from the left edge to the right one."""
    return shapely.LineString([(WEST, NORTH - row), (WEST + 100, NORTH - row)])


@pytest.fixture
def decided():
    """Give roads of which one was accepted, one rejected, one drawn, and one left open."""
    rows = {"accept": 20, "reject": 40, "open": 60}
    lines = np.array([road_at(row) for row in rows.values()], dtype=object)
    attributes = {"speed_kph": np.full(3, KPH), "width_m": np.full(3, 4.0)}
    revision = Revision(graph_from_lines(lines, UTM, attributes))
    for kind in ("accept", "reject"):
        revision.apply(Edit(kind, road_at(rows[kind])))
    revision.apply(Edit("draw", road_at(80), speed_kph=KPH, width_m=6.0))
    return decided_roads(revision, width_m=9.0)


def mask_of(decided, labels):
    mask = np.full((100, 100), 99, dtype=np.uint8)
    for window, pixels in edited_blocks(GRID, decided.near(GRID), bins=DEFAULT_BINS, labels=labels):
        mask[window.slices] = pixels
    return mask


def test_confirmed_roads_are_burnt_with_their_width_and_speed(decided, tmp_path):
    column = mask_of(decided, tmp_path / "none.tif")[:, 50]
    assert np.flatnonzero(column).tolist() == [18, 19, 20, 21, 77, 78, 79, 80, 81, 82]
    assert column[20] == DEFAULT_BINS.bin_of(KPH / 1.609344)


def test_labels_stay_but_where_people_decided_otherwise(decided, tmp_path):
    labels = tmp_path / "labels.tif"
    old = np.full((100, 100), 1, dtype=np.uint8)
    old[:, 90:] = 255
    write_mask(labels, [(Window(0, 0, 100, 100), old)], GRID, bins=DEFAULT_BINS)
    mask = mask_of(decided, labels)
    assert (mask[20, 50], mask[40, 50], mask[60, 50], mask[5, 50]) == (3, 0, 1, 1)
    assert (mask[5, 95], mask[40, 95], mask[20, 95]) == (255, 0, 3)


def test_known_ground_is_decided_roads_and_their_sides_without_open_ones(decided):
    ground = decided.ground()
    known = [
        ground.contains(shapely.Point(WEST + 50, NORTH - row)) for row in (9, 11, 20, 40, 60, 80)
    ]
    assert known == [False, True, True, True, False, True]
