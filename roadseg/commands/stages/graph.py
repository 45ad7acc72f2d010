"""graph: probabilities to road graphs with speeds. Reads probabilities/, writes graphs/."""

import logging
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import cast

import numpy as np

from roadseg.commands.stages.made_from import graph_from
from roadseg.commands.stages.road_networks import RoadNetwork, trace_network, with_origin
from roadseg.config import Config
from roadseg.dataset.chips import read_chips
from roadseg.dataset.held_out import read_predicted
from roadseg.errors import DataError
from roadseg.raster.grid import crs_setting
from roadseg.raster.sources import find_images
from roadseg.roads.formats.by_suffix import check_formats, write_graphs
from roadseg.roads.formats.files import read_gpkg
from roadseg.roads.formats.spacenet_csv import write_submission
from roadseg.roads.graph.cleaning import part_lengths
from roadseg.roads.masks.probabilities import ProbabilityFile, open_probability
from roadseg.roads.tracing.trace import find_graph
from roadseg.system.dry_runs import Amount, Plan, files, plan_stage
from roadseg.system.locks import hold
from roadseg.system.parallel import HERE, Executor, Outcome, each, in_order
from roadseg.system.progress import counted
from roadseg.system.stage_records import StageRecord
from roadseg.system.text import Summary, count
from roadseg.system.units import road_text
from roadseg.system.workspace import NETWORK, SUBMISSION, Workspace, require

