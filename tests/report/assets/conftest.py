"""The runs that a browser is shown, and what hands do there."""

import pytest
import shapely

from roadseg.commands.stages import graph, pipeline, report
from roadseg.config import load_config
from roadseg.raster.grid import DEGREES, transformer
from roadseg.system.workspace import Workspace
from tests.drawing import predict_the_labels

SCENES = ("city_0", "city_2")
LOADED = """() => Promise.all(
    roadseg.map.scenes.flatMap(({ pictures }) => Object.values(pictures).map(one => one.load())))"""


def _make_run(config, scenes):
    """Make the graphs of a run from its labels, and a report without training."""
    workspace = Workspace(config.run)
    pipeline.prepare(config, workspace)
    for scene in scenes:
        predict_the_labels(workspace, scene, start=0.25)
    rasters = [str(workspace.probability(scene)) for scene in scenes]
    graph.run_images(config, rasters, output=workspace.graphs)
    workspace.evaluation.write_text("chip,iou,apls_length\ncity_0,0.9,0.2\ncity_2,0.8,0.7\n")
    report.run(config, workspace)


@pytest.fixture(scope="session")
def shown_run(once, write_city):
    """Make a run of two scenes with graphs and metrics, but without training, and its report."""
    folder = once("<b>shown", lambda folder: _make_run(load_config(write_city(folder)), SCENES))
    return Workspace(folder / "run")


@pytest.fixture(scope="session")
def joined_run(once, write_city, make_scene):
    """Make a run of two scenes that touch, each with the next part of the road to the east."""

    def write(folder):
        config = load_config(write_city(folder), ["split.folds=2"])
        make_scene(folder, "city_1", origin=(660064.0, 4000000.0))
        _make_run(config, ("city_0", "city_1"))

    return Workspace(once("joined", write) / "run")


@pytest.fixture(scope="module")
def tab(browser):
    """Open a tab; give it, what it says, and what it asks for."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    said, asked = [], []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    yield page, said, asked
    page.close()


@pytest.fixture
def open_page(tab):
    """Give the function that opens the report of a run, with a fragment of its address."""

    def open_at(workspace, fragment=""):
        if fragment or "#" in tab[0].url:  # whose change alone would not load the page again
            tab[0].goto("about:blank")
        tab[0].goto(workspace.report.as_uri() + fragment)
        tab[0].evaluate(LOADED)
        tab[0].locator("#ground").scroll_into_view_if_needed()
        return tab[0]

    return open_at


@pytest.fixture
def page(open_page, shown_run):
    """Open the report; give the page."""
    return open_page(shown_run)


@pytest.fixture(scope="module")
def same_page(browser, shown_run):
    """Open the report once, for tests that do not depend on what others have done there."""
    page = browser.new_page()
    page.goto(shown_run.report.as_uri())
    yield page
    page.close()


@pytest.fixture(scope="session")
def middle():
    """Give the function that returns longitude and latitude of the middle of an edge."""

    def place(graph, row):
        point = shapely.line_interpolate_point(graph.lines[row], 0.5, normalized=True)
        return transformer(graph.crs, DEGREES).transform(point.x, point.y)

    return place


@pytest.fixture(scope="session")
def position():
    """Give the function that returns where on the map of a page a place is seen."""

    def seen(page, lon_lat):
        x, y = page.evaluate("place => roadseg.screen(place)", list(lon_lat))
        return {"x": x, "y": y}

    return seen


@pytest.fixture(scope="session")
def drawn():
    """Give the function that returns the pixels of pictures and roads as texts."""

    def pixels(page):
        page.evaluate("() => roadseg.map.draw()")
        return page.evaluate(
            "() => ['ground', 'roads'].map(id => document.getElementById(id).toDataURL())"
        )

    return pixels
