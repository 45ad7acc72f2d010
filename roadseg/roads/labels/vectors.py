"""Vector files: the features of any file that OGR reads; all of them, or an error."""

import logging
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyogrio
import pyogrio.raw
import shapely
from numpy.typing import NDArray
from pyogrio.errors import DataLayerError, DataSourceError

from roadseg.errors import DataError
from roadseg.roads.labels.vector_checks import (
    check_shapefile,
    check_xml,
    check_xml_start,
    geojson_crs,
    sequence_length,
)
from roadseg.system.files import VECTOR_SUFFIXES, is_virtual

logger = logging.getLogger(__name__)

Choose = Callable[[tuple[str, ...]], list[str]]
Kinds = Mapping[str, str | None]  # name of a layer -> type of its geometries

_ONE_LAYER = ("GeoJSON", "GeoJSONSeq", "FlatGeobuf")  # OGR drivers
_LIKELY = (("LineString", "Curve"), ("Unknown", "Collection"), ("Polygon", "Surface"))
_DEGREES = "EPSG:4326"
_GEOJSON = (".geojson", ".json")
_XML = (".gml", ".gpx", ".kml", ".osm")
_VIEWS = (
    "SELECT name FROM sqlite_master WHERE type = 'view' "
    "AND name IN (SELECT table_name FROM gpkg_contents)"
)
_OSM_INDEX = "OSM_USE_CUSTOM_INDEXING"
_SMALL_BYTES = 1_000_000
_NO_FORMAT = "not recognized as being in a supported file format"


@dataclass(frozen=True)
class VectorFile:
    """The features of a layer.

    Attributes:
        keys: names of all attributes.
        columns: the attributes that were asked for, by key, each of shape (features,).
        geometries: shape (features,), shapely geometries or None.
        broken: number of geometries that cannot be read; they are None.
        crs: coordinate system of the geometries as text, None if there is none.
        is_assumed: whether `crs` is what the format says where a file names none.
    """

    keys: tuple[str, ...]
    columns: dict[str, NDArray[Any]]
    geometries: NDArray[np.object_]
    broken: int
    crs: str | None
    is_assumed: bool = False


def read_vectors(path: Path, choose: Choose) -> VectorFile:
    """Read the first layer with lines of a vector file, or else its first with polygons.

    Layers without features are passed over, unless there is no other.

    Args:
        path: any file that OGR reads, also in a .zip or .gz, or a /vsi path that has no two
            slashes in a row, as `pathlib` makes one of them.
        choose: returns which of the keys have values that are needed.

    Raises:
        DataError: if the file is missing, empty, damaged, not a vector file, or has no layer
            for roads.
    """
    source = _gdal_name(path)
    with _explained(path), _remarks_logged(path), _any_osm_ids(path):
        check_views(path, source)
        if small := _read_small(path, source, choose):
            return small
        info = pyogrio.read_info(source)
        kinds = {info["layer_name"]: info["geometry_type"]}
        if info["driver"] not in _ONE_LAYER:
            kinds = {str(name): kind for name, kind in pyogrio.list_layers(source)}
        for name in _for_roads(path, kinds):
            if name != info["layer_name"]:
                info = pyogrio.read_info(source, layer=name)
            found = _read_layer(path, source, info, choose)
            if len(found.geometries):
                break
    if len(kinds) > 1:
        logger.info("%s: has the layers %s; read %s", path, ", ".join(kinds), name)
    return found


def _gdal_name(path: Path) -> str:
    """Return what GDAL calls a file, after a look at whether it is there."""
    if is_virtual(path):
        return str(path)
    try:
        if not path.exists():
            raise DataError(f"{path} does not exist")
        if path.stat().st_size == 0:
            raise DataError(f"{path}: the file is empty, expected a vector file with road lines")
        suffix = path.suffix.lower()
        if path.is_dir() and suffix != ".gdb":
            raise DataError(f"{path}: a folder, expected a vector file with road lines")
        if suffix == ".shp":
            check_shapefile(path)
        if suffix in _XML:
            check_xml_start(path)
        if suffix == ".zip" and not path.stem.lower().endswith((".shp", ".gdb")):
            return f"/vsizip/{path.absolute()}/{_member(path)}"
        return f"/vsigzip/{path.absolute()}" if suffix == ".gz" else str(path)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error


