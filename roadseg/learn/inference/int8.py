"""INT8: the quantised form of a network, its facts, and whether it may be used."""

import functools
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from roadseg.errors import CheckpointError, DataError
from roadseg.learn.hardware import cpu
from roadseg.learn.network.checkpoints import checkpoint_path
from roadseg.system.fingerprints import file_sha256, stamp
from roadseg.system.machine import read_machine
from roadseg.system.records import installed_version, read_json, versions, write_json
from roadseg.system.schemas import TOLERANT, Digest, check

MADE_BY = "roadseg quantize"
FILES = ("model.bin", "model.xml")  # They decide what it computes.
_PACKAGE = "openvino"  # So does its version.
_FOLDER = "int8"
_FACTS = "facts.json"
_MOST_PX = 2**14
_REFUSED = "not accurate enough when it was made"


def _has_verdict(gate: Mapping[str, Any]) -> Mapping[str, Any]:
    if type(gate.get("passed")) is not bool:
        raise ValueError(f"expected passed, true or false, got {gate!r:.60}")
    return gate


_Gate = Annotated[Mapping[str, Any], AfterValidator(_has_verdict)]
_Rate = Annotated[float, Field(gt=0, le=1e9)]  # Windows per second.


@dataclass(frozen=True)
class Int8Facts:
    """Facts of a quantised network, which are stored as `facts.json` beside its files.

    Attributes:
        checkpoint: digest of the checkpoint from which it was made.
        files: digests of its files, by name.
        window_px: side of the windows with which it was measured; others are possible.
        cpu: CPU on which its speed was measured.
        versions: versions of the packages with which it was made.
        gate: "passed", true or false, with the measured figures and their limits.
        windows_per_s: speed of the quantised network.
        eager_windows_per_s: speed of the eager engine, measured in turns with it, in the fastest
            precision of the CPU.
        opening_s: seconds to open the quantised network.
    """

    __pydantic_config__ = TOLERANT

    checkpoint: Digest
    files: Mapping[str, Digest]
    window_px: Annotated[int, Field(ge=32, le=_MOST_PX, multiple_of=32)]
    cpu: str
    versions: Mapping[str, str | None]
    gate: _Gate
    windows_per_s: _Rate
    eager_windows_per_s: _Rate
    opening_s: Annotated[float, Field(ge=0, le=1e9)]

    @property
    def speedup(self) -> float | None:
        """Speed as a multiple of that of eager; None if it was not measured on this CPU."""
        return self.windows_per_s / self.eager_windows_per_s if self.cpu == _cpu() else None


def int8_folder(folder: Path) -> Path:
    """Return the folder of the quantised network in a checkpoint folder."""
    return folder / _FOLDER


def write_int8_facts(
    folder: Path,
    *,
    window_px: int,
    gate: Mapping[str, Any],
    windows_per_s: float,
    eager_windows_per_s: float,
    opening_s: float,
) -> Int8Facts:
    """Write the facts of a network that has just been quantised in a checkpoint folder.

    They are written last, because a network without them counts as missing. See `Int8Facts`.

    Raises:
        OutputError: if they cannot be written.
    """
    facts = Int8Facts(
        checkpoint=_digest(folder),
        files=_digests(folder),
        window_px=window_px,
        cpu=_cpu(),
        versions=versions() | {_PACKAGE: installed_version(_PACKAGE)},
        gate=gate,
        windows_per_s=windows_per_s,
        eager_windows_per_s=eager_windows_per_s,
        opening_s=opening_s,
    )
    write_json(int8_folder(folder) / _FACTS, asdict(facts))
    return facts


def remove_int8_facts(folder: Path) -> None:
    """Remove the facts before the files of the network change, so that it counts as missing."""
    (int8_folder(folder) / _FACTS).unlink(missing_ok=True)


def is_judged(folder: Path) -> bool:
    """Return whether the network of a checkpoint folder was quantised, and accepted or refused.

    A result for other weights, or of another version of OpenVINO, does not count.

    Raises:
        CheckpointError: see `read_int8_facts`.
    """
    facts = read_int8_facts(folder)
    return facts is not None and unusable(facts, folder) in ("", _REFUSED)


def unusable(facts: Int8Facts, folder: Path) -> str:
    """Return why a quantised network must not be used; empty if it may.

    Its files must be the ones that were written, bit for bit. Running modified files would not show
    that they compute something else, or never end.
    """
    if facts.checkpoint != _digest(folder):
        return "made from another checkpoint"
    if changed := sorted(facts.files.items() - _digests(folder).items()):
        return f"{changed[0][0]} was modified after it was made"
    made_with, now = facts.versions.get(_PACKAGE), installed_version(_PACKAGE)
    if made_with != now:
        return f"made with {_PACKAGE} {made_with}, not {now}"
    return "" if facts.gate["passed"] else _REFUSED


def read_int8_facts(folder: Path) -> Int8Facts | None:
    """Read the facts of the quantised network of a checkpoint folder; None if it was not made.

    Raises:
        CheckpointError: if they are not what `write_int8_facts` writes.
    """
    path = int8_folder(folder) / _FACTS
    if not path.is_file():
        return None
    try:
        facts = check(read_json(path), Int8Facts)
    except ValueError as error:
        reason = error.__cause__ if isinstance(error, DataError) else error
        raise CheckpointError(
            f"{path}: does not describe a quantised network ({reason}); run `{MADE_BY}` again"
        ) from error
    if (files := sorted(facts.files)) != sorted(FILES):
        raise CheckpointError(
            f"{path}: describes files {files!r:.100}, expected {', '.join(FILES)}; run `{MADE_BY}` "
            "again"
        )
    return facts


def _digest(folder: Path) -> str:
    """Return the digest of the weights in a checkpoint folder."""
    return _sha256(checkpoint_path(folder, "best"))


def _digests(folder: Path) -> dict[str, str]:
    """Return the digests of the existing files of the network."""
    paths = [int8_folder(folder) / file for file in FILES]
    return {path.name: _sha256(path) for path in paths if path.is_file()}


def _sha256(path: Path) -> str:
    return _sha256_once(path, stamp(path))


@functools.lru_cache
def _sha256_once(path: Path, _stamp: str) -> str:
    """Return the digest of a file, which is read again only if it has changed."""
    return file_sha256(path)


@functools.cache
def _cpu() -> str:
    """Return the model of the CPU and the instruction sets that it has."""
    fast = [name for name, has_it in cpu.features().items() if has_it]
    return f"{read_machine().model} ({', '.join(fast)})"
