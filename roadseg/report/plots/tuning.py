"""Tuning plots: the score of every trial against each setting, as a picture."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from roadseg.report.plots.colours import BLUE, GREY, ORANGE
from roadseg.report.plots.figures import save_figure, screen_figure
from roadseg.roads.tracing.tuning import Parameter

_SIZE_PX = (1300, 800)
_COLUMNS = 3


def write_tuning_plot(
    path: Path,
    tried: Sequence[Mapping[str, float]],
    scores: Sequence[float],
    *,
    goal: str,
    parameters: Sequence[Parameter],
    is_better: bool,
) -> None:
    """Write a PNG with a panel for each setting: its value and the score of every trial.

    Args:
        path: file to write.
        tried: settings of each trial, at least one, those that were given first; with a key for
            each parameter.
        scores: of each trial.
        goal: what these are.
        parameters: settings that were searched.
        is_better: whether the best trial is better than the first by more than chance.

    Raises:
        OutputError: if the file cannot be written.
    """
    best = max(range(len(tried)), key=scores.__getitem__)
    figure = screen_figure(*_SIZE_PX)
    rows = -(-len(parameters) // _COLUMNS)
    panels = figure.subplots(rows, _COLUMNS, sharey=True, squeeze=False)
    for panel, parameter in zip(panels.flat, parameters, strict=False):
        _add_trials(panel, [row[parameter.name] for row in tried], scores, best, parameter)
    for panel in panels.flat[len(parameters) :]:
        panel.axis("off")
    for panel in panels[:, 0]:
        panel.set_ylabel(goal)
    verdict = "" if is_better else ", within chance"
    figure.suptitle(f"{len(tried)} trials: {goal} {scores[0]:.3f} -> {scores[best]:.3f}{verdict}")
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="lower center", ncols=3)
    figure.subplots_adjust(left=0.06, right=0.98, top=0.93, bottom=0.14, hspace=0.3, wspace=0.06)
    save_figure(figure, path)


def _add_trials(
    panel: Any,  # noqa: ANN401 - matplotlib's
    values: Sequence[float],
    scores: Sequence[float],
    best: int,
    parameter: Parameter,
) -> None:
    """Draw all trials as dots, and the first and the best one larger."""
    panel.axhline(scores[0], color=GREY, linestyle=":", zorder=0)
    panel.scatter(values, scores, s=25, color=GREY, alpha=0.7, label="trial", zorder=1)
    panel.scatter(
        values[0], scores[0], s=90, color=BLUE, marker="s", label="settings given", zorder=2
    )
    panel.scatter(
        values[best], scores[best], s=220, color=ORANGE, marker="*", label="best", zorder=3
    )
    panel.set_xlabel(f"graph.{parameter.name}")
    margin = 0.04 * (parameter.high - parameter.low)
    low, high = min(parameter.low, *values), max(parameter.high, *values)
    panel.set_xlim(low - margin, high + margin)
    panel.grid(visible=True, alpha=0.3)
