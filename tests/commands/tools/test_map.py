"""map: images in, a road network and a report out, with labels or with a network."""

import json
import re
import shlex
import shutil
from dataclasses import replace
from pathlib import Path

import geopandas as gpd
import numpy as np
import pandas as pd
import pytest
import rasterio
from affine import Affine
from pyproj import CRS
from starter_places import write_places

import roadseg
from roadseg.commands.stages.graph import DOUBTFUL
from roadseg.commands.tools import map as tool
from roadseg.commands.tools import status
from roadseg.config import load_config
from roadseg.errors import CheckpointError, ConfigError, DataError
from roadseg.raster.grid import Grid
from roadseg.raster.tiff import new_profile, open_new
from roadseg.report.scenes import read_scenes
from roadseg.roads.formats.files import read_gpkg
from roadseg.system.units import choose_units, shown_in
from roadseg.system.workspace import Workspace
from tests.configs import SMALL_TRAINING, assigned

QUICK = (
    *assigned("train", SMALL_TRAINING | {"minutes": None}),
    *("predict.window_px=128", "predict.overlap_px=32", "split.block_m=60", "graph.threshold=0.3"),
)


def silent(*_):
    """Say nothing."""


def map_labelled(folder, *images, output="map", labels="roads/*.geojson", say=silent):
    """Map images by a network that is trained on the labels in a folder."""
    images = [*map(str, images or [folder / "images"])]
    labels = [str(folder / labels)] if labels else []
    return tool.run(images, folder / output, labels=labels, settings=QUICK, say=say)


@pytest.fixture
def map_images(mapped, tmp_path):
    """Give a function that maps images without labels: by the network of the map with labels."""
    network = mapped[0] / "map/checkpoints/fold-0"

    def run(*images, output=tmp_path / "map", checkpoints=(network,), settings=(), say=silent):
        given = {"checkpoints": checkpoints, "settings": settings, "say": say}
        return tool.run([*map(str, images)], output, **given)

    return run


@pytest.fixture(scope="module")
def mapped(tmp_path_factory, write_city):
    """Map a tiny city from its labels, as one types it; return its folder and the summary."""
    folder = tmp_path_factory.mktemp("mapped")
    write_city(folder)
    said = []
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        summary = map_labelled(Path(), "images/", say=lambda name, _: said.append(name))
    return folder, summary, said


@pytest.mark.parametrize(
    ("project", "arguments"),
    [
        ("my map/roadseg.qgz", "roads.gpkg 'my map/roadseg.gpkg'"),
        ("", "labels/ 'my map/graphs'"),  # Without georeference.
    ],
)
def test_a_map_without_labels_tells_how_to_score_it(mapped, project, arguments):
    summary = replace(mapped[1], config="my map/roadseg.json", measured=None, project=project)
    assert f"known roads of the same ground: roadseg score {arguments}\n" in str(summary)


def test_the_map_of_several_images_can_be_scored_with_one_file_of_known_roads(mapped, call):
    folder, summary, _ = mapped
    files = sorted((folder / "roads").glob("*.geojson"))
    pd.concat(map(gpd.read_file, files)).to_file("roads.gpkg")
    config = str(folder / summary.config)
    words = str(replace(summary, config=config, measured=None)).partition("roadseg score ")[2]
    scored = call("score", "--json", *shlex.split(words.partition("\n")[0]))
    assert json.loads(scored.stdout)["pooled"]["reference"]["road_km"] > 0.6


def test_labels_give_a_network_that_is_measured_and_maps_all_images(mapped):
    folder, summary, said = mapped
    assert said == ["init", "prepare", "split", "train", "predict", "graph"]
    assert summary.scenes == 5
    assert summary.measured.chips >= 1
    assert "on 1 held-out chip" in str(summary)
    assert "next       roadseg review map (" in str(summary)
    spaced = replace(summary, config="my map/roadseg.json")
    assert "next       roadseg review 'my map' (" in str(spaced)
    assert "`roadseg improve` learns" in str(summary)
    assert "improve" not in str(replace(summary, can_improve=False))
    assert sum(summary.lengths.classes.values()) == pytest.approx(summary.graphs.road_km, abs=0.05)
    assert (folder / summary.project).is_file()
    assert {path.name for path in (folder / "map/graphs").glob("city_*.gpkg")} == {
        f"city_{number}.gpkg" for number in range(5)
    }
    assert (folder / "map/report.html").is_file()


