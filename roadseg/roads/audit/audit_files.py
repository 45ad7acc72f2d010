"""Audits as GeoPackage, with styles by which QGIS shows what to look at."""

from pathlib import Path

from roadseg.roads.audit.stretches import STATUSES
from roadseg.roads.audit.tables import AuditTables
from roadseg.roads.colours import FALSE, FOUND, MISSED, Rgb
from roadseg.roads.formats.gpkg_styles import STYLE_LAYER, category_renderer, layer_styles
from roadseg.roads.formats.layers import write_gpkg_layers
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
        write_gpkg_layers(partial, layers)
