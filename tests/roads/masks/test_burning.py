import geopandas
import numpy as np
import pytest
import shapely
from affine import Affine
from pyproj import CRS
from rasterio.features import rasterize

from roadseg.raster.grid import Grid
from roadseg.raster.windows import cut_blocks
from roadseg.roads.masks.burning import areas_of_roads, burn_roads, road_pixels
from roadseg.roads.speeds import DEFAULT_BINS, SpeedBins
from tests.drawing import labels_of

UTM = CRS.from_epsg(32611)
WEST, NORTH = 660000.0, 4000000.0
GRID = Grid(UTM, Affine(1, 0, WEST, 0, -1, NORTH), 20, 30)
DEGREES = Grid(
    CRS.from_epsg(4326), Affine(2.7e-6, 0, -115.22, 0, -2.7e-6, 36.13), height=300, width=300
)


def road(*rows_cols, grid=GRID):
    """Return the road through pixel positions."""
    return shapely.LineString(grid.to_metric(np.array(rows_cols, dtype=float)))


def burn(*shapes, mph=25.0, width_m=4.0, grid=GRID, bins=DEFAULT_BINS):
    roads = labels_of(shapes, speeds_mph=mph, widths_m=width_m)
    return burn_roads(areas_of_roads(roads, grid, bins=bins), grid)


def wander(grid, count=25):
    """Draw bent roads all over a grid, with their speeds."""
    random = np.random.default_rng(5)
    lines = [road(*random.uniform(-20, 320, (4, 2)), grid=grid) for _ in range(count)]
    return lines, random.integers(1, 8, count) * 10.0


def burn_by_geopandas(lines, bins, grid, *, buffer_m, crs):
    """Do the work by another way."""
    frame = geopandas.GeoDataFrame({"bin": bins}, geometry=list(lines), crs=crs)
    areas = frame.buffer(buffer_m).to_crs(grid.crs)
    mask = np.zeros((grid.height, grid.width), dtype=np.uint8)
    for speed in range(1, 8):
        shapes = list(areas[frame["bin"] == speed])
        if shapes:
            options = {"out_shape": mask.shape, "transform": grid.transform}
            mask[rasterize(shapes, **options) == 1] = speed
    return mask


def test_a_road_4_m_wide_covers_4_rows_of_1_m():
    expected = np.zeros((20, 30))
    expected[8:12] = 3
    assert np.array_equal(burn(road((10, -5), (10, 35))), expected)


def test_a_road_goes_on_beyond_the_date_line():
    grid = Grid(CRS.from_epsg(4326), Affine(1e-5, 0, 179.9998, 0, -1e-5, 0), height=20, width=40)
    mask = burn(road((10, -5), (10, 45), grid=grid), grid=grid)
    assert (mask > 0).sum(axis=0).tolist() == [4] * 40


def test_a_road_that_ends_is_rounded_there():
    mask = burn(road((10, 10), (10, 20)))
    assert mask[10].tolist() == [0] * 8 + [3] * 14 + [0] * 8
    assert mask[8].tolist() == [0] * 9 + [3] * 12 + [0] * 9


@pytest.mark.parametrize(("width_m", "rows"), [(0.98, 0), (1.02, 2), (2.98, 2), (3.02, 4)])
def test_a_pixel_is_road_when_its_centre_is_inside_of_the_width(width_m, rows):
    mask = burn(road((10, -5), (10, 35)), width_m=width_m)
    assert (mask > 0).sum() == rows * 30


def test_every_road_has_its_own_width():
    mask = burn(road((5, -5), (5, 35)), road((15, -5), (15, 35)), width_m=[2, 6])
    assert (mask[:, 10] > 0).tolist() == [4 <= r < 6 or 12 <= r < 18 for r in range(20)]


def test_a_polygon_is_burnt_as_it_is():
    mask = burn(road((2, 3), (2, 9), (6, 9), (6, 3), (2, 3)), width_m=2)
    square = shapely.Polygon(road((2, 3), (2, 9), (6, 9), (6, 3)).coords)
    expected = np.zeros((20, 30))
    expected[2:6, 3:9] = 3
    assert np.array_equal(burn(square, width_m=2), expected)
    assert (mask > 0).sum() > (expected > 0).sum()


@pytest.mark.parametrize("mph", [[15, 55], [55, 15]])
def test_the_faster_road_wins_where_two_overlap(mph):
    mask = burn(road((10, -5), (10, 35)), road((-5, 15), (25, 15)), mph=mph)
    assert (mask[8:12, 13:17] == 6).all()
    assert np.unique(mask).tolist() == [0, 2, 6]


def test_the_bins_decide_about_the_values():
    bins = SpeedBins((30.0, 50.0, 100.0), "km/h")
    mask = burn(road((10, -5), (10, 35)), mph=50 / 1.609344, bins=bins)
    assert np.unique(mask).tolist() == [0, 2]


def test_no_road_gives_background():
    assert np.array_equal(burn(), np.zeros((20, 30), dtype=np.uint8))


def test_a_road_beside_the_scene_leaves_no_trace():
    assert not burn(road((30, -5), (30, 35))).any()


def test_a_mask_on_pixels_of_degrees_is_as_wide_as_the_road():
    mask = burn(road((150, -50), (150, 350), grid=DEGREES), grid=DEGREES, width_m=12)
    along_col_m = DEGREES.pixel_size_m[1]
    assert (mask[:, 150] > 0).sum() * along_col_m == pytest.approx(12, abs=along_col_m)


@pytest.mark.parametrize("grid", [GRID, DEGREES], ids=["utm", "degrees"])
def test_every_pixel_is_road_by_its_distance_to_the_lines(grid):
    lines, _ = wander(grid)
    mask = burn(*lines, grid=grid)
    rows, cols = np.indices(mask.shape) + 0.5
    centres = shapely.points(grid.to_metric(np.column_stack([rows.ravel(), cols.ravel()])))
    distance = shapely.distance(centres, shapely.union_all(lines)).reshape(mask.shape)
    assert (mask[distance < 1.98] > 0).all()  # a buffer's round ends are polygons
    assert not mask[distance > 2.02].any()


@pytest.mark.parametrize("grid", [GRID, DEGREES], ids=["utm", "degrees"])
def test_a_mask_is_what_geopandas_and_rasterio_make(grid):
    lines, mph = wander(grid)
    expected = burn_by_geopandas(lines, mph / 10, grid, buffer_m=2, crs=grid.metric_crs)
    assert np.array_equal(burn(*lines, mph=mph, grid=grid), expected)


@pytest.mark.parametrize("block_px", [37, 128])
def test_blocks_of_a_mask_are_the_mask(block_px):
    lines, mph = wander(DEGREES)
    areas = areas_of_roads(labels_of(lines, speeds_mph=mph), DEGREES, bins=DEFAULT_BINS)
    mask = np.full((300, 300), 99, dtype=np.uint8)
    for row, col, height, width in cut_blocks(300, 300, block_px=block_px):
        block = burn_roads(areas, DEGREES.crop(row, col, height, width))
        mask[row : row + height, col : col + width] = block
    assert np.array_equal(mask, burn(*lines, mph=mph, grid=DEGREES))


def test_road_is_neither_background_nor_ignored():
    mask = np.array([[0, 1, 7], [255, 0, 3]], dtype=np.uint8)
    assert road_pixels(mask).tolist() == [[False, True, True], [False, False, True]]
