"""DrawnRoads: one side of a comparison, from whatever file holds roads."""

import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import shapely
from pyproj import CRS

from roadseg.arrays import Array, Bools, Lines, Texts
from roadseg.errors import ConfigError, DataError, naming
from roadseg.raster.grid import DEGREES, LOCAL_CRS, Grid, is_local, reproject, utm_epsg
from roadseg.roads.formats.by_suffix import reader_of
from roadseg.roads.formats.pairing import RoadSource, match, only_source
from roadseg.roads.formats.tables import attributes_of
from roadseg.roads.graph.crossings import find_unjoined
from roadseg.roads.graph.joining import to_crs
from roadseg.roads.graph.road_graph import (
    DECIMALS,
    TRAVEL_TIME,
    RoadGraph,
    end_points,
    graph_from_lines,
    separate_edges,
    take_edges,
    unique_pairs,
    without_duplicate_edges,
)
from roadseg.roads.graph.travel import travel_time_s
from roadseg.roads.labels.roads import (
    Roads,
    check_not_degrees,
    extent_degrees,
    places_text,
    read_roads,
    swap_hint,
)
from roadseg.roads.labels.schemes import OWN_SPEED, TIMES, stated_travel
from roadseg.roads.labels.traffic import CARS, DEFAULT, LAYER, ONE_WAY, SPEED_KNOWN, SPEED_SOURCE
from roadseg.roads.metrics.compare import Side
from roadseg.roads.options import LabelOptions, TraceOptions
from roadseg.roads.speeds import KPH_PER_MPH, KPH_PER_MPS
from roadseg.system.files import is_mask_file
from roadseg.system.text import count, first, itemize
from roadseg.system.units import road_text

if TYPE_CHECKING:
    from roadseg.roads.tracing.trace import PixelSource

logger = logging.getLogger(__name__)

DEFAULT_SPEED_MPH = 25.0  # Speed of roads whose file states neither speed nor travel time.

_EVERY_LINE = LabelOptions(default_speed_mph=DEFAULT_SPEED_MPH, exclude=(), tunnels=True)
_OF_LAYERS = (".gpkg", ".gdb")  # Suffixes of files that may hold a graph as two layers.
_APART_M = 0.01  # Metres from the end of a line to its node, at most.
_FARTHEST_M = 1000.0  # Metres between the boxes around roads of one place, at most.
_BEYOND_M = 1.0  # Metres by which roads may reach beyond the edge of their image.
_LOST = ("null", "broken", "not finite")  # Why `read_roads` drops what may have been a road.
_EARTH = (-360.0, -90.0, 360.0, 90.0)  # Degrees; some networks go on beyond the date line.
_UM = 6  # Decimals of a metre: coordinates are rounded to 1 um.


@dataclass(frozen=True)
class DrawnRoads:
    """Roads as a file has them.

    Attributes:
        graph: in the CRS of the file; one edge a line and no two joined, unless `is_joined`. Its
            attributes `speed_kph` and `travel_time_s` are NaN where the file does not tell them;
            others say what its tags do of traffic (`Traffic.attributes`); a GeoPackage of ours
            has all of its attributes.
        is_joined: whether the file itself, or what traced it, says which edges meet.
        is_assumed: shape (m,), edges whose speed the file does not tell.
        raster: the pixels that were traced; None for a file of lines.
        valid: which of these pixels hold data, shape (row, col); None for a file of lines.
        left_out: shape (m,), why an edge is not a road for cars that images show, or ""; None if
            the file does not tell.
    """

    source: RoadSource
    graph: RoadGraph
    is_joined: bool
    is_assumed: Bools
    raster: "PixelSource | None" = None
    valid: Bools | None = None
    left_out: Texts | None = None

    def take(self, chosen: Bools) -> "DrawnRoads":
        """Return the chosen edges."""
        return replace(
            self,
            graph=take_edges(self.graph, chosen),
            is_assumed=self.is_assumed[chosen],
            left_out=None if self.left_out is None else self.left_out[chosen],
        )


@dataclass(frozen=True)
class PixelPlacement:
    """Place of the pixels of a WKT CSV, or of a raster without georeference.

    Attributes:
        images: the images of the CSV by name; empty if there are none.
        gsd_m: ground size of a pixel where there is no image, or one without georeference,
            metres; None if not known.
    """

    images: Mapping[str, Path]
    gsd_m: float | None = None


