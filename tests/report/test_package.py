"""The GeoPackage of a run: roads, errors, chips and scenes in one file."""

from dataclasses import replace

import geopandas as gpd
import numpy as np
import pyogrio
import pytest
import shapely
from affine import Affine
from pyproj import CRS

from roadseg.dataset.chips import ChipRecord
from roadseg.raster.grid import LOCAL_CRS, Grid
from roadseg.raster.windows import Window
from roadseg.report.map_data import map_areas
from roadseg.report.package import write_package
from roadseg.report.scenes import ReportScene, ReportScenes
from roadseg.roads.formats.files import read_gpkg
from roadseg.roads.speeds import DEFAULT_BINS
from tests.drawing import UTM, drawn

NEXT_ZONE = CRS.from_epsg(32612)


def grid_at(east=0, crs=UTM):
    return Grid(crs, Affine(1, 0, 480000 + east, 0, -1, 3650000), 40, 60)


def roads_at(*norths, crs=UTM, east=0):
    """Give a road of 50 m for each distance from the upper edge, in metres."""
    lines = [[(480000 + east, 3650000 - y), (480050 + east, 3650000 - y)] for y in norths]
    of_each = np.ones(len(lines))
    return drawn(*lines, crs=crs, speed_kph=40 * of_each, confidence=of_each / 2)


def scene(name="a", east=0, crs=UTM, **changes):
    found = roads_at(10, 30, crs=crs, east=east)
    made = ReportScene(name, grid_at(east, crs), None, None, found, None)
    return replace(made, **changes)


@pytest.fixture
def write(tmp_path):
    """Give a function that writes the package of some scenes, and returns its layers by name."""

    def write_(*scenes, chips=(), folds=None, scores=None, edits=None):
        areas = map_areas([each.grid for each in scenes])
        shown = ReportScenes([*scenes], areas, {}, frozenset(), None, DEFAULT_BINS, chips)
        path = tmp_path / "roadseg.gpkg"
        if not write_package(path, shown, folds=folds, scores=scores, edits=edits):
            return None
        return {name: gpd.read_file(path, layer=name) for name, _ in pyogrio.list_layers(path)}

    return write_


def test_a_run_without_labels_has_roads_and_scenes(write):
    layers = write(scene())
    assert set(layers) == {"edges", "nodes", "scenes", "layer_styles"}
    assert set(layers["layer_styles"]["f_table_name"]) == {"edges", "nodes", "scenes"}
    (row,) = layers["scenes"].to_dict("records")
    assert (row["name"], row["km2"]) == ("a", 0.0024)
    assert (row["road_km"], row["confidence"]) == pytest.approx((0.1, 0.5))


def test_errors_are_what_labels_and_roads_do_not_share(write):
    layers = write(scene(reference=roads_at(10, 20)))
    assert layers["missed"].geometry.iloc[0].coords[0][1] == 3650000 - 20
    assert layers["false"].geometry.iloc[0].coords[0][1] == 3650000 - 30
    assert [len(layers[name]) for name in ("missed", "false")] == [1, 1]


def test_the_edges_of_several_scenes_lead_to_their_own_nodes(write, tmp_path):
    layers = write(scene("a"), scene("b", east=60))
    edges, nodes = layers["edges"], layers["nodes"].set_index("osmid")
    assert list(edges["scene"]) == ["a", "a", "b", "b"]
    starts = nodes.geometry.loc[edges["u"]]
    assert list(starts) == [shapely.Point(line.coords[0]) for line in edges.geometry]
    assert len(read_gpkg(tmp_path / "roadseg.gpkg").lines) == 4


def test_scenes_far_apart_share_the_file_in_degrees_and_keep_lengths_in_metres(write):
    layers = write(scene("a"), scene("b", crs=NEXT_ZONE))
    assert layers["edges"].crs == CRS.from_epsg(4326)
    assert layers["edges"]["length"].to_numpy() == pytest.approx([50.0] * 4)


def test_chips_have_their_fold_and_the_metrics_that_were_measured(write):
    window = Window(0, 0, 40, 60)
    chips = tuple(
        ChipRecord(name, "a", window, grid_at().corners_m, 32611, 0.1, 1.0) for name in ("x", "y")
    )
    scores = {"columns": ["chip", "iou"], "rows": [["y", 0.75]]}
    layers = write(scene(), chips=chips, folds={"x": 0, "y": 1}, scores=scores)
    found = layers["chips"].set_index("name")
    assert (found["fold"].to_dict(), found["iou"]["y"]) == ({"x": 0, "y": 1}, 0.75)
    assert np.isnan(found["iou"]["x"])


def test_edits_are_a_layer_with_their_style_in_the_crs_of_the_file(write):
    columns = {"kind": ["draw", "reject"], "who": ["Ana", "Ben"], "width_m": [np.nan, 8.0]}
    lines = roads_at(10, 20).lines
    edits = gpd.GeoDataFrame(columns, geometry=lines, crs=UTM).to_crs(4326)
    layers = write(scene(), edits=edits)
    found, styles = layers["edits"], layers["layer_styles"].set_index("f_table_name")
    assert list(found.columns) == [*columns, "geometry"]
    assert (found.crs, found["kind"].tolist()) == (UTM, ["draw", "reject"])
    assert shapely.hausdorff_distance(found.geometry.array, lines).max() < 1e-3
    assert 'attr="kind"' in styles["styleQML"]["edits"]


def test_edits_that_were_all_undone_are_no_layer(write):
    none = gpd.GeoDataFrame({"kind": []}, geometry=[], crs=UTM)
    assert "edits" not in write(scene(), edits=none)


def test_scenes_without_georeference_have_no_package(write):
    assert write(scene(grid=grid_at(crs=LOCAL_CRS))) is None
