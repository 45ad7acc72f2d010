import base64
import hashlib
import json
import re
import shutil
from contextlib import closing

import geopandas as gpd
import numpy as np
import pytest
import shapely
from affine import Affine
from click.testing import CliRunner
from PIL import Image
from pyproj import CRS

from roadseg.commands.cli.main import main
from roadseg.commands.stages import graph, report
from roadseg.config import load_config
from roadseg.errors import MissingInputError
from roadseg.report.page import as_data
from roadseg.review.edits import Edit, EditFile
from roadseg.system.workspace import Workspace
from tests.configs import changed, edited


def data_of(workspace):
    """Return what the page shows."""
    page = workspace.report.read_text(encoding="utf-8")
    return json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])


def only(workspace, *folders):
    """Remove all of a run but some folders."""
    for path in workspace.root.iterdir():
        if path.is_dir() and path.name not in folders:
            shutil.rmtree(path)
        elif path.is_file():
            path.unlink()


def test_the_page_is_one_file_that_names_no_other(finished):
    report.run(*finished, force=True)
    page = finished[1].report.read_text(encoding="utf-8")
    assert set(re.findall(r"https?://[\w./]+", page)) <= {"http://www.w3.org/2000/svg"}
    assert re.findall(r'(?:src|href)="(?!#|data:)', page) == []


