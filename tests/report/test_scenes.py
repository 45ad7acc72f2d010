import pytest
import shapely
from affine import Affine

from roadseg.dataset.chips import read_chips, write_chips
from roadseg.raster.grid import Grid
from roadseg.report.map_data import map_areas
from roadseg.report.scenes import ReportScene, ReportScenes, read_scenes
from roadseg.roads.speeds import DEFAULT_BINS
from tests.drawing import UTM, drawn

GRID = Grid(UTM, Affine(1, 0, 480000, 0, -1, 3650000), 200, 200)

NORTH = shapely.MultiPolygon([shapely.box(480000, 3649900, 480200, 3650000)])


def roads(*rows_m):
    """Return roads from west to east, so many metres south of the north edge."""
    return drawn(*[[(480000, 3650000 - m), (480200, 3650000 - m)] for m in rows_m])


def lines_of(scene):
    """Return how many lines a report shows of each kind of road on a scene."""
    shown = ReportScenes(
        scenes=[scene],
        areas=map_areas([GRID]),
        networks={},
        joined=frozenset(),
        scaling=None,
        bins=DEFAULT_BINS,
        chips=(),
    )
    return {kind: len(roads.lines) for kind, roads in shown.compared[0].items()}


@pytest.mark.parametrize(
    ("complete", "missed", "false", "measured"),
    [
        (None, 3, 1, {}),
        (NORTH, 2, 0, {"measured": 3}),
    ],
)
def test_errors_are_shown_where_labels_are_complete(complete, missed, false, measured):
    scene = ReportScene("a", GRID, None, None, roads(80, 150), roads(20, 50, 80, 180), complete)
    shown = lines_of(scene)
    assert shown == {"reference": 4, "missed": missed, "false": false} | measured


def test_a_road_beside_the_border_of_what_is_complete_is_found_by_its_label_beyond_it():
    scene = ReportScene("a", GRID, None, None, roads(99), roads(101), NORTH)
    shown = lines_of(scene)
    assert (shown["missed"], shown["false"]) == (0, 0)


def test_labels_are_read_only_if_they_are_to_be_shown(finished):
    config, workspace = finished
    name = next(workspace.graphs.glob("city*.gpkg")).stem
    for is_wanted in (True, False):
        (scene,) = read_scenes(config, workspace, [name], with_labels=is_wanted).scenes
        assert (scene.reference is not None) == is_wanted


def test_an_image_without_chips_has_no_labels(finished):
    config, workspace = finished
    name = next(workspace.graphs.glob("city*.gpkg")).stem
    listed = read_chips(workspace.chips)
    chips = [chip for chip in listed.chips if chip.scene != name]
    write_chips(workspace.chips, listed.scenes, chips, listed.bins)
    (scene,) = read_scenes(config, workspace, [name]).scenes
    assert scene.reference is None
