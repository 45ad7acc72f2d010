"""Apply a function to many items: in this process, in several processes, or in threads."""

import multiprocessing
import os
import queue
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from itertools import islice
from multiprocessing.connection import wait
from typing import Any, Generic, TypeVar

from roadseg.errors import RoadsegError
from roadseg.system.progress import counted
from roadseg.system.units import Units, chosen_units, shown_in

Item = TypeVar("Item")
Result = TypeVar("Result")
Work = Callable[[Item], Result]
Begin = Callable[[int, int], None]
_Job = tuple[Future[Any], Any]  # What will come of an item, and the item.

THREADS = 8  # That fetch ahead.


@dataclass(frozen=True)
class Outcome(Generic[Result]):
    """The outcome of one item.

    Attributes:
        index: index of the item.
        result: return value of the work; None if it failed.
        error: error that the work raised; None if it succeeded.
    """

    index: int
    result: Result | None = None
    error: RoadsegError | None = None


def each(
    work: Work[Item, Result], items: Sequence[Item], *, workers: int = 1, begin: Begin | None = None
) -> Iterator[Outcome[Result]]:
    """Do the work for every item, and yield the outcomes in the order in which they end.

    Leaving the iteration early cancels all work that has not begun.

    Args:
        work: function at the top level of a module, so that other processes can import it.
        items: items, which are pickled for other processes.
        workers: number of processes; with 1 or 0, all is done in this one, in order.
        begin: function that each of several processes calls first, with its number and the number
            of processes; also at the top level of a module.

    Raises:
        RoadsegError: if a process dies. What the work itself raises as
            RoadsegError is an outcome; anything else is a bug and is raised.
    """
    if (workers := min(workers, len(items))) > 1:
        return _in_processes(partial(_in_units, chosen_units(), work), items, workers, begin)
    return (_outcome_of(work, index, item) for index, item in enumerate(items))


def in_order(
    work: Work[Item, Result],
    items: Sequence[Item],
    *,
    what: str,
    unit: str = "scenes",
    workers: int = 1,
) -> list[Result]:
    """Do the work for every item and return the results in the order of the items.

    Args:
        what: name of the work, for the progress.
        unit: unit of the items, for the progress.
        workers: number of processes.

    Raises:
        RoadsegError: what the work raised for one of the items, or what `each` raises.
    """
    results: dict[int, Any] = {}
    outcomes = each(work, items, workers=workers)
    for outcome in counted(outcomes, what, total=len(items), unit=unit):
        if outcome.error:
            raise outcome.error
        results[outcome.index] = outcome.result
    return [results[index] for index in range(len(items))]


def _outcome_of(work: Work[Item, Result], index: int, item: Item) -> Outcome[Result]:
    """Do the work for an item and return the outcome; errors other than RoadsegError are raised."""
    try:
        return Outcome(index, result=work(item))
    except RoadsegError as error:
        return Outcome(index, error=error)


def _in_units(units: Units, work: Work[Item, Result], item: Item) -> Result:
    """Do the work in another process, with the units that were chosen in this one."""
    with shown_in(units):
        return work(item)


def _in_processes(
    work: Work[Item, Result], items: Sequence[Item], workers: int, begin: Begin | None
) -> Iterator[Outcome[Result]]:
    context = _context()
    numbers = context.SimpleQueue()
    for number in range(workers):
        numbers.put(number)
    pool = ProcessPoolExecutor(
        workers, context, initializer=_begin, initargs=(numbers, workers, begin)
    )
    try:
        futures = [pool.submit(_outcome_of, work, index, item) for index, item in enumerate(items)]
        for future in as_completed(futures):
            yield future.result()
    except BrokenProcessPool as error:
        raise RoadsegError(
            "a worker process died, most likely because memory ran out; use fewer workers "
            "(--workers)"
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def _context() -> Any:  # noqa: ANN401 - the contexts have no common public type
    """Return a context that forks if that is safe, because a new process takes seconds to start.

    Forking is not safe once torch runs its threads, and works on Linux only.
    """
    can_fork = sys.platform == "linux" and "torch" not in sys.modules
    return multiprocessing.get_context("fork" if can_fork else "spawn")


def _begin(numbers: Any, workers: int, begin: Begin | None) -> None:  # noqa: ANN401 - a queue
    """Start a worker with the next number; it ends when its parent is killed, and only then."""
    # Ctrl-C reaches the parent and its workers; the parent decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            wait([parent.sentinel])
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    if begin is not None:
        begin(numbers.get(), workers)


def ahead_in_order(
    work: Callable[[Item], Result], items: Iterable[Item], *, ahead: int = 8 * THREADS
) -> Iterator[Result]:
    """Do the work for items in several threads, and yield the results in the order of the items.

    The threads do not keep the program from ending, so that an interrupt need not wait for a
    server.

    Args:
        items: any number of items, which are requested only when there is room for them.
        ahead: largest number of items that are in progress, or finished before their turn.

    Raises:
        BaseException: error of the work for an item, when its turn comes.
    """
    left, jobs = iter(items), queue.SimpleQueue[_Job | None]()
    waiting: deque[Future[Result]] = deque()
    for _ in range(THREADS):
        threading.Thread(target=_serve, args=(work, jobs), daemon=True).start()
    try:
        while True:
            for item in islice(left, ahead - len(waiting)):
                waiting.append(Future())
                jobs.put((waiting[-1], item))
            if not waiting:
                return
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()  # What has not begun is left undone.
        for _ in range(THREADS):
            jobs.put(None)


def _serve(work: Callable[[Any], Any], jobs: "queue.SimpleQueue[_Job | None]") -> None:
    while (job := jobs.get()) is not None:
        future, item = job
        if not future.set_running_or_notify_cancel():
            continue
        try:
            future.set_result(work(item))
        except BaseException as error:  # noqa: BLE001 - raised when its turn comes
            future.set_exception(error)
