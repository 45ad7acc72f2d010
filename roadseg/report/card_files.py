"""Files of a model card: what a checkpoint is, for machines (a STAC item) and for people."""

import json
import math
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from safetensors import safe_open

from roadseg.learn.network.checkpoint_facts import MODEL
from roadseg.report.card_text import EVALUATION, card_text
from roadseg.report.stac_mlm import CARD_JSON, CARD_TEXT, Weights
from roadseg.system.files import atomic_write
from roadseg.system.fingerprints import file_sha256
from roadseg.system.records import read_json

_STATISTICS = ("running_mean", "running_var", "num_batches_tracked")  # Not trained, so not counted.


def read_weights(path: Path) -> Weights:
    """Return the size, digest, parameters and date of a file of weights.

    Args:
        path: safetensors file of a checkpoint.
    """
    status = path.stat()
    written = datetime.fromtimestamp(int(status.st_mtime), UTC)
    return Weights(
        name=path.name,
        size=status.st_size,
        sha256=file_sha256(path),
        parameters=_count_parameters(path),
        written=written.strftime("%Y-%m-%dT%H:%M:%SZ"),
    )


def write_card(folder: Path, item: Mapping[str, Any]) -> None:
    """Write both forms of a card into the folder of a checkpoint, where they have changed.

    Of the same weights, the date stays, which copies of their file do not have, and so do metrics
    that were added.

    Raises:
        OutputError: if they cannot be written.
    """
    earlier = _read(folder)
    properties = dict(item["properties"])
    if earlier and earlier["assets"] == item["assets"]:
        unchanged = {"datetime", EVALUATION} & earlier["properties"].keys()
        properties |= {name: earlier["properties"][name] for name in unchanged}
    _write(folder, {**item, "properties": properties})


def add_evaluation(folder: Path, metrics: Mapping[str, Any], *, predicted: Path) -> None:
    """Add the metrics on held-out scenes to the card of a checkpoint.

    Nothing is written where there is no card, or the weights are newer than the predictions that
    were measured.

    Args:
        folder: of the checkpoint.
        metrics: JSON values by name.
        predicted: record of the predictions.

    Raises:
        OutputError: if it cannot be written.
    """
    item = _read(folder)
    if item is None:
        return
    # Only the name counts, so that no card leads out of the folder.
    weights = folder / Path(item["assets"]["weights"]["href"]).name
    if weights.is_file() and weights.stat().st_mtime <= predicted.stat().st_mtime:
        properties = {**item["properties"], EVALUATION: dict(metrics)}
        _write(folder, {**item, "properties": properties})


def _read(folder: Path) -> dict[str, Any] | None:
    """Return the card of a checkpoint; None if there is none, or another file in its place."""
    with suppress(ValueError, LookupError, TypeError):
        item = dict(read_json(folder / CARD_JSON))
        if isinstance(item["properties"], dict) and Path(item["assets"]["weights"]["href"]).name:
            return item
    return None


def _write(folder: Path, item: Mapping[str, Any]) -> None:
    for name, text in (
        (CARD_JSON, json.dumps(item, indent=2) + "\n"),
        (CARD_TEXT, card_text(item)),
    ):
        path = folder / name
        # A card that has not changed keeps its time.
        if not path.is_file() or path.read_bytes() != text.encode():
            with atomic_write(path) as partial:
                partial.write_bytes(text.encode())


def _count_parameters(path: Path) -> int:
    """Count the trained numbers in a checkpoint by their shapes alone."""
    with safe_open(path, "numpy") as file:
        return sum(
            math.prod(file.get_slice(name).get_shape())
            for name in file.keys()  # noqa: SIM118 - it is no mapping
            if name.startswith(MODEL) and not name.endswith(_STATISTICS)
        )
