"""The plugin's part without QGIS: how it finds, starts, follows and ends the command."""

import json
import os
import sys

import pytest

from roadseg.qgis_plugin import process
from roadseg.qgis_plugin.process import (
    CancelledError,
    CommandError,
    find_command,
    improvement_lines,
    percent,
    quality_lines,
    run,
    words_of,
)


def start(program, folder, *words, show=lambda _: None, is_cancelled=lambda: False):
    """Run a Python program as if it were roadseg."""
    command = [sys.executable, "-c", program, *words]
    return run(command, folder=folder, show=show, is_cancelled=is_cancelled)


def work(done, total, what="graph"):
    return {"what": what, "done": done, "total": total, "unit": "scenes"}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", []),
        ("--tta  --window-px 512", ["--tta", "--window-px", "512"]),
        (r"--who 'Ana B' --labels C:\my\a.gpkg", ["--who", "Ana B", "--labels", r"C:\my\a.gpkg"]),
        (r'--labels="C:\my data\a.gpkg" #1', [r"--labels=C:\my data\a.gpkg", "#1"]),
    ],
)
def test_a_line_of_options_is_divided_where_no_quotes_are(line, words):
    assert words_of(line) == words


@pytest.mark.parametrize(
    ("works", "expected"),
    [
        ([work(1, 4)], 25),
        ([work(0.5, 2.0)], 25),
        ([work(1, 4), work(1, 2)], 37.5),
        ([work(1.5, 4), work(1, 2)], 37.5),  # the work inside says more than the half
        ([work(1.0, 4.0), work(1, 2)], 25),  # an amount has no item under way
        ([work(5, 4)], 100),
        ([work(0, 0)], 0),
    ],
)
def test_the_bar_shows_finished_items_and_the_part_of_the_one_under_way(works, expected):
    assert percent(works) == expected


def test_only_lines_of_progress_are_read_as_such():
    line = json.dumps({"progress": [work(1, 4)], "text": "graph: 1 of 4 scenes"})
    assert process.read_progress(line)["text"] == "graph: 1 of 4 scenes"
    assert process.read_progress("INFO: to predict: 1 scene") is None


def test_what_qgis_sets_for_its_own_libraries_does_not_reach_the_command():
    given = {"PATH": "/bin", "PYTHONHOME": "/qgis", "GDAL_DATA": "/qgis", "LD_LIBRARY_PATH": "/q"}
    assert process.command_environment(given) == {
        "PATH": "/bin",
        "ROADSEG_PROGRESS": "json",
        "PYTHONIOENCODING": "utf-8",
    }


def test_the_command_gets_its_words_and_json_and_its_summary_is_returned(tmp_path):
    program = "import json, os, sys; print(json.dumps([sys.argv[1:], os.getcwd()]))"
    assert start(program, tmp_path, "graph", "a.tif") == [
        ["graph", "a.tif", "--json"],
        str(tmp_path),
    ]


def test_lines_are_passed_on_as_they_come(tmp_path):
    lines = []
    program = "import sys; print('INFO: ä\\nWARNING: b', file=sys.stderr); print('{}')"
    assert start(program, tmp_path, show=lines.append) == {}
    assert lines == ["INFO: ä", "WARNING: b"]


def test_an_error_of_roadseg_is_its_own_line(tmp_path):
    program = "import sys; sys.exit('INFO: a\\nError: a.tif: is no image\\nlast')"
    with pytest.raises(CommandError, match=r"^a\.tif: is no image$"):
        start(program, tmp_path)


def test_of_another_failure_the_last_lines_are_told(tmp_path):
    with pytest.raises(CommandError, match="No module named 'roadseg_of_yore'"):
        start("import roadseg_of_yore", tmp_path)


def test_a_failure_without_a_word_tells_its_exit_code(tmp_path):
    with pytest.raises(CommandError, match="exit code 7"):
        start("raise SystemExit(7)", tmp_path)


def test_a_command_that_is_gone_tells_how_to_install_it(tmp_path):
    with pytest.raises(CommandError, match=r"cannot be started.*`roadseg qgis install`"):
        run([str(tmp_path / "gone")], folder=tmp_path, show=print, is_cancelled=lambda: False)


