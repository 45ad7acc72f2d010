import osmium
import pytest

from roadseg.errors import DataError
from roadseg.roads.labels.pbf_blocks import check_pbf_blocks
from roadseg.roads.labels.vectors import read_vectors
from roadseg.roads.osm.osm_map import read_osm_map


def block(kind, body):
    """Return a block of a type, which is shorter than 128 bytes."""
    header = b"\x0a" + bytes([len(kind)]) + kind + b"\x18" + bytes([len(body)])
    return len(header).to_bytes(4, "big") + header + body


FIRST, SECOND = block(b"OSMHeader", b"12345"), block(b"OSMData", b"x" * 90)


@pytest.mark.parametrize("kept", [*range(1, 5), 10, 20, len(SECOND) - 1])
def test_a_file_that_ends_within_a_block_is_refused(tmp_path, kept):
    path = tmp_path / "map.osm.pbf"
    path.write_bytes(FIRST + SECOND + SECOND[:kept])
    start = len(FIRST + SECOND)
    with pytest.raises(DataError, match=rf"ends within the block that begins at byte {start};"):
        check_pbf_blocks(path)


@pytest.mark.parametrize(
    "content",
    [FIRST, FIRST + SECOND, b"", b"\x1a\x02", b"no blocks at all", block(b"Tile", b"")[:9]],
)
def test_whole_files_and_those_of_other_formats_pass(tmp_path, content):
    path = tmp_path / "map.osm.pbf"
    path.write_bytes(content)
    check_pbf_blocks(path)


@pytest.fixture
def cut_map(tmp_path):
    """Return a map that ends within the length of the block of its ways."""
    path, cut = tmp_path / "whole.osm.pbf", tmp_path / "cut.osm.pbf"
    with osmium.SimpleWriter(str(path)) as writer:
        for node in (1, 2):
            writer.add_node(osmium.osm.mutable.Node(id=node, version=1, location=(node, 49)))
        way = {"id": 1, "version": 1, "nodes": [1, 2], "tags": {"highway": "residential"}}
        writer.add_way(osmium.osm.mutable.Way(**way))
    content = path.read_bytes()
    cut.write_bytes(content[: content.rindex(b"OSMData") - 4])
    return cut


def test_a_cut_map_is_not_read_as_a_smaller_one(cut_map):
    with pytest.raises(DataError, match=r"cut\.osm\.pbf: is cut short"):
        read_vectors(cut_map, list)


def test_a_cut_map_is_not_read_with_ids_as_a_smaller_one(cut_map):
    with pytest.raises(DataError, match=r"cut\.osm\.pbf: is cut short"):
        read_osm_map(cut_map, (0, 40, 10, 60))
