import os
import shutil
import sqlite3
import zipfile
from pathlib import Path

import pytest

from roadseg.system import fingerprints as module
from roadseg.system.fingerprints import GONE, fingerprint, stamp

LARGE = 2**20  # bytes from which digests are remembered


@pytest.fixture(autouse=True)
def memory(tmp_path, monkeypatch):
    """Keep digests in a folder of the test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    module.remembered.cache_clear()
    yield tmp_path / "cache" / "roadseg" / "digests"
    module.remembered.cache_clear()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.tif"


@pytest.fixture
def reads(monkeypatch):
    """Count how often files are read."""
    read, seen = module.digest_of, []
    monkeypatch.setattr(module, "digest_of", lambda path: seen.append(path) or read(path))
    return seen


def write_old(path, content):
    path.write_bytes(content)
    os.utime(path, ns=(10**18, 10**18))
    return path


def test_a_copy_of_another_name_place_and_time_has_the_same_fingerprint(path, tmp_path):
    write_old(path, b"roads")
    (tmp_path / "other").mkdir()
    copy = shutil.copyfile(path, tmp_path / "other" / "b.tif")
    assert fingerprint(path) == fingerprint(copy)


def test_another_byte_gives_another_fingerprint_though_size_and_time_are_the_same(path):
    first = fingerprint(write_old(path, b"roads"))
    assert fingerprint(write_old(path, b"roods")) != first


def test_the_order_in_which_a_disk_lists_parts_makes_no_difference(tmp_path, monkeypatch):
    for suffix in ("shp", "shx", "dbf"):
        (tmp_path / f"a.{suffix}").write_text(suffix)
    parts = list(module.parts_of(tmp_path / "a.shp"))
    assert len(parts) == 3
    found = set()
    for order in (parts, parts[::-1], parts[1:] + parts[:1]):
        monkeypatch.setattr(module, "parts_of", lambda _, order=order: order)
        found.add(fingerprint(tmp_path / "a.shp"))
    assert len(found) == 1


def test_a_missing_file_says_so(path):
    assert fingerprint(path) == fingerprint(path / "b") == GONE


def test_a_file_of_more_than_one_piece_is_read_to_its_end(path):
    first = fingerprint(write_old(path, bytes(3 * LARGE) + b"a"))
    assert fingerprint(write_old(path, bytes(3 * LARGE) + b"b")) != first


@pytest.mark.parametrize(("size", "times"), [(LARGE - 1, 2), (LARGE, 1)])
def test_a_large_file_is_read_once(path, reads, monkeypatch, size, times):
    monkeypatch.setattr(module, "_SETTLED_S", -1.0)
    write_old(path, bytes(size))
    assert fingerprint(path) == fingerprint(path)
    assert len(reads) == times


def test_a_large_file_that_has_changed_is_read_again(path, monkeypatch):
    monkeypatch.setattr(module, "_SETTLED_S", -1.0)
    first = fingerprint(write_old(path, bytes(LARGE)))
    assert fingerprint(write_old(path, bytes(LARGE - 1) + b"a")) != first


def test_what_was_remembered_serves_another_process(path, reads, monkeypatch, memory):
    monkeypatch.setattr(module, "_SETTLED_S", -1.0)
    first = fingerprint(write_old(path, bytes(LARGE)))
    module.remembered.cache_clear()
    assert memory.is_file()
    assert fingerprint(path) == first
    assert len(reads) == 1


def test_a_file_that_has_just_been_written_is_not_remembered(path, reads, memory):
    path.write_bytes(bytes(LARGE))
    assert fingerprint(path) == fingerprint(path)
    assert len(reads) == 2
    assert not memory.exists()


@pytest.mark.parametrize("content", [b"", b"nonsense\n", b"\xff\xfe\n a b\n", b"x" * 100])
def test_a_damaged_memory_is_no_obstacle(path, memory, monkeypatch, content):
    monkeypatch.setattr(module, "_SETTLED_S", -1.0)
    memory.parent.mkdir(parents=True)
    memory.write_bytes(content)
    assert len(fingerprint(write_old(path, bytes(LARGE)))) == 32


def test_a_cache_that_cannot_be_written_is_no_obstacle(path, monkeypatch, tmp_path):
    monkeypatch.setattr(module, "_SETTLED_S", -1.0)
    (tmp_path / "cache").write_text("a file where the folder should be")
    assert len(fingerprint(write_old(path, bytes(LARGE)))) == 32


@pytest.mark.parametrize(("name", "part"), [("a.tif", "a.tfw"), ("a.shp", "a.prj")])
def test_what_says_where_a_file_lies_counts_and_its_statistics_do_not(tmp_path, name, part):
    path = tmp_path / name
    path.write_bytes(b"pixels or shapes")
    first = fingerprint(path)
    (tmp_path / f"{name}.aux.xml").write_text("<PAMDataset/>")
    assert fingerprint(path) == first
    (tmp_path / part).write_text("0.5")
    assert fingerprint(path) != first


def test_a_folder_counts_by_all_that_it_holds_but_locks(tmp_path):
    base = tmp_path / "roads.gdb"
    base.mkdir()
    (base / "a.gdbtable").write_bytes(b"one")
    first = fingerprint(base)
    (base / "reader.sr.lock").write_bytes(b"")
    assert fingerprint(base) == first
    (base / "a.gdbtable").write_bytes(b"two")
    assert fingerprint(base) != first


def test_opening_a_geopackage_in_another_journal_mode_changes_nothing(tmp_path):
    path = tmp_path / "roads.gpkg"
    with sqlite3.connect(path) as base:
        base.execute("create table edges (speed)")
    base.close()
    first, before = fingerprint(path), path.read_bytes()
    for mode in ("wal", "delete"):
        base = sqlite3.connect(path)
        base.execute(f"pragma journal_mode={mode}")
        base.close()
    assert path.read_bytes() != before
    assert fingerprint(path) == first


def test_a_row_more_in_a_geopackage_changes_it(tmp_path):
    path = tmp_path / "roads.gpkg"
    prints = set()
    for statement in ("create table edges (speed)", "insert into edges values (30)"):
        with sqlite3.connect(path) as base:
            base.execute(statement)
        base.close()
        prints.add(fingerprint(path))
    assert len(prints) == 2


def test_the_sources_of_a_vrt_count(tmp_path, make_scene):
    make_scene(tmp_path, "a")
    vrt = tmp_path / "a.vrt"
    source = tmp_path / "images" / "a.tif"
    vrt.write_text(
        '<VRTDataset rasterXSize="8" rasterYSize="8"><VRTRasterBand dataType="Byte" band="1">'
        '<SimpleSource><SourceFilename relativeToVRT="1">images/a.tif</SourceFilename>'
        "<SourceBand>1</SourceBand></SimpleSource></VRTRasterBand></VRTDataset>"
    )
    first = fingerprint(vrt)
    source.write_bytes(source.read_bytes() + b"more")
    assert fingerprint(vrt) != first


def test_an_archive_counts_and_the_place_in_it(tmp_path):
    archive = tmp_path / "x.zip"
    for content in ("one", "two"):
        with zipfile.ZipFile(archive, "w") as file:
            file.writestr("a.tif", content)
        yielded = fingerprint(Path(f"/vsizip/{{{archive}}}/a.tif"))
        assert yielded == f"{fingerprint(archive)}/a.tif"


def test_an_address_is_its_own_fingerprint():
    path = Path("/vsicurl?url=https%3A%2F%2Fexample.org%2Fa.tif")
    assert fingerprint(path) == str(path)


def test_the_stamp_of_a_file_changes_with_its_size_and_its_time(path):
    path.write_text("one")
    first = stamp(path)
    path.write_text("three")
    second = stamp(path)
    os.utime(path, ns=(1, 1))
    assert len({first, second, stamp(path)}) == 3
