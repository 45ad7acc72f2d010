import json

import numpy as np
import pyogrio
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from roadseg.dataset.chips import NO_ZONE, ChipRecord
from roadseg.dataset.fold_files import (
    read_fold_file,
    read_folds,
    road_by_fold,
    write_fold_layer,
    write_folds,
)
from roadseg.errors import DataError, MissingInputError
from roadseg.raster.windows import Window
from roadseg.roads.colours import fold_colour

NAMES = st.text("ab_-.äö 0", min_size=1).map(str.strip).filter(bool)


def chip(name, zone=32611, *, road=0.1, valid=1.0, side=100):
    corners = ((660_000.5, 4e6), (660_050.0, 4e6), (660_050.0, 4e6 - 50), (660_000.5, 4e6 - 50))
    window = Window(0, 0, side, side)
    return ChipRecord(name, name.split("_")[0], window, corners, zone, road, valid)


def written(path, chips):
    write_fold_layer(path, chips, np.arange(len(chips)))
    return pyogrio.read_dataframe(path, layer="chips")


@pytest.mark.parametrize(
    ("text", "folds"),
    [
        ("name,fold\na,0\nb_r0_c0,3\n", {"a": 0, "b_r0_c0": 3}),
        (  # a list of CRESI, with files and numbered rows
            "\ufeff,fold,name\r\n0,1,PS-RGB_chip1.2.tif\r\n1,0,b.TIFF\r\n",
            {"PS-RGB_chip1.2": 1, "b": 0},
        ),
    ],
)
def test_a_csv_gives_the_fold_of_each_name(tmp_path, text, folds):
    (tmp_path / "f.csv").write_text(text)
    assert read_fold_file(tmp_path / "f.csv") == folds


@given(st.dictionaries(NAMES, st.integers(0, 9), min_size=1))
def test_a_folds_json_gives_the_fold_of_each_name(tmp_path_factory, folds):
    path = tmp_path_factory.mktemp("folds") / "folds.json"
    path.write_text(json.dumps(folds))
    assert read_fold_file(path) == folds


def test_a_name_may_be_there_twice_with_the_same_fold(tmp_path):
    (tmp_path / "f.csv").write_text("name,fold\na,1\na.tif,1\n")
    assert read_fold_file(tmp_path / "f.csv") == {"a": 1}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "its first row is ''; expected a CSV with a header"),
        ("a,0\nb,1\n", "its first row is 'a,0'; expected a CSV with a header row and the columns"),
        ("name;fold\na;0\n", "its first row is 'name;fold'"),
        ("name,fold\n", "contains no chips or scenes"),
        ("name,fold\na,0\nb,one\n", "expected a name and a fold .* got 'b' and 'one'"),
        ("name,fold\na,-1\n", "expected .* got 'a' and '-1'"),
        ("name,fold\na,1.0\n", "expected .* got 'a' and '1.0'"),
        ("name,fold\na\n", "expected .* got 'a' and None"),
        ("name,fold\n ,1\n", "expected .* got ' ' and '1'"),
        ("name,fold\na,0\na.tif,1\n", "a has the folds 0 and 1; keep one of them"),
        ("name,fold\n\xff", "not a readable CSV file .*codec can't decode"),
    ],
)
def test_a_csv_that_gives_no_folds_is_refused(tmp_path, text, told):
    (tmp_path / "f.csv").write_bytes(text.encode("latin-1"))
    with pytest.raises(DataError, match=rf"f\.csv: {told}"):
        read_fold_file(tmp_path / "f.csv")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[1]", "the whole file: expected an object, got .*; expected an object with the fold"),
        ("{}", "contains no chips or scenes"),
        ('{"a": "x"}', "a: expected a valid integer, got 'x'"),
        ('{" ": 0}', "expected a name and a fold"),
    ],
)
def test_a_json_file_that_gives_no_folds_is_refused(tmp_path, text, told):
    (tmp_path / "f.json").write_text(text)
    with pytest.raises(DataError, match=rf"f\.json: {told}"):
        read_fold_file(tmp_path / "f.json")