def test_its_config_leads_every_other_command_to_the_same_folder(mapped):
    folder, _, _ = mapped
    config = load_config(folder / "map/roadseg.json")
    assert config.run == folder / "map"
    assert config.predict.scenes == "all"
    assert json.loads((folder / "map/roadseg.json").read_text())["run"] == "."


def test_the_same_call_does_nothing_again(mapped):
    folder, summary, _ = mapped
    weights = folder / "map/checkpoints/fold-0/best.safetensors"
    before = weights.stat().st_mtime_ns
    again = map_labelled(folder)
    assert weights.stat().st_mtime_ns == before
    assert again == replace(summary, config=again.config)


@pytest.mark.parametrize(("again", "minutes"), [(None, 0.5), (3.0, 3.0)])
def test_the_time_of_the_first_call_is_kept(write_city, tmp_path, monkeypatch, again, minutes):
    write_city(tmp_path)
    seen = []
    monkeypatch.setattr(tool.pipeline, "run", lambda config, *_, **__: seen.append(config) or 1 / 0)
    for given in (0.5, again):
        with pytest.raises(ZeroDivisionError):
            tool.run(
                [str(tmp_path / "images")],
                tmp_path / "map",
                labels=[str(tmp_path / "roads/*.geojson")],
                minutes=given,
                settings=["train.encoder_weights=null"],
                say=silent,
            )
        Workspace(tmp_path / "map").masks.mkdir(exist_ok=True)
    assert [config.train.minutes for config in seen] == [0.5, minutes]


def test_minutes_are_refused_if_nothing_is_trained(tmp_path):
    with pytest.raises(ConfigError, match="--minutes limits a training, expected --labels or"):
        tool.run(["a.tif"], tmp_path / "map", minutes=5, say=silent)


def test_a_project_that_was_moved_with_its_map_is_mapped_already(mapped, tmp_path, monkeypatch):
    folder, summary, _ = mapped
    moved = shutil.copytree(folder, tmp_path / "moved")
    monkeypatch.chdir(moved)
    again = map_labelled(Path(), "images/")
    assert again.graphs.folder == str(moved / "map/graphs")
    assert again.measured == summary.measured


def test_a_network_maps_images_without_labels(mapped, map_images, tmp_path, monkeypatch):
    said = []
    monkeypatch.chdir(mapped[0] / "images")
    summary = map_images(
        *("city_0.tif", "../images/city_1.tif"),
        settings=["graph.threshold=0.3"],
        say=lambda name, _: said.append(name),
    )
    assert said == ["init", "predict", "graph"]
    assert summary.measured is None
    assert "measured   not possible without labels" in str(summary)
    assert summary.scenes == 2
    graph = read_gpkg(tmp_path / "map/graphs/city_0.gpkg")
    assert summary.graphs.road_km >= graph.length_m.sum() / 1000 - 0.001
    assert "data:image" in (tmp_path / "map/report.html").read_text()
    stands = status.run(load_config(tmp_path / "map/roadseg.json"), tmp_path / "map")
    assert [(each.stage, each.state) for each in stands.stages] == [("report", "done")]
    assert str(stands).endswith(f"to correct it: roadseg review {tmp_path}/map")


@pytest.mark.parametrize(
    "words",
    [
        "graph --run map",
        "prepare --run map",
        "predict --run map",
        "train --fold each --run map",
        "run --dry-run --run map",
        "config check --config map/roadseg.json",
    ],
)
def test_a_stage_in_the_folder_of_a_map_without_labels_leads_back_to_the_map(
    call, tmp_path, write_nowhere, words
):
    (tmp_path / "map/probabilities").mkdir(parents=True)
    write_nowhere(np.zeros((3, 8, 8), np.uint8), name="city.tif")
    config = {"run": ".", "imagery": {"images": ["../city.tif"]}}
    (tmp_path / "map/roadseg.json").write_text(json.dumps(config))
    done = call(*words.split())
    assert done.exit_code == 2
    assert "map: is a map made without labels" in done.stderr
    assert re.search(r"repeat `roadseg map IMAGES --output \S*map`", done.stderr)


