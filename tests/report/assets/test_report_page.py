"""The report in a browser: it is drawn, can be clicked, and agrees with the command line."""

import itertools
import json
import re
import shutil
from dataclasses import replace

import geopandas as gpd
import numpy as np
import pytest
import shapely

from roadseg.commands.roads import route
from roadseg.commands.stages import report
from roadseg.config import load_config
from roadseg.raster.grid import DEGREES, transformer
from roadseg.raster.images import read_facts
from roadseg.roads.formats.by_suffix import write_graphs
from roadseg.roads.formats.files import read_gpkg
from roadseg.system.units import shown_in
from roadseg.system.workspace import Workspace

AT_THE_END = """async () => {
    window.scrollTo(0, document.body.scrollHeight);
    while (document.querySelectorAll("[data-drawn]").length < 2)
        await new Promise(requestAnimationFrame);
}"""


def test_nothing_is_wrong_and_nothing_is_asked_of_the_network(tab, page, shown_run):
    _, said, asked = tab
    page.evaluate(AT_THE_END)
    assert said == []
    assert {url for url in asked if url[:5] != "data:"} == {shown_run.report.as_uri()}


def test_scripts_of_others_cannot_run(same_page):
    same_page.evaluate(
        "document.body.append(Object.assign(document.createElement('script'), "
        "{textContent: 'window.planted = 1'}))"
    )
    assert same_page.evaluate("window.planted === undefined")


def test_names_are_shown_as_text(same_page, shown_run):
    assert same_page.locator("h1").inner_text() == shown_run.root.parent.name
    assert same_page.locator("h1 b").count() == 0


@pytest.mark.parametrize("scene", ["city_0", "city_2"])
def test_a_click_on_a_road_shows_its_attributes(page, shown_run, scene, middle, position):
    graph = read_gpkg(shown_run.graph(scene))
    page.locator("#ground").click(position=position(page, middle(graph, 0)))
    text = page.locator("#panel").inner_text()
    kph = graph.attributes["speed_kph"][0]
    assert f"{graph.length_m[0]:.1f} m" in text
    assert f"{kph:.0f} km/h" in text
    assert scene in text


def test_a_report_in_miles_shows_miles_and_feet(tab, shown_run, tmp_path):
    run = Workspace(shutil.copytree(shown_run.root, tmp_path / "run"))
    with shown_in("miles"):
        report.run(load_config(None, [f"run={run.root}"]), run, force=True)
    page = tab[0]
    page.goto(run.report.as_uri())
    shown = [
        page.locator(f"#{part}").inner_text() for part in ("headline", "legend", "told", "bar")
    ]
    assert re.search(r"\d mi\s", shown[0])
    assert "mi²" in shown[0]
    assert re.search(r"\d to \d+ mph", shown[1])
    assert "mi of roads" in shown[2]
    assert re.fullmatch(r"\d+ ft", shown[3])
    assert not re.search(r"\bkm\b|km/h|\d m\b", " ".join(shown))


def test_lengths_of_all_classes_add_up_to_the_roads_of_the_map(same_page):
    said = same_page.locator("#lengths .bars span").all_inner_texts()
    names, lengths = said[::2], said[1::2]
    assert {"Residential"} < set(names)
    assert sum(float(each.split()[0]) for each in lengths) == pytest.approx(
        float(same_page.locator("#headline .value").first.inner_text().split()[0]), abs=0.1
    )


def test_polygons_of_the_area_have_a_row_each(tab, shown_run, tmp_path):
    run = Workspace(shutil.copytree(shown_run.root, tmp_path / "run"))
    scenes = gpd.read_file(run.package, layer="scenes")
    scenes["name"] = ["<b>one", "two"]
    scenes[["name", "geometry"]].to_file(tmp_path / "area.gpkg")
    settings = [f"run={run.root}", f"imagery.area={tmp_path / 'area.gpkg'}"]
    report.run(load_config(None, settings), run, force=True)
    page = tab[0]
    page.goto(run.report.as_uri())
    rows = [row.split("\t") for row in page.locator("#lengths tbody tr").all_inner_texts()]
    assert [row[0] for row in rows] == ["<b>one", "two", "Whole map"]
    one, two, whole = (float(row[-1]) for row in rows)
    assert one + two == pytest.approx(whole, abs=0.03)


