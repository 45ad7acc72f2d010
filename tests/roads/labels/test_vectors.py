import gzip
import json
import shutil
import sqlite3
import zipfile
from contextlib import closing
from pathlib import Path

import geopandas as gpd
import numpy as np
import pyogrio
import pytest
import shapely
from pyogrio.errors import DataSourceError
from pyproj import CRS

from roadseg.errors import DataError
from roadseg.roads.labels.vectors import read_vectors
from tests.data.make_osm import write_osm

UTM = CRS.from_epsg(32611)
LINE = shapely.LineString([(0, 0), (3, 4)])
SQUARE = shapely.box(0, 0, 2, 2)
FORMATS = ["gpkg", "shp", "fgb", "geojson", "geojsonl", "geojsons", "gml", "kml", "kmz", "gpx"]
PARTS = [".shp", ".shx", ".dbf", ".prj", ".cpg"]
WKT_LINE = "LINESTRING (2 0, 3 1)"
GEOJSON_LINE = '{"type": "LineString", "coordinates": [[2, 0], [3, 1]]}'


def read(path):
    return read_vectors(path, list)


def frame_of(*shapes, crs=4326, **columns):
    return gpd.GeoDataFrame(columns, geometry=list(shapes), crs=crs)


def save(frame, path, **options):
    """Write a frame in the format of the suffix."""
    drivers = {
        ".geojsons": "GeoJSONSeq",
        ".geojsonl": "GeoJSONSeq",
        ".kml": "LIBKML",
        ".kmz": "LIBKML",
    }
    if path.suffix == ".gpx":
        frame, options = frame[["geometry"]], {"layer": "tracks", "FORCE_GPX_TRACK": "YES"}
    frame.to_file(path, driver=drivers.get(path.suffix), **options)
    return path


def many(count=300):
    lines = [shapely.LineString([(i / 9, 0), (i / 9 + 1, i / 9)]) for i in range(count)]
    return frame_of(*lines, a=np.arange(count), s=["text"] * count)


@pytest.fixture
def shapefile(tmp_path):
    """Write a Shapefile with many lines."""
    return save(many(), tmp_path / "roads.shp")


@pytest.mark.parametrize("suffix", FORMATS)
def test_every_format_is_read_alike(tmp_path, suffix):
    file = read(save(many(), tmp_path / f"roads.{suffix}"))
    assert CRS.from_user_input(file.crs).to_epsg() == 4326
    assert np.allclose(
        shapely.total_bounds(file.geometries), [0, 0, 299 / 9 + 1, 299 / 9], atol=1e-5
    )
    assert (len(file.geometries), file.broken) == (300, 0)


@pytest.mark.parametrize("rows", [3, 20000], ids=["small", "large"])
def test_only_the_chosen_attributes_are_read(tmp_path, rows):
    path = save(many(rows), tmp_path / "roads.geojson")
    file = read_vectors(path, lambda keys: [key for key in keys if key == "s"])
    assert (file.keys, list(file.columns)) == (("a", "s"), ["s"])
    assert len(file.geometries) == rows


@pytest.mark.parametrize("suffix", ["osm", "osm.pbf"])
def test_openstreetmap_files_give_their_ways(tmp_path, suffix):
    points = [(8.5, 49.5), (8.501, 49.502)]
    tags = {"highway": "residential", "maxspeed": "50"}
    file = read(write_osm(tmp_path / f"roads.{suffix}", [(points, tags)]))
    assert np.allclose(shapely.get_coordinates(file.geometries), points)
    assert file.columns["highway"].tolist() == ["residential"]
    assert file.columns["other_tags"].tolist() == ['"maxspeed"=>"50"']


def test_curves_become_lines_and_areas(tmp_path):
    path = tmp_path / "roads.csv"
    curves = ["CIRCULARSTRING (0 0, 1 1, 2 0)", "CURVEPOLYGON (CIRCULARSTRING (0 0, 2 0, 0 0))"]
    path.write_text("WKT\n" + "\n".join(f'"{curve}"' for curve in curves))
    arc, disc = read(path).geometries
    assert shapely.length(arc) == pytest.approx(np.pi, rel=1e-3)
    assert shapely.area(disc) == pytest.approx(np.pi, rel=1e-3)