def test_the_layer_holds_footprint_and_fold_of_every_chip(tmp_path):
    chips = [chip("a_r0_c0", road=0.25, valid=0.5), chip("b")]
    table = written(tmp_path / "f.gpkg", chips)
    assert table.crs.to_epsg() == 32611
    assert table.drop(columns="geometry").to_dict("list") == {
        "name": ["a_r0_c0", "b"],
        "scene": ["a", "b"],
        "fold": [0, 1],
        "road_share": [0.25, 0.1],
        "valid_share": [0.5, 1.0],
    }
    assert table.geometry[0].equals(shapely.Polygon(chips[0].corners_m))


def test_a_layer_over_several_zones_is_in_degrees(tmp_path):
    table = written(tmp_path / "f.gpkg", [chip("a"), chip("b", 32612)])
    assert table.crs.to_epsg() == 4326
    lon_lat = [(p.centroid.x, p.centroid.y) for p in table.geometry]
    assert np.allclose(lon_lat, [(-115.222, 36.131), (-109.222, 36.131)], atol=1e-3)


def test_a_chip_without_georeference_has_no_geometry(tmp_path):
    table = written(tmp_path / "f.gpkg", [chip("a", NO_ZONE), chip("b")])
    assert table.geometry.isna().tolist() == [True, False]
    assert table.crs.to_epsg() == 32611


def test_chips_without_georeference_alone_are_a_table(tmp_path):
    table = written(tmp_path / "f.gpkg", [chip("a", NO_ZONE), chip("b", NO_ZONE)])
    assert list(table.columns) == ["name", "scene", "fold", "road_share", "valid_share"]
    assert table["fold"].tolist() == [0, 1]


def test_the_road_of_a_fold_is_its_share_of_the_valid_pixels():
    chips = [chip("a", road=0.1, valid=0.5), chip("b", road=0.2, side=200), chip("c", road=0.3)]
    assert np.allclose(road_by_fold(chips, np.array([0, 0, 1])), [0.9 / 4.5, 0.3])


def test_a_fold_without_valid_pixels_has_no_road():
    assert road_by_fold([chip("a", road=0.0, valid=0.0)], np.array([0])).tolist() == [0]


def test_folds_written_come_back(tmp_path):
    write_folds(tmp_path / "folds.json", {"a": 0, "b": 3})
    assert read_folds(tmp_path / "folds.json", [chip("a"), chip("b")]) == {"a": 0, "b": 3}


@pytest.mark.parametrize(
    ("folds", "told"),
    [
        ({"a": -1, "b": 0}, "a: expected greater than or equal to 0, got -1"),
        ({"a": "1", "b": 0}, "a: expected a valid integer, got '1'"),
        ({"a": True, "b": 0}, "a: expected a valid integer, got True"),
        ({"a": 0}, "expected one fold for each chip and no others, found otherwise for 'b'"),
        ({"a": 0, "b": 0, "c": 0}, "and no others, found otherwise for 'c'"),
        ([0, 1], "expected an object, got"),
    ],
)
def test_folds_that_are_not_those_of_the_chips_are_refused(tmp_path, folds, told):
    (tmp_path / "folds.json").write_text(json.dumps(folds))
    with pytest.raises(DataError, match=rf"folds\.json: .*{told}.*; run `roadseg split --force`"):
        read_folds(tmp_path / "folds.json", [chip("a"), chip("b")])


def test_qgis_shows_the_chips_of_each_fold_in_its_colour(tmp_path):
    write_fold_layer(tmp_path / "f.gpkg", [chip("a"), chip("b")], np.array([0, 1]))
    (style,) = pyogrio.read_dataframe(tmp_path / "f.gpkg", layer="layer_styles")["styleQML"]
    assert 'attr="fold"' in style
    assert all(f"{r},{g},{b},255" in style for r, g, b in map(fold_colour, (0, 1)))


def test_the_stage_that_makes_missing_folds_is_named(tmp_path):
    with pytest.raises(MissingInputError, match=r"folds\.json does not exist; run `roadseg split`"):
        read_folds(tmp_path / "folds.json", [chip("a")])
