"""improve: a network learns from what people corrected in a review, and maps the images again.

Reads a run and its edits; writes another run folder with masks of the edits, a network that goes
on from the one of the run, new roads, and the edits, which stay in force.
"""

import logging
import shlex
import shutil
from collections.abc import Collection, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import shapely
from pyproj import CRS

from roadseg.arrays import Bools, Lines
from roadseg.commands.stages import pipeline, prepare
from roadseg.commands.tools import review
from roadseg.commands.tools.adapt import network_form, resampled_m
from roadseg.config import FILE_NAME, Config, with_relative_paths
from roadseg.dataset.chips import ChipRecord, read_chips
from roadseg.dataset.fold_files import read_fold_chips, read_folds, write_folds
from roadseg.dataset.options import SetLabelOptions
from roadseg.errors import ConfigError, DataError
from roadseg.learn.network.checkpoint_facts import checkpoint_path, read_checkpoint_facts
from roadseg.learn.network.installed_weights import checkpoint_folder, starter_folder
from roadseg.raster.grid import Grid, reproject_points
from roadseg.raster.images import read_grid, read_scene_grid
from roadseg.raster.windows import Window
from roadseg.report.run_facts import found_layout, scene_names
from roadseg.report.scenes import read_scenes
from roadseg.review.edits import EditFile
from roadseg.review.held_out import HELD_OUT, chip_places, choose_held_out, kept_folds
from roadseg.review.masks import PSEUDO_LABELS, Decided, decided_roads
from roadseg.review.session import ReviewSession, crs_of_edits
from roadseg.review.sheets import sheets_of
from roadseg.review.training_ground import (
    MASKS,
    TrainingScene,
    find_training_scenes,
    roads_near,
    with_more_ground,
    write_edit_mask,
    write_ground,
)
from roadseg.roads.graph.road_graph import sample_points
from roadseg.roads.masks.probabilities import open_probability
from roadseg.system.files import atomic_write
from roadseg.system.locks import lock
from roadseg.system.progress import counted
from roadseg.system.records import write_json
from roadseg.system.text import Summary, first
from roadseg.system.workspace import Workspace, require

_log = logging.getLogger(__name__)

_SPACING_M = 2.0  # Metres between the places along a road at which its probability is read.
_FOLD = 0
_AREA = "area.geojson"  # Where the masks of the edits are complete.
_OFF = 0.1  # Tolerance of the share of the decisions that is held out.
_CHIP_PX = (512, 256)  # Sides of the chips of a run without labels, tried in this order.


@dataclass(frozen=True)
class Found:
    """Length of decided roads outside the training, in metres, and how much of it networks find.

    Attributes:
        metres: length of these roads.
        before: length that the network before the training finds.
        after: length that the network after the training finds.
    """

    metres: float
    before: float
    after: float

    def __str__(self) -> str:
        """Return the shares before and after."""
        if not self.metres:
            return "none there"
        before, after = self.before / self.metres, self.after / self.metres
        return f"{before:.0%} -> {after:.0%} of {self.metres:.0f} m"


@dataclass(frozen=True)
class ImproveSummary(Summary):
    """Effect of a training on edits, measured with the edits on held-out chips.

    Attributes:
        run: folder of the new run.
        edited_scenes: number of scenes with decisions.
        drawn: roads that people drew: the more of them a network finds, the better.
        accepted: roads that people accepted; none should get lost.
        rejected: roads that people rejected: the fewer, the better.
        roads: files of the new roads with all edits, one for each coordinate system.
    """

    run: str
    edited_scenes: int
    drawn: Found
    accepted: Found
    rejected: Found
    roads: list[str]

    def __str__(self) -> str:
        """Return the shares of roads that the networks find, and where the results are."""
        measured = [
            "found by the network, before -> after, of the roads on held-out chips that people",
            "drew or accepted (the more, the better), or rejected (the fewer, the better):",
            f"  drawn     {self.drawn}",
            f"  accepted  {self.accepted}",
            f"  rejected  {self.rejected}",
        ]
        if not any(found.metres for found in (self.drawn, self.accepted, self.rejected)):
            measured = ["measured  not possible: nothing was decided on the held-out chips"]
        return "\n".join(
            [
                *measured,
                f"roads     {', '.join(self.roads)}",
                f"run       {self.run} (go on with `roadseg review {shlex.quote(self.run)}`)",
            ]
        )


