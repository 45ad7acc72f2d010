"""Damaged input of every kind gives a result or one clear line, never a traceback.

Each reader gets valid files, changed in their bytes or in their structure. ROADSEG_FUZZ=10000 tries
so many for each reader, at random, and also refuses what takes more than a second (scripts/fuzz).
"""

import copy
import json
import sqlite3
import time
from contextlib import closing, suppress
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roadseg.config import Config, load_config
from roadseg.errors import RoadsegError
from roadseg.roads.formats.files import read_gpkg, write_gpkg
from roadseg.roads.formats.graphml import read_graphml, write_graphml
from roadseg.roads.labels.roads import read_roads
from tests.edges.fuzzing import MANY, edits, fuzz

LONGEST_TEXT = 20_000
LONGEST_S = 1.0  # of one file, in CPU seconds
GEOJSON = {
    "type": "FeatureCollection",
    "crs": {"type": "name", "properties": {"name": "urn:ogc:def:crs:OGC:1.3:CRS84"}},
    "features": [
        {
            "type": "Feature",
            "properties": {"highway": "residential", "maxspeed": "30 mph", "lanes": "2"},
            "geometry": {"type": "LineString", "coordinates": [[2.1, 41.3], [2.2, 41.4]]},
        },
        {
            "type": "Feature",
            "properties": {"road_type": 5, "lane_number": 2, "inferred_speed_mph": 25.0},
            "geometry": {
                "type": "Polygon",
                "coordinates": [[[2.1, 41.3], [2.2, 41.3], [2.2, 41.4], [2.1, 41.3]]],
            },
        },
    ],
}
TOKENS = [b"", b"\0", b"[", b"{", b'"', b"}", b"]", b"null", b"-1", b"1e999", b"NaN", b"\xff", b"<"]
TOKENS += [b"[" * 2000, b'{"a":' * 2000, b"<a>" * 2000, b"9" * 400, b"<!DOCTYPE a []>", b"&#0;"]
WORDS = ["", "type", "coordinates", "features", "x", "geometry", "EPSG:4326", "LINESTRING EMPTY"]
WORDS += ["POINT (0 0)", "LINESTRING (0 0, nan 1)", "\0", "ü", "9" * 400, "-1", "nan", "key", "id"]
STATEMENTS = [
    'UPDATE "TABLE_" SET "COLUMN_" = ?',
    'UPDATE "TABLE_" SET "COLUMN_" = ? WHERE rowid = 1',
    'UPDATE "TABLE_" SET "COLUMN_" = substr("COLUMN_", 1, 20)',
    'DELETE FROM "TABLE_"',
    'DROP TABLE "TABLE_"',
    'ALTER TABLE "TABLE_" DROP COLUMN "COLUMN_"',
    'ALTER TABLE "TABLE_" RENAME COLUMN "COLUMN_" TO "x y"',
]
NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70), st.floats(), st.sampled_from([0, -1, 1e308, 10**300])
)
LEAVES = st.one_of(st.none(), st.booleans(), NUMBERS, st.sampled_from(WORDS), st.text(max_size=5))
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner),
)

pytestmark = pytest.mark.filterwarnings("ignore")  # a warning is no traceback


@st.composite
def spoiled_bytes(draw, valid):
    """Replace a few pieces of some bytes by others."""
    data = bytearray(valid)
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        stop = start + draw(st.one_of(st.integers(0, 20), st.just(len(data))))
        source = draw(st.integers(0, len(data)))
        pieces = st.sampled_from([*TOKENS, bytes(data[source : source + 50])])
        data[start:stop] = draw(st.one_of(pieces, st.binary(max_size=6)))
    return bytes(data)


def spoiled_json(valid):
    """Replace, remove or nest a value of a document, or two."""
    dice = st.randoms(use_true_random=True)
    return dice.map(lambda dice: json.dumps(edits(dice, valid)).encode())


@st.composite
def spoiled_xml(draw, valid):
    """Change, remove or nest a few elements."""
    root = ET.fromstring(valid)  # noqa: S314 - our own
    for _ in range(draw(st.integers(1, 3))):
        parent = draw(st.sampled_from([node for node in root.iter() if len(node)] or [root]))
        node = draw(st.sampled_from(list(parent) or [parent]))
        text = draw(st.sampled_from([word for word in WORDS if word != "\0"]))
        what = draw(
            st.sampled_from(["text", "tag", "attribute", "forget", "remove", "again", "in"])
        )
        if what == "text":
            node.text = text
        elif what == "tag":
            node.tag = text or "a"
        elif what == "attribute":
            node.set(draw(st.sampled_from([*node.keys(), "key"])), text)
        elif what == "forget":
            node.attrib.pop(draw(st.sampled_from([*node.keys(), ""])), None)
        elif what == "remove" and node is not parent:
            parent.remove(node)
        elif what == "again":
            parent.append(copy.deepcopy(node))
        elif what == "in" and node is not parent:
            node.append(copy.deepcopy(node))
    return ET.tostring(root)


