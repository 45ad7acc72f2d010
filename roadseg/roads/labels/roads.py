"""Roads: label lines and areas with their speeds, read from any vector file, cleaned, in metres."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import shapely
from numpy.typing import NDArray
from pyproj import CRS
from pyproj.exceptions import ProjError
from shapely.affinity import translate

from roadseg.arrays import Array, Bools, Columns, Floats, Shapes, Texts
from roadseg.errors import DataError, naming
from roadseg.raster.grid import DEGREES, XY, Grid, reproject, transformer
from roadseg.roads.labels.schemes import read_attributes, require_speed_key, wanted_keys
from roadseg.roads.labels.tags import PACKED, unpack_frequent, without_lists
from roadseg.roads.labels.traffic import Traffic
from roadseg.roads.options import LabelOptions, SchemeName
from roadseg.system.text import itemize

if TYPE_CHECKING:
    from roadseg.raster.images import RasterFacts
    from roadseg.roads.labels.vectors import VectorFile

Indices = NDArray[np.intp]

_STEP_M = 1000.0  # Metres; over this length a straight outline bends by less than one metre.
_MOST_STEPS = 4000  # Of one outline.
_Z_ORDER = "z_order"
_ANY_LABELS = LabelOptions()
_FARTHEST_DEGREES = 360.0


@dataclass(frozen=True)
class Roads(Columns):
    """Road labels and what is known of them.

    Attributes:
        crs: coordinate system of the shapes.
        shapes: shape (n,), shapely LineStrings (centrelines) and Polygons (surfaces).
        speed_mph: shape (n,), above 0.
        speed_source: shape (n,), the label key that the speed came from.
        travel_time_s: shape (n,), seconds to drive a line as its label states; NaN where it states
            none.
        width_m: shape (n,), whole width of lines, above 0; of no meaning for polygons.
        traffic: who may drive there, and its name.
    """

    crs: CRS
    shapes: Shapes
    speed_mph: Floats
    speed_source: Texts
    travel_time_s: Floats
    width_m: Floats
    traffic: Traffic

    @cached_property
    def is_area(self) -> Bools:
        """Whether each shape is a polygon; shape (n,)."""
        return _are_polygons(self.shapes)

    @cached_property
    def half_width_m(self) -> Floats:
        """Distance that each road reaches beyond its shape: 0 for polygons; shape (n,)."""
        return np.where(self.is_area, 0.0, self.width_m / 2)

    @cached_property
    def tree(self) -> shapely.STRtree:
        """Index of the shapes, for label files that many scenes share."""
        return shapely.STRtree(self.shapes)

    def to_crs(self, crs: CRS) -> "Roads":
        """Return the roads in another CRS."""
        return replace(self, crs=crs, shapes=reproject(self.shapes, self.crs, crs))

    def moved(self, shift_m: XY) -> "Roads":
        """Return the roads moved in x and y of their CRS."""
        if not any(shift_m):
            return self
        return replace(self, shapes=shapely.transform(self.shapes, lambda xy: xy + shift_m))

    def lines_only(self) -> "Roads":
        """Return the roads whose shape is a line."""
        return self.take(~self.is_area) if self.is_area.any() else self


@dataclass(frozen=True)
class CleanShapes:
    """Lines and polygons out of label geometries.

    Attributes:
        shapes: shape (n,), LineStrings and Polygons.
        owner: shape (n,), rising, the label that each came from.
        dropped: number of pieces left out, by reason: "null", "empty", "a point",
            "not finite", "zero length", "zero area".
        repaired: number of invalid polygons made valid.
    """

    shapes: Shapes
    owner: Indices
    dropped: Counter[str]
    repaired: int


@dataclass(frozen=True)
class LabelFile:
    """The roads of a label file, and what was left out.

    Attributes:
        roads: its lines and polygons, in its own CRS.
        dropped: number of features, or of pieces of them, left out, by reason.
        scheme: what the attributes mean; never "auto".
        repaired: number of polygons that were invalid and made valid.
        columns: attributes of the roads by name, each of shape (roads,), if all were asked for.
    """

    roads: Roads
    features: int
    dropped: Counter[str]
    keys: tuple[str, ...]
    scheme: SchemeName
    repaired: int = 0
    columns: Mapping[str, Array] = field(default_factory=dict)


def read_roads(
    path: Path,
    *,
    options: LabelOptions = _ANY_LABELS,
    crs: CRS | None = None,
    every_column: bool = False,
) -> LabelFile:
    """Read the roads of a vector file.

    Args:
        path: a file that OGR reads, also in a .zip or .gz, a /vsi path, or GeoParquet. Of
            several layers with lines one called roads goes first, see `read_vectors`.
        crs: coordinate system to use for a file that does not name a known one.
        every_column: read all attributes, and not only those that the scheme reads.

    Raises:
        DataError: if the file cannot be read whole, has no known CRS or not the attribute that
            the scheme needs, or has features of which none is a road. A file without any
            feature is fine: a scene without roads.
    """
    from roadseg.roads.labels.vectors import read_vectors

    def choose(keys: tuple[str, ...]) -> list[str]:
        return list(keys) if every_column else wanted_keys(keys, options)

    file = read_vectors(path, choose)
    features = len(file.geometries)
    if features:
        with naming(path):
            require_speed_key(file.keys, options)
    attributes = read_attributes(file.columns, features, options)
    cleaned = clean_shapes(file.geometries)
    reason = attributes.left_out[cleaned.owner]
    owner = cleaned.owner[reason == ""]
    # The time of a label is shared by its lines, by their length in the CRS of the file.
    length = shapely.length(cleaned.shapes)
    share = length / np.bincount(cleaned.owner, weights=length)[cleaned.owner]
    seconds = attributes.travel_time_s[cleaned.owner] * share
    roads, once = drop_duplicates(
        Roads(
            crs=file_crs(path, file, cleaned.shapes, crs),
            shapes=cleaned.shapes[reason == ""],
            speed_mph=attributes.mph[owner],
            speed_source=attributes.source[owner],
            travel_time_s=seconds[reason == ""],
            width_m=attributes.width_m[owner],
            traffic=attributes.traffic.take(owner),
        )
    )
    dropped = cleaned.dropped + Counter(reason[reason != ""].tolist())
    duplicates = int(np.sum(~once))
    dropped.update({"null": -file.broken, "broken": file.broken, "duplicate": duplicates})
    # A file of footways only is a scene without roads.
    if features and not len(roads.shapes) and (reason == "").all():
        raise DataError(f"{path}: none of its {features} features is a road ({itemize(+dropped)})")
    return LabelFile(
        roads=roads,
        features=features,
        dropped=+dropped,
        keys=file.keys,
        scheme=attributes.scheme,
        repaired=cleaned.repaired,
        columns=_every_column(file, owner[once]) if every_column else {},
    )


def _every_column(file: "VectorFile", owner: Indices) -> dict[str, Array]:
    """Return all attributes of roads that have values; frequent packed tags are columns."""
    import pandas as pd

    packed = file.columns.get(PACKED)
    tags = {} if packed is None else unpack_frequent(packed)
    # Of a map, GDAL makes up the order in which roads are drawn.
    made_up = () if packed is None else (PACKED, _Z_ORDER)
    columns = tags | {key: column for key, column in file.columns.items() if key not in made_up}
    # Formats of GDAL number their rows in `fid`, and tell no names apart by their capitals alone;
    # a GeoPackage has the lines in `geom`.
    names = {key.lower(): key for key in reversed(columns) if key.lower() not in ("fid", "geom")}
    columns = {key: without_lists(columns[key][owner]) for key in columns if key in names.values()}
    return {key: column for key, column in columns.items() if not pd.isna(column).all()}


def file_crs(path: Path, file: "VectorFile", shapes: Shapes, given: CRS | None) -> CRS:
    """Return the CRS of a file, or the one given where it names none that is known.

    Raises:
        DataError: the file names none that is known and none is given, or it is not that of the
            coordinates.
    """
    if file.crs is None:
        reason = "no coordinate system found"
    elif (  # No shape can be in degrees, not even with x and y swapped.
        file.is_assumed
        and len(shapes)
        and np.all((np.abs(shapely.bounds(shapes)) > _FARTHEST_DEGREES).any(axis=1))
    ):
        west, south, *_ = shapely.total_bounds(shapes)
        reason = f"has no known coordinate system, and x {west:.9g}, y {south:.9g} are not degrees"
    elif (crs := _parse_crs(file.crs)) is not None:
        check_not_degrees(path, crs, shapes)
        return crs
    else:
        reason = f"its coordinate system {file.crs!r:.120} is not known"
    if given is None:
        raise DataError(
            f"{path}: {reason}; set labels.crs to its CRS, such as EPSG:32611, for the labels of "
            "a run; for any other command, write the CRS into a copy: ogr2ogr -a_srs EPSG:32611 "
            f"with_crs.gpkg {path.name}"
        )
    return given


def check_not_degrees(source: object, crs: CRS, shapes: Shapes) -> None:
    """Refuse degrees in a projected CRS: they would be roads of some millimetres.

    Raises:
        DataError: all coordinates could be degrees, and roads are shorter than one on average.
    """
    if not (crs.is_projected and len(shapes)):
        return
    west, south, east, north = shapely.total_bounds(shapes)
    is_in_degrees = -180 <= west <= east <= 180 and -90 <= south <= north <= 90  # noqa: PLR2004
    if is_in_degrees and shapely.length(shapes).mean() < 1:
        raise DataError(
            f"{source}: its coordinate system is {crs.name}, but its coordinates look like "
            f"degrees: x {west:.9g} to {east:.9g}, y {south:.9g} to {north:.9g}; name EPSG:4326 "
            "instead: ogr2ogr -a_srs EPSG:4326 writes such a copy; a GraphML has it in its "
            "attribute crs"
        )


@lru_cache(maxsize=64)  # A CRS is slow to make from WKT.
def _parse_crs(text: str) -> CRS | None:
    """Return the CRS that a text names, None if it is unknown or has no place on earth."""
    try:
        crs = CRS.from_user_input(text)
        transformer(crs, DEGREES)  # It fails for coordinates of a drawing or a building site.
    except ProjError:
        return None
    return None if crs.name.startswith("Undefined") else crs  # GeoPackages call none so.


def clean_shapes(geometries: Shapes) -> CleanShapes:
    """Extract lines and polygons from label geometries.

    Collections and multi-part geometries are taken apart, heights and measures are dropped. Of
    an invalid polygon the valid polygons inside of its rings are kept, by the even-odd rule.
    Lines that cross themselves stay as they are.

    Args:
        geometries: shape (m,), shapely geometries or None, one a label.
    """
    is_null = shapely.is_missing(geometries)
    parts, owner, empty = _single_parts(geometries[~is_null])
    owner = np.flatnonzero(~is_null)[owner]
    kind, length = shapely.get_type_id(parts), shapely.length(parts)
    dropped = Counter({"null": int(is_null.sum()), "empty": empty})
    is_good = np.ones(len(parts), dtype=bool)
    for reason, is_bad in (
        ("empty", shapely.is_empty(parts)),
        ("a point", kind == shapely.GeometryType.POINT),
        ("not finite", ~np.isfinite(length)),  # Bounds would pass over NaN.
        ("zero length", (kind != shapely.GeometryType.POLYGON) & (length == 0)),
    ):
        dropped[reason] += int(np.sum(is_bad & is_good))
        is_good &= ~is_bad
    parts, owner = parts[is_good], owner[is_good]
    # Most files have neither heights nor measures, which is told sooner than they are dropped.
    if np.any(shapely.get_coordinate_dimension(parts) > 2):  # noqa: PLR2004 - x and y
        parts = np.asarray(shapely.force_2d(parts))
    # Invalid polygons are repaired.
    is_bad = _are_polygons(parts) & ~shapely.is_valid(parts)
    if not is_bad.any():
        return CleanShapes(parts, owner, +dropped, 0)
    mended, index, _ = _single_parts(shapely.make_valid(parts[is_bad]))
    is_area = _are_polygons(mended) & (shapely.area(mended) > 0)
    repaired = len(np.unique(index[is_area]))
    dropped["zero area"] += int(is_bad.sum()) - repaired
    owner = np.concatenate([owner[~is_bad], owner[is_bad][index[is_area]]])
    order = np.argsort(owner, kind="stable")
    parts = np.concatenate([parts[~is_bad], mended[is_area]])
    return CleanShapes(parts[order], owner[order], +dropped, repaired)


def drop_duplicates(roads: Roads) -> tuple[Roads, Bools]:
    """Keep one of the roads that have the same shape, whichever way it is drawn: the fastest.

    Of equally fast ones the widest is kept.

    Returns:
        The roads that are left, in their order, and which of all these are.
    """
    # Only roads of equal boxes can be equal, and few are.
    boxes = shapely.bounds(roads.shapes).sum(axis=1)  # Equal for equal shapes.
    _, box, shapes = np.unique(boxes, return_inverse=True, return_counts=True)
    alike = np.flatnonzero(shapes[box] > 1)
    alike = alike[np.lexsort((roads.width_m[alike], roads.speed_mph[alike]))]
    drawings = shapely.to_wkb(shapely.normalize(roads.shapes[alike]))
    best = dict(zip(drawings.tolist(), alike.tolist(), strict=True))  # The last of equals stays.
    stays = np.ones(len(roads.shapes), dtype=bool)
    stays[alike] = np.isin(alike, list(best.values()))
    return (roads if stays.all() else roads.take(stays)), stays


def roads_on(grid: Grid, roads: Roads, *, shift_m: XY = (0.0, 0.0)) -> tuple[Roads, Indices]:
    """Find the roads whose surface touches a scene, once they are moved.

    Only roads near the scene are looked at one by one, so that a scene of a large label file
    costs little. A road with a vertex that has no place in the metric CRS touches nothing.

    Args:
        grid: of a scene with a place on earth.
        roads: in any CRS.
        shift_m: metres east and north by which they are moved.

    Returns:
        Those roads in the scene's metric CRS, moved, and their indices, rising.
    """
    outline = translate(_outline_m(grid), -shift_m[0], -shift_m[1])
    near = _near(grid, roads, outline)
    metric = roads.take(near).to_crs(grid.metric_crs)
    finite = np.flatnonzero(np.isfinite(shapely.bounds(metric.shapes)).all(axis=1))
    apart_m = shapely.distance(metric.shapes[finite], outline)
    finite = finite[apart_m <= metric.half_width_m[finite]]
    return metric.take(finite).moved(shift_m), near[finite]


def lay_over(
    facts: "RasterFacts", labels: Path, roads: Roads, *, shift_m: XY = (0.0, 0.0)
) -> tuple[Roads, Indices]:
    """Return the roads that touch a scene once they are moved, as `roads_on`.

    Raises:
        DataError: if the scene has no place on the ground.
    """
    if facts.grid.is_local:
        raise DataError(
            f"{facts.path}: has no georeference, so {labels} cannot be placed on it; use raster "
            "masks of the same size as labels.roads, or georeference the image"
        )
    return roads_on(facts.grid, roads, shift_m=shift_m)


def apart_text(facts: "RasterFacts", labels: Path, roads: Roads) -> str:
    """Return where roads and scene lie, if they do not touch."""
    outline = np.array([facts.grid.footprint], dtype=object)
    where = places_text(
        ("roads are", roads.shapes, roads.crs),
        ("image", outline, facts.grid.crs),
        advice="check the CRS of both, or the file names",
    )
    return f"{labels}: none of its {len(roads.shapes)} roads touches {facts.path}: {where}"


def places_text(
    one: tuple[str, Shapes, CRS], other: tuple[str, Shapes, CRS], *, advice: str
) -> str:
    """Return where two sides lie that do not touch, and what to do: swap x and y, or the advice.

    Args:
        one: its name with "is" or "are", its geometries and their CRS.
        other: its name, its geometries and their CRS.
    """
    (name, shapes, crs), (other_name, others, other_crs) = one, other
    boxes = map(shapely.total_bounds, (shapes, reproject(others, other_crs, crs)))
    return (
        f"the {name} at {extent_degrees(shapes, crs)}, the {other_name} at "
        f"{extent_degrees(others, other_crs)}; {swap_hint(*boxes) or advice}"
    )


def swap_hint(here: Iterable[float], there: Iterable[float]) -> str:
    """Return a hint if two boxes (west, south, east, north) meet only with x and y swapped."""
    (west, south, east, north), (left, low, right, high) = here, there
    meet = west <= right and left <= east and south <= high and low <= north
    meet_swapped = south <= right and left <= north and west <= high and low <= east
    is_swapped = meet_swapped and not meet
    return "x and y look swapped: write longitude before latitude" if is_swapped else ""


def extent_degrees(geometries: Shapes, crs: CRS) -> str:
    """Return where geometries lie: `lon 2.2815 to 2.2902, lat 48.9801 to 48.9862`.

    Coordinates that are not a place on earth are given as they are, as x and y.
    """
    if len(geometries) == 0:
        return "no place"
    west, south, east, north = shapely.total_bounds(reproject(geometries, crs, DEGREES))
    if -360 <= west <= east <= 360 and -90 <= south <= north <= 90:  # noqa: PLR2004 - degrees
        return f"lon {west:.4f} to {east:.4f}, lat {south:.4f} to {north:.4f}"
    west, south, east, north = shapely.total_bounds(geometries)
    return (
        f"x {west:.9g} to {east:.9g}, y {south:.9g} to {north:.9g} (not a valid position in "
        f"{crs.name})"
    )


def _single_parts(geometries: Shapes) -> tuple[Shapes, Indices, int]:
    """Return the single parts of geometries, their owners, and how many had no part."""
    parts, owner, empty = geometries, np.arange(len(geometries)), 0
    while np.any(shapely.get_type_id(parts) >= shapely.GeometryType.MULTIPOINT):
        empty += int(np.sum(shapely.get_num_geometries(parts) == 0))
        parts, index = shapely.get_parts(parts, return_index=True)
        owner = owner[index]
    return parts, owner, empty


def _are_polygons(shapes: Shapes) -> Bools:
    return np.asarray(shapely.get_type_id(shapes) == shapely.GeometryType.POLYGON)


def _near(grid: Grid, roads: Roads, outline: shapely.Polygon) -> Indices:
    """Return which roads come near a scene by their boxes.

    All do where it has no box in their CRS, or one around the earth, across the antimeridian.
    """
    if len(roads.shapes) == 0:
        return np.arange(0)
    area = shapely.buffer(outline, roads.half_width_m.max() + 1, join_style="mitre")
    around = np.array([shapely.segmentize(area, _STEP_M)], dtype=object)
    box = shapely.total_bounds(reproject(around, grid.metric_crs, roads.crs))
    is_around = roads.crs.is_geographic and box[2] - box[0] > 180  # noqa: PLR2004 - degrees
    if is_around or not np.isfinite(box).all():
        return np.arange(len(roads.shapes))
    return np.sort(roads.tree.query(shapely.box(*box)))


def _outline_m(grid: Grid) -> shapely.Polygon:
    """Return the outline of a scene in its metric CRS, with vertices where long sides bend."""
    if grid.footprint_m.length <= 4 * _STEP_M:
        return grid.footprint_m
    step = grid.footprint.length / min(grid.footprint_m.length / _STEP_M, _MOST_STEPS)
    outline = np.array([shapely.segmentize(grid.footprint, step)], dtype=object)
    return shapely.Polygon(shapely.get_coordinates(reproject(outline, grid.crs, grid.metric_crs)))
