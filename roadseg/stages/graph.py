"""graph: probabilities to road graphs with speeds. Reads probabilities/, writes graphs/."""

import logging
import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from roadseg.cluster import Outcome, each, in_order
from roadseg.core.extraction import find_graph
from roadseg.core.joining import in_crs, join_scenes, touching
from roadseg.core.roads import reproject
from roadseg.core.wording import count
from roadseg.errors import DataError
from roadseg.io.graphs import check_formats, read_graph, write_graphs
from roadseg.io.locks import hold
from roadseg.io.probabilities import open_probability
from roadseg.io.progress import counted
from roadseg.io.rasters import read_grid
from roadseg.io.records import StageRecord, read_key, read_summary
from roadseg.io.sources import find_images
from roadseg.io.submissions import write_submission
from roadseg.labels import crs_setting
from roadseg.plans import Amount, Plan, files, plan_stage
from roadseg.scoring import extraction_of
from roadseg.settings import Config
from roadseg.workspace import Workspace, require

NETWORK, SUBMISSION = "network", "submission"  # files of all scenes
_MANY = 2  # scenes that a cluster does beside each other
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class GraphSummary:
    """What was found."""

    scenes: list[str]
    nodes: int
    edges: int
    inferred: int
    road_km: float
    folder: str
    joined: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """Say it in a sentence."""
        found = f"{self.road_km:.2f} km of roads in {count(len(self.scenes), 'scene')}"
        parts = [
            f"{found}: {self.nodes} nodes, {self.edges} edges ({self.inferred} across gaps)",
            self.folder,
        ]
        if self.joined:
            parts.append(f"{len(self.joined)} scenes that touch are one network in {NETWORK}.gpkg")
        if self.failed:
            parts.append(f"{len(self.failed)} skipped")
        return "; ".join(parts)


@dataclass(frozen=True)
class Traced:
    """What was found in a scene."""

    nodes: int
    edges: int
    inferred: int
    length_m: float


def run(config: Config, workspace: Workspace, *, force: bool = False) -> GraphSummary:
    """Find the road graph of every predicted scene of the run."""
    record = _record(config, workspace)
    if not force and (done := record.summary()) and not done.get("failed"):
        return GraphSummary(**done)
    paths = _predicted(workspace)
    record.begin()
    summary = _find_all(paths, workspace.graphs, config)
    record.finish(asdict(summary))
    return summary


def plan(config: Config, workspace: Workspace, *, after: str = "", force: bool = False) -> Plan:
    """Say what `run` would do, if need be after an earlier stage."""
    check_formats(config.graph.formats)
    record = after or _record(config, workspace)
    paths = {} if after else _predicted(workspace)
    return plan_stage(
        record,
        workspace.record("graph"),
        force=force,
        reads=[files("probabilities", paths.values())],
        writes=[workspace.graphs],
        amount=Amount(len(paths) or None, lambda r: len(r["summary"]["scenes"]), "scenes"),
    )


def plan_images(config: Config, images: Iterable[str], *, output: Path) -> Plan:
    """Say what `run_images` would do."""
    check_formats(config.graph.formats)
    paths = find_images(images)
    _refuse_taken(paths)
    if config.compute.on_error == "stop":
        for path in paths.values():
            open_probability(path, **_place(config))
    reads, writes = [files("images", paths.values())], [str(output / name) for name in paths]
    return Plan("graph", runs=True, why="images are given", reads=reads, writes=writes)


def _record(config: Config, workspace: Workspace) -> StageRecord:
    predicted = require(workspace.record("predict"), made_by="predict")
    return StageRecord(
        workspace.record("graph"),
        settings=config.graph.model_dump(mode="json"),
        inputs=[read_key(predicted)],
    )


def _predicted(workspace: Workspace) -> dict[str, Path]:
    """Return the rasters of the scenes that were predicted."""
    names = read_summary(workspace.record("predict"))["scenes"]
    return {name: require(workspace.probability(name), made_by="predict") for name in names}


def run_images(config: Config, images: Iterable[str], *, output: Path) -> GraphSummary:
    """Find the road graph of any masks or probability rasters."""
    paths = find_images(images)
    with hold(output, [f"{name}.gpkg" for name in paths]):
        return _find_all(paths, output, config)


