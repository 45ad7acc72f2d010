"""Differences of road files: layers to be imported, totals, and what cannot be compared."""

import numpy as np
import pyogrio
import pytest
from pyproj import CRS

from roadseg.commands.roads.diff import run
from roadseg.errors import ConfigError, DataError, OutputError
from roadseg.raster.grid import LOCAL_CRS, reproject
from roadseg.roads.colours import FALSE, MISSED
from roadseg.roads.formats.files import write_gpkg
from roadseg.roads.formats.graphml import write_graphml
from roadseg.roads.formats.layers import write_edges
from roadseg.roads.graph.road_graph import graph_from_lines
from roadseg.roads.options import DiffOptions
from tests.drawing import lines_of

UTM = CRS.from_epsg(32632)
ORIGIN = np.array([477_000.0, 5_473_000.0])
STREET, OLD, NEW = [(0, 0), (300, 0)], [(0, 0), (0, 200)], [(300, 0), (300, 100)]
WRITERS = {"gpkg": write_gpkg, "geojson": write_edges, "graphml": write_graphml}


@pytest.fixture
def write(tmp_path):
    """Give a function that writes roads in the format of the suffix."""

    def write_roads(name, *roads, crs=UTM, origin=ORIGIN, **columns):
        placed = lines_of(*[np.add(road, origin) for road in roads])
        shapes = placed if crs == LOCAL_CRS else reproject(placed, UTM, crs)
        graph = graph_from_lines(shapes, crs, columns)
        WRITERS[name.rpartition(".")[2]](tmp_path / name, graph)
        return tmp_path / name

    return write_roads


def told(summary):
    return {
        side: (round(found.common_km, 3), round(found.only_km, 3), found.pieces)
        for side, found in (("predicted", summary.predicted), ("reference", summary.reference))
    }


EXPECTED = {"predicted": (0.3, 0.1, 1), "reference": (0.3, 0.2, 1)}


def test_each_side_is_told_what_the_other_lacks(write):
    sides = write("a.gpkg", STREET, NEW), write("b.gpkg", STREET, OLD)
    assert told(run(*sides)) == EXPECTED
    assert told(run(*sides[::-1])) == {
        "predicted": EXPECTED["reference"],
        "reference": EXPECTED["predicted"],
    }


@pytest.mark.parametrize("name", ["b.geojson", "b.graphml"])
def test_formats_and_coordinate_systems_change_nothing(write, name):
    ours = write("a.gpkg", STREET, NEW, crs=CRS.from_epsg(25832))
    assert told(run(ours, write(name, STREET, OLD))) == EXPECTED


def test_layers_hold_the_roads_with_the_attributes_of_their_edges(write, tmp_path):
    facts = {
        "highway": np.array(["primary", "residential"], dtype=object),
        "travel_time_s": np.array([30.0, 10.0]),
        "probability": np.array([0.9, np.nan]),
    }
    out = tmp_path / "new roads.v2.gpkg"
    run(write("a.gpkg", STREET, NEW, **facts), write("b.geojson", STREET, OLD), output=out)
    layers = pyogrio.list_layers(out)[:, 0].tolist()
    assert layers == ["missing_in_reference", "missing_in_predicted", "layer_styles"]
    table = pyogrio.read_dataframe(out, layer="missing_in_reference")
    assert table.geometry.length.tolist() == table["length"].tolist() == pytest.approx([100])
    assert (table["highway"].tolist(), table["travel_time"].tolist()) == (["residential"], [10])
    assert list(pyogrio.read_dataframe(out, layer="missing_in_predicted")["length"]) == (
        pytest.approx([200], abs=0.01)
    )


def test_qgis_shows_both_layers_in_the_colours_of_errors(write, tmp_path):
    run(write("a.gpkg", STREET, NEW), write("b.gpkg", OLD), output=tmp_path / "d.gpkg")
    styles = pyogrio.read_dataframe(tmp_path / "d.gpkg", layer="layer_styles")
    found = dict(zip(styles["f_table_name"], styles["styleQML"], strict=True))
    assert f"{FALSE[0]},{FALSE[1]},{FALSE[2]}" in found["missing_in_reference"]
    assert f"{MISSED[0]},{MISSED[1]},{MISSED[2]}" in found["missing_in_predicted"]


def test_speeds_that_were_assumed_are_not_written(write, tmp_path):
    run(write("a.geojson", STREET, NEW), write("b.gpkg", STREET), output=tmp_path / "d.gpkg")
    table = pyogrio.read_dataframe(tmp_path / "d.gpkg", layer="missing_in_reference")
    assert list(table.columns) == ["length", "geometry"]


def test_sides_that_are_alike_have_empty_layers(write, tmp_path):
    found = run(write("a.gpkg", STREET), write("b.gpkg", STREET), output=tmp_path / "d.gpkg")
    assert (found.predicted.only_km, found.reference.only_km) == (0, 0)
    assert len(pyogrio.read_dataframe(tmp_path / "d.gpkg", layer="missing_in_predicted")) == 0


