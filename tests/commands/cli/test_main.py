import errno
import json
import logging
import math
import os
import signal
import subprocess
import sys
from itertools import chain
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from click.shell_completion import BashComplete
from click.testing import CliRunner

from roadseg.commands import stages, tools
from roadseg.commands.cli.command import json_text
from roadseg.commands.cli.main import main
from roadseg.commands.cli.process import handle_signals
from roadseg.errors import DataError
from roadseg.learn.hardware.interrupts import SIGNALS
from roadseg.system.web.keys import with_keys

PATIENCE_S = 60
HEAVY = ("torch", "rasterio", "geopandas", "numpy", "pydantic", "matplotlib")


def commands():
    """Yield the words of every command."""
    for name, command in main.commands.items():
        yield [name]
        if isinstance(command, click.Group):
            yield from ([name, inner] for inner in command.commands)


@pytest.fixture
def start_busy(start_command, forks, tmp_path):
    """Give a function that starts a command which calls `busy()` and waits; return it then."""
    (tmp_path / "roadseg.json").write_text("{}")
    is_busy = forks.Event()

    def start(command, before):
        started = start_command([command], tmp_path, before=before, busy=is_busy.set)
        assert is_busy.wait(PATIENCE_S)
        return started

    return start


def image_of(config, number=0):
    return config.parent / "images" / f"city_{number}.tif"


@pytest.mark.parametrize("words", [[], *commands()], ids=" ".join)
def test_help_shows_an_example(call, words):
    result = call(*words, "--help")
    assert result.exit_code == 0
    shown = result.stdout.partition("Example" if words else "In one command")[2]
    assert "roadseg " + " ".join(words) in shown


def test_help_loads_no_heavy_library():
    heavy = set(HEAVY) - {"numpy", "pydantic"}  # which the fields of options need
    walk = f"""
import sys
from roadseg.commands.cli.main import main
from roadseg.commands.cli.process import handle_signals
for words in {[[], *commands()]!r}:
    main([*words, "--help"], standalone_mode=False)
sys.exit(" ".join(sorted({heavy!r} & set(sys.modules))))
"""
    walking = [sys.executable, "-c", walk]
    done = subprocess.run(walking, capture_output=True, text=True, check=False)
    assert done.stderr.strip() == ""


def test_imports_of_a_command_are_rarely_searched_for_garbage():
    show = """
import gc
from roadseg.commands.cli.main import main
before = gc.get_stats()[0]["collections"]
main(["doctor", "--json"], standalone_mode=False)
print(gc.get_stats()[0]["collections"] - before)
"""
    done = subprocess.run([sys.executable, "-c", show], capture_output=True, text=True, check=True)
    assert int(done.stdout.splitlines()[-1]) < 200


def test_a_command_that_loaded_triton_ends_without_a_list_of_leaks():
    pytest.importorskip("triton")
    show = """
from roadseg.commands.cli.main import main
main(["config", "show"], standalone_mode=False)
import triton._C.libtriton
"""
    done = subprocess.run([sys.executable, "-c", show], capture_output=True, text=True, check=True)
    assert "leaked" not in done.stderr


def test_commands_are_listed_in_the_order_of_their_use(call):
    text = call("--help").stdout
    order = [text.index(f"\n  {name} ") for name in main.commands]
    assert order == sorted(order)


def test_the_version_is_told(call):
    assert call("--version").stdout.startswith("roadseg, version 0.")


@pytest.mark.usefixtures("city")
@pytest.mark.parametrize(
    "words",
    [
        ["fly"],
        ["prepare", "--fly"],
        ["train", "--fold", "-1"],
        ["predict", "city.tif"],
        ["predict", "--output", "x"],
        ["graph", "city.tif"],
    ],
    ids=" ".join,
)
def test_wrong_usage_exits_with_2(call, words):
    result = call(*words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Error: " in result.stderr


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["trian"], "Did you mean 'train'?"),
        (["evalute", "--json"], "Did you mean 'evaluate'?"),
        (["config", "shwo"], "Did you mean 'show'?"),
        (["run", "roadseg.json"], "(roadseg.json); use --run for a run folder, and --config for"),
        (["train", "run", "all"], "(run all); use --run for a run folder, and --config for"),
        (["init", "images"], "use --images for images, and --labels for road labels"),
        (["train", "--flod", "1"], "Did you mean one of: '--fold'"),
    ],
    ids=" ".join,
)
def test_a_word_that_is_almost_right_is_answered_with_the_right_one(call, words, meant):
    result = call(*words)
    assert result.exit_code == 2
    assert meant in result.stderr


