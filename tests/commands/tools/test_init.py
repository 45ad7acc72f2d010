import json
import shutil
from pathlib import Path

import geopandas as gpd
import numpy as np
import pytest
import rasterio

from roadseg.commands.stages.pipeline import prepare
from roadseg.commands.survey import contents, defaults
from roadseg.commands.survey.cities import balanced_weights
from roadseg.commands.tools import init
from roadseg.config import Config, config_schema, load_config
from roadseg.errors import ConfigError, DataError
from roadseg.system.workspace import Workspace
from tests.configs import edited


def look(folder, *assignments, images="images", labels="roads", **options):
    """Run init on two folders; give its summary."""
    return init.run(
        [str(folder / images)],
        [str(folder / labels)],
        folder / "found.json",
        settings=load_config(None, assignments),
        **options,
    )


def written(folder):
    """Read the config that init wrote, with all defaults that it leaves out."""
    values = json.loads((folder / "found.json").read_text())
    defaults = Config().model_dump(mode="json")
    return {
        section: {**default, **values.get(section, {})} if isinstance(default, dict) else default
        for section, default in defaults.items()
    } | {"run": values["run"]}


def change(path, draw):
    """Change the pixels of an image by a function of them, shape (band, row, col)."""
    with rasterio.open(path) as source:
        pixels, profile = source.read(), source.profile
    with rasterio.open(path, "w", **profile) as target:
        target.write(draw(pixels))


def set_properties(path, properties):
    """Give the features of a GeoJSON file other properties, one dict each."""
    with edited(path) as labels:
        for feature, found in zip(labels["features"], properties, strict=True):
            feature["properties"] = found


@pytest.fixture
def city(city):
    """Give the folder of the city, not its config."""
    return city.parent


@pytest.fixture
def plain(write_nowhere, tmp_path):
    """Write ten images without georeference, and a mask for each; return their folder."""
    for number in range(1, 11):
        noise = np.random.default_rng(number).integers(1, 255, (3, 64, 64), dtype=np.uint8)
        write_nowhere(noise, name=f"images/{number}.png", driver="PNG")
        mask = np.arange(64 * 64, dtype=np.uint16).reshape(64, 64) % 3
        write_nowhere(mask.astype(np.uint8), name=f"masks/{number}.png", driver="PNG")
    return tmp_path


def test_init_writes_a_config_that_loads_and_finds_the_same_scenes(city):
    summary = look(city)
    config = load_config(city / "found.json")
    assert summary.scenes == 5
    assert config.imagery.images == (str(city / "images"),)


def test_init_writes_what_it_chose_or_was_given_and_nothing_else(city):
    look(city, "train.seed=3", "train.loss.dice=0.7", "train.loss.bce=0.5")
    values = json.loads((city / "found.json").read_text())
    assert values["train"] == {"seed": 3, "loss": {"dice": 0.7}}
    assert values["labels"].keys() == {"roads", "scheme"}
    assert values["predict"] == {"tta": True}
    assert not {"graph", "compute", "report"} & values.keys()


def test_rotations_are_for_images_that_are_small_beside_the_training(city, monkeypatch):
    monkeypatch.setattr(defaults, "_TTA_MEGAPIXELS_PER_MIN", 5 * 64 * 64 / 1e6 / 12)

    def is_chosen(*assignments):
        look(city, *assignments, force=True)
        return written(city)["predict"]["tta"]

    assert is_chosen()
    assert is_chosen("train.minutes=12")
    assert not is_chosen("train.minutes=11")
    assert not is_chosen("predict.tta=false")


def test_init_names_a_schema_beside_the_config(city):
    look(city)
    values = json.loads((city / "found.json").read_text())
    assert next(iter(values)) == "$schema"
    assert json.loads((city / values["$schema"]).read_text()) == config_schema()


def test_init_writes_paths_inside_its_folder_as_relative_ones(city):
    look(city)
    assert written(city)["labels"]["roads"] == ["roads"]


def test_addresses_are_written_as_they_are_given(city):
    urls = [f"file://{city}/images/city_{number}.tif" for number in range(5)]
    init.run(urls, [str(city / "roads")], city / "found.json", settings=load_config(None))
    assert written(city)["imagery"]["images"] == urls


