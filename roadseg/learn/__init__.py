"""Learning: everything that needs torch.

GNU OpenMP, which torch loads, reads from the environment how often a thread that waits for others
looks for them before it sleeps. By its default they look for milliseconds, and whatever else a core
has to do holds all of them up: one busy process beside two threads made training 17 times as slow,
with 3,000 looks 2.2 times, and on a quiet machine it takes the same time (measured on two cores).
"""

import os

if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "3000")  # Before anything here imports torch.
