import sys

import numpy as np
import pytest
import shapely
from pyproj import CRS

from roadseg.errors import RoadsegError
from roadseg.raster.grid import LOCAL_CRS
from roadseg.roads.graph.neatnet import neaten
from roadseg.roads.graph.road_graph import graph_from_lines

UTM = CRS.from_epsg(32633)


def graph_of(*lines, crs=UTM, **attributes):
    shapes = np.array([shapely.LineString(line) for line in lines], dtype=object)
    return graph_from_lines(shapes, crs, {k: np.array(v) for k, v in attributes.items()})


def dual_carriageway():
    """Draw two lanes 12 m apart over 400 m, cross links every 100 m, and side streets."""
    xs = [0, 100, 200, 300, 400]
    lanes = [[(x, y) for x in xs] for y in (0, 12)]
    across = [[(x, -150), (x, 0), (x, 12), (x, 160)] for x in xs]
    return [*lanes, *across]


def roundabout():
    """Draw a ring of 15 m radius with four arms; return the arms first."""
    angles = np.linspace(0, 2 * np.pi, 33)[:-1]
    ring = np.round(15 * np.column_stack([np.cos(angles), np.sin(angles)]), 3)
    ring = np.concatenate([ring, ring[:1]])
    return [*([(15 * x, 15 * y), (150 * x, 150 * y)] for x, y in ARMS), ring]


ARMS = [(1, 0), (0, 1), (-1, 0), (0, -1)]


@pytest.fixture
def neatnet():
    return pytest.importorskip("neatnet")


def crossed_at(graph, x):
    """Return the heights at which roads cross an upright line."""
    upright = shapely.LineString([(x, -100), (x, 100)])
    return shapely.get_coordinates(shapely.intersection(graph.lines, upright))[:, 1]


@pytest.mark.usefixtures("neatnet")
def test_a_dual_carriageway_becomes_one_road_in_its_middle():
    graph = graph_of(*dual_carriageway())
    assert crossed_at(graph, 50).tolist() == [0, 12]
    assert crossed_at(neaten(graph), 50) == pytest.approx([6], abs=1)


@pytest.mark.usefixtures("neatnet")
def test_side_streets_stay_joined_to_a_dual_carriageway():
    neat = neaten(graph_of(*dual_carriageway()))
    assert sorted(neat.degree)[-3:] == [4, 4, 4]
    assert neat.length_m.sum() == pytest.approx(400 + 5 * 310, abs=60)


@pytest.mark.usefixtures("neatnet")
def test_a_roundabout_becomes_one_junction():
    neat = neaten(graph_of(*roundabout()))
    (junction,) = np.flatnonzero(neat.degree == 4)
    assert np.hypot(*neat.nodes[junction]) < 1
    assert len(neat.lines) == 4


@pytest.mark.usefixtures("neatnet")
def test_blocks_of_houses_stay():
    lines = [[(x, 0), (x, 100), (x, 200)] for x in (0, 100, 200)]
    lines += [[(0, y), (100, y), (200, y)] for y in (0, 100, 200)]
    graph = graph_of(*lines)
    assert neaten(graph).length_m.sum() == pytest.approx(graph.length_m.sum())


@pytest.mark.usefixtures("neatnet")
@pytest.mark.parametrize(
    "lines", [[], [[(0, 0), (90, 0)]], [[(0, 0), (90, 0)], [(90, 0), (90, 9)]]]
)
def test_a_graph_that_encloses_nothing_stays_as_it_is(lines):
    graph = graph_of(*lines)
    assert neaten(graph) is graph


@pytest.mark.usefixtures("neatnet")
def test_edges_have_the_attributes_of_those_they_replace():
    graph = graph_of(*roundabout(), inferred=[1, 0, 0, 0, 0])
    neat = neaten(graph)
    right = shapely.get_coordinates(shapely.centroid(neat.lines))[:, 0] > 50
    assert neat.attributes["inferred"].tolist() == right.tolist()


@pytest.mark.usefixtures("neatnet")
def test_travel_times_grow_with_the_lines():
    graph = graph_of(*roundabout(), travel_time_s=[13.5, 13.5, 13.5, 13.5, 9.0])
    assert neaten(graph).attributes["travel_time_s"] == pytest.approx([15] * 4, abs=0.2)


@pytest.mark.usefixtures("neatnet")
def test_a_graph_without_georeference_keeps_its_coordinates():
    neat = neaten(graph_of(*roundabout(), crs=LOCAL_CRS))
    assert neat.crs == LOCAL_CRS
    assert np.abs(neat.nodes).max() == pytest.approx(150, abs=0.001)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "neatnet", None)
    with pytest.raises(RoadsegError, match=r"pip install 'roadseg\[neat\]'"):
        neaten(graph_of(*roundabout()))


def test_what_neatnet_cannot_do_is_one_line(neatnet, monkeypatch):
    def fail(*_, **__):
        raise KeyError("face_artifact_index")

    monkeypatch.setattr(neatnet, "neatify", fail)
    with pytest.raises(RoadsegError, match=r"face_artifact_index.*set graph\.neat=false"):
        neaten(graph_of(*roundabout()))
