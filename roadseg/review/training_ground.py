"""Scenes from whose edits a network learns: their masks, and the ground that these show."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from os.path import normpath
from pathlib import Path

import geopandas as gpd
import numpy as np
import shapely

from roadseg.arrays import Bytes, Shapes
from roadseg.config import Config
from roadseg.dataset.chips import SceneRecord, read_chips
from roadseg.dataset.scene_parts import open_scene_probability
from roadseg.dataset.scenes import complete_area
from roadseg.dataset.sets import find_scenes
from roadseg.raster.grid import DEGREES, Grid, reproject
from roadseg.raster.images import read_grid
from roadseg.raster.inputs import find_areas
from roadseg.raster.windows import Window, cut_blocks, window_corners
from roadseg.report.scenes import ReportScene
from roadseg.review.apply import BESIDE_M
from roadseg.review.masks import AROUND_M, Decided, corrected_labels, decided_labels
from roadseg.roads.formats.layers import write_layer
from roadseg.roads.masks.mask_files import write_mask
from roadseg.system.files import atomic_write
from roadseg.system.workspace import Workspace, require

MASKS = "edit_masks"  # Folder of the masks in the run of a training on edits.
_MORE = 10  # Without labels: other ground to learn from at most, in times that of the decisions.


@dataclass(frozen=True)
class TrainingScene:
    """A scene with its set, its mask, and the ground from which a network learns.

    Attributes:
        labels: mask of the scene in the run; None if it has no labels.
        roads: roads on the scene and near it, in the metric CRS of the grid.
        grid: grid of the mask.
        decided: area of the decided roads and their sides, in this CRS.
        ground: area from which a network learns, in this CRS. Doubtful roads are not part of it:
            where graphs are measured, they must count neither as true nor as false.
    """

    name: str
    set: str
    image: Path
    mask: Path
    labels: Path | None
    roads: Decided
    grid: Grid
    decided: shapely.Geometry
    ground: shapely.Geometry

    @property
    def is_edited(self) -> bool:
        """Whether people decided about some of its roads."""
        return not shapely.is_empty(self.decided)

    @cached_property
    def has_sure_roads(self) -> bool:
        """Whether some of its roads are sure although nobody decided about them."""
        sure = self.roads.lines[self.roads.state == "sure"]
        return bool(shapely.intersects(sure, self.grid.footprint_m).any())


def find_training_scenes(
    config: Config,
    workspace: Workspace,
    made: Workspace,
    shown: Mapping[str, ReportScene],
    roads: Sequence[Decided],
) -> Iterator[TrainingScene]:
    """Yield all scenes; a scene without labels has the ground around its decided roads.

    Scenes without chips, whose whole mask is ignored, count as scenes without labels. An earlier
    `improve` leaves such masks.

    Args:
        workspace: run that was reviewed.
        made: run that will be trained on the edits, with the masks.
        shown: scenes under review, by name.
        roads: roads of all maps under review.

    Raises:
        DataError: if a grid or a file of the run cannot be read.
    """
    listed = read_chips(workspace.chips) if workspace.chips.exists() else None
    labelled = {chip.scene for chip in listed.chips} if listed else set()
    prepared = listed.scenes if listed else ()
    for name, (image, set_name) in _images(config, workspace, prepared, shown).items():
        labels, own = workspace.mask(name), config.of_set(set_name)
        has_labels = labels.exists() and (name in labelled or name not in shown)
        grid = read_grid(labels) if has_labels else shown[name].grid
        near, footprint = roads_near(roads, grid), grid.footprint_m
        decided = shapely.intersection(near.ground(BESIDE_M), footprint)
        if has_labels:
            complete = complete_area(find_areas(own.labels.area), grid, own.labels)
            ground: shapely.Geometry = footprint
            if complete is not None:
                ground = shapely.union(decided - near.unknown_ground, complete)
        elif shapely.is_empty(decided):
            ground = decided
        else:
            ground = shapely.intersection(near.ground(AROUND_M), footprint) - near.unknown_ground
        yield TrainingScene(
            name=name,
            set=set_name,
            image=Path(normpath(image.absolute())),
            mask=(made.root / MASKS / set_name / f"{image.stem}.tif").absolute(),
            labels=labels if has_labels else None,
            roads=near,
            grid=grid,
            decided=decided,
            ground=ground,
        )


def with_more_ground(
    scenes: Sequence[TrainingScene], roads: Sequence[Decided]
) -> list[TrainingScene]:
    """Return scenes without labels with more ground than that of the edits.

    The ground of the edits alone would teach a network what is typical of a few places. Blocks of
    other ground are added, the nearest to decided roads first, up to a multiple of it. Images
    without any sure road would teach that there are no roads, and are left out.
    """
    crs = roads[0].crs
    lines = np.concatenate([reproject(each.decided_lines, each.crs, crs) for each in roads])
    without = [each for each in scenes if not (each.is_edited or each.has_sure_roads)]
    scenes = [each for each in scenes if each.is_edited or each.has_sure_roads]
    blocks = [_blocks(scene.grid) for scene in scenes]
    row = np.repeat(np.arange(len(scenes)), [len(each) for each in blocks])
    places = [
        reproject(each, scene.grid.metric_crs, crs)
        for scene, each in zip(scenes, blocks, strict=True)
    ]
    tree = shapely.STRtree(lines)
    away_m = tree.query_nearest(np.concatenate(places), all_matches=False, return_distance=True)[1]
    grounds = np.array([scene.ground for scene in scenes], dtype=object)
    every = np.concatenate(blocks)
    more_m2 = shapely.area(shapely.difference(every, grounds[row]))
    order = np.argsort(away_m, kind="stable")
    fits = np.cumsum(more_m2[order]) <= _MORE * shapely.area(grounds).sum()
    is_chosen = np.zeros(len(every), dtype=bool)
    is_chosen[order[fits]] = True
    complete = list(scenes)
    for number in np.unique(row[is_chosen & (more_m2 > 0)]).tolist():
        scene, own = scenes[number], every[is_chosen & (row == number)]
        ground = shapely.union_all([scene.ground, *own]) - scene.roads.unknown_ground
        complete[number] = replace(scene, ground=ground)
    return [*complete, *without]


def _blocks(grid: Grid) -> Shapes:
    """Cut an image into equal blocks with sides of about 500 m, in the metres of its grid."""
    side_px = max(grid.height, grid.width)
    block_px = math.ceil(side_px / max(1, round(side_px * grid.pixel_size_m[0] / AROUND_M)))
    corners = window_corners(cut_blocks(grid.height, grid.width, block_px=block_px))
    return np.asarray(
        shapely.polygons(grid.to_metric(corners.reshape(-1, 2)).reshape(corners.shape))
    )


def write_edit_mask(config: Config, workspace: Workspace, scene: TrainingScene) -> None:
    """Write the mask of a scene; without ground to learn from, all of it is ignored.

    Raises:
        MissingInputError: if a scene without labels has no probabilities.
        OutputError: if the mask cannot be written.
    """
    own, bins = config.of_set(scene.set), config.labels.bins
    blocks: Iterator[tuple[Window, Bytes]] = iter(())
    if scene.labels:
        blocks = corrected_labels(scene.labels, scene.roads, scene.grid, bins=bins)
    elif not shapely.is_empty(scene.ground):
        made_by = "predict" if workspace.chips.exists() else "map"
        require(workspace.probability(scene.name), made_by=made_by)
        found = open_scene_probability(workspace.probability(scene.name), own.imagery)
        blocks = decided_labels(found, scene.roads, bins=bins, options=config.graph)
    scene.mask.parent.mkdir(parents=True, exist_ok=True)
    write_mask(scene.mask, blocks, scene.grid, bins=bins)


def roads_near(roads: Sequence[Decided], grid: Grid) -> Decided:
    """Return the roads of all maps up to 500 m from the ground of a grid, in its metres."""
    return Decided.joined([each.near(grid) for each in roads])


def _images(
    config: Config,
    workspace: Workspace,
    prepared: Sequence[SceneRecord],
    shown: Mapping[str, ReportScene],
) -> dict[str, tuple[Path, str]]:
    """Return image and set of every scene that has labels or was mapped, by name."""
    images = {each.name: (each.image, each.set) for each in prepared}
    images = {name: each for name, each in images.items() if workspace.mask(name).exists()}
    set_of = {name: each.name for each, found in find_scenes(config.sets) for name in found}
    for name, scene in shown.items():
        if scene.image is not None:
            images.setdefault(name, (scene.image.path, set_of.get(name, "")))
    return images


def write_ground(path: Path, scenes: Sequence[TrainingScene]) -> None:
    """Write where the masks are complete; other ground is ignored."""
    known = [each for each in scenes if not shapely.is_empty(each.ground)]
    shapes = [
        reproject(np.array([each.ground]), each.grid.metric_crs, DEGREES)[0] for each in known
    ]
    table = gpd.GeoDataFrame({"scene": [each.name for each in known]}, geometry=shapes, crs=DEGREES)
    with atomic_write(path) as partial:
        write_layer(partial, table, "GeoJSON", layer="area", geometry_type=None)
