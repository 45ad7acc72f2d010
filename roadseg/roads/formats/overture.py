"""Overture: segments and connectors of its theme transportation, as GeoParquet."""

import json
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import shapely

from roadseg.arrays import Lines
from roadseg.raster.grid import DEGREES
from roadseg.roads.formats.osm_ways import classes, is_text, require_place
from roadseg.roads.formats.pbf import driven_kph
from roadseg.roads.graph.joining import in_crs
from roadseg.roads.graph.road_graph import ONE_WAY, RoadGraph
from roadseg.roads.labels.highways import highway_class
from roadseg.roads.labels.overture import BACKWARD, DENIED, FORWARD, LINK, UNKNOWN
from roadseg.roads.labels.traffic import CARS
from roadseg.roads.speeds import in_stated_unit
from roadseg.system.files import check_replaceable, whole_folder

if TYPE_CHECKING:
    import pyarrow as pa

SEGMENTS, CONNECTORS = "segment.parquet", "connector.parquet"  # Files of the folder.

_IDS = uuid.UUID("5f3c1b0a-8a53-4f0e-9b36-3d0d0c5f6a11")  # Namespace of the ids of roadseg.
_FASTEST = 350  # The largest speed that the schema takes.
# Source: the enumeration roadClass of Overture's schema.
_CLASSES = {
    *("motorway", "trunk", "primary", "secondary", "tertiary", "residential", "living_street"),
    *("unclassified", "service", "pedestrian", "footway", "steps", "path", "track", "cycleway"),
    "bridleway",
}


def write_overture(path: Path, graph: RoadGraph) -> None:
    """Write a graph as a folder with Overture's `segment.parquet` and `connector.parquet`.

    Every edge is a segment (`subtype` road) with a connector at both ends. `class` is its highway,
    `speed_limits` its speed, rounded to whole km/h or mph: the schema has no other place for it,
    but a predicted speed is no legal limit. `access_restrictions` say what is one-way or closed,
    `width_rules` the width, `sources` the scene and the confidence. Other attributes have no place.
    Ids are UUIDs out of the coordinates, so that the same roads get the same ones; they are none of
    the Global Entity Reference System.

    Source: https://docs.overturemaps.org/schema/reference/transportation/segment.

    It needs pyarrow, see `by_suffix.check_formats`.

    Raises:
        DataError: if the graph has no place on earth.
        OutputError: if it cannot be written, or another folder has its name.
    """
    require_place(path, graph, "overture")
    check_replaceable(path, marker=SEGMENTS)
    placed = in_crs(graph, DEGREES)
    points: Lines = np.asarray(shapely.points(placed.nodes), dtype=object)
    nodes = _ids(points)
    with whole_folder(path) as folder:
        _write(folder / SEGMENTS, placed.lines, "segment", _ids(placed.lines), _facts(graph, nodes))
        _write(folder / CONNECTORS, points, "connector", nodes, {})


def _ids(shapes: Lines) -> list[str]:
    """Return an id for each geometry, the same for the same coordinates."""
    return [str(uuid.uuid5(_IDS, wkb.hex())) for wkb in shapely.to_wkb(shapes).tolist()]


def _facts(graph: RoadGraph, nodes: list[str]) -> dict[str, list[Any]]:
    """Return the columns of segments that connectors have not."""
    count = len(graph.lines)
    nothing = np.full(count, None)
    columns = {
        name: graph.attributes.get(name, nothing).tolist()
        for name in ("name", "source", "confidence", "width_m", CARS)
    }
    one_way = graph.attributes.get(ONE_WAY, np.zeros(count)).tolist()
    highways = classes(graph.attributes, len(graph.lines)).tolist()
    is_link = [name.endswith("_link") for name in highways]
    connectors = [
        # A loop has one connector, at both its ends.
        [{"connector_id": nodes[u], "at": 0.0}, {"connector_id": nodes[v], "at": 1.0}]
        for u, v in graph.ends.tolist()
    ]
    return {
        "subtype": ["road"] * count,
        "class": [_class(name) for name in highways],
        "subclass": ["link" if link else None for link in is_link],
        "names": [{"primary": name} if is_text(name) else None for name in columns["name"]],
        "connectors": connectors,
        "speed_limits": [_speed_limits(kph) for kph in driven_kph(graph).tolist()],
        "access_restrictions": [
            _restrictions(way, cars) for way, cars in zip(one_way, columns[CARS], strict=True)
        ],
        "road_flags": [[{"values": [LINK]}] if link else None for link in is_link],
        "width_rules": [[{"value": m}] if _is_number(m) else None for m in columns["width_m"]],
        "sources": [
            _sources(scene, share)
            for scene, share in zip(columns["source"], columns["confidence"], strict=True)
        ],
    }


