"""plot: figures for print. Reads images, labels and graphs; writes plots/."""

import difflib
import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import shapely
from affine import Affine

from roadseg.arrays import Bytes
from roadseg.config import Config
from roadseg.dataset.chips import ChipList, SceneRecord, read_chips
from roadseg.dataset.held_out import held_out_chips, read_predicted
from roadseg.dataset.reference_graphs import read_reference
from roadseg.errors import ConfigError, DataError
from roadseg.raster.grid import Grid
from roadseg.raster.images import RasterFacts, read_facts
from roadseg.raster.pixels import read_preview
from roadseg.raster.scaling import Scaling, fit_scaling, read_scaling
from roadseg.report.plots.figures import SUFFIXES, Paper, rgb
from roadseg.report.plots.maps import Errors, Ground, draw_errors, draw_graph, draw_scene
from roadseg.roads.formats.any_roads import common_crs, place_roads, read_one_place
from roadseg.roads.formats.files import read_gpkg
from roadseg.roads.graph.clipping import clip_graph
from roadseg.roads.graph.road_graph import RoadGraph
from roadseg.roads.labels.roads import extent_degrees
from roadseg.roads.metrics.differences import missing_roads
from roadseg.roads.options import CompareOptions
from roadseg.roads.speeds import DEFAULT_BINS, SpeedBins
from roadseg.system.files import refuse_to_overwrite
from roadseg.system.progress import counted
from roadseg.system.text import Summary, count
from roadseg.system.workspace import Workspace, require

logger = logging.getLogger(__name__)

Kind = Literal["scene", "graph", "errors"]
KINDS: tuple[Kind, ...] = ("scene", "graph", "errors")

_MARGIN = 0.03  # Share of the longer side; a map without an image shows it around the roads.
# The files that each kind of figure needs.
_NEEDS: dict[Kind, tuple[str, ...]] = {
    "scene": ("--image",),
    "graph": ("--graph",),
    "errors": ("--graph", "--labels"),
}


@dataclass(frozen=True)
class PlotSummary(Summary):
    """The figures that were written."""

    pictures: tuple[str, ...]

    def __str__(self) -> str:
        """Count and list them."""
        return "\n".join([f"{count(len(self.pictures), 'figure')}:", *self.pictures])


@dataclass(frozen=True)
class _Scene:
    """All that is drawn of one place; None stands for what is not known."""

    ground: Ground
    labels: RoadGraph | None
    predicted: RoadGraph | None
    bins: SpeedBins


def run(
    config: Config,
    workspace: Workspace,
    *,
    kinds: Sequence[Kind] = KINDS,
    scene: str | None = None,
    output: Path | None = None,
    paper: Paper | None = None,
) -> PlotSummary:
    """Draw the scenes with held-out chips, as many as `evaluate.pictures` says, or one of any.

    Args:
        workspace: run folder whose graphs are there.
        scene: the only scene to draw; None draws those held out.
        output: folder, or the file of a single figure, .png, .pdf or .svg; None: plots/.

    Raises:
        ConfigError: there is no such scene, it is a map without labels, or one file for several
            figures.
        MissingInputError: a stage before has not been done.
    """
    if workspace.graphs.is_dir() and not workspace.chips.exists():
        raise ConfigError(
            f"{workspace.root}: a map without labels has no held-out scenes; name what to draw "
            "with --graph, --image and --output"
        )
    chips = read_chips(require(workspace.chips, made_by="prepare"))
    require(workspace.record("graph"), made_by="graph")
    names = _held_out(config, workspace, chips) if scene is None else [_known(chips, scene)]
    paper = paper or Paper()
    path_of = _name_files(output or workspace.plots, len(names) * len(kinds))
    written = []
    for name in counted(names, "plot", total=len(names), unit="scenes"):
        drawn = _read_scene(config, workspace, chips, chips.scene(name), paper)
        written += [_draw(drawn, kind, path_of(name, kind), paper) for kind in kinds]
    return PlotSummary(tuple(map(str, written)))