def test_an_image_that_is_skipped_is_told(mapped, map_images, tmp_path):
    (tmp_path / "broken.tif").write_text("no raster")
    settings = ["graph.threshold=0.3", "compute.on_error=skip"]
    image = mapped[0] / "images/city_0.tif"
    summary = map_images(image, tmp_path / "broken.tif", settings=settings)
    assert list(summary.failed) == ["broken"]
    assert summary.scenes == 1


def test_settings_of_a_map_without_labels_are_in_its_config(mapped, map_images, tmp_path):
    area = "imagery.area=-180,-90,180,90"
    map_images(mapped[0] / "images/city_0.tif", settings=[area, "graph.threshold=0.3"])
    config = load_config(tmp_path / "map/roadseg.json")
    assert (config.graph.threshold, config.imagery.area) == (0.3, "-180,-90,180,90")
    (report,) = status.run(config, tmp_path / "map").stages
    assert report.state == "done"


def test_a_map_is_told_in_the_units_of_its_config(mapped, map_images):
    with shown_in("metric"):
        map_images(mapped[0] / "images/city_0.tif", settings=("compute.units=miles",))
        choose_units("metric")
        assert " mi of roads" in str(map_images(mapped[0] / "images/city_0.tif").graphs)


def test_images_that_are_added_to_a_map_without_labels_are_in_its_config(
    mapped, map_images, tmp_path
):
    images = [mapped[0] / f"images/city_{number}.tif" for number in range(2)]
    for several in (images[:1], images, images[::-1]):
        map_images(*several)
    config = load_config(tmp_path / "map/roadseg.json")
    assert config.imagery.images == tuple(map(str, images))
    (scene,) = read_scenes(config, Workspace(config.run), ["city_1"], with_labels=False).scenes
    assert scene.image is not None


def test_an_image_that_is_gone_does_not_stay_in_a_map_without_labels(mapped, map_images, tmp_path):
    images = shutil.copytree(mapped[0] / "images", tmp_path / "images")
    map_images(images)
    (images / "city_1.tif").unlink()
    with pytest.raises(ConfigError, match=r"contains the map of .*; use another --output"):
        map_images(images)


def test_the_project_of_images_without_a_place_is_not_named(
    mapped, map_images, tmp_path, write_nowhere
):
    with rasterio.open(mapped[0] / "images/city_0.tif") as city:
        write_nowhere(city.read(), name="city.tif")
    assert "QGIS" not in str(map_images(tmp_path / "city.tif", settings=["imagery.gsd_m=1"]))


def blacken_border(image):
    with rasterio.open(image, "r+") as city:
        city.write(city.read() * (np.arange(city.height) >= 12)[:, np.newaxis])


def test_black_borders_are_no_data_in_a_map_without_labels_also_of_added_images(
    mapped, map_images, tmp_path
):
    images = tmp_path / "images"
    images.mkdir()
    for name, has_border in (("city_0", False), ("city_1", True)):
        image = shutil.copy(mapped[0] / f"images/{name}.tif", images)
        if has_border:
            blacken_border(image)
        map_images(images)
    with rasterio.open(tmp_path / "map/probabilities/city_1.tif") as made:
        assert not made.read_masks(1)[:12].any()


def test_black_borders_that_are_ground_stay_so_if_the_map_is_repeated(mapped, map_images, tmp_path):
    blacken_border(image := shutil.copy(mapped[0] / "images/city_0.tif", tmp_path))
    for settings in (["imagery.nodata=null"], []):
        map_images(image, settings=settings)
    with rasterio.open(tmp_path / "map/probabilities/city_0.tif") as made:
        assert made.read_masks(1)[:12].all()


