import rasterio
import shapely

from roadseg.commands.tools import demo
from roadseg.config import load_config
from roadseg.raster.images import read_facts
from roadseg.roads.labels.roads import read_roads
from roadseg.roads.options import LabelOptions


def small(monkeypatch):
    """Five coarse scenes are enough to see what is written."""
    monkeypatch.setattr(demo, "_SIZE_PX", 500)
    monkeypatch.setattr(demo, "_GSD_M", 0.78)  # 390 m
    monkeypatch.setattr(demo, "_ROWS", 1)


def test_the_demo_draws_scenes_roads_and_a_config_that_loads(tmp_path, monkeypatch):
    small(monkeypatch)
    assert demo.run(tmp_path).scenes == len(list((tmp_path / "images").iterdir())) == 5
    assert load_config(tmp_path / "roadseg.json").labels.roads == (str(tmp_path / "roads"),)


def test_one_scene_of_the_demo_has_16_bits(tmp_path, monkeypatch):
    small(monkeypatch)
    demo.run(tmp_path)
    types = [rasterio.open(path).dtypes[0] for path in (tmp_path / "images").iterdir()]
    assert sorted(types) == ["uint16", *["uint8"] * 4]


def test_roads_lie_inside_of_their_scene(tmp_path, monkeypatch):
    small(monkeypatch)
    demo.run(tmp_path)
    image = read_facts(tmp_path / "images/city_0.tif").grid
    roads = read_roads(tmp_path / "roads/city_0.geojson", options=LabelOptions()).roads.to_crs(
        image.crs
    )
    assert len(roads.shapes) > 3
    assert shapely.covers(image.footprint.buffer(0.01), roads.shapes).all()


def test_what_is_there_is_not_drawn_again(tmp_path, monkeypatch):
    small(monkeypatch)
    demo.run(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.*")}
    demo.run(tmp_path)
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.*")}
