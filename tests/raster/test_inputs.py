import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
import rasterio.shutil

from roadseg.errors import ConfigError, DataError
from roadseg.raster.images import open_raster, read_facts
from roadseg.raster.inputs import find_images, find_labels, match_names, source_path, stem
from roadseg.roads.labels.roads import read_roads


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
    touch("b.tif", "a.TIFF", "c.vrt", "d.jp2", "e.jpg", "f.asc", "notes.txt")
    assert list(find_images([str(tmp_path)])) == ["a", "b", "c", "d", "e", "f"]


@pytest.mark.parametrize("pattern", ["", "*", "a*", "*.*"])
def test_what_lies_beside_an_image_is_none(touch, tmp_path, pattern):
    touch("a.tif", "a.tif.aux.xml", "a.tif.ovr", "a.tif.msk", "a.tfw", "a.prj")
    assert find_images([str(tmp_path / pattern)]) == {"a": tmp_path / "a.tif"}


def test_a_glob_takes_unknown_suffixes_if_it_fits_no_known_one(touch, tmp_path):
    touch("a.dat", "a.dat.aux.xml")
    assert list(find_images([str(tmp_path / "a*")])) == ["a"]


def test_hidden_files_are_no_images(touch, tmp_path):
    touch(".a.tif", ".partial-1-b.tif", "c.tif")
    assert list(find_images([str(tmp_path)])) == ["c"]
    assert list(find_images([str(tmp_path / "*.tif")])) == ["c"]


def test_an_image_found_twice_counts_once(touch, tmp_path):
    image = touch("a.tif")
    assert find_images([str(image), str(tmp_path)]) == {"a": image}


@pytest.mark.parametrize("other", ["a", "A"])  # one file on Windows and macOS
def test_images_of_one_name_take_that_of_their_folder(touch, tmp_path, other):
    touch("north/a.tif", f"south/{other}.tif", "south/b.tif")
    found = find_images([str(tmp_path / "north"), str(tmp_path / "south")])
    assert set(found) == {"north_a", f"south_{other}", "b"}


def test_labels_that_no_reader_unpacks_are_refused(touch):
    image, labels = touch("a.tif"), touch("roads.osm.bz2")
    with pytest.raises(DataError, match=r"roads\.osm\.bz2: .* not read; unpack it with bunzip2"):
        find_labels([str(labels)], {"a": image})


@pytest.mark.parametrize("other", ["a", "A"])
def test_images_that_would_have_one_name_are_refused(touch, tmp_path, other):
    touch("x/city/a.tif", f"y/city/{other}.tif")
    told = rf"a\.tif and .*{other}\.tif would have the same name; rename"
    with pytest.raises(DataError, match=told):
        find_images([str(tmp_path / "*" / "*" / "*.tif")])


@pytest.mark.parametrize("pattern", ["empty", "missing/*.tif", "*.jp2", "a?.tif"])
def test_a_pattern_that_finds_nothing_is_named(touch, tmp_path, pattern):
    touch("a.tif")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"no images found there .*; see imagery\.images") as caught:
        find_images([str(tmp_path), str(tmp_path / pattern)])
    assert str(caught.value).startswith(str(tmp_path / pattern))


def test_of_a_folder_without_images_it_is_said_what_it_holds(touch, tmp_path):
    touch("roads/a.geojson", "roads/b.geojson", "roads/c.txt")
    with pytest.raises(
        DataError, match=r"no images found there \(.* more\), but \.geojson, \.txt;"
    ):
        find_images([str(tmp_path / "roads")])


@pytest.mark.parametrize("name", ["missing", "missing/b.tif", "a.tiff"])
def test_a_path_that_does_not_exist_is_named(touch, tmp_path, name):
    touch("a.tif")
    with pytest.raises(DataError) as caught:
        find_images([str(tmp_path / name)])
    expected = "does not exist, expected images; see imagery.images"
    assert str(caught.value) == f"{tmp_path / name}: {expected}"


