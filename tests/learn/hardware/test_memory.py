"""Freed memory stays in the process, which then need not get it again page by page."""

import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys
import numpy as np
from roadseg.learn.hardware.cpu import keep_freed_memory

if sys.argv[1] == "kept":
    assert keep_freed_memory()
for number in range(5):
    np.ones(2**25, dtype=np.uint8)
    if number == 0:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def page_faults(how):
    words = [sys.executable, "-c", PROGRAM, how]
    return int(subprocess.run(words, capture_output=True, check=True, text=True).stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="only glibc is told")
def test_memory_that_is_kept_is_not_faulted_in_again():
    assert page_faults("kept") < 20 < page_faults("given back")  # some pages are huge
