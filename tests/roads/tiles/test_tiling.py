import numpy as np
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from roadseg.errors import ConfigError
from roadseg.raster.grid import DEGREES, transformer
from roadseg.roads.tiles.tiling import SIDES_KM, Tile, parse_tile, tile_cells, tiles_on, zones_at

# Computed by NGA's GEOTRANS (the package mgrs 1.5).
GEOTRANS = [
    ((8.6821, 49.4093), "32UMV7673"),
    ((-122.4194, 37.7749), "10SEG5180"),
    ((151.2093, -33.8688), "56HLH3450"),
    ((-68.1193, -16.4897), "19KEB9376"),
    ((179.99, -17.0), "60KZG1818"),
    ((0.001, 0.001), "31NAA6600"),
    ((0.001, -0.001), "31MAV6699"),
    ((18.9553, 69.6492), "34WDC2028"),
]
sides = st.sampled_from(SIDES_KM)
lats = st.one_of(st.floats(-79.9, -1e-9), st.floats(1e-9, 83.9))
places = st.tuples(st.floats(-179.99, 179.99), lats)


def tile_at(lon, lat, km):
    zones, is_south = zones_at(np.array([[lon, lat]]))
    tile = Tile(int(zones[0]), bool(is_south[0]), km, 0, 0)
    xy = np.array([transformer(DEGREES, tile.crs).transform(lon, lat)])
    cells = tile_cells(xy, tile.side_m, is_south=tile.is_south)
    return Tile(tile.zone, tile.is_south, km, *cells[0].tolist())


@pytest.mark.parametrize(("place", "reference"), GEOTRANS)
def test_ids_are_references_of_mgrs(place, reference):
    assert tile_at(*place, 1).id == reference
    assert tile_at(*place, 100).id == reference[:5]
    assert tile_at(*place, 10).id == f"{reference[:5]}{reference[5]}{reference[7]}"


@given(places, sides)
def test_an_id_names_its_tile_and_no_other(place, km):
    tile = tile_at(*place, km)
    assert parse_tile(tile.id) == tile
    assert parse_tile(tile.id.lower()) == tile


@given(places, sides)
def test_a_place_lies_on_the_ground_of_its_tile(place, km):
    tile = tile_at(*place, km)
    assert shapely.distance(tile.degrees, shapely.Point(place)) < 1e-6


@pytest.mark.parametrize(
    "text", ["", "32", "32UMV7", "00UMV75", "61UMV75", "32IMV75", "32UAV75", "32UMV755"]
)
def test_what_names_no_tile_is_refused(text):
    with pytest.raises(ConfigError, match="no such tile; expected a reference of MGRS such as"):
        parse_tile(text)


def test_a_square_at_the_border_of_a_zone_ends_there():
    left, right = parse_tile("32UQU23"), parse_tile("33UTP73")
    assert left.ground.area < left.square.area
    assert left.degrees.bounds[2] == pytest.approx(12, abs=1e-12)
    assert right.degrees.bounds[0] == pytest.approx(12, abs=1e-12)
    assert shapely.intersection(left.degrees, right.degrees).area < 1e-12


def test_tiles_at_the_border_of_zones_leave_no_gap():
    area = shapely.box(11.9, 48.0, 12.1, 48.1)
    ground = shapely.union_all([tile.degrees for tile in tiles_on(area, km=1)])
    assert shapely.difference(area, shapely.buffer(ground, 1e-9)).area < 1e-9


def test_an_area_that_ends_at_a_border_does_not_touch_the_next_tile():
    tile = parse_tile("32UMV7670")
    inner = shapely.buffer(tile.degrees, -1e-6)
    assert tiles_on(inner, km=1) == [tile]


def test_an_area_over_the_equator_and_the_date_line_has_tiles_on_all_sides():
    area = shapely.union(
        shapely.box(179.99, -0.01, 180, 0.01), shapely.box(-180, -0.01, -179.99, 0.01)
    )
    assert {(tile.zone, tile.is_south) for tile in tiles_on(area, km=10)} == {
        (1, False),
        (1, True),
        (60, False),
        (60, True),
    }


def test_there_are_no_tiles_near_the_poles():
    assert tiles_on(shapely.box(0, 84, 1, 90), km=10) == []
    assert tiles_on(shapely.MultiPolygon(), km=10) == []


def test_far_too_many_tiles_are_refused():
    with pytest.raises(ConfigError, match="use larger tiles, or a smaller area"):
        tiles_on(shapely.box(0, -80, 6, 0), km=1)
