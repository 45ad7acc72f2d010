"""Roads added to a map in files: the changes, the map with them, and what cannot be used."""

import json
import xml.etree.ElementTree as ET

import geopandas as gpd
import numpy as np
import osmium
import pytest
import shapely
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyproj import CRS

from roadseg.commands.roads.conflate import run
from roadseg.commands.roads.convert import run as convert
from roadseg.errors import ConfigError, DataError
from roadseg.raster.grid import DEGREES, reproject
from roadseg.roads.formats.any_roads import read_one_place
from roadseg.roads.formats.files import read_gpkg, write_gpkg
from roadseg.roads.formats.layers import write_edges
from roadseg.roads.graph.road_graph import graph_from_lines
from roadseg.roads.labels.roads import extent_degrees

UTM = CRS.from_epsg(32632)
ORIGIN = np.array([477_000.0, 5_473_000.0])
STREET, SIDE = [(0, 0), (100, 0), (300, 0)], [(200, 0), (200, 150)]
FILES = ["changes.osc", "merged.gpkg", "merged.osm.pbf", "new_roads.geojson", "review.osm"]


def degrees(roads, origin=ORIGIN):
    lines = [shapely.LineString(np.add(road, origin)) for road in roads]
    return reproject(np.array([*lines, None], dtype=object)[:-1], UTM, DEGREES)


def write_roads(path, *roads, origin=ORIGIN, **columns):
    lines = [shapely.LineString(np.add(road, origin)) for road in roads]
    graph = graph_from_lines(np.array([*lines, None], dtype=object)[:-1], UTM, columns)
    (write_gpkg if path.suffix == ".gpkg" else write_edges)(path, graph)
    return path


def write_map(path, *roads, tags=None, first=10, version=3):
    """Write ways that share nodes at equal places."""
    ids = {}
    ways = [[ids.setdefault(tuple(place), first + len(ids)) for place in road] for road in roads]
    places = shapely.get_coordinates(degrees([[place, place] for place in ids]))[::2]
    path.unlink(missing_ok=True)
    with osmium.SimpleWriter(str(path)) as writer:
        for node, place in zip(ids.values(), places.tolist(), strict=True):
            writer.add_node(
                osmium.osm.mutable.Node(id=node, version=2, location=place, tags={"note": "old"})
            )
        for row, nodes in enumerate(ways):
            each = {"highway": "residential", "name": "Old"} | ((tags or {}).get(row, {}))
            each = {key: value for key, value in each.items() if value}
            writer.add_way(
                osmium.osm.mutable.Way(id=first + row, version=version, nodes=nodes, tags=each)
            )
        members = [("w", first, "outer")]
        writer.add_relation(osmium.osm.mutable.Relation(id=7, version=1, members=members))
    return path


def objects(path):
    """Return everything in a file of OpenStreetMap data."""
    found = {}
    for each in osmium.FileProcessor(str(path)):
        what = each.type_str(), each.id
        body = [node.ref for node in each.nodes] if each.is_way() else None
        if each.is_node():
            body = each.location.x, each.location.y
        found[what] = each.version, dict(each.tags), body
    return found


@pytest.fixture
def conflated(tmp_path):
    """A side street added to a street."""
    run(
        write_roads(tmp_path / "new.gpkg", SIDE),
        write_map(tmp_path / "map.osm.pbf", STREET, tags={0: {"name:de": "Alt"}}),
        output=tmp_path / "out",
    )
    return tmp_path / "out"


def test_all_files_are_written(conflated):
    assert sorted(path.name for path in conflated.iterdir()) == FILES


def test_the_map_keeps_all_but_the_way_that_gets_a_node(conflated):
    before, after = objects(conflated.parent / "map.osm.pbf"), objects(conflated / "merged.osm.pbf")
    version, tags, nodes = after[("w", 10)]
    assert {what: after[what] for what in before if what != ("w", 10)} == {
        what: each for what, each in before.items() if what != ("w", 10)
    }
    assert (version, tags) == before[("w", 10)][:2]
    assert [node for node in nodes if node > 0] == [10, 11, 12]


def test_the_new_way_begins_at_the_node_that_the_old_one_gets(conflated):
    after = objects(conflated / "merged.osm.pbf")
    assert after[("w", -1)][2][0] == after[("w", 10)][2][2] == -1


def test_the_new_way_says_where_it_is_from(conflated):
    tags = objects(conflated / "merged.osm.pbf")[("w", -1)][1]
    assert tags == {"highway": "road", "source": "roadseg"}


def apply(changes, before, after):
    merger = osmium.MergeInputReader()
    merger.add_file(str(changes))
    after.unlink(missing_ok=True)
    reader, writer = osmium.io.Reader(str(before)), osmium.io.Writer(str(after))
    merger.apply_to_reader(reader, writer)
    writer.close()
    return objects(after)


