import json

import geopandas
import numpy as np
import pytest
import rasterio
import shapely
from affine import Affine

from roadseg.commands.stages import pipeline, prepare
from roadseg.config import load_config
from roadseg.dataset.shifts import Shift
from roadseg.errors import ConfigError, DataError
from roadseg.system.workspace import Workspace
from tests.configs import edited


def run(config_path, *assignments, **options):
    config = load_config(config_path, assignments)
    return prepare.run(config, Workspace(config.run), **options)


def read(path):
    with rasterio.open(path) as raster:
        return raster.read(1)


def change_labels(path, change):
    with edited(path) as labels:
        change(labels["features"])


def written(folder):
    """Return the content of every file that prepare makes for later stages, by its name."""
    files = [*sorted((folder / "masks").iterdir()), folder / "chips.json", folder / "scaling.json"]
    return {path.name: path.read_bytes() for path in files}


def test_the_mask_lies_on_the_image_and_holds_the_speed_bins(city):
    run(city)
    with rasterio.open(city.parent / "run/masks/city_0.tif") as mask:
        with rasterio.open(city.parent / "images/city_0.tif") as image:
            assert (mask.transform, mask.crs, mask.shape) == (
                image.transform,
                image.crs,
                image.shape,
            )
        assert set(np.unique(mask.read(1))) == {0, 3, 5}  # 25 and 45 mph


def test_bins_in_kmh_sort_the_same_roads_another_way(city):
    summary = run(city, "labels.bin_edges=[30, 50]", "labels.bin_unit=km/h")
    assert set(np.unique(read(city.parent / "run/masks/city_0.tif"))) == {0, 2, 3}
    assert list(summary.road_km_by_speed_bin) == ["0 to 30 km/h", "30 to 50 km/h", "above 50 km/h"]
    assert json.loads((city.parent / "run/chips.json").read_text())["bins"]["edges"] == [30, 50]


def test_the_table_says_how_long_and_how_wide_the_roads_of_each_speed_are(city):
    text = str(run(city))
    assert "32 to 48 km/h" in text  # 20 to 30 mph
    assert "0.32 km" in text  # five roads of 64 m
    assert "80 to 97 km/h" not in text


@pytest.mark.parametrize(("rule", "road_share"), [("constant", 0.122), ("lanes", 0.207)])
def test_the_width_of_a_road_is_constant_or_that_of_its_lanes(city, rule, road_share):
    summary = run(city, f"labels.width={rule}")
    assert summary.road_share == pytest.approx(road_share, abs=0.002)


def test_pixels_without_data_are_ignored_in_the_mask(city):
    path = city.parent / "images/city_0.tif"
    with rasterio.open(path, "r+") as image:
        image.nodata = 0
        image.write(np.zeros((3, 10, 64), dtype=np.uint8), window=((0, 10), (0, 64)))
    summary = run(city)
    assert (read(city.parent / "run/masks/city_0.tif")[:10] == 255).all()
    assert summary.nodata_share == pytest.approx(640 / (5 * 64 * 64), abs=1e-6)


def test_a_chip_without_data_is_left_out(city):
    with rasterio.open(city.parent / "images/city_0.tif", "r+") as image:
        image.nodata = 0
        image.write(np.zeros((3, 32, 32), dtype=np.uint8), window=((0, 32), (0, 32)))
    assert run(city, "imagery.chip_px=32").chips == 19


def test_shares_of_chips_are_those_of_their_pixels(city, monkeypatch):
    monkeypatch.setattr("roadseg.dataset.scenes._BLOCK_PX", 48)  # cuts across the chips
    run(city, "imagery.chip_px=32")
    mask = read(city.parent / "run/masks/city_1.tif")
    chips = json.loads((city.parent / "run/chips.json").read_text())["chips"]
    for chip in (chip for chip in chips if chip["scene"] == "city_1"):
        row, col, height, width = chip["window"]
        assert chip["road_share"] == (mask[row : row + height, col : col + width] > 0).mean()


def test_a_ground_size_resamples_masks_and_chips(city):
    summary = run(city, "imagery.gsd_m=2")
    assert read(city.parent / "run/masks/city_0.tif").shape == (32, 32)
    assert summary.gsd_m == pytest.approx(2, rel=0.01)


