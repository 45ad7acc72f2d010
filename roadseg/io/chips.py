"""chips.json: the scenes of a run and the chips cut from them."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from roadseg.core.windows import Window
from roadseg.errors import DataError
from roadseg.io.records import read_json, write_json


@dataclass(frozen=True)
class SceneRecord:
    """A source image with its labels.

    Attributes:
        name: what its outputs are called.
        image: the raster.
        labels: the vector file with its roads.
        gsd_m: ground size of a pixel along a row and along a column, metres.
    """

    name: str
    image: Path
    labels: Path
    gsd_m: tuple[float, float]


@dataclass(frozen=True)
class ChipRecord:
    """A window of a scene, the unit that is dealt into folds.

    Attributes:
        name: the scene's name and, where it was cut, the chip's row and column of pixels.
        scene: the scene's name.
        window: row, col, height, width in pixels of the scene.
        centre_m: x and y of its middle in the metric CRS `zone`.
        zone: EPSG number of that CRS.
        road_share: share of its pixels that are road.
        valid_share: share of its pixels that hold data.
    """

    name: str
    scene: str
    window: Window
    centre_m: tuple[float, float]
    zone: int
    road_share: float
    valid_share: float


@dataclass(frozen=True)
class ChipList:
    """All scenes and chips of a run."""

    scenes: tuple[SceneRecord, ...]
    chips: tuple[ChipRecord, ...]

    def scene(self, name: str) -> SceneRecord:
        """Return the scene of that name."""
        return next(scene for scene in self.scenes if scene.name == name)


def write_chips(path: Path, scenes: Sequence[SceneRecord], chips: Sequence[ChipRecord]) -> None:
    """Write the list of scenes and chips."""
    records = [asdict(s) | {k: str(getattr(s, k)) for k in ("image", "labels")} for s in scenes]
    write_json(path, {"scenes": records, "chips": [asdict(chip) for chip in chips]})


def read_chips(path: Path) -> ChipList:
    """Read the list of scenes and chips.

    Raises:
        DataError: if the file is not what `write_chips` writes.
    """
    found = read_json(path)
    try:
        scenes = [
            SceneRecord(
                name=s["name"],
                image=Path(s["image"]),
                labels=Path(s["labels"]),
                gsd_m=tuple(s["gsd_m"]),
            )
            for s in found["scenes"]
        ]
        chips = [
            ChipRecord(**{**c, "window": Window(*c["window"]), "centre_m": tuple(c["centre_m"])})
            for c in found["chips"]
        ]
    except (KeyError, TypeError) as error:
        raise DataError(
            f"{path}: not a list of chips ({error!r}); run `roadseg prepare` again"
        ) from error
    return ChipList(tuple(scenes), tuple(chips))
