"""Masks of edits: what was decided is known, the rest is not."""

from dataclasses import replace

import numpy as np
import pytest
import shapely
from affine import Affine
from pyproj import CRS

from roadseg.raster.grid import Grid
from roadseg.raster.windows import Window
from roadseg.review.apply import Revision
from roadseg.review.edits import Edit
from roadseg.review.masks import SURE, corrected_labels, decided_labels, decided_roads
from roadseg.roads.graph.road_graph import graph_from_lines
from roadseg.roads.masks.mask_files import write_mask
from roadseg.roads.masks.probabilities import Probability
from roadseg.roads.options import TraceOptions
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
    """Give roads of which one was accepted, one rejected, one drawn, and two left open."""
    rows = {"accept": 20, "reject": 40, "doubtful": 60, "sure": 95}
    lines = np.array([road_at(row) for row in rows.values()], dtype=object)
    attributes = {
        "speed_kph": np.full(4, KPH),
        "width_m": np.full(4, 4.0),
        "confidence": np.array([0.1, 0.9, SURE - 0.01, SURE]),
    }
    revision = Revision(graph_from_lines(lines, UTM, attributes))
    for kind in ("accept", "reject"):
        revision.apply(Edit(kind, road_at(rows[kind])))
    revision.apply(Edit("draw", road_at(80), speed_kph=KPH, width_m=6.0))
    return decided_roads(revision, width_m=9.0)


def mask_of(blocks):
    mask = np.full((100, 100), 99, dtype=np.uint8)
    for window, pixels in blocks:
        mask[window.slices] = pixels
    return mask


def seen(level):
    """Give probabilities in which a network sees road everywhere above row 50, or nothing."""
    road = np.zeros((100, 100), dtype=np.uint8)
    road[:50] = level
    return Probability(GRID, road, threshold=0.5)


def mask_without_labels(decided, level):
    found = seen(level)
    roads = decided.near(GRID)
    return mask_of(decided_labels(found, roads, bins=DEFAULT_BINS, options=TraceOptions()))


@pytest.mark.parametrize("level", [0, 255])
def test_confirmed_and_sure_roads_are_burnt_with_their_width_and_speed(decided, level):
    column = mask_without_labels(decided, level)[:, 50]
    is_road = (column > 0) & (column < 255)
    assert np.flatnonzero(is_road).tolist() == [
        *range(18, 22),
        *range(77, 83),
        *range(92, 98),  # 4 m wide in the graph; the pixels whose centres lie within 5 m
    ]
    assert column[20] == DEFAULT_BINS.bin_of(KPH / 1.609344)


@pytest.mark.parametrize(("is_known", "speeds"), [(1, 2), (0, 1)])
def test_speeds_that_people_set_are_learned_only_if_others_are_known(is_known, speeds):
    columns = {"speed_kph": np.full(2, KPH), "speed_known": np.full(2, is_known, dtype=np.uint8)}
    lines = np.array([road_at(20), road_at(60)], dtype=object)
    revision = Revision(graph_from_lines(lines, UTM, columns))
    revision.apply(Edit("speed", road_at(20), speed_kph=90.0))
    assert len(set(decided_roads(revision, width_m=4.0).speed_mph)) == speeds


def test_pixels_of_roads_that_were_not_decided_about_are_ignored(decided):
    column = mask_without_labels(decided, 128)[:, 50]
    # There is none 8 m beside the accepted and the rejected road; below row 50, the doubtful one.
    doubtful = [*range(57, 63)]
    assert np.flatnonzero(column == 255).tolist() == [*range(10), *doubtful]
    column = mask_without_labels(decided, 127)[:, 50]
    assert np.flatnonzero(column == 255).tolist() == doubtful


def test_labels_stay_but_where_people_decided_otherwise(decided, tmp_path):
    labels = tmp_path / "labels.tif"
    old = np.full((100, 100), 1, dtype=np.uint8)
    old[:, 90:] = 255
    write_mask(labels, [(Window(0, 0, 100, 100), old)], GRID, bins=DEFAULT_BINS)
    mask = mask_of(corrected_labels(labels, decided.near(GRID), GRID, bins=DEFAULT_BINS))
    assert (mask[20, 50], mask[40, 50], mask[60, 50], mask[5, 50]) == (3, 0, 1, 1)
    assert (mask[5, 95], mask[40, 95], mask[20, 95]) == (255, 0, 3)


def test_known_ground_lies_around_decided_roads(decided):
    ground = decided.ground(8.0)
    known = [
        ground.contains(shapely.Point(WEST + 50, NORTH - row)) for row in (9, 11, 20, 40, 60, 80)
    ]
    assert known == [False, True, True, True, False, True]


@pytest.mark.parametrize(("south_m", "near"), [(500, 5), (600, 0)])
def test_roads_up_to_500_m_from_an_image_are_near_it(decided, south_m, near):
    lines = shapely.transform(decided.lines, lambda xy: xy - (0, south_m))
    assert len(replace(decided, lines=lines).near(GRID).lines) == near


def test_doubtful_roads_are_unknown_ground_but_where_others_cross_them(decided):
    across = shapely.LineString([(WEST + 20, NORTH), (WEST + 20, NORTH - 100)])
    crossed = replace(
        decided,
        lines=np.array([*decided.lines, across], dtype=object),
        state=np.array([*decided.state, "sure"], dtype=object),
        width_m=np.append(decided.width_m, 4.0),
        speed_mph=np.append(decided.speed_mph, 25.0),
    )
    unknown = crossed.unknown_ground
    places = [(50, 20), (50, 60), (50, 62.9), (50, 63.1), (50, 95), (20, 60)]
    found = [unknown.contains(shapely.Point(WEST + x, NORTH - row)) for x, row in places]
    assert found == [False, True, True, False, False, False]
