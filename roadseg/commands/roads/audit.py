"""audit: check a map of roads against probabilities. Reads both, writes layers."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from roadseg.errors import DataError
from roadseg.raster.inputs import image_paths
from roadseg.roads.audit.audit import audit_ways
from roadseg.roads.audit.profiles import Raster
from roadseg.roads.audit.tables import AuditTables, shift_text, write_audit
from roadseg.roads.audit.ways import read_ways
from roadseg.roads.masks.probabilities import open_probability
from roadseg.roads.options import AuditOptions
from roadseg.system.files import refuse_to_overwrite, require_suffix
from roadseg.system.text import Summary, count, itemize, table
from roadseg.system.units import road_unit, short_text, to_road_unit
from roadseg.system.workspace import Workspace

_USUAL = AuditOptions()


@dataclass(frozen=True)
class StatusSummary:
    """The roads with one status; `median_offset_m` is None if no offset is known."""

    status: str
    km: float
    share: float
    stretches: int
    median_offset_m: float | None


@dataclass(frozen=True)
class AuditSummary(Summary):
    """Figures of a map that was checked against probabilities.

    Attributes:
        probabilities: rasters with the probabilities.
        outside: number of ways left out because they touch no raster.
        left_out: number of features that are not roads for cars, by reason.
        shift_east_m: metres by which the whole map has to be moved east; None if no way is seen.
        min_shift_m: distance from which a way counts as shifted.
        threshold: probability from which a pixel counts as road, lowest and highest of all rasters.
    """

    roads: str
    probabilities: int
    ways: int
    outside: int
    left_out: dict[str, int]
    statuses: list[StatusSummary]
    shift_east_m: float | None
    shift_north_m: float | None
    min_shift_m: float
    threshold: tuple[float, float]
    output: str | None

    def __str__(self) -> str:
        """Return kilometres by status, and the common shift."""
        rows = [["status", road_unit(), "share", "offset", "stretches"]]
        rows += [
            [
                each.status,
                f"{to_road_unit(each.km):.2f}",
                f"{each.share:.1%}",
                "-" if each.median_offset_m is None else short_text(each.median_offset_m),
                str(each.stretches),
            ]
            for each in self.statuses
        ]
        parts = [table(rows, right=(1, 2, 3, 4)), self._remarks()]
        if self.output:
            parts.append(f"output: {self.output}")
        return "\n\n".join(parts)

    def _remarks(self) -> str:
        compared = f"{count(self.ways, 'way')} on {count(self.probabilities, 'raster')}"
        lines = [f"{compared}; shifted means at least {short_text(self.min_shift_m)} away"]
        if self.shift_east_m is not None and self.shift_north_m is not None:
            lines.append(shift_text((self.shift_east_m, self.shift_north_m)))
        if self.left_out:
            lines.append(f"left out: {itemize(self.left_out)}")
        if self.outside:
            lines.append(f"outside the rasters: {count(self.outside, 'way')}")
        return "\n".join(lines)


def run(
    source: Path,
    probabilities: Path,
    *,
    options: AuditOptions = _USUAL,
    output: Path | None = None,
) -> AuditSummary:
    """Check the ways of a map against probabilities; see `roads.audit.audit.audit_ways`.

    Args:
        source: the map, any file with road lines that `score` reads.
        probabilities: raster of `roadseg predict`, mask, VRT, folder of such files, or run folder.
        output: GeoPackage to write, with layers stretches and ways, and a table summary.

    Raises:
        DataError: a file cannot be read or used, or map and rasters are not of one place.
        ConfigError: `output` has another suffix, or is the map itself.
        OutputError: a file cannot be written.
    """
    require_suffix(output, ".gpkg")
    refuse_to_overwrite(output, source, option="--output")
    of_run = Workspace(probabilities).probabilities
    folder = of_run if of_run.is_dir() else probabilities
    rasters = list(map(_open_placed, image_paths([str(folder)], setting="--probabilities")))
    tables = AuditTables(audit_ways(read_ways(source), rasters, options))
    audit = tables.audit
    east, north = (round(each, 2) if np.isfinite(each) else None for each in audit.shift_m)
    summary = AuditSummary(
        roads=audit.ways.source,
        probabilities=len(rasters),
        ways=len(audit.ways.lines),
        outside=audit.outside,
        left_out=dict(Counter(audit.ways.left_out)),
        statuses=[
            StatusSummary(
                name, km, share, stretches, float(offset_m) if np.isfinite(offset_m) else None
            )
            for name, km, share, offset_m, stretches in tables.summary.to_numpy().tolist()
        ],
        shift_east_m=east,
        shift_north_m=north,
        min_shift_m=options.min_shift_m,
        threshold=audit.thresholds,
        output=None if output is None else str(output),
    )
    if output is not None:
        write_audit(output, tables)
    return summary


def _open_placed(path: Path) -> Raster:
    """Open a raster; refuse one without georeference."""
    # The size of a pixel, which counts only without a georeference, is that of any.
    raster = open_probability(path, gsd_m=1.0)
    if raster.grid.is_local:
        raise DataError(
            f"{path}: has no georeference, so the ways of the map cannot be placed on it; add one "
            "with gdal_translate -a_srs -a_ullr"
        )
    return raster
