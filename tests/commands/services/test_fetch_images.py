"""roadseg fetch images on the command line: from an area to a graph, and no key on any disk."""

import json
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from roadseg.commands.cli.main import main

AREA = "8.68,49.40,8.684,49.402"
WITHOUT_PROXY = "os.environ['no_proxy'] = '127.0.0.1'"


@pytest.fixture
def call(tmp_path, monkeypatch):
    """Give a function that runs a command line in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def run(*words, code=0):
        done = CliRunner().invoke(main, list(map(str, words)), catch_exceptions=False)
        assert done.exit_code == code, done.output
        return done

    return run


def fetch(call, address, *options, code=0):
    words = ("--area", AREA, "--output", "images", "--rate", 1000, *options)
    return call("fetch", "images", address, *words, code=code)


def test_the_record_says_where_an_image_comes_from(call, world):
    fetch(call, f"{world.address}/xyz/{{z}}/{{x}}/{{y}}.png", "--zoom", 16)
    (path,) = Path("images").glob("*.source.json")
    record = json.loads(path.read_text(encoding="utf-8"))
    assert record["source"] == f"{world.address}/xyz/{{z}}/{{x}}/{{y}}.png"
    assert (record["service"], record["level"], record["area"]) == ("XYZ tiles", "16", AREA)
    assert record["bounds"] == [8.68, 49.4, 8.684, 49.402]
    assert record["tiles"]["missing"] == 0


@pytest.mark.parametrize("way", ["query", "header", "refused"])
def test_a_key_is_nowhere_on_the_disk(  # noqa: PLR0917 - fixtures
    call, world, maps, monkeypatch, tmp_path, way
):
    monkeypatch.setenv("TILES_KEY", maps.KEY)
    world.key = True
    world.put("/ows", maps.wms_capabilities(world.address), "text/xml")
    log = ("--log", "all.log", "-v")
    if way == "header":
        header = ("--header", "X-Key: {env:TILES_KEY}")
        fetch(call, f"{world.address}/xyz/{{z}}/{{x}}/{{y}}.png", "--zoom", 16, *header, *log)
    elif way == "query":
        key = "?key={env:TILES_KEY}"
        fetch(call, f"{world.address}/xyz/{{z}}/{{x}}/{{y}}.png{key}", "--zoom", 16, *log)
        fetch(call, f"{world.address}/ows{key}", "--gsd-m", 2, *log)
    else:
        world.fail("/xyz", lambda h: h.give(400, f"bad {h.path} {maps.KEY}".encode()))
        address = f"{world.address}/xyz/{{z}}/{{x}}/{{y}}.png?key={{env:TILES_KEY}}"
        told = fetch(call, address, "--zoom", 16, *log, "--traceback", code=3).output
        assert "?key={env:TILES_KEY}" in told
        assert not any(key in told for key in keys(maps))
    paths = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(paths) >= (1 if way == "refused" else 4)
    for path in paths:
        kept = path.read_bytes().decode("latin-1") + str(path)
        assert not any(key in kept for key in keys(maps)), path


def test_the_log_file_has_no_key_that_was_typed(call, world, monkeypatch):
    words = ["fetch", "images", f"{world.address}/a.tif?key=typed-by-hand", "--area", AREA]
    words += ["--output", "images", "--log", "all.log"]
    monkeypatch.setattr(sys, "argv", ["roadseg", *words])
    call(*words, code=3)
    kept = Path("all.log").read_text(encoding="utf-8")
    assert "/a.tif?key=***" in kept
    assert "typed-by-hand" not in kept


def keys(maps):
    """Return the key as it is, as it stands in addresses, and its first part."""
    return maps.KEY, maps.KEY.replace("+", "%2B").replace("/", "%2F"), "s3cr3t"


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["hello"], 2, "hello: expected a template of tiles"),
        (["https://a/{z}/{x}/{y}.png"], 2, "choose the size of the pixels"),
        (["https://a/{z}/{x}/{y}.png?key={env:NO_KEY}", "--zoom", "3"], 2, "NO_KEY is not set"),
        (
            ["http://127.0.0.1:9/{z}/{x}/{y}.png", "--zoom", "18", "--area", "1,2,3"],
            2,
            "not a box in degrees",
        ),
        (["https://a/{z}/{x}/{y}.png", "--zoom", "3", "--gsd-m", "1"], 2, "give one"),
        (["https://a/17/68000/44000.png", "--zoom", "3"], 2, "with {z}, {x} and {y} in the places"),
        (["https://a/${z}/${x}/${y}.png", "--zoom", "3"], 2, "without the dollar signs"),
        (["none.json"], 3, "none.json: cannot be read as a JSON object"),
        (["none.tif"], 3, "files of this machine are used as they are"),
    ],
)
def test_a_wrong_request_is_one_line(call, words, code, message):
    done = fetch(call, *words, code=code)
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_list_in_json_is_no_item(call, tmp_path):
    path = tmp_path / "list.json"
    path.write_text("[]")
    done = fetch(call, str(path), code=3)
    assert f"{path}: cannot be read as a JSON object (found list)" in done.stderr


def test_a_fetch_that_is_killed_goes_on_from_its_cache(world, tmp_path, start_command):
    world.fail("/xyz", lambda h: (time.sleep(0.2), h.answer()))
    words = ["fetch", "images", f"{world.address}/xyz/{{z}}/{{x}}/{{y}}.png", "--zoom", "17"]
    words += ["--area", "8.68,49.40,8.70,49.41", "--output", "images", "--cache", "cache"]
    words += ["--rate", "1000"]
    command = start_command(words, tmp_path, before=WITHOUT_PROXY)
    while len(world.asked) < 12:
        time.sleep(0.01)
    command.kill()
    assert not list((tmp_path / "images").glob("*.tif"))
    kept = sum(path.is_file() for path in (tmp_path / "cache").rglob("[!.]*"))
    asked = None
    while asked != (asked := len(world.asked)):
        time.sleep(0.5)  # The server may still read what the killed process asked.
    world.faults.clear()
    assert start_command(words, tmp_path, before=WITHOUT_PROXY).end()[0] == 0
    assert kept > 0
    assert len(world.asked) - asked <= 56 - kept
    assert [path.suffix for path in sorted((tmp_path / "images").iterdir())] == [".json", ".tif"]
