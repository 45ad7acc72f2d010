"""Road graphs as values: traced, read from any file, saved, shown, and routed on."""

import html
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

import numpy as np
import shapely
from affine import Affine

from roadseg.api.arguments import TABLE, AnyPath, options_of, table_file, takes
from roadseg.api.masks import Mask
from roadseg.api.notebooks import map_svg
from roadseg.api.rasters import AnyImage, in_memory, known_crs, refuse_transform
from roadseg.raster.grid import DEGREES, is_local
from roadseg.raster.windows import Window
from roadseg.roads.formats.any_roads import (
    DrawnRoads,
    common_crs,
    drivable,
    find_placement,
    graph_drawn,
    place_roads,
    raster_drawn,
    read_drawn,
)
from roadseg.roads.formats.by_suffix import format_of, writer_of
from roadseg.roads.formats.pairing import RoadSource, only_source
from roadseg.roads.formats.tables import edge_table, node_table
from roadseg.roads.graph.cleaning import part_lengths
from roadseg.roads.graph.joining import to_crs
from roadseg.roads.graph.road_graph import RoadGraph
from roadseg.roads.labels.traffic import ONE_WAY
from roadseg.roads.masks.burning import IGNORE
from roadseg.roads.masks.probabilities import Probability, ProbabilityFile, open_probability
from roadseg.roads.options import RouteOptions, TraceOptions

if TYPE_CHECKING:
    import geopandas as gpd
    import networkx as nx

    from roadseg.commands.roads.route import RouteSummary

AnyRoads = Union["Graph", AnyPath, "gpd.GeoDataFrame", "nx.Graph[Any]", Mask, Probability]


@dataclass(frozen=True, repr=False)
class Graph:
    """A road network with speeds and travel times.

    Attributes:
        roads: nodes and edges as arrays, in metres.
        drawn: the same roads as they were read or traced, for `score` and `diff`.
    """

    roads: RoadGraph
    drawn: DrawnRoads

    @cached_property
    def edges(self) -> "gpd.GeoDataFrame":
        """Edges, with the columns of the GeoPackage: u, v, key, length, speed_kph, ..."""
        return edge_table(self.roads)

    @cached_property
    def nodes(self) -> "gpd.GeoDataFrame":
        """Nodes: osmid (the row), x and y in metres, street_count, the point."""
        return node_table(self.roads)

    @cached_property
    def for_cars(self) -> RoadGraph:
        """The roads on which cars may drive, by the tags of OpenStreetMap that their file has."""
        is_open = drivable(self.drawn)
        return self.roads if is_open is self.drawn else place_roads(is_open, self.roads.crs).graph

    @property
    def length_km(self) -> float:
        """Total length of the roads; each road counts once."""
        return float(self.roads.length_m.sum()) / 1000

    def to_networkx(self) -> "nx.MultiDiGraph[int]":
        """Return a networkx graph as osmnx makes them: nodes with x and y, edges by direction.

        Coordinates are longitude and latitude; a graph without georeference keeps its metres, and
        has no `crs`.
        """
        import networkx as nx

        local = is_local(self.roads.crs)
        placed = self.roads if local else to_crs(self.roads, DEGREES)
        network: nx.MultiDiGraph[int] = nx.MultiDiGraph()
        network.graph |= {} if local else {"crs": "epsg:4326"}
        streets = self.nodes["street_count"].tolist()
        for node, (xy, count) in enumerate(zip(placed.nodes.tolist(), streets, strict=True)):
            network.add_node(node, x=xy[0], y=xy[1], street_count=count)
        others = ["geometry", "u", "v", "key", ONE_WAY]
        rows = self.edges.drop(columns=others, errors="ignore").to_dict("records")
        ends = self.edges[["u", "v", "key"]].to_numpy().tolist()
        one_way = placed.column(ONE_WAY, 0.0).tolist()
        for (u, v, key), line, way, row in zip(ends, placed.lines, one_way, rows, strict=True):
            facts = {"key": key, ONE_WAY: way != 0, **row}
            if way >= 0:
                network.add_edge(u, v, geometry=line, reversed=False, **facts)
            if way < 0 or (way == 0 and u != v):
                network.add_edge(v, u, geometry=shapely.reverse(line), reversed=True, **facts)
        return network

    def save(self, path: AnyPath) -> Path:
        """Write the graph in the format given by the suffix.

        The suffixes are .gpkg, .geojson, .graphml, .parquet, .osm, .pbf, .fgb and
        .shp.

        Raises:
            ConfigError: if the suffix is not one of these, or the format needs a package that is
                not installed.
            OutputError: if the file cannot be written.
        """
        target = Path(path)
        writer_of(format_of(target))(target, self.roads)
        return target

    def __repr__(self) -> str:
        """Return its size and its coordinate system."""
        nodes, edges = len(self.roads.nodes), len(self.roads.lines)
        metres = part_lengths(self.roads)
        largest = metres.max() / metres.sum() if len(metres) else 0.0
        parts = f"largest connected part {largest:.0%}"
        place = "local metres" if is_local(self.roads.crs) else self.roads.crs.name
        return f"<Graph: {self.length_km:.2f} km, {nodes} nodes, {edges} edges; {parts}; {place}>"

    def _repr_html_(self) -> str:
        """Show a small map and the figures in a notebook."""
        return f"<div>{map_svg(self.roads)}<br>{html.escape(repr(self)[1:-1])}</div>"


