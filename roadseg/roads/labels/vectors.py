"""Vector files: the features of any file that OGR or pyarrow reads; all of them, or an error."""

import itertools
import logging
import re
import shlex
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyogrio
import pyogrio.raw
import shapely
from pyogrio.errors import DataLayerError, DataSourceError, FeatureError

from roadseg.arrays import Array, Shapes
from roadseg.errors import DataError
from roadseg.roads.labels.osm_deletions import deleted_objects, opened
from roadseg.roads.labels.overture import is_segments, segment_columns, segment_tags
from roadseg.roads.labels.tags import SHAPEFILE_NAMES
from roadseg.system.files import PARQUET_SUFFIXES, ROAD_SUFFIXES, is_virtual
from roadseg.system.records import parse_json
from roadseg.system.text import one_line

logger = logging.getLogger(__name__)

Choose = Callable[[tuple[str, ...]], list[str]]
Kinds = Mapping[str, str | None]  # The type of the geometries of each layer, by its name.

_OF_OTHER_FILES = ("OGR_VRT", "GDALG")  # Drivers of OGR, of files that name their sources.
_ONE_LAYER = ("GeoJSON", "GeoJSONSeq", "FlatGeobuf", "CSV")  # Drivers of OGR.
# Columns of tables with lines as WKT or GeoJSON; they are then no attributes.
_OF_TABLES = {"GEOM_POSSIBLE_NAMES": "WKT,geometry,geom,the_geom", "KEEP_GEOM_COLUMNS": "NO"}
_LIKELY = (("LineString", "Curve"), ("Unknown", "Collection"), ("Polygon", "Surface"))
_ROAD_NAME = re.compile(
    r"road|street|highway|cent(er|re)line|edges|stra(ss|ß)e|carretera", re.IGNORECASE
)
_DEGREES = "EPSG:4326"
_USUALLY_DEGREES = ("GeoJSON", "GeoJSONSeq", "CSV")  # Drivers of OGR.
# GDAL's index takes no negative ids, as editors and roadseg have; without, large files take longer.
_INDEX = "USE_CUSTOM_INDEXING"
_OF_OSM_XML = {_INDEX: "NO"}
_SHP_MAGIC = bytes.fromhex("0000270a")
_RECORD = b"\x1e"  # It begins a record of a GeoJSON text sequence: RFC 8142.
_ERRORS = (DataSourceError, DataLayerError, FeatureError)
_NO_FORMAT = "not recognized as being in a supported file format"


@dataclass(frozen=True)
class VectorFile:
    """The features of a layer.

    Attributes:
        columns: the attributes that were asked for, by key, each of shape (features,).
        geometries: shape (features,), shapely geometries or None.
        broken: number of geometries that cannot be read; they are None.
        crs: coordinate system of the geometries as text, None if there is none.
        is_assumed: whether `crs` is what is usual in the format where a file names none.
    """

    keys: tuple[str, ...]
    columns: dict[str, Array]
    geometries: Shapes
    broken: int
    crs: str | None
    is_assumed: bool = False


def read_vectors(path: Path, choose: Choose) -> VectorFile:
    """Read the layer with lines of a vector file that is most likely roads, or else with polygons.

    Of several with lines that is the first whose name says roads or streets, or else the first;
    those left out are named in a warning.

    Layers without features are passed over, unless there is no other.

    Args:
        path: any file that OGR reads, also in a .zip or .gz, or a /vsi path that has no two
            slashes in a row, as `pathlib` makes one of them; or GeoParquet.
        choose: returns which of the keys have values that are needed.

    Raises:
        DataError: if the file is missing, empty, damaged, not a vector file, or has no layer
            for roads.
    """
    if path.suffix.lower() in PARQUET_SUFFIXES:
        return _read_geoparquet(path, choose)
    source = _gdal_name(path)
    with _explained(path), _remarks_logged(path):
        info = _info(source)
        if info["driver"] in _OF_OTHER_FILES:
            raise DataError(
                f"{path}: names other files, expected one with features; write them to a file of "
                f"their own: ogr2ogr roads.gpkg {path.name}"
            )
        kinds = {info["layer_name"]: info["geometry_type"]}
        if info["driver"] not in _ONE_LAYER:
            kinds = {str(name): kind for name, kind in pyogrio.list_layers(source)}
        infos = {name: _info(source, name) for name in _for_roads(path, kinds)}
        for info in infos.values():
            layer = _read_layer(path, source, info, choose)
            if len(layer.geometries):
                break
        _warn_of_others(path, info["layer_name"], infos)
    return layer


def _gdal_name(path: Path) -> str:
    """Return what GDAL calls a file, after a look at whether it is there."""
    if is_virtual(path):
        return path.as_posix()
    try:
        if not path.exists():
            raise DataError(f"{path} does not exist")
        if path.stat().st_size == 0:
            raise DataError(f"{path}: is empty, expected a vector file")
        suffix = path.suffix.lower()
        if path.is_dir() and suffix != ".gdb":
            raise DataError(f"{path}: is a folder, expected a vector file")
        if suffix == ".shp":
            _check_shapefile(path)
        # GDAL looks into a zipped file geodatabase by itself.
        if suffix == ".zip" and not path.stem.lower().endswith(".gdb"):
            return f"/vsizip/{path.absolute()}/{_member(path)}"
        return f"/vsigzip/{path.absolute()}" if suffix == ".gz" else str(path)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error


