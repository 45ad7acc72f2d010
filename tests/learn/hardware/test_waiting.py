"""How long threads of OpenMP look for others before they sleep."""

import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "3000"),
        ({"GOMP_SPINCOUNT": "7"}, "7"),
        ({"OMP_WAIT_POLICY": "ACTIVE"}, "None"),
    ],
)
def test_it_is_set_before_torch_is_there_unless_somebody_has(given, expected):
    code = (
        "import os, sys, roadseg.learn; assert 'torch' not in sys.modules; "
        "print(os.environ.get('GOMP_SPINCOUNT'))"
    )
    ours = {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"}
    environment = {key: value for key, value in os.environ.items() if key not in ours} | given
    command = [sys.executable, "-c", code]
    printed = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == expected
