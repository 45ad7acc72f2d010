"""Scene records: what prepare found in a scene, as JSON beside its mask."""

from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Annotated

from pydantic import Field

from roadseg.dataset.chips import ChipRecord
from roadseg.system.records import read_json, write_json
from roadseg.system.schemas import STRICT, Band, Count, FileName, Metres, read_strict

_Value = Annotated[str, Field(pattern=r"\A[0-9]{1,3}\z")]  # of a mask
_Length = Annotated[float, Field(ge=0, le=1e9)]


@dataclass(frozen=True)
class SceneFound:
    """What was found in a scene and made of it; kept as JSON beside the mask.

    Attributes:
        name: of the scene.
        bands: numbers of the bands used.
        dtype: type of the pixels.
        gsd_m: ground size of a pixel along a row and along a column, metres.
        chips: cut from it, without those that hold no data.
        pixels: number of pixels for each value of the mask, as text.
        features: labels in the label file.
        scheme: what their attributes mean, or "mask".
        keys: names of their attributes.
        dropped: labels left out, by reason.
        repaired: labels whose broken polygons were repaired.
        roads: roads in the label file.
        touching: indices of those that touch the scene.
        missed: why no road touches it, if so.
        road_km: length of the lines inside the scene by speed bin, as text.
        speed_sources: roads that touch the scene by the key that gave their speed.
    """

    __pydantic_config__ = STRICT

    name: FileName
    bands: tuple[Band, ...]
    dtype: str
    gsd_m: tuple[Metres, Metres]
    chips: tuple[ChipRecord, ...]
    pixels: dict[_Value, Count]
    features: Count = 0
    scheme: str = "mask"
    keys: tuple[str, ...] = ()
    dropped: dict[str, Count] = field(default_factory=dict)
    repaired: Count = 0
    roads: Count = 0
    touching: tuple[Count, ...] = ()
    missed: str | None = None
    road_km: dict[_Value, _Length] = field(default_factory=dict)
    speed_sources: dict[str, Count] = field(default_factory=dict)


@dataclass(frozen=True)
class _Kept:
    """What stands in the file."""

    __pydantic_config__ = STRICT

    key: str
    found: SceneFound


def write_found(path: Path, found: SceneFound, *, key: str) -> None:
    """Write what was found in a scene.

    Args:
        path: of the record.
        found: in the scene.
        key: digest of all that it was found from.
    """
    write_json(path, {"key": key, "found": asdict(found)})


def read_found(path: Path, *, key: str | None = None) -> SceneFound | None:
    """Read what was found in a scene.

    Args:
        path: of the record.
        key: digest of what it has to be found from; None takes it whatever it is.

    Returns:
        None if there is no record, or it is of another key or of a version with other fields.

    Raises:
        DataError: if the file is not what `write_found` writes.
    """
    values = read_json(path) if path.exists() else None
    if values is None or _is_older(values):
        return None
    kept = read_strict(path, _Kept, advice="run `roadseg prepare --force`")
    return kept.found if key in (None, kept.key) else None


def _is_older(values: object) -> bool:
    found = values.get("found") if isinstance(values, dict) else None
    return isinstance(found, dict) and found.keys() != {each.name for each in fields(SceneFound)}
