import pytest

from roadseg.errors import DataError
from roadseg.roads.formats.pairing import RoadSource, find_sources, match_sources, only_source

CSV = 'ImageId,WKT_Pix\nimg1,"LINESTRING (0 0, 9 0)"\nimg2,LINESTRING EMPTY\n'


@pytest.fixture
def folder(tmp_path):
    """Give a function that makes a folder of files: empty ones, but for WKT in a .csv."""

    def make(name, *files):
        for file in files:
            path = tmp_path / name / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(CSV if path.suffix == ".csv" else "")
        return tmp_path / name

    return make


def matched(*folders):
    return match_sources(*map(find_sources, folders))


@pytest.mark.parametrize("name", ["city.osm.pbf", "city.osm.gz"])
def test_a_file_is_named_by_its_stem(folder, name):
    file = folder("a", name) / name
    assert {name: source.path for name, source in find_sources(file).items()} == {"city": file}


def test_a_csv_without_image_ids_holds_the_roads_of_one_place(tmp_path):
    (tmp_path / "lines.csv").write_text('WKT,name\n"LINESTRING (0 0, 1 1)",A\n')
    assert find_sources(tmp_path / "lines.csv") == {"lines": RoadSource(tmp_path / "lines.csv")}


def test_a_csv_holds_a_place_for_each_image_id(folder):
    found = find_sources(folder("a", "truth.csv") / "truth.csv")
    assert {name: source.image for name, source in found.items()} == {
        "img1": "img1",
        "img2": "img2",
    }


@pytest.mark.parametrize(
    ("files", "best"),
    [
        (["a.geojson", "a.gpkg", "a.graphml"], "a.gpkg"),
        (["a.geojson", "a.tif", "b.tif"], "a.geojson"),
        (["a.json", "a.tif", "notes.txt"], "a.json"),
        (["a.tif", "a.tif.aux.xml"], "a.tif"),
    ],
)
def test_of_a_folder_the_best_kind_counts(folder, files, best):
    found = find_sources(folder("a", *files))
    assert [source.path.name for source in found.values()] == [best]


def test_a_folder_without_roads_is_refused(folder):
    with pytest.raises(DataError, match="no files with roads in this folder"):
        find_sources(folder("a", "notes.txt"))


@pytest.mark.parametrize("files", [[], ["folds.gpkg", "roadseg.gpkg", "edits.gpkg"]])
def test_a_run_folder_is_refused_with_its_graphs(folder, files):
    folder("run/graphs", "a.gpkg")
    with pytest.raises(DataError, match=r"run: a run folder, expected roads; use .*graphs, or one"):
        find_sources(folder("run", "roadseg.json", *files))


@pytest.mark.parametrize("name", ["city.gpkg", "city.csv", "city.tif"])
def test_beside_roads_the_files_of_their_report_and_review_do_not_count(folder, name):
    found = find_sources(folder("out", name, "roadseg.gpkg", "edits.gpkg"))
    assert {source.path.name for source in found.values()} == {name}


def test_of_several_places_the_network_is_advised(folder):
    with pytest.raises(DataError, match=r"roads of 3 places, .* such as .*network\.gpkg$"):
        only_source(folder("graphs", "a.gpkg", "b.gpkg", "network.gpkg"))


def test_of_one_file_and_a_folder_it_is_said_that_they_do_not_match(folder):
    with pytest.raises(DataError, match="one file with one file, or a folder with a folder"):
        matched(folder("a", "img1.gpkg", "img2.gpkg"), folder("b", "network.gpkg"))


def test_what_does_not_exist_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"roads\.gpkg does not exist"):
        find_sources(tmp_path / "roads.gpkg")


def test_two_single_files_belong_together_whatever_their_names(folder):
    sides = folder("a", "north.gpkg"), folder("b", "south.gpkg")
    assert matched(*sides) == ({"north": "south"}, [])


def test_files_are_matched_by_the_number_parts_of_their_names(folder):
    sides = folder("a", "roads_AOI_2_img1.gpkg", "roads_AOI_2_img2.gpkg"), folder("b", "x_img2.tif")
    assert matched(*sides) == ({"roads_AOI_2_img1": None, "roads_AOI_2_img2": "x_img2"}, [])


def test_a_prediction_may_have_more_parts_in_its_name(folder):
    sides = folder("a", "img1.gpkg", "img2.gpkg"), folder("b", "AOI_2_img1.gpkg", "AOI_2_img2.gpkg")
    assert matched(*sides)[0] == {"img1": "AOI_2_img1", "img2": "AOI_2_img2"}


def test_predictions_without_reference_are_left_over(folder):
    sides = folder("a", "img1.gpkg"), folder("b", "img1.gpkg", "img7.gpkg")
    assert matched(*sides) == ({"img1": "img1"}, ["img7"])


def test_predictions_of_other_places_only_are_refused(folder):
    message = r"2 of 2 names match no reference \(img7, img8\); expected img1; "
    with pytest.raises(DataError, match=message):
        matched(folder("a", "img1.gpkg"), folder("b", "img7.gpkg", "img8.gpkg"))


def test_image_ids_that_no_reference_has_are_refused(folder):
    with pytest.raises(DataError, match=r"1 of 2 names match no reference \(img2\)"):
        matched(folder("a", "img1.gpkg"), folder("b", "all.csv"))


def test_one_prediction_for_two_references_is_refused(folder):
    with pytest.raises(DataError, match="rename one of them"):
        matched(folder("a", "img1_a.gpkg", "img1_b.gpkg"), folder("b", "img1.gpkg"))
