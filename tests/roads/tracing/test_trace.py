import numpy as np
import pytest
from affine import Affine
from pyproj import CRS

from roadseg.raster.grid import LOCAL_CRS, Grid
from roadseg.roads.logistic import IS_LINK, EdgeModel
from roadseg.roads.masks.probabilities import Probability
from roadseg.roads.options import TraceOptions
from roadseg.roads.speeds import SpeedBins
from roadseg.roads.tracing import trace
from roadseg.roads.tracing.trace import find_graph

UTM = CRS.from_epsg(32611)


def cross(size=200, half=4):
    """A road from west to east and one from north to south, 4 m wide at 0.5 m."""
    road = np.zeros((size, size), dtype=np.uint8)
    middle = slice(size // 2 - half, size // 2 + half)
    road[middle], road[:, middle] = 255, 255
    return road


ORIGIN = (660000, 4000000)


def find(road, *, crs=UTM, origin=ORIGIN, bins=None, speed_bins=None, **options):
    grid = Grid(crs, Affine(0.5, 0, origin[0], 0, -0.5, origin[1]), *road.shape)
    return find_graph(Probability(grid, road, bins, speed_bins), TraceOptions(**options))


@pytest.mark.parametrize(("crs", "origin"), [(UTM, ORIGIN), (LOCAL_CRS, (0, 0))])
def test_a_crossing_is_four_edges_that_meet_in_the_metres_of_its_scene(crs, origin):
    graph = find(cross(), crs=crs, origin=origin)
    assert graph.crs == crs
    assert sorted(graph.degree) == [1, 1, 1, 1, 4]
    assert graph.length_m == pytest.approx([50] * 4, abs=1)
    assert graph.nodes.min(axis=0) - origin == pytest.approx([0, -100], abs=1)
    assert graph.attributes["speed_kph"] == pytest.approx([25 * 1.609344] * 4)  # The default.


@pytest.mark.parametrize(("value", "edges"), [(101, 0), (102, 4)])
def test_a_probability_on_the_threshold_is_road(value, edges):
    assert len(find(np.minimum(cross(), value).astype(np.uint8)).lines) == edges  # 0.4 * 255 = 102


@pytest.mark.parametrize(
    ("value", "gap_px", "options", "inferred"),
    [
        (255, 44, {}, 1),
        (255, 60, {}, 0),
        (250, 60, {}, 1),
        (250, 110, {}, 0),
        (255, 60, {"max_gap_m": 50}, 1),
    ],
)
def test_links_reach_half_as_far_on_masks_unless_a_length_is_given(
    value, gap_px, options, inferred
):
    road = np.zeros((100, 600), dtype=np.uint8)
    road[46:54] = value
    road[:, 300 : 300 + gap_px] = 0 if value == 255 else 90
    assert find(road, **options).attributes["inferred"].sum() == inferred


@pytest.mark.parametrize(
    ("odds", "min_confidence", "inferred"),
    [(None, 0.3, 1), (0.0, 0.5, 1), (0.0, 0.501, 0), (-30.0, 0.2, 0), (-30.0, 0.0, 1)],
)
def test_links_that_are_unlikely_by_a_calibrated_model_are_dropped(odds, min_confidence, inferred):
    road = np.full((60, 200), 100, dtype=np.uint8)
    road[26:34] = 250
    road[:, 100:112] = 90
    grid = Grid(UTM, Affine(0.5, 0, ORIGIN[0], 0, -0.5, ORIGIN[1]), *road.shape)
    model = None if odds is None else EdgeModel(0.0, {IS_LINK: odds})
    options = TraceOptions(threshold=0.5, min_confidence=min_confidence)
    graph = find_graph(Probability(grid, road, edge_model=model), options)
    assert graph.attributes["inferred"].sum() == inferred


@pytest.mark.parametrize(("is_calibrated", "edges"), [(True, 0), (False, 1)])
def test_dead_ends_go_only_by_a_confidence_that_was_measured(monkeypatch, is_calibrated, edges):
    road = np.full((60, 200), 10, dtype=np.uint8)
    road[26:34, 40:160] = 250
    grid = Grid(UTM, Affine(0.5, 0, ORIGIN[0], 0, -0.5, ORIGIN[1]), *road.shape)
    doubtful = EdgeModel(-2.0, {})
    monkeypatch.setattr(trace, "general_edge_model", lambda: doubtful)
    model = doubtful if is_calibrated else None
    graph = find_graph(Probability(grid, road, edge_model=model), TraceOptions(threshold=0.5))
    assert len(graph.lines) == edges


@pytest.mark.parametrize(
    ("given", "least", "edges"),
    [("auto", None, 2), ("auto", 0.7, 1), ("auto", 0.3, 2), (0.3, 0.7, 3), (0.7, 0.3, 1)],
)
def test_roads_are_traced_at_the_threshold_given_else_at_the_higher_one_of_network_and_edges(
    given, least, edges
):
    road = np.zeros((100, 200), dtype=np.uint8)
    for row, probability in ((10, 0.4), (50, 0.6), (80, 0.9)):
        road[row : row + 8] = 255 * probability
    grid = Grid(UTM, Affine(0.5, 0, ORIGIN[0], 0, -0.5, ORIGIN[1]), *road.shape)
    model = EdgeModel(0.0, {}, least)
    pixels = Probability(grid, road, threshold=0.5, edge_model=model)
    assert len(find_graph(pixels, TraceOptions(threshold=given)).lines) == edges


def test_speeds_are_those_of_the_bins_along_the_edge():
    road, bins = cross(), np.zeros((2, 200, 200), dtype=np.uint8)
    bins[1, 96:104] = 255  # from west to east
    bins[0, :, 96:104] = 255 - bins[1, :, 96:104]
    graph = find(road, bins=bins, speed_bins=SpeedBins((50.0,), "km/h"))
    assert sorted(graph.attributes["speed_kph"]) == pytest.approx([25, 25, 75, 75])


def test_the_width_of_a_road_is_read_beside_it_too():
    road = np.zeros((100, 200), dtype=np.uint8)
    road[46:54] = 255
    assert find(road).attributes["width_m"] == pytest.approx([4], abs=0.3)
