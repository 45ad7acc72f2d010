"""The front door for Python: what the commands do, with arrays, graphs and tables as values.

Everything here is also an attribute of `roadseg` itself. Options are keyword arguments with the
names of the config; errors are those of `roadseg.errors`, with one line that says what to do.
"""

import html
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import shapely
from pydantic import ValidationError

from roadseg.config import Config, load_config
from roadseg.errors import ConfigError, DataError
from roadseg.options import Section
from roadseg.raster.options import ImageryOptions
from roadseg.roads.formats.any_roads import (
    DrawnRoads,
    check_nearness,
    common_crs,
    find_pixels,
    place_roads,
    read_drawn,
)
from roadseg.roads.formats.files import WRITERS, write_graphs
from roadseg.roads.formats.pairing import RoadSource, find_sources
from roadseg.roads.formats.tables import edge_table, in_degrees, is_local, node_table
from roadseg.roads.graph.cleaning import components
from roadseg.roads.graph.road_graph import RoadGraph
from roadseg.roads.masks.probabilities import Probability, open_probability
from roadseg.roads.metrics.compare import Measures, compare
from roadseg.roads.options import CompareOptions, DiffOptions, RouteOptions, TraceOptions
from roadseg.system.locks import lock
from roadseg.system.schemas import expected_and_got, first_faults
from roadseg.system.workspace import Workspace

if TYPE_CHECKING:
    import geopandas as gpd
    import networkx as nx

    from roadseg.commands.stages.pipeline import PrepareSummary, RunSummary
    from roadseg.commands.stages.train import TrainSummary
    from roadseg.commands.tools.route import RouteSummary

AnyPath = str | Path
Options = TypeVar("Options", bound=Section)

_MAP_PX = 320  # larger side of the map of a graph in a notebook
_FAULTS = 5  # that an error names one by one
_MOST_DRAWN = 20_000  # edges of such a map


@dataclass(frozen=True, repr=False)
class Graph:
    """A road network with speeds and travel times.

    Attributes:
        roads: nodes and edges as arrays, in metres.
        drawn: the same as they were read or traced, which `score` and `diff` compare.
    """

    roads: RoadGraph
    drawn: DrawnRoads

    @cached_property
    def edges(self) -> "gpd.GeoDataFrame":
        """Edges as the GeoPackage has them: u, v, key, length, speed_kph, travel_time, ..."""
        return edge_table(self.roads)

    @cached_property
    def nodes(self) -> "gpd.GeoDataFrame":
        """Nodes: osmid (the row), x and y in metres, street_count, maybe_bridge, the point."""
        return node_table(self.roads)

    @property
    def length_km(self) -> float:
        """Length of all roads, each once."""
        return float(self.roads.length_m.sum()) / 1000

    @cached_property
    def largest_part(self) -> float:
        """Share of the length that the largest connected part has; 0 of an empty graph."""
        if not len(self.roads.lines):
            return 0.0
        part = components(self.roads)[self.roads.ends[:, 0]]
        lengths = np.bincount(part, weights=self.roads.length_m)
        return float(lengths.max() / lengths.sum())

    def to_networkx(self) -> "nx.MultiDiGraph[int]":
        """Return it as osmnx has graphs: nodes x, y; each edge in both directions.

        Coordinates are longitude and latitude; a graph without a place on earth keeps its metres,
        and has no `crs`.
        """
        import networkx as nx  # noqa: PLC0415 - slow to import

        local = is_local(self.roads.crs)
        lines, places = (self.roads.lines, self.roads.nodes) if local else in_degrees(self.roads)
        network: nx.MultiDiGraph[int] = nx.MultiDiGraph()
        network.graph |= {} if local else {"crs": "epsg:4326"}
        streets = self.nodes["street_count"].tolist()
        for node, (xy, count) in enumerate(zip(places.tolist(), streets, strict=True)):
            network.add_node(node, x=xy[0], y=xy[1], street_count=count)
        rows = self.edges.drop(columns=["geometry", "u", "v", "key"]).to_dict("records")
        ends = self.edges[["u", "v", "key"]].to_numpy().tolist()
        for (u, v, key), line, row in zip(ends, lines, rows, strict=True):
            network.add_edge(u, v, key=key, geometry=line, oneway=False, reversed=False, **row)
            if u != v:
                back = shapely.reverse(line)
                network.add_edge(v, u, key=key, geometry=back, oneway=False, reversed=True, **row)
        return network

    def save(self, path: AnyPath) -> Path:
        """Write it in the format of the suffix: .gpkg, .geojson, .graphml, .parquet or .osm.

        Raises:
            ConfigError: if the suffix is another one, or the format needs what is not installed.
            OutputError: if the file cannot be written.
        """
        target = Path(path)
        kind = target.suffix.removeprefix(".")
        if kind not in WRITERS:
            suffixes = ", ".join(f".{name}" for name in WRITERS)
            raise ConfigError(f"{target}: expected a file that ends in {suffixes}")
        write_graphs(target.parent, target.stem, self.roads, formats=(kind,))
        return target

    def __repr__(self) -> str:
        """Say how large it is and where it lies."""
        nodes, edges = len(self.roads.nodes), len(self.roads.lines)
        parts = f"largest connected part {self.largest_part:.0%}"
        place = "local metres" if is_local(self.roads.crs) else self.roads.crs.name
        return f"<Graph: {self.length_km:.2f} km, {nodes} nodes, {edges} edges; {parts}; {place}>"

    def _repr_html_(self) -> str:
        """Show a small map and the figures in a notebook."""
        return f"<div>{_svg(self.roads)}<br>{html.escape(repr(self)[1:-1])}</div>"


