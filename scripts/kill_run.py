#!/usr/bin/env python
"""Kill `roadseg run` at random moments, repeat it, and compare with a run left alone.

Draws the small city of the demo and runs all stages on it, by default on coarse pixels of a few
scenes and with a tiny network. Then it does the same again and again, where the process and its
workers get SIGINT or SIGKILL at a random moment. The processes are forked from one that has all
libraries loaded, so that the moments fall into the work (--fresh starts the command anew). After
each kill every file under its final name has to be whole; after the same command has run to its
end, all files have to be those of the run left alone, byte for byte, but for the seconds and the
memory that something took, dates in GeoPackages, and the page of the report, which tells both.
"""

import argparse
import contextlib
import importlib
import json
import multiprocessing
import os
import pkgutil
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import rasterio
from PIL import Image
from safetensors import safe_open

import roadseg
from roadseg.commands.cli import main as cli
from roadseg.commands.tools import demo
from roadseg.learn.training import epochs

_SMALL = {
    "imagery.images": '["images/city_[0-1].tif"]',
    "imagery.gsd_m": 2.0,
    "split.folds": 2,
    "train.encoder": "tu-test_resnet",
    "train.window_px": 64,
    "train.windows_per_chip": 6,
    "train.batch_size": 2,
    "train.epochs": 2,
    "predict.window_px": 128,
    "predict.overlap_px": 32,
    "graph.threshold": 0.07,
}
_TIMED = re.compile(
    r"seconds|peak|^megabytes$|^bytes$|_per_s$|date|created|updated"
)  # keys, in JSON and CSV
_DATE = re.compile(r"\d{4}-\d\d-\d\d[T ][\d:.]+Z?|\d{4}-\d\d-\d\d")
_ENDED = {signal.SIGINT: {130, -signal.SIGINT}, signal.SIGKILL: {-signal.SIGKILL}}


