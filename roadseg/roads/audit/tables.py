"""Tables of an audit: stretches, ways, and kilometres by status; the GeoPackage of all three."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import geopandas as gpd
import numpy as np
import pandas as pd

from roadseg.arrays import Array, Bools, Floats, Ints
from roadseg.raster.grid import XY
from roadseg.roads.audit.audit import Audit
from roadseg.roads.audit.stretches import CONFIRMED, NO_DATA, SHIFTED, STATUSES
from roadseg.roads.colours import FALSE, FOUND, MISSED, Rgb
from roadseg.roads.formats.gpkg_styles import STYLE_LAYER, category_renderer, layer_styles
from roadseg.roads.formats.layers import write_gpkg_layers
from roadseg.roads.labels.tags import without_lists
from roadseg.system.files import atomic_write
from roadseg.system.units import short_text

# Columns that say what the image shows, and what an attribute of the map is called otherwise.
_OF_STRETCHES = (
    *("way", "stretch", "status", "length_m", "offset_m", "width_m", "probability"),
    *("ridge_probability", "goes_on", "doubt_m"),
)
_OF_WAYS = ("rank", *(f"{status.replace(' ', '_')}_m" for status in STATUSES))
_RESERVED = {*_OF_STRETCHES, *_OF_WAYS, "fid", "geom", "geometry"}
_GREY: Rgb = (150, 150, 150)
_COLOURS = dict(zip(STATUSES, (FOUND, FALSE, MISSED, _GREY), strict=True))
_PREFIX = "map_"
_DECIMALS = 3
_FITS_M = 0.1  # Metres; a map that is shifted by less fits.


@dataclass(frozen=True)
class AuditTables:
    """The tables of an audit, each made once."""

    audit: Audit

    @cached_property
    def stretches(self) -> gpd.GeoDataFrame:
        """The stretches: way, stretch, what was found, and the attributes of their ways."""
        audit = self.audit
        columns = {
            "way": audit.way + 1,
            "stretch": np.arange(1, len(audit.way) + 1),
            "status": np.array(STATUSES, dtype=object)[audit.status],
            **{name: _rounded(getattr(audit, name)) for name in _OF_STRETCHES[3:]},
            **{name: values[audit.way] for name, values in self._attributes.items()},
        }
        return gpd.GeoDataFrame(columns, geometry=audit.lines, crs=audit.ways.crs)

    @cached_property
    def ways(self) -> gpd.GeoDataFrame:
        """The ways in the order of the map: way, rank, what was found, and their attributes.

        rank is 1 for the way to be looked at first, that with most `doubt_m`. The status is that of
        the longest part with data. Probabilities, offset and width are means over the
        stretches that have them, weighted by length; the offset is that of its shifted stretches,
        where there are any.
        """
        audit = self.audit
        metres = self._metres
        columns = {
            "way": np.arange(1, len(metres) + 1),
            "rank": 1 + np.argsort(np.argsort(-self._doubt_m, kind="stable")),
            "status": np.array(STATUSES, dtype=object)[_main_status(metres)],
            "length_m": _rounded(metres.sum(axis=1)),
            **{name: _rounded(metres[:, n]) for n, name in enumerate(_OF_WAYS[1:])},
            "offset_m": _rounded(self._offsets),
            **{name: _rounded(self._means(getattr(audit, name))) for name in _OF_STRETCHES[5:8]},
            "doubt_m": _rounded(self._doubt_m),
            **self._attributes,
        }
        return gpd.GeoDataFrame(columns, geometry=audit.ways.lines, crs=audit.ways.crs)

    @cached_property
    def summary(self) -> pd.DataFrame:
        """Kilometres and share by status, and the median of the absolute offset there."""
        audit = self.audit
        km = np.bincount(audit.status, audit.length_m, minlength=len(STATUSES)) / 1000
        offsets = [_middle(audit, audit.status == status) for status in range(len(STATUSES))]
        columns = {
            "status": STATUSES,
            "km": _rounded(km),
            "share": _rounded(km / max(km.sum(), 1e-9)),
            "median_offset_m": _rounded(np.array(offsets)),
            "stretches": np.bincount(audit.status, minlength=len(STATUSES)),
        }
        return pd.DataFrame(columns)

    @cached_property
    def _doubt_m(self) -> Floats:
        """Doubtful metres of each way, shape (ways,)."""
        audit = self.audit
        doubt_m = np.bincount(audit.way, audit.doubt_m, minlength=len(audit.ways.lines))
        return np.asarray(doubt_m, dtype=np.float64)

    @cached_property
    def _attributes(self) -> dict[str, Array]:
        """The attributes of the ways, with `map_` before names that another column has."""
        used = {name.lower() for name in _RESERVED}
        named: dict[str, Array] = {}
        for key, column in self.audit.ways.columns.items():
            name = key
            while name.lower() in used:
                name = _PREFIX + name
            used.add(name.lower())
            named[name] = without_lists(column)
        return named

    @cached_property
    def _metres(self) -> Floats:
        """Metres of each way by status, shape (ways, statuses)."""
        size = (len(self.audit.ways.lines), len(STATUSES))
        place = self.audit.way * size[1] + self.audit.status
        metres = np.bincount(place, self.audit.length_m, minlength=size[0] * size[1])
        return np.asarray(metres.reshape(size))

    @property
    def _offsets(self) -> Floats:
        shifted = self._means(np.where(self.audit.status == SHIFTED, self.audit.offset_m, np.nan))
        confirmed = np.where(self.audit.status == CONFIRMED, self.audit.offset_m, np.nan)
        return np.where(np.isnan(shifted), self._means(confirmed), shifted)

    def _means(self, values: Floats) -> Floats:
        """Return the mean of each way over its stretches with a value, weighted by length."""
        audit = self.audit
        weight = np.where(np.isfinite(values), audit.length_m, 0.0)
        size = len(audit.ways.lines)
        total = np.bincount(audit.way, weight * np.nan_to_num(values), minlength=size)
        weights = np.bincount(audit.way, weight, minlength=size)
        return np.where(weights > 0, total / np.where(weights > 0, weights, 1), np.nan)


def shift_text(shift_m: XY) -> str:
    """Return the shift of a whole map in words; "" if it is not known."""
    east_m, north_m = shift_m
    if not np.isfinite(east_m):
        return ""
    if np.hypot(east_m, north_m) < _FITS_M:
        return f"on average, the map fits the image to within {short_text(_FITS_M)}"
    across = f"{short_text(abs(east_m))} to the {'east' if east_m >= 0 else 'west'}"
    along = f"{short_text(abs(north_m))} to the {'north' if north_m >= 0 else 'south'}"
    return f"on average, the roads of the image lie {across} and {along} of the map"


def _main_status(metres: Floats) -> Ints:
    """Return the status of most metres of each way; "no data" only if there are no others."""
    with_data = metres[:, :NO_DATA]
    return np.where(with_data.sum(axis=1) > 0, with_data.argmax(axis=1), NO_DATA)


def _middle(audit: Audit, chosen: Bools) -> float:
    """Return the median of absolute offsets of stretches by length; NaN if none has one."""
    offset_m, metres = np.abs(audit.offset_m[chosen]), audit.length_m[chosen]
    order = np.argsort(offset_m)[: int(np.isfinite(offset_m).sum())]
    if not len(order):
        return float("nan")
    along = np.cumsum(metres[order])
    return float(offset_m[order][np.searchsorted(along, along[-1] / 2)])


def _rounded(values: Array) -> Array:
    is_number = values.dtype.kind == "f"
    return values.astype(np.float64).round(_DECIMALS) if is_number else values.astype(np.int64)


def write_audit(path: Path, tables: AuditTables) -> None:
    """Write an audit as GeoPackage: layers stretches and ways, and the table summary.

    Table `layer_styles` tells QGIS to colour both layers by their status.

    Raises:
        OutputError: if the file cannot be written.
    """
    renderers = {name: category_renderer("status", _COLOURS) for name in ("stretches", "ways")}
    layers = {
        "stretches": tables.stretches,
        "ways": tables.ways,
        "summary": tables.summary,
        STYLE_LAYER: layer_styles(renderers),
    }
    with atomic_write(path) as partial:
        write_gpkg_layers(partial, layers)
