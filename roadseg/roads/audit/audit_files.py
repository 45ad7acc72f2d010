"""Audits as GeoPackage, with styles by which QGIS shows what to look at."""

from pathlib import Path

import pandas as pd
import pyogrio

from roadseg.roads.audit.stretches import STATUSES
from roadseg.roads.audit.tables import AuditTables
from roadseg.roads.colours import FALSE, FOUND, MISSED, Rgb
from roadseg.roads.formats.gpkg_styles import STYLE_LAYER, category_renderer, layer_styles
from roadseg.roads.formats.layers import gdal_errors, require_whole
from roadseg.system.files import whole

_GREY: Rgb = (150, 150, 150)
STATUS_COLOURS = dict(zip(STATUSES, (FOUND, FALSE, MISSED, _GREY), strict=True))


def write_audit(path: Path, tables: AuditTables) -> None:
    """Write an audit as GeoPackage: layers stretches and ways, and the table summary.

    Table `layer_styles` tells QGIS to colour both layers by their status.

    Raises:
        OutputError: if the file cannot be written.
    """
    renderers = {
        name: category_renderer("status", STATUS_COLOURS) for name in ("stretches", "ways")
    }
    layers = {
        "stretches": tables.stretches,
        "ways": tables.ways,
        "summary": tables.summary,
        STYLE_LAYER: layer_styles(renderers),
    }
    with whole(path) as partial:
        for number, (name, table) in enumerate(layers.items()):
            _write_layer(partial, name, table, append=number > 0)


def _write_layer(path: Path, name: str, table: pd.DataFrame, *, append: bool) -> None:
    kind = "LineString" if "geometry" in table else None
    options = {"FID": "id"} if name == STYLE_LAYER else {}
    with gdal_errors(path):
        pyogrio.write_dataframe(
            table,
            path,
            layer=name,
            driver="GPKG",
            geometry_type=kind,
            append=append,
            layer_options=options,
        )
        layer = pyogrio.read_info(path, layer=name)
    # The spatial index is what GDAL writes last.
    has_index = kind is None or bool(layer["capabilities"]["fast_spatial_filter"])
    require_whole(has_index and layer["features"] == len(table))
