"""Grown maps: a map with the roads that were added to it, to which more are added."""

import numpy as np
import shapely

from roadseg.arrays import Ints, Lines
from roadseg.roads.conflation.map_ways import Insertions, MapWays, place_on
from roadseg.roads.conflation.new_roads import NewRoads
from roadseg.roads.graph.road_graph import lines_from


def with_insertions(ways: MapWays, new: NewRoads) -> Lines:
    """Return the lines of a map with the nodes that are put into them."""
    xy = new.insertions.put_in(ways.xy, new.xy)
    return lines_from(xy, np.diff(new.insertions.first_of(ways.first)))


def grown(ways: MapWays, added: NewRoads) -> MapWays:
    """Return the ways of a map with new nodes, and behind them the roads that are added.

    The nodes of the map keep their numbers; those of new nodes follow in the order of their rows.
    """
    count = ways.node_count
    nodes = added.insertions.put_in(ways.node, count + np.arange(len(added.xy)))
    refs = np.where(added.refs < 0, count - 1 - added.refs, added.refs)
    nothing = np.zeros(len(added.lines), dtype=bool)
    return MapWays(
        np.concatenate([with_insertions(ways, added), added.lines]),
        np.concatenate([nodes, refs]),
        np.append(ways.is_open, ~nothing),
        np.append(ways.is_apart, nothing),
        np.append(ways.is_motorway, nothing),
    )


def joined(ways: MapWays, added: NewRoads, more: NewRoads) -> NewRoads:
    """Return roads that are added to a map, and more of them, as roads of this map.

    Args:
        more: roads that are added to `grown(ways, added)`.

    Returns:
        First the added ones, some with new nodes, then the others.
    """
    both = grown(ways, added)
    xy = np.concatenate([added.xy, more.xy])
    new_node = len(added.xy) + more.insertions.node
    in_old = more.insertions.way < len(ways.lines)
    vertex = more.insertions.vertex
    # Rule of both: what is put into a way of the map is counted from its own vertices.
    along = both.along[vertex] + more.insertions.part * (
        both.along[np.minimum(vertex + 1, len(both.along) - 1)] - both.along[vertex]
    )
    places = place_on(ways, more.insertions.way[in_old], along[in_old])
    old = added.insertions
    insertions = Insertions(
        np.concatenate([old.way, more.insertions.way[in_old]]),
        np.concatenate([old.vertex, places[0]]),
        np.concatenate([old.part, places[1]]),
        np.concatenate([old.node, new_node[in_old]]),
    )
    # What is put into a road that was added becomes a node of it.
    into = Insertions(
        more.insertions.way[~in_old] - len(ways.lines),
        vertex[~in_old] - both.first[len(ways.lines)],
        more.insertions.part[~in_old],
        new_node[~in_old],
    )
    refs = into.put_in(added.refs, -1 - np.arange(len(xy)))
    sizes = added.sizes + np.bincount(into.way, minlength=len(added.sizes))
    lines = lines_from(into.put_in(shapely.get_coordinates(added.lines), xy), sizes)
    return NewRoads(
        added.crs,
        xy,
        np.concatenate([refs, _numbered(more.refs, ways.node_count, len(added.xy))]),
        np.concatenate([sizes, more.sizes]),
        np.concatenate([lines, more.lines]),
        {
            name: np.concatenate([column, more.attributes[name]])
            for name, column in added.attributes.items()
        },
        np.concatenate([added.reason, more.reason]),
        np.concatenate([added.is_linked, more.is_linked]),
        insertions,
        more.left_out_m,
    )


def _numbered(refs: Ints, count: int, added: int) -> Ints:
    """Return references of roads to a grown map as those to the map itself.

    Args:
        refs: to the grown map.
        added: how many new nodes the grown map has.
    """
    is_added = refs >= count
    return np.where(is_added, count - 1 - refs, np.where(refs < 0, refs - added, refs))
