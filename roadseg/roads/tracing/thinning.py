"""Thinning: reduce a mask to lines one pixel wide, 64 pixels at a time."""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from roadseg.arrays import Bools

Places = NDArray[np.intp]
Words = NDArray[np.uint64]

_BITS = 64
_ONE, _LAST = np.uint64(1), np.uint64(_BITS - 1)
_AT_ONCE = 8192  # Words that are processed together, so that intermediate results fit a cache.
_HALF_TURN = 4  # Positions by which the eight neighbours move in a half turn.
# Neighbourhoods for which scikit-image departs from the rules, for each of the two passes: those
# whose pixel stays, and those whose pixel is removed.
_STAYS = (24, 48, 56, 96, 129, 192, 224), (3, 24, 48, 56, 96, 192, 224)
_GOES = (10, 11, 40, 130, 134, 160, 161, 194, 198), (10, 11, 40, 130, 134, 160, 161, 198)
_ORDER = 4, 1, 7, 0, 2, 3, 5, 6  # Order of neighbours, last first, with the fewest tests: 35.
_NO, _YES = 0, 1  # Leaves of the decision diagram; tests count from 2.


def thin(mask: NDArray[np.generic]) -> Bools:
    """Return the skeleton of a mask, pixel by pixel that of `skimage.morphology.skeletonize`.

    Two passes alternate until nothing changes: one removes border pixels to the south-east, the
    other those to the north-west. The first pass removes a pixel if

    1. it has two to six neighbours, so that it is neither an end of a line nor inside an area,
    2. its neighbours are contiguous around it, so that removing it disconnects nothing,
    3. its neighbour to the east, to the south, or those to the north and the west are background,
       so that the skeleton ends up in the middle,

    except for some neighbourhoods that scikit-image decides otherwise. The second pass is the first
    with the mask turned by 180 degrees. Only words of 64 pixels next to a change are tested again,
    so that the time grows with the area of a mask and not with the width of its roads.

    Args:
        mask: shape (row, col).

    Source: T. Y. Zhang and C. Y. Suen, "A fast parallel algorithm for thinning digital
    patterns", CACM 27(3), 1984, with the corrections of scikit-image 0.26.
    """
    words, across = _packed(np.asarray(mask, dtype=bool))
    # Words that still have to be tested, for each of the two passes (`phase` 0 and 1).
    waiting = np.tile(words != 0, (2, 1))
    phase = 0
    while waiting.any():
        places = np.flatnonzero(waiting[phase])
        waiting[phase, places] = False
        parts = range(0, len(places), _AT_ONCE)
        removed = [_removable(words, places[i : i + _AT_ONCE], across, phase=phase) for i in parts]
        if removed:
            waiting |= _remove(words, places, np.concatenate(removed), across)
        phase = 1 - phase
    return _unpacked(words, across, np.shape(mask))


def _packed(mask: Bools) -> tuple[Words, int]:
    """Pack pixels into words with a frame of empty words; return these, and the words of a row."""
    height, width = mask.shape
    across = -(-width // _BITS) + 2
    padded = np.zeros((height + 2, across * _BITS), dtype=bool)
    padded[1:-1, _BITS : _BITS + width] = mask
    return np.packbits(padded).view(">u8").astype(np.uint64), across


def _unpacked(words: Words, across: int, shape: tuple[int, ...]) -> Bools:
    pixels: Bools = np.unpackbits(words.astype(">u8").view(np.uint8)).view(bool)
    return pixels.reshape(-1, across * _BITS)[1:-1, _BITS : _BITS + shape[1]]


def _remove(words: Words, places: Places, removed: Words, across: int) -> Bools:
    """Remove pixels; return which words have to be tested again, as something changed nearby."""
    words[places] ^= removed
    beside = np.zeros(len(words), dtype=bool)
    beside[places[removed != 0]] = True
    beside[places[removed >> _LAST != 0] - 1] = True
    beside[places[removed & _ONE != 0] + 1] = True
    touched = beside.copy()
    touched[across:] |= beside[:-across]
    touched[:-across] |= beside[across:]
    touched &= words != 0
    return touched


def _removable(words: Words, places: Places, across: int, *, phase: int) -> Words:
    """Return the pixels of words that a pass removes."""
    (nw, n, ne), (w, _, e), (sw, s, se) = (
        _row(words, places + step) for step in (-across, 0, across)
    )
    around = [nw, n, ne, e, se, s, sw, w]
    if phase:
        around = around[_HALF_TURN:] + around[:_HALF_TURN]
    # The decision diagram is evaluated for all 64 pixels of a word at once, bit by bit.
    answers: list[Words] = [np.zeros_like(w), ~np.zeros_like(w)]
    for neighbour, no, yes in _decision_diagram(phase):
        has = around[neighbour]
        if no == _NO:
            answer = has if yes == _YES else has & answers[yes]
        elif yes == _NO:
            answer = ~has & answers[no]
        else:
            answer = answers[no] ^ (has & (answers[no] ^ answers[yes]))
        answers.append(answer)
    return words[places] & answers[-1]


def _row(words: Words, places: Places) -> tuple[Words, Words, Words]:
    """Return for each pixel of words its left neighbour, itself and its right neighbour."""
    here = words[places]
    return (
        here >> _ONE | words[places - 1] << _LAST,
        here,
        here << _ONE | words[places + 1] >> _LAST,
    )


@cache
def _decision_diagram(phase: int) -> list[tuple[int, int, int]]:
    """Return a binary decision diagram that says whether a pass removes a pixel; the root is last.

    Each test is a neighbour, and the next node if that is background, and if it is set: `_NO`,
    `_YES`, or i + 2 for test i. A neighbourhood is a number with a bit for each neighbour,
    clockwise from the north-west.
    """
    numbers = [sum((i >> k & 1) << bit for k, bit in enumerate(_ORDER)) for i in range(256)]
    removed = {number for number in numbers if _is_removed(number)}
    removed = removed - {*_STAYS[phase]} | {*_GOES[phase]}
    tests: list[tuple[int, int, int]] = []
    known: dict[tuple[bool, ...], int] = {}

    def ask(answers: tuple[bool, ...]) -> int:
        if len(set(answers)) == 1:
            return _YES if answers[0] else _NO
        if answers not in known:
            half = len(answers) // 2
            no, yes = ask(answers[:half]), ask(answers[half:])
            if no != yes:
                tests.append((_ORDER[half.bit_length() - 1], no, yes))
            known[answers] = no if no == yes else len(tests) + _YES
        return known[answers]

    ask(tuple(number in removed for number in numbers))
    return tests


def _is_removed(number: int) -> bool:
    """Return whether the rules of `thin` remove a pixel with this neighbourhood."""
    has = [bool(number >> bit & 1) for bit in range(8)]
    _, n, _, e, _, s, _, w = has
    # Rule 1: it has two to six neighbours.
    is_at_border = 2 <= sum(has) <= 6  # noqa: PLR2004
    # Rule 2: they are contiguous.
    runs = sum(not has[bit - 1] and has[bit] for bit in range(8))
    # Rule 3: there is background to the east, to the south, or to the north and the west.
    is_towards_south_east = not (e and s and (n or w))
    return is_at_border and runs == 1 and is_towards_south_east
