"""Shortages: what a machine ran out of, by the error that any library raises."""

import errno
import re

from roadseg.errors import OutputError, RoadsegError

_MEMORY = (
    "out of memory: use fewer workers (--workers), a smaller graph.block_px, or smaller batches "
    "and windows (batch_size and window_px of train or predict)"
)
_DEVICE_MEMORY = (
    "the device is out of memory: lower train.batch_size or predict.batch_size (train.accumulate "
    "compensates for this in training), choose a smaller window_px or precision bf16, end other "
    "programs that use the device, or choose --device cpu"
)
# The errors of CUDA, ROCm, Intel's GPUs, Gaudi and Apple's GPUs.
_ON_DEVICE = re.compile(
    r"(CUDA|HIP|XPU|HPU|MPS)\b.*out of memory|PT_DEVMEM|OUT_OF_DEVICE_MEMORY|STATUS_ALLOC_FAILED",
    re.DOTALL,
)
_ON_CPU = re.compile(r"DefaultCPUAllocator|std::bad_alloc|Cannot allocate memory")
# Numbers of the errors with which a system refuses a file.
_REFUSED = {
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM),
    *(errno.EMFILE, errno.ENFILE, errno.EIO, errno.ESTALE, errno.ENAMETOOLONG),
}


def shortage(error: BaseException) -> RoadsegError | None:
    """Return an error that says what the machine lacks and what to do; None if it lacks nothing.

    Devices are known by the names and words of their libraries, so that none has to be loaded.
    """
    if isinstance(error, OSError) and error.errno in _REFUSED:
        return OutputError(_refusal(error))
    message, kinds = str(error), {kind.__name__ for kind in type(error).__mro__}
    if "OutOfMemoryError" in kinds or _ON_DEVICE.search(message):
        return RoadsegError(_DEVICE_MEMORY)
    is_full = isinstance(error, OSError) and error.errno == errno.ENOMEM
    if is_full or isinstance(error, MemoryError) or _ON_CPU.search(message):
        return RoadsegError(_MEMORY)
    return None


def _refusal(error: OSError) -> str:
    """Return what the system refused, and of which file."""
    which = error.filename2 or error.filename
    message = f"{error.strerror}; check the free disk space and the permissions of the files"
    return message if which is None else f"{which!s:.500}: {message}"
