import json

import pytest
import rasterio

from roadseg.roads.masks.image_dates import day_taken

TAG = "TIFFTAG_DATETIME"


def taken(write_raster, *, item=None, **tags):
    path = write_raster()
    with rasterio.open(path, "r+") as file:
        file.update_tags(**tags)
    if item is not None:
        path.with_suffix(".json").write_text(json.dumps(item))
    return day_taken(path)


def stac(**properties):
    return {"type": "Feature", "stac_version": "1.0.0", "properties": properties}


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("2024:05:17 10:31:00", "2024-05-17"),
        ("2024-05-17T10:31:00Z", "2024-05-17"),
        ("2024:13:17 10:31:00", ""),
        ("last summer", ""),
    ],
)
def test_the_day_is_that_of_the_tag(write_raster, text, day):
    assert taken(write_raster, **{TAG: text}) == day


def test_an_image_without_a_date_has_no_day(write_raster):
    assert taken(write_raster) == ""


def test_a_stac_item_goes_before_the_tag(write_raster):
    item = stac(datetime="2023-01-02T03:04:05Z")
    assert taken(write_raster, item=item, **{TAG: "2024:05:17 10:31:00"}) == "2023-01-02"


def test_a_stac_item_of_a_span_gives_its_last_day(write_raster):
    item = stac(datetime=None, start_datetime="2023-01-02T00:00Z", end_datetime="2023-02-03T00:00Z")
    assert taken(write_raster, item=item) == "2023-02-03"


@pytest.mark.parametrize("item", [{"properties": {"datetime": "2023-01-02"}}, [], "text"])
def test_other_files_of_that_name_are_no_stac_item(write_raster, item):
    assert taken(write_raster, item=item) == ""