def test_routes_take_the_time_that_the_command_says(same_page, shown_run, middle):
    graph = read_gpkg(shown_run.graph("city_0"))
    places = [middle(graph, row) for row in range(len(graph.lines))]
    for start, goal in itertools.pairwise(places):
        expected = route.run(shown_run.graph("city_0"), start, goal)
        found = same_page.evaluate("ends => roadseg.route(...ends)", [list(start), list(goal)])
        assert found["seconds"] == pytest.approx(expected.seconds, abs=0.001)
        assert found["length_m"] == pytest.approx(expected.length_m, abs=0.005)
        assert found["edges"] == expected.edges


def test_a_route_along_one_edge_is_a_part_of_it(same_page, shown_run):
    graph = read_gpkg(shown_run.graph("city_0"))
    to_degrees = transformer(graph.crs, DEGREES).transform
    ends = [shapely.line_interpolate_point(graph.lines[0], at) for at in (3, 9)]
    start, goal = (to_degrees(point.x, point.y) for point in ends)
    found = same_page.evaluate("ends => roadseg.route(...ends)", [list(start), list(goal)])
    assert found["length_m"] == pytest.approx(6, abs=0.005)


def test_a_route_tells_on_which_share_its_speed_is_assumed(page, shown_run, middle, position):
    places = [middle(read_gpkg(shown_run.graph("city_0")), row) for row in (0, 1)]
    page.evaluate("roadseg.map.graphs.forEach(one => one.columns.speed_known.fill(0))")
    page.click("#route")
    for place in places:
        page.locator("#ground").click(position=position(page, place))
    assert re.search(r"Speed assumed\s+100.0 %", page.locator("#panel").inner_text())


def test_two_clicks_draw_a_route_with_its_time(page, shown_run, middle, position):
    graph = read_gpkg(shown_run.graph("city_0"))
    start, goal = middle(graph, 0), middle(graph, 1)
    page.click("#route")
    page.locator("#ground").click(position=position(page, start))
    page.locator("#ground").click(position=position(page, goal))
    seconds = float(page.locator("#route-time").inner_text().removesuffix(" s"))
    assert seconds == pytest.approx(
        route.run(shown_run.graph("city_0"), start, goal).seconds, abs=0.2
    )


def test_graphs_of_their_own_have_no_way_between_them(same_page, shown_run, middle):
    ends = [list(middle(read_gpkg(shown_run.graph(name)), 0)) for name in ("city_0", "city_2")]
    assert (
        "separate graphs" in same_page.evaluate("ends => roadseg.route(...ends)", ends)["problem"]
    )


@pytest.mark.parametrize("layer", ["image", "probability", "mask", "reference", "errors", "graph"])
def test_a_layer_is_switched_by_its_button(page, layer, drawn):
    button = page.locator(f"[data-layer={layer}]")
    before, was_on = drawn(page), button.get_attribute("aria-pressed")
    button.click()
    assert button.get_attribute("aria-pressed") != was_on
    assert drawn(page) != before


@pytest.mark.parametrize("mode", ["certainty", "inferred"])
def test_the_graph_takes_other_colours(page, mode, drawn):
    before = drawn(page)
    page.select_option("#colour", mode)
    assert drawn(page) != before


def test_keys_move_the_map_and_pick_a_road(page):
    page.locator("#ground").focus()
    page.keyboard.press("n")
    page.keyboard.press("Enter")
    assert page.locator("#scene").input_value() == "s0"
    assert "Travel time" in page.locator("#panel").inner_text()


def test_the_wheel_zooms_where_the_map_is_chosen(page):
    page.locator("#ground").click(position={"x": 5, "y": 5})
    before = page.evaluate("roadseg.map.view.scale")
    page.mouse.wheel(0, -200)
    page.evaluate("() => new Promise(requestAnimationFrame)")
    assert page.evaluate("roadseg.map.view.scale") > before


def test_the_worst_chips_come_first_until_a_header_is_clicked(page):
    first = page.locator("#metrics tbody tr:first-child td:first-child")
    assert first.inner_text() == "city_0"
    page.click("#metrics th:has-text('IoU') button")
    assert first.inner_text() == "city_2"


def test_what_the_run_lacks_is_named_with_its_command(same_page):
    assert "roadseg train" in same_page.locator("#training .note").inner_text()


