"""Places: which images show the same ground."""

from collections.abc import Mapping, Sequence

import numpy as np
import shapely

from roadseg.dataset.footprints import overlapping_pairs
from roadseg.raster.grid import Grid

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


def _near(grids: Mapping[str, Grid]) -> dict[str, set[str]]:
    """Return the images that share ground with each image."""
    names = list(grids)
    corners = np.array([grid.corners_m for grid in grids.values()]).reshape(-1, 4, 2)
    zones = [grid.metric_epsg for grid in grids.values()]
    near: dict[str, set[str]] = {name: set() for name in names}
    for here, there in overlapping_pairs(corners, zones, share=SHARED).tolist():
        near[names[here]].add(names[there])
        near[names[there]].add(names[here])
    return near


def _shares(grid: Grid, others: Sequence[Grid]) -> list[float]:
    """Return how much of each other image lies on the ground of one image, 0 to 1."""
    shares = []
    for other in others:
        outline = other.footprint_in(grid.metric_crs)
        shares.append(float(shapely.intersection(outline, grid.footprint_m).area / outline.area))
    return shares
