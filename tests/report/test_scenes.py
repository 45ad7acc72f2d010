import numpy as np
import pytest
import shapely
from affine import Affine
from pyproj import CRS

from roadseg.raster.grid import Grid
from roadseg.report import scenes
from roadseg.report.areas import map_areas
from roadseg.report.roads import Precision
from roadseg.roads.graph.road_graph import graph_from_lines

UTM = CRS.from_epsg(32611)
GRID = Grid(UTM, Affine(1, 0, 480000, 0, -1, 3650000), 200, 200)

NORTH = shapely.MultiPolygon([shapely.box(480000, 3649900, 480200, 3650000)])


def roads(*rows_m):
    """Return roads from west to east, so many metres south of the north edge."""
    lines = [
        shapely.LineString([(480000, 3650000 - row_m), (480200, 3650000 - row_m)])
        for row_m in rows_m
    ]
    return graph_from_lines(np.array(lines, dtype=object), UTM, {})


@pytest.mark.parametrize(
    ("complete", "missed", "false", "measured"),
    [
        (None, 3, 1, {}),
        (
            shapely.MultiPolygon([shapely.box(480000, 3649900, 480200, 3650000)]),
            2,
            0,
            {"measured": 3},
        ),
    ],
)
def test_errors_are_shown_where_labels_are_complete(monkeypatch, complete, missed, false, measured):
    scene = scenes.ReportScene(
        "a", GRID, None, None, roads(80, 150), roads(20, 50, 80, 180), complete
    )
    monkeypatch.setattr(scenes, "encode_lines", lambda lines, *_: len(lines))
    (area,) = map_areas([GRID])
    shown = scenes._encode_errors(scene, area, Precision(1, 0))  # noqa: SLF001
    assert shown == {"reference": 4, "missed": missed, "false": false} | measured


def test_a_road_beside_the_border_of_what_is_complete_is_found_by_its_label_beyond_it(monkeypatch):
    scene = scenes.ReportScene("a", GRID, None, None, roads(99), roads(101), NORTH)
    monkeypatch.setattr(scenes, "encode_lines", lambda lines, *_: len(lines))
    (area,) = map_areas([GRID])
    shown = scenes._encode_errors(scene, area, Precision(1, 0))  # noqa: SLF001
    assert (shown["missed"], shown["false"]) == (0, 0)