@pytest.mark.parametrize(
    ("layers", "chosen"),
    [
        ({"nodes": shapely.Point(0, 0), "blocks": SQUARE, "edges": LINE}, LINE),
        ({"trees": shapely.Point(0, 0), "streets": SQUARE}, SQUARE),
    ],
    ids=["that with lines", "without lines that with polygons"],
)
def test_of_several_layers_one_is_read(tmp_path, caplog, layers, chosen):
    path = tmp_path / "graph.gpkg"
    for layer, shape in layers.items():
        save(frame_of(shape), path, layer=layer)
    (found,) = read(path).geometries
    assert found.equals(chosen)
    assert not caplog.text  # No other layer has lines.


@pytest.mark.parametrize("suffix", [".gpkg", ".kml"])
def test_of_layers_with_lines_the_one_called_roads_is_read_and_others_are_named(
    tmp_path, caplog, suffix
):
    path = tmp_path / f"map{suffix}"
    for layer, lines in {"railways": 1, "main_roads": 2, "empty": 0, "rivers": 3}.items():
        save(frame_of(*[LINE] * lines, name=[layer] * lines), path, layer=layer, mode="a")
    assert len(read(path).geometries) == 2
    (remark,) = caplog.messages
    assert "read its layer main_roads and left out railways, rivers; to read another" in remark
    assert remark.endswith(f"ogr2ogr roads.gpkg {path.name} railways")


@pytest.mark.parametrize("others", [0, 1])
def test_a_layer_without_features_is_passed_over(tmp_path, others):
    path = tmp_path / "roads.gpkg"
    save(frame_of(LINE).iloc[:0], path, layer="empty", geometry_type="LineString")
    if others:
        save(frame_of(LINE), path, layer="edges")
    assert len(read(path).geometries) == others


@pytest.mark.parametrize(
    ("name", "line"), [("WKT", WKT_LINE), ("geometry", WKT_LINE), ("geom", GEOJSON_LINE)]
)
def test_lines_in_a_column_of_a_table_are_read(tmp_path, name, line):
    path = tmp_path / "roads.tsv"
    path.write_text(f"{name}\tspeed\n{line}\t25\n")
    file = read(path)
    assert file.keys == ("speed",)
    assert file.geometries.tolist() == [shapely.LineString([(2, 0), (3, 1)])]
    assert (file.crs, file.is_assumed) == ("EPSG:4326", True)


@pytest.fixture
def archive(shapefile):
    """Zip a Shapefile in a folder, beside a text."""
    path = shapefile.with_suffix(".zip")
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("readme.txt", "roads")
        for part in PARTS:
            made.write(shapefile.with_suffix(part), f"folder/roads{part}")
    return path


@pytest.mark.parametrize(
    "name",
    [
        "{folder}/roads.zip",
        "{folder}/roads.shp.zip",
        "/vsizip/{{{folder}/roads.zip}}/folder/roads.shp",
        "/vsizip/roads.zip/folder/roads.shp",
    ],
    ids=["zip", "zipped Shapefile", "virtual path", "relative virtual path"],
)
def test_a_vector_file_in_a_zip_is_found(archive, monkeypatch, name):
    monkeypatch.chdir(archive.parent)
    shutil.copy(archive, archive.with_name("roads.shp.zip"))
    assert len(read(Path(name.format(folder=archive.parent))).geometries) == 300


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("roads.geojson", None, r"roads\.geojson does not exist"),
        ("", None, "a folder, expected a vector file"),
        ("roads.geojson", "", "is empty, expected a vector file"),
        ("a.csv", "name,speed_mph\nA,25\n", r"a\.csv: has no geometry, expected road lines"),
        (
            "roads.tsv",
            'USA\t{"type": "Feature", "geometry": ' + GEOJSON_LINE + "}\n",
            r"cut -f2 roads\.tsv > roads\.geojsonl",
        ),
    ],
    ids=["missing", "folder", "empty", "table without geometry", "table of features"],
)
def test_what_holds_no_roads_is_refused(tmp_path, name, content, told):
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=told):
        read(tmp_path / name)


