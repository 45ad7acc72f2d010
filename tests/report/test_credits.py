"""Credits of a report: what images, labels and config say of whom to name."""

from dataclasses import replace

import pytest
import rasterio

from roadseg.config import load_config
from roadseg.raster.images import read_facts
from roadseg.report.facts import credit_lines
from roadseg.report.scenes import ReportScene, ReportScenes
from roadseg.roads.labels.origins import Origin, write_origin
from roadseg.roads.speeds import DEFAULT_BINS
from roadseg.system.stage_records import Record


def shown(*images):
    """Return what a report shows of images alone."""
    facts = [read_facts(path) for path in images]
    scenes = [ReportScene(f.path.stem, f.grid, f, None, None, None) for f in facts]
    return ReportScenes(scenes, [], {}, frozenset(), None, DEFAULT_BINS, {})


@pytest.fixture
def image(tmp_path, make_scene):
    return make_scene(tmp_path, "city")[0]


@pytest.fixture
def prepared():
    """Give the function that returns the record of prepare with schemes of label files."""
    return lambda **schemes: Record(
        stage="prepare", state="done", key="drawn", summary={"schemes": schemes}
    )


def test_nobody_is_named_where_nothing_is_known(image, prepared):
    assert credit_lines(load_config(None), shown(image), prepared(spacenet=3)) == []


def test_labels_of_openstreetmap_name_its_contributors(image, prepared):
    lines = credit_lines(load_config(None), shown(image), prepared(osm=1, constant=2))
    assert lines == ["Labels: © OpenStreetMap contributors"]


def test_licences_of_the_config_are_named(image, prepared):
    config = load_config(None, ["imagery.licence=CC-BY-4.0", "labels.licence=ODbL-1.0"])
    assert credit_lines(config, shown(image), prepared(osm=1)) == [
        "Images: CC-BY-4.0",
        "Labels: © OpenStreetMap contributors, ODbL-1.0",
    ]


def test_the_copyright_in_images_is_named_once(tmp_path, make_scene):
    images = [make_scene(tmp_path, f"city_{number}")[0] for number in range(2)]
    for path in images:
        with rasterio.open(path, "r+") as target:
            target.update_tags(TIFFTAG_COPYRIGHT="© 2020 City of Example")
    lines = credit_lines(load_config(None), shown(*images), None)
    assert lines == ["Images: © 2020 City of Example"]


def test_a_record_beside_fetched_labels_names_its_source_with_the_date(tmp_path, image, prepared):
    origin = Origin("Overpass", "x", "ODbL-1.0", "© OpenStreetMap contributors", "2026-11-20", "1")
    write_origin(tmp_path / "roads.gpkg", origin)
    fetched = replace(shown(image), labels=(tmp_path / "roads.gpkg", tmp_path / "other.gpkg"))
    assert credit_lines(load_config(None), fetched, prepared(osm=1)) == [
        "Labels: © OpenStreetMap contributors (2026-11-20), ODbL-1.0"
    ]
