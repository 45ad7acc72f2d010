"""Files on a server are read in parts, and never half."""

import pytest

from roadseg.errors import DataError
from roadseg.system.web import ranges
from roadseg.system.web.cache import Cache
from roadseg.system.web.client import Client, RequestPolicy
from roadseg.system.web.ranges import RemoteFile

QUICK = RequestPolicy(per_second=5000, first_wait_s=0.01, tries=2)
BODY = bytes(range(250)) * 10


@pytest.fixture
def remote(world, tmp_path, monkeypatch):
    """Give a function that opens a file of 2500 bytes in parts of 1000."""
    monkeypatch.setattr(ranges, "_BLOCK", 1000)
    address = world.put("/a.tif", BODY, "image/tiff")

    def open_file():
        return RemoteFile(address, Client(policy=QUICK), Cache(tmp_path))

    return open_file


def read(file, *, start=0, size=-1):
    reader = file.open(file.name)
    reader.seek(start)
    return reader.read(size)


@pytest.mark.parametrize(("start", "size"), [(0, -1), (10, 5), (990, 20), (2400, 1000), (2500, 1)])
def test_any_part_is_that_of_the_file(remote, start, size):
    end = len(BODY) if size < 0 else start + size
    assert read(remote(), start=start, size=size) == BODY[start:end]


def test_only_the_parts_that_are_read_are_fetched(remote, world):
    read(remote(), start=2100, size=10)
    asked = [headers["Range"] for headers in world.headers]
    assert asked == ["bytes=0-999", "bytes=2000-2999"]


def test_parts_come_from_the_cache_the_next_time(remote, world):
    assert read(remote()) == read(remote()) == BODY
    assert len(world.asked) == 3 + 1


def test_a_server_without_ranges_gives_a_small_file(remote, world):
    world.gives_ranges = False
    assert read(remote()) == BODY


def test_a_large_file_of_a_server_without_ranges_is_refused(remote, world, monkeypatch):
    world.gives_ranges = False
    monkeypatch.setattr(ranges, "LARGEST_BYTES", 2000)
    with pytest.raises(DataError, match="does not give parts of files"):
        remote()


def test_a_file_that_changes_meanwhile_is_told(remote, world):
    file = remote()
    world.put("/a.tif", BODY + b"more", "image/tiff")
    assert read(file) == BODY[:1000]
    assert "expected 1000 from 1000" in str(file.failure)


def test_a_part_of_another_place_is_not_taken(remote, world):
    file = remote()
    lie = {"Content-Range": "bytes 0-999/2500"}
    world.fail("/a.tif", lambda h: h.give(206, BODY[:1000], headers=lie), times=1)
    assert read(file) == BODY


def test_a_part_without_the_size_of_the_file_is_not_taken(remote, world):
    lie = {"Content-Range": "bytes 0-3/*"}
    world.fail("/a.tif", lambda handler: handler.give(206, b"fine", headers=lie))
    with pytest.raises(DataError, match=r"a part of a file without its size \(bytes 0-3/\*\)"):
        remote()