@pytest.mark.parametrize(("name", "sign"), [("list.txt", ""), ("list.txt", "@"), ("list", "@")])
def test_a_list_names_images_relative_to_itself(touch, tmp_path, name, sign):
    touch("in/a.tif", "in/more/b_1.tif", "in/more/b_2.tif", "c.tif", "d#.tif")
    lines = ["# of this year", "", "a.tif", " more/b_*.tif ", f"{tmp_path}/c.tif", "../d#.tif"]
    (tmp_path / "in" / name).write_text("\r\n".join(lines), encoding="utf-8-sig")
    found = find_images([f"{sign}{tmp_path}/in/{name}"])
    assert list(found) == ["a", "b_1", "b_2", "c", "d#"]


def test_a_list_names_addresses(tmp_path):
    (tmp_path / "list.txt").write_text("s3://bucket/a.tif\n/vsizip//data/x.zip/b.tif\n")
    assert [str(path) for path in find_images([str(tmp_path / "list.txt")]).values()] == [
        "/vsis3/bucket/a.tif",
        "/vsizip/{/data/x.zip}/b.tif",
    ]


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("list.txt", b"# nothing\n\n", "the list contains no images; write one path per line"),
        ("@list", b"\xff\xfe\xff", "not a readable list of images"),
        ("@none", b"", "not a readable list of images .*No such file"),
    ],
)
def test_a_list_that_cannot_be_used_is_refused(tmp_path, monkeypatch, name, content, told):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "list.txt").write_bytes(content)
    (tmp_path / "list").write_bytes(content)
    with pytest.raises(DataError, match=told):
        find_images([name])


def test_no_pattern_at_all_is_refused():
    with pytest.raises(ConfigError, match=r"imagery\.images is empty, expected at least one path"):
        find_images([])
    with pytest.raises(ConfigError, match=r"labels\.roads is empty, expected at least one path"):
        find_labels([], {"city": Path("city.tif")})


def test_a_single_label_file_serves_all_images(touch, tmp_path):
    touch("i/a_1.tif", "i/b_2.tif")
    roads = touch("city.gpkg")
    found = find_labels([str(roads)], find_images([str(tmp_path / "i")]))
    assert found == {"a_1": roads, "b_2": roads}


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
    message = r"a_2\.tif: none of the 2 label files has a matching name \(2 images without labels\)"
    with pytest.raises(DataError, match=message):
        find_labels([str(tmp_path / "r")], find_images([str(tmp_path / "i")]))


def test_two_labels_for_one_image_are_refused(touch, tmp_path):
    touch("i/a_1.tif", "r/osm_1.geojson", "r/sn_1.geojson")
    told = r"labels\.roads: image a_1 fits osm_1 and sn_1 equally well; rename one"
    with pytest.raises(DataError, match=told):
        find_labels([str(tmp_path / "r")], find_images([str(tmp_path / "i")]))


@pytest.mark.parametrize("names", [("r/a_1.gpkg", "r/a_1.geojson"), ("r/a_1.shp", "r/x/a_1.shp")])
def test_two_labels_of_one_name_are_refused(touch, tmp_path, names):
    touch("i/a_1.tif", *names)
    with pytest.raises(DataError, match=r"a_1\.\w+ and .*a_1\.\w+ have the same name; .* one"):
        find_labels([str(tmp_path / "r" / "**" / "*.*")], find_images([str(tmp_path / "i")]))


@pytest.mark.parametrize(
    ("files", "labels"),
    [
        (["i/a_1.tif", "r/a_1.tif", "r/a_1.json", "r/a_1.geojson"], {"a_1": "a_1.geojson"}),
        (["i/a_1.tif", "r/a_1.tif", "r/a_1.json"], {"a_1": "a_1.json"}),
        (["i/10.jpg", "i/1.jpg", "r/10.png", "r/1.png"], {"1": "1.png", "10": "10.png"}),
    ],
    ids=["vector files first", "JSON where there is no other", "masks without vector files"],
)
def test_of_a_folder_one_kind_of_files_are_the_labels(touch, tmp_path, files, labels):
    touch(*files)
    found = find_labels([str(tmp_path / "r")], find_images([str(tmp_path / "i")]))
    assert found == {name: tmp_path / "r" / file for name, file in labels.items()}


