"""fetch roads: the roads of an area from Overpass, as road labels."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from pyproj import CRS, Geod

from roadseg.errors import ConfigError, DataError
from roadseg.raster.grid import DEGREES, reproject
from roadseg.roads.formats.by_suffix import check_package
from roadseg.roads.formats.layers import LABEL_DRIVERS, write_label_layer
from roadseg.roads.labels.areas import read_area
from roadseg.roads.labels.origins import (
    OSM_CREDIT,
    OSM_LICENCE,
    Origin,
    origin_suffix,
    write_origin,
)
from roadseg.roads.osm.osm_objects import (
    HIGHWAYS,
    OF_MAPS,
    OSM_SUFFIXES,
    write_osm_objects,
)
from roadseg.roads.osm.overpass import PUBLIC_SERVER, TIMEOUT_S, OverpassArea
from roadseg.system.files import PARQUET_SUFFIXES, atomic_write_parts
from roadseg.system.progress import Progress
from roadseg.system.text import Summary, count
from roadseg.system.units import road_text
from roadseg.system.web.client import Client, RequestPolicy
from roadseg.system.web.keys import without_keys

_log = logging.getLogger(__name__)

_EARTH = Geod(ellps="WGS84")
_EQUAL_AREA = CRS.from_epsg(6933)
# Overpass is slow to begin an answer, and has few places for each user.
POLICY = RequestPolicy(per_second=1.0, tries=5, first_wait_s=3.0, quiet_s=TIMEOUT_S + 30.0)
_SUFFIXES = (*LABEL_DRIVERS, *PARQUET_SUFFIXES, *OSM_SUFFIXES)


@dataclass(frozen=True)
class FetchRoadsSummary(Summary):
    """Figures of the fetched roads.

    Attributes:
        source: address of the server, without keys.
        roads: number of ways with a tag `highway`.
        date: date of the data; None if it is not known.
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


def run(
    area: str,
    output: Path,
    *,
    server: str | None = None,
    limit_km2: float = 10_000.0,
    headers: Sequence[str] = (),
    hosts: Sequence[str] = (),
    force: bool = False,
) -> FetchRoadsSummary:
    """Fetch the roads that touch an area, each as a whole, and write them with a record of origin.

    Args:
        area: vector file with polygons, or a box in degrees: minx,miny,maxx,maxy.
        output: file to write; its suffix determines the format.
        server: address of an Overpass server; None for the public one.
        headers: headers for the server, such as `X-Key: {env:MY_KEY}`.
        hosts: hosts to which the server may redirect.

    Raises:
        ConfigError: an option cannot be used, the output exists, or a package is missing.
        DataError: the area cannot be read, the server does not answer, or there is no road in the
            area.
        OutputError: the file cannot be written.
    """
    _require_writable(output, force=force)
    degrees = read_area(area).degrees
    # Geodesics around half of the earth and more would take the shorter way.
    km2 = float(reproject(np.array([degrees]), DEGREES, _EQUAL_AREA)[0].area) / 1e6
    if km2 > limit_km2:
        raise ConfigError(
            f"--area {area}: has {km2:,.0f} km2, more than --limit-km2 "
            f"{limit_km2:,g}; choose a smaller area, or a larger limit"
        )
    server = server or PUBLIC_SERVER
    address = without_keys(server)
    _log.info("%s: fetching the roads of %.2f km2", address, km2)
    # A map for `conflate` also has what is in the way of roads.
    keys = OF_MAPS if _is_osm(output) else HIGHWAYS
    policy = replace(POLICY, hosts=frozenset(hosts))
    with Client(server, headers, policy) as client:
        overpass = OverpassArea(client, server, degrees, keys)
        with Progress("fetch roads", total=len(overpass.boxes()), unit="boxes") as progress:
            objects = overpass.fetch(progress.add)
    roads = objects.roads()
    if not len(roads.lines):
        sides = ",".join(f"{side:.7g}" for side in degrees.bounds)
        raise DataError(
            f"{address}: no road in the area {sides}; nothing was written; check the order "
            "minx,miny,maxx,maxy (longitude first), and that the server covers the area"
        )
    with atomic_write_parts(output, origin_suffix(output)) as partial:
        if _is_osm(partial):
            write_osm_objects(partial, objects, bounds=degrees.bounds, date=overpass.date)
        else:
            ids = {"osm_id": roads.way_id, "osm_version": roads.way_version}
            write_label_layer(partial, roads.lines, ids | roads.columns())
        origin = Origin("Overpass", address, OSM_LICENCE, OSM_CREDIT, overpass.date, area)
        write_origin(partial, origin)
    return FetchRoadsSummary(
        source=address,
        output=str(output),
        area_km2=round(km2, 3),
        roads=len(roads.lines),
        road_km=round(sum(map(_EARTH.geometry_length, roads.lines)) / 1000, 3),
        licence=OSM_LICENCE,
        attribution=OSM_CREDIT,
        date=overpass.date,
    )


def _require_writable(output: Path, *, force: bool) -> None:
    """Refuse an impossible file before anything is fetched."""
    if not output.name.lower().endswith(_SUFFIXES):
        raise ConfigError(f"--output {output}: use a file name that ends in {', '.join(_SUFFIXES)}")
    if output.is_dir():
        raise ConfigError(f"--output {output}: is a folder; name a file in it")
    if output.exists() and not force:
        raise ConfigError(f"--output {output}: exists; add --force to replace it")
    if _is_osm(output):
        check_package("osmium", needed_by="OpenStreetMap data", otherwise="use .gpkg")
    if output.suffix.lower() in PARQUET_SUFFIXES:
        check_package("pyarrow", needed_by="GeoParquet", otherwise="use .gpkg")


def _is_osm(path: Path) -> bool:
    return path.name.lower().endswith(OSM_SUFFIXES)
