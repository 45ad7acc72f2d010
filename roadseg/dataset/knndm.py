"""kNNDM: folds as far from their training ground as images to be mapped are from the labels."""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.cluster.vq import kmeans2

from roadseg.arrays import Floats, Ints
from roadseg.dataset.chips import ChipRecord
from roadseg.dataset.folds import assign_folds, join_groups
from roadseg.dataset.footprints import Pairs, corners_degrees, globe_km, nearest_m
from roadseg.dataset.held_out import part_chips

_TRIED = 20  # Numbers of clusters, from one for each fold to one for each chip.
_LARGEST_SHARE = 0.5  # Of the chips, in one fold; in one of two folds 1.5 times its even share.
_MORE_THAN_EVEN = 1.5


@dataclass(frozen=True)
class Matched:
    """Folds, and how well they match.

    Attributes:
        clusters: number of clusters that were merged into folds.
        mismatch_m: Wasserstein distance between both distributions: by how many metres distances of
            the same rank differ, on average.
    """

    folds: Ints
    clusters: int
    mismatch_m: float


def matched_folds(
    chips: Sequence[ChipRecord],
    target_m: Floats,
    sets: Sequence[str] = (),
    *,
    together: Pairs,
    folds: int,
    seed: int,
    buffer_m: float,
) -> Matched:
    """Divide chips so that distances to the training ground are those of images to be mapped.

    The chips are clustered by k-means, into few clusters to many. The clusters of each try are
    merged into folds as `assign_folds` does. Of these folds, those count whose distances from
    held-out chips to the nearest one that is trained on come closest to `target_m`.

    Source: J. Linnenbrink, C. Milà, M. Ludwig, H. Meyer, "kNNDM CV: k-fold nearest-neighbour
    distance matching cross-validation for map accuracy estimation", Geosci. Model Dev. 17 (2024).
    There, clusters are merged in their order along the main axis, and distances are those of
    points; here, folds are filled evenly, and distances are those between footprints.

    Args:
        chips: all with georeference.
        target_m: distance from each part of the images to be mapped to the nearest chip, metres.
        sets: the name of the set of each chip; empty if all are one set.
        together: shape (m, 2), indices of chips that must share a fold.
        folds: number of folds, at least 2.
        seed: of the clusters, and of the order of equal ones.
        buffer_m: chips nearer than this to held-out ones are not trained on, metres.

    Raises:
        ValueError: if no try fills all folds, none of them with more than half of the chips, and
            leaves chips to train on.
    """
    from scipy.stats import wasserstein_distance

    best: Matched | None = None
    largest = max(_LARGEST_SHARE, _MORE_THAN_EVEN / folds) * len(chips)
    for clusters in _clusterings(chips, folds=folds, seed=seed):
        groups = join_groups(clusters, together)
        if len(set(groups)) < folds:
            continue
        dealt = assign_folds(groups, sets, folds=folds, seed=seed)
        metres = _distances(chips, dealt, buffer_m=buffer_m)
        if np.bincount(dealt).max() > largest or not np.isfinite(metres).all():
            continue
        mismatch_m = float(wasserstein_distance(metres, target_m))
        if best is None or mismatch_m < best.mismatch_m:
            best = Matched(dealt, len(set(groups)), mismatch_m)
    if best is None:
        raise ValueError(
            f"no clusters of the {len(chips)} chips fill {folds} folds, each with at most "
            f"{largest:.0f} chips and with others to train on"
        )
    return best


def _clusterings(chips: Sequence[ChipRecord], *, folds: int, seed: int) -> Iterator[list[int]]:
    """Yield the cluster of each chip, for growing numbers of clusters."""
    corners = np.array([chip.corners_m for chip in chips])
    centres = globe_km(corners_degrees(corners, [chip.zone for chip in chips]).mean(axis=1))
    numbers = np.geomspace(folds, max(folds, len(chips) - 1), _TRIED).round().astype(np.int64)
    for number in np.unique(numbers).tolist():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Of clusters that got no chip.
            _, cluster = kmeans2(centres, number, minit="points", seed=np.random.default_rng(seed))
        yield cluster.tolist()
    yield list(range(len(chips)))


def _distances(chips: Sequence[ChipRecord], folds: Ints, *, buffer_m: float) -> Floats:
    """Return how far held-out chips are from the nearest one that is trained on, fold by fold."""
    named = {chip.name: int(fold) for chip, fold in zip(chips, folds, strict=True)}
    parted = [part_chips(chips, named, fold, buffer_m=buffer_m) for fold in range(folds.max() + 1)]
    return np.concatenate([nearest_m(each.held_out, each.training) for each in parted])