@pytest.mark.parametrize("words", [["a"], ["--run", "a"], ["--run", "b", "a"], ["a", "--run", "b"]])
@pytest.mark.parametrize("command", ["status", "report"])
def test_a_run_is_named_by_an_argument_or_an_option(call, tmp_path, monkeypatch, command, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").mkdir()
    assert call(command, *words).stderr.startswith("Error: a: ")


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (["train", "--epochs", "3"], "train.epochs"),
        (["train", "--batch-size", "--json"], "train.batch_size"),
        (["predict", "--window-px=512"], "predict.window_px"),
    ],
    ids=" ".join,
)
def test_an_option_that_is_a_setting_is_answered_with_the_setting(call, words, key):
    result = call(*words)
    option = words[1].partition("=")[0]
    expected = f"Error: No such option '{option}'. It is a setting: --set {key}=VALUE\n"
    assert (result.exit_code, result.stderr.endswith(expected)) == (2, True)


def test_a_command_without_settings_suggests_none(call):
    result = call("diff", "a.gpkg", "--reference", "b.gpkg", "--gsd-m", "0.9")
    assert result.exit_code == 2
    assert result.stderr.endswith("Error: No such option '--gsd-m'.\n")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["map", "none.tif"], "none.tif: does not exist"),
        (["map", "roadseg.json", "--set", "train.epoch=3"], "did you mean train.epochs?"),
        (["predict", "none.tif", "--checkpoint", "c", "--output", "o"], "none.tif: does not exist"),
        (["graph", "none.tif", "--output", "o"], "none.tif: does not exist"),
    ],
    ids=" ".join,
)
def test_what_is_misspelt_is_told_before_a_tool_is_loaded(call, monkeypatch, words, told):
    for package, name in ((tools, "map"), (stages, "predict"), (stages, "graph")):
        monkeypatch.setitem(sys.modules, f"{package.__name__}.{name}", None)  # Cannot be imported.
        monkeypatch.delattr(package, name, raising=False)
    Path("roadseg.json").write_text("{}")
    assert told in call(*words).stderr


def test_without_a_command_the_help_is_shown(call):
    assert "\nStages:\n  prepare " in call().output


def test_every_command_is_listed_under_what_it_is_for(call):
    assert list(chain(*main.purposes.values())) == list(main.commands)
    assert "\nCommands:" not in call("--help").stdout


@pytest.mark.parametrize(
    ("words", "begun", "completed"),
    [
        ([], "ev", ["evaluate"]),
        (["train", "--set"], "train.epo", ["train.epochs="]),
        (["train", "--set"], "train.loss.d", ["train.loss.dice="]),
        (["train", "--set"], "split.b", ["split.block_m=", "split.buffer_m="]),
        (["train", "--set"], "nothing.", []),
    ],
)
def test_the_shell_completes_commands_and_keys_of_settings(words, begun, completed):
    shell = BashComplete(main, {}, "roadseg", "_ROADSEG_COMPLETE")
    assert [one.value for one in shell.get_completions(words, begun)] == completed


def test_json_has_null_for_what_is_no_number_and_text_for_paths():
    values = {"apls": math.nan, "rows": [(math.inf, 1.5)], "path": Path("a/b")}
    assert json_text(values) == '{"apls": null, "rows": [[null, 1.5]], "path": "a/b"}'


def test_an_error_leaves_stdout_empty_with_json_too(fails):
    assert "does not exist; create a config" in fails("prepare", "--json", exit_code=2)


@pytest.mark.usefixtures("city")
def test_init_finds_images_and_roads_by_itself(call, city):
    city.unlink()
    result = call("init")
    assert (result.exit_code, "next: roadseg run\n" in result.stdout) == (0, True)
    found = json.loads(city.read_text())
    assert (found["imagery"]["images"], found["labels"]["roads"]) == (["images"], ["roads"])


@pytest.mark.usefixtures("city")
def test_without_json_the_summary_is_a_table(call):
    result = call("prepare")
    assert "5 with 3 bands of uint8, pixels of 1.00 m; 5 chips" in result.stdout
    assert result.stderr == ""


@pytest.mark.usefixtures("city")
def test_run_names_another_run_folder(call, tmp_path):
    call("prepare", "--run", "other")
    assert (tmp_path / "other" / "chips.json").exists()
    assert not (tmp_path / "run").exists()


