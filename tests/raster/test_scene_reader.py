from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import rasterio
from rasterio._env import get_gdal_config

from roadseg.errors import DataError
from roadseg.raster import pixels as reading
from roadseg.raster.images import open_raster, read_facts
from roadseg.raster.options import ImageryOptions
from roadseg.raster.pixels import SceneReader, cache_bytes, read_window
from roadseg.raster.windows import Window
from tests.drawing import grid_of

GRID = grid_of(64, 64)


@pytest.mark.parametrize("gsd_m", [None, 2])
def test_an_open_scene_gives_every_thread_the_windows_of_the_scene(write_raster, gsd_m):
    facts = read_facts(write_raster(shape=(200, 300), nodata=7), ImageryOptions(gsd_m=gsd_m))
    windows = [Window(row, col, 30, 40) for row in range(0, 70, 5) for col in range(0, 110, 10)]
    with SceneReader(facts, rows=30) as scene, ThreadPoolExecutor(3) as pool:
        found = list(pool.map(scene.read, windows))
    for window, (values, valid) in zip(windows, found, strict=True):
        expected = read_window(facts, window)
        assert np.array_equal(values, expected[0])
        assert np.array_equal(valid, expected[1])


def test_an_open_scene_opens_its_file_once_in_a_thread(write_raster, monkeypatch):
    opened = []
    real = reading.open_raster
    monkeypatch.setattr(reading, "open_raster", lambda *a, **b: opened.append(a) or real(*a, **b))
    with SceneReader(read_facts(write_raster()), rows=10) as scene:
        opened.clear()
        for col in range(20):
            scene.read(Window(0, col, 10, 10))
        assert len(opened) == 1


def test_gdal_holds_little_while_a_scene_is_open(write_raster):
    usual = get_gdal_config("GDAL_CACHEMAX")
    facts = read_facts(write_raster())
    with SceneReader(facts, rows=10) as scene, ThreadPoolExecutor(1) as pool:
        pool.submit(scene.read, Window(0, 0, 10, 10)).result()
        assert get_gdal_config("GDAL_CACHEMAX") == 2**26
    assert get_gdal_config("GDAL_CACHEMAX") == usual != 2**26


def test_an_unreadable_block_of_an_open_scene_is_named_in_one_line(write_raster):
    noise = np.random.default_rng(0).integers(0, 255, (1, 400, 64), dtype=np.uint8)
    path = write_raster(noise, compress="deflate", blockysize=16)
    facts = read_facts(path)
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        file.write(bytes(5000))
    with SceneReader(facts, rows=64) as scene:
        scene.read(Window(0, 0, 32, 64))
        with pytest.raises(
            DataError, match=r"scene\.tif: not a readable raster .*; download or copy it again"
        ):
            scene.read(Window(180, 0, 64, 64))


EMPTY = {"sparse_ok": True, "driver": "GTiff", "transform": GRID.transform, "count": 3}


@pytest.mark.parametrize(
    ("blocks", "rows", "needed"),
    [
        ({"blockysize": 1}, 512, 513 * 30000 * 3),
        ({"tiled": True, "blockxsize": 256, "blockysize": 256}, 512, 3 * 256 * 118 * 256 * 3),
        ({"tiled": True, "blockxsize": 256, "blockysize": 256}, 32, 0),
    ],
    ids=["rows", "tiles", "few"],
)
def test_gdal_is_to_hold_the_blocks_of_a_row_of_windows(tmp_path, blocks, rows, needed):
    size = {"height": 1000, "width": 30000, "dtype": "uint8"}
    with rasterio.open(tmp_path / "wide.tif", "w", **EMPTY, **size, **blocks):
        pass
    with rasterio.open(tmp_path / "wide.tif") as source:
        assert cache_bytes(source, rows) == max(2**26, needed)


def test_of_a_resampled_raster_the_pixels_that_it_is_made_of_count_as_well(tmp_path):
    path, grid = tmp_path / "fine.tif", replace(GRID, height=8000, width=9000)
    size = {"height": 8000, "width": 9000, "dtype": "uint16", "blockysize": 1}
    with rasterio.open(path, "w", **EMPTY, **size):
        pass
    with open_raster(path, grid.resampled(4)) as source:
        assert cache_bytes(source, 512) > 4 * 512 * 9000 * 6
