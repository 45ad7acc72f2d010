import geopandas
import numpy as np
import pytest
import shapely
from affine import Affine
from pyproj import CRS
from rasterio.features import rasterize

from roadseg.core.grid import Grid
from roadseg.core.masks import burn_roads
from roadseg.core.roads import Roads, roads_on
from roadseg.core.speeds import speed_bin
from roadseg.io.rasters import read_facts
from roadseg.io.roads import read_roads

UTM = CRS.from_epsg(32611)
WEST, NORTH = 660000.0, 4000000.0
GRID = Grid(UTM, Affine(1, 0, WEST, 0, -1, NORTH), 20, 30)
DEGREES = Grid(
    CRS.from_epsg(4326), Affine(2.7e-6, 0, -115.22, 0, -2.7e-6, 36.13), height=300, width=300
)


def road(*rows_cols, grid=GRID):
    """Return the road through pixel positions."""
    return shapely.LineString(grid.to_metric(np.array(rows_cols, dtype=float)))


def burn(*roads, bins=None, buffer_m=2.0, grid=GRID):
    lines = np.array(roads, dtype=object)
    bins = np.array(bins or [3] * len(roads), dtype=np.uint8)
    return burn_roads(lines, bins, grid, buffer_m=buffer_m)


def wander(grid, count=25):
    """Draw bent roads all over a grid, with their speed bins."""
    random = np.random.default_rng(5)
    lines = [road(*random.uniform(-20, 320, (4, 2)), grid=grid) for _ in range(count)]
    return np.array(lines, dtype=object), random.integers(1, 8, count).astype(np.uint8)


def burn_by_geopandas(lines, bins, grid, *, buffer_m, crs):
    """Do the work of burn_roads by another way."""
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


def test_a_road_that_ends_is_rounded_there():
    mask = burn(road((10, 10), (10, 20)))
    assert mask[10].tolist() == [0] * 8 + [3] * 14 + [0] * 8
    assert mask[8].tolist() == [0] * 9 + [3] * 12 + [0] * 9


@pytest.mark.parametrize(("buffer_m", "rows"), [(0.49, 0), (0.51, 2), (1.49, 2), (1.51, 4)])
def test_a_pixel_is_road_when_its_centre_is_inside_of_the_buffer(buffer_m, rows):
    mask = burn(road((10, -5), (10, 35)), buffer_m=buffer_m)
    assert (mask > 0).sum() == rows * 30


@pytest.mark.parametrize("bins", [[2, 6], [6, 2]])
def test_the_faster_road_wins_where_two_overlap(bins):
    mask = burn(road((10, -5), (10, 35)), road((-5, 15), (25, 15)), bins=bins)
    assert (mask[8:12, 13:17] == 6).all()
    assert np.unique(mask).tolist() == [0, 2, 6]


def test_no_road_gives_background():
    assert np.array_equal(burn(), np.zeros((20, 30), dtype=np.uint8))


def test_a_road_beside_the_scene_leaves_no_trace():
    assert not burn(road((30, -5), (30, 35))).any()


def test_a_mask_on_pixels_of_degrees_is_as_wide_as_the_road():
    mask = burn(road((150, -50), (150, 350), grid=DEGREES), grid=DEGREES, buffer_m=6)
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
    lines, bins = wander(grid)
    expected = burn_by_geopandas(lines, bins, grid, buffer_m=2, crs=grid.metric_crs)
    assert np.array_equal(burn(*lines, bins=bins.tolist(), grid=grid), expected)


def test_roads_in_degrees_are_burnt_where_they_lie():
    lines, bins = wander(DEGREES)
    roads = Roads(UTM, lines, bins * 10.0, np.full(len(lines), "speed_mph")).to_crs(DEGREES.crs)
    near = roads_on(DEGREES, roads, margin_m=2)
    mask = burn(*near.lines, bins=speed_bin(near.speed_mph).tolist(), grid=DEGREES)
    expected = burn_by_geopandas(lines, bins, DEGREES, buffer_m=2, crs=UTM)
    assert np.array_equal(mask, expected)


@pytest.mark.real
def test_the_mask_of_vegas_is_what_geopandas_and_rasterio_make(real_data):
    folder = real_data / "spacenet" / "vegas"
    (labels,), (image,) = folder.glob("*.geojson"), folder.glob("*.tif")
    grid = read_facts(image).grid
    near = roads_on(grid, read_roads(labels, default_mph=25).roads, margin_m=2)
    mask = burn_roads(near.lines, speed_bin(near.speed_mph), grid, buffer_m=2)
    frame = geopandas.read_file(labels).to_crs(32611)
    bins = np.ceil(frame["speed_mph"] / 10).clip(1, 7).astype(np.uint8)
    expected = burn_by_geopandas(frame.geometry, bins, grid, buffer_m=2, crs=frame.crs)
    assert (mask > 0).mean() > 0.02
    assert (mask != expected).sum() == 0
