"""Runs side by side: what differs, what cannot be compared, and the page that shows it."""

import json
import re
import shutil
from html.parser import HTMLParser

import pytest
from PIL import Image

from roadseg.commands.tools.compare import run
from roadseg.errors import ConfigError, DataError, OutputError
from roadseg.report.comparison import compare_runs, short_names
from roadseg.report.comparison_page import change_text, scene_of
from roadseg.report.run_facts import read_run


class Tags(HTMLParser):
    """Keeps the tags of a page with their attributes, and the text that is shown."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


@pytest.fixture
def pair(finished):
    """Return two equal run folders."""
    root = finished[1].root
    other = root.with_name("other")
    shutil.copytree(root, other)
    return root, other


def change(folder, stage, values):
    """Change values in the record of a stage, given by their keys from its top."""
    path = folder / f"{stage}.json"
    record = json.loads(path.read_text())
    for keys, value in values.items():
        *inner, last = keys.split("/")
        part = record
        for key in inner:
            part = part[key]
        part[last] = value
    path.write_text(json.dumps(record))


def warnings_of(pair):
    return compare_runs([read_run(folder) for folder in pair]).warnings


def test_equal_runs_differ_in_nothing(pair):
    compared = run(pair, output=None).comparison
    assert (compared.names, compared.warnings, compared.settings) == (["run", "other"], [], [])
    assert {change for row in compared.metrics for change in row.changes} <= {0, None}


def test_a_changed_setting_and_metric_stand_side_by_side(pair):
    change(pair[1], "graph", {"settings/min_spur_m": 30.0})
    change(pair[0], "evaluate", {"summary/apls_length": 0.25})
    change(pair[1], "evaluate", {"summary/apls_length": 0.5})
    text = str(run(pair, output=None))
    assert re.search(r"graph.min_spur_m +12.0 +30.0", text)
    assert re.search(r"APLS length +0.250 +0.500 \(\+0.250\)", text)


def test_a_run_of_an_earlier_version_has_no_figures_of_breaks(pair):
    path = pair[0] / "evaluate.json"
    record = json.loads(path.read_text())
    del record["summary"]["breaks_per_km"]
    path.write_text(json.dumps(record))
    change(pair[1], "evaluate", {"summary/breaks_per_km": 0.5})
    assert re.search(r"breaks per km +- +0.50", str(run(pair, output=None)))


def test_settings_of_a_stage_that_one_run_has_not_come_to_do_not_differ(pair):
    (pair[1] / "evaluate.json").unlink()
    compared = compare_runs([read_run(folder) for folder in pair])
    assert compared.settings == []
    assert compared.warnings == ["not evaluated, so there are no metrics: other"]


@pytest.mark.parametrize(
    ("stage", "values", "told"),
    [
        ("evaluate", {"summary/fold": 1}, "different folds"),
        ("prepare", {"inputs/labels of city_1": "others"}, "labels differ (city_1)"),
        ("prepare", {"inputs/image of city_2": "others"}, "images differ (city_2)"),
        ("prepare", {"settings/labels/buffer_m": 9.0}, "labels are read differently"),
        ("evaluate", {"settings/snap_m": 9.0}, "metrics are measured differently"),
    ],
)
def test_what_makes_figures_unlike_is_told(pair, stage, values, told):
    change(pair[1], stage, values)
    (warning,) = warnings_of(pair)
    assert told in warning
    assert f"WARNING: {warning}" in str(run(pair, output=None))


def test_other_chips_held_out_are_told(pair):
    table = pair[1] / "evaluation.csv"
    header, *rows = table.read_text().splitlines()
    table.write_text("\n".join([header, *("x" + row for row in rows)]))
    assert "different chips" in warnings_of(pair)[0]


def test_how_many_pictures_are_drawn_is_no_reason_not_to_compare(pair):
    change(pair[1], "evaluate", {"settings/pictures": 0})
    assert warnings_of(pair) == []


def test_chips_that_changed_most_come_first(pair):
    for folder, values in zip(pair, ((0.5, 0.5), (0.6, 0.1)), strict=True):
        rows = "".join(f"city_{n},{value},\n" for n, value in enumerate(values))
        (folder / "evaluation.csv").write_text(f"chip,iou,apls_length\n{rows}")
    chips = compare_runs([read_run(folder) for folder in pair]).chips
    assert list(chips) == ["city_1", "city_0"]
    assert chips["city_1"]["iou"].changes == (0, pytest.approx(-0.4))


def test_the_page_loads_nothing_and_runs_nothing(pair, tmp_path):
    run(pair, output=tmp_path / "compare.html")
    page = Tags((tmp_path / "compare.html").read_text())
    names = [tag for tag, _ in page.tags]
    policy = next(a["content"] for _, a in page.tags if "http-equiv" in a)
    assert policy.startswith("default-src 'none'; img-src data:; style-src 'sha256-")
    assert not {"script", "iframe", "object"} & set(names)
    assert not any(name.startswith("on") or name == "style" for _, a in page.tags for name in a)
    sources = [a.get("src") or a.get("href") for _, a in page.tags if {"src", "href"} & set(a)]
    assert all(source.startswith("data:") for source in sources)
    assert names.count("svg") == 4  # a key for each run, and two curves


def test_the_page_shows_pictures_of_both_runs(pair, tmp_path):
    for folder in pair:
        shutil.rmtree(folder / "pictures")
        (folder / "pictures").mkdir()
        chip = read_run(folder).value("predict", "scenes")[0]
        Image.new("RGB", (90, 30), "green").save(folder / "pictures" / f"{chip}.png")
    run(pair, output=tmp_path / "compare.html")
    tags = Tags((tmp_path / "compare.html").read_text()).tags
    assert [a["alt"].partition(" of ")[2] for tag, a in tags if tag == "img"] == ["run", "other"]
    assert all("data-drawn" in a for _, a in tags if a.get("class") == "scene")  # else not printed


def test_names_of_folders_and_chips_are_text_on_the_page(pair, tmp_path):
    root = pair[1].rename(pair[1].with_name("<img src=x>"))
    run((pair[0], root), output=tmp_path / "compare.html")
    page = Tags((tmp_path / "compare.html").read_text())
    assert "<img src=x>" in page.text
    assert not any(a.get("src") == "x" for _, a in page.tags)


def test_a_run_without_training_has_a_page(pair, tmp_path):
    for folder in pair:
        shutil.rmtree(folder / "checkpoints")
    run(pair, output=tmp_path / "compare.html")
    assert "epoch" not in Tags((tmp_path / "compare.html").read_text()).text.lower()


@pytest.mark.parametrize("many", [1, 2])
def test_fewer_than_two_different_runs_are_refused(pair, many):
    with pytest.raises(ConfigError, match="expected two or more different run folders"):
        run([pair[0]] * many, output=None)


def test_a_folder_that_is_no_run_is_refused(pair, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="not a run of roadseg"):
        run((pair[0], tmp_path / "empty"), output=None)


def test_a_page_is_not_written_over_another_kind_of_file(pair, tmp_path):
    with pytest.raises(ConfigError, match=r"use a file name that ends in \.html"):
        run(pair, output=tmp_path / "roadseg.json")


def test_a_page_that_cannot_be_written_is_an_error(pair, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="cannot be written"):
        run(pair, output=tmp_path / "file" / "compare.html")


def test_a_picture_that_is_none_is_an_error(pair, tmp_path):
    for folder in pair:
        for scene in read_run(folder).value("predict", "scenes"):
            (folder / "pictures" / f"{scene}.png").write_text("no picture")
    with pytest.raises(DataError, match="not a readable picture; delete it, or make it again"):
        run(pair, output=tmp_path / "compare.html")


def test_names_are_as_long_as_tells_runs_apart(tmp_path):
    folders = [tmp_path / name for name in ("a/run", "b/run")]
    assert short_names(folders) == ["a/run", "b/run"]
    assert short_names([tmp_path / "x", tmp_path / "y"]) == ["x", "y"]


@pytest.mark.parametrize(
    ("by", "shown"), [(0.0004, ""), (0.0006, "+0.001"), (-0.0004, ""), (-0.0006, "-0.001")]
)
def test_a_change_that_would_read_as_none_is_left_out(by, shown):
    assert change_text(by, 3) == shown


def test_a_chip_is_of_the_scene_with_the_longest_name_that_fits(tmp_path):
    scenes = [tmp_path / f"{name}.png" for name in ("city", "city_r0", "city_2")]
    assert scene_of("city_r0_c0", scenes).stem == "city"
    assert scene_of("city_r0_r1_c0", scenes).stem == "city_r0"
    assert scene_of("town", scenes) is None
