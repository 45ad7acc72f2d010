"""Downloads of the report: roads as GeoJSON, the map as a picture."""

import json

import numpy as np
import pytest
from PIL import Image

from roadseg.roads.formats.files import read_gpkg

FOOT_PX = 34


@pytest.fixture
def save(page, tmp_path):
    """Give the function that presses a button of Download and returns the file."""

    def press(button):
        page.click("summary:has-text('Download')")
        with page.expect_download() as download:
            page.click(button)
        path = tmp_path / download.value.suggested_filename
        download.value.save_as(path)
        return path

    return press


def pixels(path, mode="L"):
    with Image.open(path) as picture:
        return np.asarray(picture.convert(mode))


def test_the_graph_is_downloaded_as_geojson_in_degrees(save, shown_run):
    saved = json.loads(save("#save").read_text())
    known = [read_gpkg(shown_run.graph(name)) for name in ("city_0", "city_2")]
    assert len(saved["features"]) == sum(len(graph.lines) for graph in known)
    lon, lat = saved["features"][0]["geometry"]["coordinates"][0]
    assert (-180 <= lon <= 180, 30 < lat < 40) == (True, True)
    assert saved["features"][0]["properties"]["length_m"] > 0


def test_the_picture_is_the_map_with_a_strip_below_it(save, page):
    box = page.locator("#view").bounding_box()
    assert pixels(save("#picture")).shape == (round(box["height"]) + FOOT_PX, round(box["width"]))


def test_the_picture_has_a_scale_bar_and_credits(save, page):
    page.evaluate("roadseg.map.credits = []")
    without = pixels(save("#picture"))[-FOOT_PX:]
    page.evaluate("roadseg.map.credits = ['Labels: © OpenStreetMap contributors']")
    credited = pixels(save("#picture"))[-FOOT_PX:]
    left, right = np.split(without, 2, axis=1)
    assert left.min() < 100  # ink of the scale bar on the light strip
    assert (credited[:, right.shape[1] :] != right).any()
    assert (credited[:, :200] == left[:, :200]).all()


def test_the_picture_has_the_legend_of_what_is_shown(save, page):
    def corner():
        return pixels(save("#picture"), "RGB")[-200:-FOOT_PX, :230]

    with_speeds = corner()
    page.click("[data-layer=graph]")
    assert (corner() != with_speeds).any()
