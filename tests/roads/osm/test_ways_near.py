"""Ways of OpenStreetMap files near a place: whole, once, and in one version."""

import pytest
import shapely

from roadseg.errors import DataError
from roadseg.roads.osm.osm_objects import HIGHWAYS, ways_near

BOX = (8.60, 49.40, 8.61, 49.41)
INSIDE = (
    '<node id="1" version="2" lat="49.401" lon="8.601"/>'
    '<node id="2" version="2" lat="49.402" lon="8.602"/>'
)
ROAD = '<way id="5" version="3"><nd ref="1"/><nd ref="2"/><tag k="highway" v="primary"/></way>'


@pytest.fixture
def near(tmp_path):
    """Give the function that reads ways out of XML."""

    def read(body, box=BOX):
        path = tmp_path / "map.osm"
        path.write_text(f'<osm version="0.6">{body}</osm>')
        return ways_near(path, box, HIGHWAYS)

    return read


def test_a_way_is_read_with_its_nodes_and_its_version(near):
    found, incomplete = near(INSIDE + ROAD)
    assert (found.way_id.tolist(), found.way_version.tolist()) == ([5], [3])
    assert (found.node_id.tolist(), found.node_version.tolist()) == ([1, 2], [0, 0])
    assert shapely.get_coordinates(found.lines).tolist() == [[8.601, 49.401], [8.602, 49.402]]
    assert incomplete == []


@pytest.mark.parametrize(
    ("east", "north", "ways"), [(0, 0, 1), (0.01, 0, 0), (-0.01, 0, 0), (0, 0.01, 0), (0, -0.01, 0)]
)
def test_only_ways_whose_own_box_meets_the_other_one_are_read(near, east, north, ways):
    west, south, *_ = BOX
    box = (west + east, south + north, west + east + 0.01, south + north + 0.01)
    assert len(near(INSIDE + ROAD, box)[0].way_id) == ways


def test_a_way_whose_nodes_are_missing_is_left_out_and_named(near):
    found, incomplete = near(INSIDE + ROAD + ROAD.replace('"5"', '"6"').replace('"2"/', '"77"/'))
    assert (found.way_id.tolist(), incomplete) == ([5], ["6"])


def test_a_way_that_extracts_share_counts_once(near):
    assert near(INSIDE + ROAD + ROAD)[0].way_id.tolist() == [5]


def test_a_history_is_refused(near):
    with pytest.raises(DataError, match=r"way 5 in several versions, expected one"):
        near(INSIDE + ROAD + ROAD.replace('"3"', '"4"'))


def test_a_way_of_a_single_node_is_no_line(near):
    assert len(near(INSIDE + ROAD.replace('<nd ref="2"/>', ""))[0].way_id) == 0


@pytest.mark.parametrize("content", [b"", b"no map", b"\0\0\0\x0d\x0a\x09OSMHeader\x18\xff\xff"])
@pytest.mark.parametrize("name", ["map.osm", "map.osm.pbf", "map.osm.gz"])
def test_files_that_are_no_maps_are_told(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=r"cannot be read as OpenStreetMap data"):
        ways_near(tmp_path / name, BOX, HIGHWAYS)