def run_files(
    *,
    output: Path,
    graph: Path | None = None,
    labels: Path | None = None,
    image: Path | None = None,
    kinds: Sequence[Kind] = (),
    paper: Paper | None = None,
) -> PlotSummary:
    """Draw files of one place, without a run.

    Args:
        output: folder, or the file of a single figure, .png, .pdf or .svg.
        graph: predicted roads, as `roadseg graph` writes them or any file of lines.
        image: what lies under them; its first three bands are shown, or the first alone.
        kinds: what to draw; none draws all that these files allow.

    Raises:
        ConfigError: a kind needs a file that is not given, one file for several figures, or it
            is one of those to draw.
        DataError: a file cannot be used, or roads and image are not at one place.
    """
    given = {"--graph": graph, "--labels": labels, "--image": image}
    lacking = {kind: [name for name in _NEEDS[kind] if given[name] is None] for kind in KINDS}
    # Without kinds all are drawn for which there is a file.
    wanted = kinds or [kind for kind in KINDS if not lacking[kind]]
    missing = [(kind, names[0]) for kind in wanted if (names := lacking[kind])]
    if missing or not wanted:
        kind, name = missing[0] if missing else ("graph", "--graph")
        raise ConfigError(f"plot {kind} also needs {name}")
    paper = paper or Paper()
    refuse_to_overwrite(output, graph, labels, image, option="--output")
    path_of = _name_files(output, len(wanted))
    drawn = _read_files(graph, labels, image, paper)
    written = [_draw(drawn, kind, path_of(drawn.ground.name, kind), paper) for kind in wanted]
    return PlotSummary(tuple(map(str, written)))


def _held_out(config: Config, workspace: Workspace, chips: ChipList) -> list[str]:
    """Return the predicted scenes with chips of the held-out fold."""
    predicted = read_predicted(workspace)
    with_chips = held_out_chips(workspace, chips, predicted)
    names = [name for name in predicted.scenes if name in with_chips]
    most = config.evaluate.pictures
    if len(names) > most:
        logger.info(
            "drawing the first %d of %d held-out scenes; use --scene for others", most, len(names)
        )
    return names[:most]


def _known(chips: ChipList, name: str) -> str:
    """Return the name of a scene of the run; refuse any other."""
    names = [scene.name for scene in chips.scenes]
    if name in names:
        return name
    near = difflib.get_close_matches(name, names, n=1) or names[:1]
    raise ConfigError(f"--scene {name}: no scene of that name; did you mean {near[0]}?")


def _name_files(output: Path, pictures: int) -> Callable[[str, str], Path]:
    """Return a function of the names of a scene and a kind, which names the file of the figure."""
    suffix = output.suffix.lower()
    if suffix not in SUFFIXES:
        return lambda name, kind: output / f"{name}_{kind}.png"
    if pictures != 1:
        raise ConfigError(
            f"--output {output}: one file cannot contain {pictures} figures; choose one kind and "
            "one --scene, or a folder"
        )
    return lambda _name, _kind: output


def _read_scene(
    config: Config, workspace: Workspace, chips: ChipList, scene: SceneRecord, paper: Paper
) -> _Scene:
    own = config.of_set(scene.set)
    facts = read_facts(scene.image, own.imagery, part=scene.part)
    labels = read_reference(
        scene,
        workspace.mask(scene.name),
        facts.grid,
        labels=own.labels,
        imagery=own.imagery,
        tracing=config.graph,
    ).roads
    scaling = read_scaling(workspace.scaling)
    ground = Ground(
        name=scene.name,
        grid=facts.grid,
        image=_image(facts, paper, scaling),
        held_out=_area_held_out(workspace, chips, scene.name, facts.grid),
    )
    return _Scene(
        ground=ground,
        labels=clip_graph(labels, facts.grid.footprint_m),
        predicted=read_gpkg(require(workspace.graph(scene.name), made_by="graph")),
        bins=chips.bins,
    )