def test_an_existing_config_is_kept_without_force(city):
    (city / "found.json").write_text("kept")
    with pytest.raises(ConfigError, match=r"found\.json already exists; use --force to overwrite"):
        look(city)
    assert (city / "found.json").read_text() == "kept"
    assert look(city, force=True).scenes == 5


def test_the_summary_tells_what_was_found(city):
    text = str(look(city))
    for line in (
        "images    5: 3 bands of uint8; 64 x 64 px of 1.00 m; EPSG:32611",
        "no data   no nodata value declared, no black borders found",
        "labels    10 roads in 5 files; EPSG:4326",
        "speeds    scheme spacenet: 10 from inferred_speed_mph",
        "widths    4 m for all roads (2 x labels.buffer_m)",
        "matches   city_0 uses city_0.geojson; 4 more images matched",
        "predict   every window in four rotations, which finds roads better (predict.tta)",
    ):
        assert line in text.splitlines()


class TestGivenSettings:
    @pytest.mark.parametrize(
        ("given", "value"),
        [
            ("train.epochs", 3),
            ("imagery.chip_px", 40),
            ("imagery.nodata", 7),
            ("labels.scheme", "constant"),
            ("labels.width", "lanes"),
            ("split.block_m", 33),
            ("split.method", "random"),
            ("train.window_px", 96),
        ],
    )
    def test_they_are_kept(self, city, given, value):
        look(city, f"{given}={value}")
        section, key = given.split(".")
        assert written(city)[section][key] == value

    def test_a_run_folder_is_kept(self, city, monkeypatch):
        monkeypatch.chdir(city)
        look(city, "run=other/folder")
        assert written(city)["run"] == "other/folder"

    def test_a_run_folder_called_run_in_which_the_config_lies_is_kept(self, city, monkeypatch):
        monkeypatch.chdir(city.parent)
        folder = city.rename(city.parent / "run")
        look(folder, f"run={folder}")
        assert written(folder)["run"] == "."

    def test_the_default_run_folder_lies_beside_the_config(self, city, monkeypatch):
        monkeypatch.chdir(city.parent)
        look(city)
        assert written(city)["run"] == "run"


class TestImages:
    def test_types_of_pixels_may_differ(self, city, make_scene):
        make_scene(city, "city_9", dtype="uint16", origin=(661000.0, 4000000.0))
        found = look(city).rows["images"]
        assert found.startswith("6: 5 of 3 bands of uint8, 1 of 3 bands of uint16; 64 x 64 px")

    def test_numbers_of_bands_that_differ_are_refused_with_an_example_of_each(
        self, city, make_scene
    ):
        make_scene(city, "city_9", bands=4, dtype="uint16", origin=(661000.0, 4000000.0))
        message = (
            r"city_0\.tif with 3 of uint8 and city_9\.tif with 4 of uint16; choose bands .* "
            r"--set imagery\.bands=1,2,3"
        )
        with pytest.raises(DataError, match=message):
            look(city)

    def test_bands_can_be_chosen_so_that_their_numbers_agree(self, city, make_scene):
        make_scene(city, "city_9", bands=4, origin=(661000.0, 4000000.0))
        found = look(city, "imagery.bands=[1,2,3]").rows["images"]
        assert found.startswith("6: 3 bands of uint8; ")

    def test_images_that_cannot_be_used_are_counted(self, city):
        for name in ("city_2.tif", "city_3.tif"):
            (city / "images" / name).write_bytes(b"<html>")
        with pytest.raises(
            DataError, match=r"city_2\.tif: not a readable raster.*\(2 images cannot be used\)"
        ):
            look(city)

    def test_images_that_cannot_be_used_can_be_skipped(self, city):
        (city / "images" / "city_2.tif").write_bytes(b"<html>")
        summary = look(city, "compute.on_error=skip", "imagery.chip_px=40")
        assert summary.rows["unusable"].startswith("city_2.tif: ")
        assert summary.scenes == 4

    def test_a_mask_among_the_images_is_left_out(self, city):
        change(city / "images" / "city_4.tif", lambda pixels: pixels * 0)
        with rasterio.open(city / "images" / "city_3.tif") as source:
            profile, mask = source.profile | {"count": 1}, source.read(1) > 100
        with rasterio.open(city / "images" / "mask_3.tif", "w", **profile) as target:
            target.write(mask.astype(np.uint8) * 255, 1)
        summary = look(city)
        assert summary.rows["left out"] == "mask_3.tif: road masks, not images"
        assert written(city)["imagery"]["images"] == [f"images/city_{i}.tif" for i in range(5)]

    def test_images_and_masks_of_one_folder_are_told_apart_by_suffix(self, plain):
        for mask in (plain / "masks").iterdir():
            shutil.copy(mask, plain / "images" / f"mask_{mask.stem}.PNG")
        summary = look(plain, "imagery.gsd_m=1", labels="images")
        assert written(plain)["imagery"]["images"] == ["images/*.png"]
        assert summary.rows["matches"] == "1 uses mask_1.PNG; 9 more images matched"

    def test_masks_alone_are_no_images(self, plain):
        with pytest.raises(
            DataError, match=r"1\.png: this and all other images found \(10\) look like road masks"
        ):
            look(plain, "imagery.gsd_m=1", images="masks", labels="masks")