def find_placement(image: Path | None, gsd_m: float | None) -> PixelPlacement:
    """Find out where pixels lie.

    Args:
        image: an image or a folder of images; None if there is none.
        gsd_m: ground size of a pixel, metres; None if not known.

    Raises:
        DataError: there is no image, or two have one name.
    """
    if image is None:
        return PixelPlacement({}, gsd_m)
    from roadseg.raster.inputs import find_images

    return PixelPlacement(find_images([str(image)]), gsd_m)


def read_drawn(
    source: RoadSource,
    pixels: PixelPlacement,
    *,
    every_column: bool = False,
) -> DrawnRoads:
    """Read the roads of a file, in its own CRS.

    All lines are read, whatever kind of road they are. Travel times, or else speeds, are those that
    the attributes state (`schemes.stated_travel`), whatever the format. A GeoPackage whose layers
    nodes and edges fit each other is a graph; of others the lines count, and meet where they share
    a vertex.

    Args:
        pixels: where the pixels of a WKT CSV lie.
        every_column: keep all attributes of a file of lines, and not only those that say something
            of speed, travel time and traffic.

    Raises:
        DataError: it cannot be read, or holds no lines but other geometries.
        ConfigError: it is in pixels, and their place or size is not given.
    """
    if source.table:
        place = _place(source, pixels)
        return graph_drawn(source, source.table.graph(source.image, place))
    if read := reader_of(source.path):
        return graph_drawn(source, read(source.path))
    if is_mask_file(source.path):
        return _trace(source, pixels)
    return _read_gpkg(source) or _read_lines(source, every_column=every_column)


def read_one_place(path: Path) -> DrawnRoads:
    """Read the roads of one place that are in a coordinate system, not in pixels, with attributes.

    Raises:
        DataError: there are several places, or as `read_drawn`.
    """
    source = only_source(path)
    if source.table:
        raise DataError(f"{path}: its lines are in pixels; use roads with a coordinate system")
    return read_drawn(source, PixelPlacement({}), every_column=True)


def common_crs(reference: DrawnRoads, predicted: DrawnRoads | None = None) -> CRS:
    """Return the metric CRS for a comparison: UTM of the middle of the reference.

    It depends on the place only, not on the CRS of a file. An empty reference leaves the choice to
    the prediction; if both are empty it does not matter.

    Raises:
        DataError: one side has a place on earth and the other has none, or a coordinate is no
            place on earth.
    """
    # A side without roads lies anywhere.
    sides = [side for side in (reference, predicted) if side and len(side.graph.lines)]
    local = [is_local(side.graph.crs) for side in sides]
    if all(local):
        return LOCAL_CRS
    if any(local):
        here, there = (sides[0], sides[1]) if local[0] else (sides[1], sides[0])
        raise DataError(
            f"{here.source}: has no georeference, but {there.source} is in "
            f"{there.graph.crs.name}; use the same coordinates for both: add the image with "
            "--image, or use georeferenced files"
        )
    lon, lat = _middle(sides[0])
    return CRS.from_epsg(utm_epsg(lon, lat))


def place_roads(roads: DrawnRoads, crs: CRS) -> Side:
    """Bring roads to a metric CRS, join lines at shared vertices, and add travel times.

    Vertices that agree to 1 mm are one; else they stay as they are drawn, to 1 um. The roads as
    drawn are not rounded at all.

    Raises:
        DataError: a coordinate has no place in the CRS, or a speed is not above 0.
    """
    drawn = _to_crs(roads, crs)
    # After a conversion a road of 200 m would else be longer, and have one more control point.
    lines = np.asarray(shapely.transform(drawn.lines, lambda xy: np.round(xy, _UM)), dtype=object)
    graph = replace(drawn, nodes=np.round(drawn.nodes, _UM), lines=lines)
    with naming(roads.source):
        graph = _with_times(graph if roads.is_joined else _join_lines(graph))
    return Side(graph, drawn, float(drawn.length_m[roads.is_assumed].sum()))


def _place(source: RoadSource, pixels: PixelPlacement) -> Grid | float:
    """Return the grid of the image that lines are in the pixels of, or the size of its pixels."""
    if not pixels.images and pixels.gsd_m is not None:
        return pixels.gsd_m
    if not pixels.images:
        raise ConfigError(
            f"{source.path}: its lines are in pixels; use --image with the image or folder of "
            "images, or --gsd-m with the pixel size in metres"
        )
    from roadseg.raster.images import read_grid

    names = list(pixels.images)
    is_only = len(names) == 1 and source.table and len(source.table.images) == 1
    name = names[0] if is_only else match([source.image], names)[source.image]
    if name is None:
        raise DataError(
            f"{source}: none of the {len(names)} images has a matching name ({first(names)})"
        )
    return read_grid(pixels.images[name], gsd_m=pixels.gsd_m)


