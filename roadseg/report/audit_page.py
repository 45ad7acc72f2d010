"""The page of an audit: one HTML file with the worst ways of a map, without scripts."""

import base64
import io
from collections.abc import Sequence

import numpy as np
import shapely
from PIL import Image

from roadseg.arrays import Bytes
from roadseg.report.page import csp_digest, escaped, page_file, svg_path
from roadseg.roads.audit.profiles import NO_DATA as NO_PIXEL
from roadseg.roads.audit.profiles import Cover, Raster, probability_square
from roadseg.roads.audit.stretches import CONFIRMED, NO_DATA, NOT_SEEN, SHIFTED, STATUSES
from roadseg.roads.audit.tables import STATUS_COLOURS, AuditTables, WorstWay, shift_text
from roadseg.roads.colours import as_hex
from roadseg.system.units import road_text, short_text

_MOST_WAYS = 100  # Most ways with a card.
_SIDE_PX = 200  # Side of the picture of a way.
_SIDES_M = (120.0, 1000.0)  # Smallest and largest ground that a picture shows, side in metres.
_AROUND = 1.3  # Side of a picture, relative to the extent of the worst stretch.
_MAP_PX = 1000  # Longer side of the map of all ways.
_FINE_PX = 1.5  # Tolerance of the simplification of lines on that map.
_MAP = "https://www.openstreetmap.org/?mlat={lat}&mlon={lon}#map=19/{lat}/{lon}"
_CLASSES = tuple(status.replace(" ", "-") for status in STATUSES)
_UPWARDS = (NO_DATA, CONFIRMED, SHIFTED, NOT_SEEN)  # Order of drawing: doubtful ways on top.
_NONE = "-"
_POLICY = "default-src 'none'; img-src data:; style-src '{}'; base-uri 'none'; form-action 'none'"


def build_audit_page(tables: AuditTables, rasters: Sequence[Raster], *, title: str) -> str:
    """Return a page that needs no other file, may load none, and runs nothing.

    Args:
        rasters: the probabilities, which pictures of single ways show in grey.

    Raises:
        DataError: if a raster cannot be read.
    """
    style = f"\n{page_file('report.css')}\n{page_file('audit.css')}{_colours()}\n"
    worst = tables.worst(_MOST_WAYS)
    shift = shift_text(tables.audit.shift_m).capitalize()
    note = f'<p class="note">{escaped(shift)}.</p>' if shift else ""
    heading = f"The {len(worst)} ways to look at first" if worst else "Nothing to look at"
    sections = {
        "Overview": f"{note}{_map(tables)}",
        heading: _worst(tables, Cover.of(rasters), worst),
    }
    body = "".join(
        f"<section><h2>{heading}</h2>{content}</section>" for heading, content in sections.items()
    )
    policy = _POLICY.format(csp_digest(style))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escaped(title)} · roadseg audit</title>\n"
        f'<link rel="icon" href="data:,">\n<style>{style}</style>\n</head>\n'
        f'<body>\n{_head(tables, title)}<main class="wide">{body}</main>\n</body>\n</html>\n'
    )


def _colours() -> str:
    return "".join(
        f".{name} {{ stroke: {as_hex(STATUS_COLOURS[status])}; }}\n"
        for name, status in zip(_CLASSES, STATUSES, strict=True)
    )


def _head(tables: AuditTables, title: str) -> str:
    tiles = "".join(
        f"<div><dt>{_key(row['status'])}{row['status']}</dt>"
        f'<dd class="value">{row["share"]:.1%}</dd>'
        f'<dd class="aside">{road_text(row["km"])}</dd></div>'
        for row in tables.summary.to_dict("records")
    )
    subtitle = (
        f"{len(tables.audit.ways.lines)} ways compared with the road probabilities of an image; "
        "percentages are shares of their length."
    )
    return (
        '<header class="top"><div class="wide"><div class="head">'
        f'<h1>Audit of {escaped(title)}</h1><p id="subtitle" class="muted">{escaped(subtitle)}</p>'
        f'<p class="brand">roadseg audit</p></div><dl class="tiles">{tiles}</dl></div></header>'
    )


def _key(status: str) -> str:
    name = _CLASSES[STATUSES.index(status)]
    line = f'<line class="{name}" x1="2" x2="24" y1="5" y2="5" stroke-width="4"/>'
    return f'<svg class="mark" viewBox="0 0 26 10" aria-hidden="true">{line}</svg>'


