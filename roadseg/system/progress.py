"""Progress: how far long work has come, told on stderr where the log level lets it.

On a terminal it is one line that is drawn anew, elsewhere a line of the log now and then.
"""

import logging
import multiprocessing
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Self, TypeVar

from roadseg.system.text import about_time

Item = TypeVar("Item")

_log = logging.getLogger(__name__)

REDRAWN_S, PLAIN_S = 0.1, 30.0  # at least between two lines on a terminal, and elsewhere
_PERIODS = {"s": 1.0, "min": 60.0, "h": 3600.0}
_EXACT_BELOW = 100  # rates above have no decimals


class Progress:
    """How much of some work is done. Work inside of other work is told on the same line.

    Nothing is told in processes that another one started, or if INFO is not logged.
    """

    def __init__(self, what: str, *, total: float, unit: str, done: float = 0) -> None:
        """Name the work.

        Args:
            what: short, such as the name of a command.
            total: of all of it; an int is told without decimals.
            unit: of the total, in the plural.
            done: what was done before, which does not count for the rate.
        """
        self.what, self.total, self.unit, self.done = what, total, unit, done
        self._before = done
        self._begun = self._last = time.monotonic()

    def __enter__(self) -> Self:
        """Begin, and count the time from here."""
        self._begun = self._last = time.monotonic()
        _line.push(self)
        return self

    def __exit__(self, *_: object) -> None:
        """Tell no more of it."""
        _line.pop(self)

    def add(self, amount: float = 1) -> None:
        """Note that so much more is done."""
        self.done += amount
        self._last = time.monotonic()
        _line.tell()

    def __str__(self) -> str:
        """Say what, and how many of how many."""
        digits = 0 if isinstance(self.total, int) else 3
        done, total = f"{min(self.done, self.total):.{digits}f}", f"{self.total:.{digits}f}"
        return f"{self.what}: {done} of {total} {self.unit}"

    @property
    def outlook(self) -> str:
        """How fast it goes and how long it will take; empty while nothing is done."""
        took_s, here = self._last - self._begun, self.done - self._before
        if here <= 0 or took_s <= 0:
            return ""
        each_s, left = took_s / here, max(self.total - self.done, 0)
        waited_s = min(time.monotonic() - self._last, each_s)  # for what is under way
        left_s = max(each_s * left - waited_s, 0)
        return f"{_rate(1 / each_s, self.unit)}, {about_time(left_s)} left"


def counted(
    items: Iterable[Item], what: str, *, total: int, unit: str, done: int = 0
) -> Iterator[Item]:
    """Give out items and tell the progress; an item is done when the next one is asked for."""
    with Progress(what, total=total, unit=unit, done=done) as progress:
        for item in items:
            yield item
            progress.add()


def erase() -> None:
    """Clear the line on the terminal, so that another one can be written in its place."""
    _line.erase()


def draw(*, wished: bool) -> None:
    """Say whether progress is drawn on a terminal; a log may tell of it all the same."""
    _line.drawn = wished


@contextmanager
def shown_by(write: Callable[[str], object]) -> Iterator[None]:
    """Hand every line of progress to a function inside the block, such as one of a notebook.

    It is called again and again with what is to stand in the place of the line before.
    """
    before, _line.write = _line.write, write
    try:
        yield
    finally:
        _line.write = before


class _Line:
    """The one line on which all progress of this process is told."""

    def __init__(self) -> None:
        self._works: list[Progress] = []
        self._width = 0  # of what stands on the terminal now
        self._due = 0.0
        self.drawn = True
        self.write: Callable[[str], object] | None = None  # shows a line elsewhere

    def push(self, work: Progress) -> None:
        if not self._works:
            is_quick = self.write is not None or sys.stderr.isatty()
            self._due = time.monotonic() + (0.0 if is_quick else PLAIN_S)
        self._works.append(work)
        self.tell()

    def pop(self, work: Progress) -> None:
        self._works.remove(work)
        self.erase()

    def tell(self) -> None:
        now = time.monotonic()
        if now < self._due or multiprocessing.parent_process() is not None:
            return
        if self.write is not None:
            self._due = now + REDRAWN_S
            self.write(self.text())
            return
        if not _log.isEnabledFor(logging.INFO):
            return
        if sys.stderr.isatty() and self.drawn:
            self._due = now + REDRAWN_S
            self._draw(self.text())
        else:
            self._due = now + PLAIN_S
            _log.info(self.text())

    def text(self) -> str:
        """Name all work, and say of the outermost that has begun how long it will take."""
        outlook = next((told for work in self._works if (told := work.outlook)), "")
        named = "; ".join(map(str, self._works))
        return f"{named}, {outlook}" if outlook else named

    def erase(self) -> None:
        if self._width:
            self._draw("")
            sys.stderr.write("\r")
            sys.stderr.flush()

    def _draw(self, text: str) -> None:
        shown = text[: shutil.get_terminal_size().columns - 1]
        sys.stderr.write(f"\r{shown:<{self._width}}")
        sys.stderr.flush()
        self._width = len(shown)


_line = _Line()


def _rate(per_second: float, unit: str) -> str:
    """Say a rate by the shortest period in which there is at least one."""
    rates = {period: per_second * seconds for period, seconds in _PERIODS.items()}
    period = next((one for one, rate in rates.items() if rate >= 1), "h")
    decimals = 0 if rates[period] >= _EXACT_BELOW else 1
    return f"{rates[period]:.{decimals}f} {unit}/{period}"