def test_all_of_a_side_is_told_if_the_other_is_empty(write):
    assert told(run(write("a.gpkg", STREET), write("b.gpkg"))) == {
        "predicted": (0, 0.3, 1),
        "reference": (0, 0, 0),
    }


def test_graphs_without_a_place_on_earth_are_compared_in_their_metres(write):
    facts = {"crs": LOCAL_CRS, "origin": (0, -400), "speed_kph": np.array([30.0, 50.0])}
    ours, theirs = write("a.gpkg", STREET, NEW, **facts), write("b.gpkg", STREET, OLD, **facts)
    assert told(run(ours, theirs)) == EXPECTED


def test_limits_are_those_given(write):
    sides = write("a.gpkg", STREET), write("b.gpkg", [(0, 10), (200, 10)])
    assert told(run(*sides, limits=DiffOptions(tolerance_m=9)))["predicted"] == (0, 0.3, 1)
    apart_km = 0.1 - round(np.sqrt(11**2 - 10**2) / 1000, 3)
    assert told(run(*sides, limits=DiffOptions(tolerance_m=11)))["predicted"] == (
        0.3 - apart_km,
        apart_km,
        1,
    )
    assert told(run(*sides, limits=DiffOptions(tolerance_m=11, min_length_m=101)))["predicted"] == (
        0.3,
        0,
        0,
    )


def test_the_table_has_a_row_for_each_side(write):
    text = str(run(write("a.gpkg", STREET, NEW), write("b.gpkg", STREET, OLD)))
    assert "predicted       0.40      0.30       0.10 in 1 piece\n" in text
    assert "reference       0.50      0.30       0.20 in 1 piece\n" in text


def test_places_far_apart_are_refused(write):
    far = write("b.gpkg", STREET, origin=ORIGIN + 20_000)
    with pytest.raises(DataError, match="two sides do not overlap"):
        run(write("a.gpkg", STREET), far)


def test_what_is_not_one_file_of_roads_is_refused(write, tmp_path):
    ours = write("a.gpkg", STREET)
    (tmp_path / "pixels.csv").write_text(
        'ImageId,WKT_Pix\nimg1,"LINESTRING (1 1, 9 9)"\n', encoding="utf-8"
    )
    with pytest.raises(DataError, match=r"pixels.csv: its lines are in pixels"):
        run(ours, tmp_path / "pixels.csv")
    write("b.gpkg", STREET)
    write("c.gpkg", STREET)
    with pytest.raises(DataError, match="contains roads of 3 places, expected one"):
        run(ours, tmp_path)


def test_another_suffix_is_refused(write, tmp_path):
    path = write("a.gpkg", STREET)
    with pytest.raises(ConfigError, match=r"d.json: use a file name that ends in .gpkg"):
        run(path, path, output=tmp_path / "d.json")


@pytest.mark.parametrize("size", [200, 50_000, 105_000])
def test_a_full_disk_leaves_nothing(write, tmp_path, largest_file, size):
    """At the largest of these sizes GDAL itself reports no error."""
    sides = write("a.gpkg", STREET, NEW), write("b.gpkg", STREET, OLD)
    with largest_file(size), pytest.raises(OutputError, match=r"d.gpkg: cannot be written"):
        run(*sides, output=tmp_path / "d.gpkg")
    assert {path.name for path in tmp_path.iterdir()} == {"a.gpkg", "b.gpkg"}


def test_neither_side_is_overwritten(write):
    sides = write("a.gpkg", STREET), write("b.gpkg", OLD)
    before = [side.read_bytes() for side in sides]
    for side in sides:
        with pytest.raises(ConfigError, match="is a file to read"):
            run(*sides, output=side)
    assert [side.read_bytes() for side in sides] == before


@pytest.mark.parametrize("suffix", ["geojson", "graphml"])
def test_footways_and_tunnels_are_left_out_as_in_labels_and_named(write, caplog, suffix):
    kinds = {
        "highway": np.array(["primary", "footway", "primary"], dtype=object),
        "tunnel": np.array([None, None, "yes"], dtype=object),
    }
    reference = write(f"b.{suffix}", STREET, OLD, NEW, **kinds)
    assert told(run(write("a.gpkg", STREET), reference))["reference"] == (0.3, 0, 0)
    assert caplog.messages == [
        f"{reference}: left out, as in labels: 0.20 km not for cars, 0.10 km tunnel"
    ]


def test_roads_that_cross_without_a_vertex_are_counted_with_what_to_do(write, caplog):
    crossing = write("a.geojson", STREET, [(100, -100), (100, 100)])
    run(write("b.gpkg", STREET), crossing)
    (remark,) = caplog.messages
    assert remark.startswith(f"{crossing}: 1 crossing and 0 touching ends without a common vertex")
    assert remark.endswith("join them: roadseg convert --node a.geojson roads.gpkg")


def test_a_prediction_given_as_the_reference_is_noticed(write, caplog):
    labels = write("labels.geojson", STREET)
    predicted = write("predicted.gpkg", STREET, confidence=np.array([0.9]))
    run(predicted, labels)
    assert not caplog.messages
    run(labels, predicted)
    assert "predicted.gpkg: the reference has confidences, as predictions have" in caplog.text
