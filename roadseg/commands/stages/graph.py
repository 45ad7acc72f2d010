"""graph: probabilities to road graphs with speeds. Reads probabilities/, writes graphs/.

In a run, the confidence of edges is calibrated by the labels of the chips held out.
"""

import logging
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeVar, cast

import numpy as np

from roadseg.commands.stages.calibrate_edges import least_threshold, measure_run, write_calibrations
from roadseg.commands.stages.declared_stages import declared_stage
from roadseg.commands.stages.road_networks import RoadNetwork, trace_network, with_origin
from roadseg.config import Config
from roadseg.dataset.chips import read_chips
from roadseg.dataset.edge_calibration import Calibration, calibrate
from roadseg.dataset.fold_files import held_out_chips, read_predicted
from roadseg.dataset.scene_parts import images_in_area, open_scene_probability
from roadseg.errors import ConfigError, DataError, RoadsegError
from roadseg.roads.formats.by_suffix import check_formats, write_graphs
from roadseg.roads.formats.files import is_traced, read_gpkg
from roadseg.roads.formats.spacenet_csv import write_submission
from roadseg.roads.graph.cleaning import part_lengths
from roadseg.roads.graph.road_graph import RoadGraph
from roadseg.roads.logistic import EdgeModel
from roadseg.roads.masks.probabilities import ProbabilityFile
from roadseg.roads.tracing.edge_confidence import mean_confidence
from roadseg.roads.tracing.trace import rate_edges, trace_and_measure
from roadseg.system.dry_runs import Plan
from roadseg.system.parallel import each, in_order
from roadseg.system.progress import counted
from roadseg.system.text import Summary, all_failed, count, first
from roadseg.system.units import road_text
from roadseg.system.workspace import ROAD_NETWORK, SUBMISSION, Workspace, require

DOUBTFUL = 0.6  # Confidence below which roads are doubtful.
_UNRELIABLE = 0.2  # Expected calibration error from which confidence says little.
_SHOWN = 3  # Doubtful scenes that the warning names.
_log = logging.getLogger(__name__)

Result = TypeVar("Result")


