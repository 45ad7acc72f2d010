"""Learning curves: loss and scores of every epoch, as a picture."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.ticker import MaxNLocator

from roadseg.report.plots.colours import BLUE, GREEN, GREY, ORANGE, PURPLE
from roadseg.report.plots.figures import save_figure, screen_figure

_SIZE_PX = (1000, 900)


def write_curves(path: Path, history: Sequence[Mapping[str, float]], *, best_epoch: int) -> None:
    """Write a PNG: the losses of training and validation above, IoU, F1 and learning rate below.

    Where nothing was held out, the lines of validation are left out.

    Args:
        path: file to write.
        history: one row an epoch, at least one, with the keys epoch, train_loss and
            learning_rate, and, where chips were held out, val_loss, val_iou and val_f1.
        best_epoch: the epoch to mark, one of the history.

    Raises:
        OutputError: if the file cannot be written.
    """
    figure = screen_figure(*_SIZE_PX)
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
