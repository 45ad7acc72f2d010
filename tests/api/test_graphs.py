"""Tables of geopandas and graphs of networkx are roads like those of files."""

import re

import geopandas as gpd
import networkx as nx
import numpy as np
import pandas as pd
import pytest
import shapely

import roadseg
from roadseg.errors import ConfigError, DataError


@pytest.fixture(scope="module")
def table(finished_city):
    return gpd.read_file(finished_city / "roads" / "city_0.geojson")


def test_a_table_is_read_as_its_file(labels, table):
    assert roadseg.read_graph(table).edges.equals(labels.edges)
    scores = roadseg.score(table, labels)
    assert (scores.apls.length, scores.apls.time) == pytest.approx((1, 1))


def test_lists_in_a_table_do_not_matter(labels, table):
    table = table.assign(osmid=[[1, 2] for _ in table.index])
    assert roadseg.read_graph(table).length_km == pytest.approx(labels.length_km)


@pytest.mark.parametrize(
    "columns",
    [
        {"fid": 1},
        {5: "a"},
        {"Name": "a", "name": "b"},
        {"day": pd.Period("2020")},
        {"bytes": b"a"},
        {"arrays": [np.arange(2)]},
    ],
)
def test_columns_of_any_kind_do_not_matter(labels, table, columns):
    columns = {k: v * len(table) if isinstance(v, list) else v for k, v in columns.items()}
    table = pd.concat([table, pd.DataFrame(columns, index=table.index)], axis=1)
    assert roadseg.read_graph(table).length_km == pytest.approx(labels.length_km)


@pytest.mark.parametrize("roads", [None, 3, [], np.zeros(3), pd.DataFrame(), gpd.GeoSeries()])
def test_values_without_roads_are_refused(roads):
    with pytest.raises(ConfigError, match=f"found {type(roads).__name__}, expected a file, a gra"):
        roadseg.read_graph(roads)


def test_a_table_without_crs_is_refused_in_one_line(table):
    with pytest.raises(DataError, match=r"the GeoDataFrame: has no .* with set_crs"):
        roadseg.read_graph(table.set_crs(None, allow_override=True))


def test_a_graph_of_networkx_comes_back_as_it_was(labels):
    back = roadseg.read_graph(labels.to_networkx())
    assert len(back.edges) == len(labels.edges)
    scores = roadseg.score(labels, back)
    assert (scores.apls.length, scores.apls.time) == pytest.approx((1, 1), abs=1e-3)


def test_the_line_of_each_edge_of_networkx_begins_at_its_first_node(labels):
    network = labels.to_networkx()
    for node, _, line in network.edges(data="geometry"):
        place = network.nodes[node]
        assert line.coords[0] == pytest.approx((place["x"], place["y"]))


def test_a_route_and_differences_take_them_too(labels, table):
    line = labels.edges.to_crs(4326).geometry.iloc[0]
    way = roadseg.route(table, line.coords[0], line.coords[-1], weight="length")
    assert way.length_m <= labels.edges.length.iloc[0] + 0.01
    assert roadseg.diff(labels.to_networkx(), table).missing_in_predicted.length.sum() == 0


def test_the_name_of_a_street_is_no_html_in_a_notebook():
    ends = (8.69, 49.41), (8.70, 49.41)
    street = gpd.GeoDataFrame({"name": ["<b>"]}, geometry=[shapely.LineString(ends)], crs=4326)
    way = roadseg.route(street, *ends)
    assert "<b>" in str(way)
    assert "<b>" not in way._repr_html_()


def test_masks_in_memory_are_scored_with_their_pixels(finished_city, labels):
    files = finished_city / "roads" / "city_0.geojson", finished_city / "images" / "city_0.tif"
    wide, narrow = (roadseg.burn(*files, gsd_m=0.6, buffer_m=width) for width in (4, 3))
    scores = roadseg.score(wide, narrow)
    assert scores.pixels.precision == 1
    assert scores.table["pixel_iou"] == pytest.approx(narrow.road.sum() / wide.road.sum())
    assert scores.apls.length > 0.95
    assert roadseg.score(labels, wide).pixels is None


@pytest.mark.parametrize(
    ("roads", "message"),
    [
        (nx.MultiDiGraph([(1, 2)]), "the graph: a graph without geometry: not every node has"),
        (
            gpd.GeoDataFrame(geometry=[shapely.box(0, 0, 1, 1)], crs=4326),
            "the GeoDataFrame: contains only polygons (1), expected lines",
        ),
    ],
)
def test_errors_speak_of_the_value_and_not_of_a_file(roads, message):
    with pytest.raises(DataError, match=re.escape(message)):
        roadseg.read_graph(roads)


def test_the_speeds_of_a_mask_without_bins_are_assumed():
    road = np.zeros((100, 100), dtype=bool)
    road[45:52] = True
    assert roadseg.trace(road, gsd_m=1.0).drawn.is_assumed.tolist() == [True]