@pytest.mark.usefixtures("city")
@pytest.mark.parametrize("stage", ["split", "run", "status"])
def test_a_stage_takes_the_config_in_the_run_folder_that_it_is_told(stage, fails, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "roadseg.json").write_text('{"split": {"folds": "own"}}')
    message = fails(stage, "--run", "other", exit_code=2)
    assert message.startswith("Error: other/roadseg.json: split.folds: ")


@pytest.mark.usefixtures("city")
def test_a_fine_config_is_told_to_be_fine(call):
    result = call("config", "check")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "5 scenes with an image and labels" in result.stdout


@pytest.mark.usefixtures("city")
@pytest.mark.parametrize(
    ("assignment", "exit_code", "message"),
    [
        ("train.encoder=resnet35", 2, "encoder"),
        ("train.architecture=unett", 2, "architecture"),
        ("train.init=nowhere", 2, "train.init: "),
        ("train.encoder_weights=nowhere/a.pth", 2, "train.encoder_weights: "),
        ("imagery.images=nope", 3, "nope"),
        ("labels.roads=nope", 3, "nope"),
    ],
)
def test_what_a_config_names_has_to_be_there(fails, assignment, exit_code, message):
    assert message in fails("config", "check", "--set", assignment, exit_code=exit_code)


@pytest.mark.usefixtures("city")
@pytest.mark.parametrize(
    "words",
    [["--fold", "5"], ["--set", "train.encoder=resnet35"], ["--fold", "5", "--dry-run"]],
    ids=" ".join,
)
def test_run_refuses_settings_of_later_stages_before_the_first(fails, tmp_path, words):
    fails("run", *words, exit_code=2)
    assert not (tmp_path / "run").exists()


@pytest.mark.usefixtures("city")
def test_more_log_lines_say_why_stages_run_and_what_is_written(call):
    said = call("prepare", "-v").stderr
    assert "DEBUG: config: roadseg.json" in said
    assert "DEBUG: prepare runs: no earlier run" in said
    assert "run/chips.json" in said
    assert "DEBUG" not in call("prepare", "--force").stderr


@pytest.mark.usefixtures("city")
@pytest.mark.parametrize(
    ("command", "missing", "earlier"),
    [
        ("split", "prepare.json", "prepare"),
        ("train", "split.json", "split"),
        ("predict", "fold-0/train.json", "train --fold 0"),
        ("graph", "predict.json", "predict"),
        ("evaluate", "graph.json", "graph"),
        ("quantize", "fold-0/train.json", "train --fold 0"),
    ],
)
def test_a_missing_earlier_stage_is_named(fails, command, missing, earlier):
    message = fails(command, exit_code=1)
    assert message.endswith(f"{missing} does not exist; run `roadseg {earlier}` first\n")
    assert fails(command, "--dry-run", exit_code=1).endswith("first\n")


@pytest.mark.usefixtures("city")
def test_a_run_folder_that_cannot_be_made_exits_with_3(fails, tmp_path):
    (tmp_path / "file").touch()
    message = fails("prepare", "--run", "file/run", exit_code=3)
    assert message == "Error: file/run: cannot be written: Not a directory\n"


WRITES = """
import time
from pathlib import Path
from roadseg.commands.stages import split
from roadseg.system.files import atomic_write

def run(*_, **__):
    with atomic_write(Path("output.txt")) as partial:
        partial.write_text("half")
        busy()
        time.sleep(60)

split.run = run
"""


COMPILED = """
import time
from roadseg.commands.stages import split

def compile_fx_inner():  # as torch does
    try:
        busy()
        time.sleep(60)
    except BaseException as error:
        raise RuntimeError("backend failed") from error

split.run = lambda *_, **__: compile_fx_inner()
"""


ENDINGS = pytest.mark.parametrize(
    ("sent", "exit_code", "told"),
    [
        (signal.SIGINT, 130, "interrupted; run the same command to resume\n"),
        (signal.SIGTERM, 143, "terminated; run the same command to resume\n"),
        (signal.SIGHUP, 129, ""),  # Nobody reads a terminal that is gone.
    ],
)


@ENDINGS
def test_a_signal_ends_a_command_and_leaves_no_half_file(
    start_busy, tmp_path, sent, exit_code, told
):
    command = start_busy("split", WRITES)
    command.send(sent)
    assert command.end() == (exit_code, "", told)
    assert [path.name for path in tmp_path.iterdir()] == ["roadseg.json"]


@ENDINGS
def test_a_signal_ends_a_command_that_compiles_a_network(start_busy, sent, exit_code, told):
    command = start_busy("split", COMPILED)
    command.send(sent)
    assert command.end() == (exit_code, "", told)