def test_an_image_is_no_label_of_its_own_folder(touch, tmp_path):
    touch("7_sat.jpg", "8_sat.jpg", "7_mask.png", "8_mask.png")
    found = find_labels([str(tmp_path)], find_images([str(tmp_path / "*.jpg")]))
    assert found == {f"{n}_sat": tmp_path / f"{n}_mask.png" for n in (7, 8)}


def test_a_folder_of_images_alone_has_no_labels(touch, tmp_path):
    touch("a.tif", "b.tif")
    with pytest.raises(DataError, match="all label files there are already used as images; use"):
        find_labels([str(tmp_path)], find_images([str(tmp_path)]))


def test_a_file_geodatabase_is_one_label_file(touch, tmp_path):
    image = touch("a.tif")
    touch("city.gdb/a00000001.gdbtable")
    found = find_labels([str(tmp_path / "city.gdb")], find_images([str(image)]))
    assert found == {"a": tmp_path / "city.gdb"}


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("a.b.tif", "a.b"),
        ("city.osm.pbf", "city"),
        ("roads_img1.geojson.gz", "roads_img1"),
        ("ROADS.SHP.ZIP", "ROADS"),
        ("scene.unknown", "scene"),
        ("v1.2.pbf", "v1.2"),
        ("city.osm", "city"),
        (".tif", ".tif"),
        ("100%25.tif", "100%25"),
        ("/vsizip/{/data/x.zip}/in/a.tif", "a"),
        ("/vsicurl?url=https%3A%2F%2Fhost/a%2520b.tif%3Fkey%3D1%2F2", "a b"),
    ],
)
def test_a_name_has_no_suffixes(path, name):
    assert stem(Path(path)) == name


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("s3://bucket/in/a.tif", "/vsis3/bucket/in/a.tif"),
        ("gs://bucket/a.tif", "/vsigs/bucket/a.tif"),
        ("az://box/a.tif", "/vsiaz/box/a.tif"),
        ("file:///data/a.tif", "/data/a.tif"),
        ("file:///my%20data/a.tif", "/my data/a.tif"),
        ("https://host/in/a.tif", "/vsicurl?url=https%3A%2F%2Fhost/in/a.tif"),
        ("/vsicurl/https://host/a.tif", "/vsicurl?url=https%3A%2F%2Fhost/a.tif"),
        ("https://host/a.tif?k=1/2", "/vsicurl?url=https%3A%2F%2Fhost/a.tif%3Fk%3D1%2F2"),
        ("/vsizip//data/x.zip/in/a.tif", "/vsizip/{/data/x.zip}/in/a.tif"),
        ("/vsitar//data/x.tar.gz/a.tif", "/vsitar/{/data/x.tar.gz}/a.tif"),
        (
            "/vsizip//vsicurl/https://host/x.zip/a.tif",
            "/vsizip/{/vsicurl?url=https%3A%2F%2Fhost/x.zip}/a.tif",
        ),
        ("/vsigzip//data/a.gml.gz", "/vsicached?file=/vsigzip%2F%2Fdata/a.gml.gz"),
        ("/vsis3/bucket/a.tif", "/vsis3/bucket/a.tif"),
    ],
)
def test_addresses_survive_as_paths(text, path):
    assert str(source_path(text)) == path
    assert str(source_path(path)) == path


SERVICE = "is a service of images; `roadseg map --area`"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("gopher://host/a.tif", r"gopher://host/a\.tif: unknown kind of address"),
        ("https://a.org/{z}/{x}/{y}.png", SERVICE),
        ("stac:https://a.org/search", SERVICE),
    ],
)
def test_an_address_that_leads_to_no_image_is_refused(text, told):
    with pytest.raises(DataError, match=told):
        source_path(text)


@pytest.fixture
def scene(make_scene, tmp_path):
    """Write a scene and its roads; return their folder."""
    make_scene(tmp_path / "a b", "place_1")
    return tmp_path / "a b"


