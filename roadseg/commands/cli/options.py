"""Options: what several commands of the command line can be told."""

import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import click

Command = Callable[..., Any]
Option = Callable[[Command], Command]

CONFIG = click.option(
    "--config",
    "config_path",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Config file; else ROADSEG_CONFIG, else ./roadseg.json.",
)


def _complete_setting(_ctx: click.Context, _param: click.Parameter, begun: str) -> list[str]:
    """Complete a key of the config, and after it a value if there is a choice of few."""
    return cast("list[str]", importlib.import_module("roadseg.config").completions(begun))


SET = click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="SECTION.KEY=VALUE",
    shell_complete=_complete_setting,
    help="Change one setting for this command; may be repeated.",
)
RUN = click.option(
    "--run",
    "run_folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Run folder; else `run` of the config.",
)
FORCE = click.option("--force", is_flag=True, help="Do it again even if nothing changed.")
DRY_RUN = click.option(
    "--dry-run",
    is_flag=True,
    help="Say what would be read, written and taken, and whether it would; change nothing.",
)
JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
FOLD = click.option(
    "--fold", type=click.IntRange(min=0), default=0, show_default=True, help="Fold held out."
)
OUTPUT = click.option(
    "--output", type=click.Path(path_type=Path, file_okay=False), help="Folder for their results."
)


WORKERS = click.option(
    "--workers", type=click.IntRange(min=0), help="Processes to use; else compute.workers."
)
SCHEDULER = click.option(
    "--scheduler", metavar="ADDRESS", help="Dask scheduler to use instead, such as tcp://host:8786."
)
ON_ERROR = click.option(
    "--on-error",
    type=click.Choice(["stop", "skip"]),
    help="A scene that cannot be used stops the command, or is skipped (exit code 4).",
)
_DEVICE = click.option(
    "--device",
    type=click.Choice(["auto", "cpu", "cuda", "rocm", "xpu", "hpu", "mps"]),
    help="Where networks run; else compute.device.",
)
_PRECISION = click.option(
    "--precision",
    type=click.Choice(["auto", "fp32", "bf16", "fp16"]),
    help="Mixed precision or not; else compute.precision.",
)
_BACKEND = click.option(
    "--backend",
    type=click.Choice(["native", "ipex"]),
    help="On CPUs: PyTorch alone, or Intel's extension; else compute.backend.",
)
_COMPILE = click.option(
    "--compile/--no-compile", default=None, help="Compile the network first; else compute.compile."
)
_SETTINGS = {
    **dict.fromkeys(
        ("workers", "scheduler", "on_error", "device", "precision", "backend", "compile"), "compute"
    ),
    **dict.fromkeys(("engine", "tta", "gsd", "mask"), "predict"),
}
DEVICES = (_DEVICE, _PRECISION, _BACKEND, _COMPILE)
PREDICTING = (
    click.option(
        "--engine",
        type=click.Choice(["auto", "eager", "inductor", "int8", "openvino", "onnx"]),
        help="What runs the network; else predict.engine.",
    ),
    click.option(
        "--tta/--no-tta", default=None, help="Average over turns and flips; else predict.tta."
    ),
    click.option(
        "--gsd",
        type=click.Choice(["strict", "auto"]),
        help="Refuse or resample pixels of another size than in training; else predict.gsd.",
    ),
    click.option(
        "--mask/--no-mask", default=None, help="Also write a mask of roads; else predict.mask."
    ),
)


def _launcher(*more: str) -> Option:
    return click.option(
        "--launcher",
        type=click.Choice(["none", "pin", "run_cpu", "ipexrun", *more]),
        help="Start the command anew, bound to cores: by itself (pin, the default with any "
        "option below), or by a launcher of PyTorch or IPEX.",
    )


_BINDING = (
    click.option("--ncores", type=click.IntRange(min=1), help="Physical cores to use."),
    click.option("--nodes", metavar="N,N", help="NUMA nodes to use, such as 0,1."),
    click.option(
        "--allocator",
        type=click.Choice(["auto", "tcmalloc", "jemalloc", "default"]),
        help="Memory allocator to load; auto takes tcmalloc where it is found.",
    ),
    click.option(
        "--omp", type=click.Choice(["auto", "intel", "gnu"]), help="OpenMP library to load."
    ),
)
_PROCESSES = click.option(
    "--processes",
    type=click.IntRange(min=1),
    help="Processes that train together (torchrun), on GPUs or on parts of the cores.",
)
LAUNCHING = (_launcher(), *_BINDING)
LAUNCHING_SEVERAL = (_launcher("torchrun"), *_BINDING, _PROCESSES)
_LAUNCH = ("launcher", "ncores", "nodes", "allocator", "omp", "processes")


def together(*options: Option) -> Option:
    """Give a command several options."""

    def decorate(function: Command) -> Command:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def started(values: dict[str, Any], *, start: bool = True) -> tuple[str, ...]:
    """Take from the options of a command how to start, and where to compute.

    Start the command anew if that is wished; else return what it says for the config. Without
    `start` it is only made sure that it could be started.
    """
    wish = {key: values.pop(key, None) for key in _LAUNCH}
    if any(value is not None for value in wish.values()):
        launchers = importlib.import_module("roadseg.learn.hardware.launchers")
        nodes = _numbers("--nodes", wish.pop("nodes") or "")
        launchers.launch(launchers.Launch(nodes=nodes, **wish), sys.argv[1:], start=start)
    given = {key: values.pop(key, None) for key in _SETTINGS}
    return tuple(
        f"{_SETTINGS[key]}.{key}={json.dumps(value) if isinstance(value, bool) else value}"
        for key, value in given.items()
        if value is not None
    )


def _shard(
    _ctx: click.Context, _param: click.Parameter, value: str | None
) -> tuple[int, int] | None:
    if value is None:
        return None
    number, _, count = value.partition("/")
    if number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count):
        return int(number), int(count)
    msg = f"expected I/N with I from 1 to N, such as 1/8, got {value!r}"
    raise click.BadParameter(msg)


SHARD = click.option(
    "--shard",
    metavar="I/N",
    callback=_shard,
    help="Only every N-th scene, from the I-th on, for job arrays.",
)


def _numbers(option: str, text: str) -> tuple[int, ...]:
    parts = text.split(",") if text else []
    if not all(part.strip().isdecimal() for part in parts):
        msg = f"{option}: expected numbers with commas between, such as 0,1, got {text!r}"
        raise click.UsageError(msg)
    return tuple(int(part) for part in parts)
