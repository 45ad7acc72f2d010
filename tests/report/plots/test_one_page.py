"""The page for a client: nothing is cut off, nothing overlaps, whatever it has to show."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import shapely
from pyproj import CRS

from roadseg.report.plots import one_page
from roadseg.report.plots.one_page import MapPicture, OnePage, class_colour, draw_one_page
from roadseg.roads.metrics.road_lengths import RoadLengths

UTM = CRS.from_epsg(32611)
CLASSES = [
    "motorway",
    "trunk",
    "primary",
    "secondary",
    "tertiary",
    "residential",
    "unclassified",
    "service",
    "road",
]
LONG = "a very long name that no column of any table can hold, however it is set"


def picture(width_m=1000, height_m=800, **polygons):
    line = shapely.LineString([(0, 0), (width_m, height_m)])
    return MapPicture(
        UTM,
        (0, 0, width_m, height_m),
        np.full((8, 10, 4), 120, dtype=np.uint8),
        np.array([line, line], dtype=object),
        ["primary", "road"],
        polygons,
    )


PAGE = OnePage(
    title="Springfield",
    subtitle="Road network from 2 images",
    picture=picture(),
    figures=[("Roads", "4.8", "km"), ("Area", "0.30", "km²"), ("Confidence", "0.99", "")],
    lengths=RoadLengths({"primary": 2.5, "road": 1.0}),
    notes=["The accuracy was not measured."],
    credits=["Images: © Somebody"],
)
FULL = replace(
    PAGE,
    title=10 * LONG,
    subtitle=5 * LONG,
    picture=picture(a=shapely.MultiPolygon([shapely.box(0, 0, 500, 800)])),
    figures=[
        *(("Roads", "12345.6", "km"), ("Area", "12345.67", "km²"), ("Images", "12345", "")),
        *((name, "0.99", "") for name in ("Confidence", "Correctness", "Completeness", "APLS")),
    ],
    lengths=RoadLengths(
        dict.fromkeys(CLASSES, 1234.5),
        {f"{LONG} {row}": dict.fromkeys(CLASSES, 123.4) for row in range(14)},
    ),
    notes=[3 * f"{LONG} "] * 4,
    credits=[9 * f"{LONG} "] * 3,
)
NO_ROADS = replace(
    PAGE,
    picture=replace(picture(), lines=np.zeros(0, dtype=object), classes=[]),
    lengths=RoadLengths(),
)


@pytest.fixture
def texts_of(tmp_path, monkeypatch):
    """Give the function that draws a page, and returns its texts with their boxes in inches."""

    def drawn(page):
        figures = []
        monkeypatch.setattr(one_page, "save_figure", lambda figure, _: figures.append(figure))
        draw_one_page(tmp_path / "page.pdf", page)
        (figure,) = figures
        figure.set_dpi(1000)  # So fine that widths are those of a PDF, which knows no pixels.
        (panel,) = figure.axes
        extents = {
            text: text.get_window_extent().transformed(figure.dpi_scale_trans.inverted())
            for text in figure.texts
        }
        boxes = [(text.get_text(), shapely.box(*box.extents)) for text, box in extents.items()]
        place = panel.get_window_extent().transformed(figure.dpi_scale_trans.inverted())
        return [*boxes, ("the map", shapely.box(*place.extents))]

    return drawn


@pytest.mark.parametrize(
    "page",
    [
        PAGE,
        FULL,
        NO_ROADS,
        replace(PAGE, picture=picture(9000, 90)),
        replace(PAGE, picture=picture(90, 9000)),
        replace(FULL, lengths=RoadLengths(FULL.lengths.classes)),
    ],
    ids=["usual", "full", "no roads", "wide", "high", "classes"],
)
def test_nothing_is_cut_off_and_nothing_overlaps(texts_of, page):
    texts = texts_of(page)
    sheet = shapely.box(0.5, 0.5, 8.27 - 0.5, 11.69 - 0.5)
    assert [text for text, box in texts if not box.within(sheet)] == []
    pairs = itertools.combinations(texts, 2)
    assert [(a, b) for (a, one), (b, other) in pairs if one.intersection(other).area > 0.004] == []
    ((_, map_box),) = [each for each in texts if each[0] == "the map"]
    assert map_box.bounds[3] - map_box.bounds[1] > 2.9


def test_classes_and_areas_beyond_the_room_are_added_up(texts_of):
    said = [text for text, _ in texts_of(FULL)]
    assert {"Other", "Residential", "Whole map"} <= set(said)
    assert "Roads by area, km (the largest 10 of 14)" in said
    assert said.count("370.20") == 10  # three classes
    assert said.count("1110.60") == 10  # all nine


def test_roads_of_one_class_have_no_table(texts_of):
    said = [text for text, _ in texts_of(replace(PAGE, lengths=RoadLengths({"road": 2.0})))]
    assert not [text for text in said if text.startswith("Roads by")]


def test_all_classes_have_a_colour_of_their_own():
    shown = [name for name in CLASSES if name != "service"]
    assert len({class_colour(name) for name in shown}) == len(shown)


def test_it_is_one_page_of_a4_with_text_as_text(tmp_path):
    draw_one_page(tmp_path / "page.pdf", PAGE)
    content = (tmp_path / "page.pdf").read_bytes()
    assert content.startswith(b"%PDF")
    assert content.count(b"/Type /Page ") == 1
    assert b"/MediaBox [ 0 0 595.44 841.68 ]" in content
    assert b"/Subtype /Type0" in content or b"/FontFile2" in content