@st.composite
def spoiling_sql(draw, columns):
    """Give statements that change the tables of a GeoPackage."""
    statements = []
    for _ in range(draw(st.integers(1, 3))):
        table, column = draw(st.sampled_from(columns))
        values = st.one_of(LEAVES, st.binary(max_size=60), st.sampled_from(["32631", "edges"]))
        text = draw(st.sampled_from(STATEMENTS)).replace("TABLE_", table).replace("COLUMN_", column)
        statements.append((text, [draw(values)] * text.count("?")))
    return statements


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz")


@pytest.fixture
def survive(request, folder, outcomes):
    """Give a function that reads a file, and allows what a user can act on."""
    slowest = 0.0

    def read(reader, path, content=None):
        nonlocal slowest
        if content is not None:
            path.write_bytes(content)
        begun, told = time.process_time(), ""
        try:
            reader(path)
            outcome = "read"
        except RoadsegError as error:
            outcome, told = type(error).__name__, str(error)
        seconds = time.process_time() - begun
        outcomes[reader.__name__, outcome] += 1
        slowest = max(slowest, seconds)
        assert len(told.splitlines()) <= 1
        assert len(told) < LONGEST_TEXT
        if MANY and seconds > LONGEST_S:
            (folder / f"slow-{path.name}").write_bytes(path.read_bytes())
            pytest.fail(f"{seconds:.1f} s: {folder}/slow-{path.name}")

    yield read
    if MANY:
        print(f"\n{request.node.name}: slowest {slowest:.3f} s")  # noqa: T201 - the same


@fuzz(15)
@given(data=st.one_of(spoiled_json(GEOJSON), spoiled_bytes(json.dumps(GEOJSON).encode())))
def test_any_geojson(survive, folder, data):
    survive(read_roads, folder / "roads.geojson", data)


CONFIG = json.loads(Config().model_dump_json())


@fuzz(15)
@given(data=st.one_of(spoiled_json(CONFIG), spoiled_bytes(json.dumps(CONFIG, indent=1).encode())))
def test_any_config(survive, folder, data):
    survive(load_config, folder / "roadseg.json", data)


@fuzz(15)
@given(
    key=st.sampled_from(["train.epochs", "run", "imagery.images", "a", "train", ""]), data=st.data()
)
def test_any_assignment(survive, folder, key, data):
    text = data.draw(st.one_of(VALUES.map(json.dumps), st.text(), st.just("[" * 100_000)))

    def assign(path):
        load_config(path, [f"{key}={text}"])

    survive(assign, folder / "roadseg.json", b"{}")


@fuzz(15)
@given(data=st.data())
def test_any_graphml(survive, folder, graph, data):
    valid = folder / "valid.graphml"
    if not valid.exists():
        write_graphml(valid, graph)
    text = valid.read_bytes()
    spoiled = data.draw(st.one_of(spoiled_xml(text), spoiled_bytes(text)))
    survive(read_graphml, folder / "spoiled.graphml", spoiled)


@fuzz(15)
@given(data=st.data())
def test_any_geopackage(survive, folder, graph, data):
    valid, path = folder / "valid.gpkg", folder / "spoiled.gpkg"
    if not valid.exists():
        write_gpkg(valid, graph)
    content = valid.read_bytes()
    for end in ("-journal", "-wal", "-shm"):
        path.with_name(path.name + end).unlink(missing_ok=True)
    if data.draw(st.booleans()):
        path.write_bytes(data.draw(spoiled_bytes(content)))
    else:
        path.write_bytes(content)
        _spoil_tables(path, data)
    survive(read_gpkg, path)
    survive(read_roads, path)


def _spoil_tables(path, data):
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute("PRAGMA foreign_keys = off")
        file.execute("PRAGMA synchronous = off")
        for (name,) in file.execute(
            "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        ).fetchall():
            file.execute(f'DROP TRIGGER "{name}"')
        columns = file.execute(
            "SELECT t.name, c.name FROM sqlite_master t, pragma_table_info(t.name) c "
            "WHERE t.type = 'table' AND t.sql LIKE 'CREATE TABLE%' ORDER BY 1, 2"
        ).fetchall()
        for text, values in data.draw(spoiling_sql(columns)):
            with suppress(sqlite3.Error, OverflowError, UnicodeError):
                file.execute(text, values)
