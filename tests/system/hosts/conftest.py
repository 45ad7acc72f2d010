"""Hosts: network namespaces with disks of their own, each with a worker of one scheduler."""

import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

PATIENCE_S = 60.0  # of a test with a process that is to start
PROGRAM = "import sys\n{before}\nfrom distributed.cli import {module}\n{module}.main()"
PATH = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
QUICK = {  # A host that was cut off is given up by Dask after these; by default after 30 s.
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP": "11s",
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "11s",
}


def wait_until(is_true, patience_s=PATIENCE_S):
    """Wait for what is to come true; return it."""
    end = time.monotonic() + patience_s
    while not (found := is_true()):
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.05)
    return found


def why_no_hosts():
    """Say why this machine can have no namespaces of its own; nothing if it can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "network namespaces need root on Linux"
    if not (shutil.which("ip") and shutil.which("unshare")):
        return "network namespaces need the programs ip (iproute2) and unshare (util-linux)"
    tried = [["ip", "netns", "add", "roadseg-probe"], ["ip", "netns", "del", "roadseg-probe"]]
    if any(subprocess.run(words, capture_output=True, check=False).returncode for words in tried):
        return "this machine allows no network namespaces"
    return ""


class Hosts:
    """A bridge, a scheduler on it, and hosts that see each other by it alone.

    Each host has a network of its own, and a /tmp of its own in the place of that of this process.
    """

    def __init__(self, hidden):
        """Draw the bridge and start the scheduler; `hidden` is what no host sees."""
        self.id = os.getpid() % 10_000
        self.network = f"10.{100 + self.id // 250}.{self.id % 250}"
        self.hidden, self.started, self.names = hidden, [], []
        ip("link", "add", self.bridge, "type", "bridge")
        ip("addr", "add", f"{self.network}.1/24", "dev", self.bridge)
        ip("link", "set", self.bridge, "up")
        with socket.create_server((f"{self.network}.1", 0)) as server:
            port = server.getsockname()[1]
        # The command knows the scheduler by an address that no host can reach.
        self.address = f"tcp://127.0.0.1:{port}"
        self.address_of_workers = f"tcp://{self.network}.1:{port}"
        place = ["--port", str(port), "--no-dashboard"]
        program = PROGRAM.format(module="dask_scheduler", before="")
        self.scheduler = self.run([sys.executable, "-c", program, *place])

    @property
    def bridge(self):
        return f"rh{self.id}"

    def start(self, *, disk="1g", before="", threads=1):
        """Start a host with a worker; return its number."""
        number = len(self.names)
        name = f"rh{self.id}-{number}"
        self.names.append(name)
        ip("netns", "add", name)
        ip("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
        ip("link", "set", name, "master", self.bridge, "up")
        inside = ("netns", "exec", name, "ip")
        ip(*inside, "addr", "add", f"{self.network}.{number + 2}/24", "dev", "eth0")
        ip(*inside, "link", "set", "eth0", "up")
        ip(*inside, "link", "set", "lo", "up")
        hide = [f"mount -t tmpfs -o size={disk} none /tmp"]
        if not self.hidden.is_relative_to("/tmp"):  # noqa: S108 - another one on each host
            hide += [f"mount -t tmpfs none '{self.hidden}'"]
        script = " && ".join([*hide, "mkdir /tmp/worker", "cd /tmp/worker", 'exec "$@"'])
        program = PROGRAM.format(module="dask_worker", before=before)
        worker = [
            *(sys.executable, "-c", program, self.address_of_workers, "--nthreads", str(threads)),
            *("--no-nanny", "--no-dashboard", "--local-directory", "/tmp/worker"),  # noqa: S108
        ]
        self.run(["ip", "netns", "exec", name, "unshare", "-m", "sh", "-c", script, "-", *worker])
        return number

    def cut(self, number):
        """Cut a host off the network: what is sent to it vanishes, and it sends nothing."""
        ip("link", "set", self.names[number], "down")

    def run(self, words):
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        environment = os.environ | QUICK | {"PYTHONPATH": PATH, "HOME": "/nowhere"}
        self.started.append(subprocess.Popen(words, env=environment, **quiet))
        return self.started[-1]

    def end(self):
        for process in self.started:
            process.kill()
            process.wait()
        for name in self.names:
            ip("link", "del", name)  # Without it the kernel keeps the name for a while.
            ip("netns", "del", name)
        ip("link", "del", self.bridge)


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True)  # noqa: S607


@pytest.fixture
def hosts(tmp_path_factory):
    """Give hosts of this test's own, or skip it."""
    pytest.importorskip("distributed")
    if "ROADSEG_HOSTS" not in os.environ:
        pytest.skip("takes minutes; set ROADSEG_HOSTS=1 to run it")
    if why := why_no_hosts():
        pytest.skip(why)
    hosts = Hosts(tmp_path_factory.getbasetemp())
    try:
        yield hosts
    finally:
        hosts.end()
