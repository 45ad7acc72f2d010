"""What axe-core finds in the report: nothing. ROADSEG_AXE names its file axe.min.js."""

import pytest

ALL_OPEN = """() => {
    for (const part of document.querySelectorAll("details")) part.open = true;
    const { map } = roadseg;
    map.swipe.set(["reference", "graph"]);
    map.pick(map.graphs[0], 0);
    document.getElementById("search").value = "nowhere";
    map.search.update();
}"""
FINDINGS = """async () => (await axe.run(document, { resultTypes: ["violations"] }))
    .violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ target }) => target).join(" ")}`)"""


@pytest.fixture(params=["light", "dark"])
def scheme(request):
    return request.param


@pytest.fixture(params=[1280, 390], ids=["desktop", "phone"])
def shown(browser, shown_run, scheme, request):
    """Open the report, light and dark, on a desktop and a phone."""
    context = browser.new_context(
        viewport={"width": request.param, "height": 844},
        color_scheme=scheme,
        has_touch=request.param == 390,
    )
    page = context.new_page()
    page.goto(shown_run.report.as_uri())
    yield page
    context.close()


@pytest.mark.parametrize("state", ["() => {}", ALL_OPEN], ids=["at first", "all open"])
def test_nothing_is_found(axe, shown, state):
    shown.evaluate(state)
    shown.evaluate(axe)
    assert shown.evaluate(FINDINGS) == []