def _class(highway: str) -> str:
    name = highway_class(highway.removesuffix("_link"))
    return name if name in _CLASSES else UNKNOWN


def _speed_limits(kph: float) -> list[dict[str, Any]] | None:
    if not kph > 0:
        return None
    value, unit = in_stated_unit(kph)
    return [{"max_speed": {"value": int(np.clip(round(value), 1, _FASTEST)), "unit": unit}}]


def _restrictions(one_way: float, cars: Any) -> list[dict[str, Any]] | None:  # noqa: ANN401 - a text
    rules: list[dict[str, Any]] = []
    if cars == "no":
        rules.append({"access_type": DENIED, "when": {"mode": ["motor_vehicle"]}})
    if one_way:
        heading = BACKWARD if one_way > 0 else FORWARD
        rules.append({"access_type": DENIED, "when": {"heading": heading}})
    return rules or None


def _sources(scene: Any, confidence: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - of any column
    record = scene if is_text(scene) else None
    share = confidence if _is_number(confidence) else None
    return [{"property": "", "dataset": "roadseg", "record_id": record, "confidence": share}]


def _is_number(value: Any) -> bool:  # noqa: ANN401 - of any column
    return isinstance(value, float) and bool(np.isfinite(value))


def _write(
    path: Path, shapes: Lines, kind: str, ids: list[str], facts: dict[str, list[Any]]
) -> None:
    """Write features of a type with the columns that all of Overture's have."""
    import pyarrow as pa  # noqa: PLC0415 - of an extra
    import pyarrow.parquet as pq  # noqa: PLC0415

    west, south, east, north = shapely.bounds(shapes).reshape(-1, 4).T.tolist()
    boxes = zip(west, east, south, north, strict=True)
    count = len(shapes)
    columns = {
        "id": ids,
        "geometry": shapely.to_wkb(shapes).tolist(),
        "bbox": [dict(zip(("xmin", "xmax", "ymin", "ymax"), box, strict=True)) for box in boxes],
        "theme": ["transportation"] * count,
        "type": [kind] * count,
        "version": [1] * count,
        "sources": [_sources(None, None)] * count,
        **facts,
    }
    types = _types(pa)
    arrays = {name: pa.array(values, types[name]) for name, values in columns.items()}
    table = pa.table(arrays).replace_schema_metadata({"geo": json.dumps(_geo(shapes, kind))})
    pq.write_table(table, path, compression="zstd")


def _geo(shapes: Lines, kind: str) -> dict[str, Any]:
    """Return the metadata of GeoParquet 1.1; without a CRS it is longitude and latitude."""
    column: dict[str, Any] = {
        "encoding": "WKB",
        "geometry_types": ["LineString" if kind == "segment" else "Point"],
        "covering": {"bbox": {end: ["bbox", end] for end in ("xmin", "ymin", "xmax", "ymax")}},
    }
    if len(shapes):
        column["bbox"] = shapely.total_bounds(shapes).tolist()
    return {"version": "1.1.0", "primary_column": "geometry", "columns": {"geometry": column}}


def _types(pa: Any) -> dict[str, "pa.DataType"]:  # noqa: ANN401 - the module pyarrow
    """Return the type of each column, as in Overture's releases."""
    text, number = pa.string(), pa.float64()
    part = pa.list_(number)  # From where to where on the segment a rule holds: 0 to 1.
    speed = pa.struct({"value": pa.int32(), "unit": text})
    when = pa.struct(
        {
            "during": text,
            "heading": text,
            "using": pa.list_(text),
            "recognized": pa.list_(text),
            "mode": pa.list_(text),
        }
    )
    source = {"property": text, "dataset": text, "record_id": text, "update_time": text}
    limit = {"min_speed": speed, "max_speed": speed, "is_max_speed_variable": pa.bool_()}
    return {
        "id": text,
        "geometry": pa.binary(),
        "bbox": pa.struct(dict.fromkeys(("xmin", "xmax", "ymin", "ymax"), pa.float32())),
        "theme": text,
        "type": text,
        "version": pa.int32(),
        "sources": pa.list_(pa.struct({**source, "confidence": number, "between": part})),
        "subtype": text,
        "class": text,
        "subclass": text,
        "names": pa.struct({"primary": text, "common": pa.map_(text, text)}),
        "connectors": pa.list_(pa.struct({"connector_id": text, "at": number})),
        "speed_limits": pa.list_(pa.struct({**limit, "when": when, "between": part})),
        "access_restrictions": pa.list_(
            pa.struct({"access_type": text, "when": when, "between": part})
        ),
        "road_flags": pa.list_(pa.struct({"values": pa.list_(text), "between": part})),
        "width_rules": pa.list_(pa.struct({"value": number, "between": part})),
    }
