from dataclasses import replace

import geopandas
import numpy as np
import pytest
import rasterio
import shapely
from affine import Affine
from pyproj import CRS

from roadseg.commands.stages import graph
from roadseg.config import Config, load_config
from roadseg.errors import ConfigError, DataError
from roadseg.raster.grid import LOCAL_CRS, Grid
from roadseg.roads.formats.files import read_gpkg
from roadseg.roads.logistic import EdgeModel
from roadseg.roads.masks.probabilities import network_tags, write_probability
from roadseg.roads.speeds import SpeedBins
from roadseg.roads.tracing import trace

UTM = Affine(0.5, 0, 660000, 0, -0.5, 4000000)


def write(path, band, *, transform=UTM, crs="EPSG:32611", **profile):
    options = {"driver": "GTiff", "count": 1, "dtype": band.dtype, "transform": transform}
    height, width = band.shape
    with rasterio.open(
        path, "w", **options, height=height, width=width, crs=crs, **profile
    ) as raster:
        raster.write(band, 1)
    return path


def cross(size=400, half=4):
    """A road from west to east and one from north to south, 4 m wide at 0.5 m."""
    band = np.zeros((size, size), dtype=np.uint8)
    band[size // 2 - half : size // 2 + half] = 1
    band[:, size // 2 - half : size // 2 + half] = 1
    return band


def test_a_mask_with_a_crossing_becomes_four_edges_that_meet(tmp_path):
    graph.run_images(Config(), [str(write(tmp_path / "a.b c.tif", cross()))], output=tmp_path)
    found = read_gpkg(tmp_path / "a.b c.gpkg")
    assert sorted(found.degree) == [1, 1, 1, 1, 4]
    assert found.length_m == pytest.approx([100] * 4, abs=1)


def test_lengths_are_metres_on_a_grid_of_degrees(tmp_path):
    degrees = Affine(2.7e-6, 0, -115.2, 0, -2.7e-6, 36.2)  # 0.243 m by 0.300 m there
    path = write(tmp_path / "degrees.tif", cross(), transform=degrees, crs="EPSG:4326")
    graph.run_images(Config(), [str(path)], output=tmp_path)
    total = read_gpkg(tmp_path / "degrees.gpkg").length_m.sum()
    assert total == pytest.approx(400 * (0.2427 + 0.2995), rel=0.01)


@pytest.mark.parametrize(("value", "edges"), [(101, 0), (102, 4)])
def test_a_probability_on_the_threshold_is_road(tmp_path, caplog, value, edges):
    path = write(tmp_path / "grey.tif", cross() * np.uint8(value))
    summary = graph.run_images(Config(), [str(path)], output=tmp_path)  # 0.4 * 255 = 102
    assert summary.edges == edges
    assert ("no roads were found" in caplog.text) == (edges == 0)


def test_roads_of_which_none_is_likely_are_not_called_missing(tmp_path, caplog):
    inner = np.pad(cross(), 20) * np.uint8(250)
    path = write(tmp_path / "grey.tif", inner)
    with rasterio.open(path, "r+") as raster:
        raster.update_tags(**network_tags(None, EdgeModel(-3.0, {})))
    assert graph.run_images(Config(), [str(path)], output=tmp_path).edges == 0
    (message,) = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert message.startswith("no road is certain enough to be kept in 1 of 1 scene")


def test_a_mask_without_georeference_becomes_a_graph_in_its_own_metres(tmp_path, write_nowhere):
    write_nowhere(cross(), name="a.tif")
    config = load_config(None, ["imagery.gsd_m=0.5"])
    graph.run_images(config, [str(tmp_path / "a.tif")], output=tmp_path)
    found = read_gpkg(tmp_path / "a.gpkg")
    assert found.crs == LOCAL_CRS
    assert found.length_m == pytest.approx([100] * 4, abs=1)


def test_the_size_of_pixels_of_a_mask_that_has_a_place_is_its_own(tmp_path):
    config = load_config(None, ["imagery.gsd_m=3"])
    graph.run_images(config, [str(write(tmp_path / "cross.tif", cross()))], output=tmp_path)
    assert read_gpkg(tmp_path / "cross.gpkg").length_m == pytest.approx([100] * 4, abs=1)


def test_an_empty_mask_gives_empty_files(tmp_path):
    path = write(tmp_path / "empty.tif", np.zeros((50, 50), dtype=np.uint8))
    summary = graph.run_images(Config(), [str(path)], output=tmp_path)
    assert (summary.edges, summary.road_km) == (0, 0)
    assert len(read_gpkg(tmp_path / "empty.gpkg").lines) == 0
    assert "connected" not in str(summary)


def test_a_mask_without_crs_is_refused_and_accepted_with_the_setting(tmp_path):
    path = write(tmp_path / "nowhere.tif", cross(), crs=None)
    with pytest.raises(DataError, match=r"set imagery\.crs"):
        graph.run_images(Config(), [str(path)], output=tmp_path)
    config = load_config(None, ["imagery.crs=EPSG:32611"])
    assert graph.run_images(config, [str(path)], output=tmp_path).edges == 4


def two_halves(folder):
    """The same cross as two scenes that touch."""
    band = cross()
    write(folder / "left.tif", band[:, :160])
    write(folder / "right.tif", band[:, 160:], transform=UTM @ Affine.translation(160, 0))
    return [str(folder / "left.tif"), str(folder / "right.tif")]


def test_scenes_that_touch_are_also_one_network(tmp_path):
    summary = graph.run_images(Config(), two_halves(tmp_path), output=tmp_path)
    assert summary.joined == ["left", "right"]
    network = read_gpkg(tmp_path / "network.gpkg")
    assert sorted(network.degree) == [1, 1, 1, 1, 4]
    assert network.length_m.sum() == pytest.approx(400, abs=2)
    assert set(network.attributes["source"]) == {"left", "right"}


def test_a_summary_says_how_well_roads_are_connected(tmp_path):
    summary = graph.run_images(Config(), two_halves(tmp_path), output=tmp_path)
    assert (summary.parts, summary.joined_parts) == (2, 1)
    assert "2 adjoining scenes form one network: 0.40 km in network.gpkg" in str(summary)
    assert str(summary).endswith("1 connected part")
    assert "2 connected parts, the largest" not in str(summary)
    assert "2 connected parts, the largest" in str(replace(summary, joined=[], joined_parts=0))


@pytest.mark.parametrize("name", ["city.gpkg", "city.geojson", "network.gpkg"])
def test_files_of_other_programs_are_not_replaced(tmp_path, name):
    masks = [str(write(tmp_path / f"{stem}.tif", cross())) for stem in ("city", "town")]
    line = shapely.LineString([(0, 0), (1, 1)])
    geopandas.GeoDataFrame(geometry=[line], crs=4326).to_file(tmp_path / name, layer="edges")
    before = (tmp_path / name).read_bytes()
    for action in (graph.plan_images, graph.run_images):
        with pytest.raises(ConfigError, match=f"{name}: would be replaced, but"):
            action(Config(), masks, output=tmp_path)
    assert (tmp_path / name).read_bytes() == before


@pytest.mark.parametrize("band", [cross(), np.zeros_like(cross())])
def test_earlier_graphs_are_replaced(tmp_path, band):
    mask = str(write(tmp_path / "city.tif", band))
    first = graph.run_images(Config(), [mask], output=tmp_path)
    assert graph.run_images(Config(), [mask], output=tmp_path) == first


def test_graphs_are_made_after_an_interruption_whatever_the_order_of_formats(tmp_path, monkeypatch):
    mask = str(write(tmp_path / "city.tif", cross()))
    config = load_config(None, ['graph.formats=["geojson","gpkg"]'])
    with monkeypatch.context() as patch:
        patch.setattr("roadseg.roads.formats.files.write_gpkg", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            graph.run_images(config, [mask], output=tmp_path)
    assert graph.run_images(config, [mask], output=tmp_path).edges == 4


@pytest.mark.parametrize("name", ["network", "submission"])
def test_a_scene_must_not_be_named_as_the_file_of_all(tmp_path, name):
    path = write(tmp_path / f"{name}.tif", cross())
    with pytest.raises(
        DataError, match=f"the name {name} is reserved for the file of all scenes; rename"
    ):
        graph.run_images(Config(), [str(path)], output=tmp_path)


@pytest.mark.parametrize("scenes", ["one", "two"])
def test_processes_give_the_same_bytes(tmp_path, monkeypatch, scenes):
    monkeypatch.setattr(trace, "BLOCK_PX", 256)
    images = two_halves(tmp_path)[: 1 if scenes == "one" else 2]
    texts = []
    for workers in (1, 2):
        config = load_config(None, [f"compute.workers={workers}"])
        graph.run_images(config, images, output=tmp_path / str(workers))
        texts.append((tmp_path / f"{workers}/left.graphml").read_bytes())
    assert texts[0] == texts[1]


def test_every_format_that_is_asked_for_is_written(tmp_path):
    formats = '["gpkg", "geojson", "graphml", "parquet", "osm", "csv"]'
    config = load_config(None, [f"graph.formats={formats}"])
    graph.run_images(config, two_halves(tmp_path), output=tmp_path / "out")
    suffixes = {path.suffix for path in (tmp_path / "out").glob("left.*")}
    assert suffixes == {".gpkg", ".geojson", ".graphml", ".parquet", ".osm", ".csv"}
    rows = (tmp_path / "out/submission.csv").read_text().splitlines()
    assert [row.split(",")[0] for row in rows] == ["ImageId", "left", *["right"] * 4]


def test_a_scene_that_cannot_be_read_is_skipped_if_that_is_wished(tmp_path):
    (tmp_path / "bad.tif").write_bytes(b"no raster")
    images = [*two_halves(tmp_path), str(tmp_path / "bad.tif")]
    with pytest.raises(DataError, match=r"bad\.tif"):
        graph.run_images(Config(), images, output=tmp_path)
    config = load_config(None, ["compute.on_error=skip"])
    summary = graph.run_images(config, images, output=tmp_path)
    assert (summary.scenes, list(summary.failed)) == (["left", "right"], ["bad"])
    assert summary.joined == ["left", "right"]


@pytest.mark.parametrize(
    ("bins", "kph", "highway"),
    [
        (SpeedBins((30.0, 60.0)), 45 * 1.609344, "primary"),
        (SpeedBins((50.0, 100.0), "km/h"), 75, "primary"),
        (SpeedBins((30.0, 60.0), are_known=False), 45 * 1.609344, "road"),
    ],
)
def test_speeds_are_those_of_the_bins_and_known_unless_assumed_for_all_labels(
    tmp_path, bins, kph, highway
):
    road = cross().astype(np.float32)[np.newaxis]
    rows = [(0, np.concatenate([0 * road, road, 0 * road, road]), road[0] > -1)]
    grid = Grid(CRS.from_epsg(32611), UTM, 400, 400)
    write_probability(tmp_path / "a.tif", rows, grid, bins=bins, key="", tags={})
    graph.run_images(Config(), [str(tmp_path / "a.tif")], output=tmp_path / "out")
    found = read_gpkg(tmp_path / "out/a.gpkg").attributes
    assert found["speed_kph"] == pytest.approx([kph] * 4)
    assert found["speed_known"].tolist() == [bins.are_known] * 4
    assert set(found["highway"]) == {highway}


def test_edges_say_what_the_raster_says_of_them(tmp_path):
    graph.run_images(Config(), [str(write(tmp_path / "a.tif", cross()))], output=tmp_path)
    found = read_gpkg(tmp_path / "a.gpkg").attributes
    assert found["width_m"] == pytest.approx([4] * 4, abs=0.6)
    assert found["probability"].tolist() == [1] * 4
    assert found["speed_known"].tolist() == [0] * 4
    assert set(found["highway"]) == {"road"}
    assert set(found["source"]) == {"a"}


def test_scenes_whose_roads_are_doubtful_are_named(tmp_path, caplog):
    nowhere_near = UTM @ Affine.translation(0, 4000)
    sure = write(tmp_path / "sure.tif", cross() * np.uint8(255))
    unsure = write(tmp_path / "unsure.tif", cross() * np.uint8(103), transform=nowhere_near)
    empty = write(tmp_path / "empty.tif", cross() * np.uint8(20), transform=nowhere_near)
    rasters = [str(path) for path in (sure, unsure, empty)]
    summary = graph.run_images(Config(), rasters, output=tmp_path)
    assert summary.confidence.keys() == {"sure", "unsure"}
    (message,) = [record.getMessage() for record in caplog.records if "doubtful" in record.msg]
    assert message.startswith("1 of 2 scenes is doubtful (mean confidence of the roads below 0.6)")
    assert f"unsure ({summary.confidence['unsure']:.2f});" in message
    assert message.endswith("or train with labels of such images")
