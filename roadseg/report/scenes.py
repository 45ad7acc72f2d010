"""Scenes of a run for its report: the files that exist of each, its roads and pictures."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import shapely
from affine import Affine
from pyproj import CRS

from roadseg.config import Config
from roadseg.dataset.chips import ChipList, ChipRecord, SceneRecord, read_chips
from roadseg.dataset.reference_graphs import read_reference
from roadseg.dataset.sets import find_scenes
from roadseg.errors import DataError, RoadsegError
from roadseg.raster.extents import ScenePart, part_of, polygons_in
from roadseg.raster.grid import Grid, crs_setting, reproject
from roadseg.raster.images import RasterFacts, read_facts
from roadseg.raster.options import ImageryOptions
from roadseg.raster.scaling import Scaling, read_scaling
from roadseg.raster.windows import Window
from roadseg.report.map_data import (
    MapArea,
    Precision,
    describe_area,
    encode_graph,
    encode_lines,
    map_areas,
    relative,
)
from roadseg.report.pictures import (
    MapImage,
    mask_uri,
    photo_uri,
    probability_uri,
    read_photo,
    read_road,
)
from roadseg.roads.colours import as_hex, bin_colours
from roadseg.roads.formats.files import read_gpkg
from roadseg.roads.graph.clipping import clip_graph
from roadseg.roads.graph.joining import to_crs
from roadseg.roads.graph.road_graph import RoadGraph, take_edges
from roadseg.roads.masks.probabilities import ProbabilityFile, open_probability
from roadseg.roads.metrics.differences import missing_roads
from roadseg.roads.options import CompareOptions
from roadseg.roads.speeds import DEFAULT_BINS, KPH_PER_MPH, SpeedBins
from roadseg.roads.tracing.edge_confidence import mean_confidence
from roadseg.system.progress import counted
from roadseg.system.stage_records import read_summary
from roadseg.system.units import chosen_units
from roadseg.system.workspace import ROAD_NETWORK, Workspace

_PIXELS = 24_000_000  # Most pixels of all images together.
_SIDE_PX = (256, 4096)  # Pixels; smallest and largest side of one image.
_PHOTO, _PROBABILITY = 0.7, 0.8  # Share of the bytes of a scene, and of those the photo leaves.
_NEAR_M = 10.0  # Metres; scenes with roads this close to a network belong to it.
_SNAP_M = 500.0  # Metres; largest distance to the nearest road, as in `roadseg route`.
_TOLERANCE_M = CompareOptions().tolerance_m
_SHORTEST_M = 5.0  # Metres; shorter roads are not shown as missed or false.


@dataclass(frozen=True)
class ReportScene:
    """A scene as the report shows it.

    Attributes:
        grid: grid of its raster; without a raster, a grid around its roads.
        image: image; None if it cannot be read.
        probability: predicted raster, or None.
        graph: predicted roads, or None.
        reference: labelled roads on it in the CRS of the graph, or None.
        complete: where labels are complete and the image has data, in `grid.metric_crs`; None for
            everywhere.
    """

    name: str
    grid: Grid
    image: RasterFacts | None
    probability: ProbabilityFile | None
    graph: RoadGraph | None
    reference: RoadGraph | None = None
    complete: shapely.MultiPolygon | None = None


@dataclass(frozen=True)
class ReportScenes:
    """The scenes of a run as its report shows them.

    Attributes:
        networks: joined roads of touching scenes by the number of their area.
        joined: names of the scenes in `networks`.
        scaling: scaling of the images to bytes; None if not known.
        left_out: messages about what cannot be shown.
        labels: label files that prepare has read.
    """

    scenes: list[ReportScene]
    areas: list[MapArea]
    networks: dict[int, RoadGraph]
    joined: frozenset[str]
    scaling: Scaling | None
    bins: SpeedBins
    chips: tuple[ChipRecord, ...]
    left_out: list[str] = field(default_factory=list)
    labels: tuple[Path, ...] = ()

    @cached_property
    def compared(self) -> list[dict[str, RoadGraph]]:
        """For each scene its labelled, missed and false roads in the CRS of its map."""
        area_of = {row: area for area in self.areas for row in area.scenes}
        return [_compared_roads(scene, area_of[row].crs) for row, scene in enumerate(self.scenes)]

    @cached_property
    def models(self) -> frozenset[str]:
        """The networks that predicted the roads: their folds and epochs, or their names."""
        graphs = [graph for row in range(len(self.areas)) for _, _, graph in self.graphs_on(row)]
        return frozenset(name for each in graphs for name in each.attributes.get("model", ()))

    def graphs_on(self, number: int) -> list[tuple[str, list[str], RoadGraph]]:
        """Return the road graphs of a map, each with its name and the names of its scenes.

        The network of the scenes that touch comes first; other scenes have their own graphs.
        """
        scenes = [self.scenes[row] for row in self.areas[number].scenes]
        graphs = [
            (scene.name, [scene.name], scene.graph)
            for scene in scenes
            if scene.graph is not None and scene.name not in self.joined
        ]
        if number in self.networks:
            joined = [scene.name for scene in scenes if scene.name in self.joined]
            graphs.insert(0, (ROAD_NETWORK, joined, self.networks[number]))
        return graphs


def read_scenes(
    config: Config, workspace: Workspace, names: Sequence[str], *, with_labels: bool = True
) -> ReportScenes:
    """Read the scenes of a run; what cannot be read is listed and left out."""
    left_out: list[str] = []
    chips: ChipList | None = None
    with listed_in(left_out):
        chips = read_chips(workspace.chips) if workspace.chips.exists() else None
    listed = {scene.name: scene for scene in chips.scenes} if chips else {}
    # Images without chips, such as those that `improve` only maps, have no labels that count.
    labelled = {chip.scene for chip in chips.chips} if chips and with_labels else set()
    images = _images(config, listed, left_out)
    scenes = []
    for name in counted(names, "report: roads", total=len(names), unit="scenes"):
        with listed_in(left_out):
            image, set_name = images.get(name, (None, ""))
            own = config.of_set(set_name)
            record = listed[name] if name in labelled else None
            scenes.append(_read_scene(own, workspace, name, image, record, left_out=left_out))
    if not scenes:
        raise DataError(f"no scene can be shown, the first reason: {left_out[0]}")
    areas = map_areas([scene.grid for scene in scenes])
    networks, joined = _networks(workspace, scenes, areas)
    scaling = read_scaling(workspace.scaling) if workspace.scaling.exists() else None
    return ReportScenes(
        scenes=scenes,
        areas=areas,
        networks=networks,
        joined=joined,
        scaling=scaling,
        bins=chips.bins if chips else DEFAULT_BINS,
        chips=chips.chips if chips else (),
        left_out=left_out,
        labels=tuple(dict.fromkeys(scene.labels for scene in listed.values())),
    )


def describe_map(config: Config, shown: ReportScenes, precision: Precision) -> dict[str, Any]:
    """Return areas, graphs and scenes as JSON values for the page, without pictures."""
    graphs = _encode_graphs(shown, precision)
    graph_of = {scene: row for row, graph in enumerate(graphs) for scene in graph["scenes"]}
    scenes: dict[int, dict[str, Any]] = {}
    for number, area in enumerate(shown.areas):
        for row, outline in zip(area.scenes, area.outlines, strict=True):
            scene = shown.scenes[row]
            scenes[row] = {
                "name": scene.name,
                "area": number,
                "graph": graph_of.get(scene.name),
                "box": relative(shapely.bounds(outline), area.origin),
                "confidence": scene.graph and mean_confidence(scene.graph),
                **{
                    name: encode_lines(graph.lines, area.origin, precision)
                    for name, graph in shown.compared[row].items()
                },
            }
    return {
        "areas": [describe_area(area) for area in shown.areas],
        "graphs": graphs,
        "scenes": [scenes[row] for row in sorted(scenes)],
        "threshold": _thresholds_text(config, shown),
        "tolerance_m": _TOLERANCE_M,
        "snap_m": _SNAP_M,
        "units": chosen_units(),
        "bins": {
            "edges": shown.bins.edges,
            "unit": shown.bins.unit,
            "kph": KPH_PER_MPH if shown.bins.unit == "mph" else 1,
            "names": shown.bins.shown_names,
            "colours": [as_hex(colour) for colour in bin_colours(shown.bins)],
        },
    }


def encode_pictures(
    config: Config, shown: ReportScenes, row: int, *, most_bytes: int
) -> dict[str, dict[str, Any]]:
    """Return the pictures of a scene with their bounds, as large as `most_bytes` allows."""
    scene = shown.scenes[row]
    area = next(area for area in shown.areas if row in area.scenes)
    side = int(np.sqrt(_PIXELS / len(shown.scenes)))
    side = min(max(side, _SIDE_PX[0]), _SIDE_PX[1])
    layers: dict[str, dict[str, Any]] = {}

    def add(name: str, flat: MapImage, picture: str | None) -> int:
        if picture:
            bounds = relative(flat.bounds, area.origin)
            layers[name] = {"picture": picture, "box": bounds}
        return len(picture or "")

    with listed_in(shown.left_out):
        if scene.image:
            photo = read_photo(scene.image, shown.scaling, area.crs, side_px=side)
            most = int(_PHOTO * most_bytes)
            most_bytes -= add("image", photo, photo_uri(photo, most_bytes=most))
        if scene.probability:
            road = read_road(scene.probability, area.crs, side_px=side)
            most = int(_PROBABILITY * most_bytes)
            most_bytes -= add("probability", road, probability_uri(road, most_bytes=most))
            threshold = config.graph.threshold_for(scene.probability.threshold)
            mask = mask_uri(road, threshold=threshold, most_bytes=most_bytes)
            add("mask", road, mask)
    return layers


@contextmanager
def listed_in(left_out: list[str]) -> Iterator[None]:
    """Add the message of an error to a list, and go on without what the block was to give."""
    try:
        yield
    except RoadsegError as error:
        left_out.append(str(error))


def _thresholds_text(config: Config, shown: ReportScenes) -> str:
    """Return the threshold of the masks as text, or the range over scenes."""
    rasters = (scene.probability for scene in shown.scenes if scene.probability)
    thresholds = sorted({config.graph.threshold_for(raster.threshold) for raster in rasters})
    return " to ".join(
        f"{threshold:g}" for threshold in dict.fromkeys([*thresholds[:1], *thresholds[-1:]])
    )


def _images(
    config: Config, listed: Mapping[str, SceneRecord], left_out: list[str]
) -> dict[str, tuple[Path, str]]:
    """Return the image of each scene with the name of its set: those of chips, or of the config."""
    if listed:
        return {name: (scene.image, scene.set) for name, scene in listed.items()}
    images: dict[str, tuple[Path, str]] = {}
    with listed_in(left_out):
        for scene_set, own in find_scenes([each for each in config.sets if each.imagery.images]):
            images |= {name: (path, scene_set.name) for name, path in own.items()}
    return images


def _read_scene(
    config: Config,
    workspace: Workspace,
    name: str,
    image: Path | None,
    record: SceneRecord | None,
    *,
    left_out: list[str],
) -> ReportScene:
    """Read a scene, with its labels if prepare has recorded any."""
    facts, probability = None, None
    if image is not None:
        with listed_in(left_out):
            facts = _photo_facts(image, config.imagery)
    if (path := workspace.probability(name)).exists():
        crs = crs_setting(config.imagery.crs, "imagery.crs")
        probability = open_probability(path, crs=crs, gsd_m=config.imagery.gsd_m)
    graph = read_gpkg(workspace.graph(name)) if workspace.graph(name).exists() else None
    # A predicted image may have been resampled, so the grid of its probability comes first.
    if probability is not None:
        grid = probability.grid
        facts = facts and _where_predicted(facts, grid)
    else:
        grid = facts.grid if facts else _ground_of(graph, name)
    scene = ReportScene(name, grid, facts, probability, graph)
    if record is None or not (mask := workspace.mask(name)).exists():
        return scene
    with listed_in(left_out):
        labels, imagery, tracing = config.labels, config.imagery, config.graph
        known = read_reference(record, mask, grid, labels=labels, imagery=imagery, tracing=tracing)
        roads = clip_graph(known.roads, grid.footprint_m)
        complete = known.complete
        if probability is not None:  # Its pixels are those of the mask.
            area = known.area_in(Window(0, 0, grid.height, grid.width))
            complete = None if area == grid.footprint_m else polygons_in(area)
        return replace(scene, reference=roads, complete=complete)
    return scene


def _photo_facts(image: Path, options: ImageryOptions) -> RasterFacts:
    """Read an image in its own pixel size; `gsd_m` applies only without georeference."""
    facts = read_facts(image, options)
    if options.gsd_m is None or facts.grid.is_local:
        return facts
    return read_facts(image, options.model_copy(update={"gsd_m": None}))


def _where_predicted(facts: RasterFacts, grid: Grid) -> RasterFacts:
    """Crop an image to the ground of its predicted raster."""
    if facts.grid.is_local:
        return facts
    shown = grid.footprint_in(facts.grid.metric_crs)
    part = part_of(facts.grid, shown)
    if part is None or part.shows_all(facts.grid):
        return facts
    return facts.cut(ScenePart(part.window))


def _ground_of(graph: RoadGraph | None, name: str) -> Grid:
    """Return a grid with pixels of 1 m around the roads of a scene without a raster."""
    if graph is None or len(graph.lines) == 0:
        raise DataError(f"{name}: has no roads and no raster, so its location is unknown")
    west, south, east, north = shapely.total_bounds(graph.lines)
    height, width = (max(1, int(np.ceil(size))) for size in (north - south, east - west))
    return Grid(graph.crs, Affine(1, 0, west, 0, -1, north), height, width)


@dataclass(frozen=True)
class _Joined:
    """The part of the summary of graph that the report reads."""

    joined: list[str] = field(default_factory=list)


def _networks(
    workspace: Workspace, scenes: Sequence[ReportScene], areas: Sequence[MapArea]
) -> tuple[dict[int, RoadGraph], frozenset[str]]:
    """Read the network of touching scenes, split by map, and the names of these scenes."""
    record, path = workspace.record("graph"), workspace.graph(ROAD_NETWORK)
    if not path.exists():
        return {}, frozenset()
    graph = read_gpkg(path)
    is_known = record.exists()
    names = read_summary(record, _Joined).joined if is_known else _scenes_along(graph, scenes)
    joined = frozenset(names)
    inside = {
        number: joined.intersection(scenes[row].name for row in area.scenes)
        for number, area in enumerate(areas)
    }
    inside = {number: names for number, names in inside.items() if names}
    if len(inside) == 1:
        return dict.fromkeys(inside, graph), joined
    # The network is on several maps; the source scene of an edge tells on which. Roads that are far
    # from its zone are too long there.
    source = graph.column("source", "")
    parts = {
        number: to_crs(take_edges(graph, np.isin(source, list(names))), areas[number].crs)
        for number, names in inside.items()
    }
    return parts, joined


def _scenes_along(network: RoadGraph, scenes: Sequence[ReportScene]) -> list[str]:
    """Return the names of the scenes whose roads are near a network."""
    tree, names = shapely.STRtree(network.lines), []
    for scene in scenes:
        if scene.graph is not None and not scene.grid.is_local:
            lines = to_crs(scene.graph, network.crs).lines
            middles = shapely.line_interpolate_point(lines, 0.5, normalized=True)
            if tree.query(middles, predicate="dwithin", distance=_NEAR_M).size:
                names.append(scene.name)
    return names


def _encode_graphs(shown: ReportScenes, precision: Precision) -> list[dict[str, Any]]:
    """Return the network and the graphs of all other scenes."""
    graphs: list[dict[str, Any]] = []
    for number, area in enumerate(shown.areas):
        for name, names, graph in shown.graphs_on(number):
            # The lengths are those before the lines are converted to the CRS of the map.
            lengths = {"length_m": graph.length_m, **graph.attributes}
            on_map = to_crs(replace(graph, attributes=lengths), area.crs)
            encoded = encode_graph(on_map, area.origin, precision)
            graphs.append({"name": name, "area": number, "scenes": names, **encoded})
    return graphs


def _compared_roads(scene: ReportScene, crs: CRS) -> dict[str, RoadGraph]:
    """Return labelled roads ("reference"), and "missed" and "false" ones where labels are complete.

    If that is not everywhere, the labelled roads there are "measured".
    """
    if scene.reference is None:
        return {}
    reference = to_crs(scene.reference, crs)
    errors = {}
    if scene.graph is not None:
        predicted = to_crs(scene.graph, crs)
        sides = {"missed": (reference, predicted), "false": (predicted, reference)}
        errors = {
            name: missing_roads(*each, tolerance_m=_TOLERANCE_M, min_length_m=_SHORTEST_M)
            for name, each in sides.items()
        }
    if scene.complete is not None:
        # Roads across the border are compared as a whole and clipped afterwards.
        border = np.array([scene.complete], dtype=object)
        (complete,) = reproject(border, scene.grid.metric_crs, crs)
        whole = {"measured": reference, **errors}
        errors = {name: clip_graph(graph, complete) for name, graph in whole.items()}
    return {"reference": reference, **errors}