def main():
    """Run the comparison."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=20, help="of each signal")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fresh", action="store_true", help="load all libraries each time")
    parser.add_argument("--demo", action="store_true", help="the demo as it is: minutes a run")
    options = parser.parse_args()
    settings = {} if options.demo else _SMALL
    settings = settings | {"compute.workers": options.workers}
    # Shells ignore SIGINT for what they start in the background, and so would each run.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    moments = random.Random(options.seed)  # noqa: S311 - not a secret
    with tempfile.TemporaryDirectory() as name:
        project = _Project(Path(name), settings, _fresh if options.fresh else _Forked)
        seconds = project.run_alone()
        print(f"a run left alone takes {seconds:.1f} s, {len(project.expected)} files", flush=True)
        for number in range(2 * options.kills):
            which = (signal.SIGINT, signal.SIGKILL)[number % 2]
            project.kill_once(which, moments, seconds)
        for (which, stage), times in sorted(project.killed.items()):
            print(f"{which} in {stage}: {times}")
        print(f"{2 * options.kills} kills, all ended with the same files")
        print(f"compared without times: {', '.join(sorted(project.without_times)) or 'none'}")


def _fresh(words, output):
    """Start the command line in a new interpreter."""
    options = {"start_new_session": True, "stdout": subprocess.DEVNULL, "stderr": output}
    return subprocess.Popen([sys.executable, "-m", "roadseg", *words], **options)


def load_all():
    """Import what the command line would import while it works; save trainings more often."""
    for module in pkgutil.walk_packages(roadseg.__path__, "roadseg."):
        if not module.name.endswith("__main__"):
            with contextlib.suppress(ImportError):  # an extra
                importlib.import_module(module.name)
    for name in ("geopandas", "matplotlib.backends.backend_agg", "networkx", "pyogrio"):
        importlib.import_module(name)
    epochs.SAVE_S = 1.2


class _Forked:
    """The command line in a copy of this process; to be used like a Popen."""

    def __init__(self, words, output):
        self._process = multiprocessing.get_context("fork").Process(
            target=self._work, args=(words, output), daemon=False
        )
        self._process.start()
        self.pid = self._process.pid
        os.setpgid(self.pid, self.pid)  # here, as it may be killed before it does anything

    def poll(self):
        return self._process.exitcode

    def wait(self):
        self._process.join()
        return self._process.exitcode

    @staticmethod
    def _work(words, output):
        with Path(os.devnull).open("w") as nothing:
            os.dup2(nothing.fileno(), sys.stdout.fileno())
        os.dup2(output.fileno(), sys.stderr.fileno())
        cli.main(words)


class _Project:
    """A city, the run of it left alone, and what was killed since."""

    def __init__(self, folder, settings, start):
        self.folder, self.run = folder, folder / "run"
        self.command, self.start = ["-q", "run"], start
        self.command += ["--config", str(folder / "roadseg.json")]
        self.command += [f"--set={key}={value}" for key, value in settings.items()]
        self.killed, self.expected, self.bytes, self.without_times = Counter(), {}, {}, set()
        demo.run(folder)
        if start is _Forked:
            load_all()

    def run_alone(self):
        self._finish()  # once before, so that files which have to be read are in memory
        shutil.rmtree(self.run)
        begun = time.monotonic()
        self._finish()
        seconds = time.monotonic() - begun
        self.expected, self.bytes = contents(self.run), _bytes(self.run)
        return seconds

    def kill_once(self, which, moments, seconds):
        """Kill a run that has not ended, finish it, and compare."""
        while True:
            shutil.rmtree(self.run, ignore_errors=True)
            moment = moments.uniform(0, seconds)
            ended = self._start_and_kill(which, moment)
            if ended is not None:
                break
            seconds = moment  # it was faster this time
        stage = self._stage()
        contents(self.run)
        self._finish()
        self._compare()
        self.killed[which.name, stage] += 1
        print(f"{which.name} after {moment:.1f} s, in {stage}; ended {ended}; equal", flush=True)

    def _start_and_kill(self, which, moment):
        with tempfile.TemporaryFile("w+") as output:
            process = self.start(self.command, output)
            time.sleep(moment)
            if process.poll() is not None:
                return None
            os.killpg(process.pid, which)
            code = process.wait()
            output.seek(0)
            text = output.read()
        if code == 0:  # it had ended, but for the exit of the interpreter
            return None
        _check(code in _ENDED[which], f"{which.name} after {moment:.1f} s: exit {code}\n{text}")
        return f"{code}{' with a traceback' if 'Traceback' in text else ''}"

    def _finish(self):
        with tempfile.TemporaryFile("w+") as output:
            code = self.start(self.command, output).wait()
            output.seek(0)
            _check(code == 0, f"the run ended {code}\n{output.read()}")

    def _stage(self):
        """Name the stage that was killed: the last that has begun."""
        records = [path for path in self.run.rglob("*.json") if _is_record(path)]
        if not records:
            return "start"
        return max(records, key=lambda path: path.stat().st_mtime_ns).stem

    def _compare(self):
        left = [
            str(path) for path in self.run.rglob("*") if path.name.startswith((".partial", ".s"))
        ]
        _check(not left, f"left behind: {left}")
        files = contents(self.run)
        apart = files.keys() ^ self.expected.keys()
        _check(not apart, f"in one of the runs only: {sorted(apart)}")
        for name, content in self.expected.items():
            difference = f"{files[name]!s:.2000}\nnot as in the run left alone\n{content!s:.2000}"
            _check(files[name] == content, f"{name}: {difference}")
        now = _bytes(self.run)
        self.without_times |= {name for name in now if now[name] != self.bytes[name]}


def _is_record(path):
    return isinstance(record := json.loads(path.read_text()), dict) and "stage" in record


def _bytes(run):
    return {str(path.relative_to(run)): path.read_bytes() for path in _files(run)}


def contents(run):
    """Read all files under final names, to see that they are whole; leave out times."""
    return {str(path.relative_to(run)): _content(path) for path in _files(run)}


def _files(run):
    shown = (path for path in run.rglob("*") if path.is_file())
    return [p for p in shown if not any(part.startswith(".") for part in p.relative_to(run).parts)]


def _content(path):
    readers = {
        ".json": lambda: _untimed(json.loads(path.read_text(encoding="utf-8"))),
        ".csv": lambda: _table(path),
        ".gpkg": lambda: _database(path),
        ".safetensors": lambda: _tensors(path),
        ".tif": lambda: _raster(path),
        ".png": lambda: Image.open(path).tobytes(),
        ".html": lambda: len(path.read_bytes()) > 0,  # It has seconds and dates in many places.
        ".md": lambda: _DATE.sub("", path.read_text(encoding="utf-8")),
    }
    content = readers.get(path.suffix, path.read_bytes)()
    if isinstance(content, dict) and "stage" in content:  # Files with times have other digests.
        content |= {name: sorted(content[name]) for name in ("inputs", "outputs")}
    if path.name == "report.json":  # Its key is made of the digests of the files that it shows.
        del content["key"]
    return content


def _untimed(value):
    if isinstance(value, dict):
        return {k: _untimed(v) for k, v in value.items() if not _TIMED.search(k)}
    return [_untimed(item) for item in value] if isinstance(value, list) else value


def _table(path):
    header, *rows = (line.split(",") for line in path.read_text().splitlines())
    _check(all(len(row) >= len(header) for row in rows), f"{path}: half a row")
    kept = [i for i, name in enumerate(header) if not _TIMED.search(name)]
    return [[row[i] for i in kept] for row in rows]


def _database(path):
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as file:
        ((state,),) = file.execute("PRAGMA integrity_check")
        _check(state == "ok", f"{path}: {state}")
        return [_DATE.sub("", line) for line in file.iterdump()]


def _tensors(path):
    with safe_open(path, "np") as file:
        facts = {k: json.loads(v) if v[:1] == "{" else v for k, v in file.metadata().items()}
        tensors = {name: file.get_tensor(name).tobytes() for name in sorted(file.keys())}
    return _untimed(facts), tensors


def _raster(path):
    with rasterio.open(path) as source:
        tags = source.tags()
        tags.pop("ROADSEG_KEY", None)  # made of the bytes or times of a checkpoint
        return source.read().tobytes(), source.dataset_mask().tobytes(), tags, source.profile


def _check(condition, complaint):
    if not condition:
        sys.exit(complaint)


if __name__ == "__main__":
    main()
