import pytest
import shapely
from affine import Affine
from pyproj import CRS

from roadseg.errors import DataError
from roadseg.raster.grid import LOCAL_CRS, Grid
from roadseg.roads.formats.spacenet_csv import read_wkt_csv

UTM = CRS.from_epsg(32611)
CROSSING = """ImageId,WKT_Pix
north,"LINESTRING (0 0, 10 0)"
empty,LINESTRING EMPTY
north,"LINESTRING (10 0, 10 20)"
"""


@pytest.fixture
def write(tmp_path):
    def write(text, name="roads.csv"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def test_lines_belong_to_their_image_in_the_order_of_the_file(write):
    images = read_wkt_csv(write(CROSSING)).images
    assert {name: len(roads.lines) for name, roads in images.items()} == {"north": 2, "empty": 0}
    assert shapely.get_coordinates(images["north"].lines[1]).tolist() == [[10, 0], [10, 20]]


def test_pixels_of_a_given_size_are_in_a_local_crs_with_y_up(write):
    graph = read_wkt_csv(write(CROSSING)).graph("north", 0.5)
    assert graph.crs == LOCAL_CRS
    assert graph.nodes.tolist() == [[0, 0], [5, -10], [5, 0]]
    assert graph.length_m.tolist() == [5, 10]


def test_pixels_of_an_image_lie_where_its_grid_says(write):
    grid = Grid(UTM, Affine(2, 0, 660000, 0, -2, 4000000), 40, 40)
    graph = read_wkt_csv(write(CROSSING)).graph("north", grid)
    assert (graph.crs, graph.length_m.tolist()) == (UTM, [20, 40])
    assert graph.nodes.max(axis=0).tolist() == [660020, 4000000]


def test_a_multilinestring_is_taken_apart_and_its_seconds_with_it(write):
    text = (
        'ImageId,WKT_Pix,length_m,travel_time_s\na,"MULTILINESTRING ((0 0, 1 0), (5 0, 8 0))",4,8\n'
    )
    graph = read_wkt_csv(write(text)).graph("a", 1.0)
    assert graph.attributes["travel_time_s"].tolist() == [2, 6]


def test_an_id_that_looks_like_a_number_stays_as_it_is(write):
    assert list(read_wkt_csv(write("ImageId,WKT_Pix\n007,LINESTRING EMPTY\n")).images) == ["007"]


def test_a_byte_order_mark_is_no_part_of_a_name(write):
    assert list(read_wkt_csv(write("\ufeff" + CROSSING)).images) == ["north", "empty"]


def test_an_image_that_is_not_there_is_named_with_those_that_are(write):
    with pytest.raises(DataError, match=r"has no image 'south', only north, empty$"):
        read_wkt_csv(write(CROSSING)).graph("south", 1.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "cannot be read as CSV"),
        ("ImageId,WKT\na,LINESTRING EMPTY\n", "no column WKT_Pix found, only ImageId, WKT"),
        ("ImageId,WKT_Pix\n", "no rows found"),
        ('ImageId,WKT_Pix\na,"POINT (1 2)"\n', "row 2 has 'POINT .* in WKT_Pix, expected a LINE"),
        (
            CROSSING + "a,LINE (0 0)\n",
            r"row 5 has 'LINE \(0 0\)' in WKT_Pix, expected a LINESTRING",
        ),
        (CROSSING + "a,\n", "row 5 has '' in WKT_Pix"),
        ("ImageId,WKT_Pix,travel_time_s\na,LINESTRING EMPTY,\n", "row 2 has '' in travel_time_s"),
        ("ImageId,WKT_Pix,travel_time_s\na,LINESTRING EMPTY,-1\n", "expected seconds, zero or"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(write, text, message):
    with pytest.raises(DataError, match=message) as caught:
        read_wkt_csv(write(text))
    assert "\n" not in str(caught.value)


def test_a_line_that_leaves_the_earth_is_turned_down(write):
    grid = Grid(CRS.from_epsg(4326), Affine(1e-5, 0, 10, 0, -1e-5, 50), 40, 40)
    text = f'ImageId,WKT_Pix\na,"LINESTRING (0 0, 0 {1e8:.0f})"\n'
    with pytest.raises(DataError, match="image a: a line has a coordinate that is not finite"):
        read_wkt_csv(write(text)).graph("a", grid)


@pytest.mark.parametrize("number", ["nan", "inf", "1e308", "1.1e9"])
def test_a_number_that_is_no_pixel_is_refused(tmp_path, number):
    path = tmp_path / "roads.csv"
    path.write_text(
        f'ImageId,WKT_Pix\na,"LINESTRING (0 0, 1 1)"\na,"LINESTRING (0 0, 9 {number})"\n'
    )
    with pytest.raises(DataError, match=r"row 3 has .* expected numbers of pixels, up to 1e"):
        read_wkt_csv(path)
