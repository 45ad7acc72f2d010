import errno
import ntpath
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path, PureWindowsPath
from types import SimpleNamespace

import pytest

from roadseg.errors import ConfigError, DataError, OutputError, RoadsegError
from roadseg.system import files
from roadseg.system.files import (
    atomic_write,
    atomic_write_folder,
    atomic_write_parts,
    is_gone,
    is_mask_file,
    moved_with,
    partial_path,
    refuse_to_overwrite,
    remove_partial,
    rename_into_place,
    require_suffix,
    user_cache,
    write_error,
)

WRITE = """
import sys
from pathlib import Path
from roadseg.system import files
print("ready", flush=True)
sys.stdin.readline()
for _ in range(300):
    with files.atomic_write(Path(sys.argv[1])) as partial:
        partial.write_text("all of it")
"""


def spoil(path, error):
    """Write half a file, then fail."""
    with atomic_write(path) as partial:
        partial.write_text("half")
        raise error


def opened_path(number):
    """Return what a number of an open file stands for."""
    return Path(f"/proc/self/fd/{number}").readlink()


@pytest.mark.parametrize(
    ("path", "there"),
    [
        (r"C:\run\a\b.tif", r"E:\new\a\b.tif"),
        (r"C:\images\b.tif", r"C:\images\b.tif"),
        (r"D:\images\b.tif", r"D:\images\b.tif"),
        ("/home/me/b.tif", "/home/me/b.tif"),
        ("resnet34", "resnet34"),
    ],
)
def test_a_file_moves_with_the_one_that_names_it_on_its_own_drive_of_windows(
    path, there, monkeypatch
):
    monkeypatch.setattr(files, "Path", PureWindowsPath)
    monkeypatch.setattr(files, "os", SimpleNamespace(path=ntpath))
    assert moved_with(PureWindowsPath(r"E:\new"), r"C:\run", path) == there


@pytest.mark.parametrize("path", [Path("a.gpkg"), Path("A.GPKG"), Path("a.shp"), None])
def test_an_output_has_one_of_the_suffixes_or_is_none(path):
    require_suffix(path, ".gpkg", ".shp")


def test_another_suffix_is_refused_with_the_option_and_those_that_are_known():
    message = r"^--output a\.txt: use a file name that ends in \.gpkg or \.shp$"
    with pytest.raises(ConfigError, match=message):
        require_suffix(Path("a.txt"), ".gpkg", ".shp")


def test_a_user_without_a_home_folder_is_asked_to_name_the_cache(monkeypatch, tmp_path):
    def fail():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", fail)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert user_cache() == tmp_path / "roadseg"
    monkeypatch.delenv("XDG_CACHE_HOME")
    with pytest.raises(ConfigError, match=r"XDG_CACHE_HOME: .* set it to a folder"):
        user_cache()


@pytest.mark.parametrize(
    ("names", "is_mask"),
    [
        (["a.tif", "a.TIFF", "a.png", "a.jpg", "a.jpeg", "a.vrt", "a.jp2"], True),
        (["a.geojson", "a.gpkg", "a.shp", "a.osm.pbf", "tif", "a.tif.gz"], False),
    ],
)
def test_rasters_are_mask_files(tmp_path, names, is_mask):
    assert {is_mask_file(tmp_path / name) for name in names} == {is_mask}


def test_an_output_is_no_input_by_whatever_name(tmp_path):
    roads, link = tmp_path / "a.gpkg", tmp_path / "link.gpkg"
    link.symlink_to(roads)
    refuse_to_overwrite(None, roads, None)
    refuse_to_overwrite(tmp_path / "b.gpkg", roads, Path("/vsicurl/https://example.org/a.gpkg"))
    for path in (roads, link, tmp_path / ".." / tmp_path.name / "a.gpkg"):
        with pytest.raises(ConfigError, match=r"^--output .*: is a file to read; write to another"):
            refuse_to_overwrite(path, None, roads, option="--output")


def test_a_file_has_its_name_when_the_block_ends_and_its_suffix_before(tmp_path):
    with atomic_write(tmp_path / "a.txt") as partial:
        partial.write_text("all of it")
        assert (partial.parent, partial.suffix) == (tmp_path, ".txt")
        assert not (tmp_path / "a.txt").exists()
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]
    assert (tmp_path / "a.txt").read_text() == "all of it"


