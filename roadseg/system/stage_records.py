"""Stage records: the inputs and outputs of each stage, and whether it has to run again."""

import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pydantic import BaseModel

from roadseg.errors import DataError, MissingInputError, OutputError
from roadseg.system.dry_runs import UNKNOWN, Plan
from roadseg.system.files import moved_with
from roadseg.system.fingerprints import fingerprints
from roadseg.system.records import (
    changes,
    key_of,
    known_settings,
    versions,
    with_texts,
    write_json,
)
from roadseg.system.schemas import TOLERANT, InsidePath, check, read_strict
from roadseg.system.text import count, first
from roadseg.system.workspace import require

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Kind = TypeVar("Kind", bound=DataclassInstance)
else:
    Kind = TypeVar("Kind")

# States of a stage that has to run.
State = Literal[
    "not run", "changed", "interrupted", "incomplete", "outputs missing", "outputs changed"
]
_ASIDE = ".changed"  # Suffix of outputs that somebody has modified; they are kept under this name.
_MISSING, _CHANGED = "is missing", "was modified"
_SHOWN = 3  # Settings and files that a reason names.
_LONGEST = 40  # Characters of a value that a reason shows.
_ADVICE = "delete it, and run its stage again"
_log = logging.getLogger(__name__)


class Record(BaseModel):
    """A record as stored in its file.

    Attributes:
        state: "started" before the first output, "done" after the last.
        key: digest of settings and inputs.
        folder: folder of the record when it was written.
        inputs: fingerprint of each input, by a name that does not change when files move.
        outputs: fingerprint of each file that the stage wrote, by its path relative to the folder.
        seconds: duration of the stage; the sum of all parts if it was interrupted.
    """

    model_config = TOLERANT

    stage: str
    state: Literal["started", "done"]
    key: str
    folder: str = ""
    settings: dict[str, Any] = {}
    inputs: dict[str, str] = {}
    outputs: dict[InsidePath, str] = {}
    versions: dict[str, str] = {}
    seconds: float = 0.0
    summary: dict[str, Any] | None = None

    @property
    def is_done(self) -> bool:
        """Whether the stage reached its end."""
        return self.state == "done" and self.summary is not None

    @property
    def whole_seconds(self) -> float:
        """Duration of the stage; of a training, that of all its parts if that is longer."""
        seconds = (self.summary or {}).get("seconds")
        return max(self.seconds, seconds if isinstance(seconds, int | float) else 0.0)

    @property
    def failed(self) -> list[str]:
        """Names of the scenes that failed and were skipped, sorted."""
        failed = (self.summary or {}).get("failed")
        return sorted(failed) if isinstance(failed, dict) else []

    def number(self, name: str) -> float | None:
        """Return a number of the summary, or None."""
        value = (self.summary or {}).get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        return float(value)


@dataclass(frozen=True)
class Reason:
    """Reason why a stage has to run.

    Attributes:
        text: the reason in words.
        state: present state of the stage.
    """

    text: str
    state: State

    @property
    def renews(self) -> bool:
        """Whether the outputs may differ from the earlier ones, so that later stages run too."""
        return self.state not in ("outputs missing", "outputs changed")


NOT_RUN = Reason("no earlier run", "not run")
UNFINISHED = Reason("the last run did not finish", "interrupted")  # Interrupted, or failed.


@dataclass(frozen=True)
class MadeFrom:
    """Everything that determines the outputs of a stage, as JSON values.

    Attributes:
        settings: settings by name, without paths of files.
        inputs: fingerprints of files and keys of earlier stages, by name.
        defaults: defaults of settings. A setting with its default does not invalidate a record of
            a version that did not know this setting.
    """

    settings: Mapping[str, Any]
    inputs: Mapping[str, str]
    defaults: Mapping[str, Any] = field(default_factory=dict)

    def known_to(self, earlier: Record) -> dict[str, Any]:
        """Return the settings as the version that wrote an earlier record would write them."""
        return known_settings(self.settings, earlier.settings, self.defaults)


