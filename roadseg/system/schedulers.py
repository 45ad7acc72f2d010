"""Schedulers: work on the workers of a Dask scheduler, which answers in time or is given up."""

import importlib
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import Any

from roadseg.errors import ConfigError, RoadsegError
from roadseg.system.text import one_line

_CONNECT_S = 10.0  # Seconds to reach a port, at most half of the time; the rest is for the answer.
_CLOSE_S = 5.0  # Seconds to leave a cluster.
_CHECKS = 10  # The cluster is checked so often in the time that it may be without workers.
_LOGGERS = ("distributed", "distributed.client")  # These log errors that they raise as well.
_GOES_ON = "finished work is kept; run the same command to resume"

_log = logging.getLogger(__name__)


@contextmanager
def cluster_of(address: str, *, timeout_s: float) -> Iterator["Cluster"]:
    """Yield the cluster of a scheduler once it has a worker.

    Args:
        address: of the scheduler, such as `tcp://host:8786`.
        timeout_s: how long the scheduler may take to answer, and be without workers.

    Raises:
        ConfigError: if this is no address.
        RoadsegError: if Dask is not installed, no scheduler answers there, it has no workers, or
            a worker could not do what this process does.
    """
    try:
        dask: Any = importlib.import_module("distributed")
    except ImportError as error:
        raise RoadsegError(
            f"--scheduler {address}: Dask is not installed; pip install 'roadseg[dask]'"
        ) from error
    # Errors are raised as well, so each would stand twice in the log.
    for name in _LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    runner = dask.utils.LoopRunner()
    runner.start()
    try:
        cluster = Cluster(dask, runner.loop, address, timeout_s)
        cluster.connect()
        try:
            yield cluster
        finally:
            cluster.close()
    finally:
        runner.stop()