def test_figures_are_explained_where_they_stand(same_page):
    same_page.click("#metrics summary:has-text('What these figures mean')")
    assert "path length similarity" in same_page.locator("#metrics dl").inner_text()
    header = same_page.locator("#metrics th:has-text('APLS length') button")
    assert "routes agree" in header.get_attribute("title")


def test_the_page_names_no_folder_of_the_disk(same_page, shown_run):
    assert str(shown_run.root.parent.parent) not in same_page.content()
    assert "/run" in same_page.locator("#subtitle").inner_text()


def test_tools_are_not_printed_and_the_map_is(page):
    page.emulate_media(media="print")
    assert not page.locator("#layers").is_visible()
    assert page.locator("#ground").is_visible()
    page.emulate_media(media="screen")


def test_what_is_folded_is_open_on_paper_only(page):
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.locator("#config details:not([open])").count() == 0
    assert page.locator(".scene:not([data-drawn])").count() == 0
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.locator("#config details[open]").count() == 0


def test_the_map_on_paper_keeps_its_shape_and_tells_its_scale(page):
    ground, bar = page.locator("#ground"), page.locator("#bar")

    def pixels_a_metre():
        width = bar.evaluate("(bar) => bar.style.width.replace('px', '')")
        return float(width) / float(bar.inner_text().split()[0])

    on_screen, view = pixels_a_metre(), ground.bounding_box()
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    on_paper = pixels_a_metre()
    page.emulate_media(media="print")
    paper = ground.bounding_box()
    smaller = min(paper[side] / view[side] for side in ("width", "height"))
    assert on_paper == pytest.approx(on_screen * smaller, rel=0.01)
    assert ground.evaluate("(canvas) => getComputedStyle(canvas).objectFit") == "contain"
    page.emulate_media(media="screen")
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert pixels_a_metre() == on_screen


EVALUATED = {
    "iou": 0.7,
    "chips": 7,
    "by_fold": {"0": {"chips": 4, "iou": 0.7}, "1": {"chips": 3, "iou": 0.8}},
    "spread": {"iou": {"mean": 0.75, "std": 0.0707}},
    "set_of_fold": {"1": "vegas"},
    "correctness": 0.9,
    "completeness": 0.8,
    "breaks": 3,
}


@pytest.fixture(scope="module")
def run_of_folds(shown_run, tmp_path_factory):
    """Write the report of a run whose figures are those of a cross-validation."""
    folder = tmp_path_factory.mktemp("folds") / "run"
    workspace = Workspace(shutil.copytree(shown_run.root, folder))
    record = {"stage": "evaluate", "state": "done", "key": "drawn", "summary": EVALUATED}
    workspace.record("evaluate").write_text(json.dumps(record))
    config = load_config(shown_run.root.parent / "roadseg.json")
    report.run(config, workspace, force=True)
    return workspace


@pytest.fixture
def page_of_folds(tab, run_of_folds):
    """Open that report."""
    tab[0].goto(run_of_folds.report.as_uri())
    return tab[0]


def test_folds_are_a_table_with_their_means_and_spread(page_of_folds):
    rows = page_of_folds.evaluate(
        """() => [...document.querySelectorAll("[aria-label='Figures by fold'] tr")]
        .map(row => [...row.children].map(cell => cell.textContent))"""
    )
    assert rows == [
        ["Fold", "Chips", "IoU"],
        ["0", "4", "0.700"],
        ["1, vegas", "3", "0.800"],
        ["mean ± standard deviation", "\N{EN DASH}", "0.750 ± 0.071"],
    ]


def test_the_head_tells_how_far_folds_differ(page_of_folds):
    assert "over folds 0.750 ± 0.071" in page_of_folds.locator("#headline").inner_text()


def test_the_head_tells_correctness_and_completeness(page_of_folds):
    text = page_of_folds.locator("#headline").inner_text()
    assert re.search(r"CORRECTNESS\s+0.900\s+of found roads", text, re.IGNORECASE)
    assert re.search(r"COMPLETENESS\s+0.800\s+of known roads", text, re.IGNORECASE)


def test_what_the_errors_do_not_show_is_told_below_the_map(page_of_folds):
    text = page_of_folds.locator("#map").inner_text()
    assert "on the held-out chips 3 breaks in known roads" in text


def test_the_head_tells_no_spread_where_one_fold_was_held_out(same_page):
    assert "over folds" not in same_page.locator("#headline").inner_text()


