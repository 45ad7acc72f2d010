"""improve: edits of a review become labels, and the new run keeps them."""

import json
import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import rasterio
import shapely
from affine import Affine
from geopandas import read_file
from pyproj import CRS

from roadseg.commands.stages import prepare, split
from roadseg.commands.tools import improve
from roadseg.config import load_config
from roadseg.dataset.chips import ChipList, read_chips, write_chips
from roadseg.dataset.fold_files import read_fold_file, write_folds
from roadseg.errors import ConfigError, DataError, MissingInputError, OutputError
from roadseg.raster.grid import Grid, reproject
from roadseg.raster.images import read_grid
from roadseg.review import held_out, training_ground
from roadseg.review.edits import Edit, EditFile
from roadseg.review.masks import Decided
from roadseg.roads.formats.files import read_gpkg, write_gpkg
from roadseg.roads.masks.mask_files import read_mask
from roadseg.roads.speeds import DEFAULT_BINS
from roadseg.system.locks import lock
from roadseg.system.workspace import Workspace
from tests.configs import changed, edited
from tests.drawing import chip_at, drawn


def edit(workspace, *edits):
    """Leave edits in a run, whose lines are in the CRS of its graphs."""
    crs = read_gpkg(next(workspace.graphs.glob("*.gpkg"))).crs
    file = EditFile(workspace.edits, crs)
    for each in edits:
        file.add(each, crs, who="Ana")
    file.close()


def line_across(workspace, name):
    """Draw a line from one corner of a scene to the other."""
    west, south, east, north = shapely.bounds(read_grid(workspace.mask(name)).footprint_m)
    return shapely.LineString([(west + 1, south + 1), (east - 1, north - 1)])


def draw_across(workspace, name=None):
    """Draw a road across a scene that has a graph; return its name and the line."""
    name = name or next(workspace.graphs.glob("*.gpkg")).stem
    line = line_across(workspace, name)
    edit(workspace, Edit("draw", line, width_m=6.0))
    return name, line


def run(finished, output):
    return improve.run(*finished, output, minutes=1, say=lambda *_: None)


@pytest.fixture
def plan(tmp_path, monkeypatch):
    """Give a function that plans a run and moves it, and returns the values of its config."""

    def call(config, workspace):
        monkeypatch.setattr(improve.pipeline, "run", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run((config, workspace), tmp_path / "new")
        moved = (tmp_path / "new").rename(tmp_path / "moved")
        return load_config(moved / "roadseg.json").model_dump(mode="json")

    return call


def test_without_a_review_it_is_named(finished, tmp_path):
    with pytest.raises(MissingInputError, match=r"edits\.gpkg.*run `roadseg review [^`]+` first"):
        run(finished, tmp_path / "new")


def test_edits_that_decide_nothing_are_not_learned(finished, tmp_path):
    far = shapely.LineString([(0, 0), (10, 10)])
    edit(finished[1], Edit("draw", far))
    with pytest.raises(DataError, match="no edit accepts, rejects or draws a road on these images"):
        run(finished, tmp_path / "new")


def test_edits_that_cannot_be_used_are_named_before_the_training(finished, tmp_path, caplog):
    workspace = finished[1]
    edit(workspace, Edit("draw", shapely.LineString([(0, 0), (10, 10)])))
    with sqlite3.connect(workspace.edits) as file:
        file.execute("UPDATE edits SET kind = 'remove'")
    with pytest.raises(DataError, match="no edit accepts"):
        run(finished, tmp_path / "new")
    assert "edits.gpkg: left out: row 1: kind is 'remove', expected one of" in caplog.text


def test_that_nothing_was_decided_on_held_out_ground_is_said_in_one_line():
    none = improve.Found(0.0, 0.0, 0.0)
    summary = improve.ImproveSummary("city-2", 1, none, none, none, ["city-2/roads.gpkg"])
    assert str(summary).splitlines()[0] == (
        "measured  not possible: nothing was decided on the held-out chips"
    )


def test_the_folder_of_another_process_is_left_alone(finished, tmp_path):
    draw_across(finished[1])
    with lock(tmp_path / "new"), pytest.raises(OutputError, match="is using this run folder"):
        run(finished, tmp_path / "new")
    assert not (tmp_path / "new/masks").exists()


@pytest.mark.parametrize(
    ("old", "new"), [("city", "city-2"), ("city-2", "city-3"), ("a-b", "a-b-2")]
)
def test_a_new_run_has_the_next_number(tmp_path, old, new):
    assert improve.next_folder(tmp_path / old) == tmp_path / new


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        ([0.31, 0.18, 0.25, 0.23, 0.01, 0.02], [1]),
        ([0.97, 0.01, 0.02], [2]),
        ([0.48, 0.03, 0.49], [1]),  # Another one would be half of all.
        ([0.5, 0.5], [0]),
        ([0.2, 0.01, 0.2, 0.01, 0.2, 0.01, 0.16, 0.01, 0.19, 0.01], [1, 8]),  # Many and few.
        ([0.0, 0.4, 0.0, 0.4, 0.2], [4]),
        ([0.0, 0.0, 0.4, 0.0, 0.4, 0.2, 0.0, 0.0], [5, 7]),  # The fifth without, too.
        ([0.0, 0.55, 0.45, 0.0], [2]),  # Not one without any decision, which is nearer to a fifth.
    ],
)
def test_a_fifth_of_the_places_is_held_out_with_about_a_fifth_of_the_decisions(shares, expected):
    assert np.flatnonzero(held_out.choose_held_out(np.array(shares))).tolist() == expected


