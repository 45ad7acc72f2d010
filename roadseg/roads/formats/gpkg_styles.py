"""GeoPackage styles: how QGIS shows the layers of a road graph, kept inside the file."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pandas as pd

from roadseg.roads.colours import CONFIDENCE, CONFIDENCE_LIMITS, EDITS, Rgb, speed_colours
from roadseg.roads.masks.raster_styles import style_text
from roadseg.roads.speeds import KPH_PER_MPH, shown_name

Edges = pd.DataFrame | Mapping[str, Any]  # Columns of edges by their names.

STYLE_LAYER = "layer_styles"  # The name that QGIS looks for.

_GEOMETRY = "geom"  # GDAL's name of the geometry column in a GeoPackage.
_LIMITS_KPH = (0, 20, 30, 50, 70, 80, 100, 1000)  # Each default speed bin has its own class.
_FASTEST_KPH = 130  # Speed whose colour stands for the last class, which has no end.
_WIDTH_MM = 0.8  # Of lines; what is dark below them is half as wide again.
_GREY: Rgb = (110, 110, 110)
_DARK: Rgb = (35, 35, 35)
_DASH_IF_INFERRED = "if(\"inferred\" = 1, 'dash', 'solid')"
_ALIASES = {  # The units of columns whose names do not tell them.
    "length": "length, m",
    "speed_kph": "speed, km/h",
    "travel_time": "travel time, s",
    "width": "width, m",
}
_EXPRESSION = 3  # QGIS's number of properties that are expressions.


def layer_styles(renderers: Mapping[str, ET.Element]) -> pd.DataFrame:
    """Return the table `layer_styles` with the renderer of each layer as its default style.

    Source: the table that QGIS writes with "save style in database".
    """
    rows = [
        {
            "f_table_catalog": "",
            "f_table_schema": "",
            "f_table_name": layer,
            "f_geometry_column": _GEOMETRY,
            "styleName": f"roadseg {layer}",
            "styleQML": style_text(renderer, column_aliases()),
            "styleSLD": "",
            "useAsDefault": True,
            "description": "written by roadseg",
            "owner": "",
            "ui": "",
            "update_time": datetime.now(tz=UTC),
        }
        for layer, renderer in renderers.items()
    ]
    return pd.DataFrame(rows)


def column_aliases() -> ET.Element:
    """Return what tables and forms of QGIS call columns; those that a layer lacks do no harm."""
    names = ET.Element("aliases")
    for column, alias in _ALIASES.items():
        ET.SubElement(names, "alias", field=column, name=alias)
    return names


def edge_renderer(edges: Edges) -> ET.Element:
    """Return the renderer of edges by their columns.

    They have the colours of their speeds, from slow (violet) to fast (yellow), over a dark line. If
    all have the same speed, they have those of their confidence, from doubtful (violet) to certain
    (yellow), and without either all have one colour. With `inferred`, links across gaps are dashed.

    Args:
        edges: a table, or arrays by the name of the column.
    """
    is_dashed = "inferred" in edges
    is_speed = "speed_kph" in edges
    if "confidence" in edges and not (is_speed and len(np.unique(edges["speed_kph"])) > 1):
        limits = (0.0, *CONFIDENCE_LIMITS, 1.0)
        labels = [f"{low * 100:g} to {high * 100:g} % certain" for low, high in pairwise(limits)]
        return _graduated("confidence", limits, CONFIDENCE, labels, is_dashed=is_dashed)
    if not is_speed:
        return line_renderer(_GREY, is_dashed=is_dashed)
    classes = list(pairwise(_LIMITS_KPH))
    middles = ((low + min(high, _FASTEST_KPH)) / 2 for low, high in classes)
    colours = speed_colours(kph / KPH_PER_MPH for kph in middles)
    names = [_label(low, high) for low, high in classes]
    return _graduated("speed_kph", _LIMITS_KPH, colours, names, is_dashed=is_dashed)


def _graduated(
    column: str,
    limits: Sequence[float],
    colours: Iterable[Rgb],
    labels: Iterable[str],
    *,
    is_dashed: bool,
) -> ET.Element:
    symbols = [_line(colour, is_dashed=is_dashed) for colour in colours]
    renderer = _renderer("graduatedSymbol", symbols, attr=column, graduatedMethod="GraduatedColor")
    ranges = ET.SubElement(renderer, "ranges")
    for number, ((low, high), label) in enumerate(zip(pairwise(limits), labels, strict=True)):
        facts = {"lower": str(low), "upper": str(high), "label": label}
        ET.SubElement(ranges, "range", facts, symbol=str(number), render="true")
    return renderer


def line_renderer(
    colour: Rgb, *, is_dashed: bool = False, width_mm: float = _WIDTH_MM
) -> ET.Element:
    """Return the renderer of lines of one colour; with `is_dashed`, links are dashed."""
    return _renderer("singleSymbol", [_line(colour, is_dashed=is_dashed, width_mm=width_mm)])


def edit_renderer() -> ET.Element:
    """Return the renderer of edits of a review, by their kind."""
    return category_renderer("kind", EDITS)


def category_renderer(
    column: str,
    colours: Mapping[str, Rgb] | Mapping[int, Rgb],
    *,
    are_areas: bool = False,
    labels: Mapping[int, str] | None = None,
) -> ET.Element:
    """Return the renderer of lines or areas whose colour follows the value in a column.

    Args:
        labels: what numbers mean, for the legend; None for column and number.
    """
    symbol = _area if are_areas else _line
    is_text = all(isinstance(value, str) for value in colours)
    names = {str(value): text for value, text in (labels or {}).items()}
    symbols = {
        (text, names.get(text, text if is_text else f"{column} {text}")): symbol(colour)
        for text, colour in ((str(value), colour) for value, colour in colours.items())
    }
    renderer = _renderer("categorizedSymbol", list(symbols.values()), attr=column)
    categories = ET.SubElement(renderer, "categories")
    for number, (value, label) in enumerate(symbols):
        facts = {"value": value, "type": "string" if is_text else "long", "label": label}
        ET.SubElement(categories, "category", facts, symbol=str(number), render="true")
    return renderer


def area_renderer(colour: Rgb) -> ET.Element:
    """Return the renderer of areas of one colour, through which the map below is seen."""
    return _renderer("singleSymbol", [_area(colour)])


def node_renderer() -> ET.Element:
    """Return the renderer of nodes, which are small."""
    symbol = ET.Element("symbol", type="marker", alpha="1")
    layer = ET.SubElement(symbol, "layer", {"class": "SimpleMarker", "enabled": "1", "pass": "0"})
    looks = {"name": "circle", "color": _rgba(_DARK), "outline_color": _rgba(_DARK)}
    looks |= {"outline_width": "0.2", "size": "0.8", "size_unit": "MM"}
    layer.append(_options(looks))
    return _renderer("singleSymbol", [symbol])


def _label(low: int, high: int) -> str:
    return shown_name(f"above {low} km/h" if high == _LIMITS_KPH[-1] else f"{low} to {high} km/h")


def _renderer(kind: str, symbols: list[ET.Element], **facts: str) -> ET.Element:
    """Return a renderer whose symbols are numbered from 0; all lower levels are drawn first."""
    renderer = ET.Element("renderer-v2", {"type": kind, "symbollevels": "1", **facts})
    group = ET.SubElement(renderer, "symbols")
    for number, symbol in enumerate(symbols):
        symbol.set("name", str(number))
        group.append(symbol)
    return renderer


def _line(colour: Rgb, *, is_dashed: bool = False, width_mm: float = _WIDTH_MM) -> ET.Element:
    """Return a line of a colour over a dark one."""
    symbol = ET.Element("symbol", type="line", alpha="1")
    for level, (paint, drawn_mm) in enumerate(((_DARK, width_mm * 1.5), (colour, width_mm))):
        layer = ET.SubElement(
            symbol, "layer", {"class": "SimpleLine", "enabled": "1", "pass": str(level)}
        )
        drawn = {"line_color": _rgba(paint), "line_width": f"{drawn_mm:g}", "line_width_unit": "MM"}
        layer.append(_options({**drawn, "capstyle": "round", "joinstyle": "round"}))
        if is_dashed and level:
            layer.append(_dashes())
    return symbol


def _area(colour: Rgb) -> ET.Element:
    """Return an area through which the map below is seen."""
    symbol = ET.Element("symbol", type="fill", alpha="0.5")
    layer = ET.SubElement(symbol, "layer", {"class": "SimpleFill", "enabled": "1", "pass": "0"})
    layer.append(_options({"color": _rgba(colour), "outline_color": _rgba(_DARK)}))
    return symbol


def _options(values: Mapping[str, str]) -> ET.Element:
    options = ET.Element("Option", type="Map")
    for name, value in values.items():
        ET.SubElement(options, "Option", name=name, value=value, type="QString")
    return options


def _dashes() -> ET.Element:
    """Return the property by which QGIS chooses the style of a line for each edge."""
    properties = ET.Element("data_defined_properties")
    collection = ET.SubElement(properties, "Option", type="Map")
    ET.SubElement(collection, "Option", name="name", value="", type="QString")
    group = ET.SubElement(collection, "Option", name="properties", type="Map")
    style = ET.SubElement(group, "Option", name="outlineStyle", type="Map")
    ET.SubElement(style, "Option", name="active", value="true", type="bool")
    ET.SubElement(style, "Option", name="expression", value=_DASH_IF_INFERRED, type="QString")
    ET.SubElement(style, "Option", name="type", value=str(_EXPRESSION), type="int")
    ET.SubElement(collection, "Option", name="type", value="collection", type="QString")
    return properties


def _rgba(colour: Rgb) -> str:
    return ",".join(map(str, (*colour, 255)))
