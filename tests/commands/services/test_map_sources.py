"""Sources of a map: services become files in its folder, once, and with an area only."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import rasterio
from click.testing import CliRunner

from roadseg.commands.cli.main import main
from roadseg.commands.services import fetch_roads
from roadseg.commands.services.fetch_images import is_service
from roadseg.commands.services.images.fetching import FetchOptions
from roadseg.commands.services.map_sources import fetch_sources
from roadseg.commands.tools import map as map_tool
from roadseg.errors import ConfigError
from roadseg.raster.options import ImageryOptions
from tests.configs import SMALL_TRAINING, assigned

AREA = "8.6030,49.4040,8.6070,49.4065"  # Around a crossing of the Overpass server.
ZOOM_17 = FetchOptions(zoom=17)
TINY = (
    *assigned("train", SMALL_TRAINING | {"minutes": None, "epochs": 1}),
    *("predict.window_px=128", "predict.overlap_px=32", "split.block_m=60", "imagery.chip_px=128"),
)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch, overpass):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    quick = replace(fetch_roads.POLICY, first_wait_s=0.01, per_second=1000)
    monkeypatch.setattr(fetch_roads, "POLICY", quick)
    monkeypatch.setattr(fetch_roads, "PUBLIC_SERVER", overpass.address)


@pytest.fixture
def sources(tmp_path):
    """Give a function that returns the sources of a map, as files where services are given."""

    def fetch(images=(), labels=(), *, area=AREA, options=ZOOM_17, is_begun=False):
        said.clear()
        return fetch_sources(
            list(images),
            list(labels),
            tmp_path / "map/sources",
            imagery=ImageryOptions(area=area),
            options=options,
            is_begun=is_begun,
            say=lambda name, summary: said.append((name, str(summary))),
        )

    said = fetch.said = []
    return fetch


@pytest.fixture
def tiles(world):
    return f"{world.address}/xyz/{{z}}/{{x}}/{{y}}.png"


@pytest.mark.parametrize(
    ("source", "is_one"),
    [
        ("https://a.org/{z}/{x}/{y}.jpg?key={env:KEY}", True),
        ("https://a.org/tiles/{q}.png", True),
        ("stac:https://a.org/search?collections=a", True),
        ("https://a.org/item.json", True),
        ("https://a.org/ows?SERVICE=WMS", True),
        ("https://a.org/wms?map=aerial", True),
        ("https://a.org/1.0.0/WMTSCapabilities.xml", True),
        ("https://a.org/city.tif?wms", False),
        ("https://a.org/download?id=7", False),
        ("s3://bucket/city.tif", False),
        ("images/*_{x}.tif", False),
        ("/vsizip/{/data/x.zip}/a.tif", False),
        ("city.tif", False),
    ],
)
def test_an_image_is_a_service_or_a_raster(source, is_one):
    assert is_service(source) == is_one


def test_services_become_files_between_the_others(sources, tiles, tmp_path):
    found = sources(["a.tif", tiles, "b/*.tif"], ["overpass", "own.gpkg"])
    first, image, last = found[0]
    assert (first, last) == ("a.tif", "b/*.tif")
    with rasterio.open(image) as source:
        assert source.crs == "EPSG:3857"
    assert found[1] == [str(tmp_path / "map/sources/overpass.gpkg"), "own.gpkg"]
    assert len(json.loads(Path(found[1][0]).with_suffix(".gpkg.source.json").read_text())) == 6
    assert [name for name, _ in sources.said] == ["fetch", "fetch"]


def test_files_alone_leave_nothing_behind(sources, tmp_path):
    assert sources(["a.tif"], ["a.gpkg"], options=FetchOptions())[0] == ["a.tif"]
    assert not (tmp_path / "map").exists()


def test_what_was_fetched_is_not_asked_for_again(sources, tiles, world, overpass):
    first = sources([tiles], ["overpass"])
    world.asked.clear()
    overpass.questions.clear()
    assert sources([tiles], ["overpass"], is_begun=True) == first
    assert (sources.said, list(world.asked), overpass.questions) == ([], [], [])


@pytest.mark.parametrize(
    "change",
    [
        {"area": "8.6030,49.4040,8.6070,49.4060"},
        {"options": FetchOptions(zoom=16)},
        {"labels": []},
    ],
)
def test_a_map_of_something_else_is_kept(sources, tiles, change):
    sources([tiles], ["overpass"])
    request = {"labels": ["overpass"]} | change
    with pytest.raises(ConfigError, match="already contains the map of other images, labels or"):
        sources([tiles], is_begun=True, **request)


def test_a_file_that_is_gone_or_a_record_that_is_damaged_is_fetched_again(sources, tiles, tmp_path):
    found = sources([tiles])
    Path(found[0][0]).unlink()
    assert sources([tiles], is_begun=True) == found
    assert Path(found[0][0]).exists()
    for text in ("[]", '{"asked": 1, "files": 2}', "{"):
        (tmp_path / "map/sources/fetched.json").write_text(text)
        assert sources([tiles]) == found
        assert "there already" in sources.said[0][1]


def test_labels_of_a_service_need_no_area_but_the_images(sources, tiles, tmp_path):
    image = sources([tiles])[0][0]
    found = sources([image], ["overpass"], area=None, options=FetchOptions())
    origin = json.loads((tmp_path / "map/sources/overpass.gpkg.source.json").read_text())
    west, south, east, north = map(float, origin["area"].split(","))
    assert (west, south) <= (8.603, 49.404)
    assert min(east - west, north - south) > 0.002
    assert east - west < 0.006
    assert list(found[0]) == [image]


def test_a_service_of_images_needs_an_area(sources, tiles, world):
    with pytest.raises(ConfigError, match="add --area"):
        sources([tiles], area=None)
    assert list(world.asked) == []


def test_options_of_a_service_without_one_are_told(sources):
    with pytest.raises(ConfigError, match=r"such as --zoom or --gsd-m, need one .*\.jpg'$"):
        sources(["a.tif"])


def test_a_key_is_in_no_record_of_a_map(sources, tiles, tmp_path, monkeypatch):
    monkeypatch.setenv("TILES_KEY", "s3cr3t+key/1")
    first = sources([f"{tiles}?key={{env:TILES_KEY}}"])
    assert sources([f"{tiles}?key={{env:TILES_KEY}}"], is_begun=True) == first
    text = (tmp_path / "map/sources/fetched.json").read_text()
    assert "{env:TILES_KEY}" in text
    assert "s3cr3t" not in text


def test_one_command_leads_from_an_area_to_a_graph(tiles, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["map", tiles, "--zoom", "17", "--area", AREA, "--output", "city"]
    for _ in range(2):
        done = CliRunner().invoke(main, words, catch_exceptions=False)
        assert done.exit_code == 0, done.output
    assert list(Path("city/graphs").glob("*.gpkg"))
    assert "fetch" not in done.output


def test_one_command_trains_on_the_roads_of_a_service(tiles, tmp_path):
    settings = (*TINY, f"imagery.area={AREA}")
    sources = ([tiles], tmp_path / "city")
    options = {"labels": ["overpass"], "settings": settings, "service": ZOOM_17}
    summary = map_tool.run(*sources, **options, say=lambda *_: None)
    assert summary.measured.chips >= 1
    assert map_tool.run(*sources, **options, say=lambda *_: None).measured == summary.measured
    config = json.loads((tmp_path / "city/roadseg.json").read_text())
    assert config["labels"]["roads"] == ["sources/overpass.gpkg"]
    assert config["imagery"]["area"] == AREA


def test_labels_of_a_service_alone_need_an_area(sources):
    with pytest.raises(ConfigError, match="add --area, or name the images"):
        sources([], ["overpass"], area=None, options=FetchOptions())
