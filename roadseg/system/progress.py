"""Progress of long work, written to stderr if the log level allows it.

On a terminal it is one line that is redrawn, elsewhere an occasional line of the log, or frequent
lines of JSON for the program that started this one.
"""

import json
import logging
import multiprocessing
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Self, TypeVar

from roadseg.system.text import about_time

Item = TypeVar("Item")

_log = logging.getLogger(__name__)

REDRAWN_S, PLAIN_S = 0.1, 30.0  # Seconds between two lines on a terminal, and in a log.
JSON_S = 0.5  # Seconds between two lines of JSON.
_PERIODS = {"s": 1.0, "min": 60.0, "h": 3600.0}
_EXACT_BELOW = 100  # Rates above this have no decimals.


class Progress:
    """Progress of some work, shown on a line. Work inside other work shares this line.

    Nothing is written in processes that another one started, or if INFO is not logged.
    """

    def __init__(self, what: str, *, total: float, unit: str, done: float = 0) -> None:
        """Describe the work.

        Args:
            what: short name of the work, such as that of a command.
            total: amount of work in its unit; an int is written without decimals.
            done: amount that was done before, which does not count for the rate.
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
        """End the line about it."""
        _line.pop(self)

    def add(self, amount: float = 1) -> None:
        """Add an amount of work that is done."""
        self.reach(self.done + amount)

    def reach(self, done: float) -> None:
        """Set the amount of work that is done, from the beginning."""
        self.done = done
        self._last = time.monotonic()
        _line.show()

    def __str__(self) -> str:
        """Return the name of the work, and how much of it is done."""
        done = min(self.done, self.total)
        if isinstance(self.total, int):  # What is under way does not count as done.
            return f"{self.what}: {int(done)} of {self.total} {self.unit}"
        return f"{self.what}: {done:.3f} of {self.total:.3f} {self.unit}"

    @property
    def rate_and_left(self) -> tuple[str, float] | None:
        """Return the rate, and the seconds that are left; None while nothing is done."""
        took_s, here = self._last - self._begun, self.done - self._before
        if here <= 0 or took_s <= 0:
            return None
        each_s, left = took_s / here, max(self.total - self.done, 0)
        # The item under way has had some of its time already, so the time left counts down.
        waited_s = min(time.monotonic() - self._last, each_s)
        return _rate(1 / each_s, self.unit), max(each_s * left - waited_s, 0)


def counted(
    items: Iterable[Item], what: str, *, total: int, unit: str, done: int = 0
) -> Iterator[Item]:
    """Yield items and show the progress; an item is done when the next one is requested."""
    with Progress(what, total=total, unit=unit, done=done) as progress:
        for item in items:
            yield item
            progress.add()


def erase() -> None:
    """Clear the line on the terminal, so that other text can be written there."""
    _line.erase()


def draw(*, enabled: bool, as_json: bool = False) -> None:
    """Set whether progress is drawn on a terminal; a log may show it in any case.

    Args:
        as_json: write it as lines of JSON instead, for a program that reads stderr.
    """
    _line.drawn, _line.as_json = enabled, as_json


@contextmanager
def shown_by(write: Callable[[str], object]) -> Iterator[None]:
    """Pass every line of progress inside the block to a function, such as one of a notebook.

    Each line replaces the one before.
    """
    before, _line.write = _line.write, write
    try:
        yield
    finally:
        _line.write = before


class _Line:
    """The one line that shows all progress of this process."""

    def __init__(self) -> None:
        self._works: list[Progress] = []
        self._width = 0  # Characters that stand on the terminal now.
        self._due = 0.0
        self.drawn, self.as_json = True, False
        # Shows a line elsewhere, as in a notebook.
        self.write: Callable[[str], object] | None = None

    def push(self, work: Progress) -> None:
        # Short work should not fill a log, so its first line is due late.
        if not self._works:
            is_quick = self.write is not None or self.as_json or sys.stderr.isatty()
            self._due = time.monotonic() + (0.0 if is_quick else PLAIN_S)
        self._works.append(work)
        self.show()

    def pop(self, work: Progress) -> None:
        self._works.remove(work)
        self.erase()

    def show(self) -> None:
        now = time.monotonic()
        # Workers are silent, as several of them would write over each other.
        if now < self._due or multiprocessing.parent_process() is not None:
            return
        if self.write is not None:
            self._due = now + REDRAWN_S
            self.write(self.text())
            return
        if not _log.isEnabledFor(logging.INFO):
            return
        if self.as_json:
            self._due = now + JSON_S
            self._write(self.json_text() + "\n")
        elif sys.stderr.isatty() and self.drawn:
            self._due = now + REDRAWN_S
            self._draw(self.text())
        else:
            self._due = now + PLAIN_S
            _log.info(self.text())

    def text(self) -> str:
        """Return the text of all work, the rate of the outermost, and the longest time left.

        Work inside other work may take longest, if its item is larger than those before.
        """
        named = "; ".join(map(str, self._works))
        begun = [known for work in self._works if (known := work.rate_and_left) is not None]
        if not begun:
            return named
        return f"{named}, {begun[0][0]}, {about_time(max(left_s for _, left_s in begun))} left"

    def json_text(self) -> str:
        """Return all work from the outermost to the innermost, and its text, as JSON."""
        works = [
            {"what": work.what, "done": work.done, "total": work.total, "unit": work.unit}
            for work in self._works
        ]
        return json.dumps({"progress": works, "text": self.text()})

    def erase(self) -> None:
        if self._width:
            self._draw("", end="\r")

    def _draw(self, text: str, end: str = "") -> None:
        shown = text[: shutil.get_terminal_size().columns - 1]
        line, self._width = f"\r{shown:<{self._width}}{end}", len(shown)
        self._write(line)

    def _write(self, line: str) -> None:
        with suppress(OSError):  # The terminal may be gone, which ends no work.
            sys.stderr.write(line)
            sys.stderr.flush()


_line = _Line()


def _rate(per_second: float, unit: str) -> str:
    """Return a rate per second, minute or hour, whichever is the shortest with at least one."""
    rates = {period: per_second * seconds for period, seconds in _PERIODS.items()}
    period = next((one for one, rate in rates.items() if rate >= 1), "h")
    decimals = 0 if rates[period] >= _EXACT_BELOW else 1
    return f"{rates[period]:.{decimals}f} {unit}/{period}"
