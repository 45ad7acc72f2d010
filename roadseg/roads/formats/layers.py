"""Layers of lines, written: edges of graphs and road labels, by GDAL or as GeoParquet."""

import errno
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

import geopandas as gpd
import pandas as pd
import pyogrio
from pyogrio.errors import DataLayerError, DataSourceError, FeatureError

from roadseg.arrays import Array, Lines
from roadseg.raster.grid import DEGREES, is_local
from roadseg.roads.formats.gpkg_styles import STYLE_LAYER
from roadseg.roads.formats.tables import edge_table
from roadseg.roads.graph.road_graph import RoadGraph
from roadseg.roads.labels.tags import SHAPEFILE_NAMES
from roadseg.system.files import SHAPEFILE_PARTS, atomic_write, atomic_write_parts, write_error

LABEL_DRIVERS = {".gpkg": "GPKG", ".geojson": "GeoJSON", ".fgb": "FlatGeobuf"}
_DRIVERS = LABEL_DRIVERS | {".json": "GeoJSON", ".shp": "ESRI Shapefile"}
_GPKG_VERSION = "1.2"  # GDAL before 3.7 warns of later ones, which have nothing that we need.
# Numbers of GeoJSON files need no more digits; RFC 7946 recommends seven decimals of a degree.
_IN_DEGREES = {"RFC7946": "YES", "COORDINATE_PRECISION": "7", "SIGNIFICANT_FIGURES": "9"}
_IN_METRES = {"COORDINATE_PRECISION": "3", "SIGNIFICANT_FIGURES": "9"}


def write_edges(path: Path, graph: RoadGraph) -> None:
    """Write the edges of a graph in the format of the suffix, with the columns of `write_gpkg`.

    - GeoJSON (.geojson, .json): in degrees. Of a scene without georeference the coordinates are its
      metres as they are; the file cannot say so, and a program that takes it for degrees will show
      it in the wrong place.
    - FlatGeobuf (.fgb): in its own CRS.
    - Shapefile (.shp): the same. Names have at most ten letters: `tags.SHAPEFILE_NAMES` lists those
      of ours that are cut, and readers know them again. Others are cut by GDAL. Texts have at most
      254 bytes.
    - GeoParquet 1.1 (any other): in its own CRS.

    Source: RFC 7946 for GeoJSON: longitude first, WGS 84, no crs member, seven decimals.

    Raises:
        ValueError: if an attribute has the name of a column of the file.
        OutputError: if the file cannot be written.
    """
    table, suffix, options = edge_table(graph), path.suffix.lower(), None
    if _DRIVERS.get(suffix) == "GeoJSON":
        options = _IN_METRES if is_local(graph.crs) else _IN_DEGREES
        table = table if is_local(graph.crs) else table.to_crs(DEGREES)
    if suffix != ".shp":
        with atomic_write(path) as partial:
            _write_table(partial, table, layer_options=options)
        return
    table = table.rename(columns={full: cut for cut, full in SHAPEFILE_NAMES.items()})
    with atomic_write_parts(path, *SHAPEFILE_PARTS) as partial:
        _write_table(partial, table)


def write_label_layer(path: Path, lines: Lines, columns: Mapping[str, Array]) -> None:
    """Write road labels as they are, as one layer of a format of `LABEL_DRIVERS`, or GeoParquet.

    Args:
        path: that the caller has from `atomic_write`; other suffixes than these are GeoParquet.
        lines: in degrees, shape (n,).
        columns: attributes by name, each of shape (n,).

    Raises:
        OSError: if the file cannot be written.
    """
    table = gpd.GeoDataFrame(dict(columns), geometry=lines, crs=DEGREES)
    is_geojson = path.suffix.lower() == ".geojson"
    options = {"RFC7946": "YES"} if is_geojson else None
    _write_table(path, table, layer="roads", layer_options=options)


def _write_table(
    path: Path,
    table: gpd.GeoDataFrame,
    *,
    layer: str = "edges",
    layer_options: Mapping[str, str] | None = None,
) -> None:
    """Write the only layer of a file in the format of its suffix, and check that it is whole."""
    driver = _DRIVERS.get(path.suffix.lower())
    if driver is None:
        # It needs pyarrow, see `by_suffix.check_formats`. By `bbox` readers skip what is elsewhere.
        table.to_parquet(
            path, index=False, schema_version="1.1.0", write_covering_bbox=True, compression="zstd"
        )
        return
    write_layer(path, table, driver, layer=layer, layer_options=layer_options)
    if driver == "GeoJSON":
        with path.open("rb") as file:
            file.seek(-8, os.SEEK_END)
            require_whole(file.read().rstrip().endswith(b"]\n}"))
        return
    with gdal_errors(path):
        features = len(pyogrio.read_bounds(path)[0])  # Each of them is read.
    require_whole(features == len(table))


def write_layer(
    path: Path,
    table: pd.DataFrame,
    driver: str,
    *,
    layer: str = "edges",
    geometry_type: str | None = "LineString",
    append: bool = False,
    layer_options: Mapping[str, str] | None = None,
) -> None:
    """Write a layer with a driver of GDAL.

    Args:
        path: that the caller has from `atomic_write`, which waits for the disk at its end.
        layer: its name; a Shapefile has that of its file.
        geometry_type: of its geometries; None takes that which they have, if any.
        append: whether the file has layers already.

    Raises:
        OSError: if it cannot be written.
    """
    is_new_gpkg = driver == "GPKG" and not append
    with gdal_errors(path), _unsynced():
        pyogrio.write_dataframe(
            table,
            path,
            layer=path.stem if driver == "ESRI Shapefile" else layer,
            driver=driver,
            geometry_type=geometry_type,
            append=append,
            dataset_options={"VERSION": _GPKG_VERSION} if is_new_gpkg else None,
            layer_options=dict(layer_options or {}) or None,
        )


def write_gpkg_layers(
    path: Path,
    layers: Mapping[str, pd.DataFrame],
    *,
    geometry_types: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Write the layers of a new GeoPackage, and check that they are whole.

    Args:
        layers: tables by name; some may be without geometry.
        geometry_types: of layers that do not hold lines.

    Raises:
        OSError: if one cannot be written.
    """
    for number, (name, table) in enumerate(layers.items()):
        has_places = "geometry" in table
        write_layer(
            path,
            table,
            "GPKG",
            layer=name,
            geometry_type=geometry_types.get(name, "LineString") if has_places else None,
            append=number > 0,
            layer_options={"FID": "id"} if name == STYLE_LAYER else None,
        )
        with gdal_errors(path):
            layer = pyogrio.read_info(path, layer=name)
        # The spatial index is what GDAL writes last.
        has_index = not has_places or bool(layer["capabilities"]["fast_spatial_filter"])
        require_whole(has_index and layer["features"] == len(table))


@contextmanager
def _unsynced() -> Iterator[None]:
    """Let SQLite not wait for the disk after each of its steps: 0.8 of the time on some disks."""
    name = "OGR_SQLITE_SYNCHRONOUS"
    before = pyogrio.get_gdal_config_option(name)
    pyogrio.set_gdal_config_options({name: "OFF"})
    try:
        yield
    finally:
        pyogrio.set_gdal_config_options({name: before})


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
