"""Shifts: how far road labels lie beside the roads of the image."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from roadseg.arrays import Bytes, Floats, Floats32
from roadseg.dataset.registration import (
    View,
    best_displacement,
    correlate,
    score,
    view_of,
)

SURE = 0.7  # The confidence from which a shift means something.
WORTH_M = 2.0  # Metres; a longer shift is worth a warning.

_BLOCKS = 3  # Rows and columns of the blocks that scenes are drawn from.
_DRAWS = 40  # Scenes that are drawn from the blocks.
_AGREE_M = 1.5  # Metres; displacements that are no further apart agree.
# The least score of a match; that of the best one on rough ground without roads is above 3.
_LEAST = 2.0
_RIM_M = 1.0  # Metres; a match so close to the limit may be the slope of one beyond it.
_COARSE_M = 2.5  # Metres; larger pixels do not show the sides of roads.
# Roads run one way if a smaller share of their outlines lies across the rest.
_ONE_WAY = 0.05

Axis = tuple[float, float]


@dataclass(frozen=True)
class Shift:
    """The way that labels have to be moved to lie on the roads of the image.

    Attributes:
        x_m: metres along the rows of the image, positive to the right (east, if north is up).
        y_m: metres along its columns, positive down (south, if north is up).
        confidence: 0 to 1, the share of resampled scenes that agree; below `SURE` the shift means
            nothing.
        along_deg: None, or, if all roads run one way, their direction in degrees, from the right
            towards down, 0 up to 180. A shift along them cannot be seen then: `x_m` and `y_m`
            are of the shift across them.
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


NOT_SEEN = Shift(0.0, 0.0, 0.0)


def estimate_shift(
    image: Bytes,
    mask: Bytes,
    *,
    pixel_m: tuple[float, float],
    reach_m: float = 10.0,
) -> Shift:
    """Estimate how far road labels are shifted against the image.

    Every displacement of the mask up to `reach_m` gets a score for roads as wide as the mask and
    for roads up to 12 m wider on each side. Two kinds of evidence count equally: how well
    brightness, colour and texture tell road from roadside (the squared multiple correlation: dark
    and bright roads are the same to it), and how far image edges run along the outlines of the
    roads. A slight pull towards no shift decides between near equals, such as the street and a row
    of houses beside it.

    The confidence is a bootstrap: the scene is cut into 3 x 3 blocks, 40 scenes are drawn from
    them, and it is the share of those whose best displacement lies within 1.5 m. It is 0 where
    fewer than three blocks hold road, where the best displacement lies at the limit, and where
    pixels are larger than 2.5 m.

    Args:
        image: shape (band, row, col); the first three bands are looked at.
        mask: shape (row, col), 0 background, 255 not known, road otherwise.
        pixel_m: ground size of a pixel as (along a row, along a column), metres.
        reach_m: largest shift that is looked for. Roads closer to the border are not looked at.

    Raises:
        ValueError: if image and mask differ in shape.
    """
    if image.shape[1:] != mask.shape:
        raise ValueError(f"the image has {image.shape[1:]} pixels, but the mask {mask.shape}")
    if max(pixel_m) > _COARSE_M:
        return NOT_SEEN
    view = view_of(image, mask, pixel_m=pixel_m, reach_m=reach_m)
    blocks = list(correlate(view, blocks=_BLOCKS)) if view.stays_inside.any() else []
    if len(blocks) < _BLOCKS:
        return NOT_SEEN
    features, edges = (np.stack(kind) for kind in zip(*blocks, strict=True))
    across = _only_across(view)
    # A bootstrap: how many scenes drawn from the blocks agree on the displacement?
    times = _draws(len(blocks))
    scores = score(*(np.einsum("db,b...->d...", times, kind) for kind in (features, edges)))
    displacement, *drawn = [best_displacement(each, view, across) for each in scores]
    if scores[0].max() < _LEAST or math.hypot(*displacement) > reach_m - _RIM_M:
        return NOT_SEEN
    agreed = np.mean([math.dist(displacement, other) <= _AGREE_M for other in drawn])
    along = None if across is None else math.degrees(math.atan2(across[0], -across[1])) % 180
    return Shift(*displacement, confidence=float(agreed), along_deg=along)


def directions(x_m: float, y_m: float) -> str:
    """Return a shift in words: `1.0 m left and 2.5 m down`."""
    across = f"{abs(x_m):.1f} m {'right' if x_m > 0 else 'left'}"
    return f"{across} and {abs(y_m):.1f} m {'down' if y_m > 0 else 'up'}"


def combine_shifts(shifts: Sequence[Shift]) -> Shift | None:
    """Combine the shifts of scenes into that of the data set: a median weighted by confidence.

    It is the geometric median of the sure ones, the place with the least sum of distances, so
    that a few scenes far off pull little. A shift across roads that run one way counts by its
    distance across them. The confidence is the mean, weighted by itself; `along_deg` is set only
    if the roads of all scenes run the same way.

    Returns:
        The shift, or None if no scene is sure.

    Source: Weiszfeld (1937), the iteration.
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
    """Return how often each block is in the scene, then in each scene drawn from it."""
    rng = np.random.default_rng(0)
    drawn = rng.multinomial(blocks, np.full(blocks, 1 / blocks), size=_DRAWS)
    return np.concatenate([np.ones((1, blocks)), drawn]).astype(np.float32)


def _only_across(view: View) -> Axis | None:
    """Return the direction across the roads, a unit vector, if they all run one way."""
    near = view.stays_inside & (np.abs(view.away_m) < max(view.pixel_m))
    normals = np.stack([part[near] for part in view.normal])
    shares, axes = np.linalg.eigh(normals @ normals.T)
    if shares[0] >= _ONE_WAY * shares.sum():
        return None
    return float(axes[0, 1]), float(axes[1, 1])


def _visible_axes(shift: Shift) -> Floats:
    """Return the projection on the visible directions of a shift."""
    if shift.along_deg is None:
        return np.eye(2)
    along = math.radians(shift.along_deg)
    across = np.array([-math.sin(along), math.cos(along)])
    return np.outer(across, across)
