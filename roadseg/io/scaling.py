"""scaling.json: how the bands of all scenes of a run become bytes."""

from dataclasses import asdict
from pathlib import Path

from roadseg.core.scaling import Scaling
from roadseg.io.records import write_json
from roadseg.io.schemas import read_strict


def write_scaling(path: Path, scaling: Scaling) -> None:
    """Write a scaling."""
    write_json(path, asdict(scaling))


def read_scaling(path: Path) -> Scaling:
    """Read a scaling.

    Raises:
        DataError: if the file is not what `write_scaling` writes.
    """
    return read_strict(path, Scaling, advice="run `roadseg prepare --force`")
