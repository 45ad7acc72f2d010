"""RoadRaster: what is road around places in metres."""

from dataclasses import dataclass

import numpy as np

from roadseg.arrays import Bools, Floats
from roadseg.roads.graph.road_graph import in_parts
from roadseg.roads.tracing.coarse_mask import CoarseMask

# Eight places around a disc of radius 1, a little inside of it.
_RIM = 0.9 * np.array([(np.sin(a), np.cos(a)) for a in np.arange(8) * np.pi / 4])
_AT_ONCE = 2**18  # So many pixels are looked up together.


@dataclass(frozen=True)
class RoadRaster:
    """The raster of road, asked about places in metres."""

    mask: CoarseMask

    def hold(self, places: Floats) -> Bools:
        """Return which places are road; those outside of the scene are."""
        row, col = np.floor(self.mask.grid.from_metric(places)).astype(np.int64).T
        return self.mask.is_road(row, col, outside=True)

    def are_road(self, places: Floats, radius_m: Floats) -> Bools:
        """Return which discs hold road only, as far as they lie in the scene."""
        centres = self.mask.grid.from_metric(places)
        reach = radius_m[:, None] / self._pixel_m
        rims = np.floor(centres[:, None] + _RIM * reach[:, None]).astype(np.int64)
        is_road = self.mask.is_road(rims[..., 0], rims[..., 1], outside=True)
        is_full: Bools = np.asarray(is_road.all(axis=1))
        rows = np.flatnonzero(is_full)
        size = np.ceil(reach[rows].max(axis=1)).astype(np.int64)
        # Discs of like size are looked up together, so that little is looked up beyond them.
        exponent = np.frexp(size)[1]
        for alike in (rows[exponent == each] for each in np.unique(exponent)):
            most = int(np.ceil(reach[alike].max()))
            for some in in_parts(alike, max(_AT_ONCE // (2 * most + 1) ** 2, 1)):
                is_full[some] = self._are_discs(centres[some], radius_m[some], most)
        return is_full

    def _are_discs(self, centres: Floats, radius_m: Floats, most: int) -> Bools:
        """Return that for discs that reach `most` pixels from their centres at most."""
        row, col = np.floor(centres).T[..., None] + np.arange(-most, most + 1)
        offsets = np.stack([row, col]) + 0.5 - centres.T[..., None]
        up, across = (offsets * self._pixel_m[:, None, None]) ** 2
        is_far = up[:, :, None] + across[:, None] > radius_m[:, None, None] ** 2
        rows, cols = row.astype(np.int64)[:, :, None], col.astype(np.int64)[:, None]
        is_road = self.mask.is_road(rows, cols, outside=True)
        return np.asarray((is_road | is_far).all(axis=(1, 2)))

    def length_m(self, places: Floats, headings: Floats, most_m: Floats) -> Floats:
        """Return how far road goes on from places in a direction, up to a limit each."""
        step_m = min(self._pixel_m) / 2
        metres = np.arange(0, most_m.max(initial=0) + step_m, step_m)
        start, ahead = (self.mask.grid.from_metric(at) for at in (places, places + headings))
        steps = np.zeros(len(places), dtype=np.int64)
        at_once = max(_AT_ONCE // len(metres), 1)
        for some in in_parts(np.arange(len(places)), at_once):
            at = start[some, None] + metres[:, None] * (ahead - start)[some, None]
            row, col = np.floor(at).astype(np.int64).transpose(2, 0, 1)
            goes_on = self.mask.is_road(row, col, outside=False)
            steps[some] = (goes_on & (metres < most_m[some, None])).argmin(axis=1)
        return np.asarray(steps * step_m)

    @property
    def _pixel_m(self) -> Floats:
        return np.array(self.mask.grid.pixel_size_m[::-1])
