"""Which chips of a run with edits are held out, so that some decisions measure the training."""

from collections.abc import Mapping, Sequence

import numpy as np

from roadseg.arrays import Bools, Floats, Ints
from roadseg.dataset.chips import ChipRecord
from roadseg.dataset.footprints import overlapping_pairs
from roadseg.roads.graph.groups import connected_groups

HELD_OUT = 0.2  # Share of the decisions that is held out.
_PLACES = 5  # One in this many places without decisions, or new places, is held out.


def kept_folds(
    chips: Sequence[ChipRecord], earlier: Sequence[ChipRecord], folds: Mapping[str, int]
) -> list[int]:
    """Return the fold of each chip: the fold of earlier chips on its ground, the last of several.

    Of new places, the fifth, the tenth and so on are in fold 0, which is held out, the others in 1.

    Args:
        folds: folds of the earlier chips, by name.
    """
    place = chip_places([*earlier, *chips]).tolist()
    known, own = place[: len(earlier)], place[len(earlier) :]
    fold_of = dict(sorted(zip(known, (folds[chip.name] for chip in earlier), strict=True)))
    new = dict.fromkeys(each for each in own if each not in fold_of)
    fold_of |= {each: int(number % _PLACES > 0) for number, each in enumerate(new, start=1)}
    ranks = np.unique([0, *(fold_of[each] for each in own)], return_inverse=True)[1]
    return [int(fold) for fold in ranks[1:]]  # No fold between is without chips.


def chip_places(chips: Sequence[ChipRecord]) -> Ints:
    """Number the places of chips, shape (chips,); chips of the same ground share a place."""
    corners = np.array([chip.corners_m for chip in chips])
    pairs = overlapping_pairs(corners, [chip.zone for chip in chips])
    groups = connected_groups(pairs, nodes=len(chips))
    return np.asarray(np.unique(groups, return_inverse=True)[1])


def choose_held_out(shares: Floats) -> Bools:
    """Choose one in five places, with about a fifth of the decisions.

    One is chosen out of each five with similar shares, so that both many and few decisions occur.

    Args:
        shares: share of the decisions at each place, shape (places,).

    Returns:
        Whether each place is chosen, shape (places,); at least one is.
    """
    order = np.argsort(shares, kind="stable")
    order = order[shares[order] > 0]
    chosen = np.zeros(len(shares), dtype=bool)
    for rows in np.array_split(order, max(1, round(HELD_OUT * len(order)))):
        off = np.abs(shares[rows] - HELD_OUT * shares[rows].sum())
        chosen[rows[off.argmin()]] = True
    chosen[np.flatnonzero(shares == 0)[_PLACES - 1 :: _PLACES]] = True
    return chosen