@pytest.mark.parametrize("mode", [0o600, 0o666])
def test_a_file_can_be_read_by_those_who_may_read_other_files(tmp_path, mode):
    (tmp_path / "usual").touch()
    with atomic_write(tmp_path / "a") as partial, atomic_write_folder(tmp_path / "b") as folder:
        for path in (partial, folder / "c"):
            path.touch(mode=0o600)
            path.chmod(mode & 0o644)
    modes = {(tmp_path / name).stat().st_mode for name in ("usual", "a", "b/c")}
    assert len(modes) == 1


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, DataError])
def test_an_earlier_file_stays_and_nothing_else_when_the_block_raises(tmp_path, error):
    (tmp_path / "a.txt").write_text("old")
    with pytest.raises(error):
        spoil(tmp_path / "a.txt", error())
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a.txt": "old"}


@pytest.fixture
def ended():
    """Return the number of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


def test_a_process_is_gone_once_it_has_ended(ended):
    assert not is_gone(os.getpid())
    assert is_gone(ended)
    with subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE) as process:
        process.stdout.read()  # until it closes it
        end = time.monotonic() + 30
        while not is_gone(process.pid):  # which is still a zombie, as nobody waits for it
            assert time.monotonic() < end


def test_no_process_is_asked_where_the_question_would_interrupt_it(tmp_path, ended, monkeypatch):
    monkeypatch.setattr("sys.platform", "win32")
    monkeypatch.setattr("os.kill", lambda *_: pytest.fail("Windows sends Ctrl-C"))
    former = partial_path(tmp_path / "a").name.replace(str(os.getpid()), str(ended))
    (tmp_path / former).touch()
    remove_partial(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [former]


@pytest.mark.parametrize("end", ["", "-journal", "-wal", "-shm"])
def test_what_a_killed_process_left_is_gone_before_the_block_begins(tmp_path, ended, end):
    own = partial_path(tmp_path / "a.gpkg").name
    (tmp_path / f"{own.replace(str(os.getpid()), str(ended))}{end}").write_text("killed")
    (tmp_path / f"{own}{end}").write_text("of a process that had this number")
    with atomic_write(tmp_path / "a.gpkg") as partial:
        assert list(tmp_path.iterdir()) == []
        partial.touch()
    assert [path.name for path in tmp_path.iterdir()] == ["a.gpkg"]


@pytest.mark.parametrize(("hours", "is_kept"), [(23.9, True), (24.1, False)])
def test_what_a_process_elsewhere_left_is_gone_after_a_day(tmp_path, hours, is_kept):
    (tmp_path / ".partial-01234567-1-a.gpkg").touch()
    changed = time.time() - hours * 3600
    os.utime(tmp_path / ".partial-01234567-1-a.gpkg", (changed, changed))
    remove_partial(tmp_path)
    assert len(list(tmp_path.iterdir())) == is_kept


def test_what_a_process_is_writing_stays(tmp_path):
    other = partial_path(tmp_path / "b").name.replace(str(os.getpid()), str(os.getppid()))
    (tmp_path / other).touch()
    remove_partial(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [other]


def test_of_processes_that_write_the_same_each_ends_well(tmp_path):
    words = [sys.executable, "-c", WRITE, str(tmp_path / "a")]
    processes = [
        subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(3)
    ]
    for process in processes:
        assert process.stdout.readline() == b"ready\n"
    for process in processes:
        process.stdin.write(b"go\n")
        process.stdin.flush()
    assert [process.communicate()[0] for process in processes] == [b"", b"", b""]
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_text() == "all of it"


def test_a_file_is_on_the_disk_before_it_has_its_name_and_its_folder_after(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr("os.fsync", lambda opened: synced.append(str(opened_path(opened))))
    with atomic_write(tmp_path / "a.txt") as partial:
        partial.touch()
    assert synced == [str(partial), str(tmp_path)]


def test_a_file_is_synced_where_only_what_may_be_written_is(tmp_path, monkeypatch):
    def refuse(opened):  # as Windows does
        if not (opened_path(opened).is_dir() or os.write(opened, b"") == 0):
            raise OSError(errno.EBADF, "Bad file descriptor")

    monkeypatch.setattr("os.fsync", refuse)
    with atomic_write(tmp_path / "a.txt") as partial:
        partial.touch()
    assert (tmp_path / "a.txt").exists()


def test_a_folder_need_not_be_synced_where_it_cannot_be_opened(tmp_path, monkeypatch):
    really_open = os.open

    def refuse(path, *how):  # as Windows does
        if Path(path).is_dir():
            raise PermissionError(errno.EACCES, "Permission denied")
        return really_open(path, *how)

    (tmp_path / "a").touch()
    monkeypatch.setattr("os.open", refuse)
    rename_into_place(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "b").exists()


@pytest.mark.parametrize(("number", "is_told"), [(errno.EINVAL, False), (errno.EIO, True)])
def test_a_folder_need_not_be_synced_where_that_is_not_possible(
    tmp_path, monkeypatch, number, is_told
):
    def refuse(opened):
        if opened_path(opened).is_dir():
            raise OSError(number, "no")

    monkeypatch.setattr("os.fsync", refuse)
    (tmp_path / "a").touch()
    try:
        rename_into_place(tmp_path / "a", tmp_path / "b")
    except OSError:
        assert is_told
    else:
        assert not is_told


def test_what_the_disk_did_not_take_is_no_file(tmp_path, monkeypatch):
    def refuse(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", refuse)
    with (
        pytest.raises(OutputError, match="No space left"),
        atomic_write(tmp_path / "a.txt") as partial,
    ):
        partial.touch()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_takes_the_place_of_the_former_one(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "old").touch()
    with atomic_write_folder(tmp_path / "a") as partial:
        (partial / "new").touch()
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["new"]


def test_a_former_folder_stays_when_the_block_raises(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "old").touch()
    with pytest.raises(KeyboardInterrupt), atomic_write_folder(tmp_path / "a"):
        raise KeyboardInterrupt
    assert [path.name for path in tmp_path.rglob("*")] == ["a", "old"]


def test_a_block_that_writes_nothing_is_an_error(tmp_path):
    with (
        pytest.raises(RoadsegError, match="cannot be written: No such file"),
        atomic_write(tmp_path / "a.txt"),
    ):
        pass


@pytest.mark.parametrize(
    ("free", "told"), [(2**20 - 1, os.strerror(errno.ENOSPC)), (2**20, "no idea")]
)
def test_a_full_disk_is_named_and_on_one_with_room_the_reason(tmp_path, monkeypatch, free, told):
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=free))
    assert write_error(tmp_path / "a.tif", "no idea").strerror == told


def test_a_quota_is_told(tmp_path, largest_file):
    with largest_file(2**20 - 1):
        found = write_error(tmp_path / "a.gpkg", "sqlite3_exec(CREATE TABLE ...) failed")
    assert found.errno == errno.EFBIG
    assert list(tmp_path.iterdir()) == []


def test_a_long_reason_becomes_one_short_line(tmp_path):
    assert write_error(tmp_path / "a.gpkg", "no\nidea " * 100).strerror == ("no idea " * 25)


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda *_: False)
    assert write_error(tmp_path / "a.tif", "no idea").errno == errno.EACCES


def write_parts(path, text):
    """Write a file of two parts, and one that is not wanted."""
    with atomic_write_parts(path, ".dbf", ".qix") as partial:
        partial.write_text(text)
        partial.with_suffix(".dbf").write_text(text)
        partial.with_suffix(".tmp").write_text(text)


def test_parts_of_an_earlier_file_are_replaced_or_removed(tmp_path):
    for name in ("a.shp", "a.dbf", "a.qix", "b.qix"):
        (tmp_path / name).write_text("old")
    write_parts(tmp_path / "a.shp", "new")
    found = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert found == {"a.shp": "new", "a.dbf": "new", "b.qix": "old"}


def test_no_earlier_file_stays_with_parts_of_another(tmp_path, monkeypatch):
    write_parts(tmp_path / "a.shp", "old")
    monkeypatch.setattr(files, "rename_into_place", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_parts(tmp_path / "a.shp", "new")
    assert not (tmp_path / "a.shp").exists()


def test_parts_of_an_earlier_file_stay_when_the_block_raises(tmp_path):
    write_parts(tmp_path / "a.shp", "old")
    with suppress(KeyError), atomic_write_parts(tmp_path / "a.shp", ".dbf") as partial:
        partial.write_text("new")
        raise KeyError
    assert {path.read_text() for path in tmp_path.iterdir()} == {"old"}
