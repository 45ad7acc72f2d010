"""Engine store: prebuilt engines and their facts, in the folder of a checkpoint."""

import functools
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from roadseg.errors import CheckpointError, DataError
from roadseg.learn.hardware import cpu
from roadseg.learn.network.checkpoints import checkpoint_path
from roadseg.system.fingerprints import file_sha256
from roadseg.system.machine import read_machine
from roadseg.system.records import installed_version, read_json, versions, write_json
from roadseg.system.schemas import TOLERANT, Digest, check

# Engines that are made beforehand, the usually fastest first, and the packages that decide what
# they compute: with other versions of these they must be made again.
PACKAGES: Mapping[str, tuple[str, ...]] = {
    "openvino": ("openvino",),
    "int8": ("torch", "torchao"),
    "onnx": ("onnxruntime",),
}
_MAKING = {
    "openvino": "roadseg quantize --engine openvino",
    "int8": "roadseg quantize --engine int8",
    "onnx": "roadseg export {folder} --format onnx",
}
FILES: Mapping[str, tuple[str, ...]] = {  # Files that decide what an engine computes.
    "openvino": ("model.bin", "model.xml"),
    "int8": ("activations.json",),
    "onnx": ("model.onnx",),
}
_FACTS = "facts.json"
_MOST_PX = 2**14
_MOST_WINDOWS = 2**16


def _has_verdict(gate: Mapping[str, Any]) -> Mapping[str, Any]:
    if type(gate.get("passed")) is not bool:
        raise ValueError(f"expected passed, true or false, got {gate!r:.60}")
    return gate


_Gate = Annotated[Mapping[str, Any], AfterValidator(_has_verdict)]
_Rate = Annotated[float, Field(gt=0, le=1e9)]  # Windows per second.


@dataclass(frozen=True)
class EngineFacts:
    """Facts of a prebuilt engine; `facts.json` beside its files.

    Attributes:
        engine: its name.
        checkpoint: digest of the checkpoint that it was made from.
        files: digests of its own files, by their names.
        window_px: side of the windows that it takes.
        batch_size: windows that it takes at once.
        cpu: on which its speed was measured.
        versions: of the packages that it was made with.
        gate: "passed", and the figures and limits by which it did or did not.
        windows_per_s: its speed; None if it was not measured.
        eager_windows_per_s: that of the eager engine, measured in turns with it, in the precision
            that the CPU is fast at.
        opening_s: seconds that it took to open.
    """

    __pydantic_config__ = TOLERANT

    engine: str
    checkpoint: Digest
    window_px: Annotated[int, Field(ge=32, le=_MOST_PX, multiple_of=32)]
    batch_size: Annotated[int, Field(ge=1, le=_MOST_WINDOWS)]
    cpu: str
    versions: Mapping[str, str | None]
    gate: _Gate
    files: Mapping[str, Digest]
    windows_per_s: _Rate | None = None
    eager_windows_per_s: _Rate | None = None
    opening_s: Annotated[float, Field(ge=0, le=1e9)] = 0.0

    @property
    def speedup(self) -> float | None:
        """Speed as a multiple of that of eager; None if that was not measured on this CPU."""
        if self.windows_per_s and self.eager_windows_per_s and self.cpu == _cpu():
            return self.windows_per_s / self.eager_windows_per_s
        return None

    def pays(self, windows: int) -> bool:
        """Return whether it opens and predicts a number of windows in less time than eager."""
        if not (self.speedup and self.windows_per_s and self.eager_windows_per_s):
            return True
        return self.opening_s + windows / self.windows_per_s < windows / self.eager_windows_per_s


def engine_folder(folder: Path, name: str) -> Path:
    """Return the folder of a prebuilt engine in a checkpoint folder."""
    return folder / "engines" / name


def write_facts(
    folder: Path,
    name: str,
    *,
    window_px: int,
    batch_size: int,
    gate: Mapping[str, Any],
    windows_per_s: float | None = None,
    eager_windows_per_s: float | None = None,
    opening_s: float = 0.0,
) -> EngineFacts:
    """Write the facts of an engine that has just been made from a checkpoint folder.

    They are written last: without them the engine counts as not there. See `EngineFacts`.

    Raises:
        OutputError: if they cannot be written.
    """
    facts = EngineFacts(
        engine=name,
        checkpoint=_digest(folder),
        window_px=window_px,
        batch_size=batch_size,
        cpu=_cpu(),
        versions=versions() | _package_versions(name),
        gate=gate,
        files=_digests(folder, name),
        windows_per_s=windows_per_s,
        eager_windows_per_s=eager_windows_per_s,
        opening_s=opening_s,
    )
    write_json(engine_folder(folder, name) / _FACTS, asdict(facts))
    return facts