def _check_shapefile(path: Path) -> None:
    """Refuse a Shapefile that is cut short or has no attributes.

    OGR gives null geometries for what is cut off, and no attributes where there is no .dbf.

    Raises:
        DataError: saying what is missing.
        OSError: if it cannot be read.
    """
    if not any(path.with_suffix(suffix).exists() for suffix in (".dbf", ".DBF")):
        raise DataError(
            f"{path}: its .dbf is missing, which contains the attributes; copy all parts of the "
            "Shapefile: .shp, .shx, .dbf and .prj"
        )
    with path.open("rb") as file:
        header = file.read(28)
    expected, size = 2 * int.from_bytes(header[24:], "big"), path.stat().st_size
    if header.startswith(_SHP_MAGIC) and size < expected:
        raise DataError(f"{path}: cut short, {size} of {expected} bytes; download or copy it again")


def _member(path: Path) -> str:
    """Return the first vector file in a zip."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except zipfile.BadZipFile as error:
        raise DataError(f"{path}: not a readable zip ({error}); download it again") from error
    for name in names:
        if Path(name).suffix.lower() in ROAD_SUFFIXES and not name.startswith("__MACOSX"):
            return name
    raise DataError(f"{path}: contains no vector file (found {', '.join(names[:3]) or 'nothing'})")


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn what pyogrio raises into an error that says what to do."""
    try:
        yield
    except DataError:
        raise
    # Attributes that are not in UTF-8 are a ValueError, no layers an IndexError.
    except (*_ERRORS, OverflowError, ValueError, IndexError) as error:
        reason = " ".join(str(error).split("; In file")[0].split())
        if _NO_FORMAT in reason:
            raise DataError(
                f"{path}: not a vector file{_start(path)}; expected GeoJSON, GeoPackage, "
                "Shapefile or another format of OGR"
            ) from error
        if "database is locked" in reason:
            raise DataError(
                f"{path}: another program is writing to it; save your edits there, and try again"
            ) from error
        raise DataError(
            f"{path}: cannot be read ({reason:.200}); check that the file exists and is complete"
        ) from error


def _start(path: Path) -> str:
    """Return how a text file starts: what calls itself GeoJSON may be the page of an error."""
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        if b'"elements"' in file.peek():
            return " but JSON of Overpass (ask it for [out:xml], and save that as .osm)"
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


def _info(source: str, layer: str | None = None) -> dict[str, Any]:
    """Return what pyogrio says of a layer, by default the first."""
    info: dict[str, Any] = pyogrio.read_info(source, layer=layer)
    return pyogrio.read_info(source, **_OF_TABLES) if info["driver"] == "CSV" else info


def _for_roads(path: Path, kinds: Kinds) -> list[str]:
    """Return the layers that may hold roads: with lines, with anything, with polygons.

    Of each kind, those that are called roads come first.
    """
    by_name = sorted(kinds.items(), key=lambda item: not _ROAD_NAME.search(item[0]))
    chosen = [
        name
        for likely in _LIKELY
        for name, kind in by_name
        if kind and any(word in kind for word in likely)
    ]
    if chosen:
        return chosen
    if not any(kinds.values()):
        raise DataError(
            f"{path}: has no geometry, expected road lines; a table needs a column WKT or geometry "
            "with lines as WKT or GeoJSON; a column of GeoJSON features can be a file of its own: "
            f"cut -f2 {path.name} > {path.stem}.geojsonl"
        )
    layers = ", ".join(f"{name}: {kind}" for name, kind in kinds.items())
    raise DataError(f"{path}: has no layer with lines or polygons (found {layers})")


