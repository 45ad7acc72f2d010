"""The report on a phone: the map first, and what is told of a road above it."""

import pytest

from roadseg.roads.formats.files import read_gpkg

HEIGHT = 844


@pytest.fixture(scope="module")
def screen(browser):
    """Open the browser of a phone."""
    context = browser.new_context(
        viewport={"width": 390, "height": HEIGHT}, has_touch=True, is_mobile=True
    )
    yield context.new_page()
    context.close()


@pytest.fixture
def phone(screen, shown_run):
    """Open the report on a phone."""
    screen.goto(shown_run.report.as_uri())
    return screen


def test_most_of_the_screen_is_the_map(phone):
    box = phone.locator("#view").bounding_box()
    assert box["height"] > 0.6 * HEIGHT
    assert box["y"] + box["height"] <= HEIGHT


def test_tools_take_one_row(phone):
    assert phone.locator(".tools").bounding_box()["height"] < 0.1 * HEIGHT


def test_the_page_does_not_scroll_sideways(phone):
    assert phone.evaluate("document.documentElement.scrollWidth") == 390


def test_a_tapped_road_is_told_over_the_map(phone, shown_run, middle, position):
    place = position(phone, middle(read_gpkg(shown_run.graph("city_0")), 0))
    phone.locator("#ground").tap(position=place)
    panel, view = (phone.locator(each).bounding_box() for each in ("#panel", "#view"))
    assert panel["y"] + panel["height"] <= HEIGHT
    assert panel["y"] > view["y"] + 0.4 * view["height"]
    phone.tap("#panel button")
    assert phone.locator("#panel").bounding_box()["y"] >= view["y"] + view["height"]


@pytest.mark.parametrize("menu", ["Filter", "Display", "Download"])
def test_menus_open_at_the_foot_of_the_screen(phone, menu):
    summary = phone.locator(f"summary:has-text('{menu}')")
    summary.tap()
    box = summary.locator("xpath=following-sibling::div").bounding_box()
    assert (box["x"], box["width"], box["y"] + box["height"]) == (0, 390, HEIGHT)


def test_the_legend_is_folded_until_it_is_tapped(phone):
    legend = phone.locator("#legend")
    assert not legend.is_visible()
    phone.tap("#legend-box summary")
    assert legend.is_visible()