BLACK = "0 in every band, because 1 of 5 images checked have black borders, such as city_3"
GIVEN = "only as images declare (imagery.nodata is null)"


class TestNoData:
    @pytest.mark.parametrize(
        ("draw", "settings", "nodata", "told"),
        [
            (lambda pixels: np.triu(pixels, k=-30), [], 0, BLACK),
            (lambda pixels: np.triu(pixels, k=-30), ["imagery.nodata=null"], None, GIVEN),
            (lambda pixels: pixels // 85, [], None, "no nodata value declared, no black borders"),
        ],
        ids=["black wedges", "black wedges where null is given", "a dark image"],
    )
    def test_black_borders_set_nodata(self, city, draw, settings, nodata, told):
        change(city / "images" / "city_3.tif", draw)
        summary = look(city, *settings)
        assert written(city)["imagery"]["nodata"] == nodata
        assert summary.rows["no data"].startswith(told)

    @pytest.mark.parametrize(("columns", "nodata"), [(0, None), (1, 0)])
    def test_black_columns_count_from_half_a_percent_on(self, city, columns, nodata):
        def blacken(pixels):
            pixels[:, :, :columns] = 0
            pixels[:, :20, :1] = 0  # 0.49 % of 64 x 64 pixels
            return pixels

        change(city / "images" / "city_3.tif", blacken)
        look(city)
        assert written(city)["imagery"]["nodata"] == nodata

    def test_declared_nodata_is_told(self, city):
        with rasterio.open(city / "images" / "city_3.tif", "r+") as target:
            target.nodata = 0
        told = "declared by 1 of 5 images (alpha band, mask or nodata value)"
        assert look(city).rows["no data"] == told


class TestLabels:
    def test_files_of_several_schemes_are_left_to_auto(self, city):
        set_properties(city / "roads" / "city_1.geojson", [{"highway": "primary"}] * 2)
        look(city)
        assert written(city)["labels"]["scheme"] == "auto"

    def test_a_file_without_features_does_not_decide_on_the_scheme(self, city):
        set_properties(city / "roads" / "city_1.geojson", [{}] * 2)
        with edited(city / "roads" / "city_1.geojson") as labels:
            labels["features"] = []
        summary = look(city)
        assert summary.rows["speeds"].startswith("scheme spacenet: ")
        assert summary.rows["labels"].endswith("; without roads: city_1")

    def test_speeds_that_roadseg_itself_wrote_are_taken(self, city):
        for path in (city / "roads").iterdir():
            set_properties(path, [{"speed_kph": 40}, {"speed_kph": 70}])
        summary = look(city)
        labels = written(city)["labels"]
        assert (labels["speed_key"], labels["speed_unit"]) == ("speed_kph", "km/h")
        assert load_config(city / "found.json").labels.scheme == "attribute"
        assert summary.rows["speeds"].startswith("scheme attribute: ")

    def test_the_unit_in_which_an_attribute_is_read_is_told(self, city):
        for path in (city / "roads").iterdir():
            set_properties(path, [{"limit": 30}, {}])
        settings = ("labels.scheme=attribute", "labels.speed_key=limit")
        assert look(city, *settings).rows["speeds"] == (
            "scheme attribute: 5 from limit, in mph unless it names a unit (labels.speed_unit), "
            "5 from labels.default_speed_mph (40 km/h)"
        )
        assert written(city)["labels"]["speed_unit"] == "mph"

    @pytest.mark.parametrize(("properties", "told"), [({"limit": 30}, True), ({}, False)])
    def test_where_no_attribute_is_known_to_be_the_speed_the_settings_are_named(
        self, city, properties, told
    ):
        for path in (city / "roads").iterdir():
            set_properties(path, [properties] * 2)
        advice = (
            "; if one of the keys is the speed: --set labels.scheme=attribute --set "
            "labels.speed_key=KEY --set labels.speed_unit=km/h"
        )
        assert (advice in look(city).rows["speeds"]) is told

    @pytest.mark.parametrize(("missing", "rule"), [(1, "attribute"), (2, "constant")])
    def test_widths_are_used_if_nine_tenths_of_the_lines_have_one(self, city, missing, rule):
        for number, path in enumerate(sorted((city / "roads").iterdir())):
            set_properties(path, [{"width": None if number < missing else "6.5"}, {"width": "8"}])
        summary = look(city)
        assert written(city)["labels"]["width"] == rule
        assert summary.rows["widths"].startswith("from width") == (rule == "attribute")

    @pytest.mark.parametrize(
        ("key", "told"),
        [
            ("breite", "from breite, which 50% of the lines have; median 9.0 m"),
            ("Breite", "from Breite, which no line has: 4 m for all roads (2 x labels.buffer_m)"),
        ],
    )
    def test_how_many_lines_have_the_given_attribute_of_widths_is_told(self, city, key, told):
        for path in (city / "roads").iterdir():
            set_properties(path, [{"breite": 9}, {"breite": None}])
        summary = look(city, "labels.width=attribute", f"labels.width_key={key}")
        assert summary.rows["widths"] == told

    def test_width_m_comes_before_width(self, city):
        for path in (city / "roads").iterdir():
            set_properties(path, [{"width": 9, "width_m": 7}] * 2)
        told = "from width_m, which 100% of the lines have; median 7.0 m"
        assert look(city).rows["widths"] == told
        assert written(city)["labels"]["width_key"] == "width_m"

    def test_polygons_keep_their_shape(self, city):
        for path in (city / "roads").iterdir():
            roads = gpd.read_file(path)
            roads.geometry = roads.to_crs(32611).buffer(3).to_crs(roads.crs)
            path.write_text(roads.to_json())
        assert look(city).rows["widths"] == "of the polygons, as they are drawn"

    def test_labels_that_are_left_out_are_counted_by_reason(self, city):
        set_properties(
            city / "roads" / "city_1.geojson", [{"highway": "path"}, {"highway": "road"}]
        )
        assert "; left out: 1 not for cars" in look(city).rows["labels"]

    def test_roads_that_cross_without_a_vertex_are_counted(self, city, caplog):
        path = city / "roads" / "city_1.geojson"
        with edited(path) as labels:
            (west, south), *_, (east, north) = labels["features"][0]["geometry"]["coordinates"]
            middle = (west + east) / 2, (south + north) / 2
            across = [
                [middle[0] + d * (south - north), middle[1] + d * (east - west)] for d in (-1, 1)
            ]
            labels["features"][1]["geometry"]["coordinates"] = across
        look(city)
        assert "city_1.geojson: 1 crossing and 0 touching ends without" in caplog.text

    def test_of_many_label_files_some_are_read(self, city, monkeypatch):
        monkeypatch.setattr(contents, "_READ_ALL_FILES", 4)
        monkeypatch.setattr(contents, "_SAMPLE_FILES", 3)
        assert look(city).rows["labels"].startswith("6 roads in 3 of 5 files; ")

    def test_labels_elsewhere_are_refused_with_both_extents(self, city, make_scene):
        make_scene(city, "city_1", origin=(700000.0, 4100000.0))
        image = city / "images" / "city_1.tif"
        shutil.copy(city / "images" / "city_2.tif", image)
        message = (
            r"city_1\.geojson: none of its 2 roads touches .*city_1\.tif: the roads are at "
            r"lon -114\..* lat 37\..*, the image at lon -115\..* lat 36\."
        )
        with pytest.raises(DataError, match=message):
            look(city)

    def test_swapped_axes_are_told(self, city):
        path = city / "roads" / "city_1.geojson"
        with edited(path) as labels:
            for feature in labels["features"]:
                line = feature["geometry"]["coordinates"]
                feature["geometry"]["coordinates"] = [[y, x] for x, y in line]
        with pytest.raises(DataError, match="x and y look swapped: write longitude before"):
            look(city)

    def test_one_label_file_that_no_image_touches_is_refused(self, city, make_scene):
        make_scene(city / "other", "elsewhere", origin=(700000.0, 4100000.0))
        with pytest.raises(DataError, match="none of its 2 roads touches"):
            look(city, labels="other/roads/elsewhere.geojson")

    def test_one_label_file_may_miss_some_images(self, city):
        told = look(city, labels="roads/city_2.geojson").rows["labels"]
        assert told.endswith("without roads: city_0, city_1, city_3 and 1 more")

    def test_label_files_without_any_road_are_refused(self, city):
        for path in (city / "roads").iterdir():
            labels = json.loads(path.read_text())
            path.write_text(json.dumps(labels | {"features": []}))
        with pytest.raises(DataError, match="none of the 5 label files"):
            look(city)


class TestMasks:
    def test_images_without_georeference_need_to_be_told_their_pixel_size(self, plain):
        message = r"1\.png: no georeference found.*imagery\.gsd_m.*\(10 images cannot be used\)"
        with pytest.raises(DataError, match=message):
            look(plain, labels="masks")

    def test_masks_serve_images_without_georeference(self, plain):
        summary = look(plain, "imagery.gsd_m=1", labels="masks")
        assert summary.rows["matches"].startswith("1 uses 1.png; ")
        assert summary.rows["masks"].startswith("10 raster masks with the values 0, 1, 2; ")
        assert summary.rows["images"].endswith("; no georeference")
        assert summary.chips == 10

    def test_values_of_masks_can_be_given_speeds(self, plain):
        text = str(look(plain, "imagery.gsd_m=1", labels="masks"))
        assert "speed of all roads: labels.default_speed_mph" in text
        given = str(
            look(
                plain,
                "imagery.gsd_m=1",
                'labels.mask_speeds_mph={"2":40}',
                labels="masks",
                force=True,
            )
        )
        assert "speeds from labels.mask_speeds_mph" in given

    @pytest.mark.usefixtures("city")
    def test_lines_cannot_be_laid_over_images_without_georeference(self, plain):
        with pytest.raises(DataError, match=r"has no georeference, so .* cannot be placed on it"):
            look(plain, "imagery.gsd_m=1", labels="roads/city_1.geojson")


class TestSplit:
    def test_few_scenes_are_cut_into_chips_that_fill_the_folds_twice(self, make_scene, tmp_path):
        make_scene(tmp_path, "big", size_px=1000, gsd_m=0.5)
        summary = look(tmp_path)
        assert summary.chips >= 10
        assert summary.chip_px < 1000

    def test_named_images_to_be_mapped_decide_by_their_distance(self, city):
        summary = look(city, f"split.target={city / 'images'}")
        assert summary.rows["split"].endswith("by the distance to split.target")
        config = load_config(city / "found.json")
        assert (config.split.method, config.imagery.chip_px) == ("knndm", 1300)

    def test_a_file_of_folds_has_their_number(self, city):
        rows = ["name,fold", *(f"city_{number},{number % 3}" for number in range(5))]
        (city / "folds.csv").write_text("\n".join(rows))
        summary = look(city, "split.method=file", f"split.file={city / 'folds.csv'}")
        assert "split into 3 folds by split.file" in summary.rows["split"]
        assert load_config(city / "found.json").split.folds == 3

    @pytest.mark.parametrize(("size_px", "chip_px"), [(163, 64), (480, 163)])
    def test_small_chips_are_a_last_resort(self, make_scene, tmp_path, size_px, chip_px):
        make_scene(tmp_path, "small", size_px=size_px)
        assert look(tmp_path).chip_px == chip_px

    def test_too_few_places_for_the_folds_are_refused(self, make_scene, tmp_path):
        make_scene(tmp_path, "tiny", size_px=64)
        with pytest.raises(
            DataError, match=r"found 1 separate place in 1 image, .* 5 folds; add images"
        ):
            look(tmp_path)


@pytest.mark.real
@pytest.mark.parametrize(
    ("images", "labels", "assignments"),
    [
        ("spacenet/vegas", "spacenet/vegas", []),
        ("spacenet/vegas16", "spacenet/vegas16", []),
        ("spacenet/paris", "spacenet/paris", []),
        ("san_diego/images", "san_diego/roads", []),
        ("san_diego/images", "san_diego/masks", []),
        pytest.param("tianjin/images", "tianjin/roads", [], marks=pytest.mark.slow),
        pytest.param("nyc/images", "nyc/masks", ["imagery.gsd_m=0.9"], marks=pytest.mark.slow),
    ],
)
def test_prepare_works_on_what_init_wrote_for_real_data(
    real_data, tmp_path, images, labels, assignments
):
    paths = [str(real_data / images)], [str(real_data / labels)]
    found = init.run(*paths, tmp_path / "c.json", settings=load_config(None, assignments))
    config = load_config(tmp_path / "c.json")
    prepare(config, Workspace(config.run))
    folds = json.loads((tmp_path / "run" / "folds.json").read_text())
    assert len(folds) <= found.chips
    assert set(folds.values()) == set(range(5))


NORTH, SOUTH = (660_000.0, 4_000_000.0), (660_000.0, 3_900_000.0)


@pytest.fixture
def cities(tmp_path, monkeypatch, make_scene, lines_to_masks):
    """Draw a large city with lines and a small one with masks, and go to their folder."""
    for number in range(9):
        make_scene(tmp_path / "large", f"a{number}", origin=(NORTH[0] + 200 * number, NORTH[1]))
    for number in range(2):
        place = (SOUTH[0] + 200 * number, SOUTH[1])
        make_scene(tmp_path / "small town", f"b{number}", origin=place)
    lines_to_masks(tmp_path / "small town")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def look_here(*assignments, images=(), cities=None):
    """Run init on the folders here; give its summary and the sets that it wrote."""
    settings = load_config(None, assignments)
    here = sorted(str(path) for path in Path().iterdir() if path.is_dir())
    summary = init.run(
        *(images, [], Path("found.json")),
        settings=settings,
        cities=here if cities is None else cities,
        force=True,
    )
    values = json.loads(Path("found.json").read_text())
    load_config(Path("found.json"))
    return summary, values["imagery"].get("sets")


@pytest.mark.usefixtures("cities")
def test_folders_of_cities_become_sets():
    summary, sets = look_here()
    assert sets["large"] == {
        "images": ["large/images"],
        "roads": ["large/roads"],
        "weight": 1.0,
    } | {"labels": {"scheme": "spacenet"}}
    assert sets["small_town"]["roads"] == ["small town/masks"]
    assert (
        "\nset large       9 images, pixels of 1.00 m, 9 chips, weight 1; images: large/images"
        in str(summary)
    )
    assert "\nset small_town  2 images, pixels of 1.00 m, 2 chips, weight 2.1; " in str(summary)


@pytest.mark.usefixtures("cities")
def test_cities_may_be_named():
    sets = look_here(cities=["west=large", "small town/"])[1]
    assert list(sets) == ["west", "small_town"]


@pytest.mark.usefixtures("cities")
@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"cities": ["nowhere"]}, "--city nowhere: no such folder; use FOLDER or NAME=FOLDER"),
        ({"cities": ["large", "large=small town"]}, "--city large=small town: another city has"),
        ({"cities": ["a.b=large"]}, "--city a.b=large: expected a name of letters"),
        ({"cities": ["large/images"]}, "no road labels found in it or its subfolders; use"),
        (
            {"cities": ["large"], "images": ["large/images"]},
            "cannot be combined with --images and --labels",
        ),
    ],
)
def test_cities_that_cannot_be_sets_are_told(options, told):
    with pytest.raises(ConfigError, match=told):
        look_here(**options)


