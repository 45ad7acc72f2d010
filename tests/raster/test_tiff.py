import os
import struct
from contextlib import contextmanager

import numpy as np
import pytest
import rasterio
from rasterio.errors import RasterioIOError
from rasterio.shutil import copy

from roadseg.raster.tiff import is_cut_short, open_new, require_written
from tests.drawing import grid_of

GRID = grid_of(64, 64)
NOISE = np.random.default_rng(0).integers(0, 255, (3, 300, 200), dtype=np.uint8)
KINDS = {
    "strips": {},
    "tiles": {"tiled": True, "blockxsize": 64, "blockysize": 64, "compress": "lzw"},
    "one band after the other": {"interleave": "band", "compress": "deflate"},
    "big": {"bigtiff": "yes"},
    "big-endian": {"endianness": "big"},
    "one strip": {"blockysize": 300},
}


@pytest.fixture(params=KINDS)
def path(write_raster, request):
    return write_raster(NOISE, **KINDS[request.param])


def cut(path, size):
    os.truncate(path, size)
    return path


def test_a_whole_file_lacks_nothing(path):
    assert not is_cut_short(path)
    require_written(path)


def test_a_file_without_its_last_byte_is_cut_short(write_raster):
    path = write_raster(NOISE)
    assert is_cut_short(cut(path, path.stat().st_size - 1))


@pytest.mark.parametrize("share", [0.999, 0.5, 0.01])
def test_a_file_cut_anywhere_lacks_something_and_was_not_written(path, share):
    assert is_cut_short(cut(path, int(path.stat().st_size * share)))
    with pytest.raises(OSError, match="only part"):
        require_written(path)


def test_a_header_alone_lacks_its_directory(tmp_path):
    path = tmp_path / "a.tif"
    path.write_bytes(b"II*\0" + struct.pack("<I", 8))
    assert is_cut_short(path)


@pytest.mark.parametrize("content", [b"", b"II", b"<html>", b"\x89PNG\r\n\x1a\n", b"II*"])
def test_of_another_format_nothing_is_known_to_be_missing(tmp_path, content):
    (tmp_path / "a.tif").write_bytes(content)
    assert not is_cut_short(tmp_path / "a.tif")


def test_a_cloud_optimized_file_with_mask_and_overviews_is_whole(write_raster, tmp_path):
    values = np.zeros((1, 1200, 1200), dtype=np.uint8)
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True):
        path = write_raster(values)
        with rasterio.open(path, "r+") as source:
            source.write_mask(values[0] == 0)
        copy(path, tmp_path / "cog.tif", driver="COG")
    assert not is_cut_short(tmp_path / "cog.tif")
    require_written(tmp_path / "cog.tif")


def test_a_tile_left_out_is_not_missing_but_was_not_written(write_raster):
    values = np.zeros((1, 200, 200), dtype=np.uint8)
    tiles = {"tiled": True, "blockxsize": 64, "blockysize": 64}
    path = write_raster(values, **tiles, sparse_ok=True)
    assert not is_cut_short(path)
    with pytest.raises(OSError, match="only part"):
        require_written(path)


def test_a_tag_cut_off_was_not_written_though_no_pixel_is_missing(write_raster):
    path = write_raster(NOISE)
    with rasterio.open(path, "r+") as source:
        source.update_tags(note="x" * 5000)  # put at the end of the file
    cut(path, path.stat().st_size - 1000)
    assert not is_cut_short(path)
    with pytest.raises(OSError, match="only part"):
        require_written(path)


def test_a_strip_written_over_another_is_found(write_raster):
    path = write_raster(NOISE, compress="deflate")
    with rasterio.open(path) as source:
        first, second = (source.get_tag_item(f"BLOCK_OFFSET_0_{row}", "TIFF", 1) for row in (0, 1))
    data = path.read_bytes()
    second = struct.pack("<I", int(second))
    assert data.count(second) == 1
    path.write_bytes(data.replace(second, struct.pack("<I", int(first) + 1)))
    with pytest.raises(OSError, match="only part"):
        require_written(path)


LARGE = {"height": 5000, "width": 5000, "count": 1, "dtype": "uint8"}  # not made in memory


def with_nothing_in(path):
    with open_new(path, LARGE):
        pass


def test_a_raster_that_is_not_whole_when_it_is_closed_is_an_error(tmp_path, monkeypatch):
    path = tmp_path / "a.tif"

    @contextmanager
    def on_a_full_disk(*_, **__):
        yield
        path.write_bytes(b"II*\x00\x08\x00\x00\x00")

    monkeypatch.setattr("rasterio.open", on_a_full_disk)
    with pytest.raises(OSError, match="only part of it could be written"):
        with_nothing_in(path)


def test_what_gdal_cannot_write_is_an_error_of_the_system(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise RasterioIOError("write error at scanline 7")

    monkeypatch.setattr("rasterio.open", fail)
    with pytest.raises(OSError, match="write error at scanline 7"):
        with_nothing_in(tmp_path / "a.tif")


@pytest.mark.parametrize("height", [4096, 4097])
def test_a_raster_is_the_same_whether_it_is_made_in_memory_or_not(tmp_path, height, monkeypatch):
    profile = {"driver": "GTiff", "height": height, "width": 4096, "count": 1, "dtype": "uint8"}
    profile |= {"transform": GRID.transform}
    pixels = np.arange(height * 4096).reshape(height, 4096).astype(np.uint8)
    with open_new(tmp_path / "a.tif", profile) as target:
        target.write(pixels, 1)
    monkeypatch.setattr("roadseg.raster.tiff.IN_MEMORY_BYTES", 0)
    with open_new(tmp_path / "b.tif", profile) as target:
        target.write(pixels, 1)
    assert (tmp_path / "a.tif").read_bytes() == (tmp_path / "b.tif").read_bytes()
