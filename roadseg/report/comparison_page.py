"""The page of a comparison: one HTML file with the style of the report, without any script."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from roadseg.report.comparison import Comparison, Row, Setting
from roadseg.report.page import escaped, page_file, scriptless_head, scriptless_page, section
from roadseg.system.text import time_text

_COLOURS = 4  # Classes `run-0` to `run-3` in the style sheet.
# Pixels; size of a chart of curves, and the margins for its axes.
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 520, 230, 44, 12, 14, 34
_CURVES = (("val_loss", "Loss on held-out chips"), ("val_iou", "IoU of held-out pixels"))
_NONE = "-"  # Shown for values that a run does not have.
_LONGEST = 60  # Longest text of a setting; longer ones are shortened.


def build_comparison_page(
    compared: Comparison,
    curves: Sequence[Mapping[str, Any] | None],
    pictures: Mapping[str, Sequence[str | None]],
) -> str:
    """Return a page that needs no other file, may load none, and runs nothing.

    Args:
        curves: the training of each run, as `read_training` returns it.
        pictures: for each scene, a picture of every run as a `data:` address, or None.
    """
    style = f"\n{page_file('report.css')}\n{page_file('compare.css')}\n"
    title = " and ".join(compared.names)
    body = "".join(
        [
            _head(compared),
            '<main class="wide">',
            _warnings(compared.warnings),
            section("Settings that differ", _settings(compared)),
            section("Metrics", _metrics(compared)),
            section("Held-out chips, the largest change first", _chips(compared)),
            section("Training", _curves(compared.names, curves)),
            section("Images of the largest changes", _pictures(compared.names, pictures)),
            section("Time", _times(compared)),
            "</main>",
        ]
    )
    return scriptless_page(f"{title} · roadseg compare", style, body)


def _head(compared: Comparison) -> str:
    names = "".join(
        f'<span class="key">{_key(at)}{escaped(name)}</span>'
        for at, name in enumerate(compared.names)
    )
    subtitle, more = "Changes count from the first run.", f'<div class="keys">{names}</div>'
    return scriptless_head("Runs compared", subtitle, "roadseg compare", more)


def _key(at: int) -> str:
    line = f'<line class="run-{at % _COLOURS}" x1="2" x2="24" y1="5" y2="5" stroke-width="3"/>'
    return f'<svg viewBox="0 0 26 10" aria-hidden="true">{line}</svg>'


def _warnings(warnings: Iterable[str]) -> str:
    paragraphs = "".join(
        f'<p class="warning" role="alert">{escaped(w.capitalize())}.</p>' for w in warnings
    )
    return f"<section>{paragraphs}</section>" if paragraphs else ""


def _table(label: str, titles: Sequence[str], rows: Iterable[str], kind: str = "") -> str:
    """Return a table that can be scrolled with the keyboard; empty without rows."""
    head = "".join(f'<th scope="col">{escaped(title)}</th>' for title in titles)
    body = "".join(rows)
    if not body:
        return ""
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    region = f'tabindex="0" role="region" aria-label="{label}"'
    return f'<div class="scroll {kind}" {region}>{table}</div>'


def _settings(compared: Comparison) -> str:
    if not compared.settings:
        return '<p class="note">None: all settings in the records are the same.</p>'
    rows = map(_setting, compared.settings)
    return _table("Table of settings", ["setting", *compared.names], rows, "settings")


def _setting(setting: Setting) -> str:
    cells = "".join(f"<td>{escaped(value_text(value))}</td>" for value in setting.values)
    return f'<tr><th scope="row"><code>{escaped(setting.name)}</code></th>{cells}</tr>'


def value_text(value: Any) -> str:  # noqa: ANN401 - any JSON value
    """Return the value of a setting as JSON, shortened; one that a run does not have, as -."""
    text = _NONE if value is None else json.dumps(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def change_text(change: float | None, digits: int) -> str:
    """Return a change with its sign; empty if it is not known or would read as 0."""
    text = "" if change is None else f"{change:+.{digits}f}"
    return "" if not text.strip("+-0.") else text


def _metrics(compared: Comparison) -> str:
    rows = (_row(row.title, [row]) for row in compared.metrics)
    return _table("Table of metrics", ["metric", *compared.names], rows)


def _row(title: str, rows: Iterable[Row]) -> str:
    cells = "".join(_cell(row, at) for row in rows for at in range(len(row.values)))
    return f'<tr><th scope="row">{escaped(title)}</th>{cells}</tr>'


def _cell(row: Row, at: int) -> str:
    value, change = row.values[at], change_text(row.changes[at], row.digits)
    shown = _NONE if value is None else f"{value:.{row.digits}f}"
    kind = "" if not change else "less" if change.startswith("-") else "more"
    # An empty change keeps its width, so that values are aligned.
    return f'<td>{shown}<small class="{kind}">{change}</small></td>' if at else f"<td>{shown}</td>"


def _chips(compared: Comparison) -> str:
    titles = [f"{metric}, {name}" for metric in ("IoU", "APLS") for name in compared.names]
    rows = (_row(chip, rows.values()) for chip, rows in compared.chips.items())
    return _table("Table of chips", ["chip", *titles], rows)


def _times(compared: Comparison) -> str:
    def cells(row: Row) -> str:
        return "".join(f"<td>{_NONE if v is None else time_text(v)}</td>" for v in row.values)

    rows = (f'<tr><th scope="row">{escaped(r.title)}</th>{cells(r)}</tr>' for r in compared.seconds)
    return _table("Table of times", ["stage", *compared.names], rows)


def _curves(names: Sequence[str], curves: Sequence[Mapping[str, Any] | None]) -> str:
    figures = (_curve(title, key, names, curves) for key, title in _CURVES)
    shown = "".join(figures)
    return f'<div class="columns">{shown}</div>' if shown else ""


def _curve(
    title: str, key: str, names: Sequence[str], curves: Sequence[Mapping[str, Any] | None]
) -> str:
    """Return a chart with a line for each run; empty if no run has these values."""
    lines = [_points(curve, key) for curve in curves]
    every = [point for line in lines for point in line]
    if not every:
        return ""
    last, top = max(epoch for epoch, _ in every), max(value for _, value in every) or 1.0

    def place(epoch: float, value: float) -> tuple[float, float]:
        x = _LEFT + (epoch - 1) / max(last - 1, 1) * (_WIDTH - _LEFT - _RIGHT)
        return x, _HEIGHT - _BOTTOM - value / top * (_HEIGHT - _TOP - _BOTTOM)

    drawn = "".join(
        _line([place(*point) for point in line], at) for at, line in enumerate(lines) if line
    )
    ends = ", ".join(
        f"{name} ends at {line[-1][1]:.3f}" for name, line in zip(names, lines, strict=True) if line
    )
    label = escaped(f"{title}; {ends}")
    return (
        f'<figure class="curve card"><h3>{title}</h3><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'role="img" aria-label="{label}">{_axes(last, top, place(1, 0)[1])}{drawn}</svg>'
        f"<figcaption>{escaped(ends)}</figcaption></figure>"
    )


def _points(curve: Mapping[str, Any] | None, key: str) -> list[tuple[float, float]]:
    rows = curve["epochs"] if curve else []
    return [(row["epoch"], row[key]) for row in rows if row.get(key) is not None and row["epoch"]]


def _axes(last: float, top: float, bottom_px: float) -> str:
    right = _WIDTH - _RIGHT
    marks = [(top * part / 2, bottom_px + (_TOP - bottom_px) * part / 2) for part in range(3)]
    rules = "".join(
        f'<line class="rule" x1="{_LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text x="{_LEFT - 7}" y="{y + 4:.1f}" text-anchor="end">{value:.2f}</text>'
        for value, y in marks
    )
    low = _HEIGHT - _BOTTOM + 16
    return (
        f'{rules}<text x="{_LEFT}" y="{low}" text-anchor="middle">1</text>'
        f'<text x="{right}" y="{low}" text-anchor="middle">{last:.0f}</text>'
        f'<text x="{(_LEFT + right) / 2:.0f}" y="{_HEIGHT - 3}" text-anchor="middle">epoch</text>'
    )


def _line(points: Sequence[tuple[float, float]], at: int) -> str:
    kind = f"run-{at % _COLOURS}"
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    x, y = points[-1]
    end = f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>'
    return f'<path class="{kind}" d="M{path}"/>{end}'


def _pictures(names: Sequence[str], pictures: Mapping[str, Sequence[str | None]]) -> str:
    return "".join(_scene(scene, names, uris) for scene, uris in pictures.items())


def _scene(scene: str, names: Sequence[str], uris: Sequence[str | None]) -> str:
    figures = "".join(
        f'<figure><img class="sheet" src="{uri}" alt="{escaped(f"{scene} of {name}")}">'
        f"<figcaption>{escaped(name)}</figcaption></figure>"
        for name, uri in zip(names, uris, strict=True)
        if uri
    )
    # The style sheet prints only scenes with the attribute `data-drawn`.
    shown = f'<h3>{escaped(scene)}</h3><div class="runs">{figures}</div>'
    return f'<div class="scene" data-drawn>{shown}</div>'


def scene_of(chip: str, scenes: Iterable[Path]) -> Path | None:
    """Return the picture of the scene of a chip: the one with the longest matching prefix."""
    fitting = (path for path in scenes if chip == path.stem or chip.startswith(f"{path.stem}_r"))
    return max(fitting, key=lambda path: len(path.stem), default=None)
