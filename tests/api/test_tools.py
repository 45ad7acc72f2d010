import pytest

import roadseg
from roadseg.errors import ConfigError

BOX = [8.6, 49.4, 8.61, 49.41]


@pytest.fixture
def region(tmp_path, drawn_map):
    return drawn_map.write_map(tmp_path / "region.osm.pbf")


def test_roads_of_a_box_are_fetched(tmp_path, region):
    summary = roadseg.fetch_roads(BOX, tmp_path / "roads.gpkg", source=region)
    assert (summary.roads, summary.licence) == (6, "ODbL-1.0")
    assert len(roadseg.read_graph(tmp_path / "roads.gpkg").edges) == 7


def test_an_area_can_be_the_path_of_a_file_or_a_text(tmp_path, region):
    with pytest.raises(ConfigError, match="expected four numbers"):
        roadseg.fetch_roads("1,2", tmp_path / "roads.gpkg", source=region)


def test_images_of_a_box_are_fetched(tmp_path, world):
    source = f"{world.address}/xyz/{{z}}/{{x}}/{{y}}.png"
    box, places = [8.68, 49.4, 8.681, 49.401], {"cache": tmp_path / "cache"}
    planned = roadseg.fetch_images(source, box, tmp_path / "out", zoom=15, dry_run=True, **places)
    assert planned.images[0].state == "to be fetched"
    fetched = roadseg.fetch_images(source, box, tmp_path / "out", zoom=15, **places)
    assert fetched.images[0].image.exists()
