"""The report's map: strength of pictures, two layers swiped, the road that is pointed at."""

import pytest

from roadseg.roads.formats.files import read_gpkg

PIXEL = """share => {
    const { ground } = roadseg.map;
    const { width, height } = ground.canvas;
    return [...ground.getImageData(share * width, height / 2, 1, 1).data];
}"""


@pytest.fixture
def scene(page):
    """Show one scene, without roads."""
    page.select_option("#scene", "s0")
    page.click("[data-layer=graph]")
    page.click("summary:has-text('Display')")
    page.evaluate("roadseg.map.draw()")
    return page


def test_a_picture_is_drawn_as_strongly_as_its_slider_says(scene):
    slider = scene.locator("[data-opacity=image]")
    slider.fill("50")
    scene.evaluate("roadseg.map.draw()")
    assert scene.evaluate(PIXEL, 0.5)[3] == pytest.approx(128, abs=2)
    slider.fill("100")
    scene.evaluate("roadseg.map.draw()")
    assert scene.evaluate(PIXEL, 0.5)[3] == 255


@pytest.fixture
def swiped(scene):
    """Swipe the image against the probability, which is clear where there is no road."""
    scene.select_option("#swipe-left", "image")
    scene.select_option("#swipe-right", "probability")
    scene.click("#swipe")
    scene.evaluate("roadseg.map.draw()")
    return scene


def test_a_layer_is_swiped_on_its_side_only(swiped):
    assert swiped.evaluate(PIXEL, 0.49)[3] == 255
    assert swiped.evaluate(PIXEL, 0.53)[3] < 255


def test_the_divider_is_moved_by_keys(swiped):
    divider = swiped.locator("#divider")
    assert divider.evaluate("divider => divider === document.activeElement")
    swiped.keyboard.press("PageUp")
    swiped.keyboard.press("ArrowLeft")
    assert divider.get_attribute("aria-valuenow") == "58"
    assert "Imagery up to 58 %" in divider.get_attribute("aria-valuetext")


def test_the_divider_is_dragged(swiped):
    swiped.keyboard.press("Escape")
    swiped.click("summary:has-text('Display')")
    box = swiped.locator("#view").bounding_box()
    y = box["y"] + box["height"] / 2
    swiped.mouse.move(box["x"] + box["width"] / 2, y)
    swiped.mouse.down()
    swiped.mouse.move(box["x"] + box["width"] / 4, y)
    swiped.mouse.up()
    assert swiped.locator("#divider").get_attribute("aria-valuenow") == "25"


def test_a_layer_that_is_switched_off_is_swiped_no_more(swiped):
    swiped.click("[data-layer=probability]")
    assert swiped.locator("#divider").is_hidden()


def test_a_layer_is_not_swiped_against_itself(swiped):
    swiped.select_option("#swipe-right", "image")
    assert swiped.input_value("#swipe-left") == "probability"


def test_the_road_under_the_pointer_has_a_label(page, shown_run, middle, position):
    graph = read_gpkg(shown_run.graph("city_0"))
    page.locator("#ground").hover(position=position(page, middle(graph, 0)))
    label = page.locator("#tip").inner_text()
    assert f"{graph.attributes['speed_kph'][0]:.0f} km/h" in label
    assert f"{graph.length_m[0]:.1f} m" in label
    assert f"{graph.attributes['confidence'][0] * 100:.0f} % certain" in label


def test_nothing_is_labelled_beside_the_roads(page):
    page.locator("#ground").hover(position={"x": 5, "y": 300})
    assert page.locator("#tip").is_hidden()


def test_a_finger_has_no_label(browser, shown_run, middle, position):
    context = browser.new_context(has_touch=True)
    page = context.new_page()
    page.goto(shown_run.report.as_uri())
    place = position(page, middle(read_gpkg(shown_run.graph("city_0")), 0))
    page.locator("#ground").tap(position=place)
    assert "Travel time" in page.locator("#panel").inner_text()
    assert page.locator("#tip").is_hidden()
    context.close()


def test_the_map_fills_the_screen_and_no_more(page):
    for filled in (True, False):
        page.click("#full")
        page.locator("#map:fullscreen" if filled else "#map:not(:fullscreen)").wait_for()


@pytest.mark.parametrize(("labels", "told"), [("[]", True), ("null", False)])
def test_a_scene_without_labels_was_not_trained_on(page, labels, told):
    text = page.evaluate(f"""() => {{
        roadseg.map.heldOut = new Set([roadseg.map.scenes[0].name]);
        roadseg.map.scenes[1].reference = {labels};
        return roadseg.map.tools.summary(roadseg.map.tools.counts());
    }}""")
    assert ("1 of 2 scenes trained on" in text) == told


@pytest.mark.parametrize(("chip", "told"), [("city_2", False), ("city_2_c256", True)])
def test_a_scene_was_trained_on_unless_all_its_chips_were_held_out(
    page, shown_run, tmp_path, chip, told
):
    key, report = '"scene_of":{', shown_run.report.read_text(encoding="utf-8")
    assert key in report
    path = tmp_path / "report.html"
    path.write_text(report.replace(key, f'{key}"{chip}":"city_2",'), encoding="utf-8")
    page.goto(path.as_uri())
    assert ("city_2 (trained on)" in page.locator("#scene").inner_text()) == told
    summary = page.evaluate("roadseg.map.tools.summary(roadseg.map.tools.counts())")
    assert ("1 of 2 scenes trained on, at least in part" in summary) == told
