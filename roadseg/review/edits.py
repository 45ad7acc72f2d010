"""Edits: a GeoPackage of what people decided and drew, kept before anybody is told so."""

import math
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, get_args

import geopandas as gpd
import numpy as np
import pandas as pd
import shapely
from pyproj import CRS

from roadseg.errors import DataError, OutputError
from roadseg.raster.grid import DEGREES, reproject
from roadseg.roads.formats.gpkg_styles import STYLE_LAYER, edit_renderer, layer_styles
from roadseg.roads.formats.layers import write_layer
from roadseg.system.files import atomic_write
from roadseg.system.text import one_line

Kind = Literal["accept", "reject", "draw", "move", "split", "join", "speed"]
KINDS: tuple[Kind, ...] = get_args(Kind)

_LAYER = "edits"
_IN_FORCE, _UNDONE, _REPLACED = 0, 1, 2  # Values of `undone`; what is replaced is not redone.
_EXPECTED = "expected a file of `roadseg review`; rename it, and a new one is made"
_PATIENCE_S = 5.0  # Seconds that another program may take to save the file.
_HEAD_BYTES = 8  # Of a geometry in a GeoPackage, before the box around it.
_BOX_BYTES = (0, 32, 48, 48, 64)  # Of the box, by the number that the flags name.
_COLUMNS = {"fid", "geom", "kind", "speed_kph", "width_m", "who", "made", "undone", "place"}


@dataclass(frozen=True)
class Edit:
    """One thing that a person did to the roads.

    Attributes:
        kind: accept, reject and speed are about the road along `line`; draw adds it; split cuts
            the roads that it crosses; move takes the vertices at its start to its end, and join
            does so and joins them to the road there.
        line: in the metres of the roads.
        speed_kph: of kind speed.
        place: name of the scene, if it has no georeference; else empty.
        width_m: of the road, for a training; None where it is not known.
        number: of its row; 0 where it has none yet.
    """

    kind: Kind
    line: shapely.LineString
    speed_kph: float | None = None
    place: str = ""
    width_m: float | None = None
    number: int = 0


