"""Contents of images and road labels: a survey of headers, samples of pixels, and label files."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import shapely
from scipy import ndimage

from roadseg.arrays import Array, Bools, Floats
from roadseg.dataset.scene_parts import parts_of_scenes
from roadseg.errors import DataError, RoadsegError
from roadseg.raster.grid import crs_setting
from roadseg.raster.images import RasterFacts, read_facts, require_equal_bands
from roadseg.raster.inputs import find_labels, image_paths, name_images
from roadseg.raster.options import ImageryOptions
from roadseg.raster.pixels import read_window
from roadseg.raster.windows import Window, spread
from roadseg.roads.formats.any_roads import label_graphs, warn_of_unjoined
from roadseg.roads.labels.roads import LabelFile, apart_text, lay_over, read_roads
from roadseg.roads.masks.mask_labels import (
    check_masks,
    looks_like_mask,
    mask_values,
    open_mask_labels,
)
from roadseg.roads.options import LabelOptions
from roadseg.system.files import is_mask_file
from roadseg.system.progress import counted

_READ_ALL_FILES = 200  # Number of label files up to which all are read.
_SAMPLE_FILES = 50  # Label files that are read if there are more.
_SAMPLE_SCENES = 30  # Scenes whose corners are read.
_SAMPLE_PER_KIND = 12  # Images of each kind that are tested for being masks.
_CORNER_PX = 256  # Longest side of a corner that is read.
_OUTSIDE_SHARE = 0.5  # Least share of a black collar outside the convex hull of the image.
_MIN_BRIGHTNESS = 0.25  # Least brightness of pixels next to a collar, relative to the image.
_BESIDE_PX = 2  # Width of the strip next to a collar whose brightness is measured.


@dataclass(frozen=True)
class ImageSurvey:
    """Facts from the headers of all images and the corners of some.

    Attributes:
        scenes: facts of each image by the name of its scene.
        masks: road masks among the files, which are left out.
        unusable: images that cannot be used, and why.
        collars: share of black collar in the corners, of scenes that have one.
        looked_at: number of scenes whose corners were read.
    """

    scenes: dict[str, RasterFacts]
    masks: tuple[Path, ...]
    unusable: dict[Path, str]
    collars: dict[str, float]
    looked_at: int


@dataclass(frozen=True)
class LabelSurvey:
    """Contents of the label files of the images.

    Attributes:
        matches: label file of each scene by name.
        files: the vector files that were read.
        read: number of files that were read, vector or raster.
        mask_values: number of raster masks with each value, among those that were read.
        bare: scenes without roads, among those that were checked.
    """

    matches: dict[str, Path]
    files: dict[Path, LabelFile]
    read: int
    mask_values: Counter[int]
    bare: tuple[str, ...]


def survey_images(
    patterns: Iterable[str], options: ImageryOptions, *, skip: bool = False
) -> ImageSurvey:
    """Read the header of every image and the corners of some.

    Args:
        patterns: files, folders or globs.
        skip: whether to leave out images that cannot be used.

    Raises:
        DataError: if there are no images, one cannot be used, all are masks, their numbers of bands
            differ, or none is in the area to work in.
    """
    facts: dict[Path, RasterFacts] = {}
    unusable: dict[Path, str] = {}
    paths = image_paths(patterns)
    for path in counted(paths, "inspect", total=len(paths), unit="images"):
        try:
            facts[path] = read_facts(path, options)
        except DataError as error:
            unusable[path] = str(error)
    if unusable and (not skip or not facts):
        more = f" ({len(unusable)} images cannot be used)" if len(unusable) > 1 else ""
        raise DataError(next(iter(unusable.values())) + more)
    masks = _masks_among(list(facts.values()))
    if len(masks) == len(facts):
        raise DataError(
            f"{masks[0]}: this and all other images found ({len(masks)}) look like road masks; "
            "use --images for the images and --labels for the masks"
        )
    named = name_images([path for path in facts if path not in masks])
    parts = parts_of_scenes(named, dict.fromkeys(named, options), area_setting=options.area)
    scenes = {name: facts[named[name]].cut(part) for name, part in parts.items()}
    require_equal_bands({f.path: (len(f.bands), f.dtype) for f in scenes.values()})
    looked_at = spread(list(scenes), _SAMPLE_SCENES)
    collars = {name: collar_share(*_corners(scenes[name])) for name in looked_at}
    return ImageSurvey(
        scenes=scenes,
        masks=masks,
        unusable=unusable,
        collars={name: share for name, share in collars.items() if share},
        looked_at=len(looked_at),
    )


def survey_corners(images: Mapping[str, Path], options: ImageryOptions) -> ImageSurvey:
    """Read the corners of some images; those that cannot be read are left out."""
    scenes: dict[str, RasterFacts] = {}
    collars: dict[str, float] = {}
    for name, path in spread(list(images.items()), _SAMPLE_SCENES):
        with suppress(RoadsegError):
            facts = read_facts(path, options)
            collars[name] = collar_share(*_corners(facts))
            scenes[name] = facts
    return ImageSurvey(scenes, masks=(), unusable={}, collars=collars, looked_at=len(scenes))


def survey_labels(
    patterns: Iterable[str],
    scenes: Mapping[str, RasterFacts],
    options: LabelOptions,
    *,
    skip: bool = False,
) -> LabelSurvey:
    """Find the label file of every scene, and read all of them or, if there are many, a sample.

    Args:
        patterns: files, folders or globs.
        skip: whether to accept a scene without roads in its own label file, which prepare skips.

    Raises:
        DataError: if a scene has no label file, a file cannot be used, or roads are elsewhere.
    """
    matches = find_labels(patterns, {name: facts.path for name, facts in scenes.items()})
    paths = sorted(set(matches.values()))
    chosen = paths if len(paths) <= _READ_ALL_FILES else spread(paths, _SAMPLE_FILES)
    # Vector files are read as a whole; of raster masks a corner is read to see whether it fits.
    masks = [path for path in chosen if is_mask_file(path)]
    crs = crs_setting(options.crs, "labels.crs")
    lines = [path for path in chosen if path not in masks]
    shown = counted(lines, "read", total=len(lines), unit="label files")
    files = {path: read_roads(path, options=options, crs=crs) for path in shown}
    warn_of_unjoined(label_graphs({path: file.roads for path, file in files.items()}))
    for name, path in matches.items():
        if path in masks and not skip:
            facts = scenes[name]
            side = min(_CORNER_PX, facts.grid.height, facts.grid.width)
            with open_mask_labels(path, facts, options) as opened:
                opened.read(Window(0, 0, side, side))
    if options.mask_speeds_mph is None:
        check_masks(masks)
    return LabelSurvey(
        matches=matches,
        files=files,
        read=len(chosen),
        mask_values=Counter(value for path in masks for value in mask_values(path)),
        bare=_bare_scenes(scenes, matches, files, skip=skip),
    )


def usable_widths(
    files: Mapping[Path, LabelFile], options: LabelOptions, *, key: str
) -> tuple[float, Floats]:
    """Read the widths that the lines of label files have in an attribute.

    Returns:
        Share of the lines that have a width, and these widths, metres.
    """
    if not any(key in file.keys for file in files.values()):
        return 0.0, np.empty(0)
    crs = crs_setting(options.crs, "labels.crs")
    # A line without the attribute gets twice the buffer as its width; infinity marks these.
    by_key = {"width": "attribute", "width_key": key, "buffer_m": np.inf}
    options = options.model_copy(update=by_key)
    read = (read_roads(path, options=options, crs=crs).roads.lines_only() for path in files)
    widths_m = np.concatenate([roads.width_m for roads in read])
    known = np.isfinite(widths_m)
    return float(known.mean()) if len(widths_m) else 0.0, widths_m[known]


def _masks_among(scenes: Sequence[RasterFacts]) -> tuple[Path, ...]:
    """Return the road masks among the images.

    All files of a kind (suffix, bands and type) are tested only if one of a sample is a mask.
    """
    kinds: dict[tuple[str, int, str], list[Path]] = {}
    for facts in scenes:
        kind = (facts.path.suffix.lower(), len(facts.bands), facts.dtype)
        kinds.setdefault(kind, []).append(facts.path)
    suspects = [
        path
        for paths in kinds.values()
        if any(looks_like_mask(path) for path in spread(paths, _SAMPLE_PER_KIND))
        for path in paths
    ]
    return tuple(path for path in suspects if looks_like_mask(path))


def _corners(facts: RasterFacts) -> tuple[Array, Bools]:
    """Return bands and valid pixels of the four corners of a scene, put together as one image."""
    height, width = facts.grid.height, facts.grid.width
    rows, cols = min(_CORNER_PX, height // 2), min(_CORNER_PX, width // 2)
    read = [
        [read_window(facts, Window(row, col, rows, cols)) for col in (0, width - cols)]
        for row in (0, height - rows)
    ]
    bands, valid = ([[corner[part] for corner in row] for row in read] for part in (0, 1))
    return np.block(bands), np.block(valid)


def _bare_scenes(
    scenes: Mapping[str, RasterFacts],
    matches: Mapping[str, Path],
    files: Mapping[Path, LabelFile],
    *,
    skip: bool,
) -> tuple[str, ...]:
    """Return the scenes without roads, of those whose label files were read."""
    read = [name for name in scenes if matches[name] in files]
    looked_at = spread(read, _READ_ALL_FILES)
    served = Counter(matches.values())
    bare = []
    for name in looked_at:
        facts, path = scenes[name], matches[name]
        if _has_roads(facts, path, files[path]):
            continue
        bare.append(name)
        # A scene may lack roads, but not if a label file of its own has roads that lie elsewhere.
        if served[path] == 1 and not skip and len(files[path].roads.shapes):
            raise DataError(apart_text(facts, path, files[path].roads))
    if bare and len(bare) == len(looked_at):
        filled = [name for name in read if len(files[matches[name]].roads.shapes)]
        if not filled:
            raise DataError(
                f"labels.roads: none of the {len(files)} label files read contains a road"
            )
        if not any(_has_roads(scenes[n], matches[n], files[matches[n]]) for n in filled):
            path = matches[filled[0]]
            raise DataError(apart_text(scenes[filled[0]], path, files[path].roads))
    return tuple(bare)


def _has_roads(facts: RasterFacts, path: Path, file: LabelFile) -> bool:
    return len(lay_over(facts, path, file.roads)[1]) > 0


def collar_share(bands: Array, valid: Bools) -> float:
    """Return the share of a black collar: areas around the image that are 0 in every band.

    A collar is mostly outside the convex hull of all other pixels, and the pixels next to it are
    not dark. So shadows, dark water and dark images are not collars.

    Args:
        bands: shape (band, row, col).
        valid: shape (row, col), false for pixels that are declared to have no data.

    Returns:
        From 0 to 1; 1 if all valid pixels are 0.
    """
    empty = valid & (bands == 0).all(axis=0)
    if not empty.any() or (empty == valid).all():
        return float(empty.any())
    outside = _outside_hull(empty)
    areas, _ = ndimage.label(empty)
    collar = empty & np.isin(areas, np.unique(areas[outside]))
    if not (outside.any() and outside.sum() >= _OUTSIDE_SHARE * collar.sum()):
        return 0.0
    beside = ndimage.binary_dilation(collar, iterations=_BESIDE_PX) & ~collar & valid
    brightest = bands.max(axis=0)
    least = _MIN_BRIGHTNESS * np.median(brightest[valid & ~collar])
    is_bright = beside.any() and np.median(brightest[beside]) >= least
    return float(collar.mean()) if is_bright else 0.0


def _outside_hull(empty: Bools) -> Bools:
    """Return the empty pixels outside the convex hull of all other pixels."""
    rows = np.flatnonzero(~empty.all(axis=1))
    first = (~empty[rows]).argmax(axis=1)
    last = empty.shape[1] - (~empty[rows, ::-1]).argmax(axis=1)
    corners = [(cols, rows + below) for cols in (first, last) for below in (0, 1)]
    hull = shapely.MultiPoint(np.concatenate([np.column_stack(c) for c in corners])).convex_hull
    outside = empty.copy()
    rows, cols = np.nonzero(empty)
    outside[rows, cols] = ~shapely.contains_xy(hull, cols + 0.5, rows + 0.5)
    return outside
