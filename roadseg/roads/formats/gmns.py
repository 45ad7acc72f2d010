"""GMNS: networks of the General Modeling Network Specification, for models of traffic."""

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd
import shapely
from pyproj import CRS
from pyproj.exceptions import CRSError
from shapely.errors import ShapelyError

from roadseg.arrays import Floats, Ints, Lines
from roadseg.errors import DataError
from roadseg.raster.grid import DEGREES, LOCAL_CRS, is_local
from roadseg.roads.formats.by_suffix import zip_members
from roadseg.roads.formats.tables import EDGE_COLUMNS, attributes_of, edge_table
from roadseg.roads.graph.joining import in_crs
from roadseg.roads.graph.road_graph import (
    ONE_WAY,
    RoadGraph,
    are_reversed,
    drawings,
    first_drawn,
    take_edges,
)
from roadseg.roads.labels.schemes import OWN_SPEED
from roadseg.roads.speeds import KPH_PER_MPH
from roadseg.system.files import check_replaceable, whole_folder
from roadseg.system.text import one_line

_VERSION = "0.96"  # Of the specification.
_KM = 1000.0  # Metres.
_DECIMALS = 9  # Of a degree, which are 0.1 mm.
_NODES, _LINKS, _CONFIG = "node.csv", "link.csv", "config.csv"
_NODE_COLUMNS = ("node_id", "x_coord", "y_coord")
_LINK_COLUMNS = ("link_id", "from_node_id", "to_node_id", "directed")
_KPH = {"km/h": 1.0, "kph": 1.0, "kmh": 1.0, "mph": KPH_PER_MPH, "mi/h": KPH_PER_MPH}
_TRUE = ("true", "1", "t", "yes")
_NAMES = {"facility_type": "highway", "free_speed": OWN_SPEED}  # Columns of links, and ours.
_OTHERS = ("geometry", "geometry_id", "dir_flag", "parent_link_id", "allowed_uses", *_LINK_COLUMNS)


def write_gmns(path: Path, graph: RoadGraph) -> None:
    """Write a graph as a folder of `node.csv`, `link.csv` and `config.csv`.

    Coordinates are degrees; those of a scene without georeference are its metres. Lengths are in
    km, speeds in km/h. A road that is driven both ways is one link, not `directed`; one that is
    one-way is directed in its direction, with `dir_flag` -1 where its line is drawn against it.
    `facility_type` is the class, `free_speed` the speed. All other attributes are further
    columns, as the specification allows them.

    Source: https://github.com/zephyr-data-specs/GMNS, version 0.96.

    Raises:
        ValueError: if an attribute has the name of a column of `edge_table`.
        OutputError: if it cannot be written, or another folder has its name.
    """
    check_replaceable(path, marker=_LINKS)
    is_placed = not is_local(graph.crs)
    placed = in_crs(graph, DEGREES) if is_placed else graph
    crs = "EPSG:4326" if is_placed else graph.crs.to_wkt()
    x, y = placed.nodes.T
    numbers = np.arange(1, len(x) + 1)
    nodes = pd.DataFrame({"node_id": numbers, "x_coord": x, "y_coord": y}).round(_DECIMALS)
    config = {
        "dataset_name": path.stem,
        "short_length": "m",
        "long_length": "km",
        "speed": "km/h",
        "crs": crs,
        "geometry_field_format": "WKT",
        "version_number": _VERSION,
        "id_type": "integer",
    }
    with whole_folder(path) as folder:
        nodes.to_csv(folder / _NODES, index=False)
        _link_table(graph, placed.lines).to_csv(folder / _LINKS, index=False)
        pd.DataFrame([config]).to_csv(folder / _CONFIG, index=False)


