"""Which scenes an area touches, wherever it lies and however it is given."""

import geopandas
import numpy as np
import pytest
import shapely
from affine import Affine

from roadseg.dataset.scene_parts import (
    cut_to_area,
    open_scene_probability,
    part_in,
    parts_of_scenes,
)
from roadseg.errors import ConfigError, DataError
from roadseg.raster import pixels
from roadseg.raster.images import read_facts
from roadseg.raster.options import ImageryOptions
from roadseg.raster.pixels import read_preview, read_window
from roadseg.raster.windows import Window
from roadseg.roads.labels.areas import area_content, work_area

SIDE = 200


@pytest.fixture
def write(write_raster):
    """Give a function that writes a scene of 1 m pixels, or others, around a place."""

    def write(name, epsg, x, y):
        values = np.linspace(0, 1, SIDE * SIDE, dtype=np.float32).reshape(SIDE, SIDE)
        transform = Affine(1, 0, x - SIDE / 2, 0, -1, y + SIDE / 2)
        return write_raster(values, name=f"{name}.tif", crs=f"EPSG:{epsg}", transform=transform)

    return write


def parts(area, **paths):
    return parts_of_scenes(paths, dict.fromkeys(paths, ImageryOptions()), area_setting=area)


def share(path, area):
    """Return the share of the pixels of a scene that are in an area."""
    extent = open_scene_probability(path, ImageryOptions(area=area)).extent
    return 1.0 if extent is None else extent.inside(Window(0, 0, SIDE, SIDE)).mean()


def test_scenes_outside_are_left_out_after_a_look_at_their_headers(write, draw_area, monkeypatch):
    near, far = write("near", 32611, 660000, 4000000), write("far", 32611, 670000, 4000000)
    area = draw_area("a.gpkg", shapely.box(659000, 3990000, 660000, 4010000))
    monkeypatch.setattr(pixels, "read_pixels", None)
    found = parts(area, near=near, far=far)
    assert list(found) == ["near"]
    assert found["near"].window == Window(0, 0, SIDE, SIDE // 2)


def test_an_area_that_touches_no_scene_is_told_with_both_bounds(write):
    path = write("a", 32611, 660000, 4000000)
    told = (
        r"imagery.area: 8,49,9,50 touches none of 1 image; it covers 8\.0000,49\.0000,9\.0000,"
        r"50\.0000, the images cover -115\.22\d+,36\.13\d+,-115\.22\d+,36\.13\d+ \(west,south"
    )
    with pytest.raises(DataError, match=told):
        parts("8,49,9,50", a=path)


def test_an_area_needs_scenes_with_a_place(tmp_path):
    from roadseg.raster.grid import LOCAL_CRS, Grid

    grid = Grid(LOCAL_CRS, Affine(1, 0, 0, 0, -1, 100), 100, 100)
    with pytest.raises(DataError, match=r"a\.tif: has no georeference, so imagery\.area \(8,49"):
        part_in(grid, work_area("8,49,9,50"), tmp_path / "a.tif")


def test_an_image_that_cannot_be_read_stays_for_those_who_say_why(write, tmp_path):
    (tmp_path / "b.tif").write_text("no raster")
    found = parts("-116,36,-115,37", a=write("a", 32611, 660000, 4000000), b=tmp_path / "b.tif")
    assert found == {"a": None, "b": None}


def test_the_whole_world_holds_every_scene(write):
    world = "-180,-90,180,90"
    for name, epsg, x, y in [
        ("usual", 32611, 660000, 4000000),
        ("dateline", 32660, 833978, 0),
        ("arctic", 32661, 2000000, 1300000),
        ("mercator", 3857, 900000, 6000000),
    ]:
        assert share(write(name, epsg, x, y), world) == 1, name


def test_an_area_may_lie_across_the_antimeridian(write, draw_area):
    path = write("a", 32660, 833978, 0)  # its middle is at 180 degrees
    west, east = shapely.box(170, -10, 180, 10), shapely.box(-180, -10, -170, 10)
    both = shapely.MultiPolygon([west, east])
    assert share(path, "170,-10,180,10") == pytest.approx(0.5, abs=0.01)
    assert share(path, "-180,-10,-170,10") == pytest.approx(0.5, abs=0.01)
    assert share(path, "170,-10,-170,10") == 1
    assert share(path, draw_area("both.geojson", both, crs=4326)) == 1
    assert share(path, draw_area("beyond.gpkg", shapely.box(170, -10, 190, 10), crs=4326)) == 1


def test_an_area_may_be_in_any_crs(write, draw_area):
    path = write("a", 32611, 660000, 4000000)
    half = shapely.box(659000, 3990000, 660000, 4010000)
    for crs in (32611, 32612, 3857, 4326, 4267):
        moved = geopandas.GeoSeries([half], crs=32611).to_crs(crs)
        assert share(path, draw_area(f"{crs}.gpkg", *moved, crs=crs)) == pytest.approx(
            0.5, abs=0.02
        )


def test_a_file_that_is_missing_is_named(tmp_path):
    for ask in (work_area, area_content):
        with pytest.raises((ConfigError, DataError), match=r"gone\.gpkg"):
            ask(str(tmp_path / "gone.gpkg"))


def test_the_content_of_an_area_is_not_its_path_nor_its_time(draw_area, tmp_path):
    first = draw_area("a.geojson", shapely.box(8, 49, 9, 50), crs=4326)
    (tmp_path / "moved").mkdir()
    moved = tmp_path / "moved/b.geojson"
    moved.write_bytes((tmp_path / "a.geojson").read_bytes())
    assert area_content(first) == area_content(str(moved))
    assert (
        area_content("8,49,9,50") == area_content(" 8.0,49.00, 9,50") != area_content("8,49,9,51")
    )


@pytest.mark.parametrize("gsd_m", [None, 2.0, 0.5])
def test_a_part_has_the_pixels_of_the_whole_and_no_data_outside(write, draw_area, gsd_m):
    path = write("a", 32611, 660000, 4000000)
    disc = shapely.Point(660010, 3999990).buffer(40)
    whole = read_facts(path, ImageryOptions(gsd_m=gsd_m))
    facts = cut_to_area(whole, draw_area("a.gpkg", disc))
    rows, cols = facts.grid.height, facts.grid.width
    values, valid = read_window(facts, Window(0, 0, rows, cols))
    row, col = facts.part.window[:2]
    expected, everywhere = read_window(whole, facts.part.window)
    assert np.array_equal(values, expected)
    assert everywhere.all()
    assert valid.mean() == pytest.approx(np.pi / 4, abs=0.05)
    assert np.array_equal(facts.grid.footprint, whole.grid.crop(row, col, rows, cols).footprint)
    picture, shown = read_preview(facts, side=40)
    assert picture.shape == (1, *shown.shape)
    assert shown.mean() == pytest.approx(np.pi / 4, abs=0.1)