def _map(tables: AuditTables) -> str:
    audit = tables.audit
    low_x, low_y, high_x, high_y = shapely.total_bounds(audit.lines)
    scale = _MAP_PX / max(high_x - low_x, high_y - low_y, 1.0)
    height = (high_y - low_y) * scale
    lines = shapely.simplify(audit.lines, _FINE_PX / scale, preserve_topology=False)
    corner = np.array([low_x, high_y])
    paths = "".join(
        f'<path class="{_CLASSES[status]}" '
        f'd="{svg_path(lines[audit.status == status], corner, scale)}"/>'
        for status in _UPWARDS
        if (audit.status == status).any()
    )
    width = (high_x - low_x) * scale
    return (
        f'<svg class="card whole" viewBox="-4 -4 {width + 8:.0f} {height + 8:.0f}" role="img" '
        f'aria-label="Map of all ways by status">{paths}</svg>'
    )


def _worst(tables: AuditTables, cover: Cover, worst: Sequence[WorstWay]) -> str:
    if not worst:
        return '<p class="note">Every way with data lies on a road of the image.</p>'
    tree = shapely.STRtree(tables.audit.lines)
    cards = "".join(
        _card(rank, way, _picture(tables, cover, tree, way.way - 1))
        for rank, way in enumerate(worst, 1)
    )
    legend = ", ".join(f"{_key(status)} {status}" for status in STATUSES)
    return (
        '<p class="note">The pictures show the road probability in grey (brighter is higher), with '
        f"north at the top, and the ways coloured by status: {legend}.</p>"
        f'<div class="ways">{cards}</div>'
    )


def _card(rank: int, way: WorstWay, picture: str) -> str:
    facts = {"id": way.id, "class": way.highway or _NONE, "length": short_text(way.length_m)}
    parts = {"not seen": way.not_seen_m, "shifted": way.shifted_m}
    facts |= {name: short_text(metres) for name, metres in parts.items() if metres > 0}
    if way.offset_m is not None:
        facts["the road lies"] = f"{short_text(abs(way.offset_m))} to the {way.towards}"
    rows = "".join(
        f"<tr><td>{name}</td><td>{escaped(value)}</td></tr>" for name, value in facts.items()
    )
    place = _MAP.format(lat=way.lat, lon=way.lon)
    link = f'<a href="{escaped(place)}" rel="noreferrer">{way.lat:.5f}, {way.lon:.5f}</a>'
    return (
        f'<article class="card"><h3>{rank}. {escaped(way.name or "without a name")}</h3>'
        f'{picture}<table class="pairs">{rows}<tr><td>place</td><td>{link}</td></tr></table>'
        "</article>"
    )


def _picture(tables: AuditTables, cover: Cover, tree: shapely.STRtree, way: int) -> str:
    """Draw the worst stretch of a way and its surroundings over the probabilities."""
    audit = tables.audit
    low_x, low_y, high_x, high_y = shapely.bounds(audit.lines[tables.worst_stretch(way)])
    side_m = float(np.clip(_AROUND * max(high_x - low_x, high_y - low_y), *_SIDES_M))
    centre = np.array([(low_x + high_x) / 2, (low_y + high_y) / 2])
    corner, scale = np.add(centre, (-side_m / 2, side_m / 2)), _SIDE_PX / side_m
    square = shapely.box(*(centre - side_m / 2), *(centre + side_m / 2))
    rows = tree.query(square, predicate="intersects")
    paths = "".join(
        f'<path class="{_CLASSES[audit.status[row]]}{"" if audit.way[row] == way else " other"}" '
        f'd="{svg_path(_inside(audit.lines[row], square), corner, scale)}"/>'
        for row in sorted(rows.tolist(), key=lambda row: bool(audit.way[row] == way))
    )
    pixels = probability_square(cover, centre, side_m=side_m, side_px=_SIDE_PX)
    return (
        f'<svg class="way" viewBox="0 0 {_SIDE_PX} {_SIDE_PX}" role="img" '
        f'aria-label="The way over the probabilities, {short_text(side_m)} across">'
        f'<image width="{_SIDE_PX}" height="{_SIDE_PX}" href="{_uri(pixels)}"/>{paths}</svg>'
    )


def _inside(line: shapely.LineString, square: shapely.Polygon) -> list[shapely.LineString]:
    parts = shapely.get_parts(shapely.intersection(line, square))
    return [part for part in parts.tolist() if part.length > 0]


def _uri(pixels: Bytes) -> str:
    """Return probabilities as a `data:` address of a PNG; pixels without data are black."""
    shown = np.where(pixels == NO_PIXEL, 0, 40 + pixels // 3).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(shown).save(file, "png", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