def trace_scene(
    config: Config,
    folder: Path,
    scene: tuple[str, Path],
    **where: Any,  # noqa: ANN401 - as in `cluster.each`
) -> Traced:
    """Find the road graph of one scene, given by name and raster, and write it.

    Its blocks are the work of processes, or of a Dask scheduler, as the options of `cluster.each`
    say.
    """
    name, path = scene
    run = partial(in_order, what=name, unit="blocks", **where)
    pixels = open_probability(path, **_place(config))
    graph = find_graph(pixels, extraction_of(config), run=run)
    told = {
        "source": np.full(len(graph.lines), name),
        "model": np.full(len(graph.lines), pixels.model),
    }
    graph = replace(graph, attributes={**graph.attributes, **told})
    write_graphs(folder, name, graph, formats=config.graph.formats, grid=pixels.grid)
    inferred = int(graph.attributes["inferred"].sum())
    return Traced(len(graph.nodes), len(graph.lines), inferred, float(graph.length_m.sum()))


def _find_all(paths: dict[str, Path], folder: Path, config: Config) -> GraphSummary:
    check_formats(config.graph.formats)
    _refuse_taken(paths)
    names = list(paths)
    traced: dict[str, Traced] = {}
    failed: dict[str, str] = {}
    outcomes = _outcomes(paths, folder, config)
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
    found = {name: paths[name] for name in names if name in traced}
    return GraphSummary(
        list(found),
        nodes=sum(one.nodes for one in traced.values()),
        edges=sum(one.edges for one in traced.values()),
        inferred=sum(one.inferred for one in traced.values()),
        road_km=round(math.fsum(one.length_m for one in traced.values()) / 1000, 3),
        folder=str(folder),
        joined=_write_together(found, folder, config),
        failed=failed,
    )


def _refuse_taken(paths: dict[str, Path]) -> None:
    if taken := sorted({NETWORK, SUBMISSION} & set(paths)):
        raise DataError(f"{paths[taken[0]]}: {taken[0]} names the file of all scenes; rename it")


def _outcomes(paths: dict[str, Path], folder: Path, config: Config) -> Iterator[Outcome[Traced]]:
    """Trace many scenes beside each other, few scenes one by one with their blocks beside."""
    compute, scenes = config.compute, list(paths.items())
    if len(scenes) >= max(compute.workers, _MANY if compute.scheduler else 1):
        return each(partial(trace_scene, config, folder), scenes, **compute.where)
    return each(partial(trace_scene, config, folder, **compute.where), scenes)


def _write_together(paths: dict[str, Path], folder: Path, config: Config) -> list[str]:
    """Write what is made of all scenes: the network of those that touch (returned), and the CSV."""
    grids = {name: read_grid(path, **_place(config)) for name, path in paths.items()}
    if "csv" in config.graph.formats:
        scenes = ((name, read_graph(folder / f"{name}.gpkg"), grids[name]) for name in paths)
        write_submission(folder / f"{SUBMISSION}.csv", scenes)
    placed = [name for name, grid in grids.items() if not grid.is_local]
    if config.graph.join_m == 0 or len(placed) < 2:  # noqa: PLR2004 - two scenes can touch
        return []
    crs = grids[placed[0]].metric_crs
    outlines = np.array([grids[name].footprint for name in placed], dtype=object)
    areas = np.array(
        [reproject(outlines[[row]], grids[name].crs, crs)[0] for row, name in enumerate(placed)]
    )
    rows = np.unique(touching(areas, within_m=config.graph.join_m))
    if len(rows) == 0:
        return []
    names = [placed[row] for row in rows]
    graphs = [in_crs(read_graph(folder / f"{name}.gpkg"), crs) for name in names]
    network = join_scenes(graphs, areas[rows], within_m=config.graph.join_m)
    formats = [one for one in config.graph.formats if one != "csv"]
    write_graphs(folder, NETWORK, network, formats=formats)
    return names


def _place(config: Config) -> dict[str, Any]:
    """Return what is known of where rasters without a CRS or without a place lie."""
    crs = crs_setting(config.imagery.crs, "imagery.crs")
    return {"crs": crs, "gsd_m": config.imagery.gsd_m}
