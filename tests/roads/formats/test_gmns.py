import zipfile
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import shapely

from roadseg.errors import DataError, OutputError
from roadseg.raster.grid import DEGREES
from roadseg.roads.formats.any_roads import PixelPlacement, read_drawn
from roadseg.roads.formats.gmns import read_gmns, write_gmns
from roadseg.roads.formats.pairing import RoadSource

# Fields that the specification requires.
REQUIRED = {
    "node": ["node_id", "x_coord", "y_coord"],
    "link": ["link_id", "from_node_id", "to_node_id", "directed"],
}


@pytest.fixture
def folder(tmp_path, graph):
    """Write the drawn roads, one of them one-way against its line."""
    one_way = np.array([0, 1, -1, 0, 0, 0])
    write_gmns(
        tmp_path / "a.gmns", replace(graph, attributes={**graph.attributes, "oneway": one_way})
    )
    return tmp_path / "a.gmns"


def change(folder, name, **columns):
    """Change columns of a table; None drops one."""
    table = pd.read_csv(folder / name)
    for key, values in columns.items():
        table = table.drop(columns=key) if values is None else table.assign(**{key: values})
    table.to_csv(folder / name, index=False)


@pytest.mark.parametrize("table", REQUIRED)
def test_required_fields_are_there_and_have_values(folder, table):
    written = pd.read_csv(folder / f"{table}.csv")
    assert written[REQUIRED[table]].notna().all().all()


def test_links_refer_to_nodes_in_degrees(folder):
    nodes, links = pd.read_csv(folder / "node.csv"), pd.read_csv(folder / "link.csv")
    assert set(links["from_node_id"]) | set(links["to_node_id"]) == set(nodes["node_id"])
    assert nodes["x_coord"].between(2.1, 2.2).all()
    assert nodes["y_coord"].between(41.3, 41.4).all()


def test_a_road_against_its_line_is_a_link_with_shapepoints_in_reverse(folder, graph):
    link = pd.read_csv(folder / "link.csv").loc[2]
    assert (link["directed"], link["dir_flag"]) == (True, -1)
    assert [link["from_node_id"], link["to_node_id"]] == (graph.ends[2, ::-1] + 1).tolist()


def test_lengths_are_in_the_unit_that_config_names(folder, graph):
    config, links = pd.read_csv(folder / "config.csv"), pd.read_csv(folder / "link.csv")
    assert (config["long_length"][0], config["crs"][0]) == ("km", "EPSG:4326")
    assert links["length"].to_numpy() * 1000 == pytest.approx(graph.length_m)


@pytest.mark.parametrize(("unit", "kph"), [("mph", 1.609344), ("km/h", 1.0)])
def test_speeds_are_read_in_the_unit_of_config(folder, unit, kph):
    change(folder, "config.csv", speed=unit)
    change(folder, "link.csv", free_speed=50)
    assert read_gmns(folder).attributes["speed_kph"] == pytest.approx(50 * kph)


def test_without_config_coordinates_are_degrees(folder):
    (folder / "config.csv").unlink()
    assert read_gmns(folder).crs == DEGREES


def test_a_link_without_geometry_is_straight(folder):
    change(folder, "link.csv", geometry=None)
    assert shapely.get_num_coordinates(read_gmns(folder).lines).max() == 2


def test_geometry_may_be_in_a_file_of_its_own(folder):
    shapes = pd.read_csv(folder / "link.csv")["geometry"]
    pd.DataFrame({"geometry_id": range(6), "geometry": shapes}).to_csv(
        folder / "geometry.csv", index=False
    )
    change(folder, "link.csv", geometry=None, geometry_id=range(6))
    assert shapely.to_wkt(read_gmns(folder).lines, 6)[2] == shapely.to_wkt(
        shapely.from_wkt(shapes[2]), 6
    )


def test_links_of_both_directions_are_one_road(folder):
    links = pd.read_csv(folder / "link.csv").assign(directed=True, oneway=0, dir_flag=1)
    links = links.iloc[[0, 3]]
    back = links.assign(from_node_id=links["to_node_id"], to_node_id=links["from_node_id"])
    back["geometry"] = shapely.to_wkt(shapely.reverse(shapely.from_wkt(links["geometry"])), 9)
    pd.concat([links, back.iloc[:1]]).assign(link_id=range(3)).to_csv(
        folder / "link.csv", index=False
    )
    found = read_gmns(folder)
    assert (len(found.lines), found.attributes["oneway"].tolist()) == (2, [0, 1])


@pytest.mark.parametrize(
    ("name", "columns", "words"),
    [
        ("link.csv", {"directed": None}, "link.csv: has no column directed"),
        ("node.csv", {"node_id": 1}, "node.csv: two nodes have the same node_id"),
        ("link.csv", {"from_node_id": 99}, "link.csv: refers to a node that is missing"),
        ("link.csv", {"geometry": "POINT (1 2)"}, "link.csv: .* is not a LINESTRING"),
        ("link.csv", {"geometry": "a line"}, "link.csv: .* is not WKT"),
        ("link.csv", {"free_speed": "fast"}, "link.csv: free_speed of a link is not a number"),
        ("config.csv", {"speed": "knots"}, "config.csv: speed in 'knots', expected km/h or mph"),
        ("config.csv", {"crs": "the moon"}, "config.csv: its crs 'the moon' is unknown"),
    ],
)
def test_a_fault_is_said_in_one_line(folder, name, columns, words):
    change(folder, name, **columns)
    with pytest.raises(DataError, match=words):
        read_gmns(folder)


def test_a_folder_without_links_is_no_network(folder):
    (folder / "link.csv").unlink()
    with pytest.raises(DataError, match=r"link\.csv: cannot be read .*expected a GMNS folder"):
        read_gmns(folder)


def test_another_folder_of_its_name_is_kept(tmp_path, graph):
    (tmp_path / "a.gmns").mkdir()
    (tmp_path / "a.gmns" / "letter.txt").write_text("")
    with pytest.raises(OutputError, match="holds something else"):
        write_gmns(tmp_path / "a.gmns", graph)


def zipped(folder, path, prefix=""):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("__MACOSX/link.csv", "x")
        for file in folder.iterdir():
            archive.write(file, f"{prefix}{file.name}")
    return path


@pytest.mark.parametrize("prefix", ["", "network/"])
def test_a_folder_in_a_zip_is_read_alike(folder, tmp_path, prefix):
    path = zipped(folder, tmp_path / "a.zip", prefix)
    drawn = read_drawn(RoadSource(path), PixelPlacement({}))
    assert drawn.graph.attributes["oneway"].tolist() == [0, 1, -1, 0, 0, 0]


def test_a_zip_without_nodes_is_refused(folder, tmp_path):
    (folder / "node.csv").unlink()
    path = zipped(folder, tmp_path / "a.zip")
    with pytest.raises(DataError, match=r"a\.zip/node\.csv: cannot be read"):
        read_drawn(RoadSource(path), PixelPlacement({}))


def test_a_zip_that_is_cut_is_refused(folder, tmp_path):
    path = zipped(folder, tmp_path / "a.zip")
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(DataError, match=r"a\.zip: not a readable zip"):
        read_drawn(RoadSource(path), PixelPlacement({}))
