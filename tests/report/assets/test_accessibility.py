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


@pytest.fixture(params=[1280, 390], ids=["desktop", "phone"])
def shown(browser, shown_run, request):
    """Open the report on a desktop and on a phone."""
    context = browser.new_context(
        viewport={"width": request.param, "height": 844}, has_touch=request.param == 390
    )
    page = context.new_page()
    page.goto(shown_run.report.as_uri())
    yield page
    context.close()


def test_nothing_is_found(axe, shown):
    assert axe(shown) == []
    shown.evaluate(ALL_OPEN)
    assert axe(shown) == []
