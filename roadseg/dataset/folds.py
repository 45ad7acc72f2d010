"""Folds: assign chips to folds so that a group of chips is never on both sides of a split.

With kNNDM, folds are as far from their training ground as images to be mapped are from the labels.
"""

import warnings
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.cluster.vq import kmeans2

from roadseg.arrays import Bools, Floats, Ints
from roadseg.dataset.chips import ChipRecord
from roadseg.dataset.fold_files import part_chips
from roadseg.dataset.footprints import Pairs, corners_degrees, frame_of, globe_km, nearest_m
from roadseg.roads.graph.groups import connected_groups
from roadseg.system.text import count

Block = tuple[Hashable, int, int]

_SEED = 0  # Of the order of equal groups, and of clusters.
_FEWEST_SHARES = 3  # A set in fewer parts is not held out, as too little would be left to learn.
_TRIED = 20  # Numbers of clusters, from one for each fold to one for each chip.
_LARGEST_SHARE = 0.5  # Of the chips, in one fold; in one of two folds 1.5 times its even share.
_MORE_THAN_EVEN = 1.5


def ground_blocks(chips: Sequence[ChipRecord], *, block_m: float) -> list[Block]:
    """Return the square block of ground in which each chip's centre lies.

    Args:
        block_m: side of a block, metres; a centre on an edge belongs to the higher block.

    Returns:
        A block for each chip, as (frame, column, row); see `frame_of`.
    """
    centres_m = np.array([chip.corners_m for chip in chips]).mean(axis=1)
    cells = np.floor(centres_m / block_m).astype(np.int64)
    return [(frame_of(chip), int(x), int(y)) for chip, (x, y) in zip(chips, cells, strict=True)]


def join_groups(groups: Sequence[Hashable], pairs: Pairs) -> list[Hashable]:
    """Join the groups that have chips in common pairs.

    Args:
        pairs: shape (m, 2), indices of chips that must stay together.

    Returns:
        The group of each chip; joined groups have the first of their names.
    """
    names, group_of_chip = _indexed(groups)
    joined = connected_groups(group_of_chip[pairs], nodes=len(names))
    _, first = np.unique(joined, return_index=True)
    return [names[first[joined[group]]] for group in group_of_chip]


def assign_folds(groups: Sequence[Hashable], sets: Sequence[str] = (), *, folds: int) -> Ints:
    """Divide the chips into folds; those of one group share a fold.

    Groups are assigned from large to small, equal ones in random order, each to the fold that has
    the fewest chips so far. With sets, the set with most groups comes first, and each group goes to
    the fold with the fewest chips of its set, then with the fewest chips: so every fold gets its
    share of every set. Of a set with fewer groups than folds, but at least three, fold 0 gets the
    smallest share, so that a training that holds out fold 0 is measured on every such set.

    Args:
        groups: the group of each chip, such as its ground block.
        sets: the name of the set of each chip; empty if all are one set. A group with chips of
            several sets belongs to the set with most of them.
        folds: number of folds, at least 2; 5 makes an 80:20 split.

    Returns:
        Fold of each chip, shape (n,), values in 0..folds-1; every fold has a chip.

    Raises:
        ValueError: if there are fewer groups than folds, so that a fold would be empty.
    """
    names, group_of_chip = _indexed(groups)
    if len(names) < folds:
        raise ValueError(
            f"{count(len(groups), 'chip')} in {count(len(names), 'group')} cannot fill "
            f"{folds} folds"
        )
    set_names, set_of_chip = _indexed(sets or [""] * len(groups))
    sizes = np.zeros((len(names), len(set_names)), dtype=np.int64)  # Chips of each set.
    np.add.at(sizes, (group_of_chip, set_of_chip), 1)
    set_of = sizes.argmax(axis=1)
    several = np.bincount(set_of, minlength=len(set_names))[set_of]
    shuffled = np.random.default_rng(_SEED).permutation(len(names))
    order = np.lexsort((-sizes.sum(axis=1)[shuffled], set_of[shuffled], -several[shuffled]))
    filled = np.zeros((folds, len(set_names)), dtype=np.int64)
    fold_of_group = np.empty(len(names), dtype=np.int64)
    for group in shuffled[order].tolist():
        fold = np.lexsort((filled.sum(axis=1), filled[:, set_of[group]]))[0]
        fold_of_group[group] = fold
        filled[fold] += sizes[group]
    for number in range(len(set_names)):
        _fill_first_fold(fold_of_group, set_of == number, sizes.sum(axis=1), folds)
    return fold_of_group[group_of_chip]


