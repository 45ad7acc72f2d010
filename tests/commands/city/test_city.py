"""The demo city: streets that meet exactly, and pictures in which they lie where the labels say."""

from itertools import combinations

import numpy as np
import pytest
import shapely

from roadseg.commands.city.aerial import draw_scene, to_uint16
from roadseg.commands.city.streets import (
    ARTERIAL,
    COLLECTOR,
    RESIDENTIAL,
    Street,
    cut_streets,
    draw_streets,
    find_dead_ends,
    find_junctions,
    scene_labels,
)
from roadseg.roads.labels.schemes import read_attributes
from roadseg.roads.options import LabelOptions

EXTENT_M = (900.0, 700.0)
BOUNDS = (200.0, 150.0, 590.0, 540.0)
SMALL = {"x_m": 300.0, "y_m": 200.0, "size_px": 300}


@pytest.fixture(scope="module")
def streets():
    return draw_streets(extent_m=EXTENT_M, seed=0)


@pytest.fixture(scope="module")
def small_scene(streets):
    return draw_scene(streets, **SMALL, seed=0)


@pytest.mark.parametrize("seed", range(3))
def test_streets_meet_only_at_vertices_that_both_have(seed):
    for one, other in combinations(draw_streets(extent_m=EXTENT_M, seed=seed), 2):
        shared = set(one.line.coords) & set(other.line.coords)
        met = shapely.get_coordinates(one.line.intersection(other.line))
        assert set(map(tuple, met.tolist())) == shared


def test_streets_bend_but_never_sharply(streets):
    for street in (street for street in streets if street.kind != RESIDENTIAL):
        steps = np.diff(street.line.coords, axis=0)
        turns = np.diff(np.unwrap(np.arctan2(steps[:, 1], steps[:, 0])))
        assert 0 < np.abs(turns).max() < np.radians(10)


def test_a_junction_is_as_wide_as_its_widest_street():
    street = Street(shapely.LineString([(0, 0), (50, 0), (100, 0)]), ARTERIAL, 16.0)
    side_street = Street(shapely.LineString([(50, 0), (50, 80)]), RESIDENTIAL, 7.0)
    assert find_junctions([street, side_street]) == {(50.0, 0.0): 16.0}
    assert find_dead_ends([street, side_street]) == [(50.0, 80.0)]


def test_a_city_has_t_junctions_crossings_and_dead_ends(streets):
    lines = shapely.union_all([street.line for street in streets])
    inside = shapely.box(50, 50, 850, 650)
    points = [xy for xy in find_junctions(streets) if inside.contains(shapely.Point(xy))]
    arms = {_arms(lines, xy) for xy in points}
    assert arms == {3, 4}
    assert any(inside.contains(shapely.Point(end)) for end in find_dead_ends(streets))


def _arms(lines, xy):
    ring = shapely.Point(xy).buffer(5).exterior
    return len(shapely.get_parts(ring.intersection(lines)))


def test_a_scene_holds_every_class_of_street(streets):
    labels = scene_labels(streets, bounds=BOUNDS, with_speed=True)
    assert {properties["speed_mph"] for _, properties in labels} == {25.0, 35.0, 45.0}


def test_labels_end_at_the_edge_of_the_scene(streets):
    lines = [line for line, _ in scene_labels(streets, bounds=BOUNDS, with_speed=True)]
    west, south, east, north = shapely.total_bounds(lines)
    assert (west, south, east, north) == pytest.approx(BOUNDS)


def test_a_street_that_leaves_and_comes_back_becomes_two():
    street = Street(shapely.LineString([(0, 0), (5, 20), (9, 0)]), COLLECTOR, 11.0)
    assert len(cut_streets([street], shapely.box(0, 0, 10, 10))) == 2


def test_a_street_outside_gives_no_label():
    street = Street(shapely.LineString([(0, 0), (5, 20)]), COLLECTOR, 11.0)
    assert scene_labels([street], bounds=(50, 50, 60, 60), with_speed=True) == []


def test_a_label_without_speed_implies_the_same_speed(streets):
    stated = scene_labels(streets, bounds=BOUNDS, with_speed=True)
    implied = scene_labels(streets, bounds=BOUNDS, with_speed=False)
    columns = {key: np.array([tags[key] for _, tags in implied]) for key in implied[0][1]}
    found = read_attributes(
        columns, len(implied), LabelOptions(scheme="spacenet", default_speed_mph=1)
    )
    assert found.mph.tolist() == [tags["speed_mph"] for _, tags in stated]
    assert set(found.source) == {"road_type"}


@pytest.mark.parametrize("kind", [ARTERIAL, COLLECTOR, RESIDENTIAL])
@pytest.mark.parametrize("y_m", [30.0, 25.2])
def test_pavement_is_as_wide_as_the_street_and_centred_on_its_line(kind, y_m):
    street = Street(shapely.LineString([(-500, y_m), (500, y_m)]), kind, kind.widths_m[0])
    options = {"x_m": 0.0, "y_m": 0.0, "size_px": 200}
    scenes = [draw_scene([street], **options, seed=seed) for seed in range(5)]
    across = np.median(scenes, axis=(0, 1, 3))
    middle = (60 - y_m) / 0.3
    north, south = _kerb(across[::-1], 200 - middle), _kerb(across, middle)
    assert south == pytest.approx(north, abs=1)
    assert (south + north) / 2 * 0.3 == pytest.approx(street.width_m / 2, abs=0.6)


def _kerb(across, middle):
    """Return how many pixels below the middle the asphalt gives way to the brighter kerb."""
    start = round(middle) + 8
    return start + int(np.argmax(across[start:] > across[start] + 15)) - middle


def test_streets_are_greyer_than_the_ground_around_them(streets):
    image = draw_scene(streets, x_m=200.0, y_m=150.0, size_px=600, seed=0)
    chroma = np.ptp(image.astype(int), axis=0)
    is_street, is_ground = _beside_streets(streets, 1.5), _beside_streets(streets, 20.0)
    assert np.median(chroma[is_street]) < 0.7 * np.median(chroma[is_ground])


def _beside_streets(streets, offset_m):
    """Return rows and columns of a scene's pixels at a distance from the nearest centreline."""
    lines = shapely.union_all([street.line for street in streets])
    edge = lines.buffer(offset_m).intersection(shapely.box(201, 151, 379, 329)).boundary
    x, y = shapely.get_coordinates(shapely.segmentize(edge, 1.0)).T
    return ((330 - y) / 0.3).astype(int), ((x - 200) / 0.3).astype(int)


def test_sixteen_bit_counts_follow_the_bytes_in_a_straight_line(small_scene):
    counts = to_uint16(small_scene, seed=0)
    assert counts.dtype == np.uint16
    assert 60 < counts.min() < counts.max() < 1500
    for band, bytes_ in zip(counts, small_scene, strict=True):
        assert np.corrcoef(band.ravel(), bytes_.ravel())[0, 1] > 0.999


def test_sixteen_bit_bands_have_ranges_of_their_own(small_scene):
    grey = np.broadcast_to(small_scene[:1], small_scene.shape)
    means = to_uint16(grey, seed=0).mean(axis=(1, 2))
    assert np.ptp(means) > 10
