"""The cache keeps answers under names that tell nothing."""

import errno
import os
from pathlib import Path

import pytest

from roadseg.errors import OutputError
from roadseg.system.web.cache import Cache


def test_what_was_written_is_read(tmp_path):
    cache = Cache(tmp_path)
    cache.write("tile a", b"body")
    assert (cache.read("tile a"), cache.read("tile b")) == (b"body", None)


def test_names_tell_nothing(tmp_path):
    Cache(tmp_path).write("tile secret", b"body")
    (file,) = (path for path in tmp_path.rglob("*") if path.is_file())
    assert "secret" not in str(file)


def test_what_is_forgotten_is_gone(tmp_path):
    cache = Cache(tmp_path)
    cache.write("tile a", b"body")
    cache.forget("tile a")
    cache.forget("tile b")
    assert cache.read("tile a") is None


def test_what_cannot_be_written_leaves_nothing_behind(tmp_path, monkeypatch):
    def fail(_path, _target):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OutputError, match="No space left"):
        Cache(tmp_path).write("tile a", b"body")
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
