"""Reliability diagram: how often edges are real by how sure they are, as a picture."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from roadseg.report.plots.colours import BLUE, GREEN, GREY, ORANGE, PURPLE
from roadseg.report.plots.figures import save_figure, screen_figure
from roadseg.roads.metrics.reliability import BINS, Reliability

_SIZE_PX = (700, 850)
_COLOURS = (BLUE, ORANGE, GREEN, PURPLE)
_MOST_SETS = len(_COLOURS) - 1  # Sets with a line of their own.


def write_reliability(path: Path, measured: Mapping[str, Reliability]) -> None:
    """Write a PNG: the share of road that is real by confidence above, kilometres of road below.

    Args:
        path: file to write.
        measured: that of all edges under an empty name, and of up to three sets under theirs; of
            more sets none is drawn.

    Raises:
        OutputError: if the file cannot be written.
    """
    figure = screen_figure(*_SIZE_PX)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    sets = [name for name in measured if name] if len(measured) <= _MOST_SETS + 1 else []
    upper.plot([0, 1], [0, 1], color=GREY, linestyle=":", label="perfect")
    for name, colour in zip(["", *sets], _COLOURS, strict=False):
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
    """Draw the share that is real in each range of confidence, with larger dots for more road."""
    confidence = [each.confidence for each in measured.bins]
    share = [each.share for each in measured.bins]
    size = [20 + 180 * each.km / max(measured.km, 1e-9) for each in measured.bins]
    label = f"{name}: {measured.km:.1f} km, expected calibration error {measured.error:.3f}"
    axis.plot(confidence, share, color=colour, linewidth=1, label=label)
    axis.scatter(confidence, share, s=size, color=colour)
