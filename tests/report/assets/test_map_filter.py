"""Filters of the report's roads: what is drawn, counted, told and saved."""

import json

import pytest

ALL = "roadseg.map.graphsHere.reduce((sum, graph) => sum + graph.lines.count, 0)"
FAST = """roadseg.map.graphsHere.flatMap(graph =>
    graph.columns.speed_kph.filter(kph => kph > 30 * 1.609344)).length"""
SLOW = "[data-filter='speed up to']"


@pytest.fixture
def slow(page):
    """Show the roads up to 48 km/h of all."""
    page.click("#filter-name")
    page.select_option(SLOW, label="32 to 48 km/h")
    return page


def test_a_filter_by_speed_counts_what_it_shows(slow):
    shown, total = slow.evaluate(f"[{ALL} - {FAST}, {ALL}]")
    assert 0 < shown < total
    assert f"{shown} of {total} edges are shown" in slow.locator("#filter-count").inner_text()
    assert slow.locator("#filter-name").inner_text() == f"Filter: {shown} of {total}"
    assert f"on {shown} of {total} edges" in slow.locator("#told").inner_text()


def test_what_a_filter_leaves_out_is_not_drawn(page, drawn):
    _, before = drawn(page)
    page.click("#filter-name")
    page.select_option(SLOW, label="32 to 48 km/h")
    assert drawn(page)[1] != before


def test_what_a_filter_leaves_out_cannot_be_picked(slow):
    found = slow.evaluate(
        """() => {
            const graph = roadseg.map.graphsHere[0];
            const row = graph.columns.speed_kph.findIndex(kph => kph > 30 * 1.609344);
            const [place] = graph.lines.part(row, 0.5, 0.5);
            return roadseg.map.roadAt(roadseg.map.view.toScreen(place), 1);
        }"""
    )
    assert found is None


def test_the_download_saves_what_a_filter_shows(slow, tmp_path):
    slow.click("summary:has-text('Download')")
    with slow.expect_download() as download:
        slow.click("#save")
    download.value.save_as(tmp_path / "saved.geojson")
    features = json.loads((tmp_path / "saved.geojson").read_text())["features"]
    speeds = [feature["properties"]["speed_kph"] for feature in features]
    assert len(speeds) == slow.evaluate(f"{ALL} - {FAST}")
    assert max(speeds) <= 30 * 1.609344


def test_an_end_that_passes_the_other_takes_it_along(slow):
    slow.select_option("[data-filter='speed from']", label="64 to 80 km/h")
    assert slow.locator(SLOW).evaluate("field => field.selectedOptions[0].text") == "64 to 80 km/h"


def test_roads_are_all_shown_again(slow):
    slow.click("text=Show all roads")
    assert slow.locator("#filter-name").inner_text() == "Filter"


def test_a_filter_by_certainty_leaves_out_what_is_sure(page):
    page.click("#filter-name")
    page.select_option("[data-filter='certainty up to']", label="80 to 90 %")
    count = page.evaluate(
        """roadseg.map.graphsHere.flatMap(graph => graph.lines.rows.filter(row =>
            (graph.get("confidence", row) ?? graph.get("probability", row)) < 0.9)).length"""
    )
    assert page.locator("#filter-count").inner_text().startswith(f"{count} of ")


def test_routes_use_roads_that_a_filter_leaves_out(slow):
    ends = slow.evaluate(
        """roadseg.map.graphs[0].lines.rows.slice(0, 2).map(row =>
            roadseg.map.degrees(roadseg.map.graphs[0].lines.part(row, 0.5, 0.5)[0]))"""
    )
    found = slow.evaluate("ends => roadseg.route(...ends)", ends)
    slow.click("text=Show all roads")
    assert found == slow.evaluate("ends => roadseg.route(...ends)", ends)
