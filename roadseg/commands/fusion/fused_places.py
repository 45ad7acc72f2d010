"""Fused places: images predicted one by one, then those of the same ground joined."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import shapely

from roadseg.commands.fusion.out_of_fold import Images, OutOfFold
from roadseg.dataset.footprints import overlapping_pairs
from roadseg.errors import DataError
from roadseg.learn.inference.jobs import PredictionJob
from roadseg.learn.inference.tasks import SceneToPredict
from roadseg.learn.network.checkpoint_facts import mean_threshold
from roadseg.raster.grid import Grid
from roadseg.raster.windows import Rows, cut_blocks
from roadseg.roads.masks.fusion import FusedImage, fuse, images_tags, without_day
from roadseg.roads.masks.mask_files import read_raster_key
from roadseg.system.files import refuse_to_overwrite
from roadseg.system.parallel import each
from roadseg.system.progress import counted
from roadseg.system.records import key_of
from roadseg.system.text import count
from roadseg.system.workspace import AnyFold

_BLOCK_PX = 1024  # Side of the blocks that are fused at once.
_METHOD = 1  # It rises when the same images would be fused differently.
_LOGGED_PX = 0.5  # Pixels; smaller shifts are logged with -v only.
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Place:
    """A place to fuse.

    Attributes:
        scene: its raster, on the pixels of its largest image.
        images: predicted alone; that image first.
    """

    scene: SceneToPredict
    images: tuple[SceneToPredict, ...]


@dataclass
class FusedPlaces:
    """Prediction of places that several images show.

    Every image is predicted alone, into the folder `images` of the results. What shows the same
    ground is then joined into the raster of its place, which has the name and the pixels of its
    largest image (see `group_images`).

    Attributes:
        failed: images that were skipped, and why.
        images_of: the images of each place, when they are fused.
    """

    job: PredictionJob | OutOfFold
    folder: Path
    workers: int
    failed: dict[str, str] = field(default_factory=dict)
    images_of: Mapping[str, list[str]] = field(default_factory=dict)

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders of the networks."""
        return self.job.folders

    @property
    def fold(self) -> AnyFold | None:
        """What was held out."""
        return self.job.fold

    def run(self, images: Images, *, force: bool) -> list[SceneToPredict]:
        """Predict and fuse what is not there yet; return the places.

        Raises:
            DataError: if no two images show the same ground, or one has no georeference.
            ConfigError: if the raster of a place would replace its largest image.
        """
        described = {scene.name: scene for scene in self.job.describe(images)}
        self._places(described.values())  # If nothing is to be fused, nothing is predicted.
        if not force:
            self._reuse(described.values())
        predicted = self.job.run({name: images[name] for name in described}, force=force)
        self.failed = self.job.failed
        places = self._places(predicted)
        waiting = [place for place in places if force or not place.scene.is_there]
        work = each(fuse_place, waiting, workers=self.workers)
        for outcome in counted(work, "fuse", total=len(waiting), unit="places"):
            if outcome.error is not None:
                raise outcome.error
        self.images_of = {p.scene.name: [image.name for image in p.images] for p in places}
        return [place.scene for place in places]

    def describe(self, images: Images) -> list[SceneToPredict]:
        """Return the places that can be fused, without doing it."""
        places = self._places(self.job.describe(images))
        self.failed = self.job.failed
        return [place.scene for place in places]

    def memory_mb(self, scenes: Sequence[SceneToPredict]) -> float | None:
        """Return the memory that predicting their images takes, as `PredictionJob` does."""
        return self.job.memory_mb(scenes)

    def _places(self, scenes: Iterable[SceneToPredict]) -> list[Place]:
        """Group images into places."""
        by_name = {scene.name: scene for scene in scenes}
        for scene in by_name.values():
            if scene.facts.grid.is_local:
                raise DataError(
                    f"{scene.facts.path}: has no georeference, so which images show the same "
                    "ground is not known; leave out --fuse, or add a georeference"
                )
        groups = group_images({name: scene.facts.grid for name, scene in by_name.items()})
        if by_name and all(len(names) == 1 for names in groups.values()):
            raise DataError(
                f"predict.fuse: nothing to fuse in {count(len(by_name), 'image')}, because no two "
                f"images share {SHARED:.0%} of their ground; leave out --fuse (predict.fuse)"
            )
        return [self._place([by_name[name] for name in names]) for names in groups.values()]

    def _place(self, images: list[SceneToPredict]) -> Place:
        first = images[0]
        path = self.folder.absolute() / f"{first.name}.tif"
        refuse_to_overwrite(path, first.facts.path, option="--output")
        tags = without_day(dict(first.tags))
        tags["ROADSEG_SOURCE"] = ",".join(dict(image.tags)["ROADSEG_SOURCE"] for image in images)
        scene = replace(
            first,
            path=path,
            key=key_of({"fused": _METHOD}, {image.name: image.key for image in images}),
            threshold=mean_threshold(image.threshold for image in images),
            tags=tuple(tags.items()),
        )
        return Place(scene, tuple(images))

    def _reuse(self, scenes: Iterable[SceneToPredict]) -> None:
        """Move rasters of images that were predicted without fusion to where they belong now."""
        for scene in scenes:
            alone = self.folder / f"{scene.name}.tif"
            if read_raster_key(alone) == scene.key:
                scene.path.parent.mkdir(parents=True, exist_ok=True)
                for path in (alone.with_suffix(".qml"), alone):
                    if path.exists():
                        path.replace(scene.path.with_suffix(path.suffix))


