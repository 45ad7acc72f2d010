"""Layers of lines that GDAL writes: graphs in formats of its own, and road labels as they are."""

import errno
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

import geopandas as gpd
import numpy as np
import pandas as pd
import pyogrio
import shapely
from pyogrio.errors import DataLayerError, DataSourceError, FeatureError

from roadseg.arrays import Array, Lines
from roadseg.raster.grid import DEGREES
from roadseg.roads.formats.gpkg_styles import STYLE_LAYER
from roadseg.roads.formats.tables import edge_table
from roadseg.roads.graph.road_graph import RoadGraph
from roadseg.roads.labels.tags import SHAPEFILE_NAMES
from roadseg.system.files import SHAPEFILE_PARTS, atomic_write, atomic_write_parts, write_error

LABEL_DRIVERS = {".gpkg": "GPKG", ".geojson": "GeoJSON", ".fgb": "FlatGeobuf"}
_GPKG_VERSION = "1.2"  # GDAL before 3.7 warns of later ones, which have nothing that we need.


def write_fgb(path: Path, graph: RoadGraph) -> None:
    """Write the edges of a graph as FlatGeobuf in its own CRS, columns as in `write_gpkg`.

    Raises:
        ValueError: if an attribute has the name of a column of the file.
        OutputError: if the file cannot be written.
    """
    with atomic_write(path) as partial:
        table = edge_table(graph)
        write_layer(partial, table, "FlatGeobuf")
        require_whole(_features(partial) == len(table))


def write_shp(path: Path, graph: RoadGraph) -> None:
    """Write the edges of a graph as a Shapefile in its own CRS, columns as in `write_gpkg`.

    Names have at most ten letters there: `tags.SHAPEFILE_NAMES` lists those of ours that are cut,
    and readers know them again. Others are cut by GDAL. Texts have at most 254 bytes.

    Raises:
        ValueError: if an attribute has the name of a column of the file.
        OutputError: if its files cannot be written.
    """
    short = {full: cut for cut, full in SHAPEFILE_NAMES.items()}
    with atomic_write_parts(path, *SHAPEFILE_PARTS) as partial:
        table = edge_table(graph).rename(columns=short)
        write_layer(partial, table, "ESRI Shapefile")
        require_whole(_features(partial) == len(table))


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
    driver = LABEL_DRIVERS.get(path.suffix.lower())
    if driver is None:
        write_parquet(path, table)
        return
    write_layer(
        path,
        table,
        driver,
        layer="roads",
        layer_options={"RFC7946": "YES"} if driver == "GeoJSON" else None,
    )
    with gdal_errors(path):
        require_whole(pyogrio.read_info(path, force_feature_count=True)["features"] == len(lines))


def write_layer(
    path: Path,
    table: pd.DataFrame,
    driver: str,
    *,
    layer: str = "edges",
    geometry_type: str | None = "LineString",
    append: bool = False,
    dataset_options: Mapping[str, str] | None = None,
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
    if driver == "GPKG" and not append:
        dataset_options = {"VERSION": _GPKG_VERSION}
    with gdal_errors(path), _unsynced():
        pyogrio.write_dataframe(
            table,
            path,
            layer=path.stem if driver == "ESRI Shapefile" else layer,
            driver=driver,
            geometry_type=geometry_type,
            append=append,
            dataset_options=dict(dataset_options or {}) or None,
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


def write_parquet(path: Path, table: gpd.GeoDataFrame) -> None:
    """Write GeoParquet 1.1, with a column `bbox` by which readers skip what is elsewhere.

    It needs pyarrow, see `by_suffix.check_formats`.
    """
    table.to_parquet(
        path, index=False, schema_version="1.1.0", write_covering_bbox=True, compression="zstd"
    )


def single_lines(lines: Lines) -> Lines:
    """Return geometries with lines in the place of collections of one line."""
    is_one = shapely.get_num_geometries(lines) == 1
    return np.where(is_one, shapely.get_geometry(lines, 0), lines)


def _features(path: Path) -> int:
    """Return how many features the only layer has, each of which is read."""
    with gdal_errors(path):
        return len(pyogrio.read_bounds(path)[0])


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
