"""Survey: what images and road labels hold, before anything is made of them."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import shapely
from scipy import ndimage

from roadseg.arrays import Array, Bools, Floats
from roadseg.dataset.scene_parts import parts_of_scenes
from roadseg.errors import DataError
from roadseg.raster.grid import crs_setting
from roadseg.raster.images import RasterFacts, read_facts
from roadseg.raster.options import ImageryOptions
from roadseg.raster.pixels import read_window
from roadseg.raster.sources import find_labels, image_paths, name_images
from roadseg.raster.windows import Window, spread
from roadseg.roads.formats.any_roads import label_graphs, warn_of_unjoined
from roadseg.roads.labels.roads import LabelFile, apart_text, lay_over, read_roads
from roadseg.roads.masks.mask_labels import (
    is_mask_file,
    looks_like_mask,
    mask_values,
    open_mask_labels,
    warn_of_masks,
)
from roadseg.roads.options import LabelOptions
from roadseg.system.progress import counted

_MANY_FILES = 200  # Up to this many label files are all read.
_FEW = 50  # Label files that are read where there are more.
_PIXELS_OF = 30  # Scenes whose corners are read.
_KIND_OF = 12  # Images of one kind whose pixels are read to see whether they are masks.
_CORNER_PX = 256  # Longest side of a corner that is read.
_AROUND = 0.5  # Share of a black area that lies outside the image, if it is a collar.
_BRIGHT = 0.25  # Pixels beside a collar are at least this share as bright as the image.
_BESIDE_PX = 2  # Pixels beside a collar that are looked at.


@dataclass(frozen=True)
class ImageSurvey:
    """Facts from the headers of all images and the corners of some.

    Attributes:
        scenes: facts of each image by the name of its scene.
        masks: files among them that are masks of roads, left out.
        unusable: images that cannot be used, and why.
        collars: share of black collar in the corners of each scene that has any there.
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
        matches: label file of each scene, by name.
        files: the vector files that were read.
        read: how many files were read, vector or raster.
        mask_values: number of raster masks with each value, of those that were read.
        bare: scenes without roads, of those that were checked.
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
        options: how the images are to be read.
        skip: whether images that cannot be used are left out.

    Raises:
        DataError: if there are none, one cannot be used, all are masks, their numbers of bands
            differ, or none lies in the area to work in.
    """
    facts, unusable = _read_headers(image_paths(patterns), options)
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
    parts = parts_of_scenes(named, dict.fromkeys(named, options), within=options.area)
    scenes = {name: facts[named[name]].cut(part) for name, part in parts.items()}
    require_alike(scenes.values())
    looked_at = spread(list(scenes), _PIXELS_OF)
    collars = {name: collar_share(*_corners(scenes[name])) for name in looked_at}
    return ImageSurvey(
        scenes=scenes,
        masks=masks,
        unusable=unusable,
        collars={name: share for name, share in collars.items() if share},
        looked_at=len(looked_at),
    )


def survey_labels(
    patterns: Iterable[str],
    scenes: Mapping[str, RasterFacts],
    options: LabelOptions,
    *,
    skip: bool = False,
) -> LabelSurvey:
    """Find the label file of every scene, and read them, or of very many some.

    Args:
        patterns: files, folders or globs.
        scenes: facts of each scene's image, by name.
        options: how the labels are to be read.
        skip: whether a scene that its own labels do not touch is left for prepare to skip.

    Raises:
        DataError: if a scene has no label file, a file cannot be used, or roads lie elsewhere.
    """
    matches = find_labels(patterns, {name: facts.path for name, facts in scenes.items()})
    paths = sorted(set(matches.values()))
    chosen = paths if len(paths) <= _MANY_FILES else spread(paths, _FEW)
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
        warn_of_masks(masks)
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
        Share of the lines that have one, and the widths, metres.
    """
    if not any(key in file.keys for file in files.values()):
        return 0.0, np.empty(0)
    crs = crs_setting(options.crs, "labels.crs")
    # A line without the attribute gets twice the buffer as its width: infinite, so not known.
    by_key = {"width": "attribute", "width_key": key, "buffer_m": np.inf}
    options = options.model_copy(update=by_key)
    read = (read_roads(path, options=options, crs=crs).roads.lines_only() for path in files)
    widths_m = np.concatenate([roads.width_m for roads in read])
    known = np.isfinite(widths_m)
    return float(known.mean()) if len(widths_m) else 0.0, widths_m[known]


def require_alike(scenes: Iterable[RasterFacts]) -> None:
    """Refuse scenes whose numbers of bands differ; types of pixels may.

    Raises:
        DataError: if they do.
    """
    kinds: dict[int, RasterFacts] = {}
    for facts in scenes:
        kinds.setdefault(len(facts.bands), facts)
    if len(kinds) > 1:
        few, many = (kinds[count] for count in (min(kinds), max(kinds)))
        examples = (f"{f.path.name} with {len(f.bands)} of {f.dtype}" for f in (few, many))
        first = ",".join(map(str, range(1, len(few.bands) + 1)))
        raise DataError(
            f"images with different numbers of bands found, such as {' and '.join(examples)}; "
            f"choose bands that they all have, such as --set imagery.bands={first}, or images of "
            "one kind, such as --images 'folder/*_MS_*.tif'"
        )