def fuse_place(place: Place) -> None:
    """Fuse the images of a place into its raster, block by block.

    Raises:
        DataError: if the raster of an image cannot be read.
        OutputError: if the raster cannot be written.
    """
    images = _aligned(place)
    for image in images:
        is_off = max(map(abs, image.shift_px)) >= _LOGGED_PX
        _log.log(
            logging.INFO if is_off else logging.DEBUG,
            "place %s: %s is offset by %.1f px down and %.1f px right from the median of its "
            "images; corrected",
            *(place.scene.name, image.path.stem),
            *(round(pixels, 1) + 0.0 for pixels in image.shift_px),  # No "-0.0".
        )
    scene = replace(place.scene, tags=(*place.scene.tags, *images_tags(images).items()))
    scene.write(_fused(scene, images))


def _aligned(place: Place) -> list[FusedImage]:
    """Return the images of a place with their shifts about the middle of all."""
    from roadseg.commands.fusion.image_shifts import about_the_middle, find_shift

    grid = place.scene.facts.grid
    alone = [FusedImage(image.path) for image in place.images]
    shifts = [(0.0, 0.0)]
    with alone[0].opened(grid) as first:
        for other in alone[1:]:
            with other.opened(grid) as there:
                shifts.append(find_shift(first, there, grid))
    about = about_the_middle(np.array(shifts)).tolist()
    return [
        replace(image, shift_px=(down, right))
        for image, (down, right) in zip(alone, about, strict=True)
    ]


def _fused(scene: SceneToPredict, images: list[FusedImage]) -> Iterator[Rows]:
    grid = scene.facts.grid
    with ExitStack() as stack:
        opened = [stack.enter_context(image.opened(grid)) for image in images]
        for window in cut_blocks(grid.height, grid.width, block_px=_BLOCK_PX):
            values, known = fuse(image.read_all(window) for image in opened)
            yield Rows(window.row, values, known, window.col)


# Share of the smaller of two images from which on they are fused where both have data. Adjoining
# tiles overlap less.
SHARED = 0.1
COVERED = 0.9  # Share of an image from which on the raster of another one stands for it.


def group_images(grids: Mapping[str, Grid]) -> dict[str, list[str]]:
    """Group images by the ground that they show.

    The largest image of a place gives it its name and its pixels; an image of which it shows at
    least 90 % needs no raster of its own. Others that share at least 10 % with it are fused with
    it as well, and are places of their own, so that no ground is lost.

    Args:
        grids: of the images, by name; all have a georeference.

    Returns:
        The images of each place by its name, from large to small: its own first, then the others.
    """
    names = list(grids)
    near = _near(grids)
    order = sorted(names, key=lambda name: (-grids[name].footprint_m.area, name))
    images_of: dict[str, list[str]] = {}
    covered: set[str] = set()
    for name in order:
        if name in covered:
            continue
        others = sorted(near[name])
        images_of[name] = [name, *others]
        shares = _shares(grids[name], [grids[other] for other in others])
        covered |= {o for o, share in zip(others, shares, strict=True) if share >= COVERED}
    return dict(sorted(images_of.items()))


def pairs_of_one_ground(grids: Mapping[str, Grid]) -> list[tuple[str, str]]:
    """Return the pairs of images that share ground, by name."""
    names = list(grids)
    corners = np.array([grid.corners_m for grid in grids.values()]).reshape(-1, 4, 2)
    zones = [grid.metric_epsg for grid in grids.values()]
    pairs = overlapping_pairs(corners, zones, share=SHARED).tolist()
    return [(names[here], names[there]) for here, there in pairs]


def _near(grids: Mapping[str, Grid]) -> dict[str, set[str]]:
    """Return the images that share ground with each image."""
    near: dict[str, set[str]] = {name: set() for name in grids}
    for here, there in pairs_of_one_ground(grids):
        near[here].add(there)
        near[there].add(here)
    return near


def _shares(grid: Grid, others: Sequence[Grid]) -> list[float]:
    """Return how much of each other image lies on the ground of one image, 0 to 1."""
    shares = []
    for other in others:
        outline = other.footprint_in(grid.metric_crs)
        shares.append(float(shapely.intersection(outline, grid.footprint_m).area / outline.area))
    return shares