@pytest.mark.usefixtures("cities")
def test_what_is_set_for_a_set_stays():
    sets = look_here("imagery.sets.large.weight=0.5", "imagery.sets.large.labels.scheme=constant")[
        1
    ]
    assert (sets["large"]["weight"], sets["small_town"]["weight"]) == (0.5, 2.1)
    assert (sets["large"]["images"], sets["large"]["roads"]) == (["large/images"], ["large/roads"])
    assert sets["large"]["labels"] == {"scheme": "constant"}


@pytest.mark.usefixtures("cities")
def test_settings_of_a_set_that_is_not_there_are_refused():
    with pytest.raises(
        ConfigError, match=r"imagery\.sets\.larg: no such set; found large, small_t"
    ):
        look_here("imagery.sets.larg.weight=2")


@pytest.mark.usefixtures("city")
def test_settings_of_a_set_are_refused_where_there_are_none(tmp_path):
    with pytest.raises(ConfigError, match="no sets were found; use --city"):
        look(tmp_path, "imagery.sets.a.weight=2")


def test_black_wedges_of_one_set_count_for_it_alone(cities):
    for image in (cities / "large/images").iterdir():
        change(image, lambda pixels: pixels * np.tri(64, 64, 20, dtype=np.uint8))
    summary, sets = look_here()
    assert sets["large"]["nodata"] == 0
    assert "nodata" not in sets["small_town"]
    assert written(Path())["imagery"]["nodata"] is None
    assert "large: 0 in every band" in summary.rows["no data"]


