"""Worker files: how a worker of Dask does tasks whose files it may not see.

A worker that sees the files of the command under the same paths works on them. Any other keeps
what it is sent in its local folder, by digest, and gives it the paths of the command below a folder
that stands for `/`. What a task writes there is sent back.
"""

import errno
import importlib
import itertools
import shutil
import threading
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any
from xml.sax.saxutils import escape

from roadseg.errors import RoadsegError
from roadseg.system.fingerprints import digest_of
from roadseg.system.hosts.outcomes import Outcome
from roadseg.system.hosts.packing import original, pack, place, unpack
from roadseg.system.hosts.parcels import PIECE_BYTES, Answer, Content, Output, Parcel

TOPIC = "roadseg"  # Of the events by which workers ask commands for files.
_ANSWER_S = 60.0  # Seconds that a command may take to send a piece of a file.
_SPARE = 0.1  # Share of a worker's disk that stays free as long as there is something to remove.
_WORKS = 4  # Works that a worker remembers unpacked.
_IS_FULL = (errno.ENOSPC, errno.EDQUOT)


class FaultOfWorkerError(RoadsegError):
    """A worker cannot do a task, whatever the task is about."""


def do_task(parcel: Parcel) -> Answer:
    """Do a task on a worker of Dask."""
    dask: Any = importlib.import_module("distributed")
    return _files_of(dask.get_worker()).do(parcel)


def receive(number: int, data: bytes | str, dask_worker: Any) -> None:  # noqa: ANN401 - Dask's
    """Take a piece of a file on the worker that asked for it, or a text why there is none."""
    _files_of(dask_worker).receive(number, data)


def read_output(job: str, number: int, nth: int, offset: int, dask_worker: Any) -> bytes:  # noqa: ANN401
    """Read a piece of the output of a task on the worker that has it."""
    with (_files_of(dask_worker).outputs_folder(job, number) / str(nth)).open("rb") as file:
        file.seek(offset)
        return file.read(PIECE_BYTES)


def remove_outputs(job: str, number: int, dask_worker: Any) -> None:  # noqa: ANN401
    """Remove the outputs of a task on the worker that has them."""
    shutil.rmtree(_files_of(dask_worker).outputs_folder(job, number), ignore_errors=True)


def end_job(job: str, dask_worker: Any) -> None:  # noqa: ANN401
    """Remove all of a job on a worker, but for contents that another job may use."""
    _files_of(dask_worker).end(job)