def requires_reading(image, labels):
    images = find_images([image])
    found = find_labels([labels], images)
    assert read_facts(images["place_1"]).grid.height == 64
    assert read_roads(found["place_1"]).features == 2


@pytest.fixture
def serve(world, monkeypatch):
    """Give a function that serves a file, and returns its address."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return lambda path: world.put(f"/{path.name}", path.read_bytes(), "")


@pytest.mark.parametrize("query", ["", "?key=1/2&x=a%20b"])
def test_images_and_labels_are_read_from_the_network(scene, serve, query):
    image, labels = scene / "images" / "place_1.tif", scene / "roads" / "place_1.geojson"
    requires_reading(serve(image) + query, serve(labels) + query)


def test_an_image_of_the_network_may_have_a_colour_table(serve, write_raster):
    image = write_raster(np.zeros((64, 64), dtype=np.uint8), colours={0: (200, 100, 0)})
    with open_raster(source_path(serve(image)), as_image=True) as source:
        assert source.read()[:, 0, 0].tolist() == [200, 100, 0]


@pytest.mark.parametrize("packed", [False, True])
def test_a_vrt_of_a_server_reads_no_file_of_this_machine(serve, scene, packed):
    rasterio.shutil.copy(scene / "images" / "place_1.tif", scene / "a.vrt", driver="VRT")
    with zipfile.ZipFile(scene / "a.zip", "w") as archive:
        archive.write(scene / "a.vrt", "a.vrt")
    name = serve(scene / ("a.zip" if packed else "a.vrt"))
    name = f"/vsizip//vsicurl/{name}/a.vrt" if packed else name
    with (
        pytest.raises(DataError, match="is read in no other format, as others may name any file"),
        open_raster(source_path(name)),
    ):
        pass


@pytest.mark.parametrize(
    ("image", "label"),
    [
        ("RGB-PanSharpen_AOI_2_Vegas_img12", "spacenetroads_AOI_2_Vegas_img12"),
        (
            "SN3_roads_train_AOI_2_Vegas_PS-MS_img12",
            "SN3_roads_train_AOI_2_Vegas_geojson_roads_speed_img12",
        ),
        (
            "SN5_roads_train_AOI_7_Moscow_PS-RGB_chip12",
            "SN5_roads_train_AOI_7_Moscow_geojson_roads_speed_chip12",
        ),
        ("RGB-PanSharpen_img1447", "OSMroads_img1447"),
        ("tile_12", "tile_12"),
    ],
)
def test_an_image_finds_the_label_of_its_place(image, label):
    others = [label.replace("12", number).replace("1447", number) for number in ("1", "112", "121")]
    assert match_names([image], [*others, label]) == {image: label}


def test_providers_of_one_place_share_its_label():
    place = "117.23_39.12-117.24_39.13-18"
    images = [f"{place}_{provider}" for provider in ("google", "mapbox", "yahoo")]
    labels = [place, "117.23_39.12-117.24_39.14-18"]
    assert match_names(images, labels) == dict.fromkeys(images, place)


def test_a_label_of_the_same_name_comes_first():
    assert match_names(["a1"], ["b1", "a1", "c1"]) == {"a1": "a1"}


def test_of_two_labels_that_fit_the_more_exact_one_is_taken():
    assert match_names(["x_2_img5"], ["city_2", "city_2_img5"]) == {"x_2_img5": "city_2_img5"}


@pytest.mark.parametrize("label", ["tile_13", "roads", "tile_12_extra_3", "tile_2_1"])
def test_a_label_of_another_place_does_not_fit(label):
    assert match_names(["tile_1_2"], [label]) == {"tile_1_2": None}


def test_capitals_do_not_matter():
    assert match_names(["AOI_IMG7"], ["roads_img7"]) == {"AOI_IMG7": "roads_img7"}


def test_thousands_of_names_are_matched_at_once():
    places = [f"{row}_{col}" for row in range(70) for col in range(70)]
    start = time.process_time()
    found = match_names([f"i_{p}_x" for p in places], [f"r_{p}" for p in places])
    assert time.process_time() - start < 5
    assert found["i_3_69_x"] == "r_3_69"
