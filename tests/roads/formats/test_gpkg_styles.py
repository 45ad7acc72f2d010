import json
import re
from importlib.resources import files
from xml.etree import ElementTree as ET

from roadseg.roads.colours import CONFIDENCE, CONFIDENCE_LIMITS
from roadseg.roads.formats.gpkg_styles import edge_renderer, layer_styles, node_renderer
from roadseg.roads.speeds import DEFAULT_BINS, KPH_PER_MPH

VALUES = {"speed_kph": [32.0, 48.0], "inferred": [False, True], "confidence": [0.4, 0.95]}


def style_table(columns, **others):
    edges = {name: (VALUES | others)[name] for name in columns}
    return layer_styles({"nodes": node_renderer(), "edges": edge_renderer(edges)})


def qml(layer, *columns, **others):
    styles = style_table(columns, **others).set_index("f_table_name")
    return ET.fromstring(styles.loc[layer, "styleQML"])  # noqa: S314 - our own


def test_columns_with_a_unit_are_shown_with_it():
    aliases = {
        each.get("field"): each.get("name") for each in qml("edges", "speed_kph").iter("alias")
    }
    assert aliases["travel_time"] == "travel time, s"


def ranges(*columns, **others):
    found = qml("edges", *(columns or ["speed_kph"]), **others).iter("range")
    return [(float(part.get("lower")), float(part.get("upper"))) for part in found]


def column(*columns, **others):
    return qml("edges", *columns, **others).find("renderer-v2").get("attr")


def dashes(*columns):
    return [
        option.get("value")
        for option in qml("edges", *columns).iter("Option")
        if option.get("name") == "expression"
    ]


def test_every_default_speed_bin_has_a_class_and_a_colour_of_its_own():
    kph = [mph * KPH_PER_MPH for mph in DEFAULT_BINS.speeds_mph]
    classes = [next(n for n, (low, high) in enumerate(ranges()) if low < s <= high) for s in kph]
    assert classes == list(range(7))
    colours = [
        option.get("value")
        for option in qml("edges", "speed_kph").iter("Option")
        if option.get("name") == "line_color"
    ]
    assert len(set(colours)) == 7 + 1  # the dark line below


def test_every_class_names_a_symbol_that_is_there():
    style = qml("edges", "speed_kph", "inferred")
    symbols = {symbol.get("name") for symbol in style.iter("symbol")}
    used = [part.get("symbol") for tag in ("range", "category") for part in style.iter(tag)]
    assert used
    assert set(used) == symbols


def test_roads_of_one_speed_are_coloured_by_their_confidence():
    same = {"speed_kph": [40.0, 40.0]}
    assert column("speed_kph", "confidence", **same) == "confidence"
    assert ranges("speed_kph", "confidence", **same) == [
        *((0, 0.5), (0.5, 0.7), (0.7, 0.8), (0.8, 0.9), (0.9, 1))
    ]
    assert column("speed_kph", "confidence") == column("speed_kph", **same) == "speed_kph"


def test_the_colours_of_confidence_are_those_of_the_report():
    script = (files("roadseg") / "report/assets/colours.js").read_text(encoding="utf-8")
    ramp, limits = (
        json.loads(re.search(rf"const {name} = (\[.*?\]);", script)[1])
        for name in ("CERTAINTY_RAMP", "CERTAINTY_LIMITS")
    )
    assert ramp == [f"#{red:02x}{green:02x}{blue:02x}" for red, green, blue in CONFIDENCE]
    assert limits == list(CONFIDENCE_LIMITS)


def test_links_across_gaps_are_dashed_where_they_are_known():
    found = dashes("speed_kph", "inferred")
    assert set(found) == {"if(\"inferred\" = 1, 'dash', 'solid')"}
    assert len(found) == 7
    assert dashes("speed_kph") == []


def test_nodes_and_edges_without_speed_have_one_symbol():
    for layer in ("nodes", "edges"):
        renderer = qml(layer).find("renderer-v2")
        assert renderer.get("type") == "singleSymbol"
        assert len(renderer.findall("symbols/symbol")) == 1
