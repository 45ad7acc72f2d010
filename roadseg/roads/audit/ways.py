"""Ways: the roads of a map with all of their attributes, from any vector file or graph."""

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import shapely
from pyproj import CRS

from roadseg.arrays import Array, Columns, Lines
from roadseg.errors import DataError
from roadseg.raster.grid import is_local, reproject
from roadseg.roads.formats.by_suffix import reader_of
from roadseg.roads.labels.roads import clean_shapes, file_crs
from roadseg.roads.labels.schemes import read_attributes
from roadseg.roads.labels.vectors import read_vectors
from roadseg.roads.options import LabelOptions
from roadseg.system.text import itemize

_CARS = LabelOptions()  # Roads for cars that images show, as of labels.


@dataclass(frozen=True)
class AuditedWays(Columns):
    """The ways of a map, one line each.

    Attributes:
        source: where they were read, for messages.
        lines: shape (m,), LineStrings.
        columns: all attributes of the map by key, each of shape (m,).
        left_out: how many features are not roads for cars, or hidden in tunnels, by reason.
    """

    source: str
    crs: CRS
    lines: Lines
    columns: dict[str, Array]
    left_out: Counter[str]

    def to_crs(self, crs: CRS) -> "AuditedWays":
        """Return the ways in another coordinate system."""
        return replace(self, crs=crs, lines=reproject(self.lines, self.crs, crs))


def read_ways(path: Path) -> AuditedWays:
    """Read the ways of a map on which cars may drive, with all their attributes.

    Which these are follows from the attributes as for labels: footways and the like are left out,
    tunnels too, as images do not show them.

    Args:
        path: lines in any format that OGR reads, OSM XML or PBF, GeoParquet (also Overture's
            segments), or a graph.

    Raises:
        DataError: the file cannot be read whole, has no coordinate system, or no road.
    """
    if read := reader_of(path):
        graph = read(path)
        if is_local(graph.crs):
            raise DataError(
                f"{path}: has no georeference, expected ways with a coordinate system; use a map "
                "that lies on the image"
            )
        crs, geometries, columns = graph.crs, graph.lines, graph.attributes
        cleaned = clean_shapes(geometries)
    else:
        file = read_vectors(path, list)
        geometries, columns = file.geometries, file.columns
        cleaned = clean_shapes(geometries)
        crs = file_crs(path, file, cleaned.shapes, None)
    attributes = read_attributes(columns, len(geometries), _CARS)
    is_line = shapely.get_type_id(cleaned.shapes) != shapely.GeometryType.POLYGON
    reason = np.where(is_line, attributes.left_out[cleaned.owner], "a polygon")
    feature = cleaned.owner[reason == ""]
    left_out = cleaned.dropped + Counter(reason[reason != ""].tolist())
    if not len(feature):
        reasons = f" ({itemize(left_out)})" if left_out else ""
        raise DataError(
            f"{path}: none of its {len(geometries)} features is a road for cars{reasons}; use a "
            "map with roads as lines"
        )
    return AuditedWays(
        source=str(path),
        crs=crs,
        lines=cleaned.shapes[reason == ""],
        columns={key: column[feature] for key, column in columns.items()},
        left_out=left_out,
    )