def drivable(roads: DrawnRoads) -> DrawnRoads:
    """Return those roads on which cars may drive; `roads` itself if these are all."""
    if CARS not in roads.graph.attributes:
        return roads
    return roads.take(roads.graph.attributes[CARS] != "no")


def place_sides(name: str, reference: DrawnRoads, predicted: DrawnRoads) -> tuple[Side, Side]:
    """Bring both sides of a comparison to one metric CRS, without what is not a visible road.

    Labels leave out the same: what is not for cars, and tunnels. How long that is, is said in a
    line. Other than that as `place_roads`.

    Raises:
        DataError: as `common_crs`, `place_roads` and `check_nearness`.
    """
    crs = common_crs(reference, predicted)
    ours = _seen_roads(reference, crs)
    drawn = [ours, ours if predicted is reference else _seen_roads(predicted, crs)]
    here, there = (place_roads(each, crs) for each in drawn)
    warn_of_unjoined(
        {
            str(a.source): b.graph
            for a, b in zip(drawn, (here, there), strict=True)
            if not a.is_joined
        }
    )
    check_nearness(here, there, name)
    if (
        "confidence" in reference.graph.attributes
        and "confidence" not in predicted.graph.attributes
    ):
        logger.warning(
            "%s: the reference has confidences, as predictions have, and %s has none; are the "
            "sides swapped?",
            *(reference.source, predicted.source),
        )
    return here, there


def warn_of_unjoined(files: Mapping[str, RoadGraph]) -> None:
    """Say in a line how often roads of files meet without being joined, and what to do."""
    found = {name: text for name, graph in files.items() if (text := str(find_unjoined(graph)))}
    for name, text in list(found.items())[:1]:
        more = f" (and {count(len(found) - 1, 'more file')} likewise)" if len(found) > 1 else ""
        logger.warning(
            "%s%s: %s; unless they are bridges, join them: roadseg convert --node %s roads.gpkg",
            *(name, more, text, Path(name).name),
        )


def label_graphs(files: Mapping[Path, Roads]) -> dict[str, RoadGraph]:
    """Return the graph of the lines of each label file; none of a file that has no place."""
    graphs = {}
    for path, roads in files.items():
        drawn = _of_lines(RoadSource(path), roads.lines_only(), {})
        with suppress(DataError):
            graphs[str(path)] = place_roads(drawn, common_crs(drawn)).graph
    return graphs


def _seen_roads(roads: DrawnRoads, crs: CRS) -> DrawnRoads:
    if roads.left_out is None or not (is_out := roads.left_out != "").any():
        return roads
    out = roads.take(is_out)
    length_m, why = _to_crs(out, crs).length_m, roads.left_out[is_out]
    parts = (f"{road_text(length_m[why == each].sum() / 1000)} {each}" for each in np.unique(why))
    logger.warning("%s: left out, as in labels: %s", roads.source, ", ".join(parts))
    return roads.take(~is_out)


def check_nearness(reference: Side, predicted: Side, name: str) -> None:
    """Refuse roads that cannot be of one place, and warn of those that may not be.

    Sides without roads are not looked at.

    Raises:
        DataError: the boxes around the roads of both sides are more than 1 km apart, or, without a
            coordinate system, one side counts y down from the upper edge of its image, as a CSV
            does that has no image, and the other up from the lower edge, as rasters do.
    """
    sides = reference.drawn, predicted.drawn
    if not all(len(s.lines) for s in sides):
        return
    if is_local(sides[0].crs):
        _check_edges(sides, name)
        return
    boxes = [shapely.box(*shapely.total_bounds(side.lines)) for side in sides]
    apart = float(shapely.distance(*boxes))
    if apart > _FARTHEST_M:
        here, there = (reproject(side.lines, side.crs, DEGREES) for side in sides)
        where = places_text(
            ("reference is", here, DEGREES),
            ("prediction", there, DEGREES),
            advice="check the CRS or the names",
        )
        raise DataError(
            f"{name}: the two sides do not overlap; they are {apart / 1000:.1f} km apart: {where}"
        )
    if apart > 0:
        logger.warning("%s: the two sides are %.0f m apart; are they the same place?", name, apart)


