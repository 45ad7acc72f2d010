"""Plans: what a stage would read, write and take, said without doing it."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roadseg.core.estimates import about_memory, about_time
from roadseg.core.wording import count
from roadseg.io.files import is_virtual
from roadseg.io.records import StageRecord, read_json

Record = dict[str, Any]  # what an earlier run of a stage left

_SHOWN = 3  # changed settings that are named
_LONGEST = 40  # characters of a value
_UNKNOWN = "not known: no earlier run here"


@dataclass(frozen=True)
class Files:
    """Files that are read: those there are now."""

    name: str
    files: int
    megabytes: float

    def __str__(self) -> str:
        """Say it in a few words."""
        if not self.files:
            return f"{self.name} (not there yet)"
        return f"{self.name} ({count(self.files, 'file')}, {self.megabytes:.1f} MB)"


@dataclass(frozen=True)
class Plan:
    """What a stage would do.

    Attributes:
        stage: its name.
        runs: whether it would do anything.
        why: it would, or would not.
        reads: files.
        writes: files and folders.
        seconds: that it will take; None if that is not known.
        memory_mb: that the largest process will take; None if that is not known.
        based_on: where these two come from.
    """

    stage: str
    runs: bool
    why: str
    reads: list[Files]
    writes: list[str]
    seconds: float | None = None
    memory_mb: float | None = None
    based_on: str = _UNKNOWN

    def __str__(self) -> str:
        """Lay it out as a table."""
        if not self.runs:
            return f"{self.stage:<9} up to date: {self.why}"
        rows = {
            "reads": "; ".join(map(str, self.reads)),
            "writes": ", ".join(map(_near, self.writes)),
            "takes": self._takes(),
        }
        lines = [f"  {name:<7} {text}" for name, text in rows.items()]
        return "\n".join([f"{self.stage:<9} runs: {self.why}", *lines])

    def _takes(self) -> str:
        if self.seconds is None and self.memory_mb is None:
            return self.based_on
        time = "time not known" if self.seconds is None else about_time(self.seconds)
        memory = "not known" if self.memory_mb is None else about_memory(self.memory_mb)
        return f"{time}, memory {memory} ({self.based_on})"


@dataclass(frozen=True)
class Plans:
    """What several stages would do, one after the other."""

    stages: list[Plan]

    def __str__(self) -> str:
        """Give each, and how long all take if that is known of all."""
        waiting = [plan for plan in self.stages if plan.runs]
        known = [plan.seconds for plan in waiting if plan.seconds is not None]
        end = "nothing to do" if not waiting else f"{count(len(waiting), 'stage')} to run"
        if waiting and len(known) == len(waiting):
            end += f", {about_time(sum(known))}"
        return "\n".join([*map(str, self.stages), end])


@dataclass(frozen=True)
class Amount:
    """How much a stage has to do, beside how much an earlier run of it did.

    Attributes:
        now: None if that is not known before an earlier stage has run.
        before: of the record of an earlier run.
        unit: of both, in the plural.
    """

    now: float | None
    before: Callable[[Record], float]
    unit: str


def files(name: str, paths: Iterable[Path]) -> Files:
    """Count files and their bytes; those that are not there are left out."""
    sizes = [0 if is_virtual(p) else p.stat().st_size for p in paths if is_virtual(p) or p.exists()]
    return Files(name, len(sizes), sum(sizes) / 1e6)


def _near(path: str) -> str:
    """Return a path from here, if it lies here."""
    here = Path.cwd()
    return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else path


def plan_stage(
    made_of: StageRecord | str,
    path: Path,
    *,
    force: bool = False,
    reads: Sequence[Files],
    writes: Sequence[Path],
    amount: Amount,
    memory_mb: float | None = None,
) -> Plan:
    """Say what a stage would do.

    Args:
        made_of: what it would be made from now; or the earlier stage that runs first.
        path: of the record that it leaves.
        force: whether the stage runs whatever it was made from.
        reads: what it reads.
        writes: what it writes.
        amount: of its work.
        memory_mb: an estimate; None takes that of the earlier run.
    """
    earlier = _earlier(path)
    why = f"after {made_of}" if isinstance(made_of, str) else _why(made_of, earlier)
    if not why and not force:
        return Plan(path.stem, runs=False, why="nothing has changed", reads=[], writes=[])
    seconds, told = _seconds(earlier, amount)
    if memory_mb is not None:
        told = f"memory estimated; {told}"
    elif earlier.get("peak_mb"):
        told = f"{told}; memory: the peak of its process"
    return Plan(
        path.stem,
        runs=True,
        why=why or "--force",
        reads=list(reads),
        writes=[*map(str, writes)],
        seconds=seconds,
        memory_mb=earlier.get("peak_mb") if memory_mb is None else memory_mb,
        based_on=told,
    )


def _earlier(path: Path) -> Record:
    found = read_json(path) if path.exists() else {}
    return found if isinstance(found, dict) else {}


def _why(record: StageRecord, earlier: Record) -> str:
    """Say why a stage has to run; empty if it has not."""
    if not earlier:
        return "it never ran here"
    if earlier.get("key") != record.key:
        changed = list(_changes(earlier.get("settings", {}), _as_json(record.settings)))
        more = f" and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else ""
        return f"changed: {', '.join(changed[:_SHOWN])}{more}" if changed else "its inputs changed"
    if earlier.get("state") != "done":
        return "it was interrupted"
    failed = earlier["summary"].get("failed")
    return f"{count(len(failed), 'scene')} failed before" if failed else ""


def _changes(before: Mapping[str, Any], now: Mapping[str, Any], at: str = "") -> Iterator[str]:
    for key in dict.fromkeys([*before, *now]):
        old, new = before.get(key), now.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            yield from _changes(old, new, f"{at}{key}.")
        elif old != new:
            yield f"{at}{key} {_short(old)} -> {_short(new)}"


def _short(value: Any) -> str:  # noqa: ANN401 - any JSON value
    text = json.dumps(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _as_json(settings: Mapping[str, Any]) -> Any:  # noqa: ANN401 - as they are read again
    return json.loads(json.dumps(settings, default=str))


def _seconds(earlier: Record, amount: Amount) -> tuple[float | None, str]:
    """Scale the time of the earlier run to what is to be done now."""
    if earlier.get("state") != "done":
        return None, _UNKNOWN
    took_s = float(earlier["summary"].get("seconds", earlier["seconds"]))  # all, of a training
    before = amount.before(earlier)
    unit = amount.unit.removesuffix("s") if before == 1 else amount.unit
    took = f"the last run took {took_s:.1f} s for {before:g} {unit}"
    if amount.now is None or not before:
        return took_s, took
    return took_s * amount.now / before, f"{took}, now {amount.now:g}"
