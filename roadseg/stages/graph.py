"""graph: probabilities to road graphs with speeds. Reads probabilities/, writes graphs/."""

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from roadseg.config import Config, GraphConfig, crs_setting
from roadseg.core.cleaning import drop_components, prune_spurs, simplify_lines
from roadseg.core.graphs import RoadGraph, graph_from_paths
from roadseg.core.grid import Grid
from roadseg.core.linking import link_gaps
from roadseg.core.skeletons import (
    SkeletonPaths,
    clean_mask,
    skeletonise,
    smooth_paths,
    trace_paths,
)
from roadseg.core.speeds import BIN_SPEEDS_MPH, KPH_PER_MPH
from roadseg.core.travel import add_travel, sample_points, vote_speeds
from roadseg.io.graphs import write_graphs
from roadseg.io.probabilities import CERTAIN, Probability, read_probability
from roadseg.io.records import StageRecord, read_key, read_summary
from roadseg.io.sources import find_images
from roadseg.workspace import Workspace, require

_SMOOTH_PX = 3  # neighbours on either side over which the pixel staircase is evened out
_SAMPLE_EVERY_M = 2.0  # distance of the points at which an edge looks up its speed
_BORDER_M = 2.0  # a dead end this close to the scene's border goes on outside of it


@dataclass(frozen=True)
class GraphSummary:
    """What was found."""

    scenes: list[str]
    nodes: int
    edges: int
    road_km: float
    folder: str

    def __str__(self) -> str:
        """Say it in a sentence."""
        return (
            f"{self.road_km:.2f} km of roads in {len(self.scenes)} scenes: {self.nodes} nodes, "
            f"{self.edges} edges; {self.folder}"
        )


def run(config: Config, workspace: Workspace, *, force: bool = False) -> GraphSummary:
    """Find the road graph of every predicted scene of the run."""
    predicted = require(workspace.record("predict"), made_by="predict")
    record = StageRecord(
        workspace.record("graph"),
        settings=config.graph.model_dump(mode="json"),
        inputs=[read_key(predicted)],
    )
    if not force and (done := record.summary()):
        return GraphSummary(**done)
    scenes = read_summary(predicted)["scenes"]
    record.begin()
    paths = {name: require(workspace.probability(name), made_by="predict") for name in scenes}
    summary = _find_all(paths, workspace.graphs, config)
    record.finish(asdict(summary))
    return summary


def run_images(config: Config, images: Iterable[str], *, output: Path) -> GraphSummary:
    """Find the road graph of any masks or probability rasters."""
    return _find_all(find_images(images), output, config)


def find_graph(probability: Probability, options: GraphConfig) -> RoadGraph:
    """Find the road graph of a scene, in the scene's metric CRS, with speeds and times."""
    grid = probability.grid
    pixel_m2 = math.prod(grid.pixel_size_m)
    roads = clean_mask(
        probability.road >= options.threshold * CERTAIN,
        min_blob_px=math.ceil(options.min_blob_m2 / pixel_m2),
        min_hole_px=math.ceil(options.min_hole_m2 / pixel_m2),
    )
    paths = smooth_paths(trace_paths(skeletonise(roads)), reach_px=_SMOOTH_PX)
    border = grid.footprint_m.exterior
    graph = prune_spurs(
        _in_metres(paths, grid), min_spur_m=options.min_spur_m, border=border, border_m=_BORDER_M
    )
    graph = link_gaps(graph, max_gap_m=options.max_gap_m, border=border, border_m=_BORDER_M)
    graph = drop_components(graph, min_component_m=options.min_component_m)
    graph = simplify_lines(graph, tolerance_m=options.simplify_m)
    return add_travel(graph, _speeds_kph(graph, probability, options.default_speed_mph))


def _find_all(paths: dict[str, Path], folder: Path, config: Config) -> GraphSummary:
    nodes, edges, length_m = 0, 0, 0.0
    crs = crs_setting(config.imagery.crs, "imagery.crs")
    for name, path in paths.items():
        graph = find_graph(read_probability(path, crs=crs), config.graph)
        write_graphs(folder, name, graph)
        nodes, edges = nodes + len(graph.nodes), edges + len(graph.lines)
        length_m += float(graph.length_m.sum())
    return GraphSummary(list(paths), nodes, edges, round(length_m / 1000, 3), str(folder))


def _in_metres(paths: SkeletonPaths, grid: Grid) -> RoadGraph:
    return graph_from_paths(
        grid.to_metric(paths.nodes),
        paths.ends,
        grid.to_metric(paths.points),
        paths.offsets,
        grid.metric_crs,
    )


def _speeds_kph(
    graph: RoadGraph, probability: Probability, default_mph: float
) -> NDArray[np.float64]:
    if probability.bins is None:
        return np.full(len(graph.lines), default_mph * KPH_PER_MPH)
    points, edge = sample_points(graph, spacing_m=_SAMPLE_EVERY_M)
    pixels = np.floor(probability.grid.from_metric(points)).astype(np.int64)
    rows, cols = np.clip(pixels, 0, np.array(probability.road.shape) - 1).T
    return vote_speeds(
        probability.bins[:, rows, cols].T / CERTAIN,
        edge,
        len(graph.lines),
        np.array(BIN_SPEEDS_MPH) * KPH_PER_MPH,
        default_kph=default_mph * KPH_PER_MPH,
    )
