"""Deliveries: tasks and missing files to the workers of a scheduler, and their outputs back.

Everything goes through the scheduler, so the command needs no other address, and no worker needs
that of the command. Workers ask for contents by digest, and get those of the job's inputs only;
what they send back is written by the command, under the names that it gave.
"""

import asyncio
import logging
import secrets
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import Any

from roadseg.errors import DataError, RoadsegError
from roadseg.system.files import partial_path, whole, whole_folder
from roadseg.system.hosts.outcomes import Item, Outcome, Result
from roadseg.system.hosts.packing import pack, unpack
from roadseg.system.hosts.parcels import PIECE_BYTES, Answer, Contents, Output, Parcel
from roadseg.system.hosts.schedulers import GOES_ON, Cluster
from roadseg.system.hosts.task_files import FilesOf
from roadseg.system.hosts.worker_files import (
    TOPIC,
    do_task,
    end_job,
    read_output,
    receive,
    remove_outputs,
)

_AT_ONCE = 8  # Pieces of files that are on their way to workers at once.
_PIECE_S = 60.0  # Seconds that a worker may take to send a piece of a file.
_END_S = 2.0  # Seconds for workers to remove what they have of a job.

_log = logging.getLogger(__name__)


def delivered(
    cluster: Cluster,
    work: Callable[[int, Item], Outcome[Result]],
    items: Sequence[Item],
    files: FilesOf,
) -> Iterator[Outcome[Result]]:
    """Do the work for every item on the workers of a cluster, and yield outcomes as they end.

    A task whose worker is lost before its files are here is done again. Files that a task wrote on
    another disk are here when its outcome is yielded.

    Args:
        cluster: connected.
        work: from the number of an item and the item to its outcome.
        items: asked for one by one, when there is room for their task.
        files: of each item.

    Raises:
        RoadsegError: if a worker cannot do its work, or the cluster is gone.
        OutputError: if a file cannot be written.
    """
    with _job(cluster, work, files) as job:
        waiting = deque(range(len(items)))

        def take() -> tuple[int, Parcel] | None:
            if not waiting:
                return None
            number = waiting.popleft()
            return number, job.parcel(number, items[number])

        for number, answer in cluster.results(do_task, take):
            if isinstance(answer, RoadsegError):
                yield Outcome(number, error=answer)
                continue
            if answer.fault:
                raise RoadsegError(f"worker {answer.worker}: {answer.fault}; {GOES_ON}")
            try:
                job.take_outputs(number, answer)
            except _LostError as error:
                _log.info("a worker was lost with its files: %s; they are made again", error)
                waiting.appendleft(number)
                continue
            yield _named(unpack(answer.outcome), answer.worker)


class _LostError(Exception):
    """A worker no longer has the files that it had to send."""