def test_a_command_ends_by_sigterm_even_where_its_parent_ignores_signals():
    before = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        handle_signals()
        ignored = [number for number in SIGNALS if signal.getsignal(number) is signal.SIG_IGN]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert ignored == [signal.SIGINT, signal.SIGHUP]


IMPORTED = """
import time
from roadseg.commands.cli.main import main

class Waits:
    def __set_name__(self, owner, name):  # what is raised here comes out as a RuntimeError
        main.busy()
        time.sleep(60)

class Owner:
    name = Waits()
"""


@ENDINGS
def test_a_signal_ends_a_command_that_imports_a_package(
    start_busy, tmp_path, sent, exit_code, told
):
    (tmp_path / "quantize.py").write_text(IMPORTED)  # a stage that is not yet loaded
    before = "main.busy = busy\nfrom roadseg.commands import stages\nstages.__path__.insert(0, '.')"
    command = start_busy("quantize", before)
    command.send(sent)
    assert command.end() == (exit_code, "", told)


@pytest.mark.usefixtures("impatient")
def test_a_second_command_in_one_run_folder_exits_with_3(start_busy, fails):
    command = start_busy("split", WRITES)
    message = fails("split", exit_code=3)
    assert f"run: process {command.pid} is using this run folder; wait until it ends" in message


def test_a_scene_that_was_skipped_exits_with_4_and_is_listed(call, city):
    image_of(city).write_text("<html>please log in</html>")
    result = call("prepare", "--on-error", "skip", "--workers", "2", "--set", "split.folds=4")
    assert result.exit_code == 4
    assert "skipped city_0 " in result.stdout
    assert "4 with 3 bands" in result.stdout


@pytest.fixture
def breaks(monkeypatch):
    """Give a function that has the stage split raise an error."""

    def split(error):
        def raising(*_, **__):
            raise error

        for name in ("split.run", "pipeline.plan_stage"):
            monkeypatch.setattr(f"roadseg.commands.stages.{name}", raising)

    return split


@pytest.mark.usefixtures("city")
def test_a_fault_of_our_own_is_told_with_traceback_and_versions_but_no_key(
    breaks, call, monkeypatch
):
    monkeypatch.setenv("MY_KEY", "s3cretvalue")
    with_keys("{env:MY_KEY}")
    breaks(TypeError("no\ns3cretvalue"))
    result = call("split")
    assert result.exit_code == 70
    assert result.stderr.startswith("Traceback (most recent call last)")
    last = result.stderr.splitlines()[-1]
    assert "a bug in roadseg (TypeError: no {env:MY_KEY}); please send us this traceback" in last
    assert "torch " in last
    assert "s3cret" not in result.stderr


@pytest.mark.usefixtures("city")
@pytest.mark.parametrize("error", [TypeError("x"), DataError("x")], ids=repr)
@pytest.mark.parametrize(
    "words", [["--traceback", "split"], ["split", "--traceback"]], ids=" ".join
)
def test_the_traceback_of_any_error_is_shown_on_demand(breaks, call, error, words):
    breaks(error)
    told = call(*words).stderr
    assert told.startswith("Traceback (most recent call last)")
    assert told.splitlines()[-1].startswith("Error: ")


@pytest.mark.usefixtures("city")
def test_too_little_memory_is_no_fault_of_ours(breaks, fails):
    breaks(MemoryError())
    assert "out of memory: use fewer workers" in fails("split", exit_code=1)


@pytest.mark.usefixtures("city")
def test_a_reader_that_has_gone_away_is_no_fault(breaks, call):
    breaks(BrokenPipeError(errno.EPIPE, "Broken pipe"))
    result = call("split")
    assert (result.exit_code, result.stderr) == (1, "")


def test_a_fault_in_another_process_is_reported_with_its_traceback(city, start_command):
    spoil = """
import multiprocessing
from roadseg.commands.stages import prepare
from roadseg.system import parallel

def spoiled(*_):
    raise KeyError("in a worker")

spoiled.__module__ = prepare.__name__  # where a worker finds it
prepare.prepare_scene = prepare.spoiled = spoiled
parallel._context = lambda: multiprocessing.get_context("fork")
"""
    command = start_command(["prepare", "--workers", "2"], city.parent, before=spoil)
    code, _, told = command.end()
    assert code == 70, told
    assert "in spoiled" in told


def log_lines(path):
    """Give what stands in a log file after the time."""
    return [line.split(" ", 2)[2] for line in path.read_text().splitlines()]


