"""Profiles: traces of some training steps, which a browser shows."""

import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from torch.profiler import ProfilerActivity, profile, schedule

from roadseg.learn.hardware.devices import Device
from roadseg.system.files import atomic_write

_log = logging.getLogger(__name__)
_WARMUP = (1, 2)  # Steps that are skipped, and steps that are traced and discarded.
_OPERATORS = 6  # Operators that the summary names.
_SILENT = "99"  # Log level that hides Kineto's errors, such as that there is no GPU.

AfterStep = Callable[[], None]


@contextmanager
def profiled(folder: Path, *, steps: int, device: Device, rank: int) -> Iterator[AfterStep]:
    """Write a trace of the first steps in the block, after a few to warm up.

    The trace is `rank-<rank>.json.gz`, for chrome://tracing or ui.perfetto.dev; a line of the log
    names the operators that took most time. Results do not change. If the block ends early, the
    trace has fewer steps, or a warning says that there is none.

    Args:
        steps: steps to trace; 0 writes no trace.

    Yields:
        A function to call after every step.

    Raises:
        OutputError: if the trace cannot be written.
    """
    if not steps:
        yield lambda: None
        return
    os.environ.setdefault("KINETO_LOG_LEVEL", _SILENT)
    path = folder / f"rank-{rank}.json.gz"
    written = []

    def write(profiler: profile) -> None:
        with atomic_write(path) as partial:
            profiler.export_chrome_trace(str(partial))
        written.append(path)
        _log.info("%s: %s", path, summary_of(profiler))

    wait, warmup = _WARMUP
    with profile(
        activities=_activities(device),
        schedule=schedule(wait=wait, warmup=warmup, active=steps, repeat=1),
        on_trace_ready=write,
        acc_events=True,
    ) as profiler:
        yield profiler.step
    if not written:
        _log.warning(
            "nothing was profiled: the training ended within the %d warm-up steps",
            wait + warmup,
        )


def summary_of(profiler: profile) -> str:
    """Return a line with the operators that took most time, without those they call, in percent.

    Time is that on an accelerator if there is one, else that on the CPU. ProfilerStep stands for
    the time outside operators: Python, and waiting for windows.
    """
    events = profiler.key_averages()
    on_device = any(event.self_device_time_total for event in events)
    time_us: Counter[str] = Counter()
    for event in events:
        took = event.self_device_time_total if on_device else event.self_cpu_time_total
        time_us[event.key.removeprefix("aten::").partition("#")[0]] += took
    total_us = max(time_us.total(), 1)
    shares = [f"{name} {us / total_us:.0%}" for name, us in time_us.most_common(_OPERATORS)]
    where = "of device time" if on_device else "of the processor"
    return f"{total_us / 1e6:.2f} s {where}: {', '.join(shares)}"


def _activities(device: Device) -> list[ProfilerActivity]:
    other = getattr(ProfilerActivity, device.type.upper(), None)
    return [ProfilerActivity.CPU, *([other] if other and device.type != "cpu" else [])]
