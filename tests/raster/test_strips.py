"""A raster in strips, each whole or not there."""

import numpy as np
import pytest
import rasterio
from rasterio.enums import MaskFlags

from roadseg.errors import OutputError
from roadseg.raster import strips as module
from roadseg.raster.strips import Strips, overview_factors, require_room
from roadseg.raster.windows import Rows
from tests.drawing import grid_of

GRID = grid_of(50, 30)
VALUES = np.random.default_rng(0).integers(0, 255, (2, 50, 30), dtype=np.uint8)
KNOWN = np.random.default_rng(1).random((50, 30)) > 0.2


@pytest.fixture
def strips(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "STRIP_PX", 20)
    return Strips.beside(tmp_path / "a.tif", "k1", grid=GRID, bands=2)


def part(rows, cols):
    row, col = rows.start, cols.start
    return Rows(
        row,
        VALUES[:, row : rows.stop, col : cols.stop],
        KNOWN[row : rows.stop][:, col : cols.stop],
        col,
    )


def parts(height=8, width=11):
    for row in range(0, 50, height):
        for col in range(0, 30, width):
            yield part(range(row, min(row + height, 50)), range(col, min(col + width, 30)))


def read(strips):
    joined = strips.joined(names=["slow & steady", "any"], tags={"A": "<b>"})
    with joined as path, rasterio.open(path) as source:
        assert (source.transform, source.crs.to_epsg()) == (GRID.transform, 32611)
        assert (source.descriptions, source.tags()["A"]) == (("slow & steady", "any"), "<b>")
        return source.read(), source.dataset_mask() > 0


@pytest.mark.parametrize("block_px", [7, 1024])
def test_parts_become_strips_and_strips_a_raster(strips, monkeypatch, block_px):
    monkeypatch.setattr(module, "_BLOCK_PX", block_px)
    assert strips.missing == [range(20), range(20, 40), range(40, 50)]
    strips.write(parts())
    values, known = read(strips)
    assert np.array_equal(values, VALUES)
    assert np.array_equal(known, KNOWN)
    assert strips.missing == []


def test_room_is_needed_for_strips_that_are_missing_and_for_what_is_made_of_all(strips):
    assert strips.needed_bytes == 50 * 30 * 3 + 4320
    strips.write([part(range(20, 40), range(30))])
    assert strips.needed_bytes == 30 * 30 * 3 + 4320


@pytest.mark.parametrize(("gaps", "flags"), [(0, "all_valid"), (1, "per_dataset")])
def test_there_is_a_mask_only_if_a_pixel_holds_no_data(strips, gaps, flags):
    known = np.ones((50, 30), dtype=bool)
    known[33, 5 : 5 + gaps] = False
    strips.write([Rows(0, VALUES, known)])
    joined = strips.joined(names=["slow", "any"], tags={})
    with joined as path, rasterio.open(path) as source:
        assert source.mask_flag_enums[0] == [MaskFlags[flags]]
        assert np.array_equal(source.dataset_mask() > 0, known)


def test_a_strip_that_lacks_a_pixel_is_not_kept(strips):
    strips.write(list(parts())[:-1])
    assert strips.missing == [range(40, 50)]
    assert {path.stem for path in strips.folder.iterdir()} == {"00000000", "00000020"}


def test_a_folder_without_a_strip_does_not_stay(strips):
    strips.write([])
    assert not strips.folder.exists()


def test_strips_of_other_rasters_and_keys_are_told_apart(strips, tmp_path):
    others = [
        Strips.beside(tmp_path / name, key, grid=GRID, bands=2)
        for name, key in (("a.tif", "k2"), ("b.tif", "k2"), ("a.tif-x", "k2"))
    ]
    for each in (strips, *others):
        each.write(parts())
    strips.remove_others()
    assert [each.folder.exists() for each in (strips, *others)] == [True, False, True, True]
    strips.remove()
    assert not strips.folder.exists()


def test_a_disk_that_has_clearly_too_little_room_is_refused(tmp_path):
    require_room(tmp_path / "not/there/a.tif", 1000)
    with pytest.raises(OutputError, match=r"a\.tif: needs 1000000.0 GB, but its disk"):
        require_room(tmp_path / "not/there/a.tif", 10**15)


@pytest.mark.parametrize(
    ("height", "width", "factors"),
    [
        (512, 512, []),
        (513, 20, [2]),
        (1300, 1300, [2, 4]),
        (12000, 9, [2, 4, 8, 16, 32]),
        (1, 10**7, [2, 4, 8, 16, 32, 64, 128, 256, 512]),
    ],
)
def test_a_raster_has_overviews_until_one_is_small(height, width, factors):
    assert overview_factors(height, width) == factors
