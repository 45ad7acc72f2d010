"""Layers of road labels as they are: lines in degrees with their attributes, not joined."""

from collections.abc import Mapping
from pathlib import Path

import geopandas as gpd
import pyogrio

from roadseg.arrays import Array, Lines
from roadseg.raster.grid import DEGREES
from roadseg.roads.formats.layers import (
    GPKG_VERSION,
    gdal_errors,
    require_whole,
    write_layer,
    write_parquet,
)

LAYER = "roads"
DRIVERS = {".gpkg": "GPKG", ".geojson": "GeoJSON", ".fgb": "FlatGeobuf"}


def write_label_layer(path: Path, lines: Lines, columns: Mapping[str, Array]) -> None:
    """Write road labels as one layer of a GeoPackage, GeoJSON or FlatGeobuf, or as GeoParquet.

    Args:
        path: that the caller has from `whole`; its suffix is one of `DRIVERS`, or else it is
            GeoParquet.
        lines: in degrees, shape (n,).
        columns: attributes by name, each of shape (n,).

    Raises:
        OSError: if the file cannot be written.
    """
    table = gpd.GeoDataFrame(dict(columns), geometry=lines, crs=DEGREES)
    driver = DRIVERS.get(path.suffix.lower())
    if driver is None:
        write_parquet(path, table)
        return
    write_layer(
        path,
        table,
        driver,
        layer=LAYER,
        dataset_options={"VERSION": GPKG_VERSION} if driver == "GPKG" else None,
        layer_options={"RFC7946": "YES"} if driver == "GeoJSON" else None,
    )
    with gdal_errors(path):
        require_whole(pyogrio.read_info(path, force_feature_count=True)["features"] == len(lines))
