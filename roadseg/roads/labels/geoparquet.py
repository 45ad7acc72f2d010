"""GeoParquet files; they need pyarrow, which is not installed with roadseg itself."""

from pathlib import Path
from typing import Any

import numpy as np

from roadseg.errors import DataError
from roadseg.roads.labels.vectors import Choose, VectorFile
from roadseg.system.files import is_virtual
from roadseg.system.records import parse_json
from roadseg.system.text import one_line


def read_geoparquet(path: Path, choose: Choose) -> VectorFile:
    """Read the features of a GeoParquet file.

    Args:
        path: the file.
        choose: returns which of the keys have values that are needed.

    Raises:
        DataError: if pyarrow is not installed, or the file is missing, damaged or has no
            geometry.
    """
    if is_virtual(path):
        raise DataError(f"{path}: GeoParquet is read from disk only; copy the file there")
    try:
        import geopandas as gpd  # noqa: PLC0415 - slow to import, and only needed here
        import pyarrow.parquet as pq  # noqa: PLC0415 - may be missing
    except ImportError as error:
        raise DataError(
            f"{path}: reading GeoParquet needs pyarrow; pip install 'roadseg[parquet]'"
        ) from error
    try:
        schema = pq.read_schema(path)
        geometry, others = _geometry_columns(path, schema.metadata or {})
        keys = tuple(key for key in schema.names if key not in others)
        with np.errstate(invalid="ignore"):  # coordinates that are NaN are counted later
            frame = gpd.read_parquet(path, columns=[*choose(keys), geometry])
    except DataError:
        raise
    except FileNotFoundError as error:
        raise DataError(f"{path} does not exist") from error
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        reason = one_line(error)
        raise DataError(
            f"{path}: not a readable GeoParquet file ({reason}); get it again"
        ) from error
    shapes = frame.geometry.to_numpy()
    return VectorFile(
        keys=keys,
        columns={str(key): frame[key].to_numpy() for key in frame.columns if key not in others},
        geometries=np.asarray(shapes, dtype=object),
        broken=0,
        crs=None if frame.crs is None else frame.crs.to_wkt(),
    )


def _geometry_columns(path: Path, metadata: dict[bytes, bytes]) -> tuple[str, set[str]]:
    """Return the column of geometries that counts, and all that are no attributes."""
    if b"geo" not in metadata:
        raise DataError(f"{path}: has no geometry, expected GeoParquet with road lines")
    geo: dict[str, Any] = parse_json(metadata[b"geo"].decode())
    covering = {
        paths["xmin"][0]
        for column in geo["columns"].values()
        for paths in column.get("covering", {}).values()
    }
    return geo["primary_column"], covering | set(geo["columns"])
