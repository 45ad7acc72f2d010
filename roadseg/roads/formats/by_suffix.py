"""Formats of road graphs by the suffix of their files: who writes and who reads each."""

import importlib
import importlib.util
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

from roadseg.errors import ConfigError, naming

if TYPE_CHECKING:
    from roadseg.raster.grid import Grid
    from roadseg.roads.graph.road_graph import RoadGraph

Writer = Callable[[Path, "RoadGraph"], None]
Reader = Callable[[Path], "RoadGraph"]


class FormatModule(NamedTuple):
    """Names of the functions that write and read a format, and of their module in this folder.

    The module is imported when it is needed, as most are slow to import. `read` is None where files
    with this suffix are layers of any lines, which GDAL reads (`any_roads`).
    """

    module: str
    write: str
    read: str | None = None


FORMATS = {
    "gpkg": FormatModule("files", "write_gpkg"),
    "geojson": FormatModule("layers", "write_edges"),
    "graphml": FormatModule("graphml", "write_graphml", "read_graphml"),
    "parquet": FormatModule("layers", "write_edges"),
    "osm": FormatModule("osm_xml", "write_osm"),
    "pbf": FormatModule("pbf", "write_pbf"),
    "fgb": FormatModule("layers", "write_edges"),
    "shp": FormatModule("layers", "write_edges"),
}
READERS = {f".{suffix}": each for suffix, each in FORMATS.items() if each.read}
_EXTRAS = {"pyarrow": "parquet", "osmium": "osm"}  # The extra of roadseg that installs each.
_PACKAGES = {"parquet": "pyarrow", "pbf": "osmium"}
_SAME_FORMAT = {".geoparquet": "parquet", ".json": "geojson"}  # Further suffixes of formats.
_SUBMISSION = "csv"  # SpaceNet's: its lines are in the pixels of scenes, of which it holds many.


def reader_of(path: Path) -> Reader | None:
    """Return the function that reads a file of graphs; None if GDAL reads it, or nothing does."""
    known = READERS.get(path.suffix.lower())
    return known and cast("Reader", _function(known.module, known.read or ""))


def writer_of(name: str) -> Writer:
    """Return the function that writes a format of `FORMATS`."""
    return cast("Writer", _function(FORMATS[name].module, FORMATS[name].write))


def _function(module: str, name: str) -> object:
    return getattr(importlib.import_module(f"roadseg.roads.formats.{module}"), name)


def write_graphs(
    folder: Path,
    name: str,
    graph: "RoadGraph",
    *,
    formats: Collection[str],
    grid: "Grid | None" = None,
) -> None:
    """Write a graph as `<name>.<format>` for each format.

    Args:
        folder: where to; it is made if it is missing.
        formats: of `FORMATS`, and "csv" (SpaceNet).
        grid: where the pixels of the scene lie, which "csv" needs.

    Raises:
        ConfigError: if a format cannot be written here, see `check_formats`, or is "csv" and there
            is not a grid.
        DataError: if a format needs degrees and the graph has no place on earth.
        OutputError: if a file cannot be written.
    """
    check_formats(formats)
    # The GeoPackage comes first, as it tells that the other files are roads that roadseg traced.
    for suffix in sorted(formats, key=lambda suffix: suffix != "gpkg"):
        path = folder / f"{name}.{suffix}"
        if suffix != _SUBMISSION:
            writer_of(suffix)(path, graph)
        elif grid is not None:
            from roadseg.roads.formats.spacenet_csv import write_submission

            write_submission(path, [(name, graph, grid)])
        else:
            raise ConfigError(
                f"{path}: cannot be written: csv has lines in pixels, but this graph is not of "
                "one image; omit the format csv"
            )


def write_graph(path: Path, graph: "RoadGraph", *, source: Path) -> None:
    """Write a graph in the format of the suffix of its file.

    Args:
        source: file or folder from which these were read, for errors.

    Raises:
        ConfigError: as `format_of`.
        DataError: if the roads have attributes that the format has no place for, or the format
            needs degrees and the graph has no place on earth.
        OutputError: if the file cannot be written.
    """
    with naming(source):
        writer_of(format_of(path))(path, graph)


def format_of(path: Path) -> str:
    """Return the format of a file to write, by its suffix.

    Raises:
        ConfigError: if there is none, or it needs a package that is not installed.
    """
    suffix = path.suffix.lower()
    name = _SAME_FORMAT.get(suffix, suffix.removeprefix("."))
    if name in FORMATS:
        check_formats([name])
        return name
    if name == _SUBMISSION:
        raise ConfigError(
            f"{path}: SpaceNet's csv has lines in the pixels of an image, which only `roadseg "
            "graph` knows; use another format"
        )
    suffixes = ", ".join(f".{each}" for each in FORMATS)
    raise ConfigError(f"{path}: use a file name that ends in {suffixes}")


def check_formats(formats: Collection[str]) -> None:
    """Refuse formats that cannot be written here, before there is anything to write.

    Raises:
        ConfigError: if a format is not known, or needs a package that is not installed.
    """
    known = (*FORMATS, _SUBMISSION)
    unknown = [name for name in formats if name not in known]
    if unknown:
        raise ConfigError(f"graphs cannot be written as {unknown[0]!r}, only as {', '.join(known)}")
    for name in formats:
        if package := _PACKAGES.get(name):
            check_package(
                package, needed_by=f"the format {name}", otherwise="choose another format"
            )


def check_package(package: str, *, needed_by: str, otherwise: str) -> None:
    """Refuse work that needs a package which is not installed, before there is anything to do.

    Args:
        package: name of the module, "pyarrow" or "osmium".
        needed_by: what needs it, such as "the format pbf".
        otherwise: what helps besides installing it, such as "choose another format".

    Raises:
        ConfigError: if it is not installed.
    """
    if importlib.util.find_spec(package) is None:
        raise ConfigError(
            f"{needed_by} needs {package}, which is not installed; pip install "
            f"'roadseg[{_EXTRAS[package]}]', or {otherwise}"
        )
