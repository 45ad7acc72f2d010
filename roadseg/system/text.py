"""Text: numbers of things in a sentence, the first of many, and messages in one line."""

import html
from collections.abc import Collection, Mapping
from itertools import islice


def count(number: int, noun: str) -> str:
    """Return how many there are: `1 file`, `2 files`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def counted(counts: Mapping[str, int], before: str = "") -> str:
    """Return how many there are of each: `3 null, 1 empty`, or with "by " `3 by maxspeed`."""
    return ", ".join(f"{number} {before}{what}" for what, number in counts.items())


def first(names: Collection[str], most: int = 5) -> str:
    """Return the first of many names: `a, b, c and 4 more`."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(islice(names, most)) + more


def one_line(message: object) -> str:
    """Return an error, or a text of many lines, in one line."""
    return " ".join(str(message).split())


def about_memory(megabytes: float) -> str:
    """Return an amount of memory in words: `about 1.5 GB`."""
    return f"about {megabytes / 1000:.1f} GB"


def about_time(seconds: float) -> str:
    """Return a time in words, in the unit of which there are at least two: `about 90 min`."""
    for unit, length in (("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * length:
            return f"about {seconds / length:.0f} {unit}"
    return f"about {max(seconds, 1):.0f} s"


class Summary:
    """The summary of a command; a notebook shows it as the command line prints it."""

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"