@dataclass(frozen=True)
class Route:
    """A route between two places.

    Attributes:
        graph: its edges, in the order of travel.
        summary: time, length and sections, as `roadseg route` prints them.
    """

    graph: Graph = field(repr=False)
    summary: "RouteSummary"

    @property
    def seconds(self) -> float | None:
        """Travel time; None if the graph has no travel times."""
        return self.summary.seconds

    @property
    def length_m(self) -> float:
        """Total length."""
        return self.summary.length_m

    def __str__(self) -> str:
        """Return the route as `roadseg route` prints it."""
        return str(self.summary)

    def _repr_html_(self) -> str:
        """Show it on a small map in a notebook."""
        return f"<div>{map_svg(self.graph.roads)}<pre>{html.escape(str(self))}</pre></div>"


@takes(TraceOptions)
def trace(
    probability: Probability | Mask | AnyImage,
    *,
    transform: Affine | None = None,
    crs: object = None,
    gsd_m: float | None = None,
    **options: Any,  # noqa: ANN401 - of one section
) -> Graph:
    """Trace the road network in probabilities or a mask.

    Args:
        probability: the result of `predict` or `burn`; a raster with probabilities or a mask; or an
            array, shape (row, col): bool, uint8 with 255 for certain, or floats from 0 to 1.
        transform: for an array: the transform from (col, row) to (x, y), as in rasterio.
        crs: for an array, or a raster without one: the CRS of x and y: an EPSG code, WKT, or a CRS
            of pyproj or rasterio.
        gsd_m: pixel size in metres, for an array or a raster without georeference.
        options: those settings of the section `graph` of the config that control tracing, such as
            `threshold=0.5`, `max_gap_m=30`.

    Raises:
        DataError: if the raster cannot be read.
        ConfigError: if there is no such option, a value is outside its limits, or an array has no
            location (transform and crs, or gsd_m).
    """
    from roadseg.roads.tracing.trace import find_graph

    tracing = options_of(TraceOptions, options)
    source = RoadSource(Path("a traced graph"))
    pixels: Probability | ProbabilityFile
    if isinstance(probability, str | Path):
        refuse_transform(probability, transform)
        source = RoadSource(Path(probability))
        pixels = open_probability(source.path, crs=known_crs(crs), gsd_m=gsd_m)
    elif isinstance(probability, Mask):
        pixels = probability.as_probability()
    elif isinstance(probability, Probability):
        pixels = probability
    else:
        pixels = in_memory(probability, transform, crs, gsd_m)
    roads = find_graph(pixels, tracing)
    is_assumed = np.full(len(roads.lines), pixels.speed_bins is None)
    return Graph(roads, DrawnRoads(source, roads, is_joined=True, is_assumed=is_assumed))


def read_graph(
    roads: AnyRoads, *, image: AnyPath | None = None, gsd_m: float | None = None
) -> Graph:
    """Read roads from any format of `roadseg score`: graphs, lines, masks, probabilities.

    Args:
        roads: GeoPackage, GeoJSON, GraphML, Shapefile, FlatGeobuf, GeoParquet, OSM, SpaceNet's CSV,
            or a raster, which is traced; or a GeoDataFrame of lines, a graph of networkx as osmnx
            makes them, a mask, or a probability.
        image: image for the pixel coordinates of a CSV.
        gsd_m: pixel size in metres, for a CSV without image or a raster without georeference.

    Raises:
        DataError: if the file cannot be read, or contains roads of several places.
        ConfigError: if the lines are in pixels, but neither `image` nor `gsd_m` is given.
    """
    if isinstance(roads, Graph):
        return roads
    drawn = drawn_roads(roads, image=image, gsd_m=gsd_m)
    return Graph(place_roads(drawn, common_crs(drawn)).graph, drawn)


@takes(RouteOptions)
def route(
    graph: AnyRoads,
    start: tuple[float, float],
    goal: tuple[float, float],
    **options: Any,  # noqa: ANN401 - of one section
) -> Route:
    """Find the fastest or the shortest route between two places, as a car may drive it.

    Args:
        graph: a graph, or anything that `read_graph` reads.
        start: longitude and latitude; for a graph without georeference, x and y in its metres.
        goal: destination, in the same form.
        options: `weight`: what to minimise, "time" or "length"; `snap_m`: the largest distance of
            start and destination from the nearest road, in metres.

    Raises:
        ConfigError: if a place is not near the roads.
        RoadsegError: if there is no route.
    """
    from roadseg.commands.roads.route import find_route

    whole = read_graph(graph)
    source = whole.drawn.source
    best = options_of(RouteOptions, options)
    way, summary = find_route(whole.for_cars, start, goal, best, name=str(source))
    is_assumed = np.zeros(len(way.lines), dtype=bool)
    drawn = DrawnRoads(source, way, is_joined=True, is_assumed=is_assumed)
    return Route(Graph(way, drawn), summary)


def drawn_roads(
    roads: AnyRoads, *, image: AnyPath | None = None, gsd_m: float | None = None
) -> DrawnRoads:
    """Return roads as they were drawn or traced, whatever holds them; see `read_graph`."""
    if isinstance(roads, Graph):
        return roads.drawn
    if isinstance(roads, str | Path):
        placement = find_placement(Path(image) if image else None, gsd_m)
        return read_drawn(only_source(Path(roads)), placement, every_column=True)
    if isinstance(roads, Mask):
        source = RoadSource(Path("the mask"))
        return raster_drawn(source, roads.as_probability(), roads.pixels != IGNORE)
    if isinstance(roads, Probability):
        valid = roads.read_valid(Window(0, 0, *roads.road.shape))
        return raster_drawn(RoadSource(Path("the probability")), roads, valid)
    if hasattr(roads, "adj"):
        from roadseg.roads.formats.graphml import graph_of_network

        return graph_drawn(RoadSource(Path("the graph")), graph_of_network(roads, "the graph"))
    with table_file(roads) as path:
        drawn = read_drawn(RoadSource(path), find_placement(None, None), every_column=True)
    return replace(drawn, source=RoadSource(Path(TABLE)))
