"""INT8: the quantised form of a network, its facts, and whether it may be used."""

import functools
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from roadseg.errors import CheckpointError, DataError
from roadseg.learn.network.checkpoint_facts import checkpoint_path
from roadseg.system.fingerprints import file_sha256, stamp
from roadseg.system.records import installed_version, read_json, versions, write_json
from roadseg.system.schemas import TOLERANT, Digest, check

MADE_BY = "roadseg quantize"
FILES = ("model.bin", "model.xml")  # They decide what it computes.
_PACKAGE = "openvino"  # So does its version.
_FOLDER = "int8"
_FACTS = "facts.json"
_REFUSED = "not accurate enough when it was made"


@dataclass(frozen=True)
class Int8Facts:
    """Facts of a quantised network, which are stored as `facts.json` beside its files.

    Attributes:
        checkpoint: digest of the checkpoint from which it was made.
        files: digests of its files, by name.
        versions: versions of the packages with which it was made.
        gate: "passed", true or false, with the measured figures and their limits.
    """

    __pydantic_config__ = TOLERANT

    checkpoint: Digest
    files: Mapping[str, Digest]
    versions: Mapping[str, str | None]
    gate: Mapping[str, Any]


def int8_folder(folder: Path) -> Path:
    """Return the folder of the quantised network in a checkpoint folder."""
    return folder / _FOLDER


def write_int8_facts(folder: Path, gate: Mapping[str, Any]) -> Int8Facts:
    """Write the facts of a network that has just been quantised in a checkpoint folder.

    They are written last, because a network without them counts as missing. See `Int8Facts`.

    Raises:
        OutputError: if they cannot be written.
    """
    facts = Int8Facts(
        checkpoint=_digest(checkpoint_path(folder, "best")),
        files=_digests(folder),
        versions=versions() | {_PACKAGE: installed_version(_PACKAGE)},
        gate=gate,
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
    if facts.checkpoint != _digest(checkpoint_path(folder, "best")):
        return "made from another checkpoint"
    if changed := sorted(facts.files.items() ^ _digests(folder).items()):
        return f"{changed[0][0]} was modified after it was made"
    made_with, now = facts.versions.get(_PACKAGE), installed_version(_PACKAGE)
    if made_with != now:
        return f"made with {_PACKAGE} {made_with}, not {now}"
    return "" if facts.gate.get("passed") is True else _REFUSED


def read_int8_facts(folder: Path) -> Int8Facts | None:
    """Read the facts of the quantised network of a checkpoint folder; None if it was not made.

    Raises:
        CheckpointError: if they are not what `write_int8_facts` writes.
    """
    path = int8_folder(folder) / _FACTS
    if not path.is_file():
        return None
    try:
        return check(read_json(path), Int8Facts)
    except ValueError as error:
        reason = error.__cause__ if isinstance(error, DataError) else error
        raise CheckpointError(
            f"{path}: does not describe a quantised network ({reason}); run `{MADE_BY}` again"
        ) from error


def _digests(folder: Path) -> dict[str, str]:
    """Return the digests of the existing files of the network."""
    paths = [int8_folder(folder) / file for file in FILES]
    return {path.name: _digest(path) for path in paths if path.is_file()}


def _digest(path: Path) -> str:
    return _digest_once(path, stamp(path))


@functools.lru_cache
def _digest_once(path: Path, _stamp: str) -> str:
    """Return the digest of a file, which is read again only if it has changed."""
    return file_sha256(path)
