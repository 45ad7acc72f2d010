"""Scenes of a run as its report shows them: what there is of each, its roads, its pictures."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import shapely
from affine import Affine

from roadseg.config import Config
from roadseg.dataset.chips import ChipList, SceneRecord, read_chips
from roadseg.dataset.reference_graphs import reference_graph
from roadseg.errors import DataError, RoadsegError
from roadseg.raster.grid import Grid, crs_setting
from roadseg.raster.images import RasterFacts, scene_facts
from roadseg.raster.options import ImageryOptions
from roadseg.raster.scaling import Scaling, read_scaling
from roadseg.raster.sources import find_images
from roadseg.report.areas import Area, describe_area, map_areas, relative
from roadseg.report.pictures import (
    Flat,
    mask_uri,
    photo_uri,
    probability_uri,
    read_photo,
    read_road,
)
from roadseg.report.roads import encode_graph, encode_lines, missed_and_false
from roadseg.roads.formats.files import read_graph
from roadseg.roads.graph.clipping import clip_graph
from roadseg.roads.graph.joining import in_crs
from roadseg.roads.graph.road_graph import RoadGraph, take_edges
from roadseg.roads.masks.probabilities import ProbabilityFile, open_probability
from roadseg.roads.options import CompareOptions
from roadseg.roads.speeds import DEFAULT_BINS, KPH_PER_MPH, SpeedBins
from roadseg.system.progress import counted
from roadseg.system.stage_records import read_summary
from roadseg.system.workspace import NETWORK, Workspace

_PIXELS = 24_000_000  # of all images together, and at most
_SIDE_PX = (256, 4096)  # of one
_PHOTO, _PROBABILITY = 0.7, 0.8  # share of the room, and of what is then left
_NEAR_M = 10.0  # of a network: as far as roads of its scenes may be from those it has
_SNAP_M = 500.0  # as far as `roadseg route` goes to the nearest road
_TOLERANCE_M = CompareOptions().tolerance_m


@dataclass(frozen=True)
class ShownScene:
    """What there is of a scene.

    Attributes:
        name: of the scene.
        grid: where it lies; of a scene without any raster, where its roads lie.
        image: None if it cannot be read.
        probability: None if there is none.
        graph: None if there is none.
        reference: roads of the labels on it, in the CRS of the graph; None if there are none.
    """

    name: str
    grid: Grid
    image: RasterFacts | None
    probability: ProbabilityFile | None
    graph: RoadGraph | None
    reference: RoadGraph | None


@dataclass(frozen=True)
class Shown:
    """What there is of all scenes.

    Attributes:
        scenes: in the order of their names.
        areas: maps on which they are shown.
        networks: roads of the scenes that touch, by the number of the area they are in.
        joined: names of the scenes in `networks`.
        scaling: of the images to bytes; None if it is not known.
        bins: of the speeds.
        scene_of: name of the scene of each chip.
        left_out: what cannot be shown, and why.
    """

    scenes: list[ShownScene]
    areas: list[Area]
    networks: dict[int, RoadGraph]
    joined: frozenset[str]
    scaling: Scaling | None
    bins: SpeedBins
    scene_of: dict[str, str]
    left_out: list[str] = field(default_factory=list)


def find_scenes(config: Config, workspace: Workspace, names: Sequence[str]) -> Shown:
    """Find out what a run has of scenes; what cannot be read is noted and left out."""
    left_out: list[str] = []
    chips = _chips(workspace, left_out)
    listed = {scene.name: scene for scene in chips.scenes} if chips else {}
    images = {name: scene.image for name, scene in listed.items()} or _images(config, left_out)
    scenes = []
    for name in counted(names, "report: roads", total=len(names), unit="scenes"):
        try:
            scene = _find_scene(config, workspace, name, images.get(name), left_out)
            scenes.append(_with_reference(config, workspace, scene, listed.get(name), left_out))
        except RoadsegError as error:
            left_out.append(str(error))
    if not scenes:
        raise DataError(f"none of {len(names)} scenes can be shown, the first: {left_out[0]}")
    areas = map_areas([scene.grid for scene in scenes])
    networks, joined = _networks(workspace, scenes, areas)
    scaling = read_scaling(workspace.scaling) if workspace.scaling.exists() else None
    return Shown(
        scenes=scenes,
        areas=areas,
        networks=networks,
        joined=joined,
        scaling=scaling,
        bins=chips.bins if chips else DEFAULT_BINS,
        scene_of={chip.name: chip.scene for chip in chips.chips} if chips else {},
        left_out=left_out,
    )


def map_of(config: Config, found: Shown, *, step_m: float, tolerance_m: float) -> dict[str, Any]:
    """Return areas, graphs and scenes as the page knows them, without pictures.

    Args:
        config: of the run.
        found: the scenes.
        step_m: size of a unit of coordinates.
        tolerance_m: how far lines may move when simplified.
    """
    place = {"step_m": step_m, "tolerance_m": tolerance_m}
    graphs, scenes = _graphs(found, place), []
    row_of = {scene: row for row, graph in enumerate(graphs) for scene in graph["scenes"]}
    for number, area in enumerate(found.areas):
        for row, outline in zip(area.scenes, area.outlines, strict=True):
            scene = found.scenes[row]
            told = {"name": scene.name, "area": number, "graph": row_of.get(scene.name)}
            told["box"] = relative(shapely.bounds(outline), area.origin)
            told |= _compared(scene, area, _TOLERANCE_M, place)
            scenes.append((row, told))
    return {
        "areas": [describe_area(area) for area in found.areas],
        "graphs": graphs,
        "scenes": [told for _, told in sorted(scenes, key=lambda pair: pair[0])],
        "threshold": config.graph.threshold,
        "tolerance_m": _TOLERANCE_M,
        "snap_m": _SNAP_M,
        "bins": {
            "edges": found.bins.edges,
            "unit": found.bins.unit,
            "kph": KPH_PER_MPH if found.bins.unit == "mph" else 1,
            "names": found.bins.names,
        },
    }


def pictures_of(
    config: Config, found: Shown, row: int, *, most_bytes: int
) -> dict[str, dict[str, Any]]:
    """Return the pictures of a scene with their bounds, as large as there is room for."""
    scene = found.scenes[row]
    area = next(area for area in found.areas if row in area.scenes)
    side = int(np.sqrt(_PIXELS / len(found.scenes)))
    side = min(max(side, _SIDE_PX[0]), _SIDE_PX[1])
    layers: dict[str, dict[str, Any]] = {}

    def add(name: str, flat: Flat, picture: str | None) -> int:
        if picture:
            bounds = relative(flat.bounds, area.origin)
            layers[name] = {"picture": picture, "box": bounds}
        return len(picture or "")

    try:
        if scene.image:
            photo = read_photo(scene.image, found.scaling, area.crs, side_px=side)
            most = int(_PHOTO * most_bytes)
            most_bytes -= add("image", photo, photo_uri(photo, most_bytes=most))
        if scene.probability:
            road = read_road(scene.probability, area.crs, side_px=side)
            most = int(_PROBABILITY * most_bytes)
            most_bytes -= add("probability", road, probability_uri(road, most_bytes=most))
            mask = mask_uri(road, threshold=config.graph.threshold, most_bytes=most_bytes)
            add("mask", road, mask)
    except RoadsegError as error:
        found.left_out.append(str(error))
    return layers


def _chips(workspace: Workspace, left_out: list[str]) -> ChipList | None:
    if not workspace.chips.exists():
        return None
    try:
        return read_chips(workspace.chips)
    except RoadsegError as error:
        left_out.append(str(error))
        return None


def _images(config: Config, left_out: list[str]) -> dict[str, Path]:
    try:
        return find_images(config.imagery.images) if config.imagery.images else {}
    except RoadsegError as error:
        left_out.append(str(error))
        return {}


def _find_scene(
    config: Config, workspace: Workspace, name: str, image: Path | None, left_out: list[str]
) -> ShownScene:
    facts, file = None, None
    if image is not None:
        try:
            facts = _photo_facts(image, config.imagery)
        except RoadsegError as error:
            left_out.append(str(error))
    if workspace.probability(name).exists():
        place = {"crs": crs_setting(config.imagery.crs, "imagery.crs")}
        file = open_probability(workspace.probability(name), **place, gsd_m=config.imagery.gsd_m)
    graph = read_graph(workspace.graph(name)) if workspace.graph(name).exists() else None
    grid = file.grid if file else facts.grid if facts else _ground_of(graph, name)
    return ShownScene(name, grid, facts, file, graph, None)


def _photo_facts(image: Path, options: ImageryOptions) -> RasterFacts:
    """Read what an image is with its own pixels, unless they have a size from the config only."""
    facts = scene_facts(image, options)
    if options.gsd_m is None or facts.grid.is_local:
        return facts
    return scene_facts(image, options.model_copy(update={"gsd_m": None}))


def _ground_of(graph: RoadGraph | None, name: str) -> Grid:
    """Return a grid of metres around the roads of a scene that nothing else is known of."""
    if graph is None or len(graph.lines) == 0:
        raise DataError(f"{name}: has no roads, and no raster says where it lies")
    west, south, east, north = shapely.total_bounds(graph.lines)
    height, width = (max(1, int(np.ceil(size))) for size in (north - south, east - west))
    return Grid(graph.crs, Affine(1, 0, west, 0, -1, north), height, width)


def _with_reference(
    config: Config,
    workspace: Workspace,
    scene: ShownScene,
    listed: SceneRecord | None,
    left_out: list[str],
) -> ShownScene:
    mask = workspace.mask(scene.name)
    if listed is None or not mask.exists():
        return scene
    try:
        roads = reference_graph(
            listed.labels,
            mask,
            scene.grid,
            options=config.labels,
            tracing=config.graph,
            gsd_m=config.imagery.gsd_m,
        )
    except RoadsegError as error:
        left_out.append(str(error))
        return scene
    return replace(scene, reference=clip_graph(roads, scene.grid.footprint_m))


@dataclass(frozen=True)
class _Joined:
    """What the report reads of the summary of graph."""

    joined: list[str] = field(default_factory=list)


def _networks(
    workspace: Workspace, scenes: Sequence[ShownScene], areas: Sequence[Area]
) -> tuple[dict[int, RoadGraph], frozenset[str]]:
    """Read the network of the scenes that touch, taken apart where they are on several maps."""
    record, path = workspace.record("graph"), workspace.graph(NETWORK)
    if not path.exists():
        return {}, frozenset()
    graph = read_graph(path)
    names = read_summary(record, _Joined).joined if record.exists() else _along(graph, scenes)
    joined = frozenset(names)
    inside = {
        number: joined.intersection(scenes[row].name for row in area.scenes)
        for number, area in enumerate(areas)
    }
    inside = {number: names for number, names in inside.items() if names}
    if len(inside) == 1:
        return dict.fromkeys(inside, graph), joined
    source = graph.attributes.get("source", np.full(len(graph.lines), ""))
    parts = {
        number: take_edges(graph, np.isin(source, list(names))) for number, names in inside.items()
    }
    return parts, joined


def _along(network: RoadGraph, scenes: Sequence[ShownScene]) -> list[str]:
    """Return the names of the scenes whose roads are those of a network."""
    tree, found = shapely.STRtree(network.lines), []
    for scene in scenes:
        if scene.graph is not None and not scene.grid.is_local:
            lines = in_crs(scene.graph, network.crs).lines
            middles = shapely.line_interpolate_point(lines, 0.5, normalized=True)
            if tree.query(middles, predicate="dwithin", distance=_NEAR_M).size:
                found.append(scene.name)
    return found


def _graphs(found: Shown, place: dict[str, float]) -> list[dict[str, Any]]:
    """Return the network and the graphs of all other scenes."""
    graphs: list[dict[str, Any]] = []
    for number, area in enumerate(found.areas):
        scenes = [found.scenes[row] for row in area.scenes]
        alone = [scene for scene in scenes if scene.graph and scene.name not in found.joined]
        joined = [scene.name for scene in scenes if scene.name in found.joined]
        shown = [(scene.name, [scene.name], scene.graph) for scene in alone]
        if joined:
            shown.insert(0, (NETWORK, joined, found.networks[number]))
        for name, of, graph in shown:
            if graph is not None:
                told = encode_graph(_placed(graph, area), area.origin, **place)
                graphs.append({"name": name, "area": number, "scenes": of, **told})
    return graphs


def _compared(
    scene: ShownScene, area: Area, tolerance_m: float, place: dict[str, float]
) -> dict[str, Any]:
    """Return the roads of the labels, and what of them was missed and what is false."""
    if scene.reference is None:
        return {}
    reference = _placed(scene.reference, area)
    told = {"reference": encode_lines(reference.lines, area.origin, **place)}
    if scene.graph is not None:
        predicted = _placed(scene.graph, area)
        missed, false = missed_and_false(reference, predicted, tolerance_m=tolerance_m)
        told["missed"] = encode_lines(missed.lines, area.origin, **place)
        told["false"] = encode_lines(false.lines, area.origin, **place)
    return told


def _placed(graph: RoadGraph, area: Area) -> RoadGraph:
    """Return a graph in the CRS of a map, with its lengths as they were."""
    lengths = {"length_m": graph.length_m, **graph.attributes}
    return in_crs(replace(graph, attributes=lengths), area.crs)