def _read_files(
    graph: Path | None, labels: Path | None, image: Path | None, paper: Paper
) -> _Scene:
    """Read roads into the metric CRS of the image, or else of the first roads."""
    drawn = {path: read_one_place(path) for path in (labels, graph) if path}
    facts = read_facts(image) if image else None
    crs = facts.grid.metric_crs if facts else common_crs(*drawn.values())
    placed = {path: place_roads(roads, crs).graph for path, roads in drawn.items()}
    grid = facts.grid if facts else _grid_around(list(placed.values()), paper)
    roads = {path: _clip(graph, grid, path) for path, graph in placed.items()}
    return _Scene(
        ground=Ground(
            name=next(path.stem for path in (image, graph, labels) if path),
            grid=grid,
            image=_image(facts, paper, None) if facts else None,
        ),
        labels=roads[labels] if labels else None,
        predicted=roads[graph] if graph else None,
        bins=DEFAULT_BINS,
    )


def _clip(graph: RoadGraph, grid: Grid, path: Path) -> RoadGraph:
    """Return the part of a graph that lies in a scene; refuse a file of which none does."""
    clipped = clip_graph(graph, grid.footprint_m)
    if len(graph.lines) and not len(clipped.lines):
        where = extent_degrees(graph.lines, graph.crs)
        raise DataError(f"{path}: none of its roads lies on the image; their extent is {where}")
    return clipped


def _grid_around(graphs: Sequence[RoadGraph], paper: Paper) -> Grid:
    """Return a grid, north up in its metric CRS, that holds all roads and a margin."""
    lines = np.concatenate([graph.lines for graph in graphs])
    if len(lines) == 0:
        raise DataError("there are no roads to draw; add --image to show the place")
    west, south, east, north = shapely.total_bounds(lines)
    margin = _MARGIN * max(east - west, north - south)
    # The longer side is as many pixels as are printed.
    pixel_m = (max(east - west, north - south) + 2 * margin) / paper.pixels
    transform = Affine(pixel_m, 0, west - margin, 0, -pixel_m, north + margin)
    height, width = ((side + 2 * margin) / pixel_m for side in (north - south, east - west))
    return Grid(graphs[0].crs, transform, math.ceil(height), math.ceil(width))


def _image(facts: RasterFacts, paper: Paper, scaling: Scaling | None) -> Bytes:
    """Read a scene in no more pixels than are printed, white where it has no data."""
    pixels, is_valid = read_preview(facts, side=paper.pixels)
    if scaling is None:
        scaling = fit_scaling([pixels[:, is_valid]])
    shown = rgb(scaling.apply(pixels))
    return np.moveaxis(np.where(is_valid, shown, np.uint8(255)), 0, -1)


def _area_held_out(
    workspace: Workspace, chips: ChipList, scene: str, grid: Grid
) -> shapely.Geometry | None:
    """Return the part of a scene that was held out, in columns and rows; None if all or nothing."""
    held_out = held_out_chips(workspace, chips, read_predicted(workspace)).get(scene, [])
    windows = np.array([chip.window for chip in held_out], dtype=np.float64).reshape(-1, 4)
    row, col, height, width = windows.T
    area = shapely.union_all(shapely.box(col, row, col + width, row + height))
    return area if 0 < area.area < grid.height * grid.width else None


def _draw(scene: _Scene, kind: Kind, path: Path, paper: Paper) -> Path:
    """Draw one kind of figure of a scene that has what the kind needs."""
    ground, bins, labels, predicted = scene.ground, scene.bins, scene.labels, scene.predicted
    if ground.grid.is_local:
        logger.info("%s: no georeference, so no scale bar and no north arrow", ground.name)
    if kind == "scene":
        draw_scene(path, ground, labels, bins=bins, paper=paper)
    elif kind == "graph" and predicted:
        draw_graph(path, ground, predicted, bins=bins, paper=paper)
    elif predicted and labels:
        tolerance_m = CompareOptions().tolerance_m
        alike = {"tolerance_m": tolerance_m, "min_length_m": 0.0}
        missed = missing_roads(labels, predicted, **alike)
        false = missing_roads(predicted, labels, **alike)
        errors = Errors(predicted, missed=missed, false=false, tolerance_m=tolerance_m)
        draw_errors(path, ground, errors, paper=paper)
    return path