def run(
    config: Config,
    workspace: Workspace,
    output: Path | None = None,
    *,
    minutes: float,
    checkpoint: Path | None = None,
    say: pipeline.Say,
) -> ImproveSummary:
    """Train on edits and on the labels of the run, if it has any, and map all its images again.

    Args:
        output: folder of the new run; None for the name of the run with the next number, as in
            `city` and `city-2`. An interrupted call with the same edits is resumed.
        minutes: duration of the training.
        checkpoint: network to start from; None for the network of the run, or the starter.

    Raises:
        MissingInputError: if the run has no edits, or no probabilities.
        DataError: if no edit says whether something is a road.
        ConfigError: if the folder has another run.
    """
    output = output or next_folder(workspace.root)
    workspace = found_layout(workspace)
    require(workspace.edits, made_by=f"review {shlex.quote(str(workspace.root))}")
    shown = read_scenes(config, workspace, scene_names(workspace), with_labels=False)
    named = {scene.name: scene for scene in shown.scenes}
    if problem := review.why_not_improve(shown.scenes):
        raise DataError(problem)
    sheets = sheets_of(shown)
    with closing(EditFile(workspace.edits, crs_of_edits(sheets))) as file:
        session = ReviewSession(sheets, file, who="")
    if session.left_out:
        _log.warning("%s: left out: %s", workspace.edits, first(session.left_out))
    roads = [decided_roads(sheet.revision, width_m=config.labels.width_m) for sheet in sheets]
    start = checkpoint_folder(checkpoint) if checkpoint else network_of(workspace)
    made = Workspace(output)
    with lock(output):
        if _is_taken(made, workspace.edits):
            raise ConfigError(
                f"{output}: has a run that was not made from the edits in {workspace.edits}; use "
                "another --output"
            )
        scenes = list(find_training_scenes(config, workspace, made, named, roads))
        if not any(scene.is_edited for scene in scenes):
            raise DataError(
                f"{workspace.edits}: no edit accepts, rejects or draws a road on these images; "
                "expected some, from `roadseg review`"
            )
        has_labels = any(scene.labels for scene in scenes)
        if not has_labels:
            scenes = with_more_ground(scenes, roads)
        for scene in counted(scenes, "write masks", total=len(scenes), unit="scenes"):
            write_edit_mask(config, workspace, scene)
        # They come first, as a run without them is another one.
        with atomic_write(made.edits) as partial:
            shutil.copyfile(workspace.edits, partial)
        write_ground(output / MASKS / _AREA, scenes)
        planned = _plan(config, made, scenes, start, minutes=minutes)
        planned = (
            _with_kept_folds(planned, made, workspace)
            if has_labels
            else _with_new_folds(planned, made, scenes)
        )
        movable = with_relative_paths(planned, made.root.absolute())
        write_json(output / FILE_NAME, movable.model_dump(mode="json"))
        pipeline.run(planned, made, say=say)
        edited = {scene.name for scene in scenes if scene.is_edited}
        found = _measure(planned, workspace, made, roads, edited)
    reviewed = review.run(planned, made, export=output / "roads.gpkg", say=lambda _: None)
    return ImproveSummary(
        run=str(output),
        edited_scenes=sum(scene.is_edited for scene in scenes),
        **found,
        roads=reviewed.exported,
    )


def next_folder(root: Path) -> Path:
    """Return the folder beside a run with the next number in its name."""
    folder = root.absolute()
    name, _, number = folder.name.rpartition("-")
    if name and number.isdecimal():
        return folder.with_name(f"{name}-{int(number) + 1}")
    return folder.with_name(f"{folder.name}-2")


def _is_taken(made: Workspace, edits: Path) -> bool:
    """Return whether a folder has another run: that of the edits themselves, or of others."""
    if not made.edits.exists():
        return (made.root / FILE_NAME).exists() or made.record("prepare").exists()
    return made.edits.samefile(edits) or made.edits.read_bytes() != edits.read_bytes()


def network_of(workspace: Workspace) -> Path:
    """Return the network of a run, the one adapted to its images, or the starter."""
    own = (each.checkpoint(_FOLD) for each in (workspace, workspace.adapted))
    return next((each for each in own if checkpoint_path(each, "best").is_file()), starter_folder())


def _plan(
    config: Config,
    made: Workspace,
    scenes: Sequence[TrainingScene],
    start: Path,
    *,
    minutes: float,
) -> Config:
    """Return the config of the new run: the old one with the masks of edits as labels."""
    files: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {}
    for name in {scene.set for scene in scenes}:
        own = [scene for scene in scenes if scene.set == name]
        files[name] = tuple(str(s.image) for s in own), tuple(str(s.mask) for s in own)
    imagery: dict[str, Any] = {}
    area = str((made.root / MASKS / _AREA).absolute())
    labels: dict[str, Any] = {"area": (area,), "mask_speeds_mph": None}
    if not any(scene.labels for scene in scenes):
        labels["licence"] = f"none: decisions of a review, and {PSEUDO_LABELS}"
    if config.imagery.sets:
        plain = {"labels": SetLabelOptions()}
        imagery["sets"] = {
            name: own.model_copy(update={"images": files[name][0], "roads": files[name][1]} | plain)
            for name, own in config.imagery.sets.items()
            if name in files
        }
    else:
        imagery["images"], labels["roads"] = files[""]
        imagery["bands"] = config.imagery.bands or tuple(
            read_checkpoint_facts(start, "best")["bands"]
        )
    if config.imagery.gsd_m is None:
        # Some images may have the pixels of the network already; the others are resampled to these.
        sizes_m = (
            resampled_m(read_grid(s.mask), read_scene_grid(s.image, config.of_set(s.set).imagery))
            for s in scenes
        )
        imagery["gsd_m"] = next((size_m for size_m in sizes_m if size_m), None)
    updates = {
        "imagery": imagery,
        "labels": labels,
        "train": {"init": start.absolute(), "minutes": minutes, **network_form(start)},
        "predict": {"scenes": "all"},
    }
    sections = {
        name: getattr(config, name).model_copy(update=update) for name, update in updates.items()
    }
    return config.model_copy(update={**sections, "run": made.root.absolute()})


