"""fetch roads: the roads of an area from Overpass or an extract, as road labels."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyproj import CRS, Geod

from roadseg.arrays import Lines
from roadseg.errors import ConfigError, DataError
from roadseg.raster.grid import DEGREES, reproject
from roadseg.roads.formats.by_suffix import check_package
from roadseg.roads.formats.layers import LABEL_DRIVERS, write_label_layer
from roadseg.roads.labels.areas import Area, read_area
from roadseg.roads.labels.origins import (
    OSM_CREDIT,
    OSM_LICENCE,
    Origin,
    origin_suffix,
    read_origin,
    write_origin,
)
from roadseg.roads.osm.osm_extract import read_extract
from roadseg.roads.osm.osm_objects import (
    HIGHWAYS,
    OF_MAPS,
    OSM_SUFFIXES,
    OsmObjects,
    write_osm_objects,
)
from roadseg.roads.osm.overpass import PUBLIC_SERVER, TIMEOUT_S, OverpassArea
from roadseg.system.files import PARQUET_SUFFIXES, atomic_write_parts, with_home
from roadseg.system.progress import Progress
from roadseg.system.text import Summary, count
from roadseg.system.units import road_text
from roadseg.system.web.client import Client, RequestPolicy
from roadseg.system.web.keys import without_keys

OVERPASS = "overpass"
LIMIT_KM2 = 10_000.0

_log = logging.getLogger(__name__)

_EARTH = Geod(ellps="WGS84")
_EQUAL_AREA = CRS.from_epsg(6933)
# Overpass is slow to begin an answer, and has few places for each user.
POLICY = RequestPolicy(per_second=1.0, tries=5, first_wait_s=3.0, quiet_s=TIMEOUT_S + 30.0)
_SUFFIXES = (*LABEL_DRIVERS, *PARQUET_SUFFIXES, *OSM_SUFFIXES)


@dataclass(frozen=True)
class RoadRequest:
    """What to fetch, and from where.

    Attributes:
        area: a vector file with polygons, or a box in degrees: minx,miny,maxx,maxy.
        output: file to write; its suffix chooses the format.
        source: "overpass", or a file of OpenStreetMap data.
        server: address of an Overpass server; None for the public one.
        headers: for the Overpass server, such as `X-Key: {env:MY_KEY}`.
        hosts: to which it may redirect.
    """

    area: str
    output: Path
    source: str = OVERPASS
    server: str | None = None
    limit_km2: float = LIMIT_KM2
    headers: Sequence[str] = ()
    hosts: Sequence[str] = ()
    force: bool = False


@dataclass(frozen=True)
class FetchRoadsSummary(Summary):
    """What was fetched, in figures.

    Attributes:
        source: address or path that the roads came from, without keys.
        roads: number of ways with a `highway`.
        date: of the data, None if it is not known.
    """

    source: str
    output: str
    area_km2: float
    roads: int
    road_km: float
    licence: str
    attribution: str
    date: str | None

    def __str__(self) -> str:
        """Return the figures in a few lines."""
        of = f"{count(self.roads, 'road')} ({road_text(self.road_km)}) of {self.area_km2:.2f} km2"
        date = f"data of {self.date}" if self.date else "the date of the data is not known"
        return (
            f"{of} from {self.source}; {date}\n"
            f"licence: {self.licence}, {self.attribution}\n"
            f"output: {self.output}"
        )


@dataclass(frozen=True)
class _Fetched:
    """Roads of an area.

    Attributes:
        objects: all objects for a file of OpenStreetMap data.
    """

    lines: Lines
    columns: Mapping[str, NDArray[Any]]
    origin: Origin
    objects: OsmObjects


def run(request: RoadRequest) -> FetchRoadsSummary:
    """Fetch the roads that touch an area, each as a whole, and write them with a record of origin.

    Raises:
        ConfigError: an option cannot be used, the output exists, or a package is missing.
        DataError: the area or the source cannot be read, or there is no road in the area.
        OutputError: the file cannot be written.
    """
    _check(request)
    area = read_area(request.area)
    # Geodesics around half of the earth and more would take the shorter way.
    km2 = float(reproject(np.array([area.degrees]), DEGREES, _EQUAL_AREA)[0].area) / 1e6
    if km2 > request.limit_km2:
        raise ConfigError(
            f"--area {request.area}: has {km2:,.0f} km2, more than --limit-km2 "
            f"{request.limit_km2:,g}; choose a smaller area, or a larger limit"
        )
    _log.info("%s: fetching the roads of %.2f km2", request.source, km2)
    fetch = _from_overpass if request.source == OVERPASS else _from_extract
    fetched = fetch(request, area)
    if not len(fetched.lines):
        sides = ",".join(f"{side:.7g}" for side in area.degrees.bounds)
        raise DataError(
            f"{fetched.origin.address}: no road in the area {sides}; nothing was written; check "
            "the order minx,miny,maxx,maxy (longitude first), and that the source covers the area"
        )
    with atomic_write_parts(request.output, origin_suffix(request.output)) as partial:
        if _is_osm(partial):
            bounds, date = area.degrees.bounds, fetched.origin.date
            write_osm_objects(partial, fetched.objects, bounds=bounds, date=date)
        else:
            write_label_layer(partial, fetched.lines, fetched.columns)
        write_origin(partial, fetched.origin)
    return FetchRoadsSummary(
        source=fetched.origin.address,
        output=str(request.output),
        area_km2=round(km2, 3),
        roads=len(fetched.lines),
        road_km=round(sum(map(_EARTH.geometry_length, fetched.lines)) / 1000, 3),
        licence=fetched.origin.licence,
        attribution=fetched.origin.attribution,
        date=fetched.origin.date,
    )


def _check(request: RoadRequest) -> None:
    """Refuse what cannot be done, before anything is fetched."""
    output = request.output
    if not output.name.lower().endswith(_SUFFIXES):
        raise ConfigError(f"--output {output}: use a file name that ends in {', '.join(_SUFFIXES)}")
    if output.is_dir():
        raise ConfigError(f"--output {output}: is a folder; name a file in it")
    if output.exists() and not request.force:
        raise ConfigError(f"--output {output}: exists; add --force to replace it")
    is_extract = request.source != OVERPASS
    if is_extract and not _is_osm(Path(request.source)):
        raise ConfigError(
            f"--from {request.source}: expected overpass, or a file of OpenStreetMap data "
            "(.osm.pbf or .osm)"
        )
    if request.server is not None and is_extract:
        raise ConfigError(f"--server: is for --from overpass, not for --from {request.source}")
    if _is_osm(output) or is_extract:
        check_package("osmium", needed_by="OpenStreetMap data", otherwise="use .gpkg and Overpass")
    if output.suffix.lower() in PARQUET_SUFFIXES:
        check_package("pyarrow", needed_by="GeoParquet", otherwise="use .gpkg")
    if is_extract and output.resolve() == with_home(request.source).resolve():
        raise ConfigError(f"--output {output}: is the file to read; write to another one")


def _is_osm(path: Path) -> bool:
    return path.name.lower().endswith(OSM_SUFFIXES)


def _keys(output: Path) -> tuple[str, ...]:
    """Return the keys of the ways to fetch: a map for `conflate` also has what is in the way."""
    return OF_MAPS if _is_osm(output) else HIGHWAYS


def _from_overpass(request: RoadRequest, area: Area) -> _Fetched:
    server = request.server or PUBLIC_SERVER
    policy = replace(POLICY, hosts=frozenset(request.hosts))
    with Client(server, request.headers, policy) as client:
        asked = OverpassArea(client, server, area.degrees, _keys(request.output))
        with Progress("fetch roads", total=len(asked.boxes()), unit="boxes") as progress:
            objects = asked.fetch(progress.add)
    return _of_objects(objects, "Overpass", without_keys(server), asked.date, request.area)


def _from_extract(request: RoadRequest, area: Area) -> _Fetched:
    path = with_home(request.source)
    scratch = next(folder for folder in request.output.absolute().parents if folder.is_dir())
    objects, date = read_extract(
        path,
        area.degrees,
        _keys(request.output),
        scratch=scratch,
        every_node=_is_osm(request.output),
    )
    former = read_origin(path)
    date = date or (former.date if former else None)
    return _of_objects(objects, "extract of OpenStreetMap", str(path), date, request.area)


def _of_objects(
    objects: OsmObjects, service: str, address: str, date: str | None, area: str
) -> _Fetched:
    roads = objects.roads()
    origin = Origin(service, address, OSM_LICENCE, OSM_CREDIT, date, area)
    columns = {"osm_id": roads.way_id, "osm_version": roads.way_version, **roads.columns()}
    return _Fetched(roads.lines, columns, origin, objects)
