"""route: the fastest or shortest route for a car. Reads a road graph, writes a line."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import shapely
from pyproj import CRS

from roadseg.arrays import Floats
from roadseg.errors import ConfigError, DataError, RoadsegError
from roadseg.raster.grid import DEGREES, is_local, transformer
from roadseg.roads.colours import ROUTE
from roadseg.roads.formats.any_roads import (
    PixelPlacement,
    common_crs,
    drivable,
    place_roads,
    read_drawn,
)
from roadseg.roads.formats.files import write_gpkg
from roadseg.roads.formats.gpkg_styles import line_renderer
from roadseg.roads.formats.layers import write_edges
from roadseg.roads.formats.pairing import only_source
from roadseg.roads.graph.cleaning import components
from roadseg.roads.graph.road_graph import TRAVEL_TIME, RoadGraph
from roadseg.roads.graph.routing import add_node, route_line, shortest_path
from roadseg.roads.graph.shortest_paths import Weight
from roadseg.roads.labels.roads import extent_degrees
from roadseg.roads.labels.traffic import assumed_speeds
from roadseg.roads.options import RouteOptions
from roadseg.system.files import is_mask_file, refuse_to_overwrite, require_suffix
from roadseg.system.text import Summary, count, first, table
from roadseg.system.units import (
    distance_text,
    is_metric,
    road_text,
    short_text,
    speed_unit,
    to_road_unit,
    to_speed_unit,
)
from roadseg.system.workspace import ROAD_NETWORK, Workspace

_log = logging.getLogger(__name__)

Place = tuple[float, float]  # Longitude and latitude, or x and y of a graph in local metres.

_WEIGHTS: dict[str, Weight] = {"time": "travel_time_s", "length": "length_m"}
_USUAL = RouteOptions()
_EAST, _NORTH = 180, 90  # Degrees; longitude and latitude go no further.
_FAR_M = 50.0  # Metres from a place to its road; a house beside a street is nearer than that.


@dataclass(frozen=True)
class RouteSection:
    """A section of a route on roads of the same name, class and speed.

    Attributes:
        name: name of the street, or its number; empty if not known.
        highway: class of the road; empty if not known.
        speed_kph: speed; None if not known.
        seconds: travel time; None if not known.
    """

    name: str
    highway: str
    speed_kph: float | None
    length_m: float
    seconds: float | None


@dataclass(frozen=True)
class RouteSummary(Summary):
    """The best route between two places.

    Attributes:
        weight: quantity that the route minimises, "time" or "length".
        seconds: travel time of the whole route; None if the edges have no travel times.
        edges: number of edges, with the partial ones at both ends.
        inferred_share: share of the length on links across gaps; None if the graph does not say.
        assumed_share: share of the length without a stated speed, for which that of the class of
            road, or else the default, is assumed.
        from_road_m: distance of the start from the road.
        to_road_m: distance of the destination from the road.
        sections: sections in the order of travel.
    """

    weight: str
    seconds: float | None
    length_m: float
    edges: int
    inferred_share: float | None
    assumed_share: float
    from_road_m: float
    to_road_m: float
    sections: list[RouteSection]
    output: str | None

    def __str__(self) -> str:
        """Return a table, with a line for each section of the route."""
        inferred = "" if self.inferred_share is None else f", {self.inferred_share:.1%} inferred"
        length = road_text(self.length_m / 1000, 3)
        rows = {
            "time": _duration(self.seconds),
            "length": f"{length} on {count(self.edges, 'edge')}{inferred}",
            "speed": f"assumed on {self.assumed_share:.1%} of the length, where none is stated",
            "to the road": f"{short_text(self.from_road_m)} from the start, "
            f"{short_text(self.to_road_m)} from the destination",
        }
        if self.assumed_share == 0:
            del rows["speed"]
        if self.output:
            rows["output"] = self.output
        lines = [f"{name:<12} {text}" for name, text in rows.items()]
        return "\n".join([*lines, "", _itinerary(self.sections)])


def run(
    path: Path,
    start: Place,
    goal: Place,
    *,
    options: RouteOptions = _USUAL,
    output: Path | None = None,
) -> RouteSummary:
    """Find the best route, and write it as one line.

    Args:
        path: graph of `roadseg graph`, a run folder, or any file of lines that `score` reads. Tags
            of OpenStreetMap decide where cars may drive (`traffic.read_traffic`).
        start: longitude and latitude, or x and y if the graph is in local metres.
        output: file to write, GeoJSON or GeoPackage by its suffix: a graph of one edge.

    Raises:
        DataError: the graph cannot be read or used.
        ConfigError: a place is not near the roads, or `output` has another suffix or is the graph.
        RoadsegError: there is no route.
        OutputError: the file cannot be written.
    """
    require_suffix(output, ".geojson", ".gpkg")
    refuse_to_overwrite(output, _graph_file(path), option="--output")
    route, summary = find_route(_read(path), start, goal, options, name=str(path))
    if output is None:
        return summary
    summary = replace(summary, output=str(output))
    _write(output, route, summary)
    return summary


def find_route(
    graph: RoadGraph, start: Place, goal: Place, options: RouteOptions, *, name: str
) -> tuple[RoadGraph, RouteSummary]:
    """Find the best route between two places of a graph in metres; see `run`.

    Args:
        graph: road graph, with travel times unless the weight is "length".
        start: longitude and latitude, or x and y if the graph is in local metres.
        name: name of the graph, for errors.

    Returns:
        The edges of the route in the order of travel, and its summary.
    """
    graph, first, from_road_m = _enter(graph, start, "--from", options.snap_m)
    graph, last, to_road_m = _enter(graph, goal, "--to", options.snap_m)
    try:
        route = shortest_path(graph, first, last, weight=_WEIGHTS[options.weight])
    except ValueError as error:
        raise DataError(f"{name}: {error}; use --weight length, which needs no times") from error
    if route is None:
        raise _no_way(name, graph, (first, last))
    inferred = route.attributes.get("inferred")
    summary = RouteSummary(
        weight=options.weight,
        seconds=_seconds(route),
        length_m=float(route.length_m.sum()),
        edges=len(route.lines),
        inferred_share=None if inferred is None else route.share_of_length(inferred == 1),
        assumed_share=route.share_of_length(assumed_speeds(route.attributes, len(route.lines))),
        from_road_m=from_road_m,
        to_road_m=to_road_m,
        sections=list(_sections(route)),
        output=None,
    )
    return route, summary


def _read(path: Path) -> RoadGraph:
    """Read the roads of a graph, or of any file of lines, on which cars may drive."""
    if not path.exists():
        raise DataError(f"{path} does not exist; `roadseg graph` writes graphs/ in the run folder")
    path = _graph_file(path)
    source = only_source(path)
    if source.table or is_mask_file(source.path):
        raise DataError(f"{path}: expected one file with a graph, as `roadseg graph` writes them")
    roads = read_drawn(source, PixelPlacement({}))
    if len(roads.graph.lines) == 0:
        raise DataError(f"{path}: contains no roads, so there is no route")
    open_roads = drivable(roads)
    if len(open_roads.graph.lines) == 0:
        closed = count(len(roads.graph.lines), "road")
        raise DataError(f"{path}: cars may drive on none of its {closed}, so there is no route")
    return place_roads(open_roads, common_crs(roads)).graph


def _graph_file(path: Path) -> Path:
    """Return the file of a graph; in a run folder, that of touching scenes, or the only one."""
    if not path.is_dir():
        return path
    run = Workspace(path)
    if run.chips.exists() and not run.graphs.is_dir():
        raise DataError(f"{path}: a run without graphs; run `roadseg graph` first")
    folder = Workspace(path, is_flat=not run.graphs.is_dir())
    if folder.graph(ROAD_NETWORK).exists():
        return folder.graph(ROAD_NETWORK)
    graphs = sorted(folder.graphs.glob("*.gpkg"))
    if len(graphs) > 1:
        raise DataError(
            f"{path}: expected one file with a graph, found {len(graphs)} that are not joined; "
            f"name one of them: {first([str(graph) for graph in graphs])}"
        )
    return graphs[0] if graphs else path


def _enter(
    graph: RoadGraph, place: Place, option: str, snap_m: float
) -> tuple[RoadGraph, int, float]:
    """Add a node at the point on the roads that is nearest to a place."""
    name = f"{option} {place[0]:.9g},{place[1]:.9g}"
    with_place, node, away_m = add_node(graph, _metric(graph.crs, place, name))
    if _FAR_M < away_m <= snap_m:
        _log.warning("%s: the nearest road for cars is %s away", name, short_text(away_m))
    if away_m > snap_m:
        swapped = _if_swapped(graph, place, option, snap_m)
        raise ConfigError(
            f"{name}: the nearest road is {distance_text(away_m)} away, expected at most "
            f"{snap_m:g} m (--snap-m); the roads are at {_extent(graph)}{swapped}"
        )
    return with_place, node, away_m


def _if_swapped(graph: RoadGraph, place: Place, option: str, snap_m: float) -> str:
    """Return a hint if a road is near the place with longitude and latitude swapped."""
    lon, lat = place
    if is_local(graph.crs) or abs(lon) > _NORTH:
        return ""
    _, _, away_m = add_node(graph, _metric(graph.crs, (lat, lon), option))
    is_near = away_m <= snap_m
    return f"; longitude comes first: did you mean {option} {lat:.9g},{lon:.9g}?" if is_near else ""


def _metric(crs: CRS, place: Place, name: str) -> Floats:
    """Return a place in metres; `name` is for errors."""
    if is_local(crs):
        return np.array(place)
    lon, lat = place
    if abs(lon) > _EAST or abs(lat) > _NORTH:
        raise ConfigError(
            f"{name}: expected longitude and latitude in degrees, in this order, such as 8.69,49.41"
        )
    xy = np.array(transformer(DEGREES, crs).transform(lon, lat))
    if not np.isfinite(xy).all():
        raise ConfigError(f"{name}: is outside {crs.name}, the CRS of the graph")
    return xy


def _extent(graph: RoadGraph) -> str:
    if not is_local(graph.crs):
        return extent_degrees(graph.lines, graph.crs)
    west, south, east, north = shapely.total_bounds(graph.lines)
    return f"x {west:.9g} to {east:.9g}, y {south:.9g} to {north:.9g}, in metres"


def _no_way(name: str, graph: RoadGraph, nodes: tuple[int, int]) -> RoadsegError:
    part = components(graph)
    sums = np.bincount(part[graph.ends[:, 0]], weights=graph.length_m / 1000)
    here, there = part[list(nodes)]
    if here == there:
        return RoadsegError(
            f"{name}: no route: one-way streets lead from --from to other places only; choose "
            "another street for one of the two, or a file that reaches further"
        )
    return RoadsegError(
        f"{name}: no route: --from is on a part of the network with {road_text(sums[here])} of "
        f"roads, --to on one with {road_text(sums[there])}, and they are not connected"
    )


def _seconds(route: RoadGraph) -> float | None:
    if TRAVEL_TIME not in route.attributes:
        return None
    total = float(np.sum(route.attributes[TRAVEL_TIME], dtype=np.float64))
    return total if np.isfinite(total) else None


def _sections(route: RoadGraph) -> Iterator[RouteSection]:
    """Yield sections of edges of the same name, class and speed."""
    seconds, length = _column(route, TRAVEL_TIME, None), route.length_m
    kinds = zip(
        _column(route, "name", ""),
        _column(route, "highway", ""),
        _column(route, "speed_kph", None),
        strict=True,
    )
    for (name, highway, kph), rows in groupby(range(len(length)), list(kinds).__getitem__):
        edges = list(rows)
        times = [seconds[row] for row in edges]
        yield RouteSection(
            name=name,
            highway=highway,
            speed_kph=kph,
            length_m=float(length[edges].sum()),
            seconds=None if None in times else sum(times),
        )


def _column(route: RoadGraph, name: str, missing: Any) -> list[Any]:  # noqa: ANN401 - of any column
    """Return the values of an attribute, with `missing` for those that are not known."""
    values = route.column(name, None).tolist()
    return [missing if value is None or value != value else value for value in values]  # noqa: PLR0124 - NaN


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "not known"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    clock = f"{hours}:{minutes:02}:{rest:02} h" if hours else f"{minutes}:{rest:02} min"
    return f"{clock} ({seconds:.1f} s)"


def _itinerary(sections: list[RouteSection]) -> str:
    """Return a table of sections by name and class, or by class alone if none has a name."""
    is_named = any(section.name for section in sections)
    length_unit = "m" if is_metric() else "mi"
    rows = [["road", *(["class"] if is_named else []), speed_unit(), length_unit, "s"]]
    for section in sections:
        kph = "-" if section.speed_kph is None else f"{to_speed_unit(section.speed_kph):.0f}"
        seconds = "-" if section.seconds is None else f"{section.seconds:.1f}"
        highway = section.highway or "road"
        road = [section.name or "-", highway] if is_named else [highway]
        rows.append([*road, kph, _length(section.length_m), seconds])
    return table(rows, right=range(len(rows[0]) - 3, len(rows[0])))


def _length(metres: float) -> str:
    return f"{metres:.1f}" if is_metric() else f"{to_road_unit(metres / 1000):.2f}"


def _write(path: Path, route: RoadGraph, summary: RouteSummary) -> None:
    """Write the route as a graph of a single edge from start to goal."""
    facts = {
        TRAVEL_TIME: summary.seconds,
        "inferred_share": summary.inferred_share,
        "from_road_m": summary.from_road_m,
        "to_road_m": summary.to_road_m,
        "weight": summary.weight,
    }
    columns = {name: np.array([fact]) for name, fact in facts.items() if fact is not None}
    line = np.array([route_line(route)], dtype=object)
    ends = np.array([[0, 1]], dtype=np.int64)
    joined = RoadGraph(route.crs, route.nodes[[0, -1]], ends, line, columns)
    if path.suffix.lower() == ".gpkg":
        write_gpkg(path, joined, edge_style=line_renderer(ROUTE, width_mm=1.2))
    else:
        write_edges(path, joined)
