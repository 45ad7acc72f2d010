"""Deal chips into folds so that neighbours never sit on both sides of a split."""

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

Block = tuple[int, int, int]


def ground_blocks(
    centres_m: NDArray[np.float64], zones: Sequence[int], *, block_m: float
) -> list[Block]:
    """Return the square block of ground in which each chip's centre lies.

    Args:
        centres_m: shape (n, 2), x and y of chip centres, each in the metric CRS of its zone.
        zones: EPSG number of each centre's metric CRS.
        block_m: side of a block, metres; a centre on an edge belongs to the higher block.

    Returns:
        A block for each chip, as (zone, column, row).
    """
    cells = np.floor(np.asarray(centres_m).reshape(-1, 2) / block_m).astype(np.int64)
    return [(zone, int(x), int(y)) for zone, (x, y) in zip(zones, cells, strict=True)]


def deal_folds(groups: Sequence[Hashable], *, folds: int, seed: int) -> NDArray[np.int64]:
    """Give every chip a fold, keeping chips of one group together.

    Groups are taken from large to small, equal ones in an order that the seed decides, and each
    goes to the fold that has the fewest chips so far.

    Args:
        groups: the group of each chip, such as its ground block; chips alone in their group are
            dealt one by one.
        folds: number of folds, at least 2; 5 makes an 80:20 split.
        seed: decides between equal choices.

    Returns:
        Fold of each chip, shape (n,), values in 0..folds-1; every fold has a chip.

    Raises:
        ValueError: if there are fewer groups than folds, so that a fold would be empty.
    """
    names = {group: number for number, group in enumerate(sorted(set(groups), key=str))}
    group_of_chip = np.array([names[group] for group in groups], dtype=np.int64)
    if len(names) < folds:
        raise ValueError(f"{len(groups)} chips in {len(names)} groups cannot fill {folds} folds")
    sizes = np.bincount(group_of_chip)
    shuffled = np.random.default_rng(seed).permutation(len(names))
    filled = np.zeros(folds, dtype=np.int64)
    fold_of_group = np.empty(len(names), dtype=np.int64)
    for group in shuffled[np.argsort(-sizes[shuffled], kind="stable")]:
        fold_of_group[group] = filled.argmin()
        filled[fold_of_group[group]] += sizes[group]
    return fold_of_group[group_of_chip]
