"""The address of the report: it says what the map shows, and shows what it says."""

import pytest

STATE = """() => {
    const { map } = roadseg;
    const { view, swipe, filter, trip } = map;
    return {
        scene: map.scene, middle: map.degrees([view.x, view.y]).map(v => v.toFixed(5)),
        scale: view.scale.toPrecision(3), shown: map.shown, mode: map.mode.key,
        opacity: map.opacity, layers: swipe.layers, filter: filter.key, ends: trip.ends.length,
    };
}"""
AT_REST = "() => { roadseg.map.address.keep(); return location.hash; }"


def change_all(page):
    """Change all that the address keeps."""
    page.select_option("#scene", "s1")
    page.click("#closer")
    page.click("[data-layer=reference]")
    page.select_option("#colour", "certainty")
    page.evaluate(
        """() => {
            const { map } = roadseg;
            map.filter.set(map.modes[0], 1, 4);
            map.filter.set(map.modes[1], 0, 3);
            map.opacity.image = 0.4;
            map.swipe.set(["reference", "graph"], 0.25);
            const [graph] = map.graphsHere;
            map.trip.show([0, 1].map(row => graph.lines.part(row, 0.5, 0.5)[0]));
        }"""
    )


def test_a_copied_address_shows_the_same(page, open_page, shown_run):
    change_all(page)
    before, fragment = page.evaluate(STATE), page.evaluate(AT_REST)
    assert open_page(shown_run, fragment).evaluate(STATE) == before


def test_an_address_shows_its_route(page, open_page, shown_run):
    change_all(page)
    seconds = page.locator("#route-time").inner_text()
    again = open_page(shown_run, page.evaluate(AT_REST))
    assert again.locator("#route-time").inner_text() == seconds


def test_opening_the_page_leaves_its_address_alone(page):
    page.wait_for_timeout(400)
    assert page.evaluate("location.hash") == ""


def test_the_browser_goes_back_and_forward_over_scenes(page):
    for scene in ("s0", "s1"):
        page.select_option("#scene", scene)
        page.evaluate(AT_REST)
    seen = []
    for go in ("go_back", "go_back", "go_forward"):
        getattr(page, go)()
        page.wait_for_timeout(100)
        seen.append(page.input_value("#scene"))
    assert seen == ["s0", "a0", "s0"]


def test_moving_the_map_is_no_step_to_go_back_over(page):
    before = page.evaluate("history.length")
    page.locator("#ground").focus()
    page.keyboard.press("ArrowLeft")
    fragment = page.evaluate(AT_REST)
    assert fragment.startswith("#area=1&at=")
    assert page.evaluate("history.length") == before


@pytest.fixture(scope="module")
def at_first(tab, shown_run):
    """Return the state of the page before anybody has changed it."""
    tab[0].goto(shown_run.report.as_uri())
    return tab[0].evaluate(STATE)


@pytest.mark.parametrize(
    "fragment",
    [
        "#nowhere",
        "#scene=%E0%A4%A",
        "#area=7&at=1,2,3",
        "#area=0",
        "#at=NaN,Infinity,0",
        "#scene=city_9&colour=red&speed=5-1&certainty=x&opacity=image:7,sea:1",
        "#area=1&layers=sea,sky&swipe=image,image,0.5",
        "#area=1&swipe=__proto__,graph,0.5&opacity=toString:0.5&colour=__proto__",
        "#area=1&swipe=image,sea,0.5&from=1,1&to=2,2",
    ],
)
def test_a_wrong_address_is_as_none(tab, at_first, open_page, shown_run, fragment):
    before, lines = at_first, len(tab[1])
    assert open_page(shown_run, fragment).evaluate(STATE) == before
    assert tab[1][lines:] == []


def test_an_address_may_show_no_layer_at_all(open_page, shown_run):
    assert not any(open_page(shown_run, "#area=1&layers=").evaluate(STATE)["shown"].values())


def test_headings_keep_what_the_map_shows(page):
    page.select_option("#scene", "s1")
    page.click("#contents >> text=Metrics")
    page.wait_for_timeout(100)
    assert page.input_value("#scene") == "s1"


def test_the_link_is_copied(browser, shown_run):
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.goto(shown_run.report.as_uri())
    page.select_option("#scene", "s1")
    page.click("#link")
    page.locator("#link", has_text="Copied").wait_for()
    assert "#scene=city_2&at=" in page.evaluate("navigator.clipboard.readText()")
    context.close()


def test_a_link_that_cannot_be_copied_is_shown(page):
    page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new Error()); }")
    page.click("#link")
    assert page.locator("#panel pre").inner_text() == page.evaluate("location.href")
