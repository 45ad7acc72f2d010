"""Dry runs: what a stage would read, write and take, without running it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from roadseg.system.stage_records import Reason, Record, StageRecord, Summary, read_record
from roadseg.system.text import about_memory, about_time, count

_UNKNOWN = "unknown: no earlier run"


@dataclass(frozen=True)
class Plan:
    """The dry run of a stage: the work that it would do.

    Attributes:
        runs: whether it would do anything.
        reads: in words.
        writes: paths of files and folders.
        renews: whether what it makes may differ from what was there, so that later stages run too.
        seconds: that it will take; None if unknown.
        memory_mb: that the largest process will take; None if unknown.
        based_on: where these two come from.
    """

    stage: str
    runs: bool
    why: str
    reads: list[str]
    writes: list[str]
    seconds: float | None = None
    memory_mb: float | None = None
    based_on: str = _UNKNOWN
    renews: bool = True

    def __str__(self) -> str:
        """Return the dry run as a table."""
        if not self.runs:
            return f"{self.stage:<9} up to date: {self.why}"
        rows = {
            "reads": "; ".join(self.reads),
            "writes": ", ".join(map(_near, self.writes)),
            "takes": self._takes(),
        }
        lines = [f"  {name:<7} {text}" for name, text in rows.items()]
        return "\n".join([f"{self.stage:<9} will run: {self.why}", *lines])

    def _takes(self) -> str:
        if self.seconds is None and self.memory_mb is None:
            return self.based_on
        time = "time unknown" if self.seconds is None else about_time(self.seconds)
        memory = "unknown" if self.memory_mb is None else about_memory(self.memory_mb)
        return f"{time}, memory {memory} ({self.based_on})"


@dataclass(frozen=True)
class Plans:
    """The dry runs of several stages, one after the other."""

    stages: list[Plan]

    def __str__(self) -> str:
        """Return each dry run, and the total time if all times are known."""
        to_run = [plan for plan in self.stages if plan.runs]
        times = [plan.seconds for plan in to_run if plan.seconds is not None]
        end = "nothing to do" if not to_run else f"{count(len(to_run), 'stage')} to run"
        if to_run and len(times) == len(to_run):
            end += f", {about_time(sum(times))}"
        return "\n".join([*map(str, self.stages), end])


def _near(path: str) -> str:
    """Return a path from here, if it lies here."""
    here = Path.cwd()
    return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else path


def up_to_date(stage: str) -> Plan:
    """Return the dry run of a stage for which nothing has changed."""
    return Plan(stage, runs=False, why="nothing has changed", reads=[], writes=[])


def plan_work(
    made_of: StageRecord[Summary] | str,
    path: Path,
    *,
    force: bool = False,
    reads: Sequence[str],
    writes: Iterable[Path],
    unit: str,
    counted: str = "",
    now: float | None = None,
    memory_mb: float | None = None,
) -> Plan:
    """Return what a stage would do.

    Args:
        made_of: what it would be made from now; or the earlier stage that runs first.
        path: of the record that it leaves.
        force: whether the stage runs whatever it was made from.
        unit: of its work, in the plural.
        counted: key of their number, or list, in its summary; empty if that is the unit.
        now: how many these are; None if unknown before an earlier stage has run.
        memory_mb: an estimate; None: that of the earlier run.
    """
    after = Reason(f"after {made_of}") if isinstance(made_of, str) else made_of.reason()
    reason = after or (Reason("--force") if force else None)
    if reason is None:
        return up_to_date(path.stem)
    earlier = read_record(path)
    seconds, basis = _seconds(earlier, counted or unit, unit, now)
    if memory_mb is not None:
        basis = f"memory estimated; {basis}"
    elif earlier and earlier.peak_mb:
        memory_mb, basis = earlier.peak_mb, f"{basis}; memory: the peak of its process"
    return Plan(
        path.stem,
        runs=True,
        why=reason.text,
        reads=list(reads),
        writes=[*map(str, writes)],
        seconds=seconds,
        memory_mb=memory_mb,
        based_on=basis,
        renews=reason.renews or force,
    )


def _seconds(
    earlier: Record | None, counted: str, unit: str, now: float | None
) -> tuple[float | None, str]:
    """Return the time of the earlier run, scaled to the amount of now, and a sentence about it."""
    summary = earlier.summary if earlier and earlier.is_done else None
    done = (summary or {}).get(counted)
    before = len(done) if isinstance(done, list) else done
    if earlier is None or summary is None or not isinstance(before, int | float):
        return None, _UNKNOWN
    # A training that was interrupted has the time of all its parts in its summary.
    took_s = float(summary.get("seconds", earlier.seconds))
    named = unit.removesuffix("s") if before == 1 else unit
    took = f"the last run took {took_s:.1f} s for {_amount(before)} {named}"
    if now is None or not before:
        return took_s, took
    return took_s * now / before, f"{took}, now {_amount(now)}"


def _amount(value: float) -> str:
    """Return an amount as the summaries show it: counts whole, all else with one decimal."""
    return f"{round(value, 1):.16g}"
