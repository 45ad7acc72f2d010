"""The file of edits: written before it is said, undone and redone, and shared with QGIS."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from types import SimpleNamespace

import geopandas as gpd
import numpy as np
import pyogrio
import pytest
import shapely
from pyproj import CRS

from roadseg.errors import DataError, OutputError
from roadseg.raster.grid import DEGREES, LOCAL_CRS
from roadseg.review.edits import Edit, EditFile, edits_in_force
from roadseg.review.session import crs_of_edits

UTM, OTHER_ZONE = CRS.from_epsg(32611), CRS.from_epsg(32612)
# Add a line without a kind in QGIS, as a user does, and reject what has the kind accept.
IN_QGIS = """
import sys
from qgis.core import QgsApplication, QgsFeature, QgsGeometry, QgsVectorLayer, edit
application = QgsApplication([], False)
application.initQgis()
layer = QgsVectorLayer(sys.argv[1] + "|layername=edits", "edits", "ogr")
assert layer.isValid()
assert layer.renderer().type() == "categorizedSymbol", layer.renderer().type()
with edit(layer):
    for feature in layer.getFeatures():
        layer.changeAttributeValue(feature.id(), layer.fields().indexOf("kind"), "reject")
    drawn = QgsFeature(layer.fields())
    drawn.setGeometry(QgsGeometry.fromWkt("LINESTRING (480010 3650050, 480060 3650050)"))
    assert layer.addFeature(drawn)
if "index" in sys.argv:
    assert layer.dataProvider().createSpatialIndex()
print(layer.featureCount())
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "edits.gpkg"


@pytest.fixture
def opened(path):
    """Open a new file of edits."""
    with closing(EditFile(path, UTM)) as file:
        yield file


@pytest.fixture
def some(drawn):
    """Give one edit of each of three kinds."""
    return [
        Edit("accept", drawn((0, 0), (50, 0)), width_m=8.0),
        Edit("draw", drawn((10, 10), (60, 10))),
        Edit("speed", drawn((0, 0), (50, 0)), 30.0),
    ]


def add(file, edits):
    return [file.add(each, UTM, who="Ana") for each in edits]


def told(file, crs=UTM):
    edits, left_out = file.read(crs)
    return [(edit.kind, edit.line.wkt, edit.speed_kph) for edit in edits], left_out


def test_edits_come_back_in_their_order(path, opened, some):
    add(opened, some)
    with closing(EditFile(path, UTM)) as again:
        assert told(again) == ([(each.kind, each.line.wkt, each.speed_kph) for each in some], [])


def test_every_edit_waits_until_it_is_on_the_disk(opened):
    full = 2  # SQLite's number of it
    assert opened._file.execute("PRAGMA synchronous").fetchone() == (full,)  # noqa: SLF001


def test_other_programs_see_lines_who_and_when(path, opened, some):
    add(opened, some)
    table = pyogrio.read_dataframe(path, layer="edits")
    assert table.kind.tolist() == ["accept", "draw", "speed"]
    assert table.who.tolist() == ["Ana"] * 3
    assert table.width_m[0] == 8
    assert table.made.is_monotonic_increasing
    assert table.crs == UTM
    assert pyogrio.read_info(path, layer="edits")["total_bounds"] == (
        480000,
        3650000,
        480060,
        3650010,
    )


def test_a_table_has_what_is_in_force_and_can_be_used(path, opened, some):
    add(opened, some)
    opened.undo()
    append(path, kind=["remove"])
    append(path, who=["Ben"])
    table = edits_in_force(path)
    assert list(table.columns) == ["kind", "who", "made", "width_m", "speed_kph", "geometry"]
    assert table.kind.tolist() == ["accept", "draw", "draw"]
    assert table.who.tolist() == ["Ana", "Ana", "Ben"]
    assert table.made.notna().tolist() == [True, True, False]
    assert table.width_m[0] == 8
    assert table.crs == UTM


@pytest.mark.usefixtures("opened")
def test_a_new_file_has_an_empty_table(path):
    assert len(edits_in_force(path)) == 0


def test_what_was_undone_can_be_redone(opened, some):
    numbers = add(opened, some)
    assert [opened.undo(), opened.undo()] == numbers[:0:-1]
    assert opened.counts == (1, 2)
    assert [opened.redo(), opened.redo(), opened.redo()] == [*numbers[1:], None]
    assert opened.counts == (3, 0)


def test_a_new_edit_ends_what_could_be_redone(opened, some):
    add(opened, some)
    opened.undo()
    add(opened, some[:1])
    assert opened.redo() is None
    assert [kind for kind, *_ in told(opened)[0]] == ["accept", "draw", "accept"]


def test_nothing_can_be_undone_in_a_new_file(opened):
    assert opened.undo() is None