@dataclass
class Stage:
    """A stage as a build tool sees it: its present inputs, and the record of its last run.

    The record, `<stage>.json`, is written as "started" before the first output and as "done" after
    the last. The inputs are looked up only when a method needs them.

    Attributes:
        path: path of its record.
        find: function that returns the present settings and inputs; methods raise its errors.
        writes: files and folders that the stage writes.
        unit: unit of its work, such as "scenes".
    """

    path: Path
    find: Callable[[], MadeFrom]
    writes: Sequence[Path] = ()
    unit: str = ""
    _written_s: float = field(init=False)  # Seconds before this are in the record.

    def __post_init__(self) -> None:
        """Start to measure the time, and make the path absolute."""
        self.path, self._written_s = self.path.absolute(), time.monotonic()

    @cached_property
    def made_from(self) -> MadeFrom:
        """The present settings and inputs."""
        return self.find()

    @cached_property
    def key(self) -> str:
        """Digest of the present settings and inputs; that of the last run if they are the same.

        A setting that the version of the last run did not know makes no difference at its default,
        so that records of earlier versions stay valid.

        Raises:
            DataError: if there is a file that is not a record.
        """
        if earlier := read_record(self.path):
            made = (self.made_from.known_to(earlier), self.made_from.inputs)
            if (earlier.settings, earlier.inputs) == made:
                return earlier.key
        return key_of(self.made_from.settings, self.made_from.inputs)

    def reason(self, *, after: str = "", force: bool = False) -> Reason | None:
        """Return why the stage has to run; None if its outputs are up to date.

        Args:
            after: earlier stage, or option, because of which the stage has to run; empty if none.

        Raises:
            DataError: if there is a file that is not a record.
        """
        if after:
            return Reason(f"after {after}", "changed")
        reason = self._reason()
        # What is forced may come out differently, also if only an output is missing.
        return Reason(reason.text if reason else "--force", "changed") if force else reason

    def _reason(self) -> Reason | None:
        # `made_from` raises an error if an input is missing, also before the first run.
        earlier, _ = read_record(self.path), self.made_from
        if earlier is None:
            return NOT_RUN
        if change := self.change(earlier):
            return change
        if not earlier.is_done:
            return UNFINISHED
        if earlier.failed:
            failed = count(len(earlier.failed), "scene")
            return Reason(f"{failed} failed in the last run", "incomplete")
        if lost := lost_outputs(self.path, earlier):
            text = first([f"{name} {what}" for name, what in lost.items()], _SHOWN)
            is_missing = _MISSING in lost.values()
            return Reason(text, "outputs missing" if is_missing else "outputs changed")
        return None

    def change(self, earlier: Record) -> Reason | None:
        """Return which settings or inputs differ from those of an earlier run, None if none do."""
        if earlier.key == self.key:
            return None
        # Settings explain more than fingerprints, so inputs are named only if no setting changed.
        settings = changes(earlier.settings, self.made_from.known_to(earlier))
        changed = [f"{key} {_short(old)} -> {_short(new)}" for key, old, new in settings]
        if not changed:
            before, now = earlier.inputs, self.made_from.inputs
            marks = dict.fromkeys(before.keys() - now.keys(), " (removed)")
            marks |= dict.fromkeys(now.keys() - before.keys(), " (added)")
            changed = [
                name + marks.get(name, "")
                for name in {**before, **now}
                if before.get(name) != now.get(name)
            ]
        if not changed:  # There is a new setting that the earlier version did not know.
            return Reason("its record is of another version", "incomplete")
        return Reason(f"changed: {first(changed, _SHOWN)}", "changed")

    def plan(
        self, reason: Reason | None, *, writes: Iterable[Path] = (), now: float | None = None
    ) -> Plan:
        """Return the dry run of the stage, with the time of its last run.

        Args:
            reason: why it would run; None if it would not.
            writes: paths that it would write; empty for those of the stage in general.
            now: amount of work, in its unit; None if unknown before an earlier stage has run.
        """
        if reason is None:
            return Plan(self.path.stem, runs=False, why="nothing has changed", writes=[])
        seconds, basis = self._seconds(read_record(self.path), now)
        return Plan(
            self.path.stem,
            runs=True,
            why=reason.text,
            writes=[str(path) for path in list(writes) or self.writes],
            seconds=seconds,
            based_on=basis,
            renews=reason.renews,
        )

    def _seconds(self, earlier: Record | None, now: float | None) -> tuple[float | None, str]:
        """Return the time of the last run, scaled to the present work, and an explanation."""
        summary = earlier.summary if earlier and earlier.is_done else None
        done = (summary or {}).get(self.unit)
        before = len(done) if isinstance(done, list) else done
        if summary is None and earlier:
            return None, f"unknown: {UNFINISHED.text}"
        if earlier is None or summary is None or not isinstance(before, int | float):
            return None, UNKNOWN
        took_s = earlier.whole_seconds
        unit = self.unit.removesuffix("s") if before == 1 else self.unit
        took = f"the last run took {took_s:.1f} s for {_amount(before)} {unit}"
        if now is None or not before or now == before:
            return took_s, took
        return took_s * now / before, f"{took}, now {_amount(now)}"

    def summary(self, kind: type[Kind], *, force: bool = False) -> Kind | None:
        """Return the summary of the last run if it is up to date; None if the stage has to run.

        Raises:
            DataError: if there is a file that is not a record.
        """
        if force:
            _ = self.made_from  # It raises an error if an input is missing, before work begins.
            return None
        if (reason := self.reason()) is None:
            try:
                done = read_summary(self.path, kind)
            except DataError:
                reason = Reason("its record was written by another version", "incomplete")
            else:
                _log.info("%s is up to date; use --force to run it again", self.path.stem)
                return done
        # Users expect a run after their own changes, but not after lost or modified outputs.
        level = logging.DEBUG if reason.renews else logging.INFO
        _log.log(level, "%s runs: %s", self.path.stem, reason.text)
        return None

    def begin(self) -> None:
        """Record that the stage starts or resumes, so that its outputs do not count as finished.

        Outputs that somebody has modified since they were finished are renamed first.
        """
        if earlier := read_record(self.path):
            for name, what in lost_outputs(self.path, earlier).items():
                if what == _CHANGED:
                    _put_aside(self.path.parent / name)
        self._write("started")

    def finish(self, summary: "DataclassInstance", outputs: Iterable[Path]) -> None:
        """Record that all outputs are complete.

        Args:
            outputs: files that the stage wrote; if one is lost, it has to run again. Files outside
                the folder of the record are not checked.
        """
        folder = self.path.parent
        inside = [path.absolute() for path in outputs if path.absolute().is_relative_to(folder)]
        digests = fingerprints(inside)
        # Relative names stay valid when the run folder moves as a whole.
        names = {path.relative_to(folder).as_posix(): digests[path] for path in inside}
        self._write(
            "done", summary=json.loads(json.dumps(asdict(summary), default=str)), outputs=names
        )

    def _write(
        self,
        state: Literal["started", "done"],
        *,
        summary: dict[str, Any] | None = None,
        outputs: Mapping[str, str] | None = None,
    ) -> None:
        earlier, now_s = read_record(self.path), time.monotonic()
        # The time of a stage that resumes is that of all parts.
        goes_on = earlier and earlier.key == self.key and (state == "done" or not earlier.is_done)
        before_s = earlier.seconds if earlier and goes_on else 0.0
        record = Record(
            stage=self.path.stem,
            state=state,
            key=self.key,
            folder=str(self.path.parent),
            settings=dict(self.made_from.settings),
            inputs=dict(self.made_from.inputs),
            versions=versions(),
            seconds=round(before_s + now_s - self._written_s, 3),
            outputs=dict(outputs or {}),
            summary=summary,
        )
        write_json(self.path, record.model_dump(mode="json"))
        self._written_s = now_s