def _check_edges(sides: tuple[RoadGraph, RoadGraph], name: str) -> None:
    """Refuse roads without a coordinate system that are counted from two edges of an image."""
    spans = [shapely.total_bounds(side.lines)[[1, 3]].tolist() for side in sides]
    (south, middle), (other, north) = sorted(spans)
    if south < -_BEYOND_M <= other and middle <= _BEYOND_M < north:
        raise DataError(
            f"{name}: neither side has a georeference, and one counts y down from the upper edge "
            "of its image, as lines in pixels do, the other up from the lower edge; add the image "
            "with --image"
        )


def graph_drawn(source: RoadSource, graph: RoadGraph) -> DrawnRoads:
    """Return a graph with what its attributes state of speed, travel time and traffic.

    Raises:
        DataError: its coordinates are degrees, but not its coordinate system.
    """
    check_not_degrees(source, graph.crs, graph.lines)
    speed_kph, seconds, traffic = stated_travel(graph.attributes, len(graph.lines))
    stated = {OWN_SPEED: speed_kph, TRAVEL_TIME: seconds, **traffic.attributes()}
    if SPEED_KNOWN in graph.attributes:
        stated.pop(SPEED_SOURCE, None)
    # These are numbers or words of another program, unless they are written again.
    read = ONE_WAY, CARS, LAYER
    others = {k: column for k, column in graph.attributes.items() if k not in read}
    graph = replace(graph, attributes={**others, **stated})
    return _drawn(source, graph, traffic.left_out, is_joined=True)


def _drawn(source: RoadSource, graph: RoadGraph, left_out: Texts, *, is_joined: bool) -> DrawnRoads:
    """Return a graph as roads; those are assumed that state neither speed nor travel time."""
    stated = graph.attributes
    silent = np.asarray(np.isnan(stated[OWN_SPEED]) & np.isnan(stated[TRAVEL_TIME]))
    return DrawnRoads(source, graph, is_joined, silent, left_out=left_out)


def _read_gpkg(source: RoadSource) -> DrawnRoads | None:
    """Read a graph as `roadseg graph` and osmnx write it; None if it is something else."""
    if source.path.suffix.lower() not in _OF_LAYERS:
        return None
    from roadseg.roads.formats.files import read_gpkg

    # Any other GeoPackage with lines will do, too.
    with suppress(DataError):
        graph = without_duplicate_edges(read_gpkg(source.path))
        apart = end_points(graph.lines) - graph.nodes[graph.ends]
        # Lines that were drawn anew may end elsewhere than at their nodes.
        if np.all(np.hypot(apart[..., 0], apart[..., 1]) <= _APART_M):
            return graph_drawn(source, graph)
    return None


def _trace(source: RoadSource, pixels: PixelPlacement) -> DrawnRoads:
    from roadseg.raster.images import open_raster
    from roadseg.raster.pixels import valid_pixels
    from roadseg.roads.masks.mask_labels import check_masks
    from roadseg.roads.masks.probabilities import open_probability

    raster = open_probability(source.path, gsd_m=pixels.gsd_m)
    if raster.is_mask:
        check_masks([source.path])
    with open_raster(source.path) as file:
        valid = np.ones(file.shape, dtype=bool)
        # In a file whose nodata is 0 that is background, and all pixels are valid.
        if file.nodata != 0:
            valid = valid_pixels(file)
    return raster_drawn(source, raster, valid)


def raster_drawn(source: RoadSource, raster: "PixelSource", valid: Bools) -> DrawnRoads:
    """Return the roads that `roadseg graph` traces in a raster by default, with its pixels.

    Args:
        valid: which pixels hold data, shape (row, col).
    """
    from roadseg.roads.tracing.trace import find_graph

    graph = find_graph(raster, TraceOptions())
    is_assumed = np.full(len(graph.lines), raster.speed_bins is None)
    return DrawnRoads(source, graph, True, is_assumed, raster, valid)  # noqa: FBT003 - is_joined


def _read_lines(source: RoadSource, *, every_column: bool) -> DrawnRoads:
    file = read_roads(source.path, options=_EVERY_LINE, every_column=every_column)
    roads = file.roads
    areas = int(roads.is_area.sum())
    if areas and areas == len(roads.shapes):
        raise DataError(
            f"{source}: contains only polygons ({areas}), expected lines: the centrelines of "
            "roads; burn polygons into a mask raster to trace them"
        )
    if areas:
        logger.warning("%s: left out %s, expected lines", source, count(areas, "polygon"))
    lost = {why: number for why, number in file.dropped.items() if why in _LOST}
    if lost:
        logger.warning(
            "%s: roads that have no usable geometry are left out: %s", source, itemize(lost)
        )
    columns = {key: column[~roads.is_area] for key, column in file.columns.items()}
    return _of_lines(source, roads.lines_only(), columns)


