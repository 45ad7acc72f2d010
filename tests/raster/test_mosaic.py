import os
import shutil

import numpy as np
import pytest
import rasterio
from affine import Affine
from pyproj import CRS
from rasterio.enums import ColorInterp

from roadseg.errors import DataError, OutputError
from roadseg.raster.grid import Grid
from roadseg.raster.images import read_facts
from roadseg.raster.mosaic import cover_tiles, group_tiles, place_tile, write_mosaic
from roadseg.raster.options import ImageryOptions
from roadseg.raster.pixels import read_window
from roadseg.raster.windows import Window

UTM = CRS.from_epsg(32611)
WEST, NORTH = 660000.0, 4000000.0
GROUND = np.random.default_rng(0).integers(1, 255, (3, 100, 120), dtype=np.uint8)
QUARTERS = [(0, 0, 60, 70), (0, 70, 60, 50), (60, 0, 40, 70), (60, 70, 40, 50)]
WHOLE = (0, 0, 100, 120)


def place(row, col, gsd_m=1.0):
    return Affine(gsd_m, 0, WEST + col, 0, -gsd_m, NORTH - row)


@pytest.fixture
def cut(write_raster):
    """Give a function that writes windows of the ground, or of other pixels, as tiles."""

    def write(*windows, ground=GROUND, suffix="", **options):
        return [
            write_raster(
                ground[:, row : row + height, col : col + width],
                name=f"tiles/{row}_{col}{suffix}.tif",
                **{"transform": place(row, col)} | options,
            )
            for row, col, height, width in windows
        ]

    return write


@pytest.fixture
def mosaic(tmp_path):
    """Give a function that makes a scene of tiles."""

    def make(tiles, **options):
        write_mosaic(tmp_path / "out" / "city.vrt", tiles, **options)
        return read_facts(tmp_path / "out" / "city.vrt")

    return make


@pytest.mark.parametrize("window", [WHOLE, (50, 60, 20, 20), (59, 0, 2, 120), (0, 69, 100, 2)])
def test_a_window_across_the_edges_of_tiles_is_that_of_the_ground(cut, mosaic, window):
    values, valid = read_window(mosaic(cut(*QUARTERS)), Window(*window))
    row, col, height, width = window
    assert np.array_equal(values, GROUND[:, row : row + height, col : col + width])
    assert valid.all()


@pytest.mark.parametrize("turned", [(1, 0, 0, -1), (0.8, 0.6, 0.6, -0.8)])
def test_a_mosaic_lies_where_its_ground_lies_whatever_tile_comes_first(cut, mosaic, turned):
    a, b, d, e = turned
    ground = Grid(CRS.from_epsg(32611), Affine(a, b, WEST, d, e, NORTH), 100, 120)
    tiles = [cut(window, transform=ground.crop(*window).transform)[0] for window in QUARTERS]
    grid = mosaic(tiles[::-1]).grid
    assert grid.transform.almost_equals(ground.transform, 1e-6)
    assert (grid.crs, grid.height, grid.width) == (ground.crs, 100, 120)


def test_a_mosaic_of_one_tile_has_exactly_its_transform(write_raster, mosaic):
    transform = Affine(1 / 3e5, 0, -117 - 1 / 7, 0, -1 / 3e5, 32 + 2 / 3)
    tile = write_raster(crs="EPSG:4326", transform=transform)
    assert mosaic([tile]).grid == read_facts(tile).grid


def test_where_no_tile_lies_there_is_no_data(cut, mosaic):
    facts = mosaic(cut(QUARTERS[0], QUARTERS[3]))
    covered = np.zeros((100, 120), dtype=bool)
    covered[:60, :70] = covered[60:, 70:] = True
    values, valid = read_window(facts, Window(*WHOLE))
    assert np.array_equal(valid, covered)
    assert np.array_equal(values, GROUND * covered)


def test_gaps_stay_gaps_when_a_mosaic_is_resampled(cut, mosaic, tmp_path):
    mosaic(cut(QUARTERS[0], QUARTERS[3]))
    facts = read_facts(tmp_path / "out" / "city.vrt", ImageryOptions(gsd_m=2.0))
    valid = read_window(facts, Window(0, 0, 50, 60))[1]
    assert valid[:30, :35].all()
    assert not valid[:30, 35:].any()