@pytest.mark.usefixtures("city")
@pytest.mark.parametrize(
    "words",
    [["-qqq", "--log", "all.txt", "prepare"], ["prepare", "--log", "all.txt", "-qqq"]],
    ids=" ".join,
)
def test_a_log_file_holds_every_line_however_quiet_the_terminal_is(call, tmp_path, words):
    result = call(*words)
    assert (result.exit_code, result.stderr) == (0, "")
    assert any(line.startswith("DEBUG: command: ") for line in log_lines(tmp_path / "all.txt"))


def test_a_log_file_holds_the_error_and_what_was_there_before(fails, tmp_path):
    (tmp_path / "all.txt").write_text("2026-11-22 22:00:00 kept\n")
    fails("prepare", "--log", "all.txt", exit_code=2)
    kept, _, error = log_lines(tmp_path / "all.txt")
    assert kept == "kept"
    assert error.startswith("ERROR: no config") or "does not exist; create a config" in error


def test_each_of_several_processes_says_in_the_log_file_which_it_is(call, tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    call("config", "schema", "--log", "all.txt")
    assert log_lines(tmp_path / "all.txt")[0].startswith("[process 1] DEBUG: command: ")


def test_a_file_of_something_else_takes_no_logs(fails, city):
    before = city.read_text()
    told = fails("prepare", "--log", str(city), exit_code=3)
    assert told == f"Error: --log {city}: is not a log file; name another file\n"
    assert city.read_text() == before


def test_an_image_whose_name_is_not_utf_8_is_told_in_one_line(fails, tmp_path):
    os.close(os.open(os.fsencode(tmp_path) + b"/caf\xe9.tif", os.O_CREAT))
    told = fails("init", "--images", str(tmp_path), "--labels", str(tmp_path), exit_code=3)
    assert "caf\\udce9.tif': expected a name in UTF-8; rename the file" in told


def test_a_name_that_the_character_set_of_a_pipe_lacks_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("QGIS_CUSTOM_CONFIG_PATH", str(tmp_path / "\N{CJK UNIFIED IDEOGRAPH-9053}"))
    done = CliRunner(charset="cp1252").invoke(main, ["qgis", "install"], catch_exceptions=False)
    assert r"/\u9053/" in done.stdout


def test_a_glob_is_one_word_where_click_would_expand_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.tif").touch()
    (tmp_path / "b.tif").touch()
    monkeypatch.setattr("sys.argv", ["roadseg", "init", "--images", "*.tif", "--labels", "c.gpkg"])
    monkeypatch.setattr("click.core.os", SimpleNamespace(**{**vars(os), "name": "nt"}))
    with pytest.raises(SystemExit) as ended:
        main()
    assert "unexpected extra argument" not in capsys.readouterr().err
    assert ended.value.code == DataError.exit_code


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams_are_not_taken_by_files(tmp_path, closed):
    (tmp_path / "roadseg.json").write_text("{}")
    (tmp_path / "split.py").write_text("""
import os

def run(*_, **__):
    with open("opened", "w") as opened:
        os.write(2, b"of a library")
        opened.write(str(opened.fileno()))
""")
    code = """
from roadseg.commands import stages
from roadseg.commands.cli import main

stages.__path__.insert(0, ".")
main.main(["split"])
"""
    words = ["sh", "-c", f'exec "$0" -c "$1" {closed}', sys.executable, code]
    done = subprocess.run(words, cwd=tmp_path, check=False)
    assert done.returncode == 0
    assert int((tmp_path / "opened").read_text()) > 2


def test_a_log_file_that_cannot_be_written_is_told_once(tmp_path):
    words = [sys.executable, "-m", "roadseg", "--log", "no/a.txt", "config", "schema"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert done.stderr == "Error: --log no/a.txt: cannot be written: No such file or directory\n"


@pytest.mark.parametrize(("words", "shown"), [(["-v"], True), ([], False)])
def test_what_libraries_warn_of_is_shown_with_verbose_alone(call, words, shown):
    call(*words, "config", "schema")
    for name in ("matplotlib.font_manager", "py.warnings"):
        assert logging.getLogger(name).isEnabledFor(logging.WARNING) is shown


def test_how_much_is_logged_can_be_said_before_and_after_the_command(call, city):
    image_of(city).write_text("<html>please log in</html>")
    words = ["prepare", "--on-error", "skip", "--set", "split.folds=4"]
    assert "WARNING: skipped city_0" in call("-q", *words).stderr
    assert "WARNING" not in call("-q", *words, "-q", "--force").stderr
