"""Charts: training curves, reliability."""

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

_CURVES_PX = (1000, 900)
_RELIABILITY_PX = (700, 850)


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


def write_reliability(path: Path, measured: Reliability) -> None:
    """Write a PNG: the share of road that is real by confidence above, kilometres of road below.

    Raises:
        OutputError: if the file cannot be written.
    """
    figure = screen_figure(*_RELIABILITY_PX)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    upper.plot([0, 1], [0, 1], color=GREY, linestyle=":", label="perfect")
    confidence = [each.confidence for each in measured.bins]
    share = [each.share for each in measured.bins]
    size = [20 + 180 * each.km / max(measured.km, 1e-9) for each in measured.bins]
    label = f"all roads: {measured.km:.1f} km, expected calibration error {measured.error:.3f}"
    upper.plot(confidence, share, color=BLUE, linewidth=1, label=label)
    # Larger dots stand for more road.
    upper.scatter(confidence, share, s=size, color=BLUE)
    upper.set(ylabel="share of the length that is real", ylim=(0, 1.04), xlim=(0, 1))
    upper.set_title("How often roads are real, by their confidence")
    upper.legend(loc="upper left")
    for each in measured.bins:
        place = min(int(each.confidence * BINS), BINS - 1) + 0.5
        lower.bar(place / BINS, each.km, width=0.9 / BINS, color=BLUE)
    lower.set(xlabel="confidence", ylabel="km of road")
    for axis in (upper, lower):
        axis.grid(visible=True, alpha=0.3)
    figure.subplots_adjust(left=0.12, right=0.96, top=0.95, bottom=0.07, hspace=0.08)
    save_figure(figure, path)
