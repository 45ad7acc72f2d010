from dataclasses import replace

import geopandas as gpd
import numpy as np
import pytest
import shapely

from roadseg.roads.formats.overture import write_overture

pytest.importorskip("pyarrow")


@pytest.fixture
def written(tmp_path, graph):
    """Write the drawn roads with attributes of all kinds; return segments and connectors."""
    attributes = {
        "speed_kph": np.array([30, 40.2336, 50.4, 80, 20, 400.0]),
        "highway": np.array(["primary_link", "road", "service", "cart_track", "x", "trunk"]),
        "oneway": np.array([0, 1, -1, 0, 0, 0]),
        "motor_vehicle": np.array([None, None, "no", None, None, None]),
        "name": np.array(["Größe", None, "", None, None, None], dtype=object),
        "confidence": np.array([0.5, np.nan, 1, 1, 1, 1]),
        "source": np.array(["city_1"] * 6, dtype=object),
        "width_m": np.array([7.5, np.nan, 1, 1, 1, 1]),
    }
    write_overture(tmp_path / "a.overture", replace(graph, attributes=attributes))
    names = ("segment.parquet", "connector.parquet")
    return [gpd.read_parquet(tmp_path / "a.overture" / name) for name in names]


def test_ends_of_segments_are_the_connectors_that_they_name(written):
    segments, connectors = written
    place = dict(zip(connectors["id"], connectors.geometry, strict=True))
    for line, ends in zip(segments.geometry, segments["connectors"], strict=True):
        assert [end["at"] for end in ends] == [0, 1]
        for at, end in zip((0, -1), ends, strict=True):
            assert shapely.get_point(line, at).equals(place[end["connector_id"]])


def test_ids_differ_and_stay(tmp_path, written, graph):
    write_overture(tmp_path / "b.overture", graph)
    again = gpd.read_parquet(tmp_path / "b.overture" / "segment.parquet")
    assert written[0]["id"].is_unique
    assert again["id"].tolist() == written[0]["id"].tolist()


def test_classes_are_those_of_the_schema(written):
    expected = ["primary", "unknown", "service", "unknown", "unknown", "trunk"]
    assert written[0]["class"].tolist() == expected
    assert set(written[0]["subtype"]) == {"road"}
    assert written[0]["subclass"].dropna().tolist() == ["link"]


def test_speeds_are_whole_and_at_most_350(written):
    speeds = [limits[0]["max_speed"] for limits in written[0]["speed_limits"]]
    values = [(speed["value"], speed["unit"]) for speed in speeds]
    assert values == [
        (30, "km/h"),
        (25, "mph"),
        (50, "km/h"),
        *[(80, "km/h"), (20, "km/h")],
        (350, "km/h"),
    ]


def test_traffic_is_a_matter_of_access(written):
    rules = written[0]["access_restrictions"]
    assert rules[0] is None
    assert rules[1][0]["when"]["heading"] == "backward"
    modes, heading = (rule["when"] for rule in rules[2])
    assert (list(modes["mode"]), heading["heading"]) == (["motor_vehicle"], "forward")


def test_sources_name_the_scene_and_the_confidence(written):
    first, second = (sources[0] for sources in written[0]["sources"][:2])
    assert (first["dataset"], first["record_id"], first["confidence"]) == ("roadseg", "city_1", 0.5)
    assert second["confidence"] is None


@pytest.mark.usefixtures("written")
def test_duckdb_reads_what_the_guides_ask_for(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    query = "SELECT names.primary, connectors[1].at, bbox.xmin FROM read_parquet(?) LIMIT 1"
    path = str(tmp_path / "a.overture" / "segment.parquet")
    name, at, west = duckdb.execute(query, [path]).fetchone()
    assert (name, at, int(west)) == ("Größe", 0.0, 2)
