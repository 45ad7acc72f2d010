"""Edge calibration: how often edges are real on chips held out. No stage, serves graph."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from roadseg.commands.stages.made_from import fold_numbers
from roadseg.config import Config
from roadseg.dataset.calibration import (
    WEIGHTS,
    Calibration,
    ChipEdges,
    MeasuredEdges,
    measure_chips,
    places_of,
    write_calibration,
)
from roadseg.dataset.chips import ChipList, ChipRecord, SceneRecord
from roadseg.dataset.held_out import Predicted
from roadseg.dataset.reference_graphs import read_reference
from roadseg.dataset.scene_parts import extent_on
from roadseg.raster.extents import border_of
from roadseg.roads.graph.road_graph import RoadGraph
from roadseg.roads.masks.probabilities import open_probability
from roadseg.roads.tracing.edge_confidence import edge_terms
from roadseg.system.workspace import Workspace, require


def measure_run(
    config: Config,
    workspace: Workspace,
    listed: ChipList,
    chips_of: Mapping[str, Sequence[ChipRecord]],
    graphs: Mapping[str, RoadGraph],
) -> MeasuredEdges | None:
    """Compare the roads of scenes with their labels, on chips held out.

    Args:
        chips_of: those held out, by the name of their scene.
        graphs: all roads of scenes, as `find_edges` returns them, by name.

    Returns:
        The edges there, and how much of each is real; None if there is no edge.

    Raises:
        RoadsegError: if labels cannot be read.
    """
    chips: list[ChipRecord] = []
    edges: list[ChipEdges] = []
    for name, graph in graphs.items():
        chips += chips_of[name]
        scene = listed.scene(name)
        own = config.of_set(scene.set)
        edges += _measure_scene(own, workspace, scene, chips_of[name], graph)
    if not any(len(each.share) for each in edges):
        return None
    set_of = listed.set_of
    sets = [set_of[chip.scene] for chip in chips]
    labels = {scene.name: scene.labels for scene in listed.scenes}
    return MeasuredEdges.of(edges, places_of(chips, labels), sets)


def keep_calibration(
    workspace: Workspace, predicted: Predicted, calibration: Calibration | None
) -> list[Path]:
    """Write what was found beside the weights that it holds for; return the files.

    These are the networks that predicted. That of all folds, which nothing measures, gets it as
    well, but its file is not returned: a training on all folds writes it, too.
    """
    if calibration is None:
        return []
    if (workspace.checkpoint("all") / WEIGHTS).is_file():
        write_calibration(workspace.checkpoint("all"), calibration)
    folds = fold_numbers(workspace) if predicted.fold == "each" else [predicted.fold]
    folders = map(workspace.checkpoint, folds)
    return [
        write_calibration(folder, calibration) for folder in folders if (folder / WEIGHTS).is_file()
    ]


def _measure_scene(
    config: Config,
    workspace: Workspace,
    scene: SceneRecord,
    chips: Sequence[ChipRecord],
    graph: RoadGraph,
) -> list[ChipEdges]:
    """Return the edges of a scene on each of its chips, and how much of each is real."""
    imagery, path = config.imagery, workspace.probability(scene.name)
    grid = open_probability(path, gsd_m=imagery.gsd_m).grid
    mask = require(workspace.mask(scene.name), made_by="prepare")
    reference = read_reference(
        scene, mask, grid, labels=config.labels, imagery=imagery, tracing=config.graph
    )
    terms = edge_terms(graph, border_of(grid, extent_on(grid, imagery.area, path=path)))
    areas = [reference.area_in(chip.window) for chip in chips]
    return measure_chips(graph, terms, reference.roads, areas)
