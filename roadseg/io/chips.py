"""chips.json: the scenes of a run and the chips cut from them."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from roadseg.core.speeds import SpeedBins
from roadseg.core.windows import Window
from roadseg.errors import DataError
from roadseg.io.files import moved_with
from roadseg.io.records import read_json, write_json

NO_ZONE = 0  # of a scene without georeference
XY = tuple[float, float]


@dataclass(frozen=True)
class SceneRecord:
    """A source image with its labels.

    Attributes:
        name: what its outputs are called.
        image: the raster.
        labels: the vector file or raster mask with its roads.
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
        corners_m: x and y of its four corners in the metric CRS `zone`, in order around it.
        zone: EPSG number of that CRS; `NO_ZONE` if the scene has no place on the ground, and
            metres count from the scene's own corner.
        road_share: share of its pixels that are road.
        valid_share: share of its pixels that hold data.
    """

    name: str
    scene: str
    window: Window
    corners_m: tuple[XY, XY, XY, XY]
    zone: int
    road_share: float
    valid_share: float


@dataclass(frozen=True)
class ChipList:
    """All scenes and chips of a run, and the speed bins of their masks."""

    scenes: tuple[SceneRecord, ...]
    chips: tuple[ChipRecord, ...]
    bins: SpeedBins

    def scene(self, name: str) -> SceneRecord:
        """Return the scene of that name."""
        return next(scene for scene in self.scenes if scene.name == name)


def write_chips(
    path: Path, scenes: Sequence[SceneRecord], chips: Sequence[ChipRecord], bins: SpeedBins
) -> None:
    """Write the list of scenes and chips, and where it lies, for when it moves with the images."""
    records = [asdict(s) | {k: str(getattr(s, k)) for k in ("image", "labels")} for s in scenes]
    values = {
        "folder": str(path.absolute().parent),
        "bins": asdict(bins),
        "scenes": records,
        "chips": [asdict(chip) for chip in chips],
    }
    write_json(path, values)


def read_chips(path: Path) -> ChipList:
    """Read the list of scenes and chips; images that moved with it are named where they lie now.

    Raises:
        DataError: if the file is not what `write_chips` writes.
    """
    found = read_json(path)
    try:
        return ChipList(
            scenes=tuple(
                _scene(values, path, found.get("folder", "")) for values in found["scenes"]
            ),
            chips=tuple(chip_from_json(values) for values in found["chips"]),
            bins=SpeedBins(tuple(found["bins"]["edges"]), found["bins"]["unit"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(
            f"{path}: not a list of chips ({error!r}); run `roadseg prepare` again"
        ) from error


def chip_from_json(values: dict[str, Any]) -> ChipRecord:
    """Make a record of what `dataclasses.asdict` and a JSON file made of it.

    Raises:
        KeyError, TypeError, ValueError: if a value is missing or is not what it should be.
    """
    corners = tuple((float(x), float(y)) for x, y in values["corners_m"])
    return ChipRecord(**{**values, "window": Window(*values["window"]), "corners_m": corners})


def _scene(values: dict[str, Any], path: Path, former: str) -> SceneRecord:
    if "/" in values["name"] or "\0" in values["name"]:
        raise ValueError(f"{values['name']!r:.100} is no name of a scene, as it leads elsewhere")
    return SceneRecord(
        name=values["name"],
        image=Path(moved_with(path.absolute().parent, former, values["image"])),
        labels=Path(moved_with(path.absolute().parent, former, values["labels"])),
        gsd_m=tuple(values["gsd_m"]),
    )