def test_the_value_without_data_is_kept(cut, mosaic):
    ground = GROUND.copy()
    ground[:, 30:80, 40:90] = 0
    _, valid = read_window(mosaic(cut(*QUARTERS, ground=ground, nodata=0)), Window(*WHOLE))
    assert np.array_equal(valid, ground.any(axis=0))


@pytest.mark.parametrize("dtype", ["int16", "uint16", "float32"])
def test_pixels_keep_their_type(cut, mosaic, dtype):
    ground = GROUND.astype(dtype) * 100
    facts = mosaic(cut(*QUARTERS, ground=ground, nodata=-1 if dtype == "int16" else None))
    assert facts.dtype == dtype
    assert np.array_equal(read_window(facts, Window(*WHOLE))[0], ground)


def test_floats_that_are_nan_hold_no_data(cut, mosaic):
    ground = GROUND.astype("float32")
    ground[:, 40:70, 60:80] = np.nan
    valid = read_window(mosaic(cut(*QUARTERS, ground=ground, nodata=np.nan)), Window(*WHOLE))[1]
    assert np.array_equal(valid, np.isfinite(ground[0]))


def with_hole(path, kind):
    """Take the data from the left half of a tile."""
    with rasterio.open(path, "r+") as target:
        mask = np.full(target.shape, 255, dtype=np.uint8)
        mask[:, : target.width // 2] = 0
        if kind == "mask":
            target.write_mask(mask)
        else:
            target.write(mask, 4)
            target.colorinterp = [*target.colorinterp[:3], ColorInterp.alpha]


@pytest.mark.parametrize("kind", ["mask", "alpha"])
def test_pixels_without_data_do_not_hide_those_of_an_earlier_tile(cut, mosaic, kind):
    ground = np.concatenate([GROUND, GROUND[:1] * 0 + 255])
    bands = 4 if kind == "alpha" else 3
    below, above = cut((0, 0, 60, 70), (0, 40, 60, 80), ground=ground[:bands], photometric="rgb")
    if kind == "alpha":
        with rasterio.open(below, "r+") as target:
            target.colorinterp = [*target.colorinterp[:3], ColorInterp.alpha]
    with_hole(above, kind)
    values, valid = read_window(mosaic([below, above]), Window(0, 0, 60, 120))
    assert valid[:, :70].all()
    assert not valid[:, 70:80].any()
    assert np.array_equal(values[:, :, :70], GROUND[:, :60, :70])


def test_of_tiles_that_overlap_the_later_is_seen(cut, mosaic):
    below = cut((0, 0, 60, 70))
    above = cut((0, 40, 60, 80), ground=255 - GROUND)
    values, _ = read_window(mosaic(below + above), Window(0, 0, 60, 120))
    assert np.array_equal(values[:, :, :40], GROUND[:, :60, :40])
    assert np.array_equal(values[:, :, 40:], (255 - GROUND)[:, :60, 40:])


def test_bands_keep_their_names(cut, mosaic):
    facts = mosaic(cut(*QUARTERS, names=["red", "green", "blue & more"]))
    assert facts.names == ("red", "green", "blue & more")


def test_tiles_and_mosaic_can_move_together(cut, mosaic, tmp_path):
    mosaic(cut(*QUARTERS))
    shutil.move(tmp_path / "tiles", tmp_path / "moved" / "tiles")
    shutil.move(tmp_path / "out", tmp_path / "moved" / "out")
    facts = read_facts(tmp_path / "moved" / "out" / "city.vrt")
    assert np.array_equal(read_window(facts, Window(*WHOLE))[0], GROUND)


def test_a_tile_that_is_gone_is_an_error_when_it_is_read(cut, mosaic):
    tiles = cut(*QUARTERS)
    facts = mosaic(tiles)
    tiles[1].unlink()
    with pytest.raises(DataError, match=r"city\.vrt: not a readable raster \(.*0_70\.tif"):
        read_window(facts, Window(*WHOLE))


def test_tiles_without_a_crs_take_that_given(cut, mosaic):
    tiles = cut(*QUARTERS, crs=None)
    with pytest.raises(DataError, match=r"0_0\.tif: no coordinate system found"):
        mosaic(tiles)
    assert mosaic(tiles, crs=CRS.from_epsg(32611)).grid.crs == CRS.from_epsg(32611)


@pytest.mark.parametrize("off_px", [-0.009, 0.009])
def test_corners_next_to_common_pixels_are_taken(cut, mosaic, off_px):
    tiles = cut(QUARTERS[0]) + cut(QUARTERS[1], transform=place(0, 70 + off_px))
    assert np.array_equal(read_window(mosaic(tiles), Window(0, 0, 60, 120))[0], GROUND[:, :60])


@pytest.mark.parametrize("off_px", [-0.02, 0.02, 0.5])
def test_corners_off_common_pixels_are_refused(cut, mosaic, off_px):
    tiles = cut(QUARTERS[0]) + cut(QUARTERS[1], transform=place(0, 70 + off_px))
    message = (
        rf"0_70\.tif: found corners {abs(off_px)}\d* pixels off, expected a common pixel "
        r"grid as in .*0_0\.tif; .* gdalwarp -t_srs EPSG:32611 -tap -tr 1 1 <image> <new file>"
    )
    with pytest.raises(DataError, match=message):
        mosaic(tiles)


@pytest.mark.parametrize(("gsd_m", "fits"), [(1.0001, True), (1.0002, False)])
def test_pixels_of_another_size_are_refused_if_they_drift_apart(cut, mosaic, gsd_m, fits):
    tiles = cut(QUARTERS[0]) + cut(QUARTERS[1], transform=place(0, 70, gsd_m))
    if fits:
        assert mosaic(tiles).grid.width == 120
    else:
        with pytest.raises(DataError, match=r"found pixels of 1\.0002 1\.0002, expected 1 1 as"):
            mosaic(tiles)


@pytest.mark.parametrize(
    ("options", "differ"),
    [
        ({"crs": "EPSG:32612"}, "found .* zone 12N, expected .* zone 11N"),
        ({"ground": GROUND[:2]}, "found 2 bands, expected 3 bands"),
        ({"ground": GROUND.astype("uint16")}, "found pixels of uint16, expected pixels of uint8"),
        ({"nodata": 0}, r"found nodata 0, expected nodata None"),
        ({"transparent": True}, "found an alpha band, expected no alpha band"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_a_tile_unlike_the_first_is_named(cut, mosaic, options, differ):
    tiles = cut(QUARTERS[0]) + cut(QUARTERS[1], **options)
    with pytest.raises(DataError, match=rf"0_70\.tif: {differ} as in .*0_0\.tif; "):
        mosaic(tiles)


def test_a_tile_of_complex_numbers_is_refused(cut, mosaic):
    with pytest.raises(DataError, match="pixels of complex64 found, expected one of uint8"):
        mosaic(cut(QUARTERS[0], ground=GROUND.astype("complex64")))


def test_tiles_with_a_colour_table_are_refused_with_what_to_do(write_raster, mosaic):
    tile = write_raster(GROUND[0], colours={0: (1, 2, 3)})
    with pytest.raises(
        DataError, match=r"has a colour table.*gdal_translate -expand rgb scene\.tif"
    ):
        mosaic([tile])


def test_a_tile_cut_short_is_refused(cut, mosaic):
    tiles = cut(*QUARTERS)
    os.truncate(tiles[2], 4000)
    with pytest.raises(DataError, match=r"60_0\.tif: cut short"):
        mosaic(tiles)


def test_a_mosaic_of_nothing_is_refused(mosaic):
    with pytest.raises(DataError, match="a mosaic needs at least one image"):
        mosaic([])


def test_a_mosaic_that_says_the_same_stays_as_it_is(cut, mosaic):
    tiles = cut(*QUARTERS)
    path = mosaic(tiles).path
    os.utime(path, (0, 0))
    assert mosaic(tiles).path.stat().st_mtime == 0
    assert mosaic(tiles[:2]).path.stat().st_mtime > 0


def test_a_mosaic_that_cannot_be_written_is_an_error_that_names_it(cut, tmp_path):
    (tmp_path / "out").write_text("no folder")
    with pytest.raises(OutputError, match=r"out/city\.vrt: cannot be written"):
        write_mosaic(tmp_path / "out" / "city.vrt", cut(QUARTERS[0]))


@pytest.mark.real
def test_real_tiles_become_one_scene(real_data, mosaic):
    tiles = sorted((real_data / "san_diego" / "images").glob("*.tif"))
    facts = mosaic(tiles)
    assert (facts.grid.height, facts.grid.width, facts.dtype) == (2560, 2048, "uint8")
    values, valid = read_window(facts, Window(0, 0, 2560, 2048))
    assert valid.sum() == len(tiles) * 512**2
    for tile in map(read_facts, tiles):
        row, col = facts.grid.to_pixel(tile.grid.to_map(np.zeros((1, 2)))).round().astype(int)[0]
        pixels, _ = read_window(tile, Window(0, 0, 512, 512))
        assert np.array_equal(values[:, row : row + 512, col : col + 512], pixels)


FIRST = Grid(UTM, Affine(2, 0, 500_000, 0, -2, 4_000_000), 30, 40)


def tile(row, col, height=30, width=40, *, gsd_m=2.0, crs=UTM):
    place = FIRST.crop(row, col, height, width).transform
    return Grid(crs, place @ Affine.scale(gsd_m / 2), height, width)


def pairs(*rows):
    return np.array(rows, dtype=np.int64).reshape(-1, 2)


def test_a_tile_is_placed_by_rows_and_columns_that_may_be_negative():
    assert place_tile(tile(-30, 17, 5, 6), FIRST, off_px=0.1) == Window(-30, 17, 5, 6)


@pytest.mark.parametrize(("off_px", "is_placed"), [(0.099, True), (0.101, False), (0.5, False)])
def test_a_tile_off_the_pixels_has_no_place(off_px, is_placed):
    assert (place_tile(tile(3 + off_px, 0), FIRST, off_px=0.1) is not None) == is_placed


@pytest.mark.parametrize(("gsd_m", "is_placed"), [(2.004, True), (2.006, False), (4.0, False)])
def test_pixels_of_another_size_have_no_place(gsd_m, is_placed):
    found = place_tile(tile(0, 0, gsd_m=gsd_m), FIRST, off_px=0.1)  # 0.08 and 0.12 px over 40
    assert (found is not None) == is_placed


def test_a_tile_without_a_finite_place_has_none():
    nowhere = Grid(UTM, Affine(2, 0, np.nan, 0, -2, 0), 30, 40)
    assert place_tile(nowhere, FIRST, off_px=0.1) is None


def test_a_cover_is_the_smallest_grid_that_holds_all_tiles():
    grid, inside = cover_tiles(FIRST, [Window(0, 0, 30, 40), Window(-10, 40, 10, 5)])
    assert grid == FIRST.crop(-10, 0, 40, 45)
    assert inside == [Window(10, 0, 30, 40), Window(0, 40, 10, 5)]


def test_tiles_that_touch_one_by_one_are_one_group():
    grids = [tile(0, 0), tile(0, 80), tile(0, 40), tile(90, 0)]
    assert group_tiles(grids, pairs([0, 2], [1, 2]), off_px=0.1) == [[0, 1, 2], [3]]


def test_a_tile_of_other_pixels_parts_those_on_either_side():
    grids = [tile(0, 0), tile(0, 40.5), tile(0, 80)]
    assert group_tiles(grids, pairs([0, 1], [1, 2]), off_px=0.1) == [[0], [1], [2]]


def test_a_tile_in_another_crs_is_in_no_group():
    grids = [tile(0, 0), tile(0, 40, crs=CRS.from_epsg(32612))]
    assert group_tiles(grids, pairs([0, 1]), off_px=0.1) == [[0], [1]]


def test_tiles_that_drift_off_the_pixels_of_the_first_begin_another_group():
    grids = [tile(0, 0), tile(0, 40.08), tile(0, 80.16)]
    assert group_tiles(grids, pairs([0, 1], [1, 2]), off_px=0.1) == [[0, 1], [2]]
