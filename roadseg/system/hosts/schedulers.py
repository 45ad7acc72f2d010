"""Schedulers: work on the workers of a Dask scheduler, which answers in time or is given up."""

import importlib
import itertools
import logging
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from roadseg.errors import ConfigError, DataError, RoadsegError
from roadseg.system.text import count, one_line

_CONNECT_S = 10.0  # Seconds to reach a port, at most half of the time; the rest is for the answer.
_CLOSE_S = 5.0  # Seconds to leave a cluster.
_CHECKS = 10  # Checks of the cluster in the time that it may be without workers.
_CHECK_S = 5.0  # Longest time between two checks, seconds.
_LEAST_TASKS = 32  # Tasks with the scheduler at once, from which adaptive clusters start workers.
_TASKS_OF_A_THREAD = 3  # The same, for each thread of all workers.
_LOGGERS = ("distributed", "distributed.client")  # These log errors that they raise as well.
_GOES_ON = "finished work is kept; run the same command to resume"

_log = logging.getLogger(__name__)

Item = TypeVar("Item")
Result = TypeVar("Result")
Work = Callable[[Item], Result]


@dataclass(frozen=True)
class Outcome(Generic[Result]):
    """The outcome of one item.

    Attributes:
        index: its place among the items.
        result: what the work returned; None if it failed.
        error: why it failed; None if it did not.
    """

    index: int
    result: Result | None = None
    error: RoadsegError | None = None


