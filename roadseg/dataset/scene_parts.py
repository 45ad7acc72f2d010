"""Scene parts: which scenes the area to work in touches, and which part of each."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import shapely

from roadseg.errors import DataError, RoadsegError
from roadseg.raster.extents import Extent, ScenePart, part_of
from roadseg.raster.grid import DEGREES, Grid, crs_setting
from roadseg.raster.images import RasterFacts, read_scene_grid
from roadseg.raster.inputs import find_images
from roadseg.raster.options import ImageryOptions
from roadseg.raster.windows import Window
from roadseg.roads.labels.areas import Area, work_area
from roadseg.roads.masks.probabilities import ProbabilityFile, open_probability
from roadseg.system.progress import counted
from roadseg.system.text import count


def parts_of_scenes(
    images: Mapping[str, Path],
    imagery_of: Mapping[str, ImageryOptions],
    *,
    area_setting: str | None,
) -> dict[str, ScenePart | None]:
    """Return the scenes that an area touches, each with its part inside; None for the whole scene.

    Only headers are read. An image that cannot be read is kept, so that a later step reports it.

    Args:
        area_setting: `imagery.area`; None for everywhere.

    Raises:
        ConfigError: if the area is neither a box nor a file.
        DataError: if the area cannot be read or touches no image, or an image has no georeference.
    """
    if (area := work_area(area_setting)) is None:
        return dict.fromkeys(images)
    parts: dict[str, ScenePart | None] = {}
    grids: list[Grid] = []
    for name, path in counted(images.items(), "area", total=len(images), unit="images"):
        try:
            grid = read_scene_grid(path, imagery_of[name])
        except RoadsegError:
            parts[name] = None
            continue
        grids.append(grid)
        if (part := part_in(grid, area, path)) is not None:
            parts[name] = None if part.shows_all(grid) else part
    if not parts:
        raise _outside_error(area, len(images), grids)
    return parts


def scenes_in_area(
    images: Mapping[str, Path],
    imagery_of: Mapping[str, ImageryOptions],
    *,
    area_setting: str | None,
) -> tuple[dict[str, Path], int]:
    """Return the images of scenes that an area touches, and the number of other images.

    Arguments and errors are those of `parts_of_scenes`.
    """
    parts = parts_of_scenes(images, imagery_of, area_setting=area_setting)
    return {name: images[name] for name in images if name in parts}, len(images) - len(parts)


def images_in_area(images: Iterable[str], imagery: ImageryOptions) -> tuple[dict[str, Path], int]:
    """Find images that `imagery.area` touches, by name, and the number of other images.

    Args:
        images: files, folders or globs, as for `find_images`.

    Raises:
        ConfigError, DataError: see `find_images` and `parts_of_scenes`.
    """
    named = find_images(images)
    return scenes_in_area(named, dict.fromkeys(named, imagery), area_setting=imagery.area)


def cut_to_area(
    facts: RasterFacts,
    area_setting: str | None,
    *,
    part: ScenePart | None = None,
    is_prepared: bool = False,
) -> RasterFacts:
    """Return the facts of the part of a scene that is in the area to work in.

    Args:
        area_setting: `imagery.area`; None for everywhere.
        part: part of the scene to begin with; None for all of it.
        is_prepared: whether `part` has a mask. Then the rasters of the scene keep its size, and
            pixels outside of the area have no data.

    Raises:
        ConfigError: if the area is neither a box nor a file.
        DataError: if the area cannot be read or does not touch the scene, or if the scene has no
            georeference.
    """
    shown = facts.cut(part)
    if (area := work_area(area_setting)) is None:
        return shown
    touched = part_in(shown.grid, area, facts.path)
    if touched is None:
        raise _outside_error(area, 1, [shown.grid])
    if touched.shows_all(shown.grid):
        return shown
    if not is_prepared:
        return facts.cut(touched)
    all_shown = Window(0, 0, shown.grid.height, shown.grid.width)
    return facts.cut(ScenePart(shown.in_scene(all_shown), touched.within(all_shown).extent))


def open_scene_probability(path: Path, imagery: ImageryOptions) -> ProbabilityFile:
    """Open the probabilities of a scene, or its mask, cut to the area to work in, possibly to none.

    Args:
        imagery: options with the area, and with CRS and pixel size for a raster without them.

    Raises:
        ConfigError: if the area is neither a box nor a file.
        DataError: if the area or the raster cannot be read, or the raster has no georeference.
    """
    crs = crs_setting(imagery.crs, "imagery.crs")
    pixels = open_probability(path, crs=crs, gsd_m=imagery.gsd_m)
    if (area := work_area(imagery.area)) is None:
        return pixels
    part = part_in(pixels.grid, area, path)
    whole = Window(0, 0, pixels.grid.height, pixels.grid.width)
    extent = part.within(whole).extent if part else Extent(shapely.MultiPolygon())
    return replace(pixels, extent=extent)


def part_in(grid: Grid, area: Area, path: Path) -> ScenePart | None:
    """Return the part of a scene that is in an area; None if the scene lies outside.

    Args:
        path: path of the scene, for errors.

    Raises:
        DataError: if the scene has no georeference.
    """
    if grid.is_local:
        raise DataError(
            f"{path}: has no georeference, so imagery.area ({area.text}) has no place on it; "
            "georeference the image, or leave the area out"
        )
    return part_of(grid, area.on(grid))


def _outside_error(area: Area, images: int, grids: list[Grid]) -> DataError:
    outlines = np.array([grid.footprint_in(DEGREES) for grid in grids], dtype=object)
    return DataError(
        f"imagery.area: {area.text} touches none of {count(images, 'image')}; it covers "
        f"{_bounds_text(np.array([area.degrees]))}, the images cover "
        f"{_bounds_text(outlines)} (west,south,east,north in degrees); check both"
    )


def _bounds_text(shapes: np.ndarray[tuple[int], np.dtype[np.object_]]) -> str:
    return ",".join(f"{degrees:.4f}" for degrees in shapely.total_bounds(shapes))
