"""runs: the runs in a folder, a line each. Writes nothing."""

from dataclasses import dataclass
from pathlib import Path

from roadseg.errors import DataError, MissingInputError
from roadseg.report.run_facts import RunFacts, ended, find_runs, megabytes_in, read_run
from roadseg.system.text import Summary, size_text, table

_TITLES = ("run", "date", "images", "network", "folds", "IoU", "APLS", "km", "size")


@dataclass(frozen=True)
class RunLine:
    """A run in figures; None stands for what it has not come to.

    Attributes:
        run: its folder, as seen from the folder that was looked through.
        date: local time of its latest record.
        folds: what its trainings held out.
        iou: of the held-out pixels.
        apls: by length, on the held-out chips.
        problem: why it could not be read; empty if it could.
    """

    run: str
    date: str | None = None
    images: int | None = None
    network: str | None = None
    encoder: str | None = None
    folds: list[str] | None = None
    iou: float | None = None
    apls: float | None = None
    road_km: float | None = None
    megabytes: float = 0.0
    problem: str = ""


@dataclass(frozen=True)
class RunList(Summary):
    """The runs in a folder."""

    folder: str
    runs: list[RunLine]

    def __str__(self) -> str:
        """Return a line for each run."""
        if not self.runs:
            return f"no runs in {self.folder}"
        problems = [f"{each.run}: {each.problem}" for each in self.runs if each.problem]
        return "\n".join(
            [table([_TITLES, *map(_row, self.runs)], right=(2, 5, 6, 7, 8)), *problems]
        )


def _row(line: RunLine) -> tuple[str, ...]:
    return (
        line.run,
        (line.date or "-")[:16],
        "-" if line.images is None else str(line.images),
        "/".join(filter(None, (line.network, line.encoder))) or "-",
        ",".join(line.folds or ["-"]),
        *("-" if value is None else f"{value:.3f}" for value in (line.iou, line.apls)),
        "-" if line.road_km is None else f"{line.road_km:.2f}",
        size_text(line.megabytes),
    )


def run(folder: Path) -> RunList:
    """Return the runs in a folder; it may be one itself.

    Raises:
        MissingInputError: if there is no such folder.
    """
    if not folder.is_dir():
        raise MissingInputError(f"{folder} does not exist; use a folder with runs")
    return RunList(str(folder), [_line(path, folder) for path in find_runs(folder)])


def _line(path: Path, folder: Path) -> RunLine:
    name = str(path.relative_to(folder)) if path != folder else str(folder)
    try:
        facts = read_run(path)
    except DataError as error:
        return RunLine(name, megabytes=megabytes_in(path), problem=str(error))
    images = facts.number("prepare", "scenes")
    records = (path / f"{stage}.json" for stage in facts.records if stage != "train")
    trained = facts.records.get("train")
    return RunLine(
        run=name,
        date=max(map(ended, records)),
        images=None if images is None else int(images),
        network=_setting(facts, "architecture"),
        encoder=_setting(facts, "encoder"),
        folds=[str(fold) for fold in facts.trainings] if trained else None,
        iou=facts.number("evaluate", "iou"),
        apls=facts.number("evaluate", "apls_length"),
        road_km=facts.number("graph", "road_km"),
        megabytes=megabytes_in(path),
    )


def _setting(facts: RunFacts, name: str) -> str | None:
    record = facts.records.get("train")
    value = record.settings.get(name) if record else None
    return value if isinstance(value, str) else None