def _member(path: Path) -> str:
    """Return the first vector file in a zip."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except zipfile.BadZipFile as error:
        raise DataError(f"{path}: not a readable zip ({error}); download it again") from error
    for name in names:
        if Path(name).suffix.lower() in VECTOR_SUFFIXES and not name.startswith("__MACOSX"):
            return name
    raise DataError(f"{path}: holds no vector file (found {', '.join(names[:3]) or 'nothing'})")


def check_views(path: Path, source: str) -> None:
    """Refuse a GeoPackage with a view among its layers: rows of a view need not end.

    OGR runs views as soon as it is asked what layers there are, and cannot be interrupted.

    Raises:
        DataError: if there is one.
    """
    if not source.lower().endswith(".gpkg"):
        return
    try:
        *_, (names,) = pyogrio.raw.read(source, sql=_VIEWS)
    except (DataSourceError, DataLayerError):  # no GeoPackage; what it is, is said later
        return
    if len(names):
        raise DataError(
            f"{path}: its layer {names[0]} is a view, expected tables only; write its rows to a "
            f"file of their own: ogr2ogr roads.gpkg {path.name} {names[0]}"
        )


def _for_roads(path: Path, kinds: Kinds) -> list[str]:
    """Return the layers that may hold roads: with lines, with anything, with polygons."""
    chosen = [
        name
        for likely in _LIKELY
        for name, kind in kinds.items()
        if kind and any(word in kind for word in likely)
    ]
    if chosen:
        return chosen
    if not any(kinds.values()):
        raise DataError(f"{path}: has no geometry, expected road lines")
    found = ", ".join(f"{name}: {kind}" for name, kind in kinds.items())
    raise DataError(f"{path}: has no layer with lines or polygons (found {found})")


def _read_small(path: Path, source: str, choose: Choose) -> VectorFile | None:
    """Read a small GeoJSON file: to open it first for its keys costs more than needless columns.

    Returns None where the file is another one, or has a fault; it is then read with care.
    """
    if path.suffix.lower() not in _GEOJSON or not _is_plain(path):
        return None
    if path.stat().st_size > _SMALL_BYTES:
        return None
    try:
        meta, _, wkb, values = pyogrio.raw.read(f"GeoJSON:{source}", datetime_as_string=True)
    except (DataSourceError, UnicodeDecodeError):
        return None
    columns = dict(zip(map(str, meta["fields"]), values, strict=True))
    wanted = {key: columns[key] for key in choose(tuple(columns))}
    crs = _crs(path, "GeoJSON", meta["crs"])
    return VectorFile(tuple(columns), wanted, *_geometries(wkb), *crs)


def _read_layer(path: Path, source: str, info: Mapping[str, Any], choose: Choose) -> VectorFile:
    keys = tuple(map(str, info["fields"]))
    meta, _, wkb, values = pyogrio.raw.read(
        source,
        layer=info["layer_name"],
        columns=choose(keys),
        force_2d=True,
        datetime_as_string=True,
    )
    _check_whole(path, info, len(wkb))
    columns = dict(zip(map(str, meta["fields"]), values, strict=True))
    crs = _crs(path, info["driver"], info["crs"])
    return VectorFile(keys, columns, *_geometries(wkb), *crs)


def _check_whole(path: Path, info: Mapping[str, Any], features: int) -> None:
    """Refuse a file of which OGR reads less than there is without a word."""
    expected = info["features"]  # -1 where that is not known beforehand
    if _is_plain(path) and info["driver"] == "GeoJSONSeq":
        expected = sequence_length(path)
    if _is_plain(path) and info["driver"] == "GPX":
        check_xml(path)
    if expected > features:
        raise DataError(
            f"{path}: only {features} of its {expected} features can be read; the file is "
            "damaged or cut short, get it again"
        )


def _crs(path: Path, driver: str, found: str | None) -> tuple[str | None, bool]:
    """Return the CRS of a layer, and whether it is only assumed."""
    if driver == "GeoJSONSeq":
        return found, True
    if driver != "GeoJSON" or found != _DEGREES or not _is_plain(path):
        return found, False
    named = geojson_crs(path)
    is_known = named is None or named.endswith(("CRS84", "4326"))
    return found if is_known else named, named is None


def _is_plain(path: Path) -> bool:
    """Say whether Python can read the bytes that GDAL reads."""
    return not is_virtual(path) and path.suffix.lower() not in (".zip", ".kmz")


def _geometries(wkb: NDArray[np.object_]) -> tuple[NDArray[np.object_], int]:
    """Return geometries, None for those that cannot be read, and how many those are."""
    with np.errstate(invalid="ignore"):  # coordinates that are NaN are counted later
        found = np.asarray(shapely.from_wkb(wkb, on_invalid="fix"), dtype=object)
    return found, int(np.sum(shapely.is_missing(found)) - np.sum([item is None for item in wkb]))


@contextmanager
def _any_osm_ids(path: Path) -> Iterator[None]:
    """Let GDAL read OSM XML with negative ids, as editors and roadseg number new objects.

    Its index of nodes takes none; without that index large files take longer.
    """
    if path.suffix.lower() != ".osm":
        yield
        return
    pyogrio.set_gdal_config_options({_OSM_INDEX: "NO"})
    try:
        yield
    finally:
        pyogrio.set_gdal_config_options({_OSM_INDEX: None})


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn what pyogrio raises into an error that says what to do."""
    try:
        yield
    except DataError:
        raise
    except IndexError as error:  # what pyogrio makes of no layers
        raise DataError(f"{path}: has no layer, expected one with road lines") from error
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}: its attributes are not in UTF-8 ({error.reason}); save it as UTF-8"
        ) from error
    except (DataSourceError, DataLayerError, OverflowError, ValueError) as error:
        reason = " ".join(str(error).split("; In file")[0].split())
        if _NO_FORMAT in reason:
            raise DataError(
                f"{path}: not a vector file{_start(path)}; expected GeoJSON, GeoPackage, "
                "Shapefile or another format of OGR"
            ) from error
        raise DataError(
            f"{path}: cannot be read ({reason:.200}); check that the file is there and whole"
        ) from error


def _start(path: Path) -> str:
    """Say how a text file starts: what calls itself GeoJSON may be the page of an error."""
    if not _is_plain(path) or not path.is_file():
        return ""
    with path.open("rb") as file:
        start = file.readline(40).decode("latin-1").strip()
    return f", it starts with {start!r}" if start.isascii() and start.isprintable() else ""


@contextmanager
def _remarks_logged(path: Path) -> Iterator[None]:
    """Log what GDAL remarks; pyogrio's own warnings are of what is dealt with here."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    remarks = (" ".join(str(w.message).split()) for w in caught if w.category is RuntimeWarning)
    for remark in dict.fromkeys(remarks):
        logger.warning("%s: %s", path, remark)