class _Job:
    """The tasks of one call, and their files."""

    def __init__(self, cluster: Cluster, work: Any, files: FilesOf) -> None:  # noqa: ANN401
        self.name = secrets.token_hex(16)
        self._cluster, self._files = cluster, files
        self._contents = Contents()
        self._work = self._contents.of_bytes(pack(work))
        self._writes: dict[int, tuple[Path, ...]] = {}  # Paths that each task may write.
        self._markers: dict[Path, str] = {}  # By folder.
        self._sending: set[asyncio.Task[None]] = set()
        self._room: asyncio.Semaphore | None = None
        self.sent_bytes = self.received_bytes = 0

    def parcel(self, number: int, item: Any) -> Parcel:  # noqa: ANN401 - of any work
        """Return a task to send."""
        files = self._files(item)
        self._writes[number] = tuple(path.absolute() for path in files.writes)
        return Parcel(
            job=self.name,
            number=number,
            work=self._work,
            item=pack(item),
            reads=self._contents.of_files(files.reads),
            writes=tuple(map(str, self._writes[number])),
            markers=tuple(sorted({self._marker(path) for path in self._writes[number]})),
        )

    def take_outputs(self, number: int, answer: Answer) -> None:
        """Write the files that a task has written on another disk.

        Raises:
            _LostError: if its worker no longer has them.
            OutputError: if one cannot be written.
        """
        writes = self._writes.pop(number)
        numbered = enumerate(answer.outputs)
        for write, several in groupby(numbered, key=lambda output: output[1].write):
            outputs = dict(several)
            pieces = {nth: self._pieces(number, nth, answer) for nth in outputs}
            if [output.name for output in outputs.values()] == [""]:
                (nth,) = outputs
                with whole(writes[write]) as partial:
                    _write(partial, pieces[nth])
                continue
            with whole_folder(writes[write]) as folder:
                for nth, output in outputs.items():
                    _write(folder / _inside(output), pieces[nth])
        if any(output.data is None for output in answer.outputs):
            with suppress(Exception):  # What stays there goes with the job.
                self._cluster.run_on(
                    answer.worker, remove_outputs, self.name, number, timeout_s=_END_S
                )

    def serve(self, event: tuple[float, dict[str, Any]]) -> None:
        """Send a piece of a file to a worker that asks for it; called by Dask, in its loop."""
        if event[1].get("job") == self.name:
            sending = asyncio.ensure_future(self._send(event[1]))
            self._sending.add(sending)
            sending.add_done_callback(self._sending.discard)

    async def _send(self, question: dict[str, Any]) -> None:
        self._room = self._room or asyncio.Semaphore(_AT_ONCE)
        async with self._room:
            data: bytes | str
            try:
                data = await asyncio.to_thread(
                    self._contents.piece, question["digest"], question["offset"]
                )
            except (OSError, ValueError) as error:
                data = str(error)
            self.sent_bytes += len(data)
            with suppress(Exception):  # A worker that is gone no longer waits for it.
                await self._cluster.client.run(
                    receive, question["number"], data, workers=[question["worker"]]
                )

    def end(self) -> None:
        """Remove the remaining files of the job, here and on its workers."""
        for folder, marker in self._markers.items():
            with suppress(OSError):
                Path(marker).unlink()
            with suppress(OSError):
                folder.rmdir()  # Only an empty folder allows that.
        with suppress(Exception):  # Workers that are gone have removed it, or will.
            self._cluster.run_on(None, end_job, self.name, timeout_s=_END_S)
        if self.sent_bytes or self.received_bytes:
            _log.info(
                "%.1f MB sent to workers, %.1f MB of files received from them",
                *(self.sent_bytes / 1e6, self.received_bytes / 1e6),
            )

    def _pieces(self, number: int, nth: int, answer: Answer) -> Iterator[bytes]:
        """Yield the bytes of an output."""
        output = answer.outputs[nth]
        self.received_bytes += output.size
        if output.data is not None:
            yield output.data
            return
        for offset in range(0, output.size, PIECE_BYTES):
            try:
                piece = self._cluster.run_on(
                    answer.worker, read_output, self.name, number, nth, offset, timeout_s=_PIECE_S
                )
            except Exception as error:
                # A worker may be lost in many ways, which Dask reports by as many errors.
                raise _LostError(f"{answer.worker}: {error!s:.200}") from error
            yield piece

    def _marker(self, path: Path) -> str:
        """Return a file beside an output that shows a worker whether it sees the same disk."""
        folder = path.parent.parent if path.parent.name.startswith(".") else path.parent
        if folder not in self._markers:
            marker = partial_path(folder / f"shared-{self.name[:8]}")
            self._markers[folder] = str(marker)
            with suppress(OSError):  # Without it no worker takes the folder for its own.
                folder.mkdir(parents=True, exist_ok=True)
                marker.write_text(self.name, encoding="utf-8")
        return self._markers[folder]


@contextmanager
def _job(cluster: Cluster, work: Any, files: FilesOf) -> Iterator[_Job]:  # noqa: ANN401
    job = _Job(cluster, work, files)
    cluster.client.subscribe_topic(TOPIC, job.serve)
    try:
        yield job
    finally:
        job.end()


def _write(path: Path, pieces: Iterator[bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        for piece in pieces:
            file.write(piece)


def _inside(output: Output) -> PurePosixPath:
    """Return the name of a file in a folder.

    Raises:
        RoadsegError: if a worker gave it a name that leads elsewhere.
    """
    name = PurePosixPath(output.name)
    if name.is_absolute() or ".." in name.parts or not name.parts:
        raise RoadsegError(f"a worker sent a file with the name {output.name!r:.200}")
    return name


def _named(outcome: Outcome[Result], worker: str) -> Outcome[Result]:
    """Return an outcome whose error names the worker, unless it is about the data."""
    error = outcome.error
    if error is not None and not isinstance(error, DataError):
        error.args = (f"{error} (on worker {worker})",)
    return outcome
