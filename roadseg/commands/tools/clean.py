"""clean: remove files of a run that are not results and can be made again."""

import os
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from roadseg.errors import CheckpointError, OutputError
from roadseg.learn.network.checkpoint_facts import read_weights_facts
from roadseg.report.run_facts import RunFacts, megabytes_in, read_run
from roadseg.system.files import abandoned
from roadseg.system.locks import holders, lock
from roadseg.system.stage_records import lost_outputs, read_record
from roadseg.system.text import Summary, count, size_text, table
from roadseg.system.workspace import Workspace

_STRIPS = ".strips-*"  # Folders of the rows of a raster whose prediction was interrupted.


@dataclass(frozen=True)
class Removable:
    """A file or folder that can be removed.

    Attributes:
        path: from the run folder.
        megabytes: that it holds.
        what: it is.
        again: the command that makes it again.
    """

    path: str
    megabytes: float
    what: str
    again: str


@dataclass(frozen=True)
class CleanSummary(Summary):
    """What was removed, or would be.

    Attributes:
        removed: whether it was.
        in_use: the processes that work in the run.
        items: files and folders.
        megabytes: of all of them.
    """

    run: str
    removed: bool
    in_use: list[str]
    items: list[Removable]
    megabytes: float

    def __str__(self) -> str:
        """Return a line for each, and one for all."""
        if not self.items:
            return f"{self.run}: nothing to remove"
        rows = [("size", "file", "what it is", "made again by")]
        rows += [(size_text(i.megabytes), i.path, i.what, i.again) for i in self.items]
        all_of = f"{count(len(self.items), 'item')}, {size_text(self.megabytes)}"
        end = f"removed {all_of}" if self.removed else f"{all_of}; use --yes to remove them"
        if self.in_use and not self.removed:
            end = f"{all_of}; {' and '.join(self.in_use)} is using this run, so wait until it ends"
        return f"{self.run}\n{table(rows, right=(0,))}\n{end}"


def run(folder: Path, *, remove: bool) -> CleanSummary:
    """List what can be removed from a run, and remove it if that is asked for.

    Only files that roadseg writes under these names count, and no stage runs again without them.
    Symbolic links, and what lies behind them, stay.

    Raises:
        DataError: if the folder is no run.
        OutputError: if another process works in it, or a file cannot be removed.
    """
    read_run(folder)
    if not remove:
        return _summary(folder, list(_removable(folder)), removed=False)
    with lock(folder):
        items = list(_removable(folder))
        for item in items:
            _remove(folder / item.path)
        return _summary(folder, items, removed=True)


def _summary(folder: Path, items: list[Removable], *, removed: bool) -> CleanSummary:
    in_use = [] if removed else holders(folder)
    return CleanSummary(str(folder), removed, in_use, items, sum(i.megabytes for i in items))


def _removable(folder: Path) -> Iterator[Removable]:
    facts = read_run(folder)
    yield from _of_trainings(facts)
    predict = facts.records.get("predict")
    for root in _folders(folder):
        for path in abandoned(root):
            yield _item(facts, path, "partial file of a killed process", "-")
        for path in sorted(root.glob(_STRIPS)):
            # An unfinished prediction resumes from them.
            if predict and predict.is_done and path.is_dir() and not path.is_symlink():
                yield _item(facts, path, "strips of an interrupted prediction", "roadseg predict")


def _folders(folder: Path) -> Iterator[Path]:
    """Yield a folder and those in it, hidden ones and links aside."""
    for root, folders, _ in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield Path(root)


def _of_trainings(facts: RunFacts) -> Iterator[Removable]:
    """Yield the states that finished trainings left."""
    workspace = Workspace(facts.folder)
    for fold in facts.trainings:
        checkpoint, again = workspace.checkpoint(fold), f"roadseg train --fold {fold} --force"
        if checkpoint.is_symlink() or checkpoint.parent.is_symlink():
            continue
        if _has_ended(workspace.train_record(fold)) and _is_ours(checkpoint / "last.safetensors"):
            for name in ("last.safetensors", "last.json"):
                if _is_file(checkpoint / name):
                    yield _item(facts, checkpoint / name, "state to train more epochs from", again)


def _has_ended(path: Path) -> bool:
    """Return whether a training is done and its weights are those that it ended with."""
    record = read_record(path)
    return bool(record and record.is_done and not lost_outputs(path, record))


def _is_ours(path: Path) -> bool:
    """Return whether a file is one of roadseg's checkpoints."""
    if not _is_file(path):
        return False
    try:
        return bool(read_weights_facts(path))
    except CheckpointError:
        return False


def _is_file(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def _item(facts: RunFacts, path: Path, what: str, again: str) -> Removable:
    is_folder = path.is_dir() and not path.is_symlink()
    megabytes = megabytes_in(path) if is_folder else path.lstat().st_size / 1e6
    return Removable(path.relative_to(facts.folder).as_posix(), megabytes, what, again)


def _remove(path: Path) -> None:
    """Remove a file or a folder."""
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise OutputError(f"{path}: cannot be removed: {error.strerror or error}") from error