def test_ground_that_a_network_was_trained_on_is_not_held_out_later(
    finished, tmp_path, monkeypatch
):
    config, workspace = finished
    chips = read_chips(workspace.chips).chips
    # Not those of the config, as of fewer chips; of less than three, one leaves none to train on.
    folds = {chip.name: fold for fold, chip in enumerate(reversed(chips))}
    write_folds(workspace.folds, folds)
    config = changed(config, "split", buffer_m=150.0)
    draw_across(workspace, chips[0].scene)
    output = tmp_path / "new"

    def prepare_and_split(config, made, **_):
        prepare.run(config, made)
        split.run(config, made)
        raise KeyboardInterrupt

    monkeypatch.setattr(improve.pipeline, "run", prepare_and_split)
    with pytest.raises(KeyboardInterrupt):
        run((config, workspace), output)
    assert json.loads((output / "folds.json").read_text()) == folds


def chips_at(*east_m):
    """Return chips of 10 m that begin so far east."""
    options = {"side_m": 10.0, "scene": "scene", "road_share": 0.0}
    return [chip_at(str(at), x, 10.0, **options) for at, x in enumerate(east_m)]


def test_chips_that_show_the_same_ground_share_a_fold(tmp_path, monkeypatch):
    found = ChipList((), tuple(chips_at(0, 5, 20, 25, 40)), DEFAULT_BINS)
    monkeypatch.setattr(improve.prepare, "run", lambda *_: None)
    monkeypatch.setattr(improve, "read_chips", lambda _: found)
    (tmp_path / "edit_masks").mkdir()
    decided = SimpleNamespace(name="scene", decided=shapely.box(0, 0, 50, 10))
    config = improve._with_new_folds(load_config(None), Workspace(tmp_path), [decided])  # noqa: SLF001
    fold_of = read_fold_file(config.split.file)
    assert fold_of == {"0": 1, "1": 1, "2": 1, "3": 1, "4": 0}


def test_of_new_ground_a_fifth_is_held_out():
    chips = chips_at(*range(0, 120, 10))
    folds = held_out.kept_folds(chips, chips[:2], {"0": 0, "1": 1})
    assert folds == [0, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 0]


def test_folds_are_kept_without_gaps_in_their_numbers():
    chips = chips_at(0, 10)
    assert held_out.kept_folds(chips, chips, {"0": 0, "1": 3}) == [0, 1]


@pytest.mark.parametrize(
    ("is_itself", "name"),
    [(True, "roadseg.json"), (False, "roadseg.json"), (False, "prepare.json")],
)
def test_no_run_is_replaced(finished, tmp_path, monkeypatch, is_itself, name):
    output = finished[1].root if is_itself else tmp_path / "other"
    output.mkdir(exist_ok=True)
    config = output / name
    config.write_text("{}")
    draw_across(finished[1])
    monkeypatch.setattr(improve.pipeline, "run", lambda *_, **__: 1 / 0)
    with pytest.raises(ConfigError, match="; use another --output"):
        run(finished, output)
    assert config.read_text() == "{}"


def test_a_run_of_other_edits_is_left_alone(finished, tmp_path):
    edit(finished[1])
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "edits.gpkg").write_bytes(b"others")
    with pytest.raises(ConfigError, match=r"new: has a run that was not made from .*edits\.gpkg"):
        run(finished, tmp_path / "new")


