import numpy as np
import pytest
from scipy import ndimage


@pytest.fixture
def drawn():
    """Give a function that draws the probabilities of a network that errs, as bytes."""

    def draw(side_px, *, seed=0, roads=30):
        rng = np.random.default_rng(seed)
        widths = {3: None, 5: None, 8: None}  # in pixels
        lines = {width: np.zeros((side_px, side_px), dtype=bool) for width in widths}
        for _ in range(roads):
            start, angle = rng.uniform(0, side_px, 2), rng.uniform(0, 2 * np.pi)
            bends = angle + np.cumsum(rng.normal(0, 0.006, side_px * 2))
            row = start[0] + np.cumsum(np.sin(bends) / 2)
            col = start[1] + np.cumsum(np.cos(bends) / 2)
            inside = (np.minimum(row, col) >= 0) & (np.maximum(row, col) < side_px)
            places = row[inside].astype(int), col[inside].astype(int)
            lines[int(rng.choice(list(widths)))][places] = True
        road = np.zeros((side_px, side_px), dtype=bool)
        for width, line in lines.items():
            road |= ndimage.distance_transform_edt(~line) <= width / 2
        blurred = ndimage.gaussian_filter(road.astype(np.float32), 1.2) * 0.9
        blurred += 0.25 * ndimage.gaussian_filter(rng.normal(0, 1, road.shape), 2)
        for row, col in rng.integers(0, side_px, (roads * 3, 2)):
            size = int(rng.integers(3, 12))
            blurred[max(row - size, 0) : row + size, max(col - size, 0) : col + size] *= 0.2
        return (blurred.clip(0, 1) * 255).astype(np.uint8)

    return draw
