"""conflate: roads that a map lacks, joined to its ways. Reads both, writes changes and the map."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import shapely
from pyproj import CRS

from roadseg.errors import ConfigError, DataError
from roadseg.raster.grid import DEGREES, is_local, reproject
from roadseg.roads.colours import FALSE, Rgb
from roadseg.roads.conflation.conflate import find_new_roads, merged_graph
from roadseg.roads.conflation.map_ways import MapWays
from roadseg.roads.conflation.new_roads import CONFIDENCE, IS_APART, NewRoads
from roadseg.roads.conflation.obstacles import Obstacles
from roadseg.roads.formats.any_roads import (
    DrawnRoads,
    check_nearness,
    common_crs,
    graph_drawn,
    place_roads,
    read_one_place,
)
from roadseg.roads.formats.files import write_gpkg
from roadseg.roads.formats.gpkg_styles import category_renderer
from roadseg.roads.formats.layers import write_label_layer
from roadseg.roads.formats.osm_xml import MOST_LETTERS, classes, source_of
from roadseg.roads.formats.pairing import RoadSource
from roadseg.roads.graph.road_graph import DECIMALS, RoadGraph, unique_pairs
from roadseg.roads.labels.highways import highway_class
from roadseg.roads.labels.roads import extent_degrees
from roadseg.roads.labels.traffic import LAYER, SPEED_KNOWN, SPEED_SOURCE, assumed_speeds
from roadseg.roads.options import NO_ROADS, ConflateOptions
from roadseg.roads.osm.osm_change import osm_change, write_changes, write_merged, write_review
from roadseg.roads.osm.osm_map import OsmMap, read_osm_map
from roadseg.roads.osm.osm_objects import OSM_SUFFIXES, Box
from roadseg.system.files import atomic_write, atomic_write_folder
from roadseg.system.progress import Progress
from roadseg.system.text import Summary, count, first
from roadseg.system.units import road_unit, to_road_unit

_USUAL = ConflateOptions()
_COLOURS: dict[int, Rgb] = {0: (150, 150, 150), 1: FALSE}  # By `added`, as `diff` has them.
_LABELS = {0: "in the map", 1: "new"}
# How the names of all results begin; other programs leave files such as `merged.gpkg-wal` there.
_FILES = ("merged.gpkg", "merged.osm.pbf", "changes.osc", "review.osm", "new_roads.geojson")
_MARGIN_M = 1000.0  # Metres around the predicted roads within which ways of the map are read.
_METRES_PER_DEGREE = 111_000.0  # Of latitude.
_TAGS = ("highway", "source", "fixme")  # That new ways can have.
_GAP = "joined across a gap that no image shows"


@dataclass(frozen=True)
class ConflateSummary(Summary):
    """Figures of the roads that were added to a map.

    Attributes:
        touched: number of ways of the map that got a node.
        check_km: length of roads that have to be checked before they are added.
        check: number of such roads, by reason.
        left_out_km: length of roads that are too short or too doubtful.
    """

    predicted: str
    into: str
    added_km: float
    added: int
    touched: int
    check_km: float
    check: dict[str, int]
    left_out_km: float
    output: str
    files: list[str]

    def __str__(self) -> str:
        """Return a line for each figure, and the files."""
        unit, added = road_unit(), count(self.added, "road")
        doubtful = count(sum(self.check.values()), "road")
        touched = f"{count(self.touched, 'way')} of the map got a node"
        rows = [
            f"added    {to_road_unit(self.added_km):9.2f} {unit} in {added}; {touched}",
            f"to check {to_road_unit(self.check_km):9.2f} {unit} in {doubtful}",
            *(f"  {number} {reason}" for reason, number in self.check.items()),
            f"left out {to_road_unit(self.left_out_km):9.2f} {unit}, too short or too doubtful",
            f"output: {self.output} ({', '.join(self.files)})",
        ]
        if "changes.osc" not in self.files:
            rows.append("no changes.osc, because the map is not an OpenStreetMap file with ids")
        return "\n".join(rows)


def run(
    predicted: Path, into: Path, *, output: Path, options: ConflateOptions = _USUAL
) -> ConflateSummary:
    """Add the roads that a map lacks; see `roads.conflation.conflate.find_new_roads`.

    Args:
        predicted: file of roads in any format of `score`, except for lines in pixels.
        into: the map, OpenStreetMap data as PBF or XML, or a file of lines.
        output: folder to write; a folder of an earlier `conflate` is replaced.

    Raises:
        DataError: a file cannot be read or used, or the places are not the same.
        ConfigError: the map needs osmium, which is not installed, or the folder contains files
            that `conflate` did not write, or one that it reads.
        OutputError: the folder cannot be written.
    """
    roads = read_one_place(predicted)
    _refuse_other_files(output, [predicted, into])
    with Progress("conflate", total=3, unit="steps") as progress:
        known, osm = _read_map(into, roads)
        progress.add()
        new, merged = _join(roads, known, osm, options)
        progress.add()
        files = _write(output, osm, new, merged)
    metres = np.asarray(shapely.length(new.lines))
    reasons, numbers = np.unique(new.reason[~new.is_added].astype(str), return_counts=True)
    return ConflateSummary(
        predicted=str(predicted),
        into=str(into),
        added_km=float(metres[new.is_added].sum()) / 1000,
        added=int(new.is_added.sum()),
        touched=len(np.unique(new.insertions.way)),
        check_km=float(metres[~new.is_added].sum()) / 1000,
        check=dict(zip(reasons.tolist(), numbers.tolist(), strict=True)),
        left_out_km=new.left_out_m / 1000,
        output=str(output),
        files=files,
    )


def _refuse_other_files(output: Path, sources: list[Path]) -> None:
    """Refuse to replace a folder with files that `conflate` did not write, or with an input."""
    names = sorted(path.name for path in output.glob("*"))
    if others := [name for name in names if not name.startswith(_FILES)]:
        raise ConfigError(
            f"--output {output}: contains files that are not results of `conflate` "
            f"({first(others)}); name a new folder"
        )
    for source in sources:
        if output.resolve() in source.resolve().parents:
            raise ConfigError(
                f"{output}: contains {source.name}, which is read, and would be replaced; write to "
                "another folder"
            )


def _read_map(path: Path, predicted: DrawnRoads) -> tuple[DrawnRoads, OsmMap | None]:
    """Read a map; of an OpenStreetMap file only the part around predicted roads, with its ids."""
    if not path.name.lower().endswith(OSM_SUFFIXES):
        return read_one_place(path), None
    if not path.is_file():
        problem = "is a folder" if path.is_dir() else "does not exist"
        raise DataError(f"{path} {problem}; expected a file of OpenStreetMap data")
    osm = read_osm_map(path, _box(predicted))
    if len(osm.ways.way_id) == 0:
        here = extent_degrees(predicted.graph.lines, predicted.graph.crs)
        raise DataError(
            f"{path}: contains no roads (ways with the tag highway) around {predicted.source}, "
            f"which is at {here}; check the CRS or the names"
        )
    return replace(graph_drawn(RoadSource(path), osm.graph()), is_joined=False), osm


def _join(
    predicted: DrawnRoads, into: DrawnRoads, osm: OsmMap | None, options: ConflateOptions
) -> tuple[NewRoads, RoadGraph]:
    """Join the roads that a map lacks to its ways; return them, and the map with travel times."""
    predicted = _with_confidence(predicted)
    crs = common_crs(into, predicted)
    here = place_roads(_with_known_speeds(into), crs)
    there = place_roads(_with_bridges(_with_known_speeds(predicted)), crs)
    check_nearness(here, there, str(predicted.source))
    ways = _ways(osm, here.drawn)
    new = find_new_roads(there.graph, ways, _obstacles(osm, crs), options)
    highways = classes(new.attributes, len(new.lines))
    columns = {"highway": highways, "added": np.ones(len(highways), dtype=np.uint8)}
    new = replace(new, attributes={**new.attributes, **columns})
    attributes = {k: c for k, c in here.drawn.attributes.items() if k.lower() != "added"}
    attributes["added"] = np.zeros(len(ways.lines), dtype=np.uint8)
    merged = merged_graph(ways, attributes, new)
    drawn = DrawnRoads(into.source, merged, True, np.zeros(0, dtype=bool))  # noqa: FBT003
    return new, place_roads(drawn, crs).graph


def _write(output: Path, osm: OsmMap | None, new: NewRoads, merged: RoadGraph) -> list[str]:
    """Write the folder, and return the names of the files in it."""
    tags = [_tags(new, row) for row in range(len(new.lines))]
    with atomic_write_folder(output) as folder:
        style = category_renderer("added", _COLOURS, labels=_LABELS)
        write_gpkg(folder / "merged.gpkg", merged, edge_style=style)
        _write_new_roads(folder / "new_roads.geojson", new, tags)
        if osm is not None:
            change = osm_change(osm, new, tags)
            write_changes(folder / "changes.osc", change)
            write_review(folder / "review.osm", change)
            write_merged(folder / "merged.osm.pbf", folder / "changes.osc", osm.path)
        return sorted(path.name for path in folder.iterdir())


def _write_new_roads(path: Path, roads: NewRoads, tags: list[dict[str, str]]) -> None:
    """Write the roads to add or to check, the likely and long ones first."""
    metres, confidence = np.asarray(shapely.length(roads.lines)), roads.confidence
    order = np.argsort(-confidence * metres, kind="stable")
    columns = {
        "status": np.where(roads.is_added, "added", "to check"),
        "length_m": metres.round(1),
        "confidence": confidence.round(3),
        **{name: np.array([each.get(name) for each in tags], dtype=object) for name in _TAGS},
    }
    lines = reproject(roads.lines, roads.crs, DEGREES)[order]
    with atomic_write(path) as partial:
        write_label_layer(partial, lines, {name: each[order] for name, each in columns.items()})


def _with_confidence(predicted: DrawnRoads) -> DrawnRoads:
    """Return roads without an empty column of confidence; refuse values outside 0 to 1."""
    attributes = dict(predicted.graph.attributes)
    if CONFIDENCE not in attributes:
        return predicted
    stated = attributes.pop(CONFIDENCE)
    if stated.dtype != object:
        beyond = stated[(stated < 0) | (stated > 1)]
        if len(beyond):
            raise DataError(
                f"{predicted.source}: its {CONFIDENCE} has numbers such as {beyond[0]:g}, expected "
                "numbers from 0 to 1; divide percent by 100, or rename this column"
            )
        return predicted
    if text := next(filter(None, stated), None):
        raise DataError(
            f"{predicted.source}: its {CONFIDENCE} is text, such as {text!r}, expected numbers "
            "from 0 to 1; rename this column"
        )
    return replace(predicted, graph=replace(predicted.graph, attributes=attributes))


def _with_known_speeds(roads: DrawnRoads) -> DrawnRoads:
    """Return roads with an attribute that tells known speeds from assumed ones, on any side."""
    attributes = dict(roads.graph.attributes)
    is_assumed = roads.is_assumed | assumed_speeds(attributes, len(roads.graph.lines))
    attributes.pop(SPEED_SOURCE, None)
    attributes[SPEED_KNOWN] = (~is_assumed).astype(np.uint8)
    return replace(roads, graph=replace(roads.graph, attributes=attributes))


def _with_bridges(predicted: DrawnRoads) -> DrawnRoads:
    """Return roads with an attribute for bridges and tunnels."""
    is_apart = predicted.graph.column(LAYER, 0.0) != 0
    if predicted.left_out is not None:
        is_apart |= predicted.left_out == "tunnel"
    attributes = {**predicted.graph.attributes, IS_APART: is_apart}
    return replace(predicted, graph=replace(predicted.graph, attributes=attributes))


def _box(roads: DrawnRoads) -> Box:
    """Return the box around roads in degrees, with a margin."""
    if is_local(roads.graph.crs):
        raise DataError(f"{roads.source}: has no georeference; georeference the image it is from")
    lines = reproject(roads.graph.lines, roads.graph.crs, DEGREES)
    if len(lines) == 0:
        raise DataError(f"{roads.source}: contains no roads")
    west, south, east, north = shapely.total_bounds(lines).tolist()
    high = _MARGIN_M / _METRES_PER_DEGREE
    wide = high / max(float(np.cos(np.radians(min(abs(south + north) / 2, 89)))), 0.02)
    return west - wide, south - high, east + wide, north + high


def _ways(osm: OsmMap | None, drawn: RoadGraph) -> MapWays:
    """Return the ways of a map in metres."""
    classes = drawn.column("highway", None).tolist()
    names = [highway_class(name) if isinstance(name, str) else "" for name in classes]
    is_open = ~np.isin(names, NO_ROADS)
    if osm is not None:
        node = np.unique(osm.ways.refs, return_inverse=True)[1].ravel()
        is_apart = osm.ways.has("bridge", "tunnel", "layer")
    else:
        node = unique_pairs(np.round(shapely.get_coordinates(drawn.lines), DECIMALS))[1]
        is_apart = np.zeros(len(drawn.lines), dtype=bool)
    return MapWays(drawn.lines, node, is_open, is_apart, np.isin(names, ["motorway"]))


def _obstacles(osm: OsmMap | None, crs: CRS) -> Obstacles:
    """Return the obstacles of a map in metres."""
    if osm is None:
        return Obstacles(np.zeros(0, object), np.zeros(0, object), np.zeros(0))
    obstacles = osm.obstacles
    return replace(obstacles, shapes=reproject(obstacles.shapes, DEGREES, crs))


def _tags(new: NewRoads, row: int) -> dict[str, str]:
    known = {name: column[row] for name, column in new.attributes.items()}
    notes = [str(new.reason[row])] if new.reason[row] else []
    if new.is_linked[row] or known.get("inferred") == 1:  # Has a part that no image shows.
        notes.append(_GAP)
    values = (str(known["highway"]), source_of(known.get("source")), "; ".join(notes))
    tags = zip(_TAGS, values, strict=True)
    return {key: value[:MOST_LETTERS] for key, value in tags if value}
