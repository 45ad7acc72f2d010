"""The page in a browser: by keyboard alone and by touch, without a finding of axe-core."""

import pytest

SMALL = """() => [...document.querySelectorAll("button, input, summary")]
    .filter((each) => each.offsetParent)
    .map((each) => [each.id || each.textContent, each.getBoundingClientRect()])
    .filter(([, box]) => box.width < 44 || box.height < 44).map(([name]) => name)"""
READY = """async () => {
    while (!window.review) await new Promise(requestAnimationFrame);
    await review.busy;
}"""
DRAWN_WIDTH = """(count) => {
    const { lines, strokes } = review.here.roads.base;
    const told = { step: 1, sizes: Array(count).fill(2), xy: Array(4 * count).fill(1) };
    const canvas = { width: 100, height: 100 };
    const context = { canvas, stroke() { this.width = this.lineWidth; } };
    for (const name of ["save", "restore", "setTransform", "setLineDash"]) context[name] = () => {};
    const view = { width: 100, height: 100, x: 0, y: 0, scale: 1, sees: () => true };
    new strokes.constructor(new lines.constructor(told)).draw(context, view, [{ colour: "" }], 1.6);
    return context.width;
}"""
ALL = """() => [...review.here.roads.byId.values()].sort((a, b) => a.id - b.id)
    .map((road) => [road.id, road.edited, road.worth, review.here.roads.boxOf(road)])"""
LOOK = "([x, y]) => { review.view.look([x, y], 3); review.draw(); }"


@pytest.fixture(scope="module")
def tab(browser):
    """Give a function that returns a tab: one for each set of options, as a new one takes long."""
    tabs = {}

    def tab(width=1280, **options):
        key = width, *options.items()
        if key not in tabs:
            size = {"width": width, "height": 844}
            tabs[key] = browser.new_context(viewport=size, **options).new_page()
        return tabs[key]

    yield tab
    for one in tabs.values():
        one.context.close()


@pytest.fixture
def opened(tab, server):
    """Give a function that opens the page."""

    def page(**options):
        one = tab(**options)
        one.goto(server.address)
        one.evaluate(READY)
        return one

    return page


@pytest.fixture
def page(opened):
    return opened()


def press(page, *keys):
    for key in keys:
        page.keyboard.press(key)
    page.evaluate("review.busy")


def done(server):
    """Return the kinds of all edits in the file."""
    edits, _ = server.session._file.read(server.session.sheets[0].area.crs)  # noqa: SLF001
    return [edit.kind for edit in edits]


def test_the_page_begins_with_the_road_at_which_a_look_is_worth_most(tab, opened):
    said = []
    tab().on("console", lambda message: said.append(message.text))
    tab().on("pageerror", lambda error: said.append(str(error)))
    page = opened()
    assert page.evaluate("review.current.id") == 4
    assert page.locator("#road-title").inner_text() == "Is this a road?"
    assert page.locator("#road-facts").inner_text().startswith("20 % certain · 40.0 m")
    assert said == []


def test_roads_are_decided_by_keys_one_after_the_other(page, server):
    press(page, "r", "a", "a")
    assert done(server) == ["reject", "accept", "accept"]
    assert page.evaluate("review.sheets[0].roads.byId.get(4).edited") == "rejected"
    assert page.locator("#progress-text").inner_text().startswith("3 of 5 roads decided")


def test_keys_undo_and_redo(page, server):
    press(page, "r", "u")
    assert done(server) == []
    press(page, "Control+Shift+Z")
    assert done(server) == ["reject"]
    press(page, "Control+z", "y")
    assert done(server) == ["reject"]


def test_a_missing_road_is_drawn_along_the_probabilities_by_keys(page, server):
    page.evaluate(LOOK, [121, 150])
    press(page, "d", "Enter")
    page.evaluate(LOOK, [180, 179])
    press(page, "Enter")
    assert done(server) == ["draw"]
    length = page.evaluate("[...review.sheets[0].roads.added.values()][0].length")
    assert 80 < length < 92


def test_keys_move_join_and_split(page, server):
    for mode, places in {
        "m": [(50, 100), (50, 90)],
        "j": [(60, 20), (100, 20)],
        "s": [(150, 100)],
    }.items():
        press(page, mode)
        for place in places:
            page.evaluate(LOOK, list(place))
            press(page, "Enter")
        press(page, "Escape")
    assert done(server) == ["move", "join", "split"]


def test_a_speed_is_typed(page, server):
    press(page, "v", *"65", "Enter")
    assert done(server) == ["speed"]
    assert page.locator("#road-facts").inner_text().endswith("65 km/h")
    press(page, "a")  # keys act again
    assert done(server) == ["speed", "accept"]


def test_escape_leaves_the_field_of_the_speed(page, server):
    press(page, "v", "6", "Escape", "a")
    assert done(server) == ["accept"]


def test_what_was_decided_is_seen_when_the_page_is_opened_again(page, opened):
    press(page, "r")
    again = opened()
    assert again.evaluate("review.sheets[0].roads.byId.get(4).edited") == "rejected"
    assert again.evaluate("review.current.id") != 4


