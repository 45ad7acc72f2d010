"""Road lines to a mask of speed bins."""

import numpy as np
import shapely
from numpy.typing import NDArray
from rasterio.features import rasterize

from roadseg.core.graphs import Lines
from roadseg.core.grid import Grid
from roadseg.core.roads import reproject

BACKGROUND = 0
IGNORE = 255
_QUADRANT_SEGMENTS = 16  # of a round end; geopandas' default


def burn_roads(
    lines_m: Lines, bins: NDArray[np.uint8], grid: Grid, *, buffer_m: float
) -> NDArray[np.uint8]:
    """Burn buffered road lines into a mask; where roads overlap the faster one wins.

    Args:
        lines_m: shape (n,), LineStrings in `grid.metric_crs`.
        bins: shape (n,), the speed bin of each line, 1..7.
        grid: where the pixels of the mask lie; any CRS.
        buffer_m: half the width of a burnt road, metres. A pixel belongs to a road when its
            centre lies inside of the buffer.

    Returns:
        Mask of shape (grid.height, grid.width): 0 background, else the speed bin.
    """
    if len(lines_m) == 0:
        return np.zeros((grid.height, grid.width), dtype=np.uint8)
    areas = shapely.buffer(lines_m, buffer_m, quad_segs=_QUADRANT_SEGMENTS)
    order = np.argsort(bins, kind="stable")
    shapes = reproject(np.asarray(areas, dtype=object)[order], grid.metric_crs, grid.crs)
    mask: NDArray[np.uint8] = rasterize(
        zip(shapes, bins[order].tolist(), strict=True),
        out_shape=(grid.height, grid.width),
        transform=grid.transform,
        fill=BACKGROUND,
        dtype="uint8",
    )
    return mask
