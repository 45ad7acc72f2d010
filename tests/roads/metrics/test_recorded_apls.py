"""APLS of Vegas chips, as recorded from the reference code."""

import json

import numpy as np
import pytest
import shapely
from pyproj import CRS

from roadseg.roads.graph.road_graph import RoadGraph
from roadseg.roads.metrics.apls import apls

UTM = CRS.from_epsg(32611)


def directions(score):
    return score.reference_to_predicted, score.predicted_to_reference


def recorded_graph(facts, name):
    """Read a graph of the reference code: its lines may run from v to u, its times are geodesic."""
    stored = json.loads((facts / "apls" / "graphs_fixed" / f"{name}.json").read_text())
    nodes = np.array([node[1:3] for node in stored["nodes"]])
    row = {node[0]: row for row, node in enumerate(stored["nodes"])}
    ends = np.array([(row[edge["u"]], row[edge["v"]]) for edge in stored["edges"]])
    coords = [np.array(edge["coords"]) for edge in stored["edges"]]
    for points, (start, _) in zip(coords, ends, strict=True):
        to_first, to_last = np.linalg.norm(points[[0, -1]] - nodes[start], axis=1)
        points[:] = points[:: 1 if to_first <= to_last else -1].copy()
    lines = np.array([shapely.LineString(points) for points in coords], dtype=object)
    speed_mps = np.array([edge["speed"] for edge in stored["edges"]], dtype=float)
    return RoadGraph(UTM, nodes, ends, lines, {"travel_time_s": shapely.length(lines) / speed_mps})


CHIPS = ["img990", "img991", "img995", "img997", "img0_json_wkt"]
RECORDED = [
    *(("length_m", "repaired_length", "", chip) for chip in [*CHIPS, "img0_json_pkl"]),
    *(("travel_time_s", "repaired_travel_time", "tt_", chip) for chip in CHIPS),
]


@pytest.mark.real
@pytest.mark.parametrize(("weight", "key", "prefix", "chip"), RECORDED)
def test_vegas_chips_score_as_recorded_from_the_repaired_reference_code(
    facts, weight, key, prefix, chip
):
    cases = json.loads((facts / "apls_reference.json").read_text())["cases"]
    expected = cases[chip][key]["apls"]
    sides = (recorded_graph(facts, f"{prefix}{chip}_{side}") for side in ("gt", "prop"))
    result = apls(*sides, weight=weight)
    recorded = expected["gt_onto_prop"], expected["prop_onto_gt"]
    assert directions(result) == pytest.approx(recorded, abs=1e-6)
    assert result.score == pytest.approx(expected["total"], abs=1e-6)
