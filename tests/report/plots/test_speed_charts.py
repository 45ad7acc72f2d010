import numpy as np
import pytest
import shapely
from matplotlib.image import imread
from pyproj import CRS

from roadseg.report.plots.charts import draw_speeds, road_km
from roadseg.report.plots.figures import Paper
from roadseg.roads.graph.road_graph import graph_from_lines
from roadseg.roads.graph.travel import add_travel
from roadseg.roads.speeds import KPH_PER_MPH, SpeedBins

BINS = SpeedBins((20.0, 30.0))


def graph(**mph_of_km):
    """Return roads, each with its length in km, of speeds such as mph25."""
    mph = np.array([float(name[3:]) for name in mph_of_km])
    lines = [
        shapely.LineString([(0, 10 * row), (1000 * km, 10 * row)])
        for row, km in enumerate(mph_of_km.values())
    ]
    found = graph_from_lines(np.array(lines, dtype=object), CRS.from_epsg(32611))
    return add_travel(found, mph * KPH_PER_MPH)


def test_kilometres_are_counted_by_the_bin_of_their_speed():
    assert road_km(graph(mph20=1, mph21=2, mph30=3), BINS).tolist() == pytest.approx([1, 5, 0])


def test_no_roads_are_no_kilometres():
    assert road_km(graph(), BINS).tolist() == [0, 0, 0]


@pytest.mark.parametrize("names", [["labels", "predicted"], ["predicted"]])
def test_one_network_or_two_are_drawn(tmp_path, names):
    graphs = {name: graph(mph25=1) for name in names}
    draw_speeds(tmp_path / "a.png", graphs, title="city", bins=BINS, paper=Paper(3, 100))
    assert imread(tmp_path / "a.png").shape[1] == 300


def test_a_longer_bar_is_more_road(tmp_path):
    draw_speeds(
        tmp_path / "a.png",
        {"predicted": graph(mph10=1, mph25=2)},
        title="city",
        bins=BINS,
        paper=Paper(4, 100),
    )
    picture = imread(tmp_path / "a.png")[..., :3]
    is_bar = np.abs(picture - (0, 0.447, 0.698)).max(axis=-1) < 0.02
    slow, fast, none = (part.sum() for part in np.array_split(is_bar[40:], 3, axis=1))
    assert none < slow < fast