@pytest.mark.parametrize("change", [("labels.buffer_m=3",), ()])
def test_masks_are_made_again_when_a_setting_changes_or_by_force(city, change):
    run(city)
    before = (city.parent / "run/masks/city_0.tif").stat().st_mtime_ns
    run(city, *change, force=not change)
    assert (city.parent / "run/masks/city_0.tif").stat().st_mtime_ns != before


def test_only_the_scene_whose_labels_changed_is_made_again(city):
    run(city)
    masks = [city.parent / f"run/masks/city_{number}.tif" for number in range(5)]
    before = [mask.stat().st_mtime_ns for mask in masks]
    change_labels(city.parent / "roads/city_3.geojson", lambda features: features.pop())
    run(city)
    after = [mask.stat().st_mtime_ns for mask in masks]
    assert [a != b for a, b in zip(after, before, strict=True)] == [False] * 3 + [True, False]


def test_a_run_that_only_looks_again_writes_what_a_run_from_scratch_writes(city):
    run(city)
    change_labels(city.parent / "roads/city_3.geojson", lambda features: features.pop())
    run(city)
    again = written(city.parent / "run")
    run(city, force=True)
    assert written(city.parent / "run") == again


def test_labels_left_out_are_counted(city):
    def spoil(features):
        features.append({"type": "Feature", "properties": {}, "geometry": None})

    change_labels(city.parent / "roads/city_0.geojson", spoil)
    summary = run(city)
    assert summary.dropped == {"null": 1}
    assert "left out: 1 null" in str(summary)


def test_one_label_file_serves_all_scenes_and_roads_beyond_them_are_counted_once(city):
    apart = run(city).road_km
    features = []
    for path in sorted((city.parent / "roads").iterdir()):
        features += json.loads(path.read_text())["features"]
    features.append(json.loads(json.dumps(features[0]).replace("[-115", "[-114")))
    together = city.parent / "all.geojson"
    together.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    summary = run(city, f'labels.roads=["{together}"]')
    assert (summary.labels, summary.dropped) == (11, {"beyond the images": 1})
    assert summary.road_km == pytest.approx(apart)


def test_an_attribute_of_widths_that_no_label_has_is_warned_about(city, caplog):
    run(city, "labels.width=attribute", "labels.width_key=Breite")
    told = "labels.width_key: no label file has the attribute 'Breite', so all lines are 4 m wide; "
    assert told in caplog.text


def test_a_scene_without_any_road_is_background(city, caplog):
    empty = '{"type": "FeatureCollection", "features": []}'
    (city.parent / "roads/city_2.geojson").write_text(empty)
    run(city)
    assert not read(city.parent / "run/masks/city_2.tif").any()
    (text,) = [
        text for text in caplog.messages if "1 of 5 scenes has no roads in the labels" in text
    ]
    assert "learns that there are none: city_2; if the labels do not reach there" in text
    assert "labels.area" in text


def test_labels_without_a_single_road_are_refused(city):
    for path in (city.parent / "roads").iterdir():
        path.write_text('{"type": "FeatureCollection", "features": []}')
    with pytest.raises(DataError, match=r"no road in 5 label files of 5 scenes"):
        run(city)


def test_raster_masks_are_labels_too(city):
    run(city)
    lines = read(city.parent / "run/masks/city_0.tif")
    drawn = city.parent / "drawn"
    drawn.mkdir()
    for mask in (city.parent / "run/masks").glob("*.tif"):
        with rasterio.open(mask) as source:
            profile = {k: source.profile[k] for k in ("crs", "transform", "height", "width")}
            with rasterio.open(
                drawn / mask.name, "w", driver="GTiff", count=1, dtype="uint8", **profile
            ) as target:
                target.write((source.read(1) > 0).astype(np.uint8), 1)
    summary = run(city, f'labels.roads=["{drawn}"]')
    assert np.array_equal(read(city.parent / "run/masks/city_0.tif") > 0, lines > 0)
    assert summary.schemes == {"mask": 5}


def test_a_bad_scene_stops_the_rest_and_names_its_file(city):
    (city.parent / "images/city_2.tif").write_text("<html>not found</html>")
    with pytest.raises(DataError, match=r"city_2\.tif: not a readable raster"):
        run(city)
    assert not (city.parent / "run/chips.json").exists()


