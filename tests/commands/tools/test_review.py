"""roadseg review from the command line: what it reads, exports and refuses."""

import json
import threading
from contextlib import closing, nullcontext
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import shapely
from affine import Affine
from pyproj import CRS

from roadseg.commands.tools import review
from roadseg.commands.tools.review import ReviewSummary
from roadseg.raster.grid import Grid
from roadseg.report.run_facts import scene_names
from roadseg.review.edits import Edit, EditFile
from roadseg.roads.formats.files import read_gpkg, write_gpkg
from roadseg.roads.graph.road_graph import graph_from_lines
from roadseg.roads.graph.travel import add_travel
from roadseg.roads.masks.probabilities import write_probability
from roadseg.roads.speeds import DEFAULT_BINS
from roadseg.system.locks import lock
from roadseg.system.workspace import Workspace

UTM = CRS.from_epsg(32611)


def roads(east=0, crs=UTM):
    lines = [[(0, 0), (100, 0)], [(100, 0), (200, 0)], [(100, 0), (100, 90)]]
    shifted = [shapely.LineString(np.add(line, (480_000 + east, 3_650_000))) for line in lines]
    return add_travel(graph_from_lines(np.array(shifted, dtype=object), crs), np.full(3, 40.0))


@pytest.fixture
def folder(tmp_path):
    """Write a graph of three roads into a folder without a run."""
    write_gpkg(tmp_path / "flat" / "city.gpkg", roads())
    return tmp_path / "flat"


def decide(folder, graph, row, crs=UTM, kind="reject"):
    with closing(EditFile(folder / "edits.gpkg", crs)) as file:
        file.add(Edit(kind, graph.lines[row]), graph.crs, who="Ana")


def test_the_edited_roads_are_written_in_the_format_of_the_suffix(call, folder, tmp_path):
    decide(folder, roads(), 2)
    done = call("review", folder, "--export", tmp_path / "out.gpkg", "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert (told["in_force"], told["roads"]) == (1, {"open": 2, "rejected": 1})
    assert not told["can_improve"]  # There is no image.
    graph = read_gpkg(tmp_path / "out.gpkg")
    assert graph.length_m.sum() == 200
    assert graph.attributes["edited"].tolist() in (["", ""], [None, None])


@pytest.mark.parametrize("name", ["edits.gpkg", "city.gpkg", "network.gpkg"])
def test_an_export_replaces_neither_the_edits_nor_the_roads_before(call, folder, name):
    write_gpkg(folder / "network.gpkg", roads())
    decide(folder, roads(), 0)
    before = (folder / name).read_bytes()
    done = call("review", folder, "--export", folder / name)
    assert done.exit_code == 2
    assert f"{name}: is a file to read; write to another one" in done.stderr
    assert (folder / name).read_bytes() == before


def test_edits_are_no_scene_of_a_folder(call, folder, tmp_path):
    decide(folder, roads(), 0)
    call("review", folder, "--export", tmp_path / "out.geojson")
    assert scene_names(Workspace(folder, is_flat=True)) == ["city"]


@pytest.mark.parametrize(("kind", "roads_then"), [("accept", 4), ("reject", 3)])
def test_decisions_about_roads_that_are_gone_hold(call, folder, tmp_path, kind, roads_then):
    decide(folder, roads(), 2, kind=kind)
    write_gpkg(folder / "city.gpkg", roads(east=3000))
    done = call("review", folder, "--export", tmp_path / "out.gpkg")
    assert "left out" not in done.stdout
    assert len(read_gpkg(tmp_path / "out.gpkg").lines) == roads_then


def test_a_session_ends_with_what_comes_next():
    session = ReviewSummary(edits="city/edits.gpkg", in_force=2, roads={"rejected": 2})
    assert "next      roadseg review city --export FILE" in str(session)
    assert "          roadseg improve city" in str(session)
    assert "roadseg improve 'my city'" in str(replace(session, edits="my city/edits.gpkg"))
    assert "improve" not in str(replace(session, can_improve=False))
    assert "next" not in str(replace(session, in_force=0))


def test_places_far_apart_have_a_file_each_and_edits_find_the_one_that_they_are_about(
    call, folder, tmp_path
):
    far = roads(crs=CRS.from_epsg(32633))
    write_gpkg(folder / "town.gpkg", far)
    files = [tmp_path / "out_city.gpkg", tmp_path / "out_town.gpkg"]
    done = call("review", folder, "--export", tmp_path / "out.gpkg")
    assert done.exit_code == 0, done.output
    assert {read_gpkg(path).crs.to_epsg() for path in files} == {32611, 32633}
    with closing(EditFile(folder / "edits.gpkg", UTM)) as file:
        file.add(Edit("reject", far.lines[0]), far.crs, who="Ana")
    call("review", folder, "--export", tmp_path / "out.gpkg")
    assert [len(read_gpkg(path).lines) for path in files] == [3, 2]


def test_an_unknown_suffix_is_refused(call, folder):
    done = call("review", folder, "--export", "out.xyz")
    assert done.exit_code == 2
    assert "use a file name that ends in" in done.stderr


def test_a_folder_without_roads_is_refused(call, tmp_path):
    done = call("review", tmp_path)
    assert done.exit_code == 1
    assert "contains neither graphs nor probabilities" in done.stderr
    assert "--run" not in done.stderr  # which `review` does not have


def test_a_folder_of_probabilities_without_graphs_has_no_roads_to_write(call, tmp_path):
    grid = Grid(UTM, Affine(1, 0, 480_000, 0, -1, 3_650_000), 64, 64)
    values = np.zeros((DEFAULT_BINS.count + 1, 64, 64), dtype=np.float32)
    rows = [(0, values, np.ones((64, 64), dtype=bool))]
    path = tmp_path / "flat" / "city.tif"
    path.parent.mkdir()
    write_probability(path, rows, grid, bins=DEFAULT_BINS, key="", tags={})
    done = call("review", tmp_path / "flat", "--export", tmp_path / "out.gpkg")
    assert done.exit_code == 1
    assert "flat: has no road to write; run `roadseg graph` first" in done.stderr
    assert not (tmp_path / "out.gpkg").exists()


def test_a_review_waits_in_a_way_that_windows_interrupts(monkeypatch):
    ended = threading.Event()
    server = SimpleNamespace(
        address="http://127.0.0.1/", serve_forever=ended.wait, shutdown=ended.set
    )

    def join(_, timeout=None):
        assert timeout is not None, "Windows looks at Ctrl+C only afterwards"
        raise KeyboardInterrupt

    monkeypatch.setattr(review, "ReviewServer", lambda *_, **__: nullcontext(server))
    monkeypatch.setattr("threading.Thread.join", join)
    review._serve(None, "", list)  # noqa: SLF001 - its command waits for a person
    assert ended.is_set()


def test_a_run_that_somebody_reviews_is_refused(call, folder, tmp_path):
    with lock(folder, part="review"):
        done = call("review", folder, "--export", tmp_path / "out.gpkg")
    assert done.exit_code == 3
    assert "is using this run folder" in done.stderr