def test_the_review_is_never_uploaded_and_shows_the_old_way(conflated):
    root = ET.parse(conflated / "review.osm").getroot()  # noqa: S314 - our own file
    assert root.get("upload") == "never"
    old = root.find("way[@id='10']")
    assert (old.get("version"), old.get("action")) == ("3", "modify")
    nodes = {node.get("id") for node in root.iter("node")}
    assert {nd.get("ref") for nd in root.iter("nd")} <= nodes


def test_the_review_shows_old_nodes_and_the_tags_of_old_ways_as_they_are(conflated):
    before, after = objects(conflated.parent / "map.osm.pbf"), objects(conflated / "review.osm")
    nodes = {what: each for what, each in before.items() if what[0] == "n"}
    assert {what: after[what] for what in nodes} == nodes
    assert after[("w", 10)][:2] == before[("w", 10)][:2]


def test_qgis_shows_added_roads_in_a_colour_of_their_own(conflated):
    styles = gpd.read_file(conflated / "merged.gpkg", layer="layer_styles")
    edges = styles.set_index("f_table_name")["styleQML"]["edges"]
    assert 'attr="added"' in edges
    assert '<category value="1" type="long" label="new"' in edges


def test_the_likely_and_long_roads_are_the_first_tasks(tmp_path):
    roads = [(50, 0), (50, 90)], [(150, 0), (150, 100)], [(250, 0), (250, 110)]
    confidence = np.array([0.9, 0.9, 0.6])
    run(
        write_roads(tmp_path / "new.gpkg", *roads, confidence=confidence),
        write_map(tmp_path / "map.osm.pbf", STREET),
        output=tmp_path / "out",
    )
    found = json.loads((tmp_path / "out" / "new_roads.geojson").read_text())["features"]
    assert [road["properties"]["length_m"] for road in found] == [100, 90, 110]
    assert {road["properties"]["status"] for road in found} == {"added"}


@pytest.mark.parametrize(
    ("tags", "reason"),
    [
        ({"railway": "rail"}, {"near a railway": 1}),
        ({"railway": "rail", "tunnel": "yes"}, {}),
        ({"waterway": "river", "location": "underground"}, {}),
        ({"railway": "tram"}, {}),
        ({"waterway": "river"}, {"near a waterway": 1}),
        ({"aeroway": "runway"}, {"near a runway or taxiway": 1}),
        ({"building": "yes"}, {"near a building": 1}),
        ({"highway": "residential", "bridge": "yes"}, {"meets a bridge or tunnel": 1}),
        ({"highway": "pedestrian", "bridge": "yes", "area": "yes"}, {}),
    ],
)
def test_roads_are_checked_before_they_cross_what_is_in_the_way(tmp_path, tags, reason):
    other = [(150, 70), (250, 70), (250, 71)]
    path = write_map(tmp_path / "m.osm.pbf", STREET, other, tags={1: {"highway": ""} | tags})
    new = write_roads(tmp_path / "new.gpkg", SIDE)
    summary = run(new, path, output=tmp_path / "out")
    assert summary.check == reason
    fixme = ET.parse(tmp_path / "out" / "review.osm").findall(".//tag[@k='fixme']")  # noqa: S314
    assert [tag.get("v") for tag in fixme] == list(reason)


def test_a_second_run_adds_nothing(tmp_path, conflated):
    again = run(tmp_path / "new.gpkg", conflated / "merged.osm.pbf", output=tmp_path / "again")
    assert (again.added, again.touched) == (0, 0)
    assert objects(tmp_path / "again" / "merged.osm.pbf") == objects(conflated / "merged.osm.pbf")


def test_the_merged_map_is_one_for_all_commands(conflated):
    merged = read_one_place(conflated / "merged.osm.pbf")
    assert merged.graph.attributes["name"].tolist() == [None, "Old"]


def test_new_ids_lie_below_those_of_the_map(tmp_path, conflated):
    other = write_roads(tmp_path / "other.gpkg", [(50, 0), (50, -90)])
    run(other, conflated / "merged.osm.pbf", output=tmp_path / "again")
    after = objects(tmp_path / "again" / "merged.osm.pbf")
    assert sorted(number for kind, number in after if kind == "w" and number < 0) == [-3, -1]


def test_a_map_of_lines_gives_a_network_without_changes(tmp_path):
    lines = write_roads(tmp_path / "map.gpkg", STREET)
    summary = run(write_roads(tmp_path / "n.gpkg", SIDE), lines, output=tmp_path / "out")
    assert summary.files == ["merged.gpkg", "new_roads.geojson"]
    assert "no changes.osc" in str(summary)
    assert read_gpkg(tmp_path / "out" / "merged.gpkg").degree.tolist().count(3) == 1


