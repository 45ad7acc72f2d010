"""Search on the report's map: scenes, places as people paste them, edges."""

import pytest

from roadseg.roads.formats.files import read_gpkg


def hits(page, text):
    page.fill("#search", text)
    return page.locator("#hits").inner_text().splitlines()


def test_a_scene_is_found_by_a_part_of_its_name(same_page):
    assert hits(same_page, "CITY_") == ["Scene city_0", "Scene city_2"]


def test_enter_shows_the_first_hit(page):
    hits(page, "city_2")
    page.keyboard.press("Enter")
    assert page.input_value("#scene") == "s1"


def test_hits_are_reached_by_arrows(page):
    hits(page, "city")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.input_value("#scene") == "s1"


@pytest.mark.parametrize(
    "text",
    [
        "{lat:.6f}, {lon:.6f}",
        "{lon:.6f}, {lat:.6f}",
        "{lat:.6f} {lon:.6f}",
        "({lat:.6f}; {lon:.6f})",
        "geo:{lat:.6f},{lon:.6f}",
        "lon {lon:.6f}, lat {lat:.6f}",
        "Latitude: {lat:.6f} Longitude: {lon:.6f}",
        "{lat:.6f}° N, {west:.6f}° W",
        "{west:.6f}W {lat:.6f}N",
        "POINT({lon:.6f} {lat:.6f})",
        "{lat:.6f}, \N{MINUS SIGN}{west:.6f}",
    ],
)
def test_coordinates_show_their_place(same_page, shown_run, middle, text):
    same_page.select_option("#scene", "s0")
    lon, lat = middle(read_gpkg(shown_run.graph("city_2")), 0)
    (hit,) = hits(same_page, text.format(lon=lon, lat=lat, west=-lon))
    assert hit == f"Place: lat {lat:.5f}, lon {lon:.5f}"
    same_page.keyboard.press("Enter")
    found = same_page.evaluate("roadseg.map.degrees([roadseg.map.view.x, roadseg.map.view.y])")
    assert found == pytest.approx([lon, lat], abs=2e-6)


def test_degrees_may_have_minutes_and_seconds(same_page):
    told = same_page.evaluate("roadseg.readPlaces(`32°58'48.0\"N 117°00'36.0\"W`)")
    assert told == [pytest.approx([-117.01, 32.98])]


@pytest.mark.parametrize("text", ["12", "1, 2, 3", "city 12, 3", "91, 181", "1e3, 2", ""])
def test_what_is_no_place_is_taken_for_none(same_page, text):
    assert same_page.evaluate("text => roadseg.readPlaces(text)", text) == []


def test_coordinates_elsewhere_are_told_to_be_so(same_page):
    assert hits(same_page, "48.2, 16.37") == ["These coordinates are not on the map."]


@pytest.mark.parametrize("text", ["1", "edge 1", "city_0 1"])
def test_an_edge_is_found_by_its_number(page, shown_run, text):
    assert hits(page, text)[0] == "Edge 1 of city_0"
    page.keyboard.press("Enter")
    length = read_gpkg(shown_run.graph("city_0")).length_m[1]
    assert "edge 1" in page.locator("#panel").inner_text()
    assert f"{length:.1f} m" in page.locator("#panel").inner_text()


def test_what_is_not_found_is_told_with_what_can_be(same_page):
    assert hits(same_page, "nowhere")[0].startswith("Nothing found. Search for a scene")


def test_escape_ends_a_search(page):
    hits(page, "city")
    page.keyboard.press("Escape")
    assert page.input_value("#search") == ""
    assert page.locator("#hits").inner_text() == ""
