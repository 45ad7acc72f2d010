"""chips.json: the scenes of a run and the chips cut from them."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, cast

from pydantic import Field

from roadseg.raster.extents import ScenePart
from roadseg.raster.grid import XY, Grid
from roadseg.raster.windows import Window, cut_chips, window_corners
from roadseg.roads.options import ShiftMetres
from roadseg.roads.speeds import SpeedBins
from roadseg.system.files import moved_with
from roadseg.system.records import write_json
from roadseg.system.schemas import STRICT, FileName, FilePath, Metres, Share, read_strict
from roadseg.system.workspace import require

NO_ZONE = 0  # The zone of a scene without georeference.

SetName = Annotated[str, Field(pattern=r"\A(\w[\w-]{0,63})?\z")]

Corners = tuple[XY, XY, XY, XY]
LabelShift = tuple[ShiftMetres, ShiftMetres]  # East and north.

NO_SHIFT: LabelShift = (0.0, 0.0)


@dataclass(frozen=True)
class SceneRecord:
    """A source image with its labels.

    Attributes:
        labels: the vector file or raster mask with its roads.
        gsd_m: ground size of a pixel along a row and along a column, metres.
        set: name of its set in imagery.sets; empty without sets.
        shift_m: metres east and north by which its labels were moved.
        area: vector files with polygons in which its labels are complete; empty for everywhere.
        window: part of the image that is the scene; None for all of it. Windows of chips, and the
            rasters of the scene, begin at its first pixel.
    """

    __pydantic_config__ = STRICT

    name: FileName
    image: FilePath
    labels: FilePath
    gsd_m: tuple[Metres, Metres]
    set: SetName = ""
    shift_m: LabelShift = NO_SHIFT
    area: tuple[FilePath, ...] = ()
    window: Window | None = None

    @property
    def part(self) -> ScenePart | None:
        """The part of the image that the scene covers; None is all of it."""
        return None if self.window is None else ScenePart(self.window)


@dataclass(frozen=True)
class ChipRecord:
    """A window of a scene, the unit that is assigned to folds.

    Attributes:
        name: name of the scene and, if it was cut into chips, first row and column of the chip.
        window: row, col, height, width in pixels of the scene.
        corners_m: x and y of its four corners in the metric CRS `zone`, in order around it.
        zone: EPSG number of that CRS; `NO_ZONE` for a scene without georeference, whose metres
            count from its own corner.
        road_share: share of its pixels that are road.
        valid_share: share of its pixels that have data.
    """

    __pydantic_config__ = STRICT

    name: str
    scene: str
    window: Window
    corners_m: Corners
    zone: int
    road_share: Share
    valid_share: Share


def cut_grid(scene: str, grid: Grid, *, chip_px: int) -> list[ChipRecord]:
    """Return the chips into which a scene is cut if all of its pixels have data, without roads."""
    windows = cut_chips(grid.height, grid.width, chip_px=chip_px)
    corners_m = grid.to_metric(window_corners(windows).reshape(-1, 2)).reshape(-1, 4, 2)
    corners = [cast("Corners", tuple(map(tuple, each))) for each in corners_m.tolist()]
    return [
        ChipRecord(scene, scene, window, own, grid.metric_epsg, 0.0, 1.0)
        for window, own in zip(windows, corners, strict=True)
    ]


@dataclass(frozen=True)
class ChipList:
    """All scenes and chips of a run, and the speed bins of their masks.

    Attributes:
        scenes: all scenes of the run.
        chips: all chips of these scenes.
        bins: speed bins of the masks.
        folder: folder of the file when it was written; empty after reading.
    """

    __pydantic_config__ = STRICT

    scenes: tuple[SceneRecord, ...]
    chips: tuple[ChipRecord, ...]
    bins: SpeedBins
    folder: str = ""

    def scene(self, name: str) -> SceneRecord:
        """Return the scene of that name."""
        return self._by_name[name]

    @cached_property
    def _by_name(self) -> dict[str, SceneRecord]:
        return {scene.name: scene for scene in self.scenes}

    @property
    def set_of(self) -> dict[str, str]:
        """The name of the set of each scene, by the name of the scene."""
        return {scene.name: scene.set for scene in self.scenes}


def write_chips(
    path: Path, scenes: Sequence[SceneRecord], chips: Sequence[ChipRecord], bins: SpeedBins
) -> None:
    """Write the list, with its folder, so that images that move with it are found again."""
    records = [
        asdict(s)
        | {k: str(getattr(s, k)) for k in ("image", "labels")}
        | {"area": [str(path) for path in s.area]}
        for s in scenes
    ]
    values = {
        "folder": str(path.absolute().parent),
        "bins": asdict(bins),
        "scenes": records,
        "chips": [asdict(chip) for chip in chips],
    }
    write_json(path, values)


def read_chips(path: Path) -> ChipList:
    """Read the list of scenes and chips; paths are updated if images have moved with it.

    Raises:
        MissingInputError: if there is no such file.
        DataError: if `write_chips` did not write the file.
    """
    path = require(path, made_by="prepare")
    listed = read_strict(path, ChipList, advice="run `roadseg prepare --force`")

    def now(file: Path) -> Path:
        return Path(moved_with(path.absolute().parent, listed.folder, str(file)))

    moved = [
        replace(s, image=now(s.image), labels=now(s.labels), area=tuple(map(now, s.area)))
        for s in listed.scenes
    ]
    return replace(listed, folder="", scenes=tuple(moved))
