"""Stage records: the inputs and outputs of each stage, and whether they are unchanged."""

import json
import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from pydantic import BaseModel

from roadseg.errors import DataError, MissingInputError, OutputError
from roadseg.system.files import moved_with
from roadseg.system.fingerprints import fingerprints
from roadseg.system.machine import peak_memory_mb
from roadseg.system.records import key_of, known_settings, versions, write_json
from roadseg.system.schemas import TOLERANT, InsidePath, check, read_strict
from roadseg.system.text import count, first

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Summary = TypeVar("Summary", bound=DataclassInstance)
else:
    Summary = TypeVar("Summary")

_ASIDE = ".changed"  # This ends the name of an output that somebody has changed and that is kept.
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
        folder: where the record lay when it was written.
        inputs: fingerprint of each input, by a name that stays when files move.
        outputs: fingerprint of each file that the stage made, by its path from the folder.
        seconds: since the stage began; of one that was done in parts, those of all together.
        peak_mb: largest memory of its process.
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
    peak_mb: float | None = None
    summary: dict[str, Any] | None = None

    @property
    def is_done(self) -> bool:
        """Return whether the stage reached its end."""
        return self.state == "done" and self.summary is not None


@dataclass(frozen=True)
class Reason:
    """Reason why a stage has to run.

    Attributes:
        renews: whether what it makes may differ from what was there, so that later stages have to
            run as well.
    """

    text: str
    renews: bool = True


class StageRecord(Generic[Summary]):
    """Record of inputs and outputs of a stage: `<stage>.json` in the run folder.

    It is written twice: as "started" before the first output and as "done" after the last.
    """

    def __init__(
        self,
        path: Path,
        kind: type[Summary],
        *,
        settings: Mapping[str, Any],
        inputs: Mapping[str, str],
        defaults: Mapping[str, Any] | None = None,
    ) -> None:
        """Set what a stage would be made from.

        Args:
            settings: that decide about its outputs, without paths of files.
            inputs: fingerprints of files or keys of earlier stages, by name.
        """
        self.path = path.absolute()
        self.settings: dict[str, Any] = _as_json(settings)
        self.inputs = dict(inputs)
        self._defaults: dict[str, Any] = _as_json(defaults or {})
        self._kind = kind
        self._begun = time.monotonic()
        self._before_s = 0.0

    @cached_property
    def key(self) -> str:
        """Digest of settings and inputs; that of the record there if it was made from the same.

        A setting that its version did not know makes no difference at its default, so that records
        of earlier versions hold.

        Raises:
            DataError: if there is a file that is no record.
        """
        if earlier := read_record(self.path):
            known = known_settings(self.settings, earlier.settings, self._defaults)
            if (earlier.settings, earlier.inputs) == (known, self.inputs):
                return earlier.key
        return key_of(self.settings, self.inputs)

    def summary(self) -> Summary | None:
        """Return the summary of an earlier run whose outputs hold, None if the stage has to run.

        Raises:
            DataError: if there is a file that is no record.
        """
        reason = self.reason()
        if reason is None:
            _log.info("%s is up to date; use --force to run it again", self.path.stem)
            return read_summary(self.path, self._kind)
        # What was lost or changed by others is worth a line; all else is what was asked for.
        level = logging.DEBUG if reason.renews else logging.INFO
        _log.log(level, "%s runs: %s", self.path.stem, reason.text)
        return None

    def reason(self) -> Reason | None:
        """Return why the stage has to run, None if it has not.

        Raises:
            DataError: if there is a file that is no record.
        """
        earlier = read_record(self.path)
        if earlier is None:
            return Reason("no earlier run")
        if change := self.change(earlier):
            return Reason(change)
        if not earlier.is_done:
            return Reason("the last run was interrupted")
        try:
            failed = getattr(read_summary(self.path, self._kind), "failed", None)
        except DataError:
            return Reason("its record was written by another version")
        if failed:
            return Reason(f"{count(len(failed), 'scene')} failed in the last run")
        lost = [f"{name} {what}" for name, what in lost_outputs(self.path, earlier).items()]
        return Reason(first(lost, _SHOWN), renews=False) if lost else None

    def begin(self) -> None:
        """Write that the stage starts, so that outputs from here on are not taken for finished.

        Outputs that somebody has changed are put aside before they are made again.
        """
        if earlier := read_record(self.path):
            for name, what in lost_outputs(self.path, earlier).items():
                if what == _CHANGED:
                    _put_aside(self.path.parent / name)
        self._write("started")

    def begin_part(self) -> None:
        """Write that the stage starts, unless another part of its work has."""
        earlier = read_record(self.path)
        if earlier is None or earlier.key != self.key or earlier.is_done:
            self.begin()

    def end_part(self) -> None:
        """Add the seconds of this part of the work to those of the others."""
        earlier = read_record(self.path)
        if earlier and earlier.key == self.key:
            self._before_s = earlier.seconds
            self._write("started")

    def finish(self, summary: Summary, outputs: Iterable[Path]) -> None:
        """Write that all outputs are there.

        Args:
            outputs: files that it made, without which it has to run again. Those outside the
                folder of the record are not watched.
        """
        folder = self.path.parent
        inside = [path.absolute() for path in outputs if path.absolute().is_relative_to(folder)]
        digests = fingerprints(inside)
        # Names that count from the folder hold when the run folder moves as a whole.
        names = {path.relative_to(folder).as_posix(): digests[path] for path in inside}
        self._write("done", summary=_as_json(asdict(summary)), outputs=names)

    def change(self, earlier: Record) -> str | None:
        """Return which settings or inputs differ from those of an earlier run, None if none do."""
        if earlier.key == self.key:
            return None
        # Settings say more than the fingerprints of inputs, so these are named only without others.
        known = known_settings(self.settings, earlier.settings, self._defaults)
        changed = list(_changes(earlier.settings, known))
        if not changed:
            names = dict.fromkeys([*earlier.inputs, *self.inputs])
            changed = [n for n in names if earlier.inputs.get(n) != self.inputs.get(n)]
        if not changed:  # A setting is there that an earlier version did not know.
            return "its record is of another version"
        return f"changed: {first(changed, _SHOWN)}"

    def _write(
        self,
        state: Literal["started", "done"],
        *,
        summary: dict[str, Any] | None = None,
        outputs: Mapping[str, str] | None = None,
    ) -> None:
        record = Record(
            stage=self.path.stem,
            state=state,
            key=self.key,
            folder=str(self.path.parent),
            settings=self.settings,
            inputs=self.inputs,
            versions=versions(),
            seconds=round(self._before_s + time.monotonic() - self._begun, 3),
            peak_mb=peak_memory_mb(),
            outputs=dict(outputs or {}),
            summary=summary,
        )
        write_json(self.path, record.model_dump(mode="json"))


