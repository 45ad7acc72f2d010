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
    shown.evaluate(axe)
    found = {}
    for state, change in {"at first": "() => {}", "all open": ALL_OPEN}.items():
        shown.evaluate(change)
        for scheme in ("light", "dark"):
            shown.emulate_media(color_scheme=scheme)
            found[state, scheme] = shown.evaluate(FINDINGS)
    assert not any(found.values()), found