def test_roads_that_were_changed_are_the_same_when_the_page_is_opened_again(page, opened):
    press(page, "a", "m")
    for place in [(50, 100), (50, 90)]:
        page.evaluate(LOOK, list(place))
        press(page, "Enter")
    press(page, "s")
    page.evaluate(LOOK, [150, 100])
    press(page, "Enter", "Escape")
    before = page.evaluate(ALL)
    assert len(before) == 6
    assert opened().evaluate(ALL) == before


def test_when_all_is_decided_the_page_says_so(page):
    press(page, *"aaaaa")
    assert "All roads are decided" in page.locator("#told").inner_text()
    assert page.locator("#road-title").inner_text() == "Accepted road"


def test_what_cannot_be_done_is_said(page, server):
    page.evaluate(LOOK, [195, 195])
    press(page, "s", "Enter")
    assert page.locator("#told").inner_text() == "There is no road to split here."
    assert done(server) == []


def test_the_page_ends_the_review_after_what_was_decided(tab, opened, server):
    tab().route("**/finish", lambda route: route.fulfill(json={}))  # Others need the server.
    page = opened()
    page.keyboard.press("a")
    page.click("#finish")
    page.locator("#ended", has_text="All edits are kept").wait_for()
    page.unroute_all()
    assert done(server) == ["accept"]


def test_a_review_that_does_not_end_is_told_of(tab, opened):
    refused = {"error": "This is for the page of roadseg alone."}
    tab().route("**/finish", lambda route: route.fulfill(status=403, json=refused))
    page = opened()
    page.click("#finish")
    page.locator("#told", has_text=refused["error"]).wait_for()
    page.unroute_all()
    assert not page.locator("#ended").is_visible()


def test_a_second_click_on_finish_asks_nothing_of_the_ended_server(tab, opened):
    asked = []

    def end_once(route):
        asked.append(route)
        if len(asked) == 1:
            route.fulfill(json={})
        else:
            route.abort()

    tab().route("**/finish", end_once)
    page = opened()
    page.dblclick("#finish")
    page.locator("#ended").wait_for()
    page.evaluate("review.busy")
    page.unroute_all()
    assert len(asked) == 1


def test_a_server_that_is_gone_is_told_of(tab, opened):
    # Before the page is there: what it asks for at once afterwards could still pass.
    tab().route("**/edit", lambda route: route.abort())
    page = opened()
    press(page, "a")
    page.locator("#told", has_text="not answer").wait_for()
    page.unroute_all()
    assert page.evaluate("review.sheets[0].roads.byId.get(4).edited") == ""


def test_other_pages_can_neither_read_nor_change_anything(browser, server):
    page = browser.new_page()
    read = "address => fetch(address + 'data').then(a => a.text()).catch(() => 'refused')"
    change = """address => fetch(address + 'edit', {
        method: 'POST', mode: 'no-cors', body: '{"kind": "accept", "sheet": 0, "id": 0}',
    }).then(a => a.text()).catch(() => 'refused')"""
    assert page.evaluate(read, server.address) == "refused"
    assert page.evaluate(change, server.address) in ("refused", "")
    page.close()
    assert done(server) == []


def test_the_page_runs_no_script_of_others(page):
    page.evaluate(
        "document.body.append(Object.assign(document.createElement('script'), "
        "{textContent: 'window.planted = 1'}))"
    )
    assert page.evaluate("window.planted === undefined")


@pytest.fixture
def phone(opened):
    return opened(width=390, has_touch=True, is_mobile=True)


def test_all_buttons_can_be_touched(phone):
    assert phone.evaluate(SMALL) == []
    assert phone.evaluate("document.documentElement.scrollWidth") == 390


def test_roads_are_decided_and_drawn_by_touch(phone, server):
    phone.tap("#reject")
    phone.evaluate("review.busy")
    phone.tap("[data-mode=draw]")
    for place in ([121, 150], [180, 179]):
        phone.evaluate(LOOK, place)
        box = phone.locator("#ground").bounding_box()
        phone.touchscreen.tap(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    phone.evaluate("review.busy")
    assert done(server) == ["reject", "draw"]


def test_the_map_takes_most_of_a_phone(phone):
    assert phone.locator("#view").bounding_box()["height"] > 0.5 * 844
    assert phone.locator("#accept").bounding_box()["y"] < 844 - 52


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("keys", [[], ["r", "d", "Enter"], ["?"]], ids=["begin", "drawing", "help"])
def test_axe_finds_nothing(axe, opened, width, keys):
    # Its script is not of the page, so that the policy has to be passed by.
    page = opened(width=width, bypass_csp=True, has_touch=width == 390)
    press(page, *keys)
    page.evaluate("document.getElementById('legend-box').open = true")
    assert axe(page) == []


@pytest.mark.parametrize(("count", "width"), [(10_000, 1.6), (10_001, 0.99)])
def test_so_many_roads_are_hairlines_that_they_are_shown_at_once(page, count, width):
    assert page.evaluate(DRAWN_WIDTH, count) == width
