"""Overture's segments by area, out of a folder, and out of a bucket of an S3 server."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

from roadseg.errors import ConfigError, DataError
from roadseg.roads.labels.overture import (
    PUBLIC_BUCKET,
    find_release,
    read_segments,
    release_of,
)

AREA = shapely.MultiPolygon([shapely.box(8.60, 49.40, 8.61, 49.41)])
SEGMENTS = "theme=transportation/type=segment"


def write_segments(path, *, lines, subtype="road", groups=2):
    """Write segments with the columns of a release that are read, in row groups of a few."""
    shapes = [shapely.LineString(line) for line in lines]
    sides = ("xmin", "ymin", "xmax", "ymax")
    boxes = [dict(zip(sides, shape.bounds, strict=True)) for shape in shapes]
    count = len(shapes)
    table = pa.table(
        {
            "id": [f"id-{number}" for number in range(count)],
            "geometry": pa.array(shapely.to_wkb(shapes).tolist(), pa.binary()),
            "bbox": pa.array(boxes, pa.struct(dict.fromkeys(sides, pa.float32()))),
            "subtype": [subtype] * count,
            "class": ["primary"] * count,
            "names": [{"primary": f"Road {number}"} for number in range(count)],
            "connectors": [[{"connector_id": "a", "at": 0.0}]] * count,
            "speed_limits": [[{"max_speed": {"value": 50, "unit": "km/h"}}]] * count,
        }
    )
    geo = {"version": "1.1.0", "primary_column": "geometry", "columns": {"geometry": {}}}
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(
        table.replace_schema_metadata({"geo": json.dumps(geo)}), path, row_group_size=groups
    )
    return path


INSIDE = [(8.602, 49.402), (8.604, 49.404)]
THROUGH = [(8.50, 49.405), (8.70, 49.405)]
IN_THE_BOX_ONLY = [(8.500, 49.405), (8.605, 49.500)]  # its bounds meet those of the area
FAR = [(9.602, 49.402), (9.604, 49.404)]


def test_segments_that_touch_the_area_are_read_whole(tmp_path):
    path = write_segments(tmp_path / "a.parquet", lines=[INSIDE, THROUGH, IN_THE_BOX_ONLY, FAR])
    lines, tags = read_segments(str(path), AREA)
    assert [shapely.get_coordinates(line).tolist() for line in lines] == [
        [list(place) for place in line] for line in (INSIDE, THROUGH)
    ]
    assert tags["id"].tolist() == ["id-0", "id-1"]
    assert tags["highway"].tolist() == ["primary"] * 2
    assert tags["maxspeed"].tolist() == ["50 km/h"] * 2


def test_only_segments_are_read_of_a_whole_release(tmp_path):
    write_segments(tmp_path / SEGMENTS / "part-0.parquet", lines=[INSIDE])
    write_segments(tmp_path / SEGMENTS / "part-1.parquet", lines=[THROUGH])
    other = tmp_path / "theme=places" / "type=place"
    other.mkdir(parents=True)
    pq.write_table(pa.table({"id": ["x"]}), other / "part-0.parquet")
    lines, _ = read_segments(str(tmp_path), AREA)
    assert len(lines) == 2


def test_row_groups_elsewhere_are_not_read(tmp_path):
    path = write_segments(tmp_path / "a.parquet", lines=[INSIDE, THROUGH, FAR, FAR])
    content = bytearray(path.read_bytes())
    group = pq.ParquetFile(path).metadata.row_group(1)
    first = min(
        group.column(i).dictionary_page_offset or group.column(i).data_page_offset
        for i in range(group.num_columns)
    )
    content[first : first + 40] = bytes(40)  # whoever reads the group fails
    path.write_bytes(content)
    assert len(read_segments(str(path), AREA)[0]) == 2
    with pytest.raises(DataError, match="cannot be read as GeoParquet"):
        read_segments(str(path), shapely.MultiPolygon([shapely.box(9.6, 49.4, 9.61, 49.41)]))


@pytest.mark.parametrize(
    ("address", "release"),
    [
        (f"{PUBLIC_BUCKET}/2026-10-21.0/{SEGMENTS}", "2026-10-21.0"),
        ("/data/2026-09-17.1/segment.parquet", "2026-09-17.1"),
        ("/data/2026-09-17/segment.parquet", None),
    ],
)
def test_an_address_may_name_its_release(address, release):
    assert release_of(address) == release


def test_a_release_has_a_name_of_numbers():
    with pytest.raises(ConfigError, match=r"expected a name such as 2026-10-21\.0"):
        find_release("../../other")


@pytest.fixture(scope="module")
def s3(tmp_path_factory):
    """Start an S3 server with four folders in Overture's bucket; give its address."""
    moto, boto3 = pytest.importorskip("moto.server"), pytest.importorskip("boto3")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    keys = {"aws_access_key_id": "k", "aws_secret_access_key": "s", "region_name": "us-west-2"}
    of_s3 = boto3.resource("s3", endpoint_url=f"http://{host}:{port}", **keys)
    bucket = of_s3.Bucket("overturemaps-us-west-2")
    bucket.create(CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
    folder = tmp_path_factory.mktemp("overture")
    path = write_segments(folder / "a.parquet", lines=[INSIDE, THROUGH, FAR])
    for release in ("2026-09-17.0", "2026-10-21.0", "2026-10-21.10", "beta"):
        key = f"release/{release}/{SEGMENTS}/part-0.parquet"
        bucket.upload_file(str(path), key, ExtraArgs={"ACL": "public-read"})
    try:
        yield f"http://{host}:{port}"
    finally:
        server.stop()


@pytest.fixture
def _without_keys(s3, monkeypatch):
    """Let the S3 server be Amazon's, for somebody without keys, whom it gives public files only."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("_without_keys")
def test_the_newest_release_is_found_and_read_from_its_bucket():
    address = find_release(None)
    assert release_of(address) == "2026-10-21.10"
    lines, tags = read_segments(address, AREA)
    assert tags["id"].tolist() == ["id-0", "id-1"]
    assert np.all(shapely.length(lines) > 0)


@pytest.mark.usefixtures("_without_keys")
def test_a_release_that_the_bucket_has_not_is_told():
    with pytest.raises(DataError, match=r"2020-01-01\.0.* does not exist"):
        read_segments(find_release("2020-01-01.0"), AREA)


def test_a_server_that_does_not_answer_is_told_without_keys(monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "name")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cretvalue")
    with pytest.raises(DataError, match="s3://mine/roads: cannot be read") as told:
        read_segments("s3://mine/roads", AREA)
    assert "s3cretvalue" not in str(told.value)
