"""Freed memory stays in the process, which then need not get it again page by page."""

import sys

import pytest

PROGRAM = """
import resource
import numpy as np
from roadseg.learn.hardware.cpu import keep_freed_memory

assert not {kept} or keep_freed_memory()
for number in range(5):
    np.ones(2**25, dtype=np.uint8)
    if number == 0:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
answer(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only glibc is told")
def test_memory_that_is_kept_is_not_faulted_in_again(answer):
    kept, given_back = (answer(PROGRAM.format(kept=kept)) for kept in (True, False))
    assert kept < 20 < given_back  # some pages are huge