@dataclass(frozen=True)
class GraphSummary(Summary):
    """The road graphs of all scenes in figures.

    Attributes:
        scenes: names of the traced scenes.
        inferred: number of edges across gaps.
        parts: connected parts of the graphs of all scenes.
        largest_km: length of the roads in the largest of them.
        joined: names of the scenes that touch each other, which share one network.
        joined_parts: connected parts of this network.
        joined_largest_km: length of the roads in the largest of them.
        joined_km: length of all roads of this network.
        found_km: length of all roads of the scenes, kept or not.
        emptied: number of scenes in which roads were found, but none is kept.
        calibration: confidence of edges, as measured on held-out chips; None if not measured.
        confidence: mean confidence of the roads of each scene with roads, by name.
        failed: reasons why scenes were skipped, by name.
        outside: number of images left out because they lie outside of the area to work in.
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
    found_km: float = 0.0
    emptied: int = 0
    calibration: Calibration | None = None
    confidence: dict[str, float] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    outside: int = 0

    @property
    def network(self) -> str:
        """Size, connectivity and file of the network of scenes that touch, as text."""
        parts = _parts_text(self.joined_parts, self.joined_largest_km, self.joined_km)
        return f"{road_text(self.joined_km)} in {ROAD_NETWORK}.gpkg, {parts}"

    def __str__(self) -> str:
        """Return the figures in a sentence."""
        roads = f"{road_text(self.road_km)} of roads in {count(len(self.scenes), 'scene')}"
        graphs = f"{count(self.nodes, 'node')}, {count(self.edges, 'edge')}"
        graphs += f" ({self.inferred} across gaps)"
        # Where all scenes are joined, only the parts of their network say how well it is connected.
        if self.parts and len(self.joined) < len(self.scenes):
            graphs += f", {_parts_text(self.parts, self.largest_km, self.road_km)}"
        parts = [f"{roads}: {graphs}", self.folder]
        if self.joined:
            parts.append(f"{len(self.joined)} adjoining scenes form one network: {self.network}")
        if self.calibration:
            parts.append(str(self.calibration))
        if self.failed:
            parts.append(f"{count(len(self.failed), 'scene')} skipped")
        if self.outside:
            parts.append(f"{count(self.outside, 'image')} outside of the area")
        return "; ".join(parts)


@dataclass(frozen=True)
class SceneToTrace:
    """A scene whose roads are to be traced.

    Attributes:
        path: path of its raster of probabilities, or of its mask.
        set: name of its set; empty if there is none.
        edge_model: model of the confidence of edges; None for the model in the raster.
        graph: all its roads; None if they are not traced yet.
    """

    name: str
    path: Path
    set: str = ""
    edge_model: EdgeModel | None = None
    graph: RoadGraph | None = None

    def open(self, config: Config) -> ProbabilityFile:
        """Open the raster, with the CRS or pixel size of the config if it has none."""
        pixels = open_scene_probability(self.path, config.of_set(self.set).imagery)
        return replace(pixels, edge_model=self.edge_model) if self.edge_model else pixels


@dataclass(frozen=True)
class Traced:
    """Figures of the road graph of a scene.

    Attributes:
        parts: number of connected parts.
        largest_m: length of the roads in the largest of them.
        found_m: length of all roads, kept or not.
        confidence: mean confidence of the roads; None if there is no road.
    """

    nodes: int
    edges: int
    inferred: int
    parts: int
    largest_m: float
    length_m: float
    found_m: float
    confidence: float | None


def _parts_text(parts: int, largest_km: float, km: float) -> str:
    """Return the number of connected parts, and the share of the largest, in words."""
    share = f", the largest {largest_km / km:.0%}" if parts > 1 else ""
    return f"{count(parts, 'connected part')}{share}"


def run(config: Config, workspace: Workspace, *, force: bool = False) -> GraphSummary:
    """Find the road graph of every predicted scene of the run."""
    stage = declared_stage("graph", config, workspace)
    if done := stage.summary(GraphSummary, force=force):
        return done
    predicted = read_predicted(workspace)
    names = predicted.scenes
    paths = {name: require(workspace.probability(name), made_by="predict") for name in names}
    folder = workspace.graphs
    # How rasters without a place are read depends on the set of their scene.
    set_of = read_chips(workspace.chips).set_of if workspace.chips.exists() else {}
    scenes = [SceneToTrace(name, path, set_of.get(name, "")) for name, path in paths.items()]
    stage.begin()
    scenes, calibration = _calibrated(scenes, config, workspace)
    calibration_files = write_calibrations(workspace, predicted, calibration)
    summary = _trace_all(scenes, folder, config, calibration=calibration)
    traced = [*summary.scenes, *([ROAD_NETWORK] if summary.joined else [])]
    graphs = [folder / f"{name}.{suffix}" for name in traced for suffix in config.graph.formats]
    written = [path for path in (*graphs, folder / f"{SUBMISSION}.csv") if path.exists()]
    stage.finish(summary, [*written, *calibration_files])
    return summary


def plan_images(config: Config, images: Iterable[str], *, output: Path) -> Plan:
    """Return what `run_images` would do."""
    check_formats(config.graph.formats)
    paths, _ = images_in_area(images, config.imagery)
    _refuse_taken(paths)
    _refuse_others(paths, output, config)
    if config.compute.on_error == "stop":
        for name, path in paths.items():
            SceneToTrace(name, path).open(config)
    why = f"{count(len(paths), 'image')} given"
    return Plan("graph", runs=True, why=why, writes=[str(output / name) for name in paths])


def run_images(config: Config, images: Iterable[str], *, output: Path) -> GraphSummary:
    """Find the road graph of any masks or probability rasters."""
    paths, outside = images_in_area(images, config.imagery)
    _refuse_others(paths, output, config)
    scenes = [SceneToTrace(name, path) for name, path in paths.items()]
    summary = _trace_all(scenes, output, config, outside=outside)
    if summary.scenes and not summary.found_km:
        _log.warning(
            "no roads were found; if there should be any, check the values, the nodata value, and "
            "graph.threshold"
        )
    return summary


def find_roads(config: Config, scene: SceneToTrace, *, workers: int = 1) -> RoadGraph:
    """Find all roads of a scene, however sure they are; several processes share its blocks."""
    map_blocks = partial(in_order, what=scene.name, unit="blocks", workers=workers)
    return trace_and_measure(scene.open(config), config.graph, map_blocks=map_blocks)


def _trace_scene(config: Config, folder: Path, scene: SceneToTrace, *, workers: int = 1) -> Traced:
    """Find all roads of a scene, unless they are known, and write those that are sure enough.

    Args:
        workers: number of processes that share the blocks of the scene.
    """
    pixels, name = scene.open(config), scene.name
    roads = scene.graph or find_roads(config, scene, workers=workers)
    graph = rate_edges(roads, pixels, config.graph)
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
        found_m=float(roads.length_m.sum()),
        confidence=mean_confidence(graph),
    )


def _calibrated(
    scenes: list[SceneToTrace], config: Config, workspace: Workspace
) -> tuple[list[SceneToTrace], Calibration | None]:
    """Trace the scenes with held-out chips, and calibrate the confidence of edges on these chips.

    If the threshold is "auto", the least threshold of graphs is determined first.

    Returns:
        All scenes, with the graphs and the model of edges that were found; and the calibration,
        None if there is none.
    """
    if not workspace.chips.exists():
        return scenes, None
    listed, predicted = read_chips(workspace.chips), read_predicted(workspace)
    chips_of = held_out_chips(workspace, listed, predicted)
    held_out = [scene for scene in scenes if scene.name in chips_of]
    least: float | None = None
    if config.graph.threshold == "auto":
        least = least_threshold(config, workspace, listed, chips_of)
    # Only its threshold counts as long as the confidence of edges is not asked for.
    model = EdgeModel(0.0, {}, least)
    held_out = [replace(scene, edge_model=model) for scene in held_out]
    # Why others cannot be traced is said when their graphs are written.
    graphs, _ = _results(partial(find_roads, config), held_out, config, what="trace", told=False)
    in_turn = {scene.name: graphs[scene.name] for scene in held_out if scene.name in graphs}
    try:
        measured = measure_run(config, workspace, listed, chips_of, in_turn)
    except RoadsegError as error:
        _log.warning("confidence is not calibrated, because labels cannot be read: %s", error)
        measured = None
    if measured is None:
        # The threshold is kept with the confidence only: without it, that of the network counts.
        return [
            replace(scene, graph=graphs.get(scene.name) if least is None else None)
            for scene in scenes
        ], None
    calibration = calibrate(measured, least_threshold=least)
    if calibration.reliability and calibration.reliability.error > _UNRELIABLE:
        _log.warning(
            "the confidence of roads is unreliable: at held-out places it is off by %.2f on "
            "average; label more than %s",
            *(calibration.reliability.error, count(calibration.places, "place")),
        )
    return [
        replace(scene, edge_model=calibration.model_of(scene.set), graph=graphs.get(scene.name))
        for scene in scenes
    ], calibration


def _warn_of_doubt(summary: GraphSummary) -> None:
    """Warn of scenes whose roads are doubtful, the least sure ones first."""
    ranked = sorted(summary.confidence.items(), key=lambda scene: scene[1])
    if doubtful := [f"{name} ({mean:.2f})" for name, mean in ranked if round(mean, 2) < DOUBTFUL]:
        # Only the networks of a run with labels are calibrated.
        how = "longer, or with more labels" if summary.calibration else "with labels"
        _log.warning(
            "%d of %s %s doubtful (mean confidence of the roads below %g): %s; check the roads "
            "there, or train %s of such images",
            *(len(doubtful), count(len(ranked), "scene"), "is" if len(doubtful) == 1 else "are"),
            *(DOUBTFUL, first(doubtful, _SHOWN), how),
        )


def _trace_all(
    scenes: list[SceneToTrace],
    folder: Path,
    config: Config,
    *,
    calibration: Calibration | None = None,
    outside: int = 0,
) -> GraphSummary:
    """Trace all scenes, write their graphs and their network, and warn of doubtful roads.

    Args:
        calibration: confidence of edges, as measured on held-out chips; None if not measured.
        outside: number of images outside of the area to work in.
    """
    check_formats(config.graph.formats)
    _refuse_taken({scene.name: scene.path for scene in scenes})
    names = [scene.name for scene in scenes]
    traced, failed = _results(partial(_trace_scene, config, folder), scenes, config, what="graph")
    if failed and not traced:
        raise DataError(all_failed(failed))
    network = _write_common_files(
        [scene for scene in scenes if scene.name in traced], folder, config
    )
    joined = np.zeros(0) if network is None else part_lengths(network.graph)
    graphs = traced.values()
    summary = GraphSummary(
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
        found_km=_km(math.fsum(graph.found_m for graph in graphs)),
        emptied=sum(graph.length_m == 0 < graph.found_m for graph in graphs),
        confidence={
            name: graph.confidence for name, graph in traced.items() if graph.confidence is not None
        },
        failed=failed,
        calibration=calibration,
        outside=outside,
    )
    if summary.emptied and not summary.edges:
        _log.warning(
            "no road is certain enough to be kept in %d of %s; to see them, use a lower "
            "graph.min_confidence",
            *(summary.emptied, count(len(summary.scenes), "scene")),
        )
    _warn_of_doubt(summary)
    return summary


def _km(metres: float) -> float:
    return round(metres / 1000, 3)


def _refuse_taken(paths: dict[str, Path]) -> None:
    """Refuse scenes with the names of the files that contain all scenes."""
    if taken := sorted({ROAD_NETWORK, SUBMISSION} & set(paths)):
        raise DataError(
            f"{paths[taken[0]]}: the name {taken[0]} is reserved for the file of all scenes; "
            "rename it"
        )


def _refuse_others(paths: dict[str, Path], folder: Path, config: Config) -> None:
    """Refuse to replace files that roadseg has not written."""
    for name in [*paths, *([ROAD_NETWORK] if len(paths) > 1 else [])]:
        files = [folder / f"{name}.{suffix}" for suffix in config.graph.formats]
        kept = [path for path in files if path.exists()]
        if kept and not is_traced(folder / f"{name}.gpkg"):
            raise ConfigError(
                f"{kept[0]}: would be replaced, but `roadseg graph` did not write it (expected "
                f"{name}.gpkg of `roadseg graph` beside it); delete it, or use another --output"
            )


def _results(
    work: Callable[..., Result],
    scenes: list[SceneToTrace],
    config: Config,
    *,
    what: str,
    told: bool = True,
) -> tuple[dict[str, Result], dict[str, str]]:
    """Work on many scenes in parallel, or on few scenes in turn, with their blocks in parallel.

    Args:
        what: name of the work, for the progress.
        told: whether scenes that are skipped are told of, each as soon as it has failed.

    Returns:
        The results, and the reasons why other scenes failed, by name.

    Raises:
        RoadsegError: for the first scene that fails, unless `compute.on_error` is "skip".
    """
    workers, results, failed = config.compute.workers, dict[str, Result](), dict[str, str]()
    if len(scenes) >= max(workers, 1):
        outcomes = each(work, scenes, workers=workers)
    else:
        outcomes = each(partial(work, workers=workers), scenes)
    for outcome in counted(outcomes, what, total=len(scenes), unit="scenes"):
        name = scenes[outcome.index].name
        if outcome.error is None:
            results[name] = cast("Result", outcome.result)
        elif config.compute.on_error == "stop":
            raise outcome.error
        else:
            failed[name] = str(outcome.error)
            if told:
                _log.warning("skipped %s: %s", name, failed[name])
    return results, failed


def _write_common_files(
    scenes: list[SceneToTrace], folder: Path, config: Config
) -> RoadNetwork | None:
    """Write the files of all scenes: the CSV, and the network of scenes that touch; return it."""
    rasters = {scene.name: scene.open(config) for scene in scenes}
    if "csv" in config.graph.formats:
        graphs = (
            (name, read_gpkg(folder / f"{name}.gpkg"), rasters[name].grid) for name in rasters
        )
        write_submission(folder / f"{SUBMISSION}.csv", graphs)
    network = trace_network(
        rasters,
        lambda name: read_gpkg(folder / f"{name}.gpkg"),
        options=config.graph,
        workers=config.compute.workers,
    )
    if network is not None:
        # Lines of a CSV are in pixels of one scene, which a network does not have.
        formats = [suffix for suffix in config.graph.formats if suffix != "csv"]
        write_graphs(folder, ROAD_NETWORK, network.graph, formats=formats)
    return network
