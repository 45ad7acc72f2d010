from dataclasses import replace
from pathlib import Path

import pytest

from roadseg.errors import DataError
from roadseg.roads.labels.origins import (
    Origin,
    credits_of,
    origin_path,
    read_origin,
    read_origins,
    write_origin,
)

ORIGIN = Origin("Overpass", "https://x.org", "ODbL-1.0", "© OSM", "2026-11-20T20:21:02Z", "1,2,3,4")


@pytest.mark.parametrize(
    ("name", "record"),
    [
        ("roads.gpkg", "roads.gpkg.source.json"),
        ("city.osm.pbf", "city.osm.pbf.source.json"),
        ("a.b.geojson", "a.b.geojson.source.json"),
    ],
)
def test_a_record_has_the_whole_name_of_its_file(name, record):
    assert origin_path(Path(name)).name == record


@pytest.mark.parametrize(
    ("dates", "credit"),
    [
        ([None], "© OSM"),
        (["2026-11-20"], "© OSM (2026-11-20)"),
        (["2026-11-20", "2026-11-20"], "© OSM (2026-11-20)"),
        (["2026-11-22", "2026-11-20", None, "2026-11-21"], "© OSM (2026-11-20 to 2026-11-22)"),
    ],
)
def test_a_credit_has_the_dates_that_are_known(dates, credit):
    assert credits_of([replace(ORIGIN, date=date) for date in dates]) == [credit]


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"service": 1}'])
def test_a_record_of_something_else_is_told(tmp_path, text):
    origin_path(tmp_path / "roads.gpkg").write_text(text)
    with pytest.raises(DataError, match=r"roads\.gpkg\.source\.json: .*; delete it"):
        read_origin(tmp_path / "roads.gpkg")


def test_origins_come_back_as_they_were_written_and_are_named_once(tmp_path):
    for name in ("a.gpkg", "b.gpkg"):
        write_origin(tmp_path / name, ORIGIN)
    assert read_origins([tmp_path / "a.gpkg", tmp_path / "b.gpkg", tmp_path / "none.gpkg"]) == [
        ORIGIN
    ]