@dataclass(frozen=True)
class AplsScores:
    """APLS by length and by travel time, 0 to 1; `time` is None where the protocol has none."""

    length: float
    time: float | None


@dataclass(frozen=True)
class Scores:
    """How alike two road networks are.

    Attributes:
        apls: by length and by travel time.
        measures: all that is measured, as values of `roadseg.roads.metrics`.
    """

    apls: AplsScores
    measures: Measures = field(repr=False)

    @property
    def topo(self) -> Any:  # noqa: ANN401 - a value of metrics, or None where it is too large
        """Precision, recall and F1 of TOPO."""
        return self.measures.topo

    @property
    def buffer(self) -> Any:  # noqa: ANN401 - a value of metrics
        """Correctness, completeness and quality within the tolerance."""
        return self.measures.buffer

    @property
    def table(self) -> dict[str, float | None]:
        """The figures by name."""
        topo, buffer = self.measures.topo, self.measures.buffer
        return {
            "apls_length": self.apls.length,
            "apls_time": self.apls.time,
            "topo_f1": topo.f1 if topo else None,
            **{name: getattr(buffer, name) for name in ("correctness", "completeness", "quality")},
            "reference_km": self.measures.reference.road_km,
            "predicted_km": self.measures.predicted.road_km,
        }

    def __str__(self) -> str:
        """Lay the figures out, one on a line."""
        return "\n".join(f"{name:<14}{_figure(value)}" for name, value in self.table.items())

    def _repr_html_(self) -> str:
        """Show the figures as a table in a notebook."""
        rows = (
            f"<tr><th>{name}</th><td>{_figure(value)}</td></tr>"
            for name, value in self.table.items()
        )
        return f"<table>{''.join(rows)}</table>"


@dataclass(frozen=True)
class Route:
    """A way between two places.

    Attributes:
        graph: its edges in the order in which they are driven.
        summary: time, length and sections, as `roadseg route` prints them.
    """

    graph: Graph = field(repr=False)
    summary: "RouteSummary"

    @property
    def seconds(self) -> float | None:
        """Time to drive it; None if the graph has no travel times."""
        return self.summary.seconds

    @property
    def length_m(self) -> float:
        """Length of all of it."""
        return self.summary.length_m

    def __str__(self) -> str:
        """Lay it out as `roadseg route` does."""
        return str(self.summary)

    def _repr_html_(self) -> str:
        """Show it on a small map in a notebook."""
        return f"<div>{_svg(self.graph.roads)}<pre>{html.escape(str(self))}</pre></div>"