@pytest.mark.parametrize("suffix", ["osm.pbf", "gpkg"])
def test_the_merged_network_tells_known_speeds_from_assumed_ones(tmp_path, suffix):
    roads = STREET, [(0, 50), (300, 50)]
    write_map(tmp_path / "map.osm.pbf", *roads, tags={1: {"maxspeed": "50"}})
    convert(tmp_path / "map.osm.pbf", tmp_path / f"into.{suffix}")
    new = write_roads(tmp_path / "new.gpkg", [(200, 0), (200, -150)], speed_known=[0])
    run(new, tmp_path / f"into.{suffix}", output=tmp_path / "out")
    merged = read_gpkg(tmp_path / "out" / "merged.gpkg").attributes
    assert (merged["speed_known"] == (merged["speed_kph"] == 50)).all()
    assert merged["added"].sum() == 1


def test_a_column_of_the_map_called_added_is_replaced_whatever_its_capitals(tmp_path):
    lines = write_roads(tmp_path / "map.gpkg", STREET, Added=np.array([2019]))
    run(write_roads(tmp_path / "n.gpkg", SIDE), lines, output=tmp_path / "out")
    merged = read_gpkg(tmp_path / "out" / "merged.gpkg")
    assert sorted(merged.attributes["added"]) == [0, 0, 1]


@pytest.mark.parametrize("suffix", ["gpkg", "geojson"])
def test_doubtful_roads_are_left_out_whatever_the_format(tmp_path, suffix):
    new = write_roads(tmp_path / f"new.{suffix}", SIDE, confidence=np.array([0.4]))
    summary = run(new, write_map(tmp_path / "map.osm.pbf", STREET), output=tmp_path / "out")
    assert (summary.added, summary.left_out_km) == (0, pytest.approx(0.15, abs=0.001))


@pytest.mark.parametrize(
    ("confidence", "found"),
    [
        (np.array([85.0]), "has numbers such as 85"),
        (np.array(["high"], dtype=object), "is text, such as 'high'"),
    ],
)
def test_confidences_that_are_no_shares_are_refused(tmp_path, confidence, found):
    new = write_roads(tmp_path / "new.gpkg", SIDE, confidence=confidence)
    text = refusal(tmp_path, new, write_map(tmp_path / "map.osm.pbf", STREET))
    assert f"its confidence {found}, expected numbers from 0 to 1" in text


@pytest.mark.parametrize("empty", ["", None])
def test_roads_whose_confidences_are_empty_texts_have_none(tmp_path, empty):
    words = np.array([empty], dtype=object)
    new = write_roads(tmp_path / "new.gpkg", SIDE, confidence=words)
    summary = run(new, write_map(tmp_path / "map.osm.pbf", STREET), output=tmp_path / "out")
    assert summary.added == 1


def test_a_folder_with_other_files_is_not_replaced(tmp_path):
    lines = write_roads(tmp_path / "map.gpkg", STREET)
    with pytest.raises(ConfigError, match=r"not results of `conflate` \(map\.gpkg, n\.gpkg\)"):
        run(write_roads(tmp_path / "n.gpkg", SIDE), lines, output=tmp_path)
    assert lines.exists()


def test_results_of_conflate_are_replaced(tmp_path):
    lines, out = write_roads(tmp_path / "map.gpkg", STREET), tmp_path / "out"
    new = write_roads(tmp_path / "n.gpkg", SIDE)
    run(new, lines, output=out)
    (out / "merged.gpkg-wal").touch()
    assert run(new, lines, output=out).files == sorted(path.name for path in out.iterdir())


def test_a_folder_with_the_map_itself_is_not_replaced(tmp_path):
    predicted = write_roads(tmp_path / "new.gpkg", SIDE)
    run(predicted, write_roads(tmp_path / "map.gpkg", STREET), output=tmp_path / "out")
    merged = tmp_path / "out" / "merged.gpkg"
    before = merged.read_bytes()
    with pytest.raises(ConfigError, match=r"contains merged\.gpkg, which is read"):
        run(predicted, merged, output=tmp_path / "out")
    assert merged.read_bytes() == before


