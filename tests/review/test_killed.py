"""Whatever was acknowledged is in the file, at whatever moment the server is killed."""

import http.client
import json
import re
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing

import pytest

DECISIONS = [
    {"kind": kind, "sheet": 0, "id": row} for row in range(5) for kind in ("reject", "accept")
]


def address_of(process):
    """Return port and token that a starting server prints."""
    for line in process.stderr:
        if found := re.search(r"http://127.0.0.1:(\d+)/([^/]+)/", line):
            return int(found[1]), found[2]
    raise AssertionError("the server ended")


def acknowledged_until_killed(port, token, process, after):
    """Send edits one after the other; kill the server while it works on the one after `after`."""
    done = []
    for number in range(1000):
        body = json.dumps(DECISIONS[number % len(DECISIONS)])
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as link:
            headers = {"Origin": f"http://127.0.0.1:{port}", "Content-Type": "application/json"}
            if number == after:
                # The kill falls into the work on this edit, anywhere from its arrival on.
                killer = threading.Thread(target=process.send_signal, args=(signal.SIGKILL,))
                killer.start()
            try:
                link.request("POST", f"/{token}/edit", body, headers)
                answer = link.getresponse()
                answer.read()
            except (OSError, http.client.HTTPException):
                return done
            if answer.status == 200:
                done.append(DECISIONS[number % len(DECISIONS)]["kind"])
    raise AssertionError("the server was not killed")


@pytest.mark.parametrize("after", [1, 7])
def test_what_was_acknowledged_is_kept(run, after):
    words = [sys.executable, "-m", "roadseg", "review", str(run.root)]
    kept = []
    for _ in range(2):
        with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
            kept += acknowledged_until_killed(*address_of(process), process, after)
        with closing(sqlite3.connect(run.edits)) as file:
            assert file.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            kinds = [kind for (kind,) in file.execute("SELECT kind FROM edits ORDER BY fid")]
        assert kinds[: len(kept)] == kept
        assert len(kinds) <= len(kept) + 1  # the last one may be kept without being acknowledged
        kept = kinds


def test_ctrl_c_ends_the_session_in_order(run):
    words = [sys.executable, "-m", "roadseg", "review", str(run.root), "--json"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    # Shells ignore SIGINT for what they start in the background.
    restored = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.default_int_handler)}
    with subprocess.Popen(words, text=True, **pipes, **restored) as process:
        address_of(process)
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    assert json.loads(said)["roads"] == {"open": 5}
