"""Stages in an area to work in: what it touches is as without it, all else has no data."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import rasterio
import shapely
from affine import Affine
from click.testing import CliRunner
from rasterio.features import rasterize

import roadseg
from roadseg.commands.cli.main import main
from roadseg.commands.stages import evaluate, graph, pipeline, predict, prepare
from roadseg.commands.stages.declared_stages import declared_stage
from roadseg.config import load_config
from roadseg.errors import DataError
from roadseg.learn.inference.sliding_window import spread_starts
from roadseg.raster import pixels as reading
from roadseg.raster import strips
from roadseg.raster.pixels import read_part
from roadseg.report.scenes import read_scenes
from roadseg.roads.formats.files import read_gpkg
from roadseg.roads.masks.burning import IGNORE
from roadseg.roads.masks.mask_files import read_mask
from roadseg.system.workspace import Workspace
from tests.configs import changed, edited

EAST, NORTH, SIDE = 660000.0, 4000000.0, 400
WINDOW, OVERLAP = 64, 16
DISC = shapely.Point(EAST + 130.3, NORTH - 220.7).buffer(70)


@pytest.fixture
def scene(make_scene, tmp_path):
    """Write a scene of 400 x 400 pixels of 1 m; return its path."""
    return make_scene(tmp_path / "wide", "wide", size_px=SIDE, origin=(EAST, NORTH))[0]


def settings(area=None, **compute):
    config = load_config(None, [f"predict.window_px={WINDOW}", f"predict.overlap_px={OVERLAP}"])
    config = changed(config, "predict", engine="eager", batch_size=2)
    config = changed(config, "imagery", area=area)
    return changed(config, "compute", **{"workers": 0, "device": "cpu"} | compute)


def predicted(images, checkpoint, output, area=None, **others):
    compute = others.pop("compute", {})
    config = settings(area, **compute)
    return predict.run_images(
        config, list(map(str, images)), checkpoints=[checkpoint], output=output, **others
    )


def bands(path):
    with rasterio.open(path) as source:
        return source.read(), source.dataset_mask() > 0, source.transform


def inside(whole, part):
    """Return the pixels of a whole raster that a part shows."""
    (values, _, at), (_, valid, here) = whole, part
    col, row = (round(number) for number in ~at @ (here.c, here.f))
    height, width = valid.shape
    return values[:, row : row + height, col : col + width]


@pytest.fixture(scope="module")
def whole(make_scene, checkpoint, tmp_path_factory):
    """Predict all of the scene once; return its raster."""
    folder = tmp_path_factory.mktemp("whole")
    image, _ = make_scene(folder, "wide", size_px=SIDE, origin=(EAST, NORTH))
    predicted([image], checkpoint, folder / "out")
    return bands(folder / "out/wide.tif")


def test_pixels_in_the_area_are_those_without_one(scene, checkpoint, whole, draw_area, tmp_path):
    area = draw_area("a.gpkg", DISC)
    summary = predicted([scene], checkpoint, tmp_path / "out", area)
    part = values, valid, _ = bands(tmp_path / "out/wide.tif")
    assert valid.sum() == pytest.approx(DISC.area, rel=0.05)
    assert summary.megapixels == pytest.approx(DISC.area / 1e6, rel=0.01)
    assert np.array_equal(values[:, valid], inside(whole, part)[:, valid])
    assert not values[:, ~valid].any()


def test_only_windows_that_touch_the_area_are_read(
    scene, checkpoint, draw_area, tmp_path, monkeypatch
):
    read = []

    def note(source, facts, window):
        read.append(window)
        return read_part(source, facts, window)

    monkeypatch.setattr(reading, "read_part", note)
    ring = DISC - DISC.buffer(-2)
    predicted([scene], checkpoint, tmp_path / "out", draw_area("a.gpkg", ring))
    starts = spread_starts(SIDE, window_px=WINDOW, overlap_px=OVERLAP, multiple=32)
    squares = [
        shapely.box(EAST + col, NORTH - row - WINDOW, EAST + col + WINDOW, NORTH - row)
        for row in starts
        for col in starts
    ]
    touching = sum(ring.intersects(square) for square in squares)
    assert len(read) == touching < len(squares) / 3


def test_scenes_outside_are_left_out_and_counted(
    scene, make_scene, checkpoint, draw_area, tmp_path
):
    other, _ = make_scene(tmp_path / "far", "far", origin=(EAST + 5000, NORTH))
    summary = predicted([scene, other], checkpoint, tmp_path / "out", draw_area("a.gpkg", DISC))
    assert (summary.scenes, summary.outside) == (["wide"], 1)
    assert str(summary).endswith("; 1 image outside of the area; " + str(tmp_path / "out"))


def test_what_is_shared_has_the_same_bytes(write_raster, checkpoint, draw_area, tmp_path):
    rows = strips.STRIP_PX + 300
    image = write_raster(shape=(rows, 80), name="narrow.tif")
    ends = [shapely.Point(EAST + 40, NORTH - row).buffer(50) for row in (40, rows - 40)]
    area = draw_area("a.gpkg", *ends)
    ways = {
        "alone": {},
        "workers": {"compute": {"workers": 2}},
        "shard": {"shard": (1, 1)},
    }
    for name, options in ways.items():
        predicted([image], checkpoint, tmp_path / name, area, **options)
    made = {(tmp_path / name / "narrow.tif").read_bytes() for name in ways}
    assert len(made) == 1


def test_another_area_is_predicted_again_and_the_same_one_is_not(
    scene, checkpoint, draw_area, tmp_path, monkeypatch
):
    output = tmp_path / "out"
    predicted([scene], checkpoint, output, draw_area("a.gpkg", DISC))
    first = bands(output / "wide.tif")[1].sum()
    predicted([scene], checkpoint, output, draw_area("b.gpkg", DISC.buffer(20)))
    assert bands(output / "wide.tif")[1].sum() > first
    monkeypatch.setattr("roadseg.learn.inference.tasks.predict_parts", None)
    predicted([scene], checkpoint, output, draw_area("moved/c.geojson", DISC.buffer(20)))


def test_python_predicts_in_an_area(scene, checkpoint, whole, draw_area):
    options = {"window_px": WINDOW, "overlap_px": OVERLAP, "engine": "eager", "device": "cpu"}
    area = draw_area("a.gpkg", DISC)
    found = roadseg.predict(scene, checkpoint, area=area, batch_size=2, **options)
    valid = found.extent.inside((0, 0, *found.road.shape))
    part = (None, valid, found.grid.transform)
    assert np.array_equal(found.road[valid], inside(whole, part)[-1][valid])
    assert not found.road[~valid].any()
    with pytest.raises(DataError, match="touches none of 1 image"):
        roadseg.predict(scene, checkpoint, area="8,49,9,50", **options)


def test_python_burns_in_an_area(scene, draw_area):
    labels = scene.parents[1] / "roads/wide.geojson"
    part = roadseg.burn(labels, scene, area=draw_area("a.gpkg", DISC))
    everywhere = roadseg.burn(labels, scene)
    known = part.pixels != IGNORE
    assert known.sum() == pytest.approx(DISC.area, rel=0.05)
    placed = (everywhere.pixels[np.newaxis], None, everywhere.grid.transform)
    assert np.array_equal(
        part.pixels[known], inside(placed, (None, known, part.grid.transform))[0][known]
    )


def test_roads_are_traced_up_to_the_outline(make_scene, write_raster, draw_area, tmp_path):
    mask = np.zeros((SIDE, SIDE), dtype=np.uint8)
    mask[196:204] = 1  # a road from west to east
    path = write_raster(mask, name="mask.tif")
    far, _ = make_scene(tmp_path / "far", "far", origin=(EAST + 5000, NORTH))
    areas = shapely.box(EAST + 50, NORTH - 300, EAST + 150, NORTH - 100)
    # The gap between the two parts is short enough for a link.
    areas |= shapely.box(EAST + 165, NORTH - 300, EAST + 300, NORTH - 100)
    summary = graph.run_images(
        settings(draw_area("a.gpkg", areas)), [str(path), str(far)], output=tmp_path / "out"
    )
    lines = read_gpkg(tmp_path / "out/mask.gpkg").lines
    assert summary.outside == 1
    assert sorted(shapely.length(lines)) == pytest.approx([100, 135], abs=3)
    assert areas.buffer(1.5).contains(shapely.union_all(lines))


def test_roads_that_an_outline_cuts_end_on_it_near_the_middle_of_the_road(write_raster, draw_area):
    middle = shapely.Point(EAST + 200, NORTH - 200)
    corners = [((0, 0), (400, -330)), ((0, -200), (400, -200)), ((180, 0), (220, -400))]
    lines = [shapely.LineString([(EAST + x, NORTH + y) for x, y in ends]) for ends in corners]
    roads = [(line.buffer(half), 1) for line, half in zip(lines, (4, 8, 6), strict=True)]
    place = Affine(1, 0, EAST, 0, -1, NORTH)
    mask = rasterize(roads, (SIDE, SIDE), transform=place, dtype="uint8")
    raster = write_raster(mask, name="mask.tif", transform=place)
    area = middle.buffer(150)
    graph.run_images(
        settings(draw_area("a.gpkg", area)), [str(raster)], output=raster.parent / "out"
    )
    found = read_gpkg(raster.parent / "out/mask.gpkg")
    ends = shapely.points(found.nodes[found.degree == 1])
    assert len(ends) == 6
    assert shapely.distance(ends, area.exterior).max() < 1.5
    aside = np.sort(shapely.distance(ends, shapely.MultiLineString(lines)))
    assert aside[-2] < 1
    assert aside[-1] < 3.5  # Where the outline cuts a wide road askew.


@pytest.fixture
def begun(city, draw_area):
    """Prepare a tiny city in an area that touches two and a half of its five scenes."""
    area = shapely.box(EAST - 10, NORTH - 60, EAST + 432, NORTH + 10)
    with edited(city) as values:
        draw_area("areas/work.gpkg", area)
        values["imagery"]["area"] = "areas/work.gpkg"
        values["split"]["folds"] = 2
    config = load_config(city)
    return config, Workspace(config.run), area


def test_masks_and_chips_are_of_the_area(begun, city):
    config, workspace, _ = begun
    summary = prepare.run(config, workspace)
    assert (summary.scenes, summary.outside) == (3, 2)
    assert str(summary).split()[-6:] == ["2", "images", "outside", "of", "the", "area"]
    without = changed(config, "imagery", area=None)
    whole = Workspace(city.parent / "whole")
    prepare.run(without, whole)
    for number, width in enumerate((64, 64, 32)):
        mask = read_mask(workspace.mask(f"city_{number}"))
        assert mask.shape == (60, width)
        assert np.array_equal(mask, read_mask(whole.mask(f"city_{number}"))[:60, :width])
    assert not workspace.mask("city_3").exists()


def test_images_outside_of_the_area_need_no_labels(begun, city):
    config, workspace, _ = begun
    labels = sorted((city.parent / "roads").iterdir())
    for path in labels[3:]:
        path.unlink()
    assert prepare.run(config, workspace).scenes == 3
    labels[2].unlink()
    with pytest.raises(DataError, match=r"city_2.*\(1 image without labels\)"):
        prepare.run(config, Workspace(city.parent / "other"))


def test_a_run_goes_on_in_the_area(begun, city):
    config, workspace, area = begun
    done = pipeline.run(config, workspace, say=lambda *_: None).stages
    assert set(done["predict"].scenes) < {"city_0", "city_1", "city_2"}
    assert done["evaluate"].chips == len(done["predict"].scenes)
    for name in done["predict"].scenes:
        with rasterio.open(workspace.probability(name)) as raster:
            assert raster.height == 60
        lines = read_gpkg(workspace.graph(name)).lines
        assert all(area.buffer(2).contains(line) for line in lines)
    for shown in read_scenes(config, workspace, done["predict"].scenes).scenes:
        assert shown.image.grid == shown.grid
    again = pipeline.plan(config, workspace, fold=0, force=False)
    assert not any(stage.runs for stage in again.stages)
    (city.parent / "areas/work.gpkg").rename(city.parent / "moved.gpkg")
    moved = load_config(city, [f"imagery.area={city.parent / 'moved.gpkg'}"])
    for stage in ("prepare", "predict", "graph", "evaluate", "report"):
        assert declared_stage(stage, moved, workspace).reason() is None
    other = load_config(city, ["imagery.area=-116,35,-115,37"])
    for stage in ("prepare", "predict", "graph", "evaluate", "report"):
        assert "area to work in" in declared_stage(stage, other, workspace).reason().text


def test_stages_of_a_run_without_area_can_be_done_in_one(finished, draw_area):
    config, workspace = finished
    (name,) = read_summary(workspace, "predict")["scenes"]
    with rasterio.open(workspace.probability(name)) as raster:
        west, south, _, north = raster.bounds
    half = shapely.box(west - 10, south - 10, west + 32, north + 10)
    area = draw_area("a.gpkg", half)
    before = bands(workspace.probability(name))
    own = changed(config, "imagery", area=area)
    summary = predict.run(own, workspace, fold=0)
    values, valid, at = bands(workspace.probability(name))
    assert summary.megapixels == pytest.approx(32 * 64 / 1e6)
    assert at == before[2]
    assert np.array_equal(valid, np.indices((64, 64))[1] < 32)
    assert np.array_equal(values[:, valid], before[0][:, valid])
    graph.run(own, workspace)
    assert all(half.buffer(2).contains(line) for line in read_gpkg(workspace.graph(name)).lines)
    metrics = evaluate.run(own, workspace)
    labelled_km = read_summary(workspace, "evaluate")["reference_km"]
    assert metrics.reference_km == labelled_km == pytest.approx(0.032 + 0.064, abs=0.005)
    faintest = own.graph.model_copy(update={"threshold": 0.001})
    metrics = evaluate.run(own.model_copy(update={"graph": faintest}), workspace, force=True)
    labelled = read_mask(workspace.mask(name)) > 0
    assert metrics.recall == pytest.approx((values[-1] > 0)[labelled & valid].mean())


def read_summary(workspace, stage):
    return json.loads(workspace.record(stage).read_text())["summary"]


def test_an_area_elsewhere_is_told_in_one_line(finished):
    config, _ = finished
    for words in (
        ["prepare"],
        ["predict"],
        ["run"],
        ["predict", "--dry-run"],
        ["run", "--dry-run"],
    ):
        given = ["--config", str(config.run.parent / "roadseg.json"), "--area", "8,49,9,50"]
        result = CliRunner().invoke(main, ["-q", *words, *given])
        assert result.exit_code == 3
        assert result.stderr.count("\n") == 1
        assert "imagery.area: 8,49,9,50 touches none of" in result.stderr


def test_a_map_is_of_an_area(scene, draw_area, tmp_path, monkeypatch):
    draw_area("here/a.gpkg", DISC)
    monkeypatch.chdir(tmp_path / "here")
    output = tmp_path / "here/map"
    words = ["map", str(scene), "--output", "map", "--area", "a.gpkg"]
    result = CliRunner().invoke(main, ["-q", *words])
    assert result.exit_code == 0, result.stderr
    config = load_config(output / "roadseg.json")
    assert Path(config.imagery.area).resolve() == tmp_path / "here/a.gpkg"
    assert bands(output / "probabilities/wide.tif")[1].sum() == pytest.approx(DISC.area, rel=0.05)
    assert (output / "report.html").exists()
    shutil.copy(tmp_path / "here/a.gpkg", tmp_path / "here/b.gpkg")
    again = CliRunner().invoke(main, ["-q", *words[:-1], "b.gpkg"])
    assert again.exit_code == 2
    assert "already contains the map of" in again.stderr


def test_init_writes_the_area_that_it_is_given(city, draw_area, monkeypatch):
    monkeypatch.chdir(city.parent)
    city.unlink()
    draw_area("areas/work.gpkg", shapely.box(EAST - 10, NORTH - 60, EAST + 432, NORTH + 10))
    words = ["init", "--area", "areas/work.gpkg", "--json", "--set", "split.folds=2"]
    result = CliRunner().invoke(main, ["-q", *words])
    assert result.exit_code == 0, result.stderr
    assert json.loads(city.read_text())["imagery"]["area"] == "areas/work.gpkg"
    assert json.loads(result.stdout)["scenes"] == 3