def _with_new_folds(config: Config, made: Workspace, scenes: Sequence[TrainingScene]) -> Config:
    """Return the config with chips and two folds; fold 0 has about a fifth of the decisions.

    It also has a fifth of the places without decisions, as the threshold has to fit these as well.
    Edits often lie within one ground block of 500 m, so neighbouring chips may be in different
    folds, but not chips of the same ground. Chips are smaller if large ones do not divide well.

    Raises:
        DataError: if all of it lies on one small chip, or on chips that overlap.
    """
    decided = {scene.name: scene.decided for scene in scenes}
    for chip_px in _CHIP_PX:
        imagery = config.imagery.model_copy(update={"chip_px": chip_px})
        config = config.model_copy(update={"imagery": imagery})
        prepare.run(config, made)
        chips = read_chips(made.chips).chips
        corners = np.array([chip.corners_m for chip in chips])
        grounds = np.array([decided[chip.scene] for chip in chips])
        whole = shapely.polygons(corners)
        decided_m2 = shapely.area(shapely.intersection(whole, grounds))
        place = chip_places(chips)
        shares = np.bincount(place, decided_m2) / decided_m2.sum()
        is_held_out = choose_held_out(shares)
        if abs(shares[is_held_out].sum() - HELD_OUT) <= _OFF:
            break
    if np.count_nonzero(shares) == 1:
        raise DataError(
            f"{made.root}: everything that was decided lies within {chip_px} pixels, and a part of "
            "it has to be held out; review roads on more ground"
        )
    return _with_fold_file(config, made, chips, [int(not is_held_out[each]) for each in place])


def _with_kept_folds(config: Config, made: Workspace, before: Workspace) -> Config:
    """Return the config with the folds of the run, so that fold 0 holds out no earlier training."""
    prepare.run(config, made)
    chips, earlier = read_chips(made.chips).chips, read_chips(before.chips).chips
    fold_of = kept_folds(chips, earlier, read_folds(before.folds, earlier))
    return _with_fold_file(config, made, chips, fold_of)


def _with_fold_file(
    config: Config, made: Workspace, chips: Sequence[ChipRecord], fold_of: Sequence[int]
) -> Config:
    path = made.root / MASKS / "folds.json"
    write_folds(path, {c.name: fold for c, fold in zip(chips, fold_of, strict=True)})
    folds = {"method": "file", "file": path.absolute(), "folds": max(fold_of) + 1}
    return config.model_copy(update={"split": config.split.model_copy(update=folds)})


def _measure(
    config: Config,
    before: Workspace,
    after: Workspace,
    roads: Sequence[Decided],
    edited: Collection[str],
) -> dict[str, Found]:
    """Measure both networks on the decided roads that lie on held-out chips of edited scenes."""
    chips = read_fold_chips(after, read_chips(after.chips).chips, _FOLD).held_out
    metres = {kind: np.zeros(3) for kind in ("drawn", "accepted", "rejected")}
    for scene in sorted({chip.scene for chip in chips if chip.scene in edited}):
        files = [open_probability(each.probability(scene)) for each in (before, after)]
        masks = [
            file.read_road(Window(0, 0, file.grid.height, file.grid.width))
            >= config.graph.level_for(file.threshold)
            for file in files
        ]
        near = roads_near(roads, files[1].grid)
        corners = [chip.corners_m for chip in chips if chip.scene == scene]
        ground = shapely.union_all(shapely.polygons(corners))
        for kind, sums in metres.items():
            inside = shapely.intersection(near.lines[near.state == kind], ground)
            pieces = shapely.get_parts(inside)
            pieces = pieces[shapely.length(pieces) > 0]
            if len(pieces):
                found = [
                    _found_m(file.grid, mask, pieces, near.crs)
                    for file, mask in zip(files, masks, strict=True)
                ]
                sums += [shapely.length(pieces).sum(), *found]
    return {kind: Found(*sums.round(1).tolist()) for kind, sums in metres.items()}


def _found_m(grid: Grid, mask: Bools, lines: Lines, crs: CRS) -> float:
    """Return the length of lines, in metres, on which a mask shows a road."""
    xy, line = sample_points(lines, spacing_m=_SPACING_M)
    size_m = (shapely.length(lines) / np.bincount(line, minlength=len(lines)))[line]
    at = np.floor(grid.from_metric(reproject_points(xy, crs, grid.metric_crs))).astype(np.int64)
    row, col = at.clip(0, [grid.height - 1, grid.width - 1]).T
    return float(size_m[mask[row, col]].sum())
