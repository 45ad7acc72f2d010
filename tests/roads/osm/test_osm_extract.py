import pytest
import shapely

from roadseg.errors import DataError, OutputError
from roadseg.roads.osm.osm_extract import read_extract
from roadseg.roads.osm.osm_objects import HIGHWAYS, ways_near

AREA = shapely.MultiPolygon([shapely.box(8.60, 49.40, 8.61, 49.41)])
HEAD = '<osm version="0.6">'
INSIDE = (
    '<node id="1" version="2" lat="49.401" lon="8.601"/>'
    '<node id="2" version="2" lat="49.402" lon="8.602"/>'
)
ROAD = '<way id="5" version="3"><nd ref="1"/><nd ref="2"/><tag k="highway" v="primary"/></way>'


@pytest.fixture
def extract(tmp_path):
    """Give the function that reads the roads of the area out of XML."""

    def read(body):
        path = tmp_path / "map.osm"
        path.write_text(f"{HEAD}{body}</osm>")
        return read_extract(path, AREA, HIGHWAYS, scratch=tmp_path, every_node=True)[0]

    return read


def test_a_way_is_read_with_its_nodes_and_versions(extract):
    found = extract(INSIDE + ROAD)
    assert (found.way_id.tolist(), found.way_version.tolist()) == ([5], [3])
    assert (found.node_id.tolist(), found.node_version.tolist()) == ([1, 2], [2, 2])
    assert shapely.get_coordinates(found.lines).tolist() == [[8.601, 49.401], [8.602, 49.402]]


@pytest.mark.parametrize(
    ("east", "north", "ways"), [(0, 0, 1), (0.01, 0, 0), (-0.01, 0, 0), (0, 0.01, 0), (0, -0.01, 0)]
)
def test_only_ways_whose_own_box_meets_the_other_one_are_read(tmp_path, east, north, ways):
    (tmp_path / "map.osm").write_text(f"{HEAD}{INSIDE}{ROAD}</osm>")
    box = shapely.affinity.translate(AREA, east, north).bounds
    assert len(ways_near(tmp_path / "map.osm", box, HIGHWAYS)[0].way_id) == ways


def test_a_way_whose_nodes_are_missing_is_left_out_and_named(extract, caplog):
    other = ROAD.replace('"5"', '"6"').replace('ref="2"', 'ref="77"')
    assert extract(INSIDE + ROAD + other).way_id.tolist() == [5]
    assert "left out 1 way, because nodes are not in the file" in caplog.text
    assert caplog.text.rstrip().endswith(": 6")


def test_a_way_that_extracts_share_counts_once(extract):
    assert extract(INSIDE + ROAD + ROAD).way_id.tolist() == [5]


def test_a_history_is_refused(extract):
    with pytest.raises(DataError, match=r"way 5 in several versions, expected one"):
        extract(INSIDE + ROAD + ROAD.replace('"3"', '"4"'))


def test_a_way_of_a_single_node_is_no_line(extract):
    assert len(extract(INSIDE + ROAD.replace('<nd ref="2"/>', "")).way_id) == 0


def test_nodes_have_no_versions_unless_they_are_needed(tmp_path):
    (tmp_path / "map.osm").write_text(f"{HEAD}{INSIDE}{ROAD}</osm>")
    found, _ = read_extract(tmp_path / "map.osm", AREA, HIGHWAYS, scratch=tmp_path)
    assert found.node_version.tolist() == [0, 0]


def test_nothing_stays_of_the_positions(extract, tmp_path):
    extract(INSIDE + ROAD)
    assert [path.name for path in tmp_path.iterdir()] == ["map.osm"]


def test_a_folder_without_room_for_the_positions_is_told(tmp_path):
    (tmp_path / "map.osm").write_text(f"{HEAD}{INSIDE}{ROAD}</osm>")
    with pytest.raises(OutputError, match="gone: cannot be written"):
        read_extract(tmp_path / "map.osm", AREA, HIGHWAYS, scratch=tmp_path / "gone")


@pytest.mark.parametrize("content", [b"", b"no map", b"\0\0\0\x0d\x0a\x09OSMHeader\x18\xff\xff"])
@pytest.mark.parametrize("name", ["map.osm", "map.osm.pbf", "map.osm.gz"])
def test_files_that_are_no_maps_are_told(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=r"cannot be read as OpenStreetMap data|is cut short"):
        read_extract(tmp_path / name, AREA, HIGHWAYS, scratch=tmp_path)


def test_a_file_that_is_missing_is_told(tmp_path):
    with pytest.raises(DataError, match=r"map\.pbf does not exist"):
        read_extract(tmp_path / "map.pbf", AREA, HIGHWAYS, scratch=tmp_path)