@dataclass(frozen=True)
class Differences:
    """Roads that one network has and the other lacks, in metres.

    Attributes:
        missing_in_reference: predicted roads that the reference lacks.
        missing_in_predicted: roads of the reference that the prediction lacks.
    """

    missing_in_reference: "gpd.GeoDataFrame"
    missing_in_predicted: "gpd.GeoDataFrame"

    def __repr__(self) -> str:
        """Say how much is missing on either side."""
        km = {name: table.length.sum() / 1000 for name, table in vars(self).items()}
        return f"<Differences: {', '.join(f'{name} {each:.2f} km' for name, each in km.items())}>"


def predict(
    image: AnyPath,
    checkpoint: AnyPath | Sequence[AnyPath],
    **options: Any,  # noqa: ANN401 - of several sections
) -> Probability:
    """Predict the roads of an image that fits into memory; `roadseg predict` takes any size.

    Args:
        image: any raster that GDAL reads.
        checkpoint: folder of a trained network, or several whose probabilities are averaged.
        options: of the sections predict, imagery and compute of the config, such as `tta=True`,
            `engine="eager"`, `device="cpu"`, `bands=(1, 2, 3)`.

    Returns:
        Probabilities of any road and of each speed bin, with their grid.

    Raises:
        CheckpointError: if a checkpoint cannot be read, or was trained on other pixels.
        DataError: if the image cannot be read.
        ConfigError: if there is no such option.
    """
    from roadseg.learn.inference.tasks import predict_scene  # noqa: PLC0415 - torch is slow
    from roadseg.learn.options import ComputeOptions, PredictOptions  # noqa: PLC0415 - alike

    several = [checkpoint] if isinstance(checkpoint, str | Path) else checkpoint
    folders = tuple(Path(folder).absolute() for folder in several)
    sections = _sections(options, PredictOptions, ImageryOptions, ComputeOptions)
    return predict_scene(Path(image).absolute(), folders, *sections)


def trace(probability: Probability | AnyPath, **options: Any) -> Graph:  # noqa: ANN401 - see below
    """Trace the road network in probabilities or in a mask.

    Args:
        probability: what `predict` returned, or a raster of probabilities or of a mask.
        options: those of the section graph of the config that say how roads are traced, such as
            `threshold=0.5`, `max_gap_m=30`.

    Raises:
        DataError: if the raster cannot be read.
        ConfigError: if there is no such option, or it has a value beyond its limits.
    """
    from roadseg.roads.tracing.trace import find_graph  # noqa: PLC0415 - skimage is slow

    how = _options(TraceOptions, options)
    if isinstance(probability, Probability):
        source, roads = RoadSource(Path("a traced graph")), find_graph(probability, how)
        bins = probability.speed_bins
    else:
        file = open_probability(Path(probability))
        source, roads, bins = RoadSource(Path(probability)), find_graph(file, how), file.speed_bins
    is_assumed = np.full(len(roads.lines), bins is None)
    return Graph(roads, DrawnRoads(source, roads, is_joined=True, is_assumed=is_assumed))


def read_graph(path: AnyPath, *, image: AnyPath | None = None, gsd_m: float | None = None) -> Graph:
    """Read roads of any file that `roadseg score` reads: graphs, lines, masks, probabilities.

    Args:
        path: GeoPackage, GeoJSON, GraphML, Shapefile, FlatGeobuf, GeoParquet, OSM, SpaceNet's CSV,
            or a raster, which is traced.
        image: image that the lines of a CSV are drawn on, in pixels.
        gsd_m: metres of a pixel of a CSV without image, or of a raster without georeference.

    Raises:
        DataError: if the file cannot be read, or holds roads of several places.
        ConfigError: if lines are in pixels, and neither `image` nor `gsd_m` is given.
    """
    drawn = _read(Path(path), image, gsd_m)
    return Graph(place_roads(drawn, common_crs(drawn, None)).graph, drawn)