def test_images_are_the_same_whatever_link_leads_to_them(mapped, map_images, tmp_path):
    (link := tmp_path / "link").symlink_to(mapped[0] / "images")
    assert map_images(link).graphs == map_images(mapped[0] / "images").graphs


@pytest.mark.parametrize("with_labels", [False, True])
def test_the_folder_of_a_map_may_be_a_link(mapped, map_images, tmp_path, monkeypatch, with_labels):
    project = shutil.copytree(mapped[0], tmp_path / "project", ignore=lambda *_: ["map"])
    (tmp_path / "large disk/map").mkdir(parents=True)
    (project / "map").symlink_to(tmp_path / "large disk/map")
    monkeypatch.chdir(project)
    for _ in range(2):
        summary = map_labelled(Path()) if with_labels else map_images("images", output=Path("map"))
    assert summary.scenes == 5
    assert json.loads((tmp_path / "large disk/map/roadseg.json").read_text())["run"] == "."


def test_images_that_show_the_same_ground_are_told(mapped, map_images, tmp_path, caplog):
    image = mapped[0] / "images/city_0.tif"
    again = shutil.copy(image, tmp_path / "again.tif")
    for name, images in {"one": [image], "two": [image, again]}.items():
        caplog.clear()
        map_images(*images, output=tmp_path / name)
        assert ("again and city_0 show the same ground: its roads count" in caplog.text) == (
            name == "two"
        )


@pytest.mark.parametrize(("apart_m", "is_told"), [(89, True), (91, False)])
def test_images_that_share_less_than_a_tenth_count_as_adjoining(caplog, apart_m, is_told):
    grids = {
        name: Grid(CRS.from_epsg(32611), Affine(1, 0, 660000 + left, 0, -1, 4000000), 100, 100)
        for name, left in (("a", 0), ("b", apart_m))
    }
    tool._tell_of_shared_ground(grids)  # noqa: SLF001
    assert ("a and b show the same ground" in caplog.text) == is_told


def test_a_map_without_roads_warns(checkpoint, mapped, map_images, caplog):
    image, settings = mapped[0] / "images/city_0.tif", ["graph.threshold=0.999"]
    summary = map_images(image, checkpoints=[checkpoint], settings=settings)
    assert summary.graphs.road_km == 0
    assert summary.confidence is None
    assert "almost no roads found" in caplog.text


def test_a_map_with_labels_and_few_roads_is_to_be_trained_longer(mapped, monkeypatch, caplog):
    monkeypatch.setattr(tool, "LEAST_DENSITY", 1000)
    map_labelled(mapped[0])
    assert "almost no roads found" in caplog.text
    assert "add labels with --labels" not in caplog.text
    assert "--minutes" in caplog.text


def test_labels_and_a_network_do_not_go_together(tmp_path):
    with pytest.raises(ConfigError, match="cannot be combined"):
        tool.run(["a.tif"], tmp_path / "map", labels=["a.gpkg"], checkpoints=[tmp_path], say=silent)
    assert not (tmp_path / "map").exists()


def test_without_labels_and_network_the_starter_maps_and_says_what_it_is(
    map_images, tmp_path, caplog
):
    write_places(tmp_path, [1001], size_px=512)
    image, settings = tmp_path / "images/place_1001.tif", ["graph.formats=gpkg"]
    summary = map_images(image, checkpoints=[], settings=settings)
    assert "mapped with the starter network, which was trained on other places" in caplog.text
    scores = roadseg.score(
        tmp_path / "roads/place_1001.geojson", tmp_path / "map/graphs/place_1001.gpkg"
    )
    assert scores.buffer.completeness > 0.6
    assert scores.buffer.correctness > 0.6
    assert summary.measured is None
    graph = read_gpkg(tmp_path / "map/graphs/place_1001.gpkg")
    assert set(graph.attributes["model"]) == {"starter"}
    assert set(graph.attributes["speed_known"]) == {0}
    assert set(graph.attributes["highway"]) == {"road"}
    confidence, length_m = graph.attributes["confidence"], graph.length_m
    assert summary.confidence == pytest.approx(np.average(confidence, weights=length_m))
    assert summary.doubtful == pytest.approx(np.average(confidence < DOUBTFUL, weights=length_m))