def _read_headers(
    paths: Sequence[Path], options: ImageryOptions
) -> tuple[dict[Path, RasterFacts], dict[Path, str]]:
    facts: dict[Path, RasterFacts] = {}
    unusable: dict[Path, str] = {}
    for path in counted(paths, "look at", total=len(paths), unit="images"):
        try:
            facts[path] = read_facts(path, options)
        except DataError as error:
            unusable[path] = str(error)
    return facts, unusable


def _masks_among(scenes: Sequence[RasterFacts]) -> tuple[Path, ...]:
    """Return the masks that lie among the images.

    All files of a kind are read only if one of a few examples looks like a mask.
    """
    kinds: dict[tuple[str, int, str], list[Path]] = {}
    for facts in scenes:
        kind = (facts.path.suffix.lower(), len(facts.bands), facts.dtype)
        kinds.setdefault(kind, []).append(facts.path)
    suspects = [
        path
        for alike in kinds.values()
        if any(looks_like_mask(path) for path in spread(alike, _KIND_OF))
        for path in alike
    ]
    return tuple(path for path in suspects if looks_like_mask(path))


def _corners(facts: RasterFacts) -> tuple[Array, Bools]:
    """Return bands and valid pixels of a scene's four corners, moved together as one image."""
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
    """Return the scenes without roads, of those whose label files were read.

    Raises:
        DataError: if a scene has no location, or the labels lie outside all images.
    """
    read = [name for name in scenes if matches[name] in files]
    looked_at = spread(read, _MANY_FILES)
    served = Counter(matches.values())
    bare = []
    for name in looked_at:
        facts, path = scenes[name], matches[name]
        if _touches(facts, path, files[path]):
            continue
        bare.append(name)
        # A scene may lack roads, but not if a label file of its own has roads that lie elsewhere.
        if served[path] == 1 and not skip and len(files[path].roads.shapes):
            raise DataError(apart_text(facts, path, files[path].roads))
    if bare and len(bare) == len(looked_at):
        _require_touch({name: scenes[name] for name in read}, matches, files)
    return tuple(bare)


def _require_touch(
    scenes: Mapping[str, RasterFacts],
    matches: Mapping[str, Path],
    files: Mapping[Path, LabelFile],
) -> None:
    """Refuse labels of which none lies on any scene."""
    filled = [name for name in scenes if len(files[matches[name]].roads.shapes)]
    if not filled:
        raise DataError(f"labels.roads: none of the {len(files)} label files read contains a road")
    if not any(_touches(scenes[name], matches[name], files[matches[name]]) for name in filled):
        path = matches[filled[0]]
        raise DataError(apart_text(scenes[filled[0]], path, files[path].roads))


def _touches(facts: RasterFacts, path: Path, file: LabelFile) -> bool:
    return len(lay_over(facts, path, file.roads)[1]) > 0


def collar_share(bands: Array, valid: Bools) -> float:
    """Return the share of a scene that is a nodata collar: areas of 0 in every band around it.

    A collar lies mostly outside the convex hull of all that is not 0, and ends where the image
    begins, at pixels as bright as others. So shadows, dark water and dark images have none.

    Args:
        bands: shape (band, row, col).
        valid: shape (row, col), false where a pixel is known to have no data.

    Returns:
        From 0 to 1; 1 if all valid pixels are 0.
    """
    empty = valid & (bands == 0).all(axis=0)
    if not empty.any() or empty.all():
        return float(empty.any())
    outside = _outside_hull(empty)
    areas, _ = ndimage.label(empty)
    collar = empty & np.isin(areas, np.unique(areas[outside]))
    is_around = outside.any() and outside.sum() >= _AROUND * collar.sum()
    return float(collar.mean()) if is_around and _ends_bright(bands, collar, valid) else 0.0


def _outside_hull(empty: Bools) -> Bools:
    """Return the empty pixels outside the convex hull of all others."""
    rows = np.flatnonzero(~empty.all(axis=1))
    first = (~empty[rows]).argmax(axis=1)
    last = empty.shape[1] - (~empty[rows, ::-1]).argmax(axis=1)
    corners = [(cols, rows + below) for cols in (first, last) for below in (0, 1)]
    hull = shapely.MultiPoint(np.concatenate([np.column_stack(c) for c in corners])).convex_hull
    outside = empty.copy()
    rows, cols = np.nonzero(empty)
    outside[rows, cols] = ~shapely.contains_xy(hull, cols + 0.5, rows + 0.5)
    return outside


def _ends_bright(bands: Array, collar: Bools, valid: Bools) -> bool:
    beside = ndimage.binary_dilation(collar, iterations=_BESIDE_PX) & ~collar & valid
    shown = valid & ~collar
    brightest = bands.max(axis=0)
    return bool(np.median(brightest[beside]) >= _BRIGHT * np.median(brightest[shown]))
