import os
import zipfile
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import rasterio
from affine import Affine
from pyproj import CRS
from rasterio.errors import RasterioIOError

from roadseg.errors import DataError
from roadseg.raster.gdal import (
    cache_bytes,
    new_profile,
    open_new,
    open_raster,
    require_whole,
)
from roadseg.raster.grid import Grid

GRID = Grid(CRS.from_epsg(32611), Affine(1, 0, 660000, 0, -1, 4000000), 64, 64)
NOISE = np.random.default_rng(0).integers(0, 255, (1, 64, 64), dtype=np.uint8)
VRT = """<VRTDataset rasterXSize="40" rasterYSize="40"><VRTRasterBand dataType="Byte" band="1">
<SimpleSource><SourceFilename relativeToVRT="1">gone.tif</SourceFilename><SourceBand>1</SourceBand>
<SrcRect xOff="0" yOff="0" xSize="40" ySize="40"/><DstRect xOff="0" yOff="0" xSize="40" ySize="40"/>
</SimpleSource></VRTRasterBand></VRTDataset>"""


def read(path):
    with open_raster(path) as source:
        return source.read()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", r"is empty \(0 bytes\); download or copy it again"),
        (b"\n<!DOCTYPE html><html>404</html>", "is a web page, expected a raster; download it"),
        (b"<HTML>404</HTML>", "is a web page, expected a raster; download it again"),
        (b"version https://git-lfs.github.com/spec/v1", "is a pointer of Git LFS"),
        (b"II*\x00\x08\x00\x00\x00", "cut short: it has 8 bytes, expected 10 or more"),
        (b"name,speed\na,1\n", r"not a readable raster \(.*\); replace it or leave it out"),
    ],
    ids=["empty", "html", "HTML", "lfs", "header", "text"],
)
def test_a_file_that_is_no_raster_is_refused_in_one_line(tmp_path, content, told):
    (tmp_path / "a.tif").write_bytes(content)
    with pytest.raises(DataError, match=rf"a\.tif: {told}") as bad:
        read(tmp_path / "a.tif")
    assert "\n" not in str(bad.value)


def test_a_missing_raster_is_named(tmp_path):
    with pytest.raises(DataError, match=r"a\.tif does not exist"):
        read(tmp_path / "a.tif")


def test_a_mosaic_whose_file_is_gone_names_it(tmp_path):
    (tmp_path / "a.vrt").write_text(VRT)
    with pytest.raises(DataError, match=r"a\.vrt: not a readable raster \(.*gone\.tif"):
        read(tmp_path / "a.vrt")


@pytest.mark.parametrize("share", [0.3, 0.7, 0.99])
def test_a_tiff_cut_short_says_so(write_raster, share):
    path = write_raster(NOISE)
    os.truncate(path, int(path.stat().st_size * share))
    with pytest.raises(DataError, match=r"scene\.tif: cut short: it has \d+ bytes, expected 4\d+"):
        read(path)
    with pytest.raises(DataError, match=r"cut short.*; download or copy it again"):
        require_whole(path)


def test_a_whole_raster_of_any_format_is_whole(write_raster, save_as):
    require_whole(write_raster(NOISE))
    require_whole(save_as(NOISE, "a.png", driver="PNG"))


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
    size = {"count": 3, "height": 1000, "width": 30000, "dtype": "uint8", "sparse_ok": True}
    path = tmp_path / "wide.tif"
    with rasterio.open(path, "w", driver="GTiff", transform=GRID.transform, **size, **blocks):
        pass
    with rasterio.open(path) as source:
        assert cache_bytes(source, rows) == max(2**26, needed)


def test_of_a_resampled_raster_the_pixels_that_it_is_made_of_count_as_well(tmp_path):
    size = {"count": 3, "height": 8000, "width": 9000, "dtype": "uint16", "sparse_ok": True}
    path, grid = tmp_path / "fine.tif", replace(GRID, height=8000, width=9000)
    with rasterio.open(path, "w", driver="GTiff", transform=grid.transform, **size, blockysize=1):
        pass
    with open_raster(path, grid.resampled(4)) as source:
        assert cache_bytes(source, 512) > 4 * 512 * 9000 * 6


def test_a_raster_in_an_archive_is_read(write_raster, tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.write(write_raster(NOISE), "in/scene.tif")
    assert np.array_equal(read(Path(f"/vsizip/{{{tmp_path}/a.zip}}/in/scene.tif")), NOISE)


def test_a_raster_missing_in_an_archive_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"/vsizip/.*scene\.tif: not a readable raster"):
        read(Path(f"/vsizip/{{{tmp_path}/a.zip}}/scene.tif"))


def test_a_raster_written_lies_on_its_grid(tmp_path):
    with open_new(tmp_path / "a.tif", **new_profile(GRID, count=1, dtype="uint8")) as target:
        target.write(NOISE)
    with open_raster(tmp_path / "a.tif") as source:
        assert (source.transform, source.shape) == (GRID.transform, (64, 64))
        assert CRS.from_wkt(source.crs.to_wkt()) == GRID.crs


LARGE = {"height": 5000, "width": 5000, "count": 1, "dtype": "uint8"}  # not made in memory


def with_nothing_in(path):
    with open_new(path, **LARGE):
        pass


def test_a_raster_that_is_not_whole_when_it_is_closed_is_an_error(tmp_path, monkeypatch):
    path = tmp_path / "a.tif"

    @contextmanager
    def on_a_full_disk(*_, **__):
        yield
        path.write_bytes(b"II*\x00\x08\x00\x00\x00")

    monkeypatch.setattr("rasterio.open", on_a_full_disk)
    with pytest.raises(OSError, match="only a part of it could be written"):
        with_nothing_in(path)


def test_what_gdal_cannot_write_is_an_error_of_the_system(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise RasterioIOError("write error at scanline 7")

    monkeypatch.setattr("rasterio.open", fail)
    with pytest.raises(OSError, match="write error at scanline 7"):
        with_nothing_in(tmp_path / "a.tif")


def test_a_folder_that_is_not_there_is_an_error_of_the_system(tmp_path):
    profile = new_profile(GRID, count=1, dtype="uint8")
    with (
        pytest.raises(OSError, match="No such file"),
        open_new(tmp_path / "b" / "a.tif", **profile),
    ):
        pass


@pytest.mark.parametrize("height", [4096, 4097])
def test_a_raster_is_the_same_whether_it_is_made_in_memory_or_not(tmp_path, height, monkeypatch):
    profile = {"driver": "GTiff", "height": height, "width": 4096, "count": 1, "dtype": "uint8"}
    pixels = np.arange(height * 4096).reshape(height, 4096).astype(np.uint8)
    with open_new(tmp_path / "a.tif", **profile, transform=GRID.transform) as target:
        target.write(pixels, 1)
    monkeypatch.setattr("roadseg.raster.gdal.IN_MEMORY_BYTES", 0)
    with open_new(tmp_path / "b.tif", **profile, transform=GRID.transform) as target:
        target.write(pixels, 1)
    assert (tmp_path / "a.tif").read_bytes() == (tmp_path / "b.tif").read_bytes()


def test_a_pipe_is_no_raster_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "a.tif")
    with (
        pytest.raises(DataError, match=r"a\.tif: is a pipe or a device"),
        open_raster(tmp_path / "a.tif"),
    ):
        pass