def test_a_zip_without_a_vector_file_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as made:
        made.writestr("readme.txt", "roads")
    with pytest.raises(DataError, match=r"contains no vector file \(found readme\.txt\)"):
        read(tmp_path / "a.zip")


@pytest.mark.parametrize("name", ["roads.geojson", "roads.gpkg", "roads.fgb"])
@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"<html>\n<p>not found</p></html>", ", it starts with '<html>'; expected GeoJSON, Geo"),
        (np.random.default_rng(0).bytes(5000), "; expected GeoJSON, GeoPackage, Shapefile"),
    ],
    ids=["page", "noise"],
)
def test_a_file_that_is_no_vector_file_is_refused(tmp_path, name, content, told):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=rf"{name}: not a vector file{told}"):
        read(tmp_path / name)


def test_json_of_overpass_is_to_be_asked_for_as_xml(tmp_path):
    (tmp_path / "roads.json").write_text('{\n"generator": "Overpass API",\n"elements": []\n}')
    with pytest.raises(DataError, match=r"not a vector file but .* \(ask it for \[out:xml\]"):
        read(tmp_path / "roads.json")


@pytest.mark.parametrize("suffix", ["osm", "osm.gz", "zip"])
def test_new_objects_of_an_editor_have_negative_ids_packed_or_not(tmp_path, suffix):
    nodes = "".join(f'<node id="-{i}" lat="{i}" lon="1"/>' for i in (1, 2))
    way = '<way id="-1"><nd ref="-1"/><nd ref="-2"/><tag k="highway" v="road"/></way>'
    text = f'<osm version="0.6">{nodes}{way}</osm>'.encode()
    path = tmp_path / f"roads.{suffix}"
    path.write_bytes(gzip.compress(text) if suffix == "osm.gz" else text)
    if suffix == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("roads.osm", text)
    assert shapely.get_coordinates(read(path).geometries).tolist() == [[1, 1], [1, 2]]


@pytest.mark.parametrize("mark", ["action='delete'", 'visible="false"'])
@pytest.mark.parametrize("suffix", ["osm", "osm.gz"])
def test_ways_that_an_editor_has_deleted_are_none(tmp_path, suffix, mark):
    path = write_osm(
        tmp_path / "roads.osm", [([(i, 1), (i, 2)], {"highway": "road"}) for i in range(2)]
    )
    text = path.read_text().replace("<way ", f"<way {mark} ", 1).encode()
    path = tmp_path / f"roads.{suffix}"
    path.write_bytes(gzip.compress(text) if suffix == "osm.gz" else text)
    assert len(read(path).geometries) == 1


@pytest.mark.parametrize("share", [0.1, 0.5, 0.98])
@pytest.mark.parametrize("suffix", [*FORMATS, "geojson.gz", "zip", "osm", "osm.pbf"])
def test_a_file_that_is_cut_short_is_refused(tmp_path, archive, suffix, share):
    path = tmp_path / f"cut.{suffix}"
    if suffix == "zip":
        shutil.copy(archive, path)
    elif suffix.startswith("osm"):
        write_osm(path, [([(i, 1), (i, 2)], {"highway": "road"}) for i in range(99)])
    elif suffix.endswith("gz"):
        path.write_bytes(gzip.compress(many().to_json().encode()))
    else:
        save(many(), path)
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
    with pytest.raises(DataError, match=r"cut\.") as caught:
        read(path)
    assert "\n" not in str(caught.value)


def test_a_large_file_that_is_cut_short_is_refused(tmp_path):
    path = save(many(20000), tmp_path / "roads.geojson")
    path.write_bytes(path.read_bytes()[:-1_000_000])
    with pytest.raises(DataError, match=r"cannot be read \(Failed to read GeoJSON"):
        read(path)


