#!/usr/bin/env python
"""Run a stage of roadseg on Dask workers that come and go as jobs of Slurm.

    pip install dask-jobqueue
    python configs/cluster/dask_slurm.py --most 20 -- predict --output probabilities images

Runs on a host that the workers can reach, and that can submit jobs. The workers need the same
files under the same paths; what they say is in roadseg-worker-logs/. Each job is one worker;
other queues need another class of dask-jobqueue (PBSCluster, SGECluster, LSFCluster,
HTCondorCluster) in place of SLURMCluster.
"""

import argparse
import subprocess
import sys

from dask_jobqueue import SLURMCluster


def main() -> int:
    """Start the scheduler here, ask for workers, run the command; return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--least", type=int, default=1, help="workers that are kept")
    parser.add_argument("--most", type=int, default=8, help="workers at most")
    parser.add_argument("--cores", type=int, default=1, help="cores of each worker")
    parser.add_argument("--memory", default="4GB", help="memory of each worker")
    parser.add_argument("--walltime", default="04:00:00", help="longest time of a worker")
    parser.add_argument("--partition", help="partition of Slurm")
    parser.add_argument("--interface", help="network interface of this host to the workers")
    parser.add_argument(
        "--patience", type=float, default=3600, help="seconds without a worker, as in a queue"
    )
    parser.add_argument("command", nargs="+", help="of roadseg, after --")
    given = parser.parse_args()
    with SLURMCluster(
        queue=given.partition,
        cores=given.cores,
        processes=1,
        memory=given.memory,
        walltime=given.walltime,
        scheduler_options={"interface": given.interface},
        log_directory="roadseg-worker-logs",
        job_name="roadseg-worker",
    ) as cluster:
        cluster.adapt(minimum=given.least, maximum=given.most)
        command = [sys.executable, "-m", "roadseg", *given.command]
        command += ["--scheduler", cluster.scheduler_address]
        command += ["--set", f"compute.scheduler_timeout_s={given.patience}"]
        return subprocess.run(command, check=False).returncode  # noqa: S603


if __name__ == "__main__":
    sys.exit(main())