def tables(page, path, folder, changes):
    """Open a page with other data; return the tables of metrics as rows of texts."""
    before, after = path.read_text().split('id="data">')
    data, rest = after.split("</script>", 1)
    told = json.loads(data)
    told["map"]["units"] = changes.pop("units", "metric")
    copy = folder / "report.html"
    copy.write_text(f'{before}id="data">{json.dumps({**told, **changes})}</script>{rest}')
    page.goto(copy.as_uri())
    rows = page.locator("#metrics tr").all()
    return [row.locator("th, td").all_text_contents() for row in rows]


@pytest.mark.parametrize(
    ("units", "per_km"), [("metric", ("Breaks/km", "1.50")), ("miles", ("Breaks/mi", "2.41"))]
)
def test_a_chip_has_its_breaks_in_the_units_of_the_reader(tab, shown_run, tmp_path, units, per_km):
    columns = ["chip", "iou", "breaks", "topo_recall", "breaks_per_km"]
    scores = {"columns": columns, "rows": [["city_0", 0.5, 3, 0.25, 1.5]]}
    changes = {"units": units, "scores": scores}
    head, row = tables(tab[0], shown_run.report, tmp_path, changes)
    assert head == ["Chip", "IoU", "Breaks", per_km[0]]
    assert row == ["city_0", "0.500", "3", per_km[1]]


def test_folds_have_breaks_per_km_and_their_spread(tab, shown_run, tmp_path):
    of = {"chips": 2, "breaks": 3, "breaks_per_km": 1.5, "topo_recall": 0.5}
    spread = {"breaks_per_km": {"mean": 1.5, "std": 0.25}}
    found = {"by_fold": {"0": of}, "spread": spread, "set_of_fold": {}}
    changes = {"summaries": {"evaluate": found}, "scores": None}
    head, fold, means = tables(tab[0], shown_run.report, tmp_path, changes)
    assert head[1:] == ["Chips", "Breaks/km"]
    assert fold == ["0", "2", "1.50"]
    assert means[2] == "1.50 ± 0.25"


@pytest.mark.parametrize(("units", "far"), [("metric", "over 1000 m"), ("miles", "over 3281 ft")])
def test_metrics_are_a_table_by_distance(tab, shown_run, tmp_path, units, far):
    near = {"from_m": 0, "to_m": 100, "chips": 3, "reference_km": 1.609344, "iou": 0.8}
    classes = [near, near | {"from_m": 1000, "to_m": None, "iou": 0.5}]
    found = {"summaries": {"evaluate": {"by_distance": classes}}, "scores": None}
    head, _, last = tables(tab[0], shown_run.report, tmp_path, {"units": units, **found})
    assert head[0] == "Distance from the training ground"
    assert (last[0], last[-1]) == (far, "0.500")


@pytest.mark.parametrize(
    ("model", "told"),
    [("starter", "Mapped with the starter"), ("adapted", "learned from its own first map")],
)
def test_a_map_without_labels_warns_and_says_nothing_of_training(
    tab, shown_run, tmp_path, model, told
):
    run = Workspace(tmp_path / "map")
    shutil.copytree(shown_run.probabilities, run.probabilities)
    for scene in ("city_0", "city_2"):
        graph = read_gpkg(shown_run.graph(scene))
        same = {
            "speed_kph": np.full(len(graph.lines), 40.0),
            "highway": np.full(len(graph.lines), "road"),
            "model": np.full(len(graph.lines), model),
        }
        graph = replace(graph, attributes=graph.attributes | same)
        grid = read_facts(run.probability(scene)).grid
        write_graphs(run.graphs, scene, graph, formats=("gpkg",), grid=grid)
    report.run(load_config(None, [f"run={run.root}"]), run)
    page = tab[0]
    page.goto(run.report.as_uri())
    sections = page.locator("#contents").inner_text().split()
    text, legend = (page.locator(part).inner_text() for part in ("body", "#legend"))
    assert sections == ["Map", "Scenes", "Config", "Versions"]
    assert told in text
    assert not re.search("roadseg (train|prepare|evaluate)", text)
    assert legend.startswith("Certainty")


def test_roads_of_several_speeds_are_coloured_by_speed(same_page):
    assert same_page.locator("#legend").inner_text().startswith("Speed")
