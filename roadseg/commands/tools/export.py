"""export: the network of a checkpoint as ONNX for other programs."""

from dataclasses import dataclass
from pathlib import Path

from roadseg.errors import ConfigError
from roadseg.learn.inference.exports import FACTS, MODEL, write_export
from roadseg.learn.inference.programs import MAX_DIFFERENCE
from roadseg.learn.network.checkpoints import load_checkpoint
from roadseg.learn.network.installed_weights import checkpoint_folder
from roadseg.system.text import Summary, count

_MB = 1e6


@dataclass(frozen=True)
class ExportSummary(Summary):
    """An exported network.

    Attributes:
        checkpoint: folder of the checkpoint.
        folder: folder of the exported files.
        window_px: side of the windows that the network takes.
        batch_size: number of windows that it takes at once; None for any number.
        max_difference: largest difference of a probability from that of PyTorch.
        megabytes: size of all files.
    """

    checkpoint: str
    folder: str
    window_px: int
    batch_size: int | None
    max_difference: float
    megabytes: float

    def __str__(self) -> str:
        """Return the figures as a table."""
        batches = "any batch size"
        if self.batch_size is not None:
            batches = f"batches of {count(self.batch_size, 'window')}"
        rows = {
            "folder": f"{self.folder}, {self.megabytes:.1f} MB",
            "windows": f"{self.window_px} px, {batches}",
            "difference": f"probabilities differ from PyTorch by {self.max_difference:.1g} "
            f"(limit {MAX_DIFFERENCE:g})",
        }
        return "\n".join(f"{name:<11} {text}" for name, text in rows.items())


def run(
    checkpoint: Path,
    output: Path,
    *,
    window_px: int,
    batch_size: int | None,
    force: bool = False,
) -> ExportSummary:
    """Write a checkpoint, or "starter", as ONNX; batch_size None is for any number of windows."""
    _require_free(output, force=force)
    difference = write_export(
        load_checkpoint(checkpoint_folder(checkpoint)),
        output,
        window_px=window_px,
        batch_size=batch_size,
    )
    return ExportSummary(
        checkpoint=str(checkpoint),
        folder=str(output),
        window_px=window_px,
        batch_size=batch_size,
        max_difference=difference,
        megabytes=sum(path.stat().st_size for path in output.iterdir()) / _MB,
    )


def _require_free(output: Path, *, force: bool) -> None:
    """Refuse to replace an export without `force`, and any other files in any case."""
    if output.exists() and not output.is_dir():
        raise ConfigError(f"{output} is a file; use a folder")
    names = {path.name for path in output.glob("*")}
    if foreign := sorted(names - {FACTS, MODEL}):
        raise ConfigError(f"{output} contains other files ({foreign[0]}); use a separate folder")
    if names and not force:
        raise ConfigError(f"{output} exists; use --force to replace it, or another folder")
