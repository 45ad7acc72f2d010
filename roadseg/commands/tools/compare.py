"""compare: runs side by side, as a table and as a page. Writes the page."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from roadseg.errors import ConfigError
from roadseg.report.comparison import Comparison, Row, compare_runs
from roadseg.report.comparison_page import build_comparison_page, change_text, scene_of, value_text
from roadseg.report.facts import read_training
from roadseg.report.page import write_page
from roadseg.report.pictures import sheet_uri
from roadseg.report.run_facts import RunFacts, read_run
from roadseg.system.files import require_suffix
from roadseg.system.text import Summary, table, time_text
from roadseg.system.workspace import Workspace

_SCENES = 3  # Scenes whose images are shown.
_SIDE_PX, _MOST_BYTES = 1600, 600_000  # Limits of an image.


@dataclass(frozen=True)
class CompareSummary(Summary):
    """Runs side by side, and the HTML file that shows them; None if none was written."""

    comparison: Comparison
    page: str | None

    def __str__(self) -> str:
        """Return settings that differ, metrics with their changes, and times, as tables."""
        compared = self.comparison
        rows_of = {
            "setting": [[each.name, *map(value_text, each.values)] for each in compared.settings],
            "metric": [[row.title, *_cells(row)] for row in compared.metrics],
            "time": [[row.title, *map(_time, row.values)] for row in compared.seconds],
        }
        parts = [_table(title, compared.names, rows) for title, rows in rows_of.items()]
        if warnings := compared.warnings:
            parts.insert(0, "\n".join(f"WARNING: {warning}" for warning in warnings))
        return "\n\n".join([*parts, *([f"page  {self.page}"] if self.page else [])])


def run(folders: Sequence[Path], *, output: Path | None) -> CompareSummary:
    """Compare runs with the first of them.

    Args:
        folders: two runs or more.
        output: the page to write; None for none.

    Raises:
        ConfigError: if there are fewer than two runs, or the page would be one of their files.
        DataError: if a folder is no run.
        OutputError: if the page cannot be written.
    """
    if len({folder.resolve() for folder in folders}) < max(len(folders), 2):
        raise ConfigError(
            f"{', '.join(map(str, folders))}: expected two or more different run folders"
        )
    require_suffix(output, ".html", ".htm", option="--output")
    runs = [read_run(folder) for folder in folders]
    compared = compare_runs(runs)
    if output is not None:
        curves = [read_training(Workspace(run.folder).checkpoint(run.fold)) for run in runs]
        write_page(output, build_comparison_page(compared, curves, _pictures(runs, compared)))
    return CompareSummary(compared, None if output is None else str(output))


def _pictures(runs: Sequence[RunFacts], compared: Comparison) -> dict[str, list[str | None]]:
    """Return the images of the scenes that changed most, if several runs have them."""
    drawn = [sorted(Workspace(run.folder).pictures.glob("*.png")) for run in runs]
    shown: dict[str, list[str | None]] = {}
    for chip in compared.chips:
        paths = [scene_of(chip, pictures) for pictures in drawn]
        scene = next((path.stem for path in paths if path), None)
        if scene and scene not in shown and sum(path is not None for path in paths) > 1:
            shown[scene] = [
                sheet_uri(path, side_px=_SIDE_PX, most_bytes=_MOST_BYTES) if path else None
                for path in paths
            ]
        if len(shown) == _SCENES:
            break
    return shown


def _table(title: str, names: list[str], rows: list[list[str]]) -> str:
    if not rows:
        return f"no {title} differs" if title == "setting" else f"no {title} found"
    right = () if title == "setting" else range(1, len(names) + 1)
    return table([[title, *names], *rows], right=right)


def _time(seconds: float | None) -> str:
    return "-" if seconds is None else time_text(seconds)


def _cells(row: Row) -> list[str]:
    """Return the values of a row, each but the first with its change."""
    changes = ["", *(change_text(change, row.digits) for change in row.changes[1:])]
    return [
        "-" if value is None else f"{value:.{row.digits}f}{f' ({change})' if change else ''}"
        for value, change in zip(row.values, changes, strict=True)
    ]
