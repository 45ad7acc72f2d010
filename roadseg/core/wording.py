"""Wording: numbers of things in a sentence, the first of many, and what others say in one line."""

from collections.abc import Collection, Mapping
from itertools import islice


def count(number: int, noun: str) -> str:
    """Say how many there are: `1 file`, `2 files`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def counted(counts: Mapping[str, int], before: str = "") -> str:
    """List how many there are of each: `3 null, 1 empty`, or with "by " `3 by maxspeed`."""
    return ", ".join(f"{number} {before}{what}" for what, number in counts.items())


def first(names: Collection[str], most: int = 5) -> str:
    """List the first of many names: `a, b, c and 4 more`."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(islice(names, most)) + more


def one_line(said: object) -> str:
    """Return what an error or a text of many lines says, in one."""
    return " ".join(str(said).split())