@pytest.mark.parametrize("kind", ["style", "script"])
def test_only_the_style_and_script_of_the_page_are_allowed(finished, kind):
    report.run(*finished, force=True)
    page = finished[1].report.read_text(encoding="utf-8")
    content = re.search(rf"<{kind}>(.*?)</{kind}>", page, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
    assert f"{kind}-src 'sha256-{digest}'" in page
    assert "default-src 'none'" in page


def test_texts_of_the_data_cannot_end_the_script():
    hostile = "</script><script>alert(1)</script><!-- & "
    assert not set("<>&") & set(as_data({hostile: hostile}))
    assert json.loads(as_data({hostile: hostile})) == {hostile: hostile}


def test_it_shows_what_every_stage_left(finished):
    summary = report.run(*finished, force=True)
    shown = data_of(finished[1])
    assert summary.scenes == len(shown["map"]["scenes"]) == len(shown["scores"]["rows"])
    assert len(shown["training"][0]["epochs"]) == 2
    assert all(
        scene["layers"].keys() == {"image", "probability", "mask"}
        for scene in shown["map"]["scenes"]
    )
    assert shown["left_out"] == []


def test_the_time_of_a_training_is_that_of_all_its_parts(finished):
    workspace = finished[1]
    with edited(workspace.train_record(0)) as record:  # As after a training that was resumed.
        record["seconds"], record["summary"]["seconds"] = 1.0, 90.0
    report.run(*finished, force=True)
    assert data_of(workspace)["seconds"]["train"] == 90.0


def test_a_page_for_a_client_is_made_on_request_beside_a_report_that_is_up_to_date(finished):
    config, workspace = finished
    report.run(config, workspace, force=True)
    made = workspace.report.stat().st_mtime_ns
    assert not workspace.report_pdf.exists()
    summary = report.run(config, workspace, pdf=True)
    assert str(summary).endswith("report.pdf: one page of A4")
    assert workspace.report_pdf.read_bytes().startswith(b"%PDF")
    assert workspace.report.stat().st_mtime_ns == made
    assert report.run(config, workspace).pdf == ""


def test_edits_renew_the_package_and_a_broken_file_of_them_is_left_out(finished):
    config, workspace = finished
    report.run(config, workspace)
    crs = CRS.from_epsg(32611)
    with closing(EditFile(workspace.edits, crs)) as file:
        line = shapely.LineString([(660_000, 4_000_000), (660_050, 4_000_000)])
        file.add(Edit("draw", line), crs, who="Ana")
    report.run(config, workspace)
    (row,) = gpd.read_file(workspace.package, layer="edits").to_dict("records")
    assert (row["kind"], row["who"]) == ("draw", "Ana")
    workspace.edits.write_text("no edits")
    assert "edits.gpkg" in report.run(config, workspace).left_out[0]


@pytest.mark.parametrize("folders", [("graphs",), ("probabilities",)])
def test_a_page_for_a_client_needs_graphs_or_probabilities_alone(finished, folders):
    only(finished[1], *folders)
    assert report.run(*finished, pdf=True).pdf


def test_a_page_for_a_client_takes_polygons_beside_its_map(finished, tmp_path, caplog):
    config, workspace = finished
    ground = gpd.read_file(workspace.package, layer="scenes").geometry.iloc[[0]]
    shapes = [ground.iloc[0], shapely.transform(ground.iloc[0], lambda xy: xy + 5000)]
    gpd.GeoDataFrame({"name": ["here", "there"]}, geometry=shapes, crs=ground.crs).to_file(
        tmp_path / "area.gpkg"
    )
    config = changed(config, "imagery", area=str(tmp_path / "area.gpkg"))
    summary = report.run(config, workspace, pdf=True)
    assert list(summary.lengths.areas) == ["here", "there"]
    assert "images show only a part of there (0 %); lengths of roads are of this" in caplog.text
    assert workspace.report_pdf.exists()


def test_that_images_show_a_part_of_a_single_area_is_said(finished, caplog):
    config, workspace = finished
    west, south, east, north = (
        gpd.read_file(workspace.package, layer="scenes").to_crs(4326).total_bounds
    )
    area = f"{west},{south},{east},{2 * north - south}"
    report.run(changed(config, "imagery", area=area), workspace)
    assert re.search(r"images show only a part of the area to work in \(\d+ %\)", caplog.text)


def test_the_page_counts_the_ground_in_the_area_to_work_in(finished, draw_area):
    config, workspace = finished
    report.run(config, workspace)
    whole = data_of(workspace)["km2"]
    (row,) = gpd.read_file(workspace.package, layer="scenes").itertuples()
    west, south, east, north = row.geometry.bounds
    half = shapely.box(west, south, (west + east) / 2, north)
    crs = gpd.read_file(workspace.package, layer="scenes").crs
    config = changed(config, "imagery", area=draw_area("area.gpkg", half, crs=crs))
    report.run(config, workspace)
    assert data_of(workspace)["km2"] == pytest.approx(whole / 2)


def test_it_is_made_again_only_if_something_changed(finished):
    config, workspace = finished
    report.run(config, workspace)
    made = workspace.report.stat().st_mtime_ns
    report.run(config, workspace)
    assert workspace.report.stat().st_mtime_ns == made
    workspace.evaluation.write_text("chip,iou\n")
    report.run(config, workspace)
    assert workspace.report.stat().st_mtime_ns != made


@pytest.mark.parametrize(
    ("kept", "has_graphs", "layers"),
    [("graphs", True, set()), ("probabilities", False, {"probability", "mask"})],
)
def test_graphs_or_probabilities_alone_are_shown(finished, kept, has_graphs, layers):
    config, workspace = finished
    graph.run_images(config, [str(workspace.mask("city_0"))], output=workspace.graphs)
    only(workspace, kept)
    report.run(load_config(None), workspace)
    shown = data_of(workspace)
    assert bool(shown["map"]["graphs"]) == has_graphs
    (scene, *_) = shown["map"]["scenes"]
    assert set(scene["layers"]) == layers
    assert (scene["confidence"] or 0) > 0.5 if has_graphs else scene["confidence"] is None
    assert shown["scores"] is shown["quality"]["facts"] is None


def test_the_output_of_graph_is_shown_as_it_lies(finished, report_of):
    _, shown = report_of([str(finished[1].mask("city_0"))])
    assert [scene["name"] for scene in shown["scenes"]] == ["city_0"]


@pytest.fixture
def half_streets(write_raster):
    """Give a function that writes the halves of a street, 150 m long, as masks that touch."""

    def write(east_m=0, epsg=32611):
        band = np.zeros((100, 150), dtype=np.uint8)
        band[46:54] = 1
        paths = []
        for col in (0, 150):
            place = Affine(0.5, 0, 660000 + east_m + col / 2, 0, -0.5, 4000000)
            name = f"tile_{east_m}_{col}.tif"
            paths.append(str(write_raster(band, name=name, crs=f"EPSG:{epsg}", transform=place)))
        return paths

    return write


@pytest.fixture
def report_of(tmp_path):
    """Give a function that traces masks into a folder without a run, and reports on it.

    It returns the summary, and what the page shows.
    """

    def run(masks):
        loose = Workspace(tmp_path / "out")
        graph.run_images(load_config(None), masks, output=loose.root)
        summary = report.run(load_config(None), loose)
        return summary, data_of(loose)["map"]

    return run


def test_scenes_that_touch_are_shown_as_their_network(half_streets, report_of):
    (shown,) = report_of(half_streets())[1]["graphs"]
    assert (shown["name"], shown["scenes"]) == ("network", ["tile_0_0", "tile_0_150"])
    assert len(shown["ends"]) == 2  # a street from end to end


def test_a_scene_whose_image_was_removed_from_the_run_is_not_shown(finished):
    config, workspace = finished
    (kept,) = workspace.graphs.glob("*.gpkg")
    shutil.copy(kept, workspace.graph("removed"))
    shutil.copy(workspace.probability(kept.stem), workspace.probability("removed"))
    report.run(config, workspace, force=True)
    assert [scene["name"] for scene in data_of(workspace)["map"]["scenes"]] == [kept.stem]


def test_a_network_of_two_places_is_shown_on_the_map_of_each(half_streets, report_of):
    shown = report_of(half_streets() + half_streets(east_m=90_000))[1]["graphs"]
    assert [found["area"] for found in shown] == [0, 1]
    assert [len(found["ends"]) for found in shown] == [2, 2]


def test_roads_of_a_network_have_their_lengths_however_far_apart_they_are(half_streets, report_of):
    summary, _ = report_of(half_streets() + half_streets(east_m=1000, epsg=32631))
    assert sum(summary.lengths.classes.values()) == pytest.approx(0.3, abs=0.002)


def test_the_map_of_folds_is_no_graph_of_a_run_that_is_only_prepared(finished):
    config, workspace = finished
    shutil.rmtree(workspace.graphs)
    shutil.rmtree(workspace.probabilities)
    with pytest.raises(MissingInputError, match="contains neither graphs nor probabilities"):
        report.run(config, workspace)


def test_pictures_are_made_smaller_until_the_page_fits(finished, monkeypatch):
    config, workspace = finished
    noise = np.random.default_rng(0).integers(0, 256, (500, 500, 3), dtype=np.uint8)
    Image.fromarray(noise).save(workspace.quality / "sheet_01.png")
    report.run(config, workspace, force=True)
    whole = workspace.report.stat().st_size
    most = int(whole * 0.8)
    monkeypatch.setattr(report, "_MOST_BYTES", most)
    report.run(config, workspace, force=True)
    assert workspace.report.stat().st_size <= most


def test_a_page_without_room_for_images_has_all_roads_and_says_so(finished, monkeypatch, caplog):
    config, workspace = finished
    monkeypatch.setattr(report, "_MOST_BYTES", 10_000)
    report.run(config, workspace, force=True)
    assert "no room for images; roadseg.qgz shows them" in caplog.text
    assert data_of(workspace)["map"]["scenes"][0]["layers"] == {}


def test_the_page_says_that_what_it_shows_is_out_of_date(finished):
    config, workspace = finished
    assert data_of(workspace)["outdated"] == ""
    report.run(changed(config, "graph", threshold=0.9), workspace)
    assert "report uses what graph made with other settings" in data_of(workspace)["outdated"]


def test_a_list_of_scenes_that_cannot_be_read_is_told_in_the_page(finished):
    config, workspace = finished
    workspace.chips.write_text("{}")
    summary = report.run(config, workspace)
    assert "chips.json" in summary.left_out[0]
    (told,) = data_of(workspace)["left_out"]
    assert told.startswith("run/chips.json: ")
    assert summary.left_out[0].endswith(told)


def test_a_folder_of_graphs_needs_no_config(finished, tmp_path, monkeypatch):
    config, workspace = finished
    graph.run_images(config, [str(workspace.mask("city_0"))], output=workspace.graphs)
    only(workspace, "graphs")
    empty = tmp_path / "elsewhere"
    empty.mkdir()
    monkeypatch.chdir(empty)
    result = CliRunner().invoke(main, ["report", "--run", str(workspace.root), "--json"])
    assert result.exit_code == 0
    assert json.loads(result.stdout)["path"] == str(workspace.report)
    assert workspace.report.is_file()


def test_the_package_beside_the_graphs_of_a_flat_folder_is_no_scene(finished, tmp_path):
    config, workspace = finished
    flat = tmp_path / "flat"
    graph.run_images(config, [str(workspace.mask("city_0"))], output=flat)
    counts = [report.run(config, Workspace(flat), force=True).scenes for _ in range(2)]
    assert (flat / "roadseg.gpkg").exists()
    assert counts == [1, 1]
