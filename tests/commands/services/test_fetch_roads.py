"""fetch roads: roads and maps of an area from Overpass; faults told in one line."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import shapely
from click.testing import CliRunner

from roadseg.api import read_graph
from roadseg.commands.cli.main import main
from roadseg.commands.roads import conflate
from roadseg.commands.services import fetch_roads
from roadseg.commands.services.fetch_roads import run
from roadseg.errors import ConfigError, DataError
from roadseg.roads.audit.ways import read_ways
from roadseg.roads.labels.origins import read_origin
from roadseg.roads.labels.roads import read_roads
from roadseg.roads.osm.osm_map import read_osm_map
from roadseg.roads.osm.overpass import OverpassArea
from roadseg.system.web.client import Client

CENTRE = "8.6000,49.4000,8.6100,49.4100"
NEAR = (8.59, 49.39, 8.62, 49.42)
ROADS = {101, 102, 103, 104, 105, 106}


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    quick = replace(fetch_roads.POLICY, first_wait_s=0.01, per_second=1000)
    monkeypatch.setattr(fetch_roads, "POLICY", quick)


@pytest.fixture
def region(tmp_path, drawn_map):
    return drawn_map.write_map(tmp_path / "region.osm.pbf")


def fetch(output, area=CENTRE, **options):
    return run(area, output, **options)


def edges(path):
    """Return the edges of a file as a set that depends on the roads only."""
    table = read_graph(path).edges.to_crs(4326)
    lines = shapely.get_coordinates(table.geometry.to_numpy()).round(6)
    parts = np.split(lines, np.cumsum(shapely.get_num_coordinates(table.geometry.to_numpy()))[:-1])
    names = table["name"] if "name" in table else [None] * len(table)
    return {
        (
            min(tuple(map(tuple, xy.tolist())), tuple(map(tuple, xy[::-1].tolist()))),
            highway,
            name if isinstance(name, str) else "",
            round(speed, 1),
            bool(one_way),
        )
        for xy, highway, name, speed, one_way in zip(
            parts, table["highway"], names, table["speed_kph"], table["oneway"], strict=True
        )
    }


@pytest.mark.parametrize("suffix", ["gpkg", "geojson", "parquet", "fgb"])
def test_every_format_gives_the_graph_of_the_same_map_on_disk(tmp_path, region, overpass, suffix):
    fetch(tmp_path / f"roads.{suffix}", server=overpass.address)
    found = edges(tmp_path / f"roads.{suffix}")
    assert len(found) == 7
    assert found <= edges(region)


@pytest.mark.parametrize("suffix", ["osm.pbf", "osm"])
def test_a_map_keeps_ids_versions_and_tags(tmp_path, region, overpass, suffix):
    fetch(tmp_path / f"a.{suffix}", server=overpass.address)
    found, original = (read_osm_map(path, NEAR) for path in (tmp_path / f"a.{suffix}", region))
    assert set(found.ways.way_id.tolist()) == ROADS
    assert found.ways.way_version.tolist() == [7] * 6
    assert found.ways.refs.tolist() == original.ways.refs.tolist()
    assert found.ways.places.tolist() == original.ways.places.tolist()
    assert found.ways.way_tags == original.ways.way_tags
    kinds = zip(found.obstacles.kind, found.obstacles.shapes, strict=True)
    assert {kind: each.geom_type for kind, each in kinds} == {
        "railway": "LineString",
        "building": "Polygon",
    }


def test_conflate_changes_a_fetched_map_by_its_ids_and_versions(tmp_path, overpass):
    fetch(tmp_path / "map.osm.pbf", server=overpass.address)
    line = {"type": "LineString", "coordinates": [[8.6025, 49.405], [8.6025, 49.4062]]}
    (tmp_path / "new.geojson").write_text(json.dumps(line))
    conflate.run(tmp_path / "new.geojson", tmp_path / "map.osm.pbf", output=tmp_path / "conflated")
    changes = (tmp_path / "conflated" / "changes.osc").read_text()
    assert '<way id="101" version="7" action="modify">' in changes


@pytest.mark.parametrize("suffix", ["gpkg", "parquet", "osm.pbf"])
def test_audit_keeps_the_ids_of_fetched_roads(tmp_path, overpass, suffix):
    fetch(tmp_path / f"roads.{suffix}", server=overpass.address)
    columns = read_ways(tmp_path / f"roads.{suffix}").columns
    ids = dict(zip(columns["name"].tolist(), columns["osm_id"].tolist(), strict=True))
    assert str(ids["Main Road"]) == "101"


def test_tags_of_nodes_are_kept_in_a_map_and_names_of_mappers_are_not(tmp_path, overpass):
    fetch(tmp_path / "map.osm", server=overpass.address)
    text = (tmp_path / "map.osm").read_text()
    assert '<tag k="highway" v="traffic_signals"/>' in text
    assert "somebody" not in text


def test_labels_have_the_roads_of_the_area_as_whole_lines(tmp_path, overpass, drawn_map):
    fetch(tmp_path / "roads.gpkg", server=overpass.address)
    labels = read_roads(tmp_path / "roads.gpkg", every_column=True)
    assert set(labels.columns["osm_id"].tolist()) == ROADS
    whole = {round(drawn_map.line_of(way).length, 9) for way in ROADS}
    assert {round(each, 9) for each in shapely.length(labels.roads.shapes).tolist()} == whole


@pytest.mark.parametrize(
    "corners",
    [
        [(8.6, 49.4), (8.604, 49.4), (8.6, 49.404)],
        [(8.6, 49.4062), (8.603, 49.4062), (8.6, 49.41)],
    ],
    ids=["a pedestrian area, which is no line", "a road in its box"],
)
def test_the_area_is_not_its_box(tmp_path, overpass, corners):
    area = shapely.to_geojson(shapely.Polygon(corners))
    (tmp_path / "area.geojson").write_text(area)
    with pytest.raises(DataError, match="no road in the area"):
        fetch(tmp_path / "roads.gpkg", str(tmp_path / "area.geojson"), server=overpass.address)


def test_licence_and_date_are_kept_beside_the_file(tmp_path, overpass):
    summary = fetch(tmp_path / "roads.gpkg", server=overpass.address)
    origin = read_origin(tmp_path / "roads.gpkg")
    assert (origin.licence, origin.date) == ("ODbL-1.0", "2026-11-20T20:21:02Z")
    assert origin.attribution.startswith("© OpenStreetMap contributors")
    assert (summary.licence, summary.date) == (origin.licence, origin.date)


def test_of_several_answers_the_earliest_date_counts():
    days = ["2026-11-20T20:21:02Z", "2026-11-19T08:00:00Z", "2026-11-21T00:00:00Z"]
    area = shapely.MultiPolygon([shapely.box(8, 49, 9, 50)])
    with Client() as client:
        asked = OverpassArea(client, "https://a.org", area, ("highway",), days)
        assert asked.date == days[1]
        assert replace(asked, dates=[]).date is None


def test_boxes_beside_the_area_are_not_asked_for():
    area = shapely.MultiPolygon([shapely.box(8, 49, 8.1, 49.1), shapely.box(8.9, 49, 9, 49.1)])
    with Client() as client:
        assert len(OverpassArea(client, "https://a.org", area, ("highway",)).boxes()) == 2


def test_a_large_area_is_asked_for_in_boxes(tmp_path, overpass):
    area = "8.3,49.3,8.9,49.7"
    summary = fetch(tmp_path / "r.gpkg", area=area, server=overpass.address)
    assert len(overpass.questions) == 12
    assert summary.roads == 7


def test_a_box_that_is_too_much_is_asked_for_in_quarters(tmp_path, overpass, drawn_map):
    remark = 'runtime error: Query timed out in "query" at line 1 after 181 seconds.'
    overpass.faults = [(200, json.dumps(drawn_map.answer_to("") | {"remark": remark}), {})]
    summary = fetch(tmp_path / "roads.gpkg", server=overpass.address)
    assert len(overpass.questions) == 5
    assert summary.roads == 6


def test_a_server_that_never_manages_ends(tmp_path, overpass):
    overpass.always = lambda _: {"elements": [], "remark": "runtime error: out of memory"}
    with pytest.raises(DataError, match=r"cannot answer even for a small box .*osmium extract"):
        fetch(tmp_path / "roads.gpkg", server=overpass.address)
    assert len(overpass.questions) < 12


PAGE = "<html><head><title>Error 504</title></head><body>The server is too busy</body></html>"
FAULTS = {
    "a page": (200, PAGE, {"Content-Type": "text/html"}),
    "other JSON": (200, "[1, 2]", {}),
    "another remark": (200, '{"elements": [], "remark": "runtime error: open64: 2"}', {}),
    "a node missing": (200, '{"elements": [{"type": "way", "id": 1, "nodes": [2, 3]}]}', {}),
    "off the earth": (200, '{"elements": [{"type": "node", "id": 2, "lon": 900, "lat": 0}]}', {}),
    "no numbers": (200, '{"elements": [{"type": "node", "id": "x", "lon": 9, "lat": 0}]}', {}),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_that_passes_is_asked_again(tmp_path, overpass, fault):
    overpass.faults = [FAULTS[fault]] * 2
    assert fetch(tmp_path / "roads.gpkg", server=overpass.address).roads == 6


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_that_stays_is_told_in_one_line_and_leaves_nothing(tmp_path, overpass, fault):
    overpass.faults = [FAULTS[fault]] * 9
    with pytest.raises(DataError, match=r"asked 5 times") as told:
        fetch(tmp_path / "roads.gpkg", server=overpass.address)
    assert "\n" not in str(told.value)
    assert list(tmp_path.iterdir()) == []


def test_a_key_is_sent_and_written_nowhere(tmp_path, overpass, monkeypatch, caplog):
    monkeypatch.setenv("OVERPASS_KEY", "s3cretvalue")
    caplog.set_level("DEBUG")
    server = f"{overpass.address}?key={{env:OVERPASS_KEY}}"
    summary = fetch(tmp_path / "roads.gpkg", server=server, headers=["X-Key: {env:OVERPASS_KEY}"])
    assert overpass.headers[0]["X-Key"] == "s3cretvalue"
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"s3cretvalue" not in kept
    ours = [each.getMessage() for each in caplog.records if each.name.startswith("roadseg")]
    assert "s3cretvalue" not in "".join(ours) + str(summary)


def test_an_area_without_roads_writes_nothing(tmp_path, overpass):
    area = "1.0,1.0,1.01,1.01"
    with pytest.raises(DataError, match=r"no road in the area 1,1,1.01,1.01; nothing was written"):
        fetch(tmp_path / "roads.gpkg", area=area, server=overpass.address)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("area", "km2"), [("6,47,15,55", r"56\d,\d+"), ("-180,-90,180,90", "510,065,622")]
)
def test_an_area_beyond_the_limit_is_refused_before_anything_is_asked(
    tmp_path, overpass, area, km2
):
    with pytest.raises(ConfigError, match=rf"has {km2} km2, more than --limit-km2 10,000"):
        fetch(tmp_path / "roads.gpkg", area=area, server=overpass.address)
    assert overpass.questions == []


def test_a_file_that_exists_is_kept(tmp_path):
    (tmp_path / "roads.gpkg").write_text("mine")
    with pytest.raises(ConfigError, match="exists; add --force"):
        fetch(tmp_path / "roads.gpkg")
    assert (tmp_path / "roads.gpkg").read_text() == "mine"


def test_a_file_that_exists_is_replaced_with_force(tmp_path, overpass):
    (tmp_path / "roads.gpkg").write_text("mine")
    assert fetch(tmp_path / "roads.gpkg", server=overpass.address, force=True).roads == 6
    assert edges(tmp_path / "roads.gpkg")


@pytest.mark.parametrize(
    ("output", "options", "told"),
    [
        ("roads.txt", {}, "ends in .gpkg"),
        (".", {}, "ends in .gpkg"),
        ("roads.gpkg", {"server": "nowhere"}, "expected an address"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path, monkeypatch, output, options, told):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=told):
        fetch(Path(output), **options)
    assert list(tmp_path.iterdir()) == []


def test_the_command_prints_one_line_for_an_error(tmp_path, overpass):
    overpass.faults = [(400, PAGE, {})]
    words = ["fetch", "roads", "--area", CENTRE, "--output", str(tmp_path / "roads.gpkg")]
    result = CliRunner().invoke(main, [*words, "--server", overpass.address, "-q"])
    assert result.exit_code == 3
    assert result.stderr.startswith("Error: http://127.0.0.1")
    assert result.stderr.count("\n") == 1


def test_the_command_gives_json(tmp_path, overpass):
    output = tmp_path / "roads.gpkg"
    words = ["--area", CENTRE, "--server", overpass.address, "--output", str(output), "--json"]
    result = CliRunner().invoke(main, ["fetch", "roads", *words])
    assert json.loads(result.stdout)["roads"] == 6