def test_a_skipped_scene_is_tried_again_and_the_others_are_kept(city):
    image = city.parent / "images/city_2.tif"
    good, times = image.read_bytes(), image.stat()
    image.write_bytes(b"x" * len(good))
    run(city, "compute.on_error=skip")
    kept = (city.parent / "run/masks/city_0.tif").stat().st_mtime_ns
    image.write_bytes(good)
    assert times.st_size == image.stat().st_size
    assert run(city, "compute.on_error=skip").failed == {}
    assert (city.parent / "run/masks/city_0.tif").stat().st_mtime_ns == kept


def test_when_all_scenes_fail_that_is_the_error(city):
    for image in (city.parent / "images").iterdir():
        image.write_bytes(b"")
    with pytest.raises(DataError, match=r"all 5 scenes failed, the first: .*city_0\.tif"):
        run(city, "compute.on_error=skip")


def test_scenes_with_different_numbers_of_bands_are_refused(city, make_scene):
    make_scene(city.parent, "city_4", bands=1, origin=(660800.0, 4000000.0))
    with pytest.raises(
        DataError, match=r"such as city_4\.tif with 1 of uint8 and city_0\.tif with 3"
    ):
        run(city)


def test_sheets_show_labels_over_images(city):
    summary = run(city)
    assert [path.split("/")[-1] for path in summary.sheets] == ["sheet_01.png"]
    assert (city.parent / "run/quality/sheet_01.png").stat().st_size > 1000


def test_a_picture_that_cannot_be_made_is_told(city, monkeypatch, caplog):
    def fail(_task):
        raise DataError("block 7 cannot be read")

    monkeypatch.setattr(prepare, "make_example", fail)
    assert run(city).sheets == []
    assert "could not draw city_0: block 7 cannot be read" in caplog.text


def test_a_crs_that_is_none_is_no_scene_to_skip_and_stops_a_dry_run_too(city):
    settings = ["imagery.crs=EPSG:1", "compute.on_error=skip"]
    with pytest.raises(ConfigError, match=r"^imagery\.crs: expected a CRS"):
        run(city, *settings)
    config = load_config(city, settings)
    with pytest.raises(ConfigError, match=r"^imagery\.crs: expected a CRS"):
        pipeline.plan_stage("prepare", config, Workspace(config.run))
    assert not config.run.exists()


@pytest.mark.parametrize("folder", ["images", "roads"])
def test_a_run_folder_that_holds_the_inputs_is_refused(city, folder):
    config = load_config(city, [f"run={city.parent / folder}"])
    with pytest.raises(
        ConfigError, match=rf"run: .*{folder} contains city_0\.\w+, which is not an output"
    ):
        prepare.run(config, Workspace(config.run))
    assert not (config.run / "chips.json").exists()


@pytest.mark.parametrize("folder", ["masks", "probabilities", "graphs"])
def test_labels_in_a_folder_to_which_results_go_are_refused(city, folder):
    labels = (city.parent / "roads").rename(city.parent / folder)
    with pytest.raises(ConfigError, match=rf"run: .*{folder} contains city_0\.geojson, which"):
        run(city, f"run={city.parent}", f'labels.roads=["{labels}"]')


def test_labels_are_moved_by_the_shift_that_is_given(city):
    run(city)
    before = read(city.parent / "run/masks/city_0.tif")
    summary = run(city, "labels.shift=[3, -2]")
    moved = read(city.parent / "run/masks/city_0.tif")
    assert np.array_equal(moved[12:-12, 13:-10], before[10:-14, 10:-13])
    assert "3.0 m east, 2.0 m south (given)" in str(summary)
    scenes = json.loads((city.parent / "run/chips.json").read_text())["scenes"]
    assert [scene["shift_m"] for scene in scenes] == [[3, -2]] * 5


def find_shift(monkeypatch, right_m, down_m):
    """Let all examples have a shift, in the frame of their image."""
    found = Shift(right_m, down_m, confidence=1.0)
    monkeypatch.setattr("roadseg.dataset.quality.estimate_shift", lambda *_, **__: found)


