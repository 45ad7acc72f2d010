import numpy as np
import pytest

from roadseg.roads.osm.osm_objects import CollectedObjects, merged


def collected(ways, nodes):
    """Collect ways (id, version, refs) and nodes (id, version, x)."""
    objects = CollectedObjects()
    for way, version, refs in ways:
        objects.add_way(way, version, refs, {"highway": f"v{version}"})
    for node, version, x in nodes:
        objects.add_node(node, version, (x, 0), {})
    return objects


def test_objects_are_sorted_by_id():
    objects = collected([(9, 1, [3, 1]), (2, 1, [1, 2])], [(3, 1, 30), (1, 1, 10), (2, 1, 20)])
    found = objects.objects()
    assert found.way_id.tolist() == [2, 9]
    assert found.refs.tolist() == [1, 2, 3, 1]
    assert found.places[:, 0].tolist() == [10, 20, 30]


def test_a_way_without_a_node_of_its_own_is_an_error():
    with pytest.raises(ValueError, match="1 nodes of ways are missing, such as 7"):
        collected([(1, 1, [1, 7])], [(1, 1, 10)]).objects()


@pytest.mark.parametrize(("refs", "ways"), [([1], 0), ([1, 2], 1)])
def test_a_way_has_two_nodes_at_least(refs, ways):
    found = collected([(1, 1, refs)], [(1, 1, 10), (2, 1, 20)]).objects()
    assert len(found.way_id) == ways


def test_of_several_parts_the_latest_versions_count():
    old = collected([(5, 1, [1, 2])], [(1, 1, 10), (2, 1, 20)]).objects()
    new = collected([(5, 2, [2, 3]), (6, 1, [1, 3])], [(1, 4, 11), (2, 1, 20), (3, 1, 30)])
    for parts in ([old, new.objects()], [new.objects(), old]):
        found = merged(parts)
        assert found.way_id.tolist() == [5, 6]
        assert found.way_version.tolist() == [2, 1]
        assert found.refs.tolist() == [2, 3, 1, 3]
        assert [tags["highway"] for tags in found.way_tags] == ["v2", "v1"]
        assert found.places[:, 0].tolist() == [11, 20, 30]


def test_chosen_ways_keep_their_nodes_alone():
    objects = collected([(1, 1, [1, 2]), (2, 1, [3, 4])], [(n, 1, n) for n in range(1, 5)])
    found = objects.objects().take(np.array([False, True]))
    assert found.node_id.tolist() == [3, 4]


def test_no_objects_are_no_objects():
    empty = CollectedObjects().objects()
    assert len(merged([empty, empty]).way_id) == 0