def _link_table(graph: RoadGraph, lines: Lines) -> pd.DataFrame:
    """Return the links: the fields of the specification, then all other attributes."""
    one_way = graph.attributes.get(ONE_WAY, np.zeros(len(lines), dtype=np.int64))
    ends = np.where(one_way[:, np.newaxis] < 0, graph.ends[:, ::-1], graph.ends) + 1
    edges = edge_table(graph)
    edges = edges.drop(columns=["osmid", *EDGE_COLUMNS, ONE_WAY], errors="ignore")
    others = pd.DataFrame(edges).rename(columns={ours: theirs for theirs, ours in _NAMES.items()})
    fields = {
        "link_id": np.arange(1, len(lines) + 1),
        "from_node_id": ends[:, 0],
        "to_node_id": ends[:, 1],
        "directed": np.where(one_way == 0, "false", "true"),
        "dir_flag": one_way,
        "length": graph.length_m / _KM,
        "geometry": shapely.to_wkt(lines, rounding_precision=_DECIMALS),
    }
    return pd.DataFrame(fields).join(others)


def read_gmns(path: Path) -> RoadGraph:
    """Read the links of a GMNS folder, or of one in a zip, in metres.

    `config.csv` tells the CRS, else degrees, and the unit of `free_speed`, else km/h. The line of
    a link is its `geometry` (WKT), or that of `geometry.csv`, or else straight. Links of
    both directions with one line are one road. Travel times follow from lengths and speeds, unless
    there is a column `travel_time` in seconds.

    Raises:
        DataError: if a file is missing or cannot be read, or does not hold such links.
    """
    nodes, links = _table(path, _NODES, _NODE_COLUMNS), _table(path, _LINKS, _LINK_COLUMNS)
    facts = _table(path, _CONFIG, ()) if _has(path, _CONFIG) else pd.DataFrame()
    places = nodes[["x_coord", "y_coord"]].to_numpy(dtype=np.float64)
    ends = _ends(path, nodes, links)
    one_way = links["directed"].astype(str).str.lower().isin(_TRUE).to_numpy().astype(np.int64)
    lines = _lines(path, links, places[ends])
    is_back = are_reversed(lines, places[ends[:, 0]])
    columns = links.rename(columns=_NAMES).drop(columns=list(_OTHERS), errors="ignore")
    attributes = attributes_of(columns)
    if OWN_SPEED in attributes:
        attributes[OWN_SPEED] = _numbers(path, columns[OWN_SPEED]) * _unit(path, facts)
    attributes[ONE_WAY] = np.where(is_back, -one_way, one_way)
    ends = np.where(is_back[:, np.newaxis], ends[:, ::-1], ends)
    return _joined(RoadGraph(_crs(path, facts), places, ends, lines, attributes))


@contextmanager
def _opened(path: Path, name: str) -> Iterator[IO[bytes]]:
    """Open a file of a folder or of a zip.

    Raises:
        OSError, KeyError: if it is not there.
    """
    if path.is_dir():
        with (path / name).open("rb") as file:
            yield file
        return
    with zipfile.ZipFile(path) as archive, archive.open(zip_members(path).get(name, name)) as file:
        yield file


def _has(path: Path, name: str) -> bool:
    return (path / name).exists() if path.is_dir() else name in zip_members(path)


def _table(path: Path, name: str, columns: tuple[str, ...]) -> pd.DataFrame:
    file = path / name
    try:
        with _opened(path, name) as source:
            ids = dict.fromkeys(("node_id", "from_node_id", "to_node_id"), str)
            table = pd.read_csv(source, dtype=ids)
    except (OSError, ValueError, LookupError, zipfile.BadZipFile) as error:
        raise DataError(
            f"{file}: cannot be read ({one_line(error):.200}); expected a GMNS folder with "
            f"{_NODES} and {_LINKS}"
        ) from error
    missing = [column for column in columns if column not in table]
    if missing:
        raise DataError(f"{file}: has no column {missing[0]}, which GMNS requires")
    return table


