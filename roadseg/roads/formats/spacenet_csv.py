"""SpaceNet's CSV: road lines in pixels of images, read, and written as a submission."""

import csv
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import shapely

from roadseg.arrays import Bools, Floats, Ints, Lines
from roadseg.errors import DataError, naming
from roadseg.raster.grid import LOCAL_CRS, Grid, reproject_points
from roadseg.roads.graph.road_graph import TRAVEL_TIME, RoadGraph, graph_from_lines
from roadseg.system.files import atomic_write
from roadseg.system.text import first, one_line

_ID, _WKT = "ImageId", "WKT_Pix"
_LINES = (shapely.GeometryType.LINESTRING, shapely.GeometryType.MULTILINESTRING)
_FARTHEST_PX = 1e9  # Pixels; coordinates beyond are not places in an image.


@dataclass(frozen=True)
class PixelRoads:
    """The road lines of an image.

    Attributes:
        lines: shape (n,), LineStrings of x (columns, right) and y (rows, down) in pixels; the first
            pixel reaches from 0 to 1.
        travel_time_s: shape (n,), seconds for each whole line; None if the file has none.
    """

    lines: Lines
    travel_time_s: Floats | None


@dataclass(frozen=True)
class WktCsv:
    """The images of a file.

    Attributes:
        images: roads by image id, in the order of the file; an image may have none.
    """

    path: Path
    images: Mapping[str, PixelRoads]

    def graph(self, image: str, place: Grid | float) -> RoadGraph:
        """Return the roads of an image as a graph, joined wherever lines share a vertex.

        Args:
            place: grid of the image, or the ground size of its pixels in metres; then the graph is
                in a local CRS, with y up.

        Raises:
            DataError: the file does not have the image, or lies where its grid has no metres.
        """
        if image not in self.images:
            raise DataError(f"{self.path}: has no image {image!r}, only {first(self.images)}")
        roads = self.images[image]
        seconds = roads.travel_time_s
        attributes = {} if seconds is None else {TRAVEL_TIME: seconds}
        crs = place.metric_crs if isinstance(place, Grid) else LOCAL_CRS
        lines = shapely.transform(roads.lines, lambda xy: _metric(xy, place))
        with naming(f"{self.path}: image {image}"):
            return graph_from_lines(lines, crs, attributes)


def read_wkt_csv(path: Path) -> WktCsv:
    """Read a CSV with columns ImageId and WKT_Pix, one line or more of an image in each row.

    LINESTRING EMPTY stands for an image without roads. A column travel_time_s (SpaceNet 5) is read
    as well; other columns are not. MultiLineStrings are taken apart, their seconds by length.

    Raises:
        DataError: the file cannot be read, lacks a column or all rows, or has a geometry that is no
            line, with the row at which that is.
    """
    table = _read_table(path)
    geometries = _geometries(path, table[_WKT])
    seconds = _seconds(path, table)
    ids = table[_ID].to_numpy(dtype=object)
    rows: dict[str, list[int]] = {}
    for row, image in enumerate(ids):
        rows.setdefault(image, []).append(row)
    images = {
        image: _pixel_roads(geometries, seconds, np.array(own)) for image, own in rows.items()
    }
    return WktCsv(path, images)


def _read_table(path: Path) -> pd.DataFrame:
    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False, encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError, pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        reason = one_line(error)
        raise DataError(
            f"{path}: cannot be read as CSV ({reason:.200}); expected columns {_ID} and {_WKT}"
        ) from error
    missing = [name for name in (_ID, _WKT) if name not in table.columns]
    if missing:
        columns = ", ".join(map(str, table.columns))
        raise DataError(f"{path}: no column {missing[0]} found, only {columns:.200}")
    if table.empty:
        raise DataError(f"{path}: no rows found; an image without roads has LINESTRING EMPTY")
    return table


def _geometries(path: Path, text: "pd.Series[str]") -> Lines:
    with np.errstate(invalid="ignore"):  # NaN is refused below.
        read = shapely.from_wkt(text.to_numpy(dtype=object), on_invalid="ignore")
    lines = np.asarray(read, dtype=object)
    expected = "a LINESTRING: the centreline of a road"
    _require(path, text, np.isin(shapely.get_type_id(lines), _LINES), expected)
    xy, owner = shapely.get_coordinates(lines, return_index=True)
    is_near = np.ones(len(lines), dtype=bool)
    is_near[owner[~(np.abs(xy) <= _FARTHEST_PX).all(axis=1)]] = False
    _require(path, text, is_near, f"numbers of pixels, up to {_FARTHEST_PX:.0e}")
    return lines


