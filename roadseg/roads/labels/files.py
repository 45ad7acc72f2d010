"""Road labels: read lines and polygons with their speeds and widths from any vector file."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import shapely
from numpy.typing import NDArray
from pyproj import CRS
from pyproj.exceptions import ProjError

from roadseg.errors import DataError
from roadseg.raster.grid import DEGREES, transformer
from roadseg.roads.labels.geoparquet import read_geoparquet
from roadseg.roads.labels.roads import (
    CleanShapes,
    Roads,
    Shapes,
    clean_shapes,
    drop_duplicates,
)
from roadseg.roads.labels.schemes import choose_scheme, read_attributes, wanted_keys
from roadseg.roads.labels.vectors import VectorFile, read_vectors
from roadseg.roads.options import LabelOptions, SchemeName
from roadseg.system.files import PARQUET_SUFFIXES

_ANY_LABELS = LabelOptions()
_FARTHEST_DEGREES = 360.0


@dataclass(frozen=True)
class LabelFile:
    """What a label file holds.

    Attributes:
        roads: its lines and polygons, in its own CRS.
        features: number of features found.
        dropped: number of features, or of pieces of them, left out, by reason.
        keys: names of the attributes found.
        scheme: what the attributes mean; never "auto".
        repaired: number of polygons that were invalid and made valid.
    """

    roads: Roads
    features: int
    dropped: Counter[str]
    keys: tuple[str, ...]
    scheme: SchemeName
    repaired: int = 0


def read_roads(
    path: Path, *, options: LabelOptions = _ANY_LABELS, crs: CRS | None = None
) -> LabelFile:
    """Read the roads of a vector file.

    Args:
        path: a file that OGR reads, also in a .zip or .gz, a /vsi path, or GeoParquet. Of
            several layers it is the first with lines, or else with polygons.
        options: what its attributes mean.
        crs: coordinate system to use for a file that does not name a known one.

    Raises:
        DataError: if the file cannot be read whole, has no known CRS or not the attribute that
            the scheme needs, or has features of which none is a road. A file without any
            feature is fine: a scene without roads.
    """
    file = _read(path, options)
    with _naming(path):
        attributes = read_attributes(file.columns, len(file.geometries), options)
    cleaned = clean_shapes(file.geometries)
    reason = attributes.left_out[cleaned.owner]
    owner = cleaned.owner[reason == ""]
    seconds = attributes.travel_time_s[cleaned.owner] * _shares(cleaned)
    roads, duplicates = drop_duplicates(
        Roads(
            crs=_crs(path, file, cleaned.shapes, crs),
            shapes=cleaned.shapes[reason == ""],
            speed_mph=attributes.mph[owner],
            speed_source=attributes.source[owner],
            travel_time_s=seconds[reason == ""],
            width_m=attributes.width_m[owner],
        )
    )
    dropped = cleaned.dropped + Counter(reason[reason != ""].tolist())
    dropped.update({"null": -file.broken, "broken": file.broken, "duplicate": duplicates})
    if (reason == "").all():  # a file of footways only is a scene without roads
        _require_roads(path, file, roads, +dropped)
    return LabelFile(
        roads=roads,
        features=len(file.geometries),
        dropped=+dropped,
        keys=file.keys,
        scheme=choose_scheme(file.keys) if options.scheme == "auto" else options.scheme,
        repaired=cleaned.repaired,
    )


def _read(path: Path, options: LabelOptions) -> VectorFile:
    def choose(keys: tuple[str, ...]) -> list[str]:
        with _naming(path):
            return wanted_keys(keys, options)

    if path.suffix.lower() in PARQUET_SUFFIXES:
        return read_geoparquet(path, choose)
    return read_vectors(path, choose)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Name the file in what is said of its attributes."""
    try:
        yield
    except ValueError as error:
        raise DataError(f"{path}: {error}") from error


def _crs(path: Path, file: VectorFile, shapes: Shapes, given: CRS | None) -> CRS:
    """Return the CRS of a file, or the one given where it names none that is known."""
    if file.crs is None:
        reason = "no coordinate system found"
    elif file.is_assumed and _are_beyond_degrees(shapes):
        west, south, *_ = shapely.total_bounds(shapes)
        reason = f"names no coordinate system, and x {west:.9g}, y {south:.9g} are not degrees"
    elif (found := _known(file.crs)) is not None:
        return found
    else:
        reason = f"its coordinate system {file.crs!r:.120} is not known"
    if given is None:
        raise DataError(
            f"{path}: {reason}; set labels.crs to the one it is in, such as EPSG:32611, for the "
            "labels of a run; for any other command write it into a copy: ogr2ogr -a_srs "
            f"EPSG:32611 with_crs.gpkg {path.name}"
        )
    return given


def _are_beyond_degrees(shapes: Shapes) -> bool:
    """Say whether no shape can be in degrees, not even with x and y swapped."""
    is_far = (np.abs(shapely.bounds(shapes)) > _FARTHEST_DEGREES).any(axis=1)
    return len(shapes) > 0 and bool(np.all(is_far))


@lru_cache(maxsize=64)  # a CRS is slow to make from WKT
def _known(text: str) -> CRS | None:
    """Return a CRS that has a place on earth."""
    try:
        found = CRS.from_user_input(text)
        transformer(found, DEGREES)  # fails for coordinates of a drawing or a building site
    except ProjError:
        return None
    return None if found.name.startswith("Undefined") else found  # what GeoPackages call none


def _shares(cleaned: CleanShapes) -> NDArray[np.float64]:
    """Return which part of all lines of its label each is, by length in the CRS of the file."""
    length = shapely.length(cleaned.shapes)
    whole = np.bincount(cleaned.owner, weights=length)
    return np.asarray(length / whole[cleaned.owner])


def _require_roads(path: Path, file: VectorFile, roads: Roads, dropped: Counter[str]) -> None:
    features = len(file.geometries)
    if features and not len(roads.shapes):
        reasons = ", ".join(f"{count} {reason}" for reason, count in dropped.items())
        raise DataError(f"{path}: none of its {features} features is a road ({reasons})")
