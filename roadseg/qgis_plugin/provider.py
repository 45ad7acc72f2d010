"""The plugin, and its provider of algorithms for QGIS Processing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from processing.core.ProcessingConfig import ProcessingConfig, Setting
from qgis.core import QgsApplication, QgsProcessingProvider
from qgis.PyQt.QtGui import QIcon

from .algorithms import ALGORITHMS
from .running import COMMAND

ICON = str(Path(__file__).with_name("icon.svg"))


class Plugin:
    """The plugin: a provider that is there as long as the plugin is on."""

    def __init__(self, iface: Any) -> None:
        self.provider: Provider | None = None

    def initProcessing(self) -> None:
        self.provider = Provider()
        QgsApplication.processingRegistry().addProvider(self.provider)

    def initGui(self) -> None:
        self.initProcessing()

    def unload(self) -> None:
        QgsApplication.processingRegistry().removeProvider(self.provider)


class Provider(QgsProcessingProvider):
    """The algorithms of roadseg, under one heading of the toolbox, and the setting of its command.

    GeoPackages are the only vector format of results, because they keep styles and several layers.
    """

    def id(self) -> str:
        return "roadseg"

    def name(self) -> str:
        return "roadseg"

    def icon(self) -> QIcon:
        return QIcon(ICON)

    def load(self) -> bool:
        ProcessingConfig.settingIcons[self.name()] = self.icon()
        meaning = "The roadseg command (if empty, the one that installed the plugin)"
        ProcessingConfig.addSetting(
            Setting(self.name(), COMMAND, meaning, "", valuetype=Setting.FILE)
        )
        ProcessingConfig.readSettings()
        self.refreshAlgorithms()
        return True

    def unload(self) -> None:
        ProcessingConfig.removeSetting(COMMAND)

    def loadAlgorithms(self) -> None:
        for algorithm in ALGORITHMS:
            self.addAlgorithm(algorithm())

    def supportsNonFileBasedOutput(self) -> bool:
        return False

    def supportedOutputVectorLayerExtensions(self) -> list[str]:
        return ["gpkg"]