def folds_by_name(
    chips: Sequence[str], scenes: Sequence[str], given: Mapping[str, int], *, folds: int
) -> Ints:
    """Return the fold that is given for each chip, by its own name or else that of its scene.

    Returns:
        Fold of each chip, shape (n,), values in 0..folds-1; every fold has a chip.

    Raises:
        ValueError: if a name is neither a chip nor a scene, a fold is not in 0..folds-1, a chip has
            no fold, or a fold has no chip.
    """
    known = {*chips, *scenes}
    _refuse("is neither a chip nor a scene", [n for n in given if n not in known], given)
    wrong = [f"{name} (fold {fold})" for name, fold in given.items() if not 0 <= fold < folds]
    _refuse(f"is in none of the folds 0 to {folds - 1}", wrong, given)
    of_chip = [given.get(name, given.get(scene)) for name, scene in zip(chips, scenes, strict=True)]
    _refuse("has no fold", [n for n, f in zip(chips, of_chip, strict=True) if f is None], chips)
    empty = sorted(set(range(folds)) - set(of_chip))
    if empty:
        raise ValueError(f"there are {folds} folds, but fold {empty[0]} has no chip")
    return np.array(of_chip, dtype=np.int64)


def _fill_first_fold(fold_of_group: Ints, is_own: Bools, sizes: Ints, folds: int) -> None:
    """Exchange the share of a set in fold 0 with its smallest, unless that leaves a fold empty."""
    shares, others = (
        np.bincount(fold_of_group[side], weights=sizes[side], minlength=folds)
        for side in (is_own, ~is_own)
    )
    givers = np.flatnonzero((shares > 0) & (shares[0] + others > 0))
    if len(givers) == 0 or not _FEWEST_SHARES <= np.count_nonzero(shares) < folds:
        return
    giver = givers[shares[givers].argmin()]
    given, first = (is_own & (fold_of_group == fold) for fold in (giver, 0))
    fold_of_group[first] = giver
    fold_of_group[given] = 0


def _indexed(groups: Sequence[Hashable]) -> tuple[list[Hashable], Ints]:
    """Return the distinct groups, sorted, and the index of each chip's group among them."""
    names = sorted(set(groups), key=str)
    number = {name: index for index, name in enumerate(names)}
    return names, np.array([number[group] for group in groups], dtype=np.int64)


def _refuse(what: str, names: Sequence[str], every: Collection[str]) -> None:
    if names:
        raise ValueError(f"{names[0]} {what} ({len(names)} of {len(every)})")


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
        buffer_m: chips nearer than this to held-out ones are not trained on, metres.

    Raises:
        ValueError: if no try fills all folds, none of them with more than half of the chips, and
            leaves chips to train on.
    """
    from scipy.stats import wasserstein_distance

    best: Matched | None = None
    largest = max(_LARGEST_SHARE, _MORE_THAN_EVEN / folds) * len(chips)
    for clusters in _clusterings(chips, folds=folds):
        groups = join_groups(clusters, together)
        if len(set(groups)) < folds:
            continue
        dealt = assign_folds(groups, sets, folds=folds)
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


def _clusterings(chips: Sequence[ChipRecord], *, folds: int) -> Iterator[list[int]]:
    """Yield the cluster of each chip, for growing numbers of clusters."""
    corners = np.array([chip.corners_m for chip in chips])
    centres = globe_km(corners_degrees(corners, [chip.zone for chip in chips]).mean(axis=1))
    numbers = np.geomspace(folds, max(folds, len(chips) - 1), _TRIED).round().astype(np.int64)
    for number in np.unique(numbers).tolist():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Of clusters that got no chip.
            _, cluster = kmeans2(centres, number, minit="points", seed=np.random.default_rng(_SEED))
        yield cluster.tolist()
    yield list(range(len(chips)))


def _distances(chips: Sequence[ChipRecord], folds: Ints, *, buffer_m: float) -> Floats:
    """Return how far held-out chips are from the nearest one that is trained on, fold by fold."""
    named = {chip.name: int(fold) for chip, fold in zip(chips, folds, strict=True)}
    parted = [part_chips(chips, named, fold, buffer_m=buffer_m) for fold in range(folds.max() + 1)]
    return np.concatenate([nearest_m(each.held_out, each.training) for each in parted])