def test_a_file_that_another_program_has_locked_is_told_so(tmp_path, monkeypatch):
    def refuse(_):  # As GDAL does, after 10 seconds.
        raise DataSourceError("sqlite3_prepare_v2(SELECT 1) failed: database is locked")

    path = save(many(5), tmp_path / "roads.gpkg")
    monkeypatch.setattr(pyogrio, "list_layers", refuse)
    with pytest.raises(DataError, match=r"roads\.gpkg: another program is writing to it; save"):
        read(path)


@pytest.mark.parametrize("suffix", ["geojsonl", "geojsons"])
def test_a_record_that_cannot_be_read_is_not_skipped(tmp_path, suffix):
    path = save(many(5), tmp_path / f"roads.{suffix}")
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:3], lines[3].replace("]", ""), *lines[4:]]))
    with pytest.raises(
        DataError, match="only 4 of its 5 features can be read; the file is damaged"
    ):
        read(path)


@pytest.mark.parametrize(
    ("part", "told"), [(".shx", "cannot be read"), (".dbf", "its .dbf is missing.*copy all parts")]
)
def test_a_shapefile_without_a_part_is_refused(shapefile, part, told):
    shapefile.with_suffix(part).unlink()
    with pytest.raises(DataError, match=told):
        read(shapefile)


def test_the_parts_of_a_shapefile_may_be_in_capitals(shapefile):
    for part in PARTS:
        shapefile.with_suffix(part).rename(shapefile.with_suffix(part.upper()))
    assert len(read(shapefile.with_suffix(".SHP")).geometries) == 300


def test_text_that_is_not_utf_8_is_refused_where_it_is_needed(tmp_path):
    path = tmp_path / "roads.geojson"
    path.write_bytes(many(1).to_json().replace("text", "Straße").encode("latin-1"))
    assert len(read_vectors(path, lambda _: ["a"]).geometries) == 1
    with pytest.raises(DataError, match=r"cannot be read \('utf-8' codec"):
        read(path)


def test_what_gdal_remarks_is_logged(tmp_path, caplog):
    path = tmp_path / "roads.geojson"
    features = json.loads(many(2).to_json())["features"]
    collection = {"type": "FeatureCollection", "features": [{**f, "id": 1} for f in features]}
    path.write_text(json.dumps(collection))
    assert len(read(path).geometries) == 2
    assert "Several features with id = 1" in caplog.text


DOCUMENT_TYPE = '<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>'
HOSTILE = [
    *((suffix, DOCUMENT_TYPE) for suffix in ("kml", "gml", "gpx", "osm")),
    *(
        ("geojson", f'{{"type": "FeatureCollection", "crs": {deep * 100_000}')
        for deep in ("[", '{"a":')
    ),
]


@pytest.mark.parametrize(("suffix", "text"), HOSTILE, ids=range(len(HOSTILE)))
def test_a_document_type_and_nesting_without_end_are_refused(tmp_path, suffix, text):
    path = tmp_path / f"roads.{suffix}"
    path.write_text(text)
    with pytest.raises(DataError, match=r"^[^\n]*roads\.\w+: [^\n]*$"):
        read(path)


def test_a_geopackage_without_layers_is_refused(tmp_path):
    path, table = tmp_path / "roads.gpkg", gpd.GeoDataFrame({"a": [1]}, geometry=[LINE], crs=UTM)
    table.to_file(path, layer="roads")
    pyogrio.write_dataframe(table[["a"]], path, layer="facts", append=True)
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("DELETE FROM gpkg_geometry_columns")
        file.execute("DROP TABLE facts")
    with pytest.raises(DataError, match=r"roads\.gpkg: cannot be read"):
        read_vectors(path, list)


def test_a_virtual_layer_names_other_files(tmp_path):
    save(frame_of(LINE), tmp_path / "mine.geojson")
    source = f"<SrcDataSource>{tmp_path}/mine.geojson</SrcDataSource>"
    text = f'<OGRVRTDataSource><OGRVRTLayer name="mine">{source}</OGRVRTLayer></OGRVRTDataSource>'
    (tmp_path / "a.vrt").write_text(text)
    with pytest.raises(DataError, match=r"a\.vrt: names other files, .*ogr2ogr roads.gpkg"):
        read(tmp_path / "a.vrt")