def read_record(path: Path) -> Record | None:
    """Read the record of a stage, None if there is none; paths in its summary are those of today.

    Raises:
        DataError: if the file contains something else.
    """
    if not path.exists():
        return None
    record = read_strict(path, Record, advice=_ADVICE)
    summary = _moved(record.summary, path.absolute().parent, record.folder)
    return record.model_copy(update={"summary": summary})


def read_stage_key(path: Path) -> str:
    """Return the key of a finished stage: what a later stage's outputs depend on.

    Scenes that failed and were skipped are part of it.

    Raises:
        MissingInputError: if the stage has not reached its end.
        DataError: if the file is no record.
    """
    record = _read_finished(path)
    # Without failed scenes the key is that of the record, so older runs keep theirs.
    failed = (record.summary or {}).get("failed")
    return key_of({"without": sorted(failed)}, {"all": record.key}) if failed else record.key


def read_summary(path: Path, kind: type[Summary]) -> Summary:
    """Return the summary of a finished stage, or a part of it.

    Args:
        kind: dataclass of what is wanted; what else there is is left out.

    Raises:
        MissingInputError: if the stage has not reached its end.
        DataError: if the file is no record, or its summary lacks what is wanted.
    """
    record = _read_finished(path)
    try:
        return check(record.summary, kind)
    except ValueError as error:
        raise DataError(f"{path}: summary.{error}; {_ADVICE}") from error


def lost_outputs(path: Path, record: Record) -> dict[str, str]:
    """Return the outputs that are missing or were changed since a record was written, by name."""
    files = {name: path.parent / name for name in record.outputs}
    digests = fingerprints(file for file in files.values() if file.is_file())
    return {
        name: _CHANGED if file in digests else _MISSING
        for name, file in files.items()
        if digests.get(file) != record.outputs[name]
    }


def _read_finished(path: Path) -> Record:
    record = read_record(path)
    if record is None or not record.is_done:
        raise MissingInputError(
            f"{path}: {path.stem} was interrupted; run `roadseg {path.stem}` again first"
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


def _moved(value: Any, folder: Path, former: str) -> Any:  # noqa: ANN401 - any JSON value
    """Return a value with the paths into a folder updated to its present location."""
    if isinstance(value, dict):
        return {key: _moved(inner, folder, former) for key, inner in value.items()}
    if isinstance(value, list):
        return [_moved(inner, folder, former) for inner in value]
    return moved_with(folder, former, value) if isinstance(value, str) else value


def _changes(before: Mapping[str, Any], now: Mapping[str, Any], at: str = "") -> Iterator[str]:
    for key in dict.fromkeys([*before, *now]):
        old, new = before.get(key), now.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            yield from _changes(old, new, f"{at}{key}.")
        elif old != new:
            yield f"{at}{key} {_short(old)} -> {_short(new)}"


def _short(value: Any) -> str:  # noqa: ANN401 - any JSON value
    text = json.dumps(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _as_json(values: Mapping[str, Any]) -> Any:  # noqa: ANN401 - as they are read again
    return json.loads(json.dumps(values, default=str))
