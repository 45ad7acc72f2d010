"""Raster styles: how QGIS shows masks and probabilities, in a .qml file beside each raster."""

from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np

from roadseg.raster.windows import CERTAIN
from roadseg.roads.colours import PROBABILITIES, Rgb, as_hex, bin_colours
from roadseg.roads.masks.burning import BACKGROUND
from roadseg.roads.speeds import SpeedBins
from roadseg.system.files import atomic_write

QGIS_VERSION = "3.22.0"  # The version of QGIS with which all styles and projects were tried.

_DOCTYPE = "<!DOCTYPE qgis PUBLIC 'http://mrcc.com/qgis.dtd' 'SYSTEM'>\n"
_OPAQUE = 255
_GROUND: Rgb = (0, 0, 0)


def mask_renderer(bins: SpeedBins) -> ET.Element:
    """Return the renderer of a mask: named speed bins, and a transparent background.

    Source: the layer styles that QGIS saves.

    Args:
        bins: what the values of the mask stand for.
    """
    renderer = _renderer("paletted", band=1)
    palette = ET.SubElement(renderer, "colorPalette")
    _entry(palette, BACKGROUND, _GROUND, alpha=0, label="background")
    for number, (colour, name) in enumerate(
        zip(bin_colours(bins), bins.shown_names, strict=True), 1
    ):
        _entry(palette, number, colour, alpha=_OPAQUE, label=name)
    return renderer


def probability_renderer(bins: SpeedBins) -> ET.Element:
    """Return the renderer of a probability raster: any road, the more certain the more opaque."""
    band = len(bins.band_names)
    limits = {"classificationMin": "0", "classificationMax": str(CERTAIN)}
    renderer = _renderer("singlebandpseudocolor", band=band, **limits)
    shader = ET.SubElement(renderer, "rastershader")
    ramp = {"colorRampType": "INTERPOLATED", "classificationMode": "1", "clip": "0"}
    ramp |= {"minimumValue": "0", "maximumValue": str(CERTAIN)}
    ramp_shader = ET.SubElement(shader, "colorrampshader", ramp)
    for share, colour in zip(np.linspace(0, 1, len(PROBABILITIES)), PROBABILITIES, strict=True):
        item = {"value": f"{share * CERTAIN:g}", "label": f"{share:.0%}", "color": as_hex(colour)}
        ET.SubElement(ramp_shader, "item", item, alpha=str(round(share * _OPAQUE)))
    ET.SubElement(ramp_shader, "rampLegendSettings", minimumLabel="0%", maximumLabel="100%")
    return renderer


def write_style(raster: Path, renderer: ET.Element) -> None:
    """Write the style of a raster beside it, where QGIS looks for it.

    Raises:
        OutputError: if it cannot be written.
    """
    pipe = ET.Element("pipe")
    pipe.append(renderer)
    with atomic_write(raster.with_suffix(".qml")) as partial:
        partial.write_text(style_text(pipe), encoding="utf-8")


def style_text(style: ET.Element, *fields: ET.Element) -> str:
    """Return a style, and what it says of the columns, as the text of a .qml file."""
    categories = "Symbology|Fields" if fields else "Symbology"
    root = ET.Element("qgis", version=QGIS_VERSION, styleCategories=categories)
    root.extend([style, *fields])
    return as_text(root)


def as_text(root: ET.Element) -> str:
    """Return XML of QGIS with a line for each element."""
    ET.indent(root, " ")
    return f"{_DOCTYPE}{ET.tostring(root, encoding='unicode')}\n"


def _renderer(kind: str, *, band: int, **facts: str) -> ET.Element:
    """Return a renderer of one band, whose no-data pixels are transparent."""
    given = {"type": kind, "band": str(band), "opacity": "1", "alphaBand": "-1", "nodataColor": ""}
    renderer = ET.Element("rasterrenderer", given | facts)
    ET.SubElement(renderer, "rasterTransparency")
    return renderer


def _entry(palette: ET.Element, value: int, colour: Rgb, *, alpha: int, label: str) -> None:
    entry = {"value": str(value), "color": as_hex(colour), "alpha": str(alpha), "label": label}
    ET.SubElement(palette, "paletteEntry", entry)