@pytest.mark.parametrize("deaf", ["", "signal.signal(signal.SIGTERM, signal.SIG_IGN);"])
def test_a_cancelled_command_is_gone(tmp_path, monkeypatch, deaf):
    monkeypatch.setattr(process, "GRACE_S", 0.2 if deaf else 60)
    pids = []
    program = f"import os, signal, sys; {deaf} print(os.getpid(), file=sys.stderr, flush=True);"
    program += "signal.pause()"
    with pytest.raises(CancelledError):
        start(
            program, tmp_path, show=lambda line: pids.append(int(line)), is_cancelled=lambda: pids
        )
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


def test_a_command_whose_lines_cannot_be_shown_is_gone(tmp_path):
    pids = []

    def show(line):
        pids.append(int(line))
        raise RuntimeError("the log was deleted")

    program = "import os, signal, sys; print(os.getpid(), file=sys.stderr, flush=True);"
    with pytest.raises(RuntimeError, match="the log was deleted"):
        start(f"{program} signal.alarm(60); signal.pause()", tmp_path, show=show)
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


def executable(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def nothing(tmp_path, monkeypatch):
    """Let no roadseg be found in the usual places; give the file that an install leaves."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "command.json"


def test_the_setting_comes_before_the_command_of_the_install(nothing, tmp_path):
    named, installed = executable(tmp_path / "a/roadseg"), executable(tmp_path / "python")
    nothing.write_text(json.dumps([installed, "-m", "roadseg"]))
    assert find_command(f" {named} ", nothing) == [named]
    assert find_command("", nothing) == [installed, "-m", "roadseg"]


@pytest.mark.parametrize("place", ["bin/roadseg", "home/.local/bin/roadseg"])
def test_without_an_install_the_usual_places_are_searched(nothing, tmp_path, place):
    there = executable(tmp_path / place)
    assert find_command("", nothing) == [there]


def test_the_command_of_an_environment_that_was_removed_does_not_count(nothing, tmp_path):
    nothing.write_text(json.dumps([str(tmp_path / "gone/python"), "-m", "roadseg"]))
    there = executable(tmp_path / "bin/roadseg")
    assert find_command("", nothing) == [there]


def test_a_command_that_is_nowhere_tells_how_to_install_it(nothing):
    with pytest.raises(CommandError, match="was not found: install roadseg, then run"):
        find_command("", nothing)


def test_a_setting_that_names_no_program_is_told(nothing):
    with pytest.raises(CommandError, match=r"^/no/roadseg is not a program"):
        find_command("/no/roadseg", nothing)


@pytest.mark.parametrize(
    ("confidence", "measured", "expected"),
    [
        (None, None, []),
        (0.7, None, ["Mean confidence of the roads: 0.70. 12% of their length is doubtful"]),
        (
            0.7,
            {"correctness": 0.9, "completeness": 0.8, "apls_length": 0.75},
            ["Mean confidence", "correctness 0.90, completeness 0.80, APLS 0.75"],
        ),
    ],
)
def test_the_log_says_how_far_a_map_is_to_be_trusted(confidence, measured, expected):
    summary = {"confidence": confidence, "doubtful": 0.12, "inferred": 0, "measured": measured}
    said = list(quality_lines(summary))
    assert len(said) == len(expected)
    assert all(part in line for part, line in zip(expected, said, strict=True))


@pytest.mark.parametrize(
    ("metres", "expected"),
    [
        (0.0, ["Nothing was decided"]),
        (200.0, ["Of the drawn roads", "(200 m), the network found 25% before and 75% now."]),
    ],
)
def test_the_log_says_what_a_training_on_edits_has_changed(metres, expected):
    none = {"metres": 0.0, "before": 0.0, "after": 0.0}
    drawn = {"metres": metres, "before": metres / 4, "after": metres * 0.75}
    (said,) = improvement_lines({"drawn": drawn, "accepted": none, "rejected": none})
    assert all(part in said for part in expected)