class WorkerFiles:
    """The files that a worker was sent, and those that it has to send."""

    def __init__(self, worker: Any) -> None:  # noqa: ANN401 - Dask's
        """Keep them in the local folder of a worker, which Dask removes when it ends."""
        self._worker = worker
        self._folder = Path(worker.local_directory) / "roadseg"
        self._contents: OrderedDict[str, int] = OrderedDict()  # Sizes, the longest unused first.
        self._users: Counter[Path] = Counter()  # Tasks at work that use a file.
        self._works: OrderedDict[tuple[str, bool], Any] = OrderedDict()
        self._numbers = itertools.count()
        self._asked: dict[int, SimpleQueue[bytes | str]] = {}
        self._lock = threading.Lock()

    def do(self, parcel: Parcel) -> Answer:
        """Do a task; return its outcome, and the files that it wrote if the command lacks them."""
        root = None if parcel.is_on_one_disk else self._job(parcel.job) / "root"
        try:
            work = self._work(parcel, root)
            if root is None:
                outcome = work(parcel.number, unpack(parcel.item))
                return Answer(self._name, pack(outcome))
            with self._placed(parcel.reads, root):
                outcome = work(parcel.number, unpack(parcel.item, root=root))
                return self._answer(parcel, outcome, root)
        except FaultOfWorkerError as error:
            return Answer(self._name, fault=str(error))
        except OSError as error:
            if not _is_of_full_disk(error):
                raise
            return Answer(self._name, fault=self._full())

    def receive(self, number: int, data: bytes | str) -> None:
        """Pass a piece of a file to the thread that waits for it, if it still does."""
        if number in self._asked:
            self._asked[number].put(data)

    def outputs_folder(self, job: str, number: int) -> Path:
        """Return the folder with the outputs of a task."""
        return self._job(job) / "outputs" / str(number)

    def end(self, job: str) -> None:
        """Remove all of a job but for contents."""
        for key in [key for key in self._works if key[0] == job]:
            self._works.pop(key, None)
        shutil.rmtree(self._job(job), ignore_errors=True)

    @property
    def _name(self) -> str:
        return str(self._worker.address)

    def _job(self, job: str) -> Path:
        return self._folder / "jobs" / job

    def _full(self) -> str:
        return (
            f"its disk is full ({self._folder.parent}); free some space there, or start it with "
            "--local-directory on another disk"
        )

    def _work(self, parcel: Parcel, root: Path | None) -> Any:  # noqa: ANN401 - any work
        """Return the work of the job; the command is asked for it once."""
        key = parcel.job, root is None
        with self._lock:
            if key not in self._works:
                size, digest = parcel.work.size, parcel.work.digest
                data = b"".join(self._pieces(parcel.job, digest, size))
                self._works[key] = unpack(data, root=root)
                if len(self._works) > _WORKS:
                    self._works.popitem(last=False)
            return self._works[key]

    @contextmanager
    def _placed(self, contents: tuple[Content, ...], root: Path) -> Iterator[None]:
        """Put contents where the command has them, below a folder; remove them from there again."""
        job = root.parent.name
        paths = [place(content.path, root) for content in contents]
        with self._lock:
            self._users.update(paths)
        try:
            for content, path in zip(contents, paths, strict=True):
                with self._lock:
                    self._fetch(job, content)
                    self._link(content, path, root, contents)
            yield
        finally:
            with self._lock:
                for path in paths:
                    self._users[path] -= 1
                    if not self._users[path]:
                        del self._users[path]
                        path.unlink(missing_ok=True)

    def _fetch(self, job: str, content: Content) -> None:
        """Ask the command for a content, unless it is here."""
        digest, size = content.digest, content.size
        path = self._content(digest)
        if digest in self._contents and path.exists():
            self._contents.move_to_end(digest)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        self._make_room(size)
        partial = path.with_name(f"{digest}.part")
        with partial.open("wb") as file:
            for piece in self._pieces(job, digest, size):
                file.write(piece)
        if digest_of(partial) != digest:
            partial.unlink()
            raise FaultOfWorkerError(f"it received {content.path} with other bytes than it has")
        partial.replace(path)
        self._contents[digest] = size

    def _link(
        self, content: Content, path: Path, root: Path, contents: tuple[Content, ...]
    ) -> None:
        if path.exists():
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix.lower() != ".vrt":
            path.hardlink_to(self._content(content.digest))
            return
        # A VRT may name its tiles by paths of the command.
        text = self._content(content.digest).read_text(encoding="utf-8")
        for other in contents:
            there, here = escape(other.path), escape(str(place(other.path, root)))
            text = text.replace(f">{there}<", f">{here}<")
        path.write_text(text, encoding="utf-8")

    def _make_room(self, size: int) -> None:
        """Remove contents that were not used for the longest time if the disk gets full."""
        while self._contents:
            disk = shutil.disk_usage(self._folder)
            if disk.free - size >= _SPARE * disk.total:
                return
            digest, _ = self._contents.popitem(last=False)
            self._content(digest).unlink(missing_ok=True)

    def _content(self, digest: str) -> Path:
        return self._folder / "contents" / digest

    def _pieces(self, job: str, digest: str, size: int) -> Iterator[bytes]:
        for offset in range(0, size, PIECE_BYTES):
            piece = self._ask(job, digest, offset)
            if len(piece) != min(PIECE_BYTES, size - offset):
                raise FaultOfWorkerError("it received a file that was changed during the work")
            yield piece

    def _ask(self, job: str, digest: str, offset: int) -> bytes:
        number, answer = next(self._numbers), SimpleQueue[bytes | str]()
        self._asked[number] = answer
        question = {"job": job, "digest": digest, "offset": offset}
        self._worker.log_event(TOPIC, {**question, "worker": self._name, "number": number})
        try:
            data = answer.get(timeout=_ANSWER_S)
        except Empty:
            raise FaultOfWorkerError(
                f"it asked the command for a file and had no answer within {_ANSWER_S:g} s"
            ) from None
        finally:
            del self._asked[number]
        if isinstance(data, str):
            raise FaultOfWorkerError(f"it cannot have a file that it needs: {data}")
        return data

    def _answer(self, parcel: Parcel, outcome: Outcome[Any], root: Path) -> Answer:
        if outcome.error is not None:
            if _is_of_full_disk(outcome.error):
                raise FaultOfWorkerError(self._full())
            outcome.error.args = (original(str(outcome.error), root),)
            return Answer(self._name, pack(outcome, root=root))
        return Answer(self._name, pack(outcome, root=root), tuple(self._outputs(parcel, root)))

    def _outputs(self, parcel: Parcel, root: Path) -> Iterator[Output]:
        """Take what a task has written; small files go at once, large ones are kept."""
        folder = self.outputs_folder(parcel.job, parcel.number)
        shutil.rmtree(folder, ignore_errors=True)
        left = PIECE_BYTES
        for nth, (write, name, path) in enumerate(self._written(parcel, root)):
            size = path.stat().st_size
            left -= size
            data = path.read_bytes() if left >= 0 else None
            if data is None:
                folder.mkdir(parents=True, exist_ok=True)
                path.replace(folder / str(nth))
            else:
                path.unlink()
            yield Output(write, name, size, data)

    def _written(self, parcel: Parcel, root: Path) -> Iterator[tuple[int, str, Path]]:
        """Yield the files that a task has written; those that it was sent have not changed."""
        sent = {place(content.path, root): content for content in parcel.reads}
        for write, name in enumerate(parcel.writes):
            path = place(name, root)
            for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
                if not file.is_file() or (file in sent and self._is_sent(file, sent[file])):
                    continue
                inside = "" if file == path else file.relative_to(path).as_posix()
                yield write, inside, file

    def _is_sent(self, path: Path, content: Content) -> bool:
        content_path = self._content(content.digest)
        return content_path.exists() and path.samefile(content_path)


_OF_WORKERS: dict[str, WorkerFiles] = {}


def _files_of(worker: Any) -> WorkerFiles:  # noqa: ANN401 - Dask's
    """Return the files of a worker; a process may have several."""
    return _OF_WORKERS.setdefault(worker.address, WorkerFiles(worker))


def _is_of_full_disk(error: BaseException | None) -> bool:
    """Return whether an error, or its cause, is that of a full disk."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _IS_FULL:
            return True
        error = error.__cause__ or error.__context__
    return False