def test_no_config_is_there_before_the_edits_by_which_its_run_goes_on(
    finished, tmp_path, monkeypatch
):
    draw_across(finished[1])
    monkeypatch.setattr(shutil, "copyfile", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run(finished, tmp_path / "new")
    assert not (tmp_path / "new" / "roadseg.json").exists()


@pytest.fixture
def planned(finished, plan):
    """Give a function that plans the run of edits in one of two images, whose other is only mapped.

    It takes the size of the pixels in which the other was mapped, in its own, and returns the
    config, the names of both, and the grid of the other.
    """

    def call(scale):
        config, workspace = finished
        (known,) = workspace.probabilities.glob("*.tif")
        mask = next(path for path in workspace.masks.glob("*.tif") if path.name != known.name)
        other, grid = workspace.probability(mask.stem), read_grid(mask)
        shutil.copy(known, other)
        with rasterio.open(other, "r+", IGNORE_COG_LAYOUT_BREAK="YES") as raster:
            raster.transform = grid.transform @ Affine.scale(scale)
        with edited(workspace.record("predict")) as record:
            record["summary"]["scenes"].append(mask.stem)
        mask.unlink()
        draw_across(workspace, known.stem)
        return plan(config, workspace), known.stem, other.stem, grid

    return call


def test_beside_labels_images_without_labels_and_edits_are_mapped_but_not_learned_from(planned):
    config, known, other, _ = planned(1.0)
    labels = config["labels"]
    images, masks = (
        {Path(path).stem for path in paths}
        for paths in (config["imagery"]["images"], labels["roads"])
    )
    assert {known, other} <= images == masks
    assert set(read_file(labels["area"][0])["scene"]) == images - {other}


def test_a_doubtful_road_beside_a_decided_one_is_not_learned_from(
    finished, draw_area, tmp_path, monkeypatch
):
    config, workspace = finished
    name = next(workspace.graphs.glob("*.gpkg")).stem
    grid = read_grid(workspace.mask(name))
    west, south, east, _ = grid.footprint_m.bounds
    roads = [[(west, south + y), (east, south + y)] for y in (30, 37)]
    columns = {"speed_kph": 40.0, "width_m": 4.0, "confidence": [0.9, 0.1]}
    columns = {key: np.broadcast_to(value, 2) for key, value in columns.items()}
    graph = drawn(*roads, crs=grid.metric_crs, **columns)
    write_gpkg(workspace.graph(name), graph)
    corner = draw_area(
        "known.gpkg", shapely.box(west, south, west + 9, south + 9), crs=grid.metric_crs
    )
    labels = config.labels.model_copy(update={"area": (corner,)})
    edit(workspace, Edit("accept", graph.lines[0], width_m=4.0))
    monkeypatch.setattr(improve, "_with_kept_folds", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run((config.model_copy(update={"labels": labels}), workspace), tmp_path / "new")
    area = read_file(tmp_path / "new" / "edit_masks" / "area.geojson").set_index("scene")
    ground = area.to_crs(grid.metric_crs).geometry[name]
    middles = shapely.line_interpolate_point(graph.lines, 0.5, normalized=True)
    assert shapely.intersects(ground, middles).tolist() == [True, False]


def test_an_image_of_which_nothing_was_learned_before_is_one_without_labels(
    finished, tmp_path, monkeypatch
):
    workspace = finished[1]
    name = next(workspace.graphs.glob("*.gpkg")).stem
    with rasterio.open(workspace.mask(name), "r+") as mask:
        mask.write(np.full(mask.shape, 255, dtype=np.uint8), 1)
    listed = read_chips(workspace.chips)
    others = tuple(chip for chip in listed.chips if chip.scene != name)
    write_chips(workspace.chips, listed.scenes, others, listed.bins)
    draw_across(workspace, name)
    monkeypatch.setattr(improve, "_with_kept_folds", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run(finished, tmp_path / "new")
    learned = read_mask(tmp_path / "new" / "edit_masks" / f"{name}.tif")
    assert {0, 255} < set(np.unique(learned).tolist())
    assert (learned == 0).mean() > 0.5


def test_the_card_of_a_network_without_labels_will_name_pseudo_labels(
    finished, tmp_path, monkeypatch
):
    workspace = finished[1]
    shutil.rmtree(workspace.masks)
    name = next(workspace.graphs.glob("*.gpkg")).stem
    grid = read_grid(workspace.probability(name))
    west, south, east, north = grid.footprint_m.bounds
    edit(workspace, Edit("draw", shapely.LineString([(west, south), (east, north)]), width_m=6.0))
    planned = []
    monkeypatch.setattr(improve, "_with_new_folds", lambda config, *_: planned.append(config))
    with pytest.raises(AttributeError):  # It plans nothing.
        run(finished, tmp_path / "new")
    assert planned[0].labels.licence.startswith("none: decisions of a review, and pseudo-labels")


def test_without_labels_the_nearest_other_ground_is_learned_from_as_well():
    utm = CRS.from_epsg(32611)
    line = shapely.LineString([(480_010, 3_650_050), (480_090, 3_650_050)])
    sure = shapely.LineString([(480_310, 3_650_050), (480_990, 3_650_050)])
    states, of_each = np.array(["drawn", "sure"], dtype=object), np.array([6.0, 6.0])
    roads = Decided(utm, np.array([line, sure]), states, of_each, of_each)

    def scene(west, ground_m=0.0):
        grid = Grid(utm, Affine(1, 0, 480_000 + west, 0, -1, 3_650_100), 100, 100)
        ground = shapely.Polygon()
        if ground_m:
            ground = shapely.box(480_000, 3_650_000, 480_000 + ground_m, 3_650_000 + ground_m)
        path = Path(str(west))
        return training_ground.TrainingScene(
            *(str(west), "", path, path, None, roads, grid),
            decided=ground,
            ground=ground,
        )

    # Of ground of 0.36 ha, ten times as much has room for the rest of its image and two more. The
    # image without any road would be the nearest.
    scenes = [scene(900), scene(300), scene(0, 60.0), scene(500), scene(150)]
    complete = training_ground.with_more_ground(scenes, [roads])
    assert [each.ground.area for each in complete] == [0, 10_000, 10_000, 10_000, 0]


def test_of_a_large_image_ground_around_that_of_the_edits_is_learned_from_as_well():
    utm = CRS.from_epsg(32611)
    line = shapely.LineString([(480_200, 3_650_300), (480_400, 3_650_300)])
    roads = Decided(utm, np.array([line]), np.array(["drawn"]), np.array([6.0]), np.array([0.0]))
    grid = Grid(utm, Affine(2, 0, 480_000, 0, -2, 3_653_000), 1500, 1000)
    ground = shapely.box(480_100, 3_650_100, 480_400, 3_650_400)
    path = Path("city.tif")
    scene = training_ground.TrainingScene("city", "", path, path, None, roads, grid, ground, ground)
    (complete,) = training_ground.with_more_ground([scene], [roads])
    # Blocks of 500 m, the nearest first, up to 0.99 km2 with the ground of 0.09 km2.
    own_and_east, north = (0, 0, 1000, 500), (0, 500, 500, 1000)
    west, south = 480_000, 3_650_000
    expected = [
        shapely.box(west + x0, south + y0, west + x1, south + y1)
        for x0, y0, x1, y1 in (own_and_east, north)
    ]
    assert shapely.equals(complete.ground, shapely.union_all(expected))


@pytest.mark.parametrize(("made_by", "has_chips"), [("predict", True), ("map", False)])
def test_an_edited_image_without_labels_needs_its_probabilities(
    finished, tmp_path, made_by, has_chips
):
    workspace = finished[1]
    if not has_chips:
        workspace.chips.unlink()
    name, _ = draw_across(workspace)
    workspace.mask(name).unlink()
    workspace.probability(name).unlink(missing_ok=True)
    with pytest.raises(MissingInputError, match=rf"{name}\.tif.*run `roadseg {made_by}` first"):
        run(finished, tmp_path / "new")


def test_images_are_resampled_as_in_the_map_if_the_first_had_the_pixels_of_its_network(planned):
    config, *_, grid = planned(0.5)
    assert config["imagery"]["gsd_m"] == pytest.approx(grid.pixel_size_m[0] / 2, rel=1e-3)


def test_a_map_of_the_first_of_many_bands_is_improved_with_these(finished, plan, monkeypatch):
    draw_across(finished[1])
    facts = {"bands": [1, 2, 3]}  # Of images with more, which the config does not choose from.
    monkeypatch.setattr(improve, "read_checkpoint_facts", lambda *_: facts)
    assert plan(*finished)["imagery"]["bands"] == [1, 2, 3]


def test_images_without_a_crs_lie_where_the_config_says(finished, tmp_path, plan):
    config, workspace = finished
    listed, scenes = read_chips(workspace.chips), []
    for scene in listed.scenes:
        image = shutil.copy(scene.image, tmp_path / scene.image.name)
        crs = read_grid(image).crs.to_string()
        with rasterio.open(image, "r+") as raster:
            raster.crs = rasterio.CRS()
        scenes.append(replace(scene, image=image))
    write_chips(workspace.chips, scenes, listed.chips, listed.bins)
    draw_across(workspace)
    plan(changed(config, "imagery", crs=crs, gsd_m=None), workspace)


@pytest.mark.slow
def test_a_run_goes_on_with_its_edits_and_its_network(finished, tmp_path):
    config, workspace = finished
    config = changed(config, "train", decoder_channels=None, encoder="resnet34")
    name, drawn = draw_across(workspace)
    crs = read_grid(workspace.mask(name)).metric_crs
    output = tmp_path / "new"
    summary = run((config, workspace), output)
    assert summary.edited_scenes >= 1
    made = Workspace(output)
    assert made.edits.read_bytes() == workspace.edits.read_bytes()
    assert (output / "roads.gpkg").exists()
    kept = read_gpkg(output / "roads.gpkg")
    (line,) = reproject(np.array([drawn], dtype=object), crs, kept.crs)
    along = shapely.intersection(shapely.union_all(kept.lines).buffer(1.0), line)
    assert shapely.length(along) == pytest.approx(line.length, rel=0.01)
    # The same call finds everything done.
    assert run(finished, output) == summary