class EditFile:
    """The edits of a run in their order, as a table that QGIS shows and changes as well.

    A row is written, and has reached the disk, when the method that writes it returns. Rows that
    were added elsewhere without a kind are drawn roads.

    Args:
        path: the GeoPackage; it is made if it is missing.
        crs: in which a new file keeps its lines; those of another file stay in its own.

    Raises:
        DataError: if it is not a file of edits.
        OutputError: if it cannot be written.
    """

    def __init__(self, path: Path, crs: CRS) -> None:
        """Open the file."""
        self.path = path
        if not path.exists():
            _make(path, crs)
        with self._errors():
            self._file = sqlite3.connect(path, timeout=_PATIENCE_S, check_same_thread=False)
            self._file.execute("PRAGMA synchronous=FULL")
            _know_geometries(self._file)
            self.crs, self._srs = self._read_layer()
            self._version = self._data_version()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def has_changed(self) -> bool:
        """Return whether another program has written to the file since this was last asked."""
        with self._errors():
            before, self._version = self._version, self._data_version()
        return before != self._version

    def read(self, crs: CRS, *, number: int | None = None) -> tuple[list[Edit], list[str]]:
        """Return the edits in force, or one of them, and why rows were left out.

        Args:
            crs: in whose metres their lines are returned.
        """
        with self._errors():
            rows = self._file.execute(
                "SELECT fid, geom, kind, speed_kph, width_m, place FROM edits "
                "WHERE COALESCE(undone, 0) = ? AND fid = COALESCE(?, fid) ORDER BY fid",
                (_IN_FORCE, number),
            ).fetchall()
        edits, left_out = [], []
        for key, blob, kind, speed_kph, width_m, place in rows:
            try:
                line = _line(blob, self.crs, crs)
                edits.append(
                    Edit(_kind(kind, speed_kph), line, speed_kph, place or "", width_m, key)
                )
            except ValueError as error:
                left_out.append(f"row {key}: {error}")
        return edits, left_out

    def add(self, edit: Edit, crs: CRS, *, who: str) -> int:
        """Write an edit, whose line is in a CRS; return its number.

        What was undone before cannot be redone any more.

        Raises:
            OutputError: if it cannot be written; then nothing has changed.
        """
        now = datetime.now(tz=UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
        (line,) = reproject(np.array([edit.line], dtype=object), crs, self.crs)
        values = (_blob(line, self._srs), edit.kind, edit.speed_kph, edit.width_m, who, now)
        west, south, east, north = line.bounds
        with self._errors(), self._file:
            self._file.execute("UPDATE edits SET undone = ? WHERE undone = ?", (_REPLACED, _UNDONE))
            row = self._file.execute(
                "INSERT INTO edits (geom, kind, speed_kph, width_m, who, made, undone, place) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (*values, _IN_FORCE, edit.place),
            )
            self._file.execute(
                "UPDATE gpkg_contents SET last_change = ?, min_x = MIN(COALESCE(min_x, ?), ?), "
                "min_y = MIN(COALESCE(min_y, ?), ?), max_x = MAX(COALESCE(max_x, ?), ?), "
                "max_y = MAX(COALESCE(max_y, ?), ?) WHERE table_name = ?",
                (now, west, west, south, south, east, east, north, north, _LAYER),
            )
        return int(row.lastrowid or 0)

    def undo(self) -> int | None:
        """Mark the last edit in force as undone; return its number, None if there is none."""
        return self._mark(_IN_FORCE, _UNDONE, order=-1)

    def redo(self) -> int | None:
        """Put the edit in force again that was undone last; return its number, None if none."""
        return self._mark(_UNDONE, _IN_FORCE, order=1)

    @property
    def counts(self) -> tuple[int, int]:
        """How many edits are in force, and how many can be redone."""
        with self._errors():
            query = "SELECT COUNT(*) FROM edits WHERE COALESCE(undone, 0) = ?"
            in_force, undone = (
                self._file.execute(query, (value,)).fetchone()[0] for value in (_IN_FORCE, _UNDONE)
            )
        return int(in_force), int(undone)

    def _mark(self, before: int, after: int, *, order: int) -> int | None:
        """Change what `undone` says of the first edit in an order, 1 or -1; return its number."""
        with self._errors(), self._file:
            found = self._file.execute(
                "SELECT fid FROM edits WHERE COALESCE(undone, 0) = ? ORDER BY fid * ? LIMIT 1",
                (before, order),
            ).fetchone()
            if found is None:
                return None
            self._file.execute("UPDATE edits SET undone = ? WHERE fid = ?", (after, *found))
        return int(found[0])

    def _data_version(self) -> int:
        return int(self._file.execute("PRAGMA data_version").fetchone()[0])

    def _read_layer(self) -> tuple[CRS, int]:
        """Return the CRS, and its number in the file."""
        columns = {each[1] for each in self._file.execute("PRAGMA table_info(edits)")}
        missing = sorted(_COLUMNS - columns)
        if missing:
            lacks = f"column {missing[0]} in its layer edits" if columns else "layer edits"
            raise DataError(f"{self.path}: has no {lacks}, {_EXPECTED}")
        number, definition = self._file.execute(
            "SELECT g.srs_id, s.definition FROM gpkg_geometry_columns g "
            "JOIN gpkg_spatial_ref_sys s ON g.srs_id = s.srs_id WHERE g.table_name = 'edits'"
        ).fetchone()
        return CRS.from_wkt(definition), int(number)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            reason = one_line(error)
            if type(error) is sqlite3.DatabaseError:  # Such as "file is not a database".
                raise DataError(f"{self.path}: {reason}, {_EXPECTED}") from error
            if "locked" in reason:
                reason = "another program is writing to it; save your edits there, and try again"
            raise OutputError(f"{self.path}: {reason}") from error


def edits_in_force(path: Path) -> gpd.GeoDataFrame:
    """Return the edits in force that can be used: kind, who, made, width_m, speed_kph and line.

    Raises:
        DataError: if it is not a file of edits.
        OutputError: if it cannot be read.
    """
    with closing(EditFile(path, DEGREES)) as file:
        edits, _ = file.read(file.crs)
        rows = gpd.read_file(path, layer=_LAYER, columns=["who", "made"], fid_as_index=True)
    rows = rows.loc[[edit.number for edit in edits]].reset_index(drop=True)
    columns = {
        "kind": [edit.kind for edit in edits],
        "who": rows["who"],
        "made": rows["made"],
        "width_m": np.array([edit.width_m for edit in edits], dtype=np.float64),
        "speed_kph": np.array([edit.speed_kph for edit in edits], dtype=np.float64),
    }
    return gpd.GeoDataFrame(columns, geometry=[edit.line for edit in edits], crs=file.crs)


def _make(path: Path, crs: CRS) -> None:
    columns = {
        "kind": pd.Series(dtype=object),
        "speed_kph": pd.Series(dtype=np.float64),
        "width_m": pd.Series(dtype=np.float64),
        "who": pd.Series(dtype=object),
        "made": pd.Series(dtype="datetime64[ms, UTC]"),
        "undone": pd.Series(dtype=np.int64),
        "place": pd.Series(dtype=object),
    }
    table = gpd.GeoDataFrame(columns, geometry=gpd.GeoSeries([], crs=crs), crs=crs)
    style = edit_renderer()
    with atomic_write(path) as partial:
        # Without a spatial index, other programs need no functions of GDAL to add a row.
        write_layer(partial, table, "GPKG", layer=_LAYER, layer_options={"SPATIAL_INDEX": "NO"})
        styles = layer_styles({_LAYER: style})
        options = {"FID": "id"}
        write_layer(
            *(partial, styles, "GPKG"),
            layer=STYLE_LAYER,
            geometry_type=None,
            append=True,
            layer_options=options,
        )


def _kind(text: Any, speed_kph: float | None) -> Kind:  # noqa: ANN401 - of a row of any program
    """Return the kind of a row; one without is a drawn road."""
    name = str(text or "draw").strip().lower()
    if name not in KINDS:
        raise ValueError(f"kind is {name!r:.40}, expected one of {', '.join(KINDS)}")
    if name == "speed" and not (isinstance(speed_kph, int | float) and 0 < speed_kph < math.inf):
        raise ValueError(f"speed_kph is {speed_kph!r:.40}, expected a speed above 0 km/h")
    return KINDS[KINDS.index(name)]


def _line(blob: Any, source: CRS, target: CRS) -> shapely.LineString:  # noqa: ANN401
    """Return the line of a row in a CRS."""
    try:
        shape = shapely.force_2d(_geometry(blob))
    except (TypeError, IndexError, shapely.errors.ShapelyError) as error:
        raise ValueError("has no readable geometry, expected a line") from error
    if shape.geom_type == "MultiLineString" and len(shape.geoms) == 1:
        (shape,) = shape.geoms
    if not isinstance(shape, shapely.LineString) or shape.length == 0:
        raise ValueError(f"its geometry is a {shape.geom_type}, expected one line with a length")
    (moved,) = reproject(np.array([shape], dtype=object), source, target)
    if not np.isfinite(shapely.get_coordinates(moved)).all():
        raise ValueError("its geometry lies outside of the coordinate system of the roads")
    line: shapely.LineString = moved
    return line


def _blob(line: shapely.LineString, srs: int) -> bytes:
    """Return a geometry as a GeoPackage holds it: little endian, without a box."""
    return b"GP\0\1" + srs.to_bytes(4, "little", signed=True) + shapely.to_wkb(line, byte_order=1)


def _geometry(blob: bytes) -> Any:  # noqa: ANN401 - any shape
    box = _BOX_BYTES[blob[3] >> 1 & 7]
    return shapely.from_wkb(blob[_HEAD_BYTES + box :])


def _know_geometries(file: sqlite3.Connection) -> None:
    """Define the functions that the triggers of a spatial index call, should QGIS have made one."""
    file.create_function("ST_IsEmpty", 1, lambda blob: _geometry(blob).is_empty)
    for at, name in enumerate(("ST_MinX", "ST_MinY", "ST_MaxX", "ST_MaxY")):
        file.create_function(name, 1, lambda blob, at=at: _geometry(blob).bounds[at])
