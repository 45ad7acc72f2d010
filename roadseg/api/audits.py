"""Audit of a map of roads against probabilities."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from roadseg.api.arguments import AnyPath, as_file, options_of, table_file, takes
from roadseg.api.graphs import Graph
from roadseg.api.masks import Mask
from roadseg.errors import DataError
from roadseg.roads.masks.probabilities import Probability
from roadseg.roads.options import AuditOptions
from roadseg.system.files import require_suffix
from roadseg.system.text import Summary

if TYPE_CHECKING:
    import geopandas as gpd

    from roadseg.commands.roads.audit import AuditSummary
    from roadseg.roads.audit.profiles import Raster
    from roadseg.roads.audit.tables import AuditTables
    from roadseg.roads.audit.ways import AuditedWays


@dataclass(frozen=True)
class MapAudit(Summary):
    """What an image says of the roads of a map.

    Attributes:
        summary: kilometres by status, as `roadseg audit` prints them.
    """

    summary: "AuditSummary"
    tables: "AuditTables" = field(repr=False)

    @property
    def ways(self) -> "gpd.GeoDataFrame":
        """The ways, with rank 1 for the one to look at first."""
        return self.tables.ways

    @property
    def stretches(self) -> "gpd.GeoDataFrame":
        """The parts of ways with one status each."""
        return self.tables.stretches

    def save(self, path: AnyPath) -> Path:
        """Write the tables as GeoPackage, as `roadseg audit --output` does.

        Raises:
            ConfigError: if the suffix is not .gpkg.
            OutputError: if the file cannot be written.
        """
        from roadseg.roads.audit.tables import write_audit

        target = Path(path)
        require_suffix(target, ".gpkg")
        write_audit(target, self.tables)
        return target

    def __str__(self) -> str:
        """Return the summary as `roadseg audit` prints it."""
        return str(self.summary)


@takes(AuditOptions)
def audit(
    roads: Union[Graph, AnyPath, "gpd.GeoDataFrame"],
    probabilities: AnyPath | Probability | Mask,
    **options: Any,  # noqa: ANN401 - of one section
) -> MapAudit:
    """Hold the roads of a map against the probabilities of an image.

    Args:
        roads: file with lines, a GeoDataFrame of lines, or a graph.
        probabilities: raster or mask, VRT, or folder of such; or the result of `predict` or `burn`.
        options: `threshold`; `min_shift_m`, the distance from which on a way counts as shifted;
            `max_shift_m`, that up to which a road belongs to a way.

    Raises:
        DataError: if a file cannot be read, has no georeference, or shows another place.
        ConfigError: if there is no such option, or a value is outside its limits.
    """
    from roadseg.commands.roads.audit import summarise
    from roadseg.roads.audit.audit import audit_ways
    from roadseg.roads.audit.tables import AuditTables

    limits = options_of(AuditOptions, options)
    with _rasters(probabilities) as rasters:
        tables = AuditTables(audit_ways(_audited_ways(roads), rasters, limits))
    summary = summarise(tables, limits, rasters=len(rasters), output=None)
    return MapAudit(summary, tables)


@contextmanager
def _rasters(probabilities: AnyPath | Probability | Mask) -> Iterator[Sequence["Raster"]]:
    """Yield rasters of files or in memory; of a mask, pixels to ignore are without data."""
    from roadseg.commands.roads.audit import open_rasters

    if isinstance(probabilities, str | Path):
        yield open_rasters(Path(probabilities))
        return
    if probabilities.grid.is_local:
        raise DataError(
            "the probabilities have no georeference, so no map lies on them; use those of an image "
            "with a coordinate system"
        )
    if isinstance(probabilities, Probability):
        yield [probabilities]
        return
    with as_file(probabilities.save, ".tif", name="the mask") as path:
        yield open_rasters(path)


def _audited_ways(roads: Union[Graph, AnyPath, "gpd.GeoDataFrame"]) -> "AuditedWays":
    from roadseg.roads.audit.ways import read_ways

    if isinstance(roads, str | Path):
        return read_ways(Path(roads))
    with table_file(roads.edges if isinstance(roads, Graph) else roads.reset_index()) as path:
        return read_ways(path)
