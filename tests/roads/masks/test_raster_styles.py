"""A raster has a style beside it that QGIS finds by its name."""

from xml.etree import ElementTree as ET

from roadseg.roads.colours import as_hex, bin_colours
from roadseg.roads.masks.raster_styles import mask_renderer, probability_renderer, write_style
from roadseg.roads.speeds import DEFAULT_BINS, SpeedBins

TWO = SpeedBins((50.0,), "km/h")


def test_a_style_lies_beside_its_raster_under_the_same_name(tmp_path):
    write_style(tmp_path / "city.tif", mask_renderer(TWO))
    text = (tmp_path / "city.qml").read_text(encoding="utf-8")
    assert text.startswith("<!DOCTYPE qgis ")
    root = ET.fromstring(text)  # noqa: S314 - our own
    assert [renderer.get("type") for renderer in root.findall("pipe/rasterrenderer")] == [
        "paletted"
    ]


def test_a_mask_has_the_names_and_colours_of_its_bins_and_no_background():
    entries = mask_renderer(TWO).findall("colorPalette/paletteEntry")
    assert [entry.get("value") for entry in entries] == ["0", "1", "2"]
    assert [entry.get("label") for entry in entries] == ["background", *TWO.names]
    assert [entry.get("alpha") for entry in entries] == ["0", "255", "255"]
    assert [entry.get("color") for entry in entries[1:]] == [*map(as_hex, bin_colours(TWO))]


def test_probabilities_show_the_last_band_more_opaque_the_more_certain():
    renderer = probability_renderer(DEFAULT_BINS)
    assert renderer.get("band") == "8"
    items = renderer.findall("rastershader/colorrampshader/item")
    alphas = [int(item.get("alpha")) for item in items]
    values = [float(item.get("value")) for item in items]
    assert (alphas[0], alphas[-1], values[0], values[-1]) == (0, 255, 0, 255)
    assert alphas == sorted(alphas)
    assert values == sorted(values)


def test_the_legend_of_probabilities_is_in_percent_instead_of_bytes():
    legend = probability_renderer(DEFAULT_BINS).find(".//rampLegendSettings")
    assert [legend.get("minimumLabel"), legend.get("maximumLabel")] == ["0%", "100%"]
