import json
import shutil

import numpy as np
import pytest
from matplotlib.image import imread
from pyproj import CRS

from roadseg.commands.tools import plot
from roadseg.config import Config
from roadseg.errors import ConfigError, DataError, MissingInputError
from roadseg.report.plots.figures import Paper
from roadseg.roads.formats.by_suffix import write_graphs
from roadseg.roads.graph.road_graph import graph_from_lines
from roadseg.roads.graph.travel import add_travel
from roadseg.system.workspace import Workspace

SMALL = Paper(width_in=2, dpi=50)


def held_out(workspace):
    return json.loads(workspace.record("predict").read_text())["summary"]["scenes"]


@pytest.fixture
def files(make_scene, tmp_path):
    """Return labels, an image and a graph of one place, and a folder to write to."""
    image, labels = make_scene(tmp_path, "city")
    predicted = tmp_path / "predicted.geojson"
    shutil.copy(labels, predicted)
    return {"graph": predicted, "labels": labels, "image": image, "output": tmp_path / "out"}


def test_every_scene_held_out_has_a_picture_of_every_kind(finished):
    config, workspace = finished
    summary = plot.run(config, workspace, paper=SMALL)
    names = [f"{scene}_{kind}.png" for scene in held_out(workspace) for kind in plot.KINDS]
    assert sorted(path.name for path in workspace.plots.iterdir()) == sorted(names)
    assert str(summary).startswith(f"{len(names)} figures:")


def test_no_more_scenes_are_drawn_than_the_settings_say(finished):
    config, workspace = finished
    few = config.model_copy(update={"evaluate": config.evaluate.model_copy(update={"pictures": 0})})
    assert plot.run(few, workspace, paper=SMALL).pictures == ()


def test_one_picture_can_be_a_file(finished, tmp_path):
    config, workspace = finished
    options = {"kinds": ["graph"], "scene": held_out(workspace)[0], "paper": SMALL}
    plot.run(config, workspace, output=tmp_path / "a.svg", **options)
    assert (tmp_path / "a.svg").read_bytes().startswith(b"<?xml")


def test_several_pictures_do_not_fit_into_one_file(finished, tmp_path):
    with pytest.raises(
        ConfigError, match=r"a\.png: one file cannot contain 2 figures; choose one kind"
    ):
        plot.run(
            *finished,
            kinds=["graph", "errors"],
            scene=held_out(finished[1])[0],
            output=tmp_path / "a.png",
        )


def test_a_folder_with_roads_of_several_places_is_refused(files):
    folder = files["labels"].parent
    shutil.copy(files["labels"], folder / "town.geojson")
    with pytest.raises(DataError, match="roads: contains roads of 2 places, expected one"):
        plot.run_files(graph=folder, output=files["output"])


def test_an_unknown_scene_is_told_with_one_that_is_near(finished):
    with pytest.raises(ConfigError, match="no scene of that name; did you mean city_3"):
        plot.run(*finished, scene="citi_3")


def test_without_graphs_the_stage_before_is_named(finished):
    finished[1].record("graph").unlink()
    with pytest.raises(MissingInputError, match="run `roadseg graph` first"):
        plot.run(*finished)


def test_a_picture_has_the_size_that_was_asked_for(finished, tmp_path):
    config, workspace = finished
    options = {"kinds": ["graph"], "scene": held_out(workspace)[0]}
    plot.run(config, workspace, output=tmp_path / "a.png", paper=Paper(3, 60), **options)
    assert imread(tmp_path / "a.png").shape[1] == 180


def test_files_without_a_run_are_drawn(files):
    summary = plot.run_files(**files, paper=SMALL)
    name = files["image"].stem
    expected = [str(files["output"] / f"{name}_{kind}.png") for kind in plot.KINDS]
    assert list(summary.pictures) == expected


@pytest.mark.parametrize(
    ("given", "kinds"),
    [
        (["image"], ["scene"]),
        (["graph"], ["graph"]),
        (["graph", "labels"], ["graph", "errors"]),
        (["labels", "image"], ["scene"]),
    ],
)
def test_files_decide_what_can_be_drawn(files, given, kinds):
    chosen = {name: files[name] for name in given}
    summary = plot.run_files(**chosen, output=files["output"], paper=SMALL)
    assert [path.rpartition("_")[2] for path in summary.pictures] == [f"{k}.png" for k in kinds]


def test_a_file_to_draw_is_not_overwritten(files):
    with pytest.raises(ConfigError, match="is a file to read"):
        plot.run_files(**files | {"output": files["labels"]})


def test_a_kind_whose_file_is_missing_is_refused(files):
    with pytest.raises(ConfigError, match="plot errors also needs --labels"):
        plot.run_files(graph=files["graph"], kinds=["errors"], output=files["output"])


def test_labels_alone_draw_nothing(files):
    with pytest.raises(ConfigError, match="plot graph also needs --graph"):
        plot.run_files(labels=files["labels"], output=files["output"])


def test_roads_of_another_place_are_refused(files, make_scene, tmp_path):
    image, _ = make_scene(tmp_path / "far", "far", origin=(670000.0, 4000000.0))
    with pytest.raises(DataError, match="none of its roads lies on the image; their extent is lon"):
        plot.run_files(graph=files["graph"], image=image, output=files["output"])


def test_a_graph_without_roads_and_image_is_refused(tmp_path):
    empty = graph_from_lines(np.array([], dtype=object), CRS.from_epsg(32611))
    write_graphs(tmp_path, "empty", add_travel(empty, np.array([])), formats=["gpkg"])
    graph = tmp_path / "empty.gpkg"
    with pytest.raises(DataError, match="no roads to draw; add --image"):
        plot.run_files(graph=graph, output=tmp_path / "out")


def test_a_map_without_labels_is_drawn_from_its_files(tmp_path):
    (tmp_path / "graphs").mkdir()
    with pytest.raises(ConfigError, match=r"a map without labels .* --graph, --image and --out"):
        plot.run(Config(), Workspace(tmp_path))