def _of_lines(source: RoadSource, roads: Roads, columns: Mapping[str, Array]) -> DrawnRoads:
    """Return lines as roads, with further columns of their file."""
    speed_kph, is_default = roads.speed_mph * KPH_PER_MPH, roads.speed_source == DEFAULT
    stated = {
        OWN_SPEED: np.where(is_default, np.nan, speed_kph),
        TRAVEL_TIME: roads.travel_time_s,
        **roads.traffic.attributes(),
    }
    # These are read already, whatever a file calls them.
    read, written = (ONE_WAY, CARS, LAYER, SPEED_SOURCE), {*TIMES, *stated}
    others = {k: c for k, c in columns.items() if k not in read and k.lower() not in written}
    # Lines are joined later, in a metric CRS.
    graph = separate_edges(
        roads.shapes, roads.crs, {**attributes_of(pd.DataFrame(others)), **stated}
    )
    if SPEED_KNOWN in graph.attributes:
        graph.attributes.pop(SPEED_SOURCE, None)
    return _drawn(source, graph, roads.traffic.left_out, is_joined=False)


def _middle(roads: DrawnRoads) -> tuple[float, float]:
    """Return longitude and latitude of the middle of roads."""
    lines = reproject(roads.graph.lines, roads.graph.crs, DEGREES)
    west, south, east, north = shapely.total_bounds(lines)
    if not (-360 <= west <= east <= 360 and -90 <= south <= north <= 90):  # noqa: PLR2004 - degrees
        raise _not_on_earth(roads)
    return float(west + east) / 2, float(south + north) / 2


def _not_on_earth(roads: DrawnRoads) -> DataError:
    crs = roads.graph.crs
    where = "" if is_local(crs) else f": {extent_degrees(roads.graph.lines, crs)}"
    xy = shapely.get_coordinates(roads.graph.lines)
    farthest = xy[np.abs(xy[:, 1]).argmax()]  # Other vertices may be on earth either way.
    hint = swap_hint([*farthest, *farthest], _EARTH) if crs.is_geographic else ""
    hint = hint or f"expected all coordinates in its coordinate system, {crs.name}"
    return DataError(
        f"{roads.source}: its roads are not on earth, or not near each other{where}; {hint}"
    )


def _to_crs(roads: DrawnRoads, crs: CRS) -> RoadGraph:
    is_anywhere = is_local(crs) or len(roads.graph.lines) == 0
    graph = replace(roads.graph, crs=crs) if is_anywhere else to_crs(roads.graph, crs)
    xy = shapely.get_coordinates(graph.lines)
    if not (np.isfinite(xy).all() and np.isfinite(graph.nodes).all()):
        raise _not_on_earth(roads)
    return graph


def _join_lines(drawn: RoadGraph) -> RoadGraph:
    """Join lines at shared vertices, and undo the rounding that this goes with."""
    graph = graph_from_lines(drawn.lines, drawn.crs, drawn.attributes)
    if len(graph.lines) == 0:
        return graph
    exact, rounded = shapely.get_coordinates(drawn.lines), shapely.get_coordinates(graph.lines)
    # Vertices have one number if they agree to 1 mm, and the first of these are exact ones.
    every = np.concatenate([exact, rounded, graph.nodes])
    first, number = unique_pairs(np.round(every, DECIMALS))
    restored = exact[first[number[len(exact) :]]]
    lines: Lines = shapely.set_coordinates(graph.lines.copy(), restored[: len(rounded)])
    return replace(graph, nodes=restored[len(rounded) :], lines=lines)


def _with_times(graph: RoadGraph) -> RoadGraph:
    """Complete travel times by speeds, the usual one where none is stated, and speeds by times."""
    speed_kph, seconds = (graph.column(key, np.nan) for key in (OWN_SPEED, TRAVEL_TIME))
    # A speed follows from the travel time where that is stated, and else is the usual one.
    is_timed = seconds > 0
    by_time = graph.length_m / np.where(is_timed, seconds, 1) * KPH_PER_MPS
    assumed = np.where(is_timed, by_time, DEFAULT_SPEED_MPH * KPH_PER_MPH)
    speed_kph = np.where(np.isnan(speed_kph), assumed, speed_kph)
    by_speed = travel_time_s(graph.length_m, speed_kph)
    travel = {OWN_SPEED: speed_kph, TRAVEL_TIME: np.where(np.isnan(seconds), by_speed, seconds)}
    return replace(graph, attributes={**graph.attributes, **travel})
