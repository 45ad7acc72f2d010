import pytest

from roadseg.errors import ConfigError, DataError
from roadseg.io.sources import find_images, find_labels


@pytest.fixture
def touch(tmp_path):
    """Give a function that makes empty files and returns the last of them."""

    def make(*names):
        for name in names:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).touch()
        return tmp_path / names[-1]

    return make


def test_a_folder_gives_its_images_in_order(touch, tmp_path):
    touch("b.tif", "a.TIFF", "c.vrt", "d.jp2", "notes.txt", "b.tif.aux.xml")
    assert list(find_images([str(tmp_path)])) == ["a", "b", "c", "d"]


def test_hidden_files_are_no_images(touch, tmp_path):
    touch(".a.tif", ".partial-1-b.tif", "c.tif")
    assert list(find_images([str(tmp_path)])) == ["c"]
    assert list(find_images([str(tmp_path / "*.tif")])) == ["c"]


def test_a_file_is_taken_whatever_it_is_called(touch):
    assert list(find_images([str(touch("scene.png"))])) == ["scene"]


@pytest.mark.parametrize("pattern", ["*/x_*.tif", "**/x_*.tif", "[ab]/x_?.tif"])
def test_a_glob_gives_what_it_fits(touch, tmp_path, pattern):
    touch("a/x_1.tif", "b/x_2.tif", "b/y_3.tif")
    assert list(find_images([str(tmp_path / pattern)])) == ["x_1", "x_2"]


def test_an_image_found_twice_counts_once(touch, tmp_path):
    image = touch("a.tif")
    assert find_images([str(image), str(tmp_path)]) == {"a": image}


def test_images_of_one_name_take_that_of_their_folder(touch, tmp_path):
    touch("north/a.tif", "south/a.tif", "south/b.tif")
    found = find_images([str(tmp_path / "north"), str(tmp_path / "south")])
    assert list(found) == ["north_a", "south_a", "b"]


def test_images_that_would_have_one_name_are_refused(touch, tmp_path):
    touch("x/city/a.tif", "y/city/a.tif")
    with pytest.raises(DataError, match=r"a\.tif and .*a\.tif would have the same name; rename"):
        find_images([str(tmp_path / "*" / "*" / "*.tif")])


@pytest.mark.parametrize("pattern", ["missing", "missing/*.tif", "*.jp2", "a.tiff"])
def test_a_pattern_that_finds_nothing_is_named(touch, tmp_path, pattern):
    touch("a.tif")
    with pytest.raises(DataError, match=r"no images found there .*; see imagery\.images") as caught:
        find_images([str(tmp_path), str(tmp_path / pattern)])
    assert str(caught.value).startswith(str(tmp_path / pattern))


def test_no_pattern_at_all_is_refused():
    with pytest.raises(ConfigError, match=r"imagery\.images is empty, expected at least one path"):
        find_images([])


def test_a_single_label_file_serves_all_images(touch, tmp_path):
    touch("i/a_1.tif", "i/b_2.tif")
    roads = touch("city.gpkg")
    found = find_labels([str(roads)], find_images([str(tmp_path / "i")]))
    assert found == {"a_1": roads, "b_2": roads}


def test_labels_go_by_the_names_of_images(touch, tmp_path):
    touch("i/rgb_img1.tif", "i/rgb_img2.tif", "r/roads_img1.geojson", "r/roads_img2.geojson")
    found = find_labels([str(tmp_path / "r")], find_images([str(tmp_path / "i")]))
    assert {name: path.name for name, path in found.items()} == {
        "rgb_img1": "roads_img1.geojson",
        "rgb_img2": "roads_img2.geojson",
    }


def test_images_named_after_their_folders_find_their_labels(touch, tmp_path):
    touch("google/p_1.tif", "yahoo/p_1.tif", "google/p_2.tif", "r/p_1.geojson", "r/p_2.geojson")
    images = find_images([str(tmp_path / "google"), str(tmp_path / "yahoo")])
    found = find_labels([str(tmp_path / "r")], images)
    assert {name: path.stem for name, path in found.items()} == {
        "google_p_1": "p_1",
        "p_2": "p_2",
        "yahoo_p_1": "p_1",
    }


def test_an_image_without_a_label_is_named_and_counted(touch, tmp_path):
    touch("i/a_1.tif", "i/a_2.tif", "i/a_3.tif", "r/r_1.geojson", "r/r_4.geojson")
    message = r"a_2\.tif: none of the 2 label files has a name that fits \(2 such images\)"
    with pytest.raises(DataError, match=message):
        find_labels([str(tmp_path / "r")], find_images([str(tmp_path / "i")]))


def test_two_labels_for_one_image_are_refused(touch, tmp_path):
    touch("i/a_1.tif", "r/osm_1.geojson", "r/sn_1.geojson")
    with pytest.raises(DataError, match=r"labels\.roads: image a_1 fits osm_1 and sn_1 equally"):
        find_labels([str(tmp_path / "r")], find_images([str(tmp_path / "i")]))


@pytest.mark.parametrize("names", [("r/a_1.gpkg", "r/a_1.geojson"), ("r/a_1.shp", "r/x/a_1.shp")])
def test_two_labels_of_one_name_are_refused(touch, tmp_path, names):
    touch("i/a_1.tif", *names)
    with pytest.raises(DataError, match=r"a_1\.\w+ and .*a_1\.\w+ have the same name; .* one"):
        find_labels([str(tmp_path / "r" / "**" / "*.*")], find_images([str(tmp_path / "i")]))


def test_a_missing_label_folder_is_named(touch, tmp_path):
    images = find_images([str(touch("a.tif"))])
    with pytest.raises(DataError, match=r"roads: no label files found there .*; see labels\.roads"):
        find_labels([str(tmp_path / "roads")], images)
