"""What the page for a client says of a run."""

import numpy as np
import pytest
from affine import Affine

from roadseg.raster.grid import Grid
from roadseg.report.client_page import client_page
from roadseg.report.map_data import map_areas
from roadseg.report.scenes import ReportScene, ReportScenes
from roadseg.roads.metrics.road_lengths import RoadLengths
from roadseg.roads.speeds import DEFAULT_BINS
from tests.drawing import UTM, drawn


def scene(name, *, metres, confidence):
    grid = Grid(UTM, Affine(1, 0, 480_000, 0, -1, 3_650_000), 400, 400)
    line = [(480_000, 3_649_900), (480_000 + metres, 3_649_900)]
    roads = drawn(line, confidence=np.array([confidence]))
    return ReportScene(name, grid, None, None, roads, None)


@pytest.fixture
def page():
    """Make the page of two scenes, which are one map."""
    scenes = [scene("a", metres=300, confidence=0.9), scene("b", metres=100, confidence=0.5)]
    areas = map_areas([each.grid for each in scenes])
    shown = ReportScenes(scenes, areas, {}, frozenset(), None, DEFAULT_BINS, ())
    measured = {"chips": 5, "correctness": 0.81, "completeness": 0.72, "apls_length": 0.63}
    facts = {"title": "Springfield", "made": "today", "km2": 0.16, "credits": []}
    facts |= {"summaries": {"evaluate": measured}, "versions": {"roadseg": "1"}}
    return client_page(shown, facts, RoadLengths(), area=None)


def test_the_figures_are_those_of_all_roads_by_their_lengths(page):
    assert {name: value for name, value, _ in page.figures} == {
        "Roads": "0.4",
        "Area": "0.16",
        "Images": "2",
        "Confidence": "0.80",
        "Correctness": "0.81",
        "Completeness": "0.72",
        "APLS": "0.63",
    }
