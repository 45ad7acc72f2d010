"""Threads that fetch ahead: results in order, with a bounded number in memory."""

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

THREADS = 8


@dataclass
class _Job(Generic[Item, Result]):
    """A piece of work, and what came of it."""

    item: Item
    result: list[Result] = field(default_factory=list)
    error: BaseException | None = None
    done: threading.Event = field(default_factory=threading.Event)


def ahead_in_order(
    work: Callable[[Item], Result], items: Iterable[Item], *, ahead: int = 8 * THREADS
) -> Iterator[Result]:
    """Do the work for items in several threads, and yield the results in the order of the items.

    The threads do not keep the program from ending, so that an interrupt need not wait for a
    server.

    Args:
        work: for one item.
        items: any number; they are taken as there is room.
        ahead: items that are under way or finished before their turn, at most.

    Raises:
        BaseException: what the work raises for an item, when its turn comes.
    """
    left, jobs = iter(items), queue.SimpleQueue[_Job[Any, Any] | None]()
    waiting: deque[_Job[Item, Result]] = deque()
    for _ in range(THREADS):
        threading.Thread(target=_serve, args=(work, jobs), daemon=True).start()
    try:
        while True:
            for item in islice(left, ahead - len(waiting)):
                waiting.append(_Job(item))
                jobs.put(waiting[-1])
            if not waiting:
                return
            job = waiting.popleft()
            job.done.wait()
            if job.error is not None:
                raise job.error
            yield job.result.pop()
    finally:
        for job in waiting:
            job.done.set()  # What has not begun is left undone.
        for _ in range(THREADS):
            jobs.put(None)


def _serve(work: Callable[[Any], Any], jobs: "queue.SimpleQueue[_Job[Any, Any] | None]") -> None:
    while (job := jobs.get()) is not None:
        if job.done.is_set():
            continue
        try:
            job.result.append(work(job.item))
        except BaseException as error:  # noqa: BLE001 - raised when its turn comes
            job.error = error
        job.done.set()