def score(
    reference: Graph | AnyPath,
    predicted: Graph | AnyPath,
    **options: Any,  # noqa: ANN401 - below
) -> Scores:
    """Compare a predicted network with a reference: APLS, TOPO, correctness and completeness.

    Args:
        reference: roads that are known: a graph, or any file that `read_graph` reads.
        predicted: alike.
        options: `protocol` ("spacenet" or "sat2graph"), `spacing_m`, `snap_m`, `tolerance_m`.

    Raises:
        DataError: if a file cannot be read, or both are of different places.
        ConfigError: if there is no such option.
    """
    how = _options(CompareOptions, options)
    ours, theirs = _drawn(reference), _drawn(predicted)
    crs = common_crs(ours, theirs)
    here, there = place_roads(ours, crs), place_roads(theirs, crs)
    check_nearness(here, there, str(theirs.source))
    measures = compare(here, there, how)
    time = measures.time.score if measures.time else None
    return Scores(AplsScores(measures.length.score, time), measures)


def route(
    graph: Graph | AnyPath,
    start: tuple[float, float],
    goal: tuple[float, float],
    **options: Any,  # noqa: ANN401 - of one section
) -> Route:
    """Find the fastest or the shortest way between two places.

    Args:
        graph: a graph, or a file of one.
        start: longitude and latitude; x and y of a graph without a place on earth.
        goal: alike.
        options: `weight`, what is least, "time" or "length"; `snap_m`, the greatest distance of
            start and goal from the nearest road, metres.

    Raises:
        ConfigError: if a place is not near the roads.
        RoadsegError: if there is no way.
    """
    from roadseg.commands.tools.route import find_route  # noqa: PLC0415 - slow to import

    how = _options(RouteOptions, options)
    found = graph if isinstance(graph, Graph) else read_graph(graph)
    name = str(found.drawn.source)
    way, summary = find_route(found.roads, start, goal, how, name=name)
    is_assumed = np.zeros(len(way.lines), dtype=bool)
    drawn = DrawnRoads(found.drawn.source, way, is_joined=True, is_assumed=is_assumed)
    return Route(Graph(way, drawn), summary)


def diff(
    predicted: Graph | AnyPath,
    reference: Graph | AnyPath,
    **options: Any,  # noqa: ANN401 - of one section
) -> Differences:
    """Find the roads that each of two networks lacks.

    Args:
        predicted: a graph, or any file that `read_graph` reads.
        reference: alike.
        options: `tolerance_m`, the distance up to which roads are the same; `min_length_m`, what
            is shorter is left out.
    """
    from roadseg.commands.tools.diff import (  # noqa: PLC0415 - slow to import
        IN_PREDICTED,
        IN_REFERENCE,
        find_missing,
    )

    limits = _options(DiffOptions, options)
    _, missing = find_missing(_drawn(predicted), _drawn(reference), limits)
    return Differences(edge_table(missing[IN_REFERENCE]), edge_table(missing[IN_PREDICTED]))


def run(
    config: AnyPath | Config | None = None,
    *,
    overrides: Mapping[str, Any] | None = None,
    fold: int = 0,
    force: bool = False,
) -> "RunSummary":
    """Do all stages, from masks to the report, as `roadseg run`; what is done is not repeated.

    Args:
        config: JSON file, or a config that is loaded; None takes the defaults.
        overrides: options by their keys, such as `{"train.epochs": 10}`.
        fold: the fold held out.
        force: do every stage again.
    """
    from roadseg.commands.stages import pipeline  # noqa: PLC0415 - slow to import

    with _run_folder(config, overrides) as (loaded, workspace):
        return pipeline.run(loaded, workspace, fold=fold, force=force, say=lambda *_: None)


def prepare(
    config: AnyPath | Config | None = None,
    *,
    overrides: Mapping[str, Any] | None = None,
    force: bool = False,
) -> "PrepareSummary":
    """Make masks, chips and folds, as `roadseg prepare`; see `run` for the arguments."""
    from roadseg.commands.stages import pipeline  # noqa: PLC0415 - slow to import

    with _run_folder(config, overrides) as (loaded, workspace):
        return pipeline.prepare(loaded, workspace, force=force)