def _read_layer(path: Path, source: str, info: Mapping[str, Any], choose: Choose) -> VectorFile:
    names = SHAPEFILE_NAMES if info["driver"] == "ESRI Shapefile" else {}
    keys_of = {names.get(str(field), str(field)): str(field) for field in info["fields"]}
    keys = tuple(keys_of)
    options = _OF_TABLES if info["driver"] == "CSV" else {}
    if source.lower().endswith((".osm", ".osm.gz")):
        options = _OF_OSM_XML
    is_osm = info["driver"] == "OSM" and info["layer_name"] == "lines"
    gone = [way for kind, way in deleted_objects(path) if kind == "way"] if is_osm else []
    deleted = ",".join(f"'{way}'" for way in gone)
    read = partial(
        pyogrio.raw.read,
        source,
        layer=info["layer_name"],
        columns=[keys_of[key] for key in choose(keys)],
        where=f"osm_id NOT IN ({deleted})" if deleted else None,
        force_2d=True,
        datetime_as_string=True,
    )
    try:
        meta, _, wkb, values = read(**options)
    except FeatureError as error:  # Of a PBF with negative ids.
        if _INDEX not in str(error):
            raise
        meta, _, wkb, values = read(**_OF_OSM_XML)
    _check_whole(path, info, len(wkb))
    columns = {
        names.get(str(field), str(field)): column
        for field, column in zip(meta["fields"], values, strict=True)
    }
    # OGR takes GeoJSON without a CRS, or with one that it does not know, for degrees.
    is_assumed = info["driver"] in _USUALLY_DEGREES and info["crs"] in (None, _DEGREES)
    crs = _DEGREES if is_assumed else info["crs"]
    # Coordinates that are NaN are counted later.
    with np.errstate(invalid="ignore"):
        shapes = np.asarray(shapely.from_wkb(wkb, on_invalid="fix"), dtype=object)
    broken = int(np.sum(shapely.is_missing(shapes)) - np.sum([item is None for item in wkb]))
    return VectorFile(keys, columns, shapes, broken, crs, is_assumed)


def _check_whole(path: Path, info: Mapping[str, Any], features: int) -> None:
    """Refuse a file of which OGR reads less than there is without a word."""
    expected = info["features"]  # It is -1 where that is not known beforehand.
    if info["driver"] == "GeoJSONSeq" and path.is_file() and path.suffix.lower() != ".zip":
        expected = _sequence_length(path)
    if expected > features:
        raise DataError(
            f"{path}: only {features} of its {expected} features can be read; the file is "
            "damaged or cut short, download or copy it again"
        )


def _sequence_length(path: Path) -> int:
    """Return how many records a GeoJSON text sequence has; OGR skips those it cannot read."""
    with opened(path) as file:
        first = next(file, b"")
        lines = itertools.chain([first], file)
        if first.startswith(_RECORD):
            return sum(line.count(_RECORD) for line in lines)
        return sum(bool(line.strip()) for line in lines)


def _warn_of_others(path: Path, read: str, infos: Mapping[str, Mapping[str, Any]]) -> None:
    """Name layers left out that may hold lines, and how one of them would be read instead."""
    others = [
        name
        for name, info in infos.items()
        if name != read and info["features"] and "Polygon" not in info["geometry_type"]
    ]
    if others and infos[read]["driver"] != "OSM":
        logger.warning(
            "%s: read its layer %s and left out %s; to read another, write it to a file of its "
            "own: ogr2ogr roads.gpkg %s %s",
            *(path, read, ", ".join(others), path.name, shlex.quote(others[0])),
        )


def _read_geoparquet(path: Path, choose: Choose) -> VectorFile:
    """Read the features of a GeoParquet file, which needs pyarrow.

    Raises:
        DataError: if pyarrow is not installed, or the file is missing, damaged or has no
            geometry.
    """
    if is_virtual(path):
        raise DataError(f"{path}: GeoParquet can only be read from disk; copy the file there")
    try:
        import geopandas as gpd
        import pyarrow.parquet as pq
    except ImportError as error:
        raise DataError(
            f"{path}: reading GeoParquet needs pyarrow; pip install 'roadseg[parquet]'"
        ) from error
    try:
        schema = pq.read_schema(path)
        geometry, others = _geometry_columns(path, schema.metadata or {})
        keys = tuple(key for key in schema.names if key not in others)
        is_overture = is_segments(keys)
        wanted = segment_columns(keys) if is_overture else choose(keys)
        with np.errstate(invalid="ignore"):  # Coordinates that are NaN are counted later.
            frame = gpd.read_parquet(path, columns=[*wanted, geometry])
        shapes = frame.geometry.to_numpy()
        columns = {str(key): frame[key].to_numpy() for key in frame.columns if key not in others}
        if is_overture:
            tags = segment_tags(columns, len(shapes))
            keys, columns = tuple(tags), {key: tags[key] for key in choose(tuple(tags))}
    except DataError:
        raise
    except FileNotFoundError as error:
        raise DataError(f"{path} does not exist") from error
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        reason = one_line(error)
        raise DataError(
            f"{path}: not a readable GeoParquet file ({reason}); download or copy it again"
        ) from error
    return VectorFile(
        keys=keys,
        columns=columns,
        geometries=np.asarray(shapes, dtype=object),
        broken=0,
        crs=None if frame.crs is None else frame.crs.to_wkt(),
    )


def _geometry_columns(path: Path, metadata: dict[bytes, bytes]) -> tuple[str, set[str]]:
    """Return the column of geometries that counts, and all columns that are not attributes."""
    if b"geo" not in metadata:
        raise DataError(f"{path}: has no geometry, expected GeoParquet with road lines")
    geo: dict[str, Any] = parse_json(metadata[b"geo"].decode())
    covering = {
        paths["xmin"][0]
        for column in geo["columns"].values()
        for paths in column.get("covering", {}).values()
    }
    return geo["primary_column"], covering | set(geo["columns"])
