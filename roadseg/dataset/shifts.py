"""Shifts of road labels against the image: estimate them, and choose how far to move labels."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from roadseg.arrays import Bytes, Floats, Floats32
from roadseg.dataset.chips import NO_SHIFT, LabelShift
from roadseg.dataset.registration import View, best_displacement, correlate, make_view, score
from roadseg.dataset.scenes import SceneTask, open_labels
from roadseg.raster.grid import Grid
from roadseg.raster.images import RasterFacts
from roadseg.raster.pixels import open_scene, read_window
from roadseg.raster.scaling import fit_scaling
from roadseg.raster.windows import Window, cut_blocks, spread
from roadseg.roads.masks.burning import road_pixels
from roadseg.system.parallel import each
from roadseg.system.progress import counted

SURE = 0.7  # Confidence from which a shift is significant.
WORTH_M = 2.0  # Metres; a longer shift is worth a warning.
FAR_M = 10.0  # Metres; longest shift of a set of scenes that is searched.
NEAR_M = 5.0  # Metres; longest further shift of a single scene that is searched.
SCENES = 96  # Most scenes that the shift of a set is estimated from.

_BLOCKS = 3  # Rows and columns of blocks into which a scene is cut for the bootstrap.
_DRAWS = 40  # Bootstrap samples of the blocks.
_AGREE_M = 1.5  # Metres; displacements at most this far apart agree.
_MIN_SCORE = 2.0  # It rules out flat images only: rough ground without roads still reaches 3.
_RIM_M = 1.0  # Metres; a peak this close to the limit may belong to one beyond it.
_COARSE_M = 2.5  # Metres; larger pixels do not show the sides of roads.
_ONE_WAY = 0.05  # Roads run one way if less than this share of their outlines runs across.
_WINDOW_PX = 1300  # Side of the windows that are compared.
_DRAWN = 16  # Windows of a scene whose labels are drawn.
_COMPARED = 3  # Those with the most road are compared with the image.

Axis = tuple[float, float]


@dataclass(frozen=True)
class Shift:
    """The displacement that moves labels onto the roads of the image.

    `estimate_shift` returns it in the frame of the image, `to_map` in that of the map.

    Attributes:
        x_m: metres along the rows of the image, positive to the right; on the map, to the east.
        y_m: metres along its columns, positive down; on the map, to the south.
        confidence: 0 to 1, the share of resampled scenes that agree; below `SURE` the shift means
            nothing.
        along_deg: None, or, if all roads run one way, their direction in degrees, from the right
            towards down, 0 up to 180. A shift along them cannot be seen then, so `x_m` and `y_m`
            are only the part across them.
    """

    x_m: float
    y_m: float
    confidence: float
    along_deg: float | None = None

    @property
    def length_m(self) -> float:
        """Length of the shift, or of its part across roads that run one way."""
        return math.hypot(self.x_m, self.y_m)

    @property
    def is_sure(self) -> bool:
        """Whether the shift is significant."""
        return self.confidence >= SURE


_NOT_MEASURED = Shift(0.0, 0.0, 0.0)


def estimate_shift(
    image: Bytes, mask: Bytes, *, pixel_m: tuple[float, float], reach_m: float = 10.0
) -> Shift:
    """Estimate how far road labels are shifted against the image.

    Every displacement of the mask up to `reach_m` gets a score for roads as wide as the mask and
    for roads up to 12 m wider on each side. Two kinds of evidence count equally: how well
    brightness, colour and texture tell road from roadside (the squared multiple correlation: dark
    and bright roads are the same to it), and how far image edges run along the outlines of the
    roads. A slight pull towards no shift decides between near equals, such as the street and a row
    of houses beside it.

    The confidence comes from a bootstrap: the scene is cut into 3 x 3 blocks, and 40 samples are
    drawn from these with replacement. It is the share of the samples whose best displacement lies
    within 1.5 m of that of the scene. It is 0 if fewer than three blocks have roads, if the best
    displacement lies at the limit, or if pixels are larger than 2.5 m.

    Args:
        image: shape (band, row, col); the first three bands are looked at.
        mask: shape (row, col) of the image, 0 background, 255 not known, road otherwise.
        pixel_m: ground size of a pixel as (along a row, along a column), metres.
        reach_m: largest shift that is searched. Roads closer than this to the border do not count.
    """
    if max(pixel_m) > _COARSE_M:
        return _NOT_MEASURED
    view = make_view(image, mask, pixel_m=pixel_m, reach_m=reach_m)
    blocks = list(correlate(view, blocks=_BLOCKS)) if view.stays_inside.any() else []
    if len(blocks) < _BLOCKS:
        return _NOT_MEASURED
    features, edges = (np.stack(kind) for kind in zip(*blocks, strict=True))
    across = _only_across(view)
    # Bootstrap: how many samples of the blocks agree on the displacement?
    times = _draws(len(blocks))
    scores = score(*(np.einsum("db,b...->d...", times, kind) for kind in (features, edges)))
    displacement, *drawn = [best_displacement(each, view, across) for each in scores]
    if scores[0].max() < _MIN_SCORE or math.hypot(*displacement) > reach_m - _RIM_M:
        return _NOT_MEASURED
    agreed = np.mean([math.dist(displacement, other) <= _AGREE_M for other in drawn])
    along = None if across is None else math.degrees(math.atan2(across[0], -across[1])) % 180
    return Shift(*displacement, confidence=float(agreed), along_deg=along)


def combine_shifts(shifts: Sequence[Shift]) -> Shift | None:
    """Combine the shifts of scenes into that of the data set: a median weighted by confidence.

    It is the geometric median of the significant shifts, on which outliers have little influence.
    Where roads run one way, only distances across them count. The confidence is the mean, weighted
    by itself; `along_deg` is set only if the roads of all scenes run the same way.

    Returns:
        The shift, or None if that of no scene is significant.

    Source: the iteration is that of Weiszfeld (1937).
    """
    sure = [shift for shift in shifts if shift.is_sure]
    if not sure:
        return None
    at = np.array([[shift.x_m, shift.y_m] for shift in sure])
    axes = np.stack([_visible_axes(shift) for shift in sure])
    confidence = np.array([shift.confidence for shift in sure])
    weight, total, middle = confidence, axes.sum(axis=0), np.zeros(2)
    # Weiszfeld: each step weighs the shifts by how near they lie to the middle so far.
    for _ in range(100):
        total = np.einsum("n,nij->ij", weight, axes)
        middle = np.linalg.pinv(total, rcond=_ONE_WAY) @ np.einsum("n,nij,nj->i", weight, axes, at)
        apart = np.linalg.norm(np.einsum("nij,nj->ni", axes, middle - at), axis=1)
        weight = confidence / np.maximum(apart, 0.01)
    lesser, greater = np.linalg.eigvalsh(total)
    return Shift(
        x_m=float(middle[0]),
        y_m=float(middle[1]),
        confidence=float(np.average(confidence, weights=confidence)),
        along_deg=sure[0].along_deg if lesser < _ONE_WAY * greater else None,
    )


def _draws(blocks: int) -> Floats32:
    """Return how often each block counts: once in the scene, then in each bootstrap sample."""
    rng = np.random.default_rng(0)
    drawn = rng.multinomial(blocks, np.full(blocks, 1 / blocks), size=_DRAWS)
    return np.concatenate([np.ones((1, blocks)), drawn]).astype(np.float32)


def _only_across(view: View) -> Axis | None:
    """Return the direction across the roads, a unit vector, if all are parallel; else None."""
    near = view.stays_inside & (np.abs(view.away_m) < max(view.pixel_m))
    normals = np.stack([part[near] for part in view.normal])
    shares, axes = np.linalg.eigh(normals @ normals.T)
    if shares[0] >= _ONE_WAY * shares.sum():
        return None
    return float(axes[0, 1]), float(axes[1, 1])


def _visible_axes(shift: Shift) -> Floats:
    """Return the projection onto the directions in which a shift was measured, shape (2, 2)."""
    if shift.along_deg is None:
        return np.eye(2)
    along = math.radians(shift.along_deg)
    across = np.array([-math.sin(along), math.cos(along)])
    return np.outer(across, across)


def find_shifts(tasks: Sequence[SceneTask], *, workers: int) -> dict[str, LabelShift]:
    """Return how far to move the labels of each scene, by the rule of `labels.shift`.

    "set" is the median of the shifts of up to 96 scenes, each estimated on up to 3 windows; 0 if it
    cannot be measured. "scene" adds the remaining shift of the scene, up to 5 m, times a weight
    that rises from 0 at confidence `SURE` to 1 at confidence 1.

    Args:
        tasks: tasks of the scenes, all with the same `label_options`.

    Returns:
        Metres east and north, by the name of the scene.
    """
    rule = tasks[0].label_options.shift
    if rule == "none" or isinstance(rule, tuple):
        given = NO_SHIFT if rule == "none" else rule
        return {task.name: given for task in tasks}
    combined = combine_shifts(_scene_shifts(spread(tasks, SCENES), FAR_M, workers))
    set_shift = _moved_on(NO_SHIFT, combined) if combined else NO_SHIFT
    if rule == "set":
        return {task.name: set_shift for task in tasks}
    moved = [replace(task, shift_m=set_shift) for task in tasks]
    remaining = _scene_shifts(moved, NEAR_M, workers)
    return {
        task.name: _moved_on(set_shift, shrunk(shift))
        for task, shift in zip(tasks, remaining, strict=True)
    }


def shrunk(shift: Shift) -> Shift:
    """Scale a shift by its confidence: to zero up to `SURE`, and to all of it at 1."""
    weight = max(0.0, (shift.confidence - SURE) / (1 - SURE))
    return replace(shift, x_m=weight * shift.x_m, y_m=weight * shift.y_m)


def _moved_on(start: LabelShift, further: Shift) -> LabelShift:
    """Add a further shift, and round to decimetres, so that tiny changes do not make new masks."""
    return round(start[0] + further.x_m, 1), round(start[1] - further.y_m, 1)


def _scene_shifts(tasks: Sequence[SceneTask], reach_m: float, workers: int) -> list[Shift]:
    """Return the shift of each scene; `_NOT_MEASURED` if it cannot be read, which fails later."""
    shifts = [_NOT_MEASURED] * len(tasks)
    work = each(partial(_scene_shift, reach_m=reach_m), tasks, workers=workers)
    for outcome in counted(work, "measure shifts", total=len(tasks), unit="scenes"):
        if outcome.result is not None:
            shifts[outcome.index] = outcome.result
    return shifts


def _scene_shift(task: SceneTask, *, reach_m: float) -> Shift:
    """Estimate the remaining shift of the labels of a scene: x to the east, y to the south.

    Args:
        task: the scene; its labels are moved by `shift_m` first.

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
        to_map(_window_shift(facts, window, mask, reach_m), facts.grid)
        for window, mask in drawn[:_COMPARED]
        if road_pixels(mask).any()
    ]
    return shifts[0] if len(shifts) == 1 else combine_shifts(shifts) or _NOT_MEASURED


def _window_shift(facts: RasterFacts, window: Window, mask: Bytes, reach_m: float) -> Shift:
    bands, valid = read_window(facts, window)
    scaled = fit_scaling([bands[:, valid]]).apply(bands)
    pixels = np.where(valid, scaled, np.uint8(0))
    return estimate_shift(pixels, mask, pixel_m=facts.grid.pixel_size_m, reach_m=reach_m)


def to_map(shift: Shift, grid: Grid) -> Shift:
    """Convert a shift along rows and columns to one to the east and to the south."""
    east, north = grid.to_east_north(shift.x_m, shift.y_m)
    along = shift.along_deg
    if along is not None:
        x, y = grid.to_east_north(math.cos(math.radians(along)), math.sin(math.radians(along)))
        along = math.degrees(math.atan2(-y, x)) % 180
    return replace(shift, x_m=east, y_m=-north, along_deg=along)
