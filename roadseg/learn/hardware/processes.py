"""Processes of a launcher: they end with it, and write lines that all of them have only once."""

import hashlib
import os
import signal
import sys
import threading
import time
from pathlib import Path

LAUNCHED = "ROADSEG_LAUNCHED"  # Variable that keeps the command from starting a launcher again.
INTERRUPTED = 128 + signal.SIGINT  # Exit code of a command that Ctrl-C ended, as shells give it.
TERMINATED = 128 + signal.SIGTERM
LAST_LINES: dict[object, str] = {
    INTERRUPTED: "interrupted; run the same command to resume\n",
    TERMINATED: "terminated; run the same command to resume\n",
}
_ERROR_FILE = "TORCHELASTIC_ERROR_FILE"  # Its folder lies in one that all processes share.
_LOOK_S = 1.0


def launcher_id() -> int | None:
    """Return the process id of roadseg's launcher, which reports how this process ended."""
    text = os.environ.get(LAUNCHED, "")
    return int(text) if text.isdecimal() else None


def end_with_launcher() -> None:
    """Let this process and its children be killed when its launcher has ended.

    The launcher is one of roadseg, or torchrun; without one, nothing is done.
    """
    launcher = launcher_id() or (os.getppid() if "LOCAL_RANK" in os.environ else None)
    if launcher is not None:
        threading.Thread(target=_end_after, args=(launcher,), daemon=True).start()


def _end_after(launcher: int) -> None:
    while os.getppid() == launcher:
        time.sleep(_LOOK_S)
    if sys.platform != "win32" and os.getpgrp() == os.getpid():  # PyTorch has made this group.
        os.killpg(0, signal.SIGKILL)
    os._exit(128 + signal.SIGTERM)


def is_first_to_write(line: str) -> bool:
    """Return whether this process is the first on its machine to write a line."""
    file = os.environ.get(_ERROR_FILE)
    if not file or "LOCAL_RANK" not in os.environ:
        return True
    name = hashlib.sha256(line.encode(errors="replace")).hexdigest()[:16]
    try:
        (Path(file).parents[1] / f"{name}.written").touch(exist_ok=False)
    except FileExistsError:
        return False
    except FileNotFoundError:  # The folder is gone with the launcher.
        return True
    return True
