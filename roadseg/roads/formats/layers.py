"""Layers of lines that GDAL writes: FlatGeobuf, Shapefile, file geodatabase and PMTiles."""

import errno
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import geopandas as gpd
import numpy as np
import pyogrio
import shapely
from pyogrio.errors import DataLayerError, DataSourceError, FeatureError
from pyproj import CRS

from roadseg.arrays import Lines
from roadseg.raster.grid import DEGREES
from roadseg.roads.formats.osm_ways import require_place
from roadseg.roads.formats.tables import edge_table, node_table
from roadseg.roads.graph.road_graph import RoadGraph
from roadseg.roads.labels.tags import SHAPEFILE_NAMES
from roadseg.system.files import (
    SHAPEFILE_PARTS,
    check_replaceable,
    whole,
    whole_folder,
    whole_parts,
    write_error,
)

_GDB = "gdb"  # A file in every file geodatabase.
_IDS = ("osmid", "u", "v", "key", "street_count")  # Whole numbers, which 32 bits hold.
_WEB = CRS.from_epsg(3857)  # Of the tiles of maps on the web.
_WORLD_M = 40_075_016.7  # Metres; side of its only tile at zoom 0.
_MAX_ZOOM = 15  # At which a tile is 1.2 km wide, and its units 0.3 m at the equator.
_FROM_AFAR = 3  # Zooms at which all roads are on one tile.


def write_fgb(path: Path, graph: RoadGraph) -> None:
    """Write the edges of a graph as FlatGeobuf in its own CRS, columns as in `write_gpkg`.

    Raises:
        ValueError: if an attribute has the name of a column of the file.
        OutputError: if the file cannot be written.
    """
    with whole(path) as partial:
        _write(partial, edge_table(graph), "FlatGeobuf")


def write_shp(path: Path, graph: RoadGraph) -> None:
    """Write the edges of a graph as a Shapefile in its own CRS, columns as in `write_gpkg`.

    Names have at most ten letters there: `tags.SHAPEFILE_NAMES` lists those of ours that are cut,
    and readers know them again. Others are cut by GDAL. Texts have at most 254 bytes.

    Raises:
        ValueError: if an attribute has the name of a column of the file.
        OutputError: if its files cannot be written.
    """
    short = {full: cut for cut, full in SHAPEFILE_NAMES.items()}
    with whole_parts(path, *SHAPEFILE_PARTS) as partial:
        _write(partial, edge_table(graph).rename(columns=short), "ESRI Shapefile")


def write_gdb(path: Path, graph: RoadGraph) -> None:
    """Write a graph as a file geodatabase (a folder) with the layers of `write_gpkg`.

    Coordinates are rounded to 0.1 mm, as the format has it.

    Raises:
        ValueError: if an attribute has the name of a column of the file.
        OutputError: if it cannot be written, or another folder has its name.
    """
    check_replaceable(path, marker=_GDB)
    with whole_folder(path) as partial:
        nodes = _in_32_bits(node_table(graph))
        _write(partial, nodes, "OpenFileGDB", layer="nodes", geometry_type="Point")
        _write(partial, _in_32_bits(edge_table(graph)), "OpenFileGDB", layer="edges", append=True)


def write_pmtiles(path: Path, graph: RoadGraph) -> None:
    """Write the edges of a graph as PMTiles: vector tiles for maps on the web, in one file.

    Its layer `edges` has the columns of `write_gpkg`. Zooms range from where all roads lie on one
    tile to 15, at which coordinates are rounded to 0.3 m. Roads are cut where tiles end, so no
    graph can be read from them.

    Raises:
        DataError: if the graph has no place on earth.
        ValueError: if an attribute has the name of a column of the file.
        OutputError: if the file cannot be written.
    """
    require_place(path, graph, "pmtiles")
    table = edge_table(graph).to_crs(DEGREES)
    options = {
        "NAME": path.stem,
        "MINZOOM": str(_min_zoom(table)),
        "MAXZOOM": str(_MAX_ZOOM),
        # Without features GDAL finds no bounds, and fails.
        **({} if len(table) else {"BOUNDS": "-180,-85,180,85", "CENTER": "0,0,0"}),
    }
    with whole_parts(path) as partial:
        _write(partial, table, "PMTiles", options=options, is_tiled=True)


def single_lines(lines: Lines) -> Lines:
    """Return geometries with lines in the place of collections of one line."""
    is_one = shapely.get_num_geometries(lines) == 1
    return np.where(is_one, shapely.get_geometry(lines, 0), lines)


def _min_zoom(table: gpd.GeoDataFrame) -> int:
    """Return the zoom from which on a network is worth a look: some above that of one tile."""
    if not len(table):
        return 0
    west, south, east, north = table.to_crs(_WEB).total_bounds
    across_m = max(east - west, north - south, 1.0)
    return int(np.clip(np.log2(_WORLD_M / across_m) - _FROM_AFAR, 0, _MAX_ZOOM))


def _in_32_bits(table: gpd.GeoDataFrame) -> gpd.GeoDataFrame:
    """Return a table whose ids are 32-bit numbers: older ArcGIS has no larger whole ones."""
    return table.astype(dict.fromkeys((name for name in _IDS if name in table), np.int32))


def _write(
    path: Path,
    table: gpd.GeoDataFrame,
    driver: str,
    *,
    layer: str = "edges",
    geometry_type: str = "LineString",
    append: bool = False,
    options: Mapping[str, str] | None = None,
    is_tiled: bool = False,
) -> None:
    """Write a layer with a driver of GDAL, and check that it is whole.

    Args:
        path: the file.
        table: of the layer.
        driver: of GDAL.
        layer: its name; a Shapefile has that of its file.
        geometry_type: of its geometries.
        append: whether the file has layers already.
        options: of the data set.
        is_tiled: whether the file has as many features as there are pieces on tiles.
    """
    with gdal_errors(path):
        pyogrio.write_dataframe(
            table,
            path,
            layer=path.stem if driver == "ESRI Shapefile" else layer,
            driver=driver,
            geometry_type=geometry_type,
            append=append,
            dataset_options=dict(options) if options else None,
        )
        # GDAL closes a file without a word when the disk is full.
        is_empty = is_tiled and not len(table)  # Such tiles name no layer.
        found = 0 if is_empty else _count(path, driver, layer)
    require_whole(found >= len(table) if is_tiled else found == len(table))


def _count(path: Path, driver: str, layer: str) -> int:
    """Return how many features a layer has, each of which is read."""
    named: dict[str, Any] = {} if driver == "ESRI Shapefile" else {"layer": layer}
    fids, _ = pyogrio.read_bounds(path, **named)
    return len(fids)


@contextmanager
def gdal_errors(path: Path) -> Iterator[None]:
    """Raise errors of GDAL as those of writing a file."""
    try:
        # GDAL warns of files cut short, which its error, or the end of the file, tells as well.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            yield
    except (DataSourceError, DataLayerError, FeatureError) as error:
        raise write_error(path, str(error)) from error


def require_whole(is_whole: bool) -> None:  # noqa: FBT001 - its only argument
    """Refuse a file whose end is missing: GDAL closes it without a word when the disk is full."""
    if not is_whole:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