def _ends(path: Path, nodes: pd.DataFrame, links: pd.DataFrame) -> Ints:
    index = pd.Index(nodes["node_id"])
    if not index.is_unique:
        raise DataError(f"{path / _NODES}: two nodes have the same node_id")
    ends = index.get_indexer(pd.Index(links[["from_node_id", "to_node_id"]].to_numpy().ravel()))
    if np.any(ends < 0):
        raise DataError(f"{path / _LINKS}: refers to a node that is missing in {_NODES}")
    return np.asarray(ends, dtype=np.int64).reshape(-1, 2)


def _lines(path: Path, links: pd.DataFrame, ends: Floats) -> Lines:
    """Return the line of each link; `ends` are the positions of its nodes, shape (m, 2, 2)."""
    texts = links.get("geometry")
    if texts is None and "geometry_id" in links:
        shapes = _table(path, "geometry.csv", ("geometry_id", "geometry"))
        texts = links["geometry_id"].map(shapes.set_index("geometry_id")["geometry"])
    straight: Lines = np.array([], dtype=object)
    if len(ends):
        straight = np.asarray(shapely.linestrings(ends), dtype=object)
    if texts is None:
        return straight
    try:
        drawn = shapely.from_wkt(texts.where(texts.notna(), None).to_numpy(dtype=object))
    except (ShapelyError, TypeError) as error:
        raise DataError(
            f"{path / _LINKS}: geometry of a link is not WKT ({one_line(error):.200})"
        ) from error
    lines = np.where(shapely.is_missing(drawn), straight, drawn)
    if np.any(shapely.get_type_id(lines) != shapely.GeometryType.LINESTRING):
        raise DataError(f"{path / _LINKS}: geometry of a link is not a LINESTRING")
    return np.asarray(shapely.force_2d(lines), dtype=object)


def _numbers(path: Path, column: "pd.Series[Any]") -> Floats:
    numbers = pd.to_numeric(column, errors="coerce")
    if (numbers.isna() & column.notna()).any():
        raise DataError(f"{path / _LINKS}: free_speed of a link is not a number")
    return numbers.to_numpy(dtype=np.float64)


def _fact(facts: pd.DataFrame, name: str) -> str:
    """Return a field of `config.csv`, "" if it has none."""
    if name not in facts or not len(facts) or pd.isna(facts[name].iloc[0]):
        return ""
    return str(facts[name].iloc[0]).strip()


def _unit(path: Path, facts: pd.DataFrame) -> float:
    unit = _fact(facts, "speed").lower() or "km/h"
    if unit not in _KPH:
        raise DataError(f"{path / _CONFIG}: speed in {unit!r:.40}, expected km/h or mph")
    return _KPH[unit]


def _crs(path: Path, facts: pd.DataFrame) -> CRS:
    named = _fact(facts, "crs")
    try:
        crs = CRS.from_user_input(named) if named else DEGREES
    except CRSError as error:
        raise DataError(f"{path / _CONFIG}: its crs {named!r:.120} is unknown") from error
    return LOCAL_CRS if is_local(crs) else crs


def _joined(graph: RoadGraph) -> RoadGraph:
    """Return a graph with one edge for links of both directions; it is not one-way."""
    one_way = graph.attributes[ONE_WAY]
    roads = drawings(graph)
    # A direction is that of travel from the lower node to the higher one, however it is drawn.
    rises = np.where(graph.ends[:, 0] <= graph.ends[:, 1], one_way, -one_way).tolist()
    driven = set(zip(roads, rises, strict=True))
    is_both = np.array([(road, -way) in driven for road, way in zip(roads, rises, strict=True)])
    is_loop = graph.ends[:, 0] == graph.ends[:, 1]
    one_way = np.where(is_both.astype(bool) & ~is_loop, 0, one_way)
    attributes = {**graph.attributes, ONE_WAY: one_way}
    if not one_way.any():
        del attributes[ONE_WAY]
    whole = replace(graph, attributes=attributes)
    return take_edges(whole, np.sort(first_drawn(whole, range(len(whole.lines)))))
