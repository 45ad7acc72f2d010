"""Text: numbers of things in a sentence, the first of many, and messages in one line."""

import html
from collections.abc import Collection, Mapping, Sequence
from itertools import islice


def count(number: int, noun: str) -> str:
    """Return how many there are: `1 file`, `2 files`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def itemize(counts: Mapping[str, int], before: str = "") -> str:
    """Return how many there are of each: `3 null, 1 empty`, or with "from " `3 from maxspeed`."""
    return ", ".join(f"{number} {before}{what}" for what, number in counts.items())


def first(names: Collection[str], most: int = 5) -> str:
    """Return the first of many names: `a, b, c and 4 more`."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(islice(names, most)) + more


def all_failed(failed: Mapping[str, str]) -> str:
    """Return that all scenes failed, and why the first did.

    Args:
        failed: reasons by the names of scenes, at least one.
    """
    reason = next(iter(failed.values()))
    if len(failed) == 1:
        return f"the only scene failed: {reason}"
    return f"all {len(failed)} scenes failed, the first: {reason}"


def one_line(message: object) -> str:
    """Return an error, or a text of many lines, in one line."""
    return " ".join(str(message).split())


def about_time(seconds: float) -> str:
    """Return a time in words, in the unit of which there are at least two: `about 90 min`."""
    for unit, length in (("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * length:
            return f"about {seconds / length:.0f} {unit}"
    return f"about {max(seconds, 1):.0f} s"


def time_text(seconds: float) -> str:
    """Return a time that was measured: `32 s`, `12.4 min`, `3.1 h`."""
    if seconds < 120:  # noqa: PLR2004 - two minutes
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"  # noqa: PLR2004
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"  # noqa: PLR2004


def size_text(megabytes: float) -> str:
    """Return the size of files: `12 kB`, `0.4 MB`, `12 MB`, `3.1 GB`."""
    if megabytes < 0.1:  # noqa: PLR2004 - less has no figure in MB
        return f"{megabytes * 1000:.0f} kB"
    if megabytes >= 1000:  # noqa: PLR2004 - of decimal units
        return f"{megabytes / 1000:.1f} GB"
    return f"{megabytes:.0f} MB" if megabytes >= 10 else f"{megabytes:.1f} MB"  # noqa: PLR2004


def table(rows: Sequence[Sequence[str]], *, right: Collection[int] = ()) -> str:
    """Return rows of cells in columns that are as wide as need be.

    Args:
        rows: all with as many cells, that of the titles first.
        right: columns that are aligned to the right, by number from 0.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(
            cell.rjust(width) if at in right else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )
    return "\n".join(lines)


class Summary:
    """The summary of a command; a notebook shows it as the command line prints it."""

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"
