"""Wording: numbers of things in a sentence, and what others say in one line."""

from collections.abc import Mapping


def count(number: int, noun: str) -> str:
    """Say how many there are: `1 file`, `2 files`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def counted(counts: Mapping[str, int], before: str = "") -> str:
    """List how many there are of each: `3 null, 1 empty`, or with "by " `3 by maxspeed`."""
    return ", ".join(f"{number} {before}{what}" for what, number in counts.items())


def one_line(said: object) -> str:
    """Return what an error or a text of many lines says, in one."""
    return " ".join(str(said).split())
