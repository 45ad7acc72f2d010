#!/usr/bin/env python
"""Kill server and browser of `roadseg review` at random moments; all that was shown is kept.

    python scripts/kill_review.py RUN --kills 50

Copies the run, opens its page in Chromium and presses keys that accept and reject. At a random
moment the server, or the browser, gets SIGKILL. The page says how many edits were acknowledged: as
many at least have to be in `edits.gpkg`, which has to be whole, and the next session goes on from
there. There may be more, as a killed browser no longer says what it was told last.
"""

import argparse
import contextlib
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from functools import partial
from pathlib import Path

from playwright.sync_api import Error, sync_playwright

KEYS = "ar"  # Accept, and reject.
# What the page has acknowledged, sent out of it as it happens: a killed page cannot be asked.
WATCH = """() => {
    const change = review.ask.bind(review);
    review.ask = async (path, body) => {
        const told = await change(path, body);
        if (told) console.log(`done ${told.undo}`);
        return told;
    };
}"""


def main() -> None:
    """Kill, look, and go on."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    moments = random.Random(given.seed)  # noqa: S311 - not a secret
    found = os.environ.get("ROADSEG_CHROMIUM") or shutil.which("chromium")
    with tempfile.TemporaryDirectory() as name, sync_playwright() as started:
        run = shutil.copytree(given.run, Path(name) / "run")
        start = partial(
            started.chromium.launch_persistent_context,
            executable_path=found,
            args=["--no-sandbox"],
        )
        for number in range(given.kills):
            whom = ("server", "browser")[number % 2]
            told = kill_once(run, start, whom, moments)
            kept = in_force(run)
            if kept < told:
                sys.exit(f"{whom} killed: the page had {told} edits, the file has {kept}")
            print(f"{number + 1}: {whom} killed; shown {told}, kept {kept}", flush=True)
        print(f"{given.kills} kills; all that was acknowledged is kept")


def kill_once(run, start, whom, moments):
    """Open the page, press keys, and kill server or browser meanwhile; return what it had shown."""
    words = [sys.executable, "-m", "roadseg", "review", str(run)]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as server:
        address = address_of(server)
        browser = start(tempfile.mkdtemp(dir=run.parent))
        page = browser.pages[0]
        said: list[str] = []
        page.on("console", lambda message: said.append(message.text))
        page.goto(address)
        while not page.evaluate("Boolean(window.review)"):
            time.sleep(0.02)
        before = page.evaluate("async () => (await (await fetch('changes')).json()).undo")
        page.evaluate(WATCH)
        victim = server.pid if whom == "server" else chromium_of(run.parent)
        killer = threading.Timer(moments.uniform(0.05, 2.0), os.kill, (victim, signal.SIGKILL))
        killer.start()
        with contextlib.suppress(Error):
            while killer.is_alive():
                page.keyboard.press(moments.choice(KEYS))
            page.evaluate("review.busy")
        killer.join()
        with contextlib.suppress(Error):
            browser.close()
        server.kill()
    counts = [int(text.split()[1]) for text in said if text.startswith("done ")]
    return counts[-1] if counts else before


def address_of(server):
    """Return the address that a starting server prints."""
    for line in server.stderr:
        if found := re.search(r"http://\S+", line):
            return found[0]
    sys.exit("the server ended")


def chromium_of(folder):
    """Return the process of the browser that has its profile in a folder."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_bytes().split(b"\0")
            is_first = not any(word.startswith(b"--type=") for word in words)
            if is_first and any(f"--user-data-dir={folder}".encode() in word for word in words):
                return int(path.parent.name)
    sys.exit("the browser ended")


def in_force(run):
    """Return how many edits are in force in the file, which has to be whole."""
    with contextlib.closing(sqlite3.connect(run / "edits.gpkg")) as file:
        if file.execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
            sys.exit("edits.gpkg is damaged")
        query = "SELECT COUNT(*) FROM edits WHERE COALESCE(undone, 0) = 0"
        return file.execute(query).fetchone()[0]


if __name__ == "__main__":
    main()