def refusal(tmp_path, predicted, into):
    with pytest.raises(DataError) as error:
        run(predicted, into, output=tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("tag", ["bridge", "tunnel"])
@pytest.mark.parametrize("suffix", [".osm", ".gpkg"])
def test_bridges_and_tunnels_have_to_be_checked(tmp_path, tag, suffix):
    over = [(100, -100), (100, 100)]
    if suffix == ".osm":
        predicted = write_map(tmp_path / "new.osm", SIDE, over, tags={1: {tag: "yes"}})
    else:
        predicted = write_roads(tmp_path / "new.gpkg", SIDE, over, **{tag: np.array([None, "yes"])})
    summary = run(predicted, write_map(tmp_path / "map.osm", STREET), output=tmp_path / "out")
    assert (summary.added, summary.check) == (1, {"is a bridge or tunnel": 1})


def test_a_map_of_elsewhere_is_refused(tmp_path):
    new = write_roads(tmp_path / "new.gpkg", SIDE, origin=ORIGIN + 5_000)
    text = refusal(tmp_path, new, write_map(tmp_path / "map.osm.pbf", STREET))
    place = extent_degrees(degrees([SIDE], ORIGIN + 5_000), DEGREES)
    assert f"around {new}, which is at {place}; check the CRS or the names" in text


def cut_short(path):
    path.write_bytes(write_map(path, STREET).read_bytes()[:-40])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (cut_short, "map.osm.pbf: cannot be read as OpenStreetMap data"),
        (lambda path: write_map(path, STREET, version=0), "way 10 has no version"),
        (lambda path: path.mkdir(), "map.osm.pbf is a folder"),
        (lambda path: path, "does not exist"),
    ],
    ids=["cut short", "without versions", "folder", "missing"],
)
def test_a_file_that_is_no_map_is_refused(tmp_path, make, words):
    make(tmp_path / "map.osm.pbf")
    new = write_roads(tmp_path / "new.gpkg", SIDE)
    assert words in refusal(tmp_path, new, tmp_path / "map.osm.pbf")


def edited(tmp_path, *changes):
    """A map as XML in which words are replaced."""
    path = write_map(tmp_path / "map.osm", STREET)
    text = path.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)
    return path


WAY = '<way id="10"'


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ([(WAY, '<way id="abc"')], "map.osm: cannot be read as OpenStreetMap data"),
        ([(WAY, '<way id="9223372036854775807"')], "map.osm: cannot be read as OpenStreetMap"),
        ([('version="3"', 'version="-3"')], "map.osm: cannot be read as OpenStreetMap data"),
        ([('v="Old"', f'v="{5000 * "x"}"')], "map.osm: cannot be read as OpenStreetMap data"),
        ([('lat="49', 'lat="nan" not="49')], "map.osm: cannot be read as OpenStreetMap data"),
        ([(WAY, '<way visible="false" id="10"')], "contains no roads"),
        ([(WAY, '<way action="delete" id="10"')], "contains no roads"),
        ([('<nd ref="11"/>', '<nd ref="99"/>')], "lacks nodes of 1 way near the predicted roads"),
    ],
)
def test_a_map_that_is_not_as_osm_writes_it_is_refused(tmp_path, changes, words):
    path = edited(tmp_path, *changes)
    text = refusal(tmp_path, write_roads(tmp_path / "new.gpkg", SIDE), path)
    assert text.count(words) == 1


def test_what_was_deleted_in_josm_is_not_in_the_merged_map(tmp_path):
    path = write_map(tmp_path / "map.osm", STREET, [(0, 0), (0, 90)])
    path.write_text(path.read_text().replace('<way id="11"', "<way action='delete' id='11'"))
    run(write_roads(tmp_path / "new.gpkg", SIDE), path, output=tmp_path / "out")
    merged = objects(tmp_path / "out" / "merged.osm.pbf")
    assert ("w", 10) in merged
    assert ("w", 11) not in merged


@pytest.mark.parametrize("name", ["MAP.OSM.PBF", "MAP.PBF", "MAP.OSM"])
def test_the_suffix_of_a_map_may_be_in_capitals(tmp_path, name):
    path = write_map(tmp_path / name.lower(), STREET).rename(tmp_path / name)
    run(write_roads(tmp_path / "new.gpkg", SIDE), path, output=tmp_path / "out")
    assert ("w", 10) in objects(tmp_path / "out" / "merged.osm.pbf")


places = st.tuples(st.integers(0, 6), st.integers(0, 6)).map(lambda xy: (xy[0] * 43, xy[1] * 47))
streets = st.lists(st.lists(places, min_size=2, max_size=4, unique=True), min_size=1, max_size=4)


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(streets, streets)
def test_any_map_with_the_changes_is_the_merged_map(tmp_path_factory, mapped, predicted):
    folder = tmp_path_factory.mktemp("any")
    path = write_map(folder / "map.osm.pbf", *mapped)
    done = run(write_roads(folder / "new.gpkg", *predicted), path, output=folder / "out")
    before, merged = objects(path), objects(folder / "out" / "merged.osm.pbf")
    changed = {what for what in merged if merged[what] != before.get(what)}
    assert sum(kind == "w" and key < 0 for kind, key in changed) == done.added
    assert sum(kind == "w" and key > 0 for kind, key in changed) == done.touched
    assert apply(folder / "out" / "changes.osc", path, folder / "applied.osm.pbf") == merged
    for what, (version, tags, body) in before.items():
        after = merged[what][2]
        kept = [node for node in after if node > 0] if what[0] == "w" else after
        assert (version, tags, body) == (*merged[what][:2], kept)
