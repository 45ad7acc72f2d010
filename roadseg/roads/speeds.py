"""Speeds: their units, and the bins into which a mask sorts them."""

import itertools
import math
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from roadseg.arrays import Bytes
from roadseg.system.units import KM_PER_MILE, speed_unit

SpeedUnit = Literal["mph", "km/h", "m/s"]
BinUnit = Literal["mph", "km/h"]

KPH_PER_MPH = KM_PER_MILE
KPH_PER_MPS = 3.6  # Kilometres an hour in a metre a second.
MPH_PER: dict[SpeedUnit, float] = {
    "mph": 1.0,
    "km/h": 1 / KPH_PER_MPH,
    "m/s": KPH_PER_MPS / KPH_PER_MPH,
}

_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_MAX_BINS = 31  # Pixels are bytes, and more bins than this have nothing to learn from.
_WHOLE = 1e-6  # A speed this near to a whole number is one.
_DECIMALS = 6  # 50 km/h is no more than 50 km/h after it was mph in between.


def in_stated_unit(kph: float) -> tuple[float, BinUnit]:
    """Return a speed in mph if it is a whole number of these but not of km/h, else in km/h."""
    mph = kph / KPH_PER_MPH
    is_mph = abs(mph - round(mph)) < _WHOLE < abs(kph - round(kph))
    return (mph, "mph") if is_mph else (kph, "km/h")


@dataclass(frozen=True)
class SpeedBins:
    """Speed bins, numbered from 1: bin b holds the speeds above edge b-1 up to edge b.

    The last bin holds every speed above the last edge.

    Attributes:
        edges: upper limits that rise from above 0, each inside the bin that it closes.
        are_known: False for the bins of a network whose labels had one assumed speed: it votes
            for this speed wherever there is road, which says nothing.

    Raises:
        ValueError: if there is no edge, there are more than 30, or they do not rise from above 0.
    """

    edges: tuple[float, ...]
    unit: BinUnit = "mph"
    are_known: bool = True

    def __post_init__(self) -> None:
        """Check the edges."""
        rising = all(low < high for low, high in itertools.pairwise((0.0, *self.edges)))
        finite = all(map(math.isfinite, self.edges))
        if not (1 <= len(self.edges) < _MAX_BINS and rising and finite):
            raise ValueError(f"expected 1 to 30 increasing edges above 0, got {self.edges}")

    @property
    def count(self) -> int:
        """Number of bins, one more than edges."""
        return len(self.edges) + 1

    @cached_property
    def speeds_mph(self) -> tuple[float, ...]:
        """Speed that stands for each bin: its middle; the last bin is as wide as the one before."""
        limits = (0.0, *self.edges)
        limits = (*limits, limits[-1] + (limits[-1] - limits[-2]))
        middles = ((low + high) / 2 for low, high in itertools.pairwise(limits))
        return tuple(middle * MPH_PER[self.unit] for middle in middles)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Name of each bin, such as "10 to 20 mph" and "above 60 mph"."""
        limits = [f"{edge:g}" for edge in (0.0, *self.edges)]
        between = (f"{low} to {high} {self.unit}" for low, high in itertools.pairwise(limits))
        return (*between, f"above {limits[-1]} {self.unit}")

    @property
    def shown_names(self) -> tuple[str, ...]:
        """Name of each bin in the unit of speed that people read, see `shown_name`."""
        return tuple(map(shown_name, self.names))

    @property
    def shown_edges(self) -> tuple[str, ...]:
        """Edges in that unit, as text."""
        return tuple(name.split()[-2] for name in self.shown_names[:-1])

    @cached_property
    def band_names(self) -> tuple[str, ...]:
        """Names of the bands of a probability raster: the bins, then any road."""
        words = (name.replace("km/h", "kph").replace(" ", "_") for name in self.names)
        return (*(f"speed_{name}" for name in words), "road")

    def bin_of(self, mph: ArrayLike) -> Bytes:
        """Return the bin of each speed; a speed on an edge is in the bin that the edge closes.

        Raises:
            ValueError: if a speed is not above 0.
        """
        speeds = np.asarray(mph, dtype=np.float64)
        if not np.all(speeds > 0):
            raise ValueError(f"a speed must be above 0 mph, got {speeds.min()}")
        in_unit = np.round(speeds / MPH_PER[self.unit], _DECIMALS)
        return (np.searchsorted(self.edges, in_unit, side="left") + 1).astype(np.uint8)


DEFAULT_BINS = SpeedBins((10.0, 20.0, 30.0, 40.0, 50.0, 60.0))


def shown_name(name: str) -> str:
    """Return the name of a speed bin in the unit of speed that people read.

    Limits in another unit are rounded: "10 to 20 mph" is "16 to 32 km/h".
    """
    limits, _, unit = name.rpartition(" ")
    shown = speed_unit()
    if unit == shown:
        return name
    factor = KPH_PER_MPH if shown == "km/h" else 1 / KPH_PER_MPH
    return f"{_NUMBER.sub(lambda limit: f'{float(limit[0]) * factor:.0f}', limits)} {shown}"
