"""Thinning: a mask worn down to lines one pixel wide, 64 pixels at a time."""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from roadseg.arrays import Bools

Places = NDArray[np.intp]
Words = NDArray[np.uint64]

_BITS = 64
_ONE, _LAST = np.uint64(1), np.uint64(_BITS - 1)
_AT_ONCE = 8192  # Words; with all that is known of so many they fit a cache.
_HALF_TURN = 4  # A half turn goes past so many of the eight neighbours.
# Numbers of neighbourhoods where scikit-image departs from the rules: those whose pixel stays in
# either turn, and those whose pixel goes.
_STAYS = (24, 48, 56, 96, 129, 192, 224), (3, 24, 48, 56, 96, 192, 224)
_GOES = (10, 11, 40, 130, 134, 160, 161, 194, 198), (10, 11, 40, 130, 134, 160, 161, 198)
_ORDER = 4, 1, 7, 0, 2, 3, 5, 6  # The last neighbour is asked for first, so that 35 questions do.
_NO, _YES = 0, 1  # Answers, besides the numbers of further questions.


def thin(mask: NDArray[np.generic]) -> Bools:
    """Return the skeleton of a mask, pixel by pixel that of `skimage.morphology.skeletonize`.

    Pixels at the border of what is left go, in turn those towards the south-east and those towards
    the north-west, until none may go. In the first of these turns a pixel goes if

    1. it has two to six neighbours, so that it is neither an end of a line nor inside of an area,
    2. these are all in one row around it, so that nothing is parted without it,
    3. one of its neighbours to the east, to the south, or both to the north and the west is
       background, so that the skeleton ends up in the middle,

    but for some neighbourhoods that scikit-image decides otherwise. The second turn is the first
    with the mask upside down. Only words of 64 pixels beside which something has changed are looked
    at again, so that the time grows with the area of a mask and not with its width.

    Args:
        mask: shape (row, col).

    Source: T. Y. Zhang and C. Y. Suen, "A fast parallel algorithm for thinning digital
    patterns", CACM 27(3), 1984, with the corrections of scikit-image 0.26.
    """
    words, across = _packed(np.asarray(mask, dtype=bool))
    # Words whose pixels may have to go, for each of both turns.
    waiting = np.tile(words != 0, (2, 1))
    turn = 0
    while waiting.any():
        places = np.flatnonzero(waiting[turn])
        waiting[turn, places] = False
        parts = range(0, len(places), _AT_ONCE)
        removed = [_leaving(words, places[i : i + _AT_ONCE], across, turn=turn) for i in parts]
        if removed:
            waiting |= _remove(words, places, np.concatenate(removed), across)
        turn = 1 - turn
    return _unpacked(words, across, np.shape(mask))


def _packed(mask: Bools) -> tuple[Words, int]:
    """Pack pixels into words, empty ones all around; return these, and how many make a row."""
    height, width = mask.shape
    across = -(-width // _BITS) + 2
    padded = np.zeros((height + 2, across * _BITS), dtype=bool)
    padded[1:-1, _BITS : _BITS + width] = mask
    return np.packbits(padded).view(">u8").astype(np.uint64), across


def _unpacked(words: Words, across: int, shape: tuple[int, ...]) -> Bools:
    pixels: Bools = np.unpackbits(words.astype(">u8").view(np.uint8)).view(bool)
    return pixels.reshape(-1, across * _BITS)[1:-1, _BITS : _BITS + shape[1]]


def _remove(words: Words, places: Places, removed: Words, across: int) -> Bools:
    """Take pixels away; return the words around in which pixels may have to go next."""
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


def _leaving(words: Words, places: Places, across: int, *, turn: int) -> Words:
    """Find the pixels that go in one turn; the second is the first with the mask upside down."""
    (nw, n, ne), (w, _, e), (sw, s, se) = (
        _row(words, places + step) for step in (-across, 0, across)
    )
    around = [nw, n, ne, e, se, s, sw, w]
    if turn:
        around = around[_HALF_TURN:] + around[:_HALF_TURN]
    # All 64 pixels of a word are asked at once: the answers are the bits of a word.
    answers: list[Words] = [np.zeros_like(w), ~np.zeros_like(w)]
    for neighbour, no, yes in _questions(turn):
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
    """Return what lies to the left of pixels, at them and to the right of them."""
    here = words[places]
    return (
        here >> _ONE | words[places - 1] << _LAST,
        here,
        here << _ONE | words[places + 1] >> _LAST,
    )


@cache
def _questions(turn: int) -> list[tuple[int, int, int]]:
    """Return the questions that tell whether a pixel goes, the last of which comes first.

    A question is a neighbour that a pixel may have, and where the answer stands if it has not, and
    if it has: `_NO`, `_YES`, or 2 for the first of these questions, and so on.

    The number of a neighbourhood has a bit for each neighbour, clockwise from the north-west.
    """
    numbers = [sum((i >> k & 1) << bit for k, bit in enumerate(_ORDER)) for i in range(256)]
    goes = {number for number in numbers if _goes(number)} - {*_STAYS[turn]} | {*_GOES[turn]}
    questions: list[tuple[int, int, int]] = []
    known: dict[tuple[bool, ...], int] = {}

    def ask(answers: tuple[bool, ...]) -> int:
        if len(set(answers)) == 1:
            return _YES if answers[0] else _NO
        if answers not in known:
            half = len(answers) // 2
            no, yes = ask(answers[:half]), ask(answers[half:])
            if no != yes:
                questions.append((_ORDER[half.bit_length() - 1], no, yes))
            known[answers] = no if no == yes else len(questions) + _YES
        return known[answers]

    ask(tuple(number in goes for number in numbers))
    return questions


def _goes(number: int) -> bool:
    """Return whether the rules of `thin` take a pixel away, by the number of its neighbourhood."""
    has = [bool(number >> bit & 1) for bit in range(8)]
    _, n, _, e, _, s, _, w = has
    # Rule 1: it has two to six neighbours.
    is_at_border = 2 <= sum(has) <= 6  # noqa: PLR2004
    # Rule 2: they form a single row.
    rows = sum(not has[bit - 1] and has[bit] for bit in range(8))
    # Rule 3: there is background to the east, to the south, or to the north and the west.
    is_towards_south_east = not (e and s and (n or w))
    return is_at_border and rows == 1 and is_towards_south_east