def remove_facts(folder: Path, name: str) -> None:
    """Remove the facts of an engine, which makes it count as missing, before its files change."""
    (engine_folder(folder, name) / _FACTS).unlink(missing_ok=True)


def misfit(facts: EngineFacts, folder: Path, *, window_px: int, batch_size: int) -> str:
    """Return why an engine must not be used; empty if it may.

    Args:
        folder: of the checkpoint that it is to be used for.
        window_px: side of the windows that it is to be used for.
        batch_size: how many of them at once.
    """
    if problem := unusable(facts, folder):
        return problem
    if (facts.batch_size, facts.window_px) != (batch_size, window_px):
        return (
            f"made for batches of {facts.batch_size} windows of {facts.window_px} px, not "
            f"{batch_size} of {window_px} px"
        )
    return ""


def unusable(facts: EngineFacts, folder: Path) -> str:
    """Return why an engine must not be used for windows of any shape; empty if it may.

    Its files are the ones that were made, to the last bit: what else they might compute, or that
    they never end, is not found out by running them.
    """
    if facts.checkpoint != _digest(folder):
        return "made from another checkpoint"
    if changed := sorted(facts.files.items() - _digests(folder, facts.engine).items()):
        return f"{changed[0][0]} was modified after it was made"
    if not facts.gate["passed"]:
        return "not accurate enough when it was made"
    for package, version in _package_versions(facts.engine).items():
        if facts.versions.get(package) != version:
            return f"made with {package} {facts.versions.get(package)}, not {version}"
    return ""


def read_engine_facts(folder: Path, name: str) -> EngineFacts | None:
    """Read the facts of an engine of a checkpoint folder; None if it was not made.

    Raises:
        CheckpointError: if they are not what `write_facts` writes.
    """
    path = engine_folder(folder, name) / _FACTS
    if not path.is_file():
        return None
    try:
        facts = check(read_json(path), EngineFacts)
    except ValueError as error:
        reason = error.__cause__ if isinstance(error, DataError) else error
        raise CheckpointError(
            f"{path}: does not describe an engine ({reason}); run "
            f"`{making_command(folder, name)}` again"
        ) from error
    files = sorted(facts.files)
    if facts.engine != name or files != sorted(FILES[name]):
        raise CheckpointError(
            f"{path}: describes engine {facts.engine!r:.60} and files {files!r:.100}, expected "
            f"{name} and {', '.join(FILES[name])}; run `{making_command(folder, name)}` again"
        )
    return facts


def _digest(folder: Path) -> str:
    """Return the digest of the weights in a checkpoint folder."""
    path = checkpoint_path(folder, "best")
    facts = path.stat()
    return _digest_of(path, facts.st_mtime_ns, facts.st_size)


def _digests(folder: Path, name: str) -> dict[str, str]:
    """Return the digests of the files of an engine that exist."""
    paths = [engine_folder(folder, name) / file for file in FILES[name]]
    states = {path: path.stat() for path in paths if path.is_file()}
    return {
        path.name: _digest_of(path, state.st_mtime_ns, state.st_size)
        for path, state in states.items()
    }


@functools.lru_cache
def _digest_of(path: Path, _changed: int, _size: int) -> str:
    """Return the digest of a file, reading it again only after it has changed."""
    return file_sha256(path)


@functools.cache
def _cpu() -> str:
    """Return the model of the CPU and the instruction sets that it has."""
    fast = [name for name, has_it in cpu.features().items() if has_it]
    return f"{read_machine().model} ({', '.join(fast)})"


def making_command(folder: Path, name: str) -> str:
    """Return the command that makes an engine of a checkpoint folder."""
    return _MAKING[name].format(folder=folder)


def _package_versions(name: str) -> dict[str, str | None]:
    return {package: installed_version(package) for package in PACKAGES[name]}