@pytest.mark.parametrize(("bands", "is_said"), [(3, False), (4, True)])
def test_it_is_said_which_of_many_bands_the_starter_takes(tmp_path, caplog, bands, is_said):
    path = tmp_path / "city.tif"
    grid = Grid(CRS.from_epsg(32611), Affine(0.5, 0, 660_000, 0, -0.5, 4_000_000), 64, 64)
    with open_new(path, new_profile(grid, count=bands, dtype="uint16")) as target:
        target.write(np.ones((bands, 64, 64), dtype=np.uint16))
    (tmp_path / "broken.tif").write_text("no raster")
    images = [str(tmp_path / "broken.tif"), str(path)]
    tool.tell_bands(load_config(None, [f"imagery.images={json.dumps(images)}"]))
    assert ("city.tif: has 4 bands, of which the first three" in caplog.text) == is_said


def test_a_missing_image_or_network_leaves_nothing_behind(checkpoint, mapped, map_images, tmp_path):
    with pytest.raises(DataError, match="does not exist, expected images; see IMAGES"):
        map_images(tmp_path / "a.tif", checkpoints=[checkpoint])
    with pytest.raises(CheckpointError, match="does not exist; run `roadseg train` first"):
        map_images(mapped[0] / "images/city_0.tif", checkpoints=[tmp_path])
    assert not (tmp_path / "map").exists()


def test_a_map_that_never_began_gives_way_to_another(mapped, map_images, tmp_path):
    (tmp_path / "map").mkdir()
    (tmp_path / "map/roadseg.json").write_text('{"run": ".", "imagery": {"images": ["/a.tif"]}}')
    assert map_images(mapped[0] / "images/city_0.tif").scenes == 1


def test_a_map_of_the_same_images_with_other_labels_is_kept(mapped):
    with pytest.raises(ConfigError, match=r"contains the map of .*geojson"):
        map_labelled(mapped[0], labels=None)


def test_the_map_of_other_images_is_kept(mapped):
    with pytest.raises(ConfigError, match=r"contains the map of .*images.*; use another --output"):
        map_labelled(mapped[0], mapped[0] / "images/city_0.tif")


def test_a_config_of_another_run_is_kept(mapped, map_images, tmp_path):
    own = tmp_path / "roadseg.json"
    own.write_text('{"labels": {"buffer_m": 7}}')
    with pytest.raises(ConfigError, match=r"roadseg\.json: is the config of the run .*; use anot"):
        map_images(mapped[0] / "images/city_0.tif", output=tmp_path)
    assert own.read_text() == '{"labels": {"buffer_m": 7}}'


def test_a_run_whose_config_lies_elsewhere_is_kept(mapped, map_images, tmp_path):
    (tmp_path / "prepare.json").write_text("{}")
    with pytest.raises(ConfigError, match="has a run whose config lies elsewhere; use another"):
        map_images(mapped[0] / "images/city_0.tif", output=tmp_path)


@pytest.mark.parametrize("change", [shutil.copy, shutil.move])
def test_a_map_with_labels_is_kept_if_its_folder_has_other_images(mapped, tmp_path, change):
    folder = shutil.copytree(mapped[0], tmp_path / "city")
    change(folder / "images/city_0.tif", folder / "images/city_9.tif")
    change(folder / "roads/city_0.geojson", folder / "roads/city_9.geojson")
    with pytest.raises(ConfigError, match=r"contains the map of .* use another --output"):
        map_labelled(folder)


def test_a_map_with_labels_goes_on_though_masks_lie_among_its_images(mapped, tmp_path):
    folder, _, _ = mapped
    masks = shutil.copytree(folder / "map/masks", tmp_path / "masks")
    said = []
    map_labelled(folder, folder / "images", masks, say=lambda name, _: said.append(name))
    assert "init" not in said