def test_the_shift_of_labels_is_told_east_and_north_however_images_are_turned(city, monkeypatch):
    for image in (city.parent / "images").glob("*.tif"):
        with rasterio.open(image, "r+") as raster:
            west, north = raster.transform.c, raster.transform.f
            raster.transform = Affine(0, -1, west + 64, -1, 0, north)  # Down is to the west.
    find_shift(monkeypatch, 1.0, 3.0)
    assert run(city).remaining_m == pytest.approx([-3, -1], abs=0.1)


def test_a_warning_of_shifted_labels_names_the_whole_shift(city, monkeypatch, caplog):
    find_shift(monkeypatch, 3.0, 2.0)
    run(city, "labels.shift=[1, 0.5]")
    assert "set labels.shift=[4.0, -1.5] (metres east and north in all)" in caplog.text


@pytest.mark.parametrize("rule", ["none", "set", "scene"])
def test_masks_and_shifts_are_the_same_with_any_number_of_processes(city, rule):
    first = run(city, f"labels.shift={rule}")
    files = written(city.parent / "run")
    assert run(city, f"labels.shift={rule}", "compute.workers=2", force=True) == first
    assert written(city.parent / "run") == files


@pytest.mark.parametrize("shift", ['"sets"', "[1]", "[1, 2, 3]", "[1, 100.5]", "3", '["a", 1]'])
def test_a_shift_that_is_none_is_refused_in_one_sentence(city, shift):
    told = (
        r'labels\.shift: expected "none", "set", "scene", or metres east and north up to 100: .*got'
    )
    with pytest.raises(ConfigError, match=told):
        load_config(city, [f"labels.shift={shift}"])


@pytest.mark.parametrize("shift", ["[100, -100]", "none", '"set"'])
def test_a_shift_up_to_the_limit_is_taken(city, shift):
    assert load_config(city, [f"labels.shift={shift}"]).labels.shift is not None


def write_area(city, box):
    """Write a polygon, in metres from the upper left corner of the first scene."""
    left, up, right, down = box
    area = shapely.box(660000 + left, 4000000 - down, 660000 + right, 4000000 - up)
    path = city.parent / "area.gpkg"
    geopandas.GeoSeries([area], crs=32611).to_file(path)
    return f'labels.area=["{path}"]'


def test_what_lies_outside_of_the_area_of_labels_is_ignored(city):
    run(city)
    before = read(city.parent / "run/masks/city_0.tif")
    run(city, write_area(city, (-100, -100, 20, 1000)))
    mask = read(city.parent / "run/masks/city_0.tif")
    assert (mask[:, 20:] == 255).all()
    assert np.array_equal(mask[:, :20], before[:, :20])


def test_lengths_of_roads_are_those_in_the_area(city):
    whole = run(city)
    part = run(city, write_area(city, (-100, -100, 32, 1000)))
    assert 0 < part.road_km < whole.road_km / 5


def test_scenes_outside_of_the_area_have_no_chips_and_are_not_called_background(city, caplog):
    assert run(city, write_area(city, (-100, -100, 70, 1000))).chips == 1
    assert "no roads in the labels" not in caplog.text


def test_an_area_says_that_labels_reach_where_there_are_no_roads(city, caplog):
    empty = '{"type": "FeatureCollection", "features": []}'
    (city.parent / "roads/city_2.geojson").write_text(empty)
    assert run(city, write_area(city, (-100, -100, 2000, 1000))).chips == 5
    assert "no roads in the labels" not in caplog.text


def test_masks_are_made_again_when_the_area_changes(city):
    area = write_area(city, (-100, -100, 20, 1000))
    run(city, area)
    run(city, write_area(city, (-100, -100, 30, 1000)))
    assert (read(city.parent / "run/masks/city_0.tif")[:, 20:30] != 255).all()


def test_an_area_that_touches_no_scene_is_refused(city):
    with pytest.raises(
        DataError, match=r"labels\.area: no polygon of .*area\.gpkg touches any scene"
    ):
        run(city, write_area(city, (5000, 0, 6000, 1000)))


def test_an_area_that_is_not_there_is_refused(city):
    with pytest.raises(
        DataError, match=r"nowhere\.gpkg: does not exist, expected vector files; see labels\.area"
    ):
        run(city, 'labels.area=["nowhere.gpkg"]')