def append(path, **columns):
    lines = [shapely.LineString([(480010, 3650050), (480060, 3650050)])]
    table = gpd.GeoDataFrame(columns, geometry=lines, crs=UTM)
    pyogrio.write_dataframe(table, path, layer="edits", driver="GPKG", append=True)


def test_a_line_of_another_program_without_a_kind_is_a_drawn_road(path, opened):
    append(path, who=["Ben"])
    assert told(opened)[0] == [("draw", "LINESTRING (480010 3650050, 480060 3650050)", None)]


@pytest.mark.parametrize("kind", ["Reject", " reject "])
def test_kinds_of_other_programs_may_be_spelt_freely(path, opened, kind):
    append(path, kind=[kind])
    assert told(opened)[0][0][0] == "reject"


@pytest.mark.parametrize(
    ("columns", "reason"),
    [({"kind": ["remove"]}, "kind is 'remove'"), ({"kind": ["speed"]}, "speed_kph is None")],
)
def test_rows_that_cannot_be_used_are_named(path, opened, columns, reason):
    append(path, **columns)
    assert told(opened)[0] == []
    assert reason in told(opened)[1][0]


@pytest.mark.parametrize("blob", [None, b"", b"GP\0\1", b"GP\0\1\0\0\0\0nonsense", 7, "text"])
def test_rows_without_a_readable_line_are_named(path, opened, blob):
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("INSERT INTO edits (geom, kind) VALUES (?, 'draw')", (blob,))
    assert told(opened) == ([], ["row 1: has no readable geometry, expected a line"])


def test_a_change_by_another_program_is_noticed_once(path, opened, some):
    add(opened, some)
    assert not opened.has_changed()
    append(path)
    assert [opened.has_changed(), opened.has_changed()] == [True, False]


def test_an_edit_that_cannot_be_written_has_not_happened(path, opened, some):
    with closing(sqlite3.connect(path)) as other:
        opened._file.execute("PRAGMA busy_timeout=1")  # noqa: SLF001 - it would wait for seconds
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(OutputError, match="another program is writing to it"):
            add(opened, some)
    assert told(opened) == ([], [])


def test_a_file_that_is_good_is_not_to_be_renamed(path):
    file = EditFile(path, UTM)
    file.close()
    with pytest.raises(OutputError, match=r"edits.gpkg: Cannot operate on a closed database.$"):
        file.read(UTM)


@pytest.mark.parametrize("content", ["", "not a database, but long enough to be read as one"])
def test_another_file_is_not_taken_for_edits(path, content):
    path.write_text(content)
    with pytest.raises(
        DataError, match=r"edits.gpkg: .*, expected a file of `roadseg review`; ren"
    ):
        EditFile(path, UTM)


def test_a_geopackage_of_others_is_not_taken_for_edits(path):
    table = gpd.GeoDataFrame(geometry=[shapely.Point(0, 0)], crs=UTM)
    pyogrio.write_dataframe(table, path, layer="other", driver="GPKG")
    with pytest.raises(DataError, match="no layer edits"):
        EditFile(path, UTM)


def test_edits_in_degrees_come_back_to_the_millimetre(path, some):
    with closing(EditFile(path, DEGREES)) as file:
        add(file, some)
        (edit, *_), _ = file.read(UTM)
    there, back = (shapely.get_coordinates(each.line) for each in (some[0], edit))
    assert np.abs(there - back).max() < 1e-4


def test_maps_of_several_systems_have_edits_in_degrees():
    here, there = (SimpleNamespace(area=SimpleNamespace(crs=crs)) for crs in (UTM, OTHER_ZONE))
    assert crs_of_edits([here, here]) == UTM
    assert crs_of_edits([here, there]) == DEGREES


def test_edits_of_a_scene_without_georeference_are_kept(path, some):
    with closing(EditFile(path, LOCAL_CRS)) as file:
        file.add(some[0], LOCAL_CRS, who="Ana")
        assert file.read(LOCAL_CRS)[0][0].line.equals(some[0].line)


def has_qgis(python):
    return not subprocess.run(
        [python, "-c", "import qgis.core"], capture_output=True, check=False
    ).returncode


@pytest.mark.parametrize("index", ["index", "plain"])
def test_qgis_adds_and_changes_edits(path, opened, some, index):
    python = os.environ.get("ROADSEG_QGIS", sys.executable)
    if not has_qgis(python):
        pytest.skip("needs QGIS; ROADSEG_QGIS names a Python that can import it")
    add(opened, some[:1])
    environment = {name: os.environ[name] for name in ("PATH", "TMPDIR")}
    environment["QT_QPA_PLATFORM"] = "offscreen"
    words = [python, "-c", IN_QGIS, str(path), index]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert opened.has_changed()
    add(opened, some[:1])  # also where QGIS has made a spatial index
    assert [kind for kind, *_ in told(opened)[0]] == ["reject", "draw", "accept"]
