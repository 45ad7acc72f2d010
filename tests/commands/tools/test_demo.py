import pytest
import rasterio
import shapely

from roadseg.commands.tools import demo
from roadseg.config import load_config
from roadseg.raster.images import read_facts
from roadseg.roads.labels.roads import read_roads
from roadseg.roads.options import LabelOptions


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """Draw five coarse scenes, which are enough to see what is written; return their folder."""
    folder = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "_SIZE_PX", 250)
        patch.setattr(demo, "_GSD_M", 1.56)  # 390 m
        patch.setattr(demo, "_ROWS", 1)
        assert demo.run(folder).scenes == 5
        yield folder


def test_the_demo_draws_scenes_roads_and_a_config_that_loads(drawn):
    assert len(list((drawn / "images").iterdir())) == 5
    assert load_config(drawn / "roadseg.json").labels.roads == (str(drawn / "roads"),)


def test_one_scene_of_the_demo_has_16_bits(drawn):
    types = [rasterio.open(path).dtypes[0] for path in (drawn / "images").iterdir()]
    assert sorted(types) == ["uint16", *["uint8"] * 4]


def test_roads_lie_inside_of_their_scene(drawn):
    image = read_facts(drawn / "images/city_0.tif").grid
    roads = read_roads(drawn / "roads/city_0.geojson", options=LabelOptions()).roads.to_crs(
        image.crs
    )
    assert len(roads.shapes) > 3
    assert shapely.covers(image.footprint.buffer(0.01), roads.shapes).all()


def test_what_is_there_is_not_drawn_again(drawn):
    before = {path: path.stat().st_mtime_ns for path in drawn.rglob("*.*")}
    demo.run(drawn)
    assert before == {path: path.stat().st_mtime_ns for path in drawn.rglob("*.*")}
