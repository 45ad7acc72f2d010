import os
from pathlib import Path

import numpy as np
import pytest
import rasterio
from affine import Affine
from hypothesis import given
from hypothesis import strategies as st

from roadseg.errors import DataError, OutputError
from roadseg.raster.grid import LOCAL_CRS, Grid
from roadseg.raster.images import read_grid
from roadseg.raster.windows import Window, cut_blocks
from roadseg.roads.masks.mask_files import (
    CONTENT_TAG,
    SPEED_BINS,
    bins_of,
    bins_tags,
    read_mask,
    read_raster_key,
    write_mask,
)
from roadseg.roads.speeds import DEFAULT_BINS, SpeedBins
from tests.drawing import PLACE, grid_of

PATH = Path("a.tif")
GRID = grid_of(40, 60)
MASK = (np.arange(2400).reshape(40, 60) % 9).clip(0, 7).astype(np.uint8)


def write(path, mask=MASK, grid=GRID, *, bins=DEFAULT_BINS, block_px=4096, key=""):
    windows = cut_blocks(*mask.shape, block_px=block_px)
    blocks = [(w, mask[w.row : w.row + w.height, w.col : w.col + w.width]) for w in windows]
    write_mask(path, blocks, grid, bins=bins, key=key)
    return path


def test_a_mask_written_comes_back_whole_and_by_window(tmp_path):
    path = write(tmp_path / "masks" / "a.tif")
    assert np.array_equal(read_mask(path), MASK)
    assert np.array_equal(read_mask(path, Window(5, 7, 20, 30)), MASK[5:25, 7:37])


def test_what_no_block_covers_is_ignored(tmp_path):
    write_mask(tmp_path / "a.tif", [(Window(0, 0, 10, 60), MASK[:10])], GRID, bins=DEFAULT_BINS)
    assert (read_mask(tmp_path / "a.tif")[10:] == 255).all()


@pytest.mark.parametrize(
    ("shape", "tile"),
    [
        ((40, 60), (48, 64)),
        ((512, 513), (512, 272)),
        ((1300, 2048), (448, 512)),
        ((2049, 5000), (512, 512)),
    ],
)
def test_little_of_the_tiles_lies_beyond_a_small_mask(tmp_path, shape, tile):
    path = write(tmp_path / "a.tif", np.zeros(shape, np.uint8), Grid(GRID.crs, PLACE, *shape))
    with rasterio.open(path) as source:
        assert source.block_shapes == [tile]


@pytest.mark.parametrize(
    "grid", [GRID, Grid(LOCAL_CRS, Affine(0.9, 0, 0, 0, -0.9, 0), 40, 60)], ids=["UTM", "local"]
)
def test_a_mask_lies_where_its_scene_lies(tmp_path, grid):
    assert read_grid(write(tmp_path / "a.tif", grid=grid)) == grid


def test_a_mask_has_colours_no_data_and_says_what_it_is(tmp_path):
    with rasterio.open(write(tmp_path / "a.tif")) as source:
        assert source.nodata == 255
        assert source.tags()[CONTENT_TAG] == SPEED_BINS
        assert bins_of(PATH, source.tags()) == DEFAULT_BINS
        assert len({source.colormap(1)[value] for value in range(8)}) == 8


@pytest.mark.parametrize(("key", "kept"), [("f00", "f00"), ("", None)])
def test_a_mask_keeps_its_key(tmp_path, key, kept):
    assert read_raster_key(write(tmp_path / "a.tif", key=key)) == kept


@pytest.mark.parametrize("damage", ["removed", "emptied", "cut short", "no raster"])
def test_what_is_no_whole_mask_has_no_key(tmp_path, damage):
    path = write(tmp_path / "a.tif", key="f00")
    if damage == "cut short":
        os.truncate(path, path.stat().st_size - 1)
    elif damage == "removed":
        path.unlink()
    else:
        path.write_text("" if damage == "emptied" else "no raster")
    assert read_raster_key(path) is None


@pytest.mark.parametrize("lacking", [1, 50, 300, 1000, 5000, 200_000])
def test_a_mask_that_does_not_fit_on_the_disk_is_an_error_and_leaves_nothing(
    largest_file, tmp_path, lacking
):
    mask = np.random.default_rng(0).integers(0, 8, (600, 600), dtype=np.uint8)
    grid = Grid(GRID.crs, PLACE, 600, 600)
    size = write(tmp_path / "whole.tif", mask, grid).stat().st_size
    with (
        largest_file(size - lacking),
        pytest.raises(OutputError, match=r"masks/a\.tif: cannot be written: "),
    ):
        write(tmp_path / "masks" / "a.tif", mask, grid)
    assert list((tmp_path / "masks").iterdir()) == []


edges = st.lists(
    st.floats(0.1, 500, allow_subnormal=False), min_size=1, max_size=30, unique=True
).map(lambda found: tuple(sorted(found)))


@given(edges, st.sampled_from(["mph", "km/h"]), st.booleans())
def test_speed_bins_come_back_from_tags(edges, unit, are_known):
    bins = SpeedBins(edges, unit, are_known=are_known)
    assert bins_of(PATH, bins_tags(bins)) == bins


def test_tags_of_others_name_no_speed_bins():
    assert bins_of(PATH, {"AREA_OR_POINT": "Area"}) is None


@pytest.mark.parametrize(
    "text",
    [
        "10,20",
        "[]",
        '{"edges": [10]}',
        '{"edges": [10, 5], "unit": "mph"}',
        '{"edges": ["x"], "unit": "mph"}',
        '{"edges": [10], "unit": "knots"}',
        '{"edges": null, "unit": "mph"}',
    ],
)
def test_tags_that_were_changed_are_an_error(text):
    (name,) = bins_tags(DEFAULT_BINS)
    with pytest.raises(DataError, match=r"a\.tif: .* is not a list of speed bins"):
        bins_of(PATH, {name: text})
