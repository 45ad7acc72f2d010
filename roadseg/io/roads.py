"""Road labels: read lines and their speeds from any vector file."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyogrio
import pyogrio.raw
import shapely
from numpy.typing import NDArray
from pyogrio.errors import DataLayerError, DataSourceError
from pyproj import CRS
from pyproj.exceptions import CRSError

from roadseg.core.roads import Roads, clean_lines
from roadseg.core.speeds import SPEED_FIELDS, is_no_road, road_speed
from roadseg.errors import DataError

SUFFIXES = (".geojson", ".json", ".gpkg", ".shp", ".fgb")


@dataclass(frozen=True)
class LabelFile:
    """What a label file holds.

    Attributes:
        roads: its lines, in its own CRS.
        features: number of features found.
        dropped: number of pieces left out, by reason.
        keys: names of the attributes found.
    """

    roads: Roads
    features: int
    dropped: Counter[str]
    keys: tuple[str, ...]


def read_roads(path: Path, *, default_mph: float, crs: CRS | None = None) -> LabelFile:
    """Read the road lines of a vector file.

    Args:
        path: any file OGR reads.
        default_mph: speed of roads whose attributes say nothing of it.
        crs: coordinate system to use for a file that does not name its own.

    Raises:
        DataError: if the file cannot be read, has no CRS, or has features of which none is a
            line. A file without any feature is fine: a scene without roads.
    """
    meta, _, wkb, values = _read(path)
    columns = dict(zip(meta["fields"], values, strict=True))
    lines, owner, dropped = clean_lines(_geometries(path, wkb))
    is_road = np.array([not is_no_road(value) for value in columns.get("highway", ())], dtype=bool)
    if "highway" in columns and not is_road[owner].all():
        dropped["no road for cars"] = int(np.sum(~is_road[owner]))
        lines, owner = lines[is_road[owner]], owner[is_road[owner]]
    if len(wkb) and not len(lines):
        reasons = ", ".join(f"{count} {reason}" for reason, count in dropped.items())
        raise DataError(f"{path}: none of its {len(wkb)} features is a road line ({reasons})")
    mph, source = _speeds(columns, len(wkb), default_mph)
    return LabelFile(
        roads=Roads(_crs(path, meta["crs"], crs), lines, mph[owner], source[owner]),
        features=len(wkb),
        dropped=dropped,
        keys=tuple(meta["fields"]),
    )


def _read(path: Path) -> Any:  # noqa: ANN401 - pyogrio's tuple
    if not path.exists():
        raise DataError(f"{path} does not exist")
    if path.stat().st_size == 0:
        raise DataError(f"{path}: the file is empty, expected a vector file with road lines")
    try:
        return pyogrio.raw.read(path, layer=_line_layer(path), datetime_as_string=True)
    except (DataSourceError, DataLayerError, ValueError) as error:
        reason = " ".join(str(error).split("; It might help")[0].split())
        raise DataError(
            f"{path}: not a readable vector file ({reason}), expected GeoJSON, GeoPackage or so"
        ) from error


def _line_layer(path: Path) -> str:
    """Return the first layer that holds lines, else the first: nodes may lie before edges."""
    layers = [(str(name), str(kind)) for name, kind in pyogrio.list_layers(path)]
    return next((name for name, kind in layers if "LineString" in kind), layers[0][0])


def _geometries(path: Path, wkb: NDArray[np.object_] | None) -> NDArray[np.object_]:
    if wkb is None:
        raise DataError(f"{path}: has no geometry, expected road lines")
    with np.errstate(invalid="ignore"):  # coordinates that are NaN are counted later
        return np.asarray(shapely.from_wkb(wkb, on_invalid="fix"), dtype=object)


def _crs(path: Path, found: str | None, given: CRS | None) -> CRS:
    if found is None:
        if given is None:
            raise DataError(
                f"{path}: no coordinate system found, expected one such as EPSG:4326; "
                "set labels.crs if you know it"
            )
        return given
    try:
        return CRS.from_user_input(found)
    except CRSError as error:
        raise DataError(
            f"{path}: its coordinate system {found!r} is not known; set labels.crs"
        ) from error


def _speeds(
    columns: dict[str, NDArray[Any]], features: int, default_mph: float
) -> tuple[NDArray[np.float64], NDArray[np.str_]]:
    known = {key: columns[key] for key in SPEED_FIELDS if key in columns}
    found = [
        road_speed({key: column[i] for key, column in known.items()}, default_mph=default_mph)
        for i in range(features)
    ]
    return (
        np.array([speed.mph for speed in found], dtype=np.float64),
        np.array([speed.source for speed in found], dtype=np.str_),
    )
