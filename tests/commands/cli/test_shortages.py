import errno
import os

import numpy as np
import pytest
import torch

from roadseg.commands.cli.group import shortage
from roadseg.errors import RoadsegError


def refusal(number):
    return OSError(number, os.strerror(number), "/data/a.tif")


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
        torch.OutOfMemoryError("XPU out of memory. Tried to allocate 2.00 GiB."),
        RuntimeError("HIP out of memory. Tried to allocate 20.00 MiB"),
        RuntimeError("MPS backend out of memory (MPS allocated: 9.05 GB)"),
        RuntimeError("[Rank:0] FATAL ERROR :: MODULE:PT_DEVMEM Allocation failed for size::91"),
        RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
    ],
    ids=str,
)
def test_a_device_without_memory_is_told_with_what_to_do(error):
    assert "lower train.batch_size" in str(shortage(error))


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        refusal(errno.ENOMEM),
        RuntimeError("std::bad_alloc"),
        ImportError("libtorch_cuda.so: failed to map segment from shared object"),
    ],
    ids=repr,
)
def test_too_little_memory_is_told_with_what_to_do(error):
    told = shortage(error)
    assert told.exit_code == 1
    assert "use fewer workers" in str(told)


def test_what_the_libraries_raise_is_known():
    with pytest.raises(MemoryError) as numpys:
        np.empty(2**55)
    with pytest.raises(RuntimeError) as torchs:
        torch.empty(2**55)
    assert all("use fewer workers" in str(shortage(e.value)) for e in (numpys, torchs))


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES, errno.EMFILE, errno.ENAMETOOLONG])
def test_what_the_system_refuses_is_about_a_file(number):
    told = shortage(refusal(number))
    assert told.exit_code == 3
    assert str(told).startswith(f"/data/a.tif: {os.strerror(number)}; ")


@pytest.mark.parametrize(
    "error", [KeyError("x"), RuntimeError("x"), refusal(errno.ENOENT), RoadsegError("x")], ids=repr
)
def test_other_errors_are_no_shortage(error):
    assert shortage(error) is None
