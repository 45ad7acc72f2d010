"""Dry runs: what a stage would write, and how long it would take."""

from dataclasses import dataclass
from pathlib import Path

from roadseg.system.text import about_time, count

UNKNOWN = "unknown: no earlier run"


@dataclass(frozen=True)
class Plan:
    """The dry run of a stage.

    Attributes:
        runs: whether the stage would run.
        why: reason why it would run or not.
        writes: paths of files and folders that it would write.
        seconds: estimated duration; None if unknown.
        based_on: origin of this estimate.
        renews: whether its outputs may differ from the earlier ones, so that later stages run too.
    """

    stage: str
    runs: bool
    why: str
    writes: list[str]
    seconds: float | None = None
    based_on: str = UNKNOWN
    renews: bool = True

    def __str__(self) -> str:
        """Return the dry run as a table."""
        if not self.runs:
            return f"{self.stage:<9} up to date: {self.why}"
        takes = self.based_on
        if self.seconds is not None:
            takes = f"{about_time(self.seconds)} ({self.based_on})"
        return (
            f"{self.stage:<9} will run: {self.why}\n"
            f"  writes  {', '.join(map(_near, self.writes))}\n"
            f"  takes   {takes}"
        )


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
    """Return a path relative to the working folder if it is inside."""
    here = Path.cwd()
    return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else path