class Cluster:
    """A scheduler and its workers."""

    def __init__(
        self,
        dask: Any,  # noqa: ANN401 - an optional library
        loop: Any,  # noqa: ANN401 - that of Dask, in a thread of its own
        address: str,
        timeout_s: float,
    ) -> None:
        """Set the address, without any connection yet."""
        self._dask, self._loop = dask, loop
        self._address, self._timeout_s = address, timeout_s
        self._ours = _versions(dask.versions.get_versions(["roadseg"]))
        self._same_versions: set[str] = set()  # Names of the workers whose versions are ours.
        self._able_at = time.monotonic()  # Time at which the cluster was last able to work.
        self._client: Any = None

    def connect(self) -> None:
        """Wait until there are workers, and make them known to this process.

        Raises:
            ConfigError: if the address is none.
            RoadsegError: if no scheduler answers, or has no worker that can do our work.
        """
        self._check_address()
        try:
            if not self._can_work():
                _log.info("--scheduler %s: waiting for workers", self._address)
            while not self._can_work():
                self._require_time("has had no usable worker")
                time.sleep(self._timeout_s / _CHECKS)
            self._client = self._dask.Client(
                self._address, timeout=self._timeout_s, set_as_default=False
            )
        except RoadsegError:
            raise
        except Exception as error:
            # An address without a scheduler may fail anywhere in Dask, with any error.
            raise self._no_scheduler(error) from error

    def results(
        self, function: Callable[[int, Any], Any], items: Sequence[Any]
    ) -> Iterator[tuple[int, Any]]:
        """Do the work for every item, and yield its number with its result, as they end.

        The result of an item that killed the workers that took it is an error.

        Raises:
            RoadsegError: if the scheduler or its workers are gone for longer than they may be.
        """
        ended: SimpleQueue[Any] = SimpleQueue()
        numbers = {}
        for number, item in enumerate(items):
            future = self._client.submit(function, number, item, pure=False)
            numbers[future] = number
            future.add_done_callback(ended.put)
        while numbers:
            try:
                future = ended.get(timeout=self._timeout_s / _CHECKS)
            except Empty:
                self._check()
                continue
            # A result shows that the cluster works, which gives it its full time again.
            yield (number := numbers.pop(future)), self._result(future, number)
            self._able_at = time.monotonic()

    def close(self) -> None:
        """Cancel what is not done, and leave the cluster."""
        # TimeoutError is an OSError. A scheduler that is gone needs no goodbye.
        with suppress(OSError):
            self._client.close(timeout=_CLOSE_S)

    def _result(self, future: Any, number: int) -> Any:  # noqa: ANN401 - of any work
        try:
            return future.result()
        except self._dask.KilledWorker as error:
            message = (
                f"the workers that processed item {number} died, most likely because memory ran out"
            )
            return RoadsegError(f"{message} ({one_line(error):.200})")
        except self._dask.CancelledError as error:
            raise self._lost() from error
        except Exception:
            # A worker of another version fails in odd ways; the check names the versions.
            self._check()
            raise
        finally:
            future.release()

    def _check(self) -> None:
        """Check that the cluster is still able to work, or was so not long ago.

        Raises:
            RoadsegError: if not.
        """
        try:
            is_able = self._can_work()
        except RoadsegError:
            raise
        except Exception as error:
            if self._left_s <= 0:
                raise self._lost() from error
            return
        if not is_able:
            self._require_time("has had no usable worker")

    def _can_work(self) -> bool:
        """Return whether there is a worker at work or ready to be.

        Raises:
            RoadsegError: if a worker could not do what this process does.
            Exception: any other, if what listens there is no scheduler, or does not answer.
        """
        workers = self._ask()
        self._check_versions(workers)
        is_able = any(
            worker["status"] == "running" or worker.get("metrics", {}).get("executing")
            for worker in workers.values()
        )
        if is_able:
            self._able_at = time.monotonic()
        return is_able

    def _ask(self) -> dict[str, Any]:
        """Return the scheduler's facts of its workers, with the versions of those that are new.

        It is asked in a connection of its own, so that one that was lost unnoticed does not matter.
        """
        # Even with no time left one question is asked, as the cluster may have recovered.
        wait_s = max(self._left_s, self._timeout_s / _CHECKS)
        workers: dict[str, Any] = self._dask.utils.sync(
            self._loop, self._answer, callback_timeout=wait_s
        )
        return workers

    async def _answer(self) -> dict[str, Any]:
        secured = self._dask.Security().get_connection_args("client")
        async with self._dask.rpc(
            self._address, timeout=min(_CONNECT_S, self._timeout_s / 2), connection_args=secured
        ) as scheduler:
            workers: dict[str, Any] = (await scheduler.identity())["workers"]
            if new := [name for name in workers if name not in self._same_versions]:
                question = {"op": "versions", "packages": ["roadseg"]}
                answers = await scheduler.broadcast(msg=question, workers=new, on_error="ignore")
                for name, versions in answers.items():
                    workers[name]["versions"] = _versions(versions)
        return workers

    def _check_address(self) -> None:
        try:
            self._dask.comm.get_address_host_port(self._address)
        except (ValueError, ImportError) as error:
            raise ConfigError(
                f"--scheduler {self._address}: expected an address such as tcp://host:8786 "
                f"({one_line(error):.200})"
            ) from error

    def _check_versions(self, workers: dict[str, Any]) -> None:
        for name, worker in workers.items():
            if (theirs := worker.get("versions")) is None:
                continue
            if theirs != self._ours:
                raise RoadsegError(
                    f"--scheduler {self._address}: worker {name} has {_describe(theirs)}, but "
                    f"this process has {_describe(self._ours)}; install the same versions there"
                )
            self._same_versions.add(name)

    @property
    def _left_s(self) -> float:
        return self._able_at + self._timeout_s - time.monotonic()

    def _require_time(self, what: str) -> None:
        if self._left_s <= 0:
            raise RoadsegError(
                f"--scheduler {self._address}: it {what} for {self._timeout_s:g} s "
                f"(compute.scheduler_timeout_s); start workers with `dask worker`; {_GOES_ON}"
            )

    def _no_scheduler(self, error: Exception) -> RoadsegError:
        """Return the error of an address at which something else listens, or nothing."""
        reason = f"{one_line(error) or type(error).__name__:.200}"
        if isinstance(error, TimeoutError) and self._left_s <= 0:
            reason = f"no answer within {self._timeout_s:g} s, compute.scheduler_timeout_s"
        return RoadsegError(
            f"--scheduler {self._address}: no Dask scheduler answers there ({reason}); start one "
            "with `dask scheduler`, or use another address"
        )

    def _lost(self) -> RoadsegError:
        return RoadsegError(
            f"--scheduler {self._address}: it no longer answers; restart it; {_GOES_ON}"
        )


def _versions(answer: dict[str, Any]) -> tuple[str | None, str]:
    """Return the versions of roadseg, if it is there, and of Python from an answer of Dask."""
    packages = answer["packages"]
    return packages["roadseg"], ".".join(packages["python"].split(".")[:2])


def _describe(versions: tuple[str | None, str]) -> str:
    roadseg, python = versions
    return f"{f'roadseg {roadseg}' if roadseg else 'no roadseg'} in Python {python}"
