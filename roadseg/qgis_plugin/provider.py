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

    def __init__(self, iface: Any) -> None:  # noqa: ANN401, ARG002 - of QGIS
        """Begin without a provider; QGIS asks for it."""
        self.provider: Provider | None = None

    def initProcessing(self) -> None:
        """Add the provider, also where there is no window."""
        self.provider = Provider()
        QgsApplication.processingRegistry().addProvider(self.provider)

    def initGui(self) -> None:
        """Add the provider; all else is in the toolbox of Processing."""
        self.initProcessing()

    def unload(self) -> None:
        """Remove the provider."""
        QgsApplication.processingRegistry().removeProvider(self.provider)


class Provider(QgsProcessingProvider):
    """The algorithms of roadseg, under one heading of the toolbox."""

    def id(self) -> str:
        """Return the part of the ids of all algorithms before the colon."""
        return "roadseg"

    def name(self) -> str:
        """Return the heading in the toolbox, and of the settings."""
        return "roadseg"

    def icon(self) -> QIcon:
        """Return the icon of the provider and its algorithms."""
        return QIcon(ICON)

    def svgIconPath(self) -> str:
        """Return the file of the icon."""
        return ICON

    def load(self) -> bool:
        """Add the setting and the algorithms."""
        ProcessingConfig.settingIcons[self.name()] = self.icon()
        meaning = "The roadseg command (empty: the one that installed this plugin, or in the PATH)"
        ProcessingConfig.addSetting(
            Setting(self.name(), COMMAND, meaning, "", valuetype=Setting.FILE)
        )
        ProcessingConfig.readSettings()
        self.refreshAlgorithms()
        return True

    def unload(self) -> None:
        """Remove the setting."""
        ProcessingConfig.removeSetting(COMMAND)

    def loadAlgorithms(self) -> None:
        """Add the algorithms."""
        for algorithm in ALGORITHMS:
            self.addAlgorithm(algorithm())

    def supportsNonFileBasedOutput(self) -> bool:
        """Return that results are files."""
        return False

    def supportedOutputVectorLayerExtensions(self) -> list[str]:
        """Return the only format that keeps styles and several layers."""
        return ["gpkg"]

    def defaultVectorFileExtension(self, hasGeometry: bool = True) -> str:  # noqa: ARG002, FBT001, FBT002, N803 - of QGIS
        """Return the same for temporary files."""
        return "gpkg"