def test_a_set_without_georeference_is_refused_and_can_have_a_size_of_its_own(
    cities, write_nowhere
):
    shutil.rmtree(cities / "small town")
    for number in range(2):
        pixels = np.full((3, 64, 64), 90, np.uint8)
        write_nowhere(pixels, name=f"plain/images/p{number}.png", driver="PNG")
        write_nowhere(np.eye(64, dtype=np.uint8), name=f"plain/masks/p{number}.png", driver="PNG")
    with pytest.raises(DataError, match=r"plain.images.p0\.png: no georeference found"):
        look_here()
    summary, sets = look_here("imagery.sets.plain.gsd_m=0.9")
    assert "pixels of 0.90 m" in summary.rows["set plain"]
    assert sets["plain"]["gsd_m"] == 0.9
    config = load_config(Path("found.json"))
    assert "of plain " in str(prepare(config, Workspace(config.run)))


@pytest.mark.parametrize(
    ("chips", "weights"),
    [
        ({"a": 183, "b": 19}, {"a": 1.0, "b": 3.1}),
        ({"a": 4, "b": 4}, {"a": 1.0, "b": 1.0}),
        ({"a": 1, "b": 10_000}, {"a": 100.0, "b": 1.0}),
    ],
)
def test_small_sets_get_weights_by_the_root_of_their_chips(chips, weights):
    assert balanced_weights(chips) == weights


TINY = ("train.encoder=tu-test_resnet", "train.encoder_weights=null", "train.window_px=32")


def test_with_minutes_a_training_is_planned_when_it_begins(city):
    summary = look(city, *TINY, "train.minutes=2")
    assert written(city)["train"]["minutes"] == 2
    assert summary.rows["training"] == "2 min, planned when it begins"


@pytest.mark.parametrize(
    ("settings", "start"),
    [
        ((), "from the starter"),
        (("train.encoder_weights=imagenet",), "ImageNet"),
        (("imagery.bands=1,2,3,1",), "ImageNet"),
        (("train.decoder_channels=null",), "ImageNet"),  # the starter is another network
    ],
)
def test_init_says_what_a_training_starts_from(city, settings, start):
    assert start in look(city, *settings).rows["weights"]


def test_without_minutes_nothing_is_planned(city):
    assert "training" not in look(city, *TINY).rows
