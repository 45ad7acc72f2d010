"""Write a few OpenStreetMap ways as .osm (XML) or as .osm.pbf."""

from itertools import count
from pathlib import Path

import osmium

Tags = dict[str, str]
Way = tuple[list[tuple[float, float]], Tags]  # lon and lat of its nodes, and its tags


def write_osm(path: Path, ways: list[Way]) -> Path:
    """Write ways in the format of the suffix; none has nodes in common with another."""
    new, numbers = osmium.osm.mutable, count(1)
    nodes = [[next(numbers) for _ in points] for points, _ in ways]
    with osmium.SimpleWriter(str(path), overwrite=True) as writer:
        for refs, (points, _) in zip(nodes, ways, strict=True):
            for number, place in zip(refs, points, strict=True):
                writer.add_node(new.Node(id=number, version=1, location=place))
        for number, (refs, (_, tags)) in enumerate(zip(nodes, ways, strict=True), start=1):
            writer.add_way(new.Way(id=number, version=1, nodes=refs, tags=tags))
    return path