def read_record(path: Path) -> Record | None:
    """Read the record of a stage; None if there is none.

    Paths in its summary are updated if the run folder has moved.

    Raises:
        DataError: if the file is not a record.
    """
    if not path.exists():
        return None
    record = read_strict(path, Record, advice=_ADVICE)
    now = path.absolute().parent
    summary = with_texts(record.summary, lambda text: moved_with(now, record.folder, text))
    return record.model_copy(update={"summary": summary})


def read_stage_key(path: Path, *, made_by: str | None = None) -> str:
    """Return the key of a finished stage, see `stage_key`.

    Args:
        path: path of the record of the stage.
        made_by: command that runs the stage, for errors; None if its name is that of the record.

    Raises:
        MissingInputError: if the stage has not reached its end.
        DataError: if the file is not a record.
    """
    return stage_key(_read_finished(path, made_by or path.stem))


def stage_key(record: Record) -> str:
    """Return the key on which the outputs of later stages depend: that of a record.

    Scenes that failed and were skipped change it.
    """
    # Without failed scenes the key is that of the record, so older runs keep theirs.
    if not record.failed:
        return record.key
    return key_of({"without": record.failed}, {"all": record.key})


def read_summary(path: Path, kind: type[Kind]) -> Kind:
    """Return the summary of a finished stage, or a part of it.

    Args:
        path: path of the record of the stage, which has the name of its command.
        kind: dataclass with the wanted fields; other fields of the summary are left out.

    Raises:
        MissingInputError: if the stage has not reached its end.
        DataError: if the file is not a record, or its summary lacks a wanted field.
    """
    record = _read_finished(path, path.stem)
    try:
        return check(record.summary, kind)
    except ValueError as error:
        raise DataError(f"{path}: summary.{error}; {_ADVICE}") from error


def lost_outputs(path: Path, record: Record) -> dict[str, str]:
    """Return the outputs that were lost or modified since a record was written.

    Returns:
        By the name of an output, the words "is missing" or "was modified".
    """
    files = {name: path.parent / name for name in record.outputs}
    digests = fingerprints(file for file in files.values() if file.is_file())
    return {
        name: _CHANGED if file in digests else _MISSING
        for name, file in files.items()
        if digests.get(file) != record.outputs[name]
    }


def _read_finished(path: Path, made_by: str) -> Record:
    record = read_record(require(path, made_by=made_by))
    if record is None or not record.is_done:
        raise MissingInputError(
            f"{path}: {path.stem} did not finish; run `roadseg {made_by}` again first"
        )
    return record


def _put_aside(path: Path) -> None:
    aside = path.with_name(f"{path.name}{_ASIDE}")
    try:
        path.replace(aside)
    except OSError as error:
        raise OutputError(f"{path}: cannot be renamed: {error.strerror}") from error
    _log.warning(
        "%s was modified after it was made; the modified file was kept as %s", path, aside.name
    )


def _short(value: Any) -> str:  # noqa: ANN401 - any JSON value
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _amount(value: float) -> str:
    """Return an amount as summaries show it: whole numbers as they are, others with one decimal."""
    return f"{round(value, 1):.16g}"