def outcome_of(work: Work[Item, Result], index: int, item: Item) -> Outcome[Result]:
    """Do the work for an item and return its outcome; errors other than RoadsegError are raised."""
    try:
        return Outcome(index, result=work(item))
    except RoadsegError as error:
        return Outcome(index, error=error)


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
        self._checked_at = -math.inf  # Time at which that was looked at.
        self._check_s = min(timeout_s / _CHECKS, _CHECK_S)
        self._last_seen: dict[str, float] = {}  # By worker, on the clock of the scheduler.
        self._threads = 0  # Of all workers.
        self._client: Any = None

    def connect(self) -> None:
        """Wait until there are workers, and make them known to this process.

        Raises:
            ConfigError: if the address is none.
            RoadsegError: if no scheduler answers, or has no worker that can do our work.
        """
        try:
            self._dask.comm.get_address_host_port(self._address)
        except (ValueError, ImportError) as error:
            raise ConfigError(
                f"--scheduler {self._address}: expected an address such as tcp://host:8786 "
                f"({one_line(error):.200})"
            ) from error
        try:
            if not (is_able := self._can_work()):
                _log.info("--scheduler %s: waiting for workers", self._address)
            while not is_able:
                self._require_time()
                time.sleep(self._check_s)
                is_able = self._can_work()
            self._client = self._dask.Client(
                self._address, timeout=self._timeout_s, set_as_default=False
            )
        except RoadsegError:
            raise
        except Exception as error:
            # An address without a scheduler may fail anywhere in Dask, with any error.
            reason = f"{one_line(error) or type(error).__name__:.200}"
            if isinstance(error, TimeoutError) and self._left_s <= 0:
                reason = f"no answer within {self._timeout_s:g} s, compute.scheduler_timeout_s"
            raise RoadsegError(
                f"--scheduler {self._address}: no Dask scheduler answers there ({reason}); start "
                "one with `dask scheduler`, or use another address"
            ) from error

    def outcomes(
        self, work: Work[Item, Result], items: Sequence[Item]
    ) -> Iterator[Outcome[Result]]:
        """Do the work for every item on workers, and yield the outcomes as they end.

        Some tasks for each thread are with the scheduler at a time, so that neither they nor their
        results pile up. The outcome of a task that killed the workers that took it is an error.

        Raises:
            RoadsegError: if the scheduler or its workers are gone for longer than they may be.
        """
        ended: SimpleQueue[Any] = SimpleQueue()
        numbers: dict[Any, int] = {}
        waiting = iter(enumerate(items))
        while True:
            room = max(_LEAST_TASKS, _TASKS_OF_A_THREAD * self._threads) - len(numbers)
            for number, item in itertools.islice(waiting, max(room, 0)):
                future = self._client.submit(_do_task, work, number, item, pure=False)
                numbers[future] = number
                future.add_done_callback(ended.put)
            if not numbers:
                return
            if time.monotonic() - self._checked_at >= self._check_s:
                self._check()
            try:
                future = ended.get(timeout=self._check_s)
            except Empty:
                continue
            # A result shows that the cluster works, which gives it its full time again.
            yield self._outcome(future, numbers.pop(future))
            self._able_at = time.monotonic()

    def close(self) -> None:
        """Cancel pending tasks, and leave the cluster."""
        # TimeoutError is an OSError. A scheduler that is gone needs no goodbye.
        with suppress(OSError):
            self._client.close(timeout=_CLOSE_S)

    def _outcome(self, future: Any, number: int) -> Any:  # noqa: ANN401 - of any work
        try:
            return future.result()
        except self._dask.KilledWorker as error:
            message = (
                f"the workers that processed item {number} died, most likely because memory ran out"
            )
            return Outcome(number, error=RoadsegError(f"{message} ({one_line(error):.200})"))
        except self._dask.CancelledError as error:
            raise self._lost() from error
        except Exception:
            # A worker of another version fails in odd ways; the check names the versions.
            self._check()
            raise
        finally:
            future.release()

    def _check(self) -> None:
        """Check that the cluster is still able to work, or was so not long ago."""
        try:
            is_able = self._can_work()
        except RoadsegError:
            raise
        except Exception as error:
            if self._left_s <= 0:
                raise self._lost() from error
            return
        if not is_able:
            self._require_time()

    def _can_work(self) -> bool:
        """Return whether there is a worker at work or ready to be.

        Raises:
            RoadsegError: if a worker could not do what this process does.
            Exception: any other, if what listens there is no scheduler, or does not answer.
        """
        self._checked_at = time.monotonic()
        workers = self._ask()
        self._check_versions(workers)
        # The scheduler lists a worker whose host was cut off for minutes, but does not see it.
        seen = {name: worker["last_seen"] for name, worker in workers.items()}
        is_able = any(
            (worker["status"] == "running" or worker.get("metrics", {}).get("executing"))
            and seen[name] != self._last_seen.get(name)
            for name, worker in workers.items()
        )
        if seen.keys() != self._last_seen.keys():
            self._threads = sum(worker["nthreads"] for worker in workers.values())
            if workers:
                of = count(self._threads, "thread")
                _log.info(
                    "--scheduler %s: %s with %s", self._address, count(len(seen), "worker"), of
                )
        self._last_seen = seen
        if is_able:
            self._able_at = time.monotonic()
        return is_able

    def _ask(self) -> dict[str, Any]:
        """Return the scheduler's facts of its workers, with the versions of those that are new.

        It is asked in a connection of its own, so that one that was lost unnoticed does not matter.
        """
        # Even with no time left one question is asked, as the cluster may have recovered.
        wait_s = max(self._left_s, self._check_s)
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

    def _require_time(self) -> None:
        if self._left_s <= 0:
            raise RoadsegError(
                f"--scheduler {self._address}: it has had no usable worker for "
                f"{self._timeout_s:g} s (compute.scheduler_timeout_s); start workers with "
                f"`dask worker`; {_GOES_ON}"
            )

    def _lost(self) -> RoadsegError:
        return RoadsegError(
            f"--scheduler {self._address}: it no longer answers; restart it; {_GOES_ON}"
        )


def _do_task(work: Work[Item, Result], number: int, item: Item) -> Outcome[Result]:
    """Return the outcome of an item on a worker, which errors name unless they are about data."""
    outcome = outcome_of(work, number, item)
    if outcome.error is not None and not isinstance(outcome.error, DataError):
        worker = importlib.import_module("distributed").get_worker()
        outcome.error.args = (f"{outcome.error} (on worker {worker.address})",)
    return outcome


def _versions(answer: dict[str, Any]) -> tuple[str | None, str]:
    """Return the versions of roadseg, if it is there, and of Python from an answer of Dask."""
    packages = answer["packages"]
    return packages["roadseg"], ".".join(packages["python"].split(".")[:2])


def _describe(versions: tuple[str | None, str]) -> str:
    roadseg, python = versions
    return f"{f'roadseg {roadseg}' if roadseg else 'no roadseg'} in Python {python}"
