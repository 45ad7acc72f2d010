"""The QGIS plugin: roadseg's commands as algorithms of QGIS Processing.

It runs in QGIS's own Python (3.9 or later), which has no roadseg and no torch: it starts the
`roadseg` command in another Python. Therefore nothing here imports roadseg.
"""

from __future__ import annotations

from typing import Any


def classFactory(iface: Any) -> Any:
    """Return the plugin, as QGIS asks for it."""
    from .provider import Plugin

    return Plugin(iface)
