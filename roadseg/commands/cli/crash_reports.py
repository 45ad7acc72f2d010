"""Crash reports: files with all that is needed to fix a bug of the program.

Nothing but the standard library is imported, so that a report can be written whatever is broken.
"""

import os
import platform
import shlex
import tempfile
import time
import traceback
from collections.abc import Iterable, Sequence
from importlib.metadata import distributions
from pathlib import Path

from roadseg.system.files import whole
from roadseg.system.web.keys import without_keys

_LARGEST_CONFIG = 2**20  # Characters; the rest of a larger config is left out.
# Variables whose names begin so decide how a command runs; none of them is a secret.
_VARIABLES = (
    *("ROADSEG_", "OMP_", "KMP_", "MKL_", "OPENBLAS_", "TORCH", "PYTORCH_", "PT_HPU_", "LC_"),
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "CUDA_VISIBLE_DEVICES", "LANG"),
    *("LD_PRELOAD", "MALLOC_CONF", "PYTHONPATH", "PYTHONUTF8", "GDAL_CACHEMAX", "TMPDIR"),
)
_HEAD = """\
This is a bug in roadseg. Please send us this file, so that we can fix it. It contains the command
line and the config as you typed them: check it for anything that others should not see.
"""


def write_report(
    error: BaseException, words: Sequence[str], *, config: Path | None, folders: Iterable[Path]
) -> Path | None:
    """Write what is known of an error into the first folder that takes it.

    Args:
        error: the exception that ended the command.
        words: the command line, after the program.
        config: the config file that was used, if there was one.
        folders: where it may go; the folder for temporary files is the last resort.

    Returns:
        The file; None if no folder takes it.
    """
    text = without_keys(_text(error, words, config))
    name = f"roadseg-error-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.txt"
    for folder in filter(Path.is_dir, (*folders, Path(tempfile.gettempdir()))):
        try:
            path = folder.absolute() / name
            with whole(path) as partial:
                partial.write_text(text, encoding="utf-8", errors="backslashreplace")
        except (OSError, ValueError):
            continue
        return path
    return None


def _text(error: BaseException, words: Sequence[str], config: Path | None) -> str:
    packages = {f"{package.name} {package.version}" for package in distributions()}
    parts = {
        "Command": shlex.join(["roadseg", *words]),
        "Error": "".join(traceback.format_exception(error)),
        "Config": _config(config),
        "Machine": f"{platform.platform()}, {os.cpu_count()} CPUs",
        "Variables": "\n".join(
            f"{key}={value}"
            for key, value in sorted(os.environ.items())
            if key.startswith(_VARIABLES)
        ),
        "Versions": "\n".join([f"Python {platform.python_version()}", *sorted(packages)]),
    }
    return _HEAD + "".join(f"\n{title}\n{text or 'none'}\n" for title, text in parts.items())


def _config(path: Path | None) -> str:
    """Return path and text of the config, or why it cannot be read."""
    if path is None:
        return ""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return f"{path}\n{file.read(_LARGEST_CONFIG)}"
    except (OSError, ValueError) as error:
        return f"{path}: {error}"