def _seconds(path: Path, table: pd.DataFrame) -> Floats | None:
    if TRAVEL_TIME not in table.columns:
        return None
    text = table[TRAVEL_TIME]
    seconds = pd.to_numeric(text, errors="coerce").to_numpy(dtype=np.float64)
    _require(path, text, np.isfinite(seconds) & (seconds >= 0), "seconds, zero or more")
    return seconds


def _require(path: Path, text: "pd.Series[str]", is_right: Bools, expected: str) -> None:
    """Refuse a file with a wrong value in a column."""
    for row in np.flatnonzero(~is_right)[:1]:
        raise DataError(
            f"{path}: row {row + 2} has {text.iloc[row][:60]!r} in {text.name}, expected {expected}"
        )


def _pixel_roads(geometries: Lines, seconds: Floats | None, rows: Ints) -> PixelRoads:
    parts, owner = shapely.get_parts(geometries[rows], return_index=True)
    is_line = shapely.get_type_id(parts) == shapely.GeometryType.LINESTRING
    is_road = is_line & (shapely.length(parts) > 0)
    parts, owner = shapely.force_2d(parts[is_road]), owner[is_road]
    if seconds is None:
        return PixelRoads(parts, None)
    # Seconds are those of a whole MultiLineString, and its parts have them by length.
    share = shapely.length(parts) / shapely.length(geometries[rows])[owner]
    return PixelRoads(parts, seconds[rows][owner] * share)


def _metric(xy: Floats, place: Grid | float) -> Floats:
    if isinstance(place, Grid):
        return place.to_metric(xy[:, ::-1])
    return np.asarray(xy * [place, -place])


_HEADER = (_ID, _WKT, "length_m", TRAVEL_TIME)
_EMPTY = ("LINESTRING EMPTY", 0.0, 0.0)  # The row of an image without roads.
_DECIMALS = 4  # Decimals of a pixel.

Scene = tuple[str, RoadGraph, Grid]


def write_submission(path: Path, scenes: Iterable[Scene]) -> None:
    """Write the edges of the graphs of images, a row for each: ImageId, WKT_Pix, length, seconds.

    Lines are in pixels, x to the right and y down. The first pixel reaches from 0 to 1, so that its
    centre is (0.5, 0.5): these are positions on the ground brought to pixels by the image's affine,
    as in SpaceNet's labels and as its metric takes them. (CRESI writes the numbers of pixels, half
    a pixel to the upper left.) Parallel edges and loops are rows of their own; an image without
    roads is one row with LINESTRING EMPTY.

    Source: SpaceNet 5, columns ImageId, WKT_Pix, length_m and travel_time_s.

    Args:
        scenes: for each image its id, its roads with `travel_time_s`, and where its pixels lie.

    Raises:
        OutputError: if the file cannot be written.
    """
    with atomic_write(path) as partial, partial.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(_HEADER)
        for name, graph, grid in scenes:
            writer.writerows((name, *row) for row in _rows(graph, grid))


def _rows(graph: RoadGraph, grid: Grid) -> Iterator[tuple[str, float, float]]:
    if len(graph.lines) == 0:
        yield _EMPTY
        return
    lines = shapely.transform(graph.lines, lambda xy: _pixels(xy, graph, grid))
    seconds = graph.attributes[TRAVEL_TIME].round(3)
    wkt = shapely.to_wkt(lines, rounding_precision=_DECIMALS)
    yield from zip(wkt, graph.length_m.round(3).tolist(), seconds.tolist(), strict=True)


def _pixels(xy: Floats, graph: RoadGraph, grid: Grid) -> Floats:
    """Convert x, y in metres to x, y in pixels."""
    # Graphs of other origin may be in another metric CRS than that of the grid.
    if grid.is_local or graph.crs == grid.metric_crs:
        return grid.from_metric(xy)[:, ::-1]
    return grid.to_pixel(reproject_points(xy, graph.crs, grid.crs))[:, ::-1]
