import json

import numpy as np
import pytest
import rasterio

from roadseg.config import load_config
from roadseg.errors import ConfigError, DataError
from roadseg.stages import prepare
from roadseg.workspace import Workspace


def run(config_path, *assignments, **options):
    config = load_config(config_path, assignments)
    return prepare.run(config, Workspace(config.run), **options)


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


def test_the_mask_has_a_colour_table_and_says_what_no_data_is(city):
    run(city)
    with rasterio.open(city.parent / "run/masks/city_0.tif") as mask:
        assert mask.nodata == 255
        assert len({mask.colormap(1)[value] for value in (0, 1, 2, 3, 4, 5, 6, 7, 255)}) == 9


def test_pixels_without_data_are_ignored_in_the_mask(city):
    path = city.parent / "images/city_0.tif"
    with rasterio.open(path, "r+") as image:
        image.nodata = 0
        image.write(np.zeros((3, 10, 64), dtype=np.uint8), window=((0, 10), (0, 64)))
    run(city)
    with rasterio.open(city.parent / "run/masks/city_0.tif") as mask:
        assert (mask.read(1)[:10] == 255).all()


def test_scenes_of_two_pixel_types_get_a_scaling_each_and_share_statistics(city, make_scene):
    make_scene(city.parent, "city_4", dtype="uint16", origin=(660800.0, 4000000.0))
    run(city)
    scaling = json.loads((city.parent / "run/scaling.json").read_text())
    assert set(scaling["ranges"]) == {"uint8", "uint16"}
    assert scaling["ranges"]["uint8"] == [[0.0, 255.0]] * 3


def test_a_large_scene_is_cut_into_chips_that_cover_it(city):
    run(city, "imagery.chip_px=32")
    chips = json.loads((city.parent / "run/chips.json").read_text())["chips"]
    areas = [c["window"][2] * c["window"][3] for c in chips if c["scene"] == "city_0"]
    assert (len(areas), sum(areas)) == (4, 64 * 64)


def test_a_ground_size_resamples_masks_and_chips(city):
    summary = run(city, "imagery.gsd_m=2")
    with rasterio.open(city.parent / "run/masks/city_0.tif") as mask:
        assert mask.shape == (32, 32)
    assert summary.gsd_m == pytest.approx(2, rel=0.01)


def test_nothing_is_done_again_while_nothing_changes(city):
    run(city)
    before = (city.parent / "run/masks/city_0.tif").stat().st_mtime_ns
    run(city)
    assert (city.parent / "run/masks/city_0.tif").stat().st_mtime_ns == before


@pytest.mark.parametrize("change", [("labels.buffer_m=3",), ()])
def test_masks_are_made_again_when_a_setting_changes_or_by_force(city, change):
    run(city)
    before = (city.parent / "run/masks/city_0.tif").stat().st_mtime_ns
    run(city, *change, force=not change)
    assert (city.parent / "run/masks/city_0.tif").stat().st_mtime_ns != before


def test_labels_left_out_are_counted_and_named(city, caplog):
    path = city.parent / "roads/city_0.geojson"
    labels = json.loads(path.read_text())
    labels["features"].append({"type": "Feature", "properties": {}, "geometry": None})
    path.write_text(json.dumps(labels))
    assert run(city).dropped == {"null": 1}
    assert "city_0.geojson: 1 pieces left out: null" in caplog.text


def test_labels_that_miss_their_image_are_refused_with_both_places(city):
    moved = (city.parent / "roads/city_0.geojson").read_text().replace("[-", "[-1")
    (city.parent / "roads/city_0.geojson").write_text(moved)
    with pytest.raises(DataError, match=r"none of its 2 lines touches .*lon -1\d+.*image at lon"):
        run(city)


def test_a_scene_without_any_road_is_background(city, caplog):
    empty = '{"type": "FeatureCollection", "features": []}'
    (city.parent / "roads/city_2.geojson").write_text(empty)
    run(city)
    with rasterio.open(city.parent / "run/masks/city_2.tif") as mask:
        assert not mask.read(1).any()
    assert "city_2.tif: no road touches it" in caplog.text


def test_labels_without_a_single_road_are_refused(city):
    for path in (city.parent / "roads").iterdir():
        path.write_text('{"type": "FeatureCollection", "features": []}')
    with pytest.raises(DataError, match=r"no road line in any of the label files of 5 scenes"):
        run(city)


def test_one_label_file_serves_all_scenes(city):
    files = [json.loads(p.read_text()) for p in sorted((city.parent / "roads").iterdir())]
    features = [feature for file in files for feature in file["features"]]
    together = city.parent / "all.geojson"
    together.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    apart = run(city).road_km
    assert run(city, f'labels.roads=["{together}"]').road_km == pytest.approx(apart)


def test_scenes_with_different_numbers_of_bands_are_refused(city, make_scene):
    make_scene(city.parent, "city_4", bands=1, origin=(660800.0, 4000000.0))
    with pytest.raises(DataError, match=r"1 bands, but .* has 3"):
        run(city)


def test_an_unknown_crs_setting_is_named(city):
    with pytest.raises(ConfigError, match=r"imagery\.crs: expected a CRS"):
        run(city, "imagery.crs=EPSG:1")


def test_an_empty_list_of_images_is_a_config_error(city):
    with pytest.raises(ConfigError, match=r"imagery\.images is empty"):
        run(city, "imagery.images=[]")
