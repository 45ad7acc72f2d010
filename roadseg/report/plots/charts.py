"""Charts: training curves, trials of a search, reliability."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from roadseg.report.plots.figures import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    save_figure,
    screen_figure,
)
from roadseg.roads.metrics.reliability import BINS, Reliability
from roadseg.roads.tracing.tuning import Parameter

_CURVES_PX = (1000, 900)
_TUNING_PX = (1300, 800)
_COLUMNS = 3
_RELIABILITY_PX = (700, 850)
_SET_COLOURS = (BLUE, ORANGE, GREEN, PURPLE)
_MOST_SETS = len(_SET_COLOURS) - 1  # Sets with a line of their own.


def write_curves(path: Path, history: Sequence[Mapping[str, float]], *, best_epoch: int) -> None:
    """Write a PNG: the losses of training and validation above, IoU, F1 and learning rate below.

    Where nothing was held out, the lines of validation are left out.

    Args:
        history: one row an epoch, at least one, with the keys epoch, train_loss and
            learning_rate, and, where chips were held out, val_loss, val_iou and val_f1.
        best_epoch: the epoch to mark, one of the history.

    Raises:
        OutputError: if the file cannot be written.
    """
    from matplotlib.ticker import MaxNLocator

    figure = screen_figure(*_CURVES_PX)
    losses, scores = figure.subplots(2, 1, sharex=True)
    _add_lines(
        losses, history, {"train_loss": (BLUE, "training"), "val_loss": (ORANGE, "validation")}
    )
    _add_lines(scores, history, {"val_iou": (GREEN, "IoU"), "val_f1": (PURPLE, "F1")})
    losses.set_ylabel("loss")
    scores.set_ylabel("IoU and F1 of any road")
    scores.set_ylim(0, 1)
    scores.set_xlabel("epoch")
    scores.set_xlim(history[0]["epoch"] - 0.5, history[-1]["epoch"] + 0.5)
    scores.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    _add_rates(scores, history)
    best = next(row for row in history if row["epoch"] == best_epoch)
    losses.set_title(_title(best, len(history)))
    for axis in (losses, scores):
        axis.axvline(best_epoch, color=GREY, linestyle=":", zorder=0)
        axis.grid(visible=True, alpha=0.3)
    figure.subplots_adjust(left=0.09, right=0.92, top=0.95, bottom=0.07, hspace=0.1)
    save_figure(figure, path)


def _title(best: Mapping[str, float], epochs: int) -> str:
    if "val_loss" not in best:
        return f"{epochs} epochs on all chips: training loss {best['train_loss']:.4f}"
    return (
        f"best epoch {best['epoch']:.0f} of {epochs}: validation loss {best['val_loss']:.4f}, "
        f"IoU {best['val_iou']:.3f}, F1 {best['val_f1']:.3f}"
    )


def _add_lines(
    axis: Any,  # noqa: ANN401 - matplotlib's
    history: Sequence[Mapping[str, float]],
    lines: Mapping[str, tuple[str, str]],
) -> None:
    """Draw a line for each key, in a colour and with a name; its epochs are dots."""
    epochs = [row["epoch"] for row in history]
    for key, (colour, name) in lines.items():
        if key not in history[0]:
            continue
        values = [row[key] for row in history]
        axis.plot(epochs, values, color=colour, label=name, marker="o", markersize=4)
    if axis.lines:
        axis.legend(loc="best", frameon=False)


def _add_rates(axis: Any, history: Sequence[Mapping[str, float]]) -> None:  # noqa: ANN401
    """Draw the learning rate as a thin line with its own scale at the right."""
    right = axis.twinx()
    epochs, rates = zip(*((row["epoch"], row["learning_rate"]) for row in history), strict=True)
    right.plot(epochs, rates, color=GREY, linewidth=0.8, marker=".", markersize=3)
    right.set_ylim(0, 1.05 * max(rates))
    right.set_ylabel("learning rate", color=GREY)
    right.ticklabel_format(axis="y", style="sci", scilimits=(0, 0))
    right.tick_params(colors=GREY)


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
        tried: settings of each trial, with a key for each parameter; the first are those given.
        is_better: whether the best trial is significantly better than the first.

    Raises:
        OutputError: if the file cannot be written.
    """
    best = max(range(len(tried)), key=scores.__getitem__)
    figure = screen_figure(*_TUNING_PX)
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


def write_reliability(path: Path, measured: Mapping[str, Reliability]) -> None:
    """Write a PNG: the share of road that is real by confidence above, kilometres of road below.

    Args:
        measured: reliability of all edges under an empty name, and of sets by name; sets are only
            drawn if there are at most three.

    Raises:
        OutputError: if the file cannot be written.
    """
    figure = screen_figure(*_RELIABILITY_PX)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    sets = [name for name in measured if name] if len(measured) <= _MOST_SETS + 1 else []
    upper.plot([0, 1], [0, 1], color=GREY, linestyle=":", label="perfect")
    for name, colour in zip(["", *sets], _SET_COLOURS, strict=False):
        _add_line(upper, measured[name], colour, name or "all roads")
    upper.set(ylabel="share of the length that is real", ylim=(0, 1.04), xlim=(0, 1))
    upper.set_title("How often roads are real, by their confidence")
    upper.legend(loc="upper left")
    for each in measured[""].bins:
        place = min(int(each.confidence * BINS), BINS - 1) + 0.5
        lower.bar(place / BINS, each.km, width=0.9 / BINS, color=BLUE)
    lower.set(xlabel="confidence", ylabel="km of road")
    for axis in (upper, lower):
        axis.grid(visible=True, alpha=0.3)
    figure.subplots_adjust(left=0.12, right=0.96, top=0.95, bottom=0.07, hspace=0.08)
    save_figure(figure, path)


def _add_line(axis: Any, measured: Reliability, colour: str, name: str) -> None:  # noqa: ANN401
    """Draw the share that is real in each bin of confidence, with larger dots for more road."""
    confidence = [each.confidence for each in measured.bins]
    share = [each.share for each in measured.bins]
    size = [20 + 180 * each.km / max(measured.km, 1e-9) for each in measured.bins]
    label = f"{name}: {measured.km:.1f} km, expected calibration error {measured.error:.3f}"
    axis.plot(confidence, share, color=colour, linewidth=1, label=label)
    axis.scatter(confidence, share, s=size, color=colour)
