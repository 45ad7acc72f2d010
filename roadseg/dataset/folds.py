"""Folds: assign chips to folds so that a group of chips is never on both sides of a split."""

from collections.abc import Collection, Hashable, Mapping, Sequence

import numpy as np

from roadseg.arrays import Bools, Floats, Ints
from roadseg.dataset.footprints import Pairs
from roadseg.roads.graph.groups import connected_groups
from roadseg.system.text import count

Block = tuple[Hashable, int, int]

_FEWEST_SHARES = 3  # A set in fewer parts is not held out, as too little would be left to learn.


def ground_blocks(centres_m: Floats, places: Sequence[Hashable], *, block_m: float) -> list[Block]:
    """Return the square block of ground in which each chip's centre lies.

    Args:
        centres_m: shape (n, 2), x and y of chip centres, metres.
        places: origin of the metres of each chip: the EPSG number of its metric CRS, or the name of
            its scene without georeference.
        block_m: side of a block, metres; a centre on an edge belongs to the higher block.

    Returns:
        A block for each chip, as (place, column, row).
    """
    cells = np.floor(np.asarray(centres_m).reshape(-1, 2) / block_m).astype(np.int64)
    return [(place, int(x), int(y)) for place, (x, y) in zip(places, cells, strict=True)]


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


def assign_folds(
    groups: Sequence[Hashable], sets: Sequence[str] = (), *, folds: int, seed: int
) -> Ints:
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
        seed: seed of the order of equal groups.

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
    shuffled = np.random.default_rng(seed).permutation(len(names))
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
    of_chip = [given.get(name, given.get(of)) for name, of in zip(chips, scenes, strict=True)]
    _refuse("has no fold", [n for n, f in zip(chips, of_chip, strict=True) if f is None], chips)
    empty = sorted(set(range(folds)) - set(of_chip))
    if empty:
        raise ValueError(f"there are {folds} folds, but fold {empty[0]} has no chip")
    return np.array(of_chip, dtype=np.int64)


def _fill_first_fold(fold_of_group: Ints, is_own: Bools, sizes: Ints, folds: int) -> None:
    """Exchange the share of a set in fold 0 with its smallest, unless that leaves a fold empty."""
    shares, others = (
        np.bincount(fold_of_group[of], weights=sizes[of], minlength=folds)
        for of in (is_own, ~is_own)
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


def _refuse(what: str, names: Sequence[str], of: Collection[str]) -> None:
    if names:
        raise ValueError(f"{names[0]} {what} ({len(names)} of {len(of)})")
