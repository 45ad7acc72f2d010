from dataclasses import replace

import numpy as np
import pytest
import rasterio
import shapely
from affine import Affine

from roadseg.config import load_config
from roadseg.dataset.chips import read_chips, write_chips
from roadseg.raster.grid import Grid
from roadseg.report.map_data import Precision, map_areas
from roadseg.report.scenes import (
    ReportScene,
    ReportScenes,
    describe_map,
    encode_pictures,
    read_scenes,
)
from roadseg.roads.masks.probabilities import open_probability
from roadseg.roads.speeds import DEFAULT_BINS
from tests.drawing import UTM, drawn

GRID = Grid(UTM, Affine(1, 0, 480000, 0, -1, 3650000), 200, 200)

NORTH = shapely.MultiPolygon([shapely.box(480000, 3649900, 480200, 3650000)])


def roads(*rows_m):
    """Return roads from west to east, so many metres south of the north edge."""
    return drawn(*[[(480000, 3650000 - m), (480200, 3650000 - m)] for m in rows_m])


def report_of(*scenes):
    """Return the scenes of a report, all of one place."""
    return ReportScenes(
        scenes=scenes,
        areas=map_areas([GRID] * len(scenes)),
        networks={},
        joined=frozenset(),
        scaling=None,
        bins=DEFAULT_BINS,
        chips=(),
    )


def lines_of(scene):
    """Return how many lines a report shows of each kind of road on a scene."""
    return {kind: len(roads.lines) for kind, roads in report_of(scene).compared[0].items()}


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


def test_roads_where_the_image_has_no_data_are_not_missed(finished):
    config, workspace = finished
    name = next(workspace.graphs.glob("city*.gpkg")).stem
    (scene,) = read_scenes(config, workspace, [name]).scenes
    assert scene.complete is None
    with rasterio.open(workspace.mask(name), "r+") as mask:
        pixels = mask.read(1)
        pixels[:, : mask.width // 2] = 255
        mask.write(pixels, 1)
    (scene,) = read_scenes(config, workspace, [name]).scenes
    assert scene.complete.area == pytest.approx(scene.grid.footprint_m.area / 2, rel=0.001)


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


def test_masks_begin_at_the_threshold_of_the_network_that_predicted_them(write_raster):
    road = open_probability(write_raster(np.full((200, 200), 0.45, np.float32)))
    files = [replace(road, threshold=threshold) for threshold in (0.3, 0.6)]
    shown = report_of(
        *[ReportScene(f"{file.threshold}", GRID, None, file, None, None) for file in files]
    )
    config = load_config(None)
    masks = [encode_pictures(config, shown, row, most_bytes=10**6)["mask"] for row in (0, 1)]
    assert masks[0]["picture"] != masks[1]["picture"]
    assert describe_map(config, shown, Precision(0.1, 0))["threshold"] == "0.3 to 0.6"
