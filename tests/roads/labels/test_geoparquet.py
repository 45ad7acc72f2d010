import sys
from pathlib import Path

import geopandas as gpd
import numpy as np
import pytest
import shapely
from pyproj import CRS

from roadseg.errors import DataError
from roadseg.roads.labels.roads import read_roads

UTM = CRS.from_epsg(32611)
LINE = shapely.LineString([(660000, 4000000), (660003, 4000004)])


@pytest.fixture
def write(tmp_path):
    """Give a function that writes lines as GeoParquet; skip where there is no pyarrow."""
    pytest.importorskip("pyarrow")

    def make(*shapes, crs=UTM, suffix=".parquet", **options):
        path = tmp_path / f"roads{suffix}"
        columns = {"speed_mph": np.arange(1.0, len(shapes) + 1), "name": ["A"] * len(shapes)}
        frame = gpd.GeoDataFrame(columns, geometry=list(shapes), crs=crs)
        frame.to_parquet(path, **options)
        return path

    return make


@pytest.mark.parametrize("suffix", [".parquet", ".geoparquet"])
@pytest.mark.parametrize("encoding", ["WKB", "geoarrow"])
def test_geoparquet_is_read(write, suffix, encoding):
    found = read_roads(write(LINE, suffix=suffix, geometry_encoding=encoding))
    assert (found.roads.shapes.tolist(), found.roads.speed_mph.tolist()) == ([LINE], [1])
    assert (found.roads.crs, found.keys) == (UTM, ("speed_mph", "name"))


def test_boxes_of_features_are_no_attributes(write):
    path = write(LINE, write_covering_bbox=True, schema_version="1.1.0")
    assert read_roads(path).keys == ("speed_mph", "name")


def test_null_and_broken_shapes_are_counted(write):
    with np.errstate(invalid="ignore"):
        broken = shapely.LineString([(0, np.nan), (1, 1)])
    found = read_roads(write(LINE, None, broken))
    assert found.dropped == {"null": 1, "not finite": 1}


def test_geoparquet_without_a_crs_is_refused(write):
    with pytest.raises(DataError, match=r"no coordinate system found; set labels\.crs"):
        read_roads(write(LINE, crs=None))


def test_a_table_without_geometry_is_refused(write):
    path = write(LINE)
    gpd.pd.DataFrame({"a": [1]}).to_parquet(path)
    with pytest.raises(DataError, match=r"roads\.parquet: has no geometry, expected GeoParquet"):
        read_roads(path)


def test_segments_of_overture_with_nested_values_as_text_are_refused(write):
    path = write(LINE)
    table = {"subtype": "road", "class": "primary", "connectors": "[]", "names": '{"primary": "A"}'}
    lines = gpd.GeoDataFrame([table], geometry=[LINE], crs="EPSG:4326")
    lines.to_parquet(path)
    with pytest.raises(DataError, match=r"roads\.parquet: not a readable GeoParquet file"):
        read_roads(path)


@pytest.mark.parametrize("share", [0, 0.1, 0.5, 0.98])
def test_geoparquet_that_is_cut_short_is_refused(write, share):
    path = write(*[LINE] * 99)
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
    with pytest.raises(DataError, match=r"roads\.parquet: not a readable GeoParquet file"):
        read_roads(path)


def test_a_missing_file_is_named(write):
    path = write(LINE)
    path.unlink()
    with pytest.raises(DataError, match=r"roads\.parquet does not exist"):
        read_roads(path)


def test_without_pyarrow_it_is_said_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(DataError, match=r"needs pyarrow; pip install 'roadseg\[parquet\]'"):
        read_roads(tmp_path / "roads.parquet")


def test_a_virtual_path_is_refused():
    with pytest.raises(DataError, match=r"roads\.parquet: GeoParquet can only be read from disk"):
        read_roads(Path("/vsicurl?url=roads.parquet"))