def train(
    config: AnyPath | Config | None = None,
    *,
    overrides: Mapping[str, Any] | None = None,
    fold: int = 0,
    force: bool = False,
) -> "TrainSummary":
    """Train on all folds but one, as `roadseg train`; see `run` for the arguments."""
    from roadseg.commands.stages import train as stage  # noqa: PLC0415 - torch is slow

    with _run_folder(config, overrides, part=f"fold-{fold}") as (loaded, workspace):
        return stage.run(loaded, workspace, fold=fold, force=force)


@contextmanager
def _run_folder(
    config: AnyPath | Config | None, overrides: Mapping[str, Any] | None, *, part: str | None = None
) -> Iterator[tuple[Config, Workspace]]:
    """Read a config, and keep other processes out of its run folder inside the block."""
    changes = [
        f"{key}={json.dumps(value, default=str)}" for key, value in (overrides or {}).items()
    ]
    if isinstance(config, Config):
        if changes:
            raise ConfigError("overrides: expected none beside a config that is loaded")
        loaded = config
    else:
        loaded = load_config(None if config is None else Path(config), changes)
    workspace = Workspace(loaded.run)
    with lock(workspace.root, part=part, alone=part is None):
        yield loaded, workspace


def _options(kind: type[Options], given: Mapping[str, Any]) -> Options:
    """Return options of one section.

    Raises:
        ConfigError: naming an option that is not known, or a value beyond its limits.
    """
    (found,) = _sections(given, kind)
    return cast("Options", found)


def _sections(given: Mapping[str, Any], *kinds: type[Section]) -> list[Any]:
    """Return the options of several sections, each of which takes those that it knows."""
    known = [name for kind in kinds for name in kind.model_fields]
    if unknown := set(given) - set(known):
        raise ConfigError(
            f"{min(unknown)}: no such option, expected one of {', '.join(sorted(known))}"
        )
    try:
        return [
            kind.model_validate_json(json.dumps(_known(given, kind), default=str)) for kind in kinds
        ]
    except ValidationError as error:
        raise ConfigError(first_faults(error, _told, most=_FAULTS)) from error


def _known(given: Mapping[str, Any], kind: type[Section]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name in kind.model_fields}


def _told(fault: Mapping[str, Any]) -> str:
    return f"{'.'.join(map(str, fault['loc'])) or 'options'}: {expected_and_got(fault)}"


def _drawn(roads: Graph | AnyPath) -> DrawnRoads:
    return roads.drawn if isinstance(roads, Graph) else _read(Path(roads), None, None)


def _read(path: Path, image: AnyPath | None, gsd_m: float | None) -> DrawnRoads:
    sources = list(find_sources(path).values())
    if len(sources) != 1:
        raise DataError(f"{path}: holds {len(sources)} places with roads, expected one; name it")
    return read_drawn(sources[0], find_pixels(Path(image) if image else None, gsd_m))


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _svg(graph: RoadGraph) -> str:
    """Draw roads, links across gaps in another colour."""
    lines = graph.lines[:_MOST_DRAWN]
    if not len(lines):
        return ""
    west, south, east, north = shapely.total_bounds(lines)
    scale = _MAP_PX / max(east - west, north - south, 1e-9)
    width, height = (east - west) * scale + 8, (north - south) * scale + 8
    inferred = graph.attributes.get("inferred", np.zeros(len(graph.lines)))[:_MOST_DRAWN] == 1
    drawn = shapely.simplify(
        shapely.transform(
            lines, lambda xy: np.column_stack([xy[:, 0] - west, north - xy[:, 1]]) * scale + 4
        ),
        0.3,
    )
    strokes = (
        f'<path d="{" ".join(map(_path, drawn[chosen]))}" fill="none" stroke="{colour}" '
        'stroke-width="1.5"/>'
        for chosen, colour in ((~inferred, "#0072B2"), (inferred, "#D55E00"))
        if chosen.any()
    )
    size = f'width="{width:.0f}" height="{height:.0f}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{"".join(strokes)}</svg>'


def _path(line: shapely.LineString) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in shapely.get_coordinates(line))
