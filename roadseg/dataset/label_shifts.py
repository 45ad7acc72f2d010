"""Label shifts: by how much the labels of each scene are moved, found from a few of its windows."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from roadseg.arrays import Bytes
from roadseg.dataset.chips import NO_SHIFT, LabelShift
from roadseg.dataset.scenes import SceneTask, open_labels
from roadseg.dataset.shifts import NOT_SEEN, SURE, Shift, combine_shifts, estimate_shift
from roadseg.raster.grid import Grid
from roadseg.raster.images import RasterFacts
from roadseg.raster.pixels import open_scene, read_window
from roadseg.raster.scaling import fit_scaling
from roadseg.raster.windows import Window, cut_blocks, spread
from roadseg.roads.masks.burning import road_pixels
from roadseg.system.hosts.parallel import Executor, each
from roadseg.system.progress import counted

SCENES = 96  # Scenes that the shift of the set is found from, at most.
FAR_M = 10.0  # Metres; the longest shift of a set that is looked for.
NEAR_M = 5.0  # Metres; how far from it the shift of a scene is looked for.

_WINDOW_PX = 1300  # Side of the windows that are compared.
_DRAWN = 16  # Windows of a scene whose labels are drawn.
_COMPARED = 3  # Those of them with the most road, which are compared with the image.


def find_shifts(tasks: Sequence[SceneTask], *, executor: Executor) -> dict[str, LabelShift]:
    """Find how far to move the labels of each scene, by the rule of `labels.shift`.

    "set" is the median of the shifts of up to 96 scenes, each seen from up to 3 windows; 0 if it
    cannot be measured. "scene" adds the remaining shift of the scene, up to 5 m, times a weight
    that rises from 0, at confidence `SURE`, to 1.

    Args:
        tasks: of the scenes, all with the same `label_options`.
        executor: of the work on scenes.

    Returns:
        Metres east and north, by the name of the scene.
    """
    rule = tasks[0].label_options.shift
    if rule == "none" or isinstance(rule, tuple):
        given = NO_SHIFT if rule == "none" else rule
        return {task.name: given for task in tasks}
    of_set = _of_set(tasks, executor)
    if rule == "set":
        return {task.name: of_set for task in tasks}
    moved = [replace(task, shift_m=of_set) for task in tasks]
    own = _see_all(moved, NEAR_M, executor)
    return {
        task.name: _rounded(of_set, shrunk(shift)) for task, shift in zip(tasks, own, strict=True)
    }


def shrunk(shift: Shift) -> Shift:
    """Return the trusted part of a shift: none at a confidence up to `SURE`, all at 1."""
    weight = max(0.0, (shift.confidence - SURE) / (1 - SURE))
    return replace(shift, x_m=weight * shift.x_m, y_m=weight * shift.y_m)


def _of_set(tasks: Sequence[SceneTask], executor: Executor) -> LabelShift:
    whole = combine_shifts(_see_all(spread(tasks, SCENES), FAR_M, executor))
    return _rounded(NO_SHIFT, whole) if whole else NO_SHIFT


def _rounded(start: LabelShift, further: Shift) -> LabelShift:
    """Return a shift that goes further, to a decimetre: masks stay while little changes."""
    return round(start[0] + further.x_m, 1), round(start[1] - further.y_m, 1)


def _see_all(tasks: Sequence[SceneTask], reach_m: float, executor: Executor) -> list[Shift]:
    """Return the shift of each scene: `NOT_SEEN` for unusable ones, which fail later."""
    shifts = [NOT_SEEN] * len(tasks)
    see = partial(see_shift, reach_m=reach_m)
    work = each(see, tasks, executor=executor)
    for outcome in counted(work, "shifts", total=len(tasks), unit="scenes"):
        if outcome.result is not None:
            shifts[outcome.index] = outcome.result
    return shifts


def see_shift(task: SceneTask, *, reach_m: float) -> Shift:
    """Return how the labels of a scene are to be moved on, to the east (x) and to the south (y).

    Args:
        task: the scene; its labels are moved by its `shift_m` already.
        reach_m: longest shift that is looked for.

    Raises:
        DataError: if image or labels cannot be used.
    """
    with open_scene(task.image, task.imagery, part=task.part) as image:
        facts = image.facts
        with open_labels(task, image) as (draw, _):
            blocks = cut_blocks(facts.grid.height, facts.grid.width, block_px=_WINDOW_PX)
            drawn = [(window, draw(window)) for window in spread(blocks, _DRAWN)]
    drawn.sort(key=lambda one: -int(road_pixels(one[1]).sum()))
    shifts = [
        _on_map(_see(facts, window, mask, reach_m), facts.grid)
        for window, mask in drawn[:_COMPARED]
        if road_pixels(mask).any()
    ]
    return shifts[0] if len(shifts) == 1 else combine_shifts(shifts) or NOT_SEEN


def _see(facts: RasterFacts, window: Window, mask: Bytes, reach_m: float) -> Shift:
    bands, valid = read_window(facts, window)
    scaled = fit_scaling([bands[:, valid]]).apply(bands)  # By itself: light and dark are enough.
    pixels = np.where(valid, scaled, np.uint8(0))
    return estimate_shift(pixels, mask, pixel_m=facts.grid.pixel_size_m, reach_m=reach_m)


def _on_map(shift: Shift, grid: Grid) -> Shift:
    """Return a shift along rows and columns as one to the east and to the south."""
    east, north = grid.to_east_north(shift.x_m, shift.y_m)
    along = shift.along_deg
    if along is not None:
        x, y = grid.to_east_north(math.cos(math.radians(along)), math.sin(math.radians(along)))
        along = math.degrees(math.atan2(-y, x)) % 180
    return replace(shift, x_m=east, y_m=-north, along_deg=along)