_MANY = 2  # From so many scenes on a cluster traces whole scenes beside each other.
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class GraphSummary(Summary):
    """The road graphs of all scenes in figures.

    Attributes:
        scenes: names of those that were traced.
        nodes: number in the graphs of all scenes.
        edges: number in the graphs of all scenes.
        inferred: number of those across gaps.
        road_km: length of all roads.
        folder: where the graphs are.
        parts: connected parts of the graphs of all scenes.
        largest_km: roads of the largest of them.
        joined: names of scenes that touch, in one network.
        joined_parts: connected parts of this network.
        joined_largest_km: roads of the largest of them.
        joined_km: all roads of this network.
        failed: why scenes were skipped, by name.
    """

    scenes: list[str]
    nodes: int
    edges: int
    inferred: int
    road_km: float
    folder: str
    parts: int = 0
    largest_km: float = 0.0
    joined: list[str] = field(default_factory=list)
    joined_parts: int = 0
    joined_largest_km: float = 0.0
    joined_km: float = 0.0
    failed: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return the figures in a sentence."""
        roads = f"{road_text(self.road_km)} of roads in {count(len(self.scenes), 'scene')}"
        graphs = f"{self.nodes} nodes, {self.edges} edges ({self.inferred} across gaps)"
        if self.parts:
            graphs += f", {_parts(self.parts, self.largest_km, self.road_km)}"
        parts = [f"{roads}: {graphs}", self.folder]
        if self.joined:
            of = _parts(self.joined_parts, self.joined_largest_km, self.joined_km)
            network = f"one network of {road_text(self.joined_km)} in {NETWORK}.gpkg"
            parts.append(f"{len(self.joined)} scenes that touch are {network}: {of}")
        if self.failed:
            parts.append(f"{len(self.failed)} skipped")
        return "; ".join(parts)


@dataclass(frozen=True)
class Traced:
    """The road graph of a scene in figures."""

    nodes: int
    edges: int
    inferred: int
    parts: int
    largest_m: float
    length_m: float


def _parts(parts: int, largest_km: float, km: float) -> str:
    """Return in words how well roads are connected."""
    share = f", the largest {largest_km / km:.0%}" if parts > 1 else ""
    return f"{count(parts, 'connected part')}{share}"


def run(config: Config, workspace: Workspace, *, force: bool = False) -> GraphSummary:
    """Find the road graph of every predicted scene of the run."""
    record = _record(config, workspace)
    if not force and (done := record.summary()):
        return done
    names = read_predicted(workspace).scenes
    paths = {name: require(workspace.probability(name), made_by="predict") for name in names}
    folder = workspace.graphs
    # How rasters without a place are read depends on the set of their scene.
    set_of = read_chips(workspace.chips).set_of if workspace.chips.exists() else {}
    record.begin()
    summary = _trace_all(paths, folder, config, set_of)
    written = [*summary.scenes, *([NETWORK] if summary.joined else [])]
    graphs = [folder / f"{name}.{suffix}" for name in written for suffix in config.graph.formats]
    submission = folder / f"{SUBMISSION}.csv"
    record.finish(summary, [path for path in (*graphs, submission) if path.is_file()])
    return summary


def plan(config: Config, workspace: Workspace, *, after: str = "", force: bool = False) -> Plan:
    """Return what `run` would do, if need be after an earlier stage."""
    check_formats(config.graph.formats)
    record = after or _record(config, workspace)
    names = [] if after else read_predicted(workspace).scenes
    return plan_stage(
        record,
        workspace.record("graph"),
        GraphSummary,
        force=force,
        reads=[files("probabilities", map(workspace.probability, names))],
        writes=[workspace.graphs],
        amount=Amount(len(names) or None, lambda done: len(done.scenes), "scenes"),
    )


def plan_images(config: Config, images: Iterable[str], *, output: Path) -> Plan:
    """Return what `run_images` would do."""
    check_formats(config.graph.formats)
    paths = find_images(images)
    _refuse_taken(paths)
    if config.compute.on_error == "stop":
        for path in paths.values():
            _open(path, config)
    reads, writes = [files("images", paths.values())], [str(output / name) for name in paths]
    return Plan("graph", runs=True, why="images are given", reads=reads, writes=writes)


def _record(config: Config, workspace: Workspace) -> StageRecord[GraphSummary]:
    return StageRecord(workspace.record("graph"), GraphSummary, **graph_from(config, workspace))


def run_images(config: Config, images: Iterable[str], *, output: Path) -> GraphSummary:
    """Find the road graph of any masks or probability rasters."""
    paths = find_images(images)
    with hold(output, [f"{name}.gpkg" for name in paths]):
        return _trace_all(paths, output, config, {})


def trace_scene(
    config: Config,
    folder: Path,
    scene: tuple[str, Path, str],
    *,
    executor: Executor = HERE,
) -> Traced:
    """Find the road graph of one scene, given by name, raster and name of its set, and write it.

    Its blocks are the work of the executor.
    """
    name, path, of = scene
    run = partial(in_order, what=name, unit="blocks", executor=executor)
    pixels = _open(path, config.of_set(of))
    graph = find_graph(pixels, config.graph, run=run)
    graph = with_origin(graph, [name], [pixels.model], np.zeros(len(graph.lines), dtype=np.int64))
    write_graphs(folder, name, graph, formats=config.graph.formats, grid=pixels.grid)
    inferred = int(graph.attributes["inferred"].sum())
    metres = part_lengths(graph)
    return Traced(
        nodes=len(graph.nodes),
        edges=len(graph.lines),
        inferred=inferred,
        parts=len(metres),
        largest_m=float(metres.max(initial=0)),
        length_m=float(graph.length_m.sum()),
    )


def _trace_all(
    paths: dict[str, Path], folder: Path, config: Config, set_of: Mapping[str, str]
) -> GraphSummary:
    """Trace all scenes, given by name and raster, and write their graphs and their network.

    Some of them may belong to sets, whose names are given by scene.
    """
    check_formats(config.graph.formats)
    _refuse_taken(paths)
    names = list(paths)
    traced: dict[str, Traced] = {}
    failed: dict[str, str] = {}
    scenes = [(name, path, set_of.get(name, "")) for name, path in paths.items()]
    outcomes = _outcomes(scenes, folder, config)
    for outcome in counted(outcomes, "graph", total=len(names), unit="scenes"):
        if outcome.error is None:
            traced[names[outcome.index]] = cast("Traced", outcome.result)
        elif config.compute.on_error == "stop":
            raise outcome.error
        else:
            _log.warning("skipped %s: %s", names[outcome.index], outcome.error)
            failed[names[outcome.index]] = str(outcome.error)
    if failed and not traced:
        raise DataError(
            f"all {len(failed)} scenes failed, the first: {next(iter(failed.values()))}"
        )
    network = _write_together([scene for scene in scenes if scene[0] in traced], folder, config)
    joined = np.zeros(0) if network is None else part_lengths(network.graph)
    graphs = traced.values()
    return GraphSummary(
        [name for name in names if name in traced],
        nodes=sum(graph.nodes for graph in graphs),
        edges=sum(graph.edges for graph in graphs),
        inferred=sum(graph.inferred for graph in graphs),
        road_km=_km(math.fsum(graph.length_m for graph in graphs)),
        folder=str(folder),
        parts=sum(graph.parts for graph in graphs),
        largest_km=_km(max(graph.largest_m for graph in graphs)),
        joined=[] if network is None else network.scenes,
        joined_parts=len(joined),
        joined_largest_km=_km(float(joined.max(initial=0))),
        joined_km=_km(float(joined.sum())),
        failed=failed,
    )


def _km(metres: float) -> float:
    return round(metres / 1000, 3)


def _refuse_taken(paths: dict[str, Path]) -> None:
    """Refuse scenes whose names are those of the files of all scenes."""
    if taken := sorted({NETWORK, SUBMISSION} & set(paths)):
        raise DataError(f"{paths[taken[0]]}: {taken[0]} names the file of all scenes; rename it")


def _outcomes(
    scenes: list[tuple[str, Path, str]], folder: Path, config: Config
) -> Iterator[Outcome[Traced]]:
    """Trace many scenes beside each other, few scenes one by one with their blocks beside."""
    compute = config.compute
    if len(scenes) >= max(compute.workers, _MANY if compute.scheduler else 1):
        return each(partial(trace_scene, config, folder), scenes, executor=compute.executor)
    return each(partial(trace_scene, config, folder, executor=compute.executor), scenes)


def _write_together(
    scenes: list[tuple[str, Path, str]], folder: Path, config: Config
) -> RoadNetwork | None:
    """Write what is made of all scenes: the CSV, and the network of those that touch (returned)."""
    rasters = {name: _open(path, config.of_set(of)) for name, path, of in scenes}
    if "csv" in config.graph.formats:
        graphs = (
            (name, read_gpkg(folder / f"{name}.gpkg"), rasters[name].grid) for name in rasters
        )
        write_submission(folder / f"{SUBMISSION}.csv", graphs)
    network = trace_network(
        rasters,
        lambda name: read_gpkg(folder / f"{name}.gpkg"),
        options=config.graph,
        executor=config.compute.executor,
    )
    if network is not None:
        # Lines of a CSV are in pixels of one scene, which a network does not have.
        formats = [suffix for suffix in config.graph.formats if suffix != "csv"]
        write_graphs(folder, NETWORK, network.graph, formats=formats)
    return network


def _open(path: Path, config: Config) -> ProbabilityFile:
    """Open a raster; the config knows where one without a CRS or without a place lies."""
    crs = crs_setting(config.imagery.crs, "imagery.crs")
    return open_probability(path, crs=crs, gsd_m=config.imagery.gsd_m)
