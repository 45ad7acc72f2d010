"""What all algorithms share: layers as files for roadseg, its progress in QGIS, its results."""

from __future__ import annotations

import os
import re
import shlex
import time
from pathlib import Path
from typing import Any

from osgeo import gdal, ogr
from processing.core.ProcessingConfig import ProcessingConfig
from qgis.core import (
    QgsCoordinateReferenceSystem,
    QgsDistanceArea,
    QgsPointXY,
    QgsProcessingAlgorithm,
    QgsProcessingContext,
    QgsProcessingException,
    QgsProcessingLayerPostProcessorInterface,
    QgsProcessingParameterDefinition,
    QgsProcessingParameterString,
    QgsProcessingUtils,
    QgsRasterBlockFeedback,
    QgsRasterFileWriter,
    QgsRasterLayer,
    QgsRasterPipe,
)
from qgis.PyQt.QtCore import Qt

from .process import CancelledError, CommandError, find_command, percent, read_progress, run

COMMAND = "ROADSEG_COMMAND"  # The setting of Processing that names the executable.
DEGREES = QgsCoordinateReferenceSystem("EPSG:4326")
EXTRA = "EXTRA"

_TEXT_S = 30.0  # Seconds between two lines of the log about the same work.
_MOST_PIXELS = 100_000_000  # Of an image drawn from a service; more is a task for roadseg fetch.
# Suffixes of files with lines that roadseg reads as they are.
_READ_BY_ROADSEG = ("gpkg", "geojson", "json", "shp", "fgb", "parquet", "osm", "pbf", "gml", "kml")

# Parameters that are not named as the options of roadseg that they set.
_PARAMETERS = {"area": "EXTENT", "from": "START", "to": "END", "probabilities": "PROBABILITY"}

Results = dict[str, Any]


class _DefaultStyle(QgsProcessingLayerPostProcessorInterface):
    """Gives a layer the style that roadseg wrote into its GeoPackage, or beside its raster."""

    def postProcessLayer(self, layer: Any, context: Any, feedback: Any) -> None:
        layer.loadDefaultStyle()
        layer.triggerRepaint()


# A context of Processing deletes them, but Python has to keep their methods until then.
_STYLES: list[_DefaultStyle] = []


class Follower:
    """Shows what a command writes on stderr in QGIS's progress bar and log."""

    def __init__(self, feedback: Any, translated: Any) -> None:
        self._feedback, self._translated, self._what, self._due = feedback, translated, "", 0.0

    def __call__(self, line: str) -> None:
        if progress := read_progress(line):
            self._feedback.setProgress(percent(progress["progress"]))
            what, now = progress["progress"][0]["what"], time.monotonic()
            if what != self._what:  # It may be short, and then has no text.
                self._what, self._due = what, now
            elif now >= self._due:
                self._due = now + _TEXT_S
                self._feedback.setProgressText(progress["text"])
        elif line.startswith("WARNING: "):
            self._feedback.pushWarning(self._translated(line.removeprefix("WARNING: ")))
        elif not line.startswith("Error: "):  # That becomes the message of the algorithm.
            self._feedback.pushInfo(line.removeprefix("INFO: "))


class Call:
    """One run of an algorithm: its parameters as roadseg takes them, and its results in QGIS."""

    def __init__(
        self,
        algorithm: QgsProcessingAlgorithm,
        parameters: dict[str, Any],
        context: QgsProcessingContext,
        feedback: Any,
    ) -> None:
        self.algorithm, self.parameters = algorithm, parameters
        self.context, self.feedback = context, feedback
        self._extra = shlex.split(self.text(EXTRA))

    def tell(self, text: str) -> None:
        """Add a line to the log of the algorithm."""
        self.feedback.pushInfo(text)

    def text(self, name: str) -> str:
        """Return a text; empty if none is given."""
        return str(self.algorithm.parameterAsString(self.parameters, name, self.context))

    def folder(self, name: str) -> Path:
        """Return a folder that is read or written."""
        return Path(self.text(name)).absolute()

    def number(self, name: str) -> str:
        """Return a number as a word of a command."""
        return f"{self.algorithm.parameterAsDouble(self.parameters, name, self.context):g}"

    def title(self, name: str) -> str:
        """Return the name of a layer with lines, as the user sees it."""
        source = self.algorithm.parameterAsSource(self.parameters, name, self.context)
        return str(source.sourceName())

    def choice(self, name: str) -> int:
        """Return the place of an item in the list of its parameter."""
        return int(self.algorithm.parameterAsEnum(self.parameters, name, self.context))

    def is_on(self, name: str) -> bool:
        """Return whether a box is ticked."""
        return bool(self.algorithm.parameterAsBool(self.parameters, name, self.context))

    def degrees(self, name: str) -> str:
        """Return a point in any coordinate system as longitude,latitude."""
        point = self.algorithm.parameterAsPoint(self.parameters, name, self.context, DEGREES)
        return f"{point.x():.8f},{point.y():.8f}"

    def is_given(self, name: str) -> bool:
        return self.parameters.get(name) not in (None, "")

    def destination(self, name: str) -> Path:
        """Return the GeoPackage or file of an output."""
        algorithm = self.algorithm
        is_file = algorithm.parameterDefinition(name).type() == "fileDestination"
        read = algorithm.parameterAsFileOutput if is_file else algorithm.parameterAsOutputLayer
        return Path(read(self.parameters, name, self.context)).absolute()

    def roads(self, name: str) -> str:
        """Return a file with the lines of a layer: its own, if roadseg reads the same lines there.

        Selected or filtered features, layers that are no files, and one of several layers of a
        file are copied into a temporary GeoPackage.
        """
        given = (self.parameters, name, self.context)
        path, layer = self.algorithm.parameterAsCompatibleSourceLayerPathAndLayerName(
            *given, _READ_BY_ROADSEG, "gpkg", self.feedback
        )
        if layer and not _is_only(path, layer):
            path = self.algorithm.parameterAsCompatibleSourceLayerPath(
                *given, [], "gpkg", self.feedback
            )
        return os.path.abspath(str(path))  # noqa: PTH100 - as for rasters

    def two_roads(self, *names: str) -> list[str]:
        """Return files with the lines of two layers, which have to differ."""
        files = [self.roads(name) for name in names]
        if files[0] == files[1]:
            raise QgsProcessingException("Both are the same layer: choose two different ones.")
        return files

    def raster(self, name: str) -> QgsRasterLayer:
        """Return a raster layer."""
        layer = self.algorithm.parameterAsRasterLayer(self.parameters, name, self.context)
        if layer is None:
            raise QgsProcessingException("The raster layer cannot be opened.")
        return layer

    def image(self, name: str) -> str:
        """Return the file or address of a raster layer that GDAL reads."""
        source = str(self.raster(name).source())
        return os.path.abspath(source) if Path(source).exists() else source  # noqa: PTH100

    def drawn(self, name: str, extent: str, pixel_m: float, folder: Path) -> str:
        """Draw an extent of a layer, such as one of a service, into a folder; return the image.

        Args:
            name: of the parameter with the layer.
            extent: name of that with the extent.
            pixel_m: size of the pixels to draw, metres.
            folder: where they are written.
        """
        layer, feedback = self.raster(name), self.feedback
        if not self.is_given(extent):
            raise QgsProcessingException(
                f"{layer.name()} comes from a service: choose an extent, such as that of the map, "
                "with the button beside Extent."
            )
        box = self.algorithm.parameterAsExtent(self.parameters, extent, self.context, layer.crs())
        ruler = QgsDistanceArea()
        ruler.setSourceCrs(layer.crs(), self.context.transformContext())
        ruler.setEllipsoid("EPSG:7030")  # That of WGS 84.
        x, y = box.center().x(), box.center().y()
        width, height = (
            max(1, round(ruler.measureLine(QgsPointXY(*start), QgsPointXY(*end)) / pixel_m))
            for start, end in (
                ((box.xMinimum(), y), (box.xMaximum(), y)),
                ((x, box.yMinimum()), (x, box.yMaximum())),
            )
        )
        if width * height > _MOST_PIXELS:
            raise QgsProcessingException(
                f"The extent has {width} x {height} pixels of {pixel_m:g} m; choose a smaller one."
            )
        feedback.setProgressText(f"Drawing {width} x {height} pixels of {layer.name()}")
        pipe = QgsRasterPipe()
        pipe.set(layer.dataProvider().clone())
        pipe.set(layer.renderer().clone())
        path, partial = folder / "image.tif", folder / "partial.tif"
        drawing = QgsRasterBlockFeedback()
        # The user cancels in the thread of the window.
        feedback.canceled.connect(drawing.cancel, Qt.ConnectionType.DirectConnection)
        failure = QgsRasterFileWriter(str(partial)).writeRaster(
            pipe, width, height, box, layer.crs(), self.context.transformContext(), drawing
        )
        if feedback.isCanceled():
            partial.unlink(missing_ok=True)
            raise CancelledError
        if failure != QgsRasterFileWriter.WriterError.NoError:
            raise QgsProcessingException(f"{layer.name()} could not be drawn into {partial}.")
        partial.replace(path)
        return str(path)

    def area(self, name: str, folder: Path) -> list[str]:
        """Return the words that limit a command to an extent, which is written into a folder."""
        if not self.is_given(name):
            return []
        outline = self.algorithm.parameterAsExtentGeometry(
            self.parameters, name, self.context, DEGREES
        )
        path = folder / "area.geojson"
        path.write_text(outline.asJson(8), encoding="utf-8")
        return ["--area", str(path)]

    def run(self, *words: str) -> Results:
        """Run a command of roadseg; return its summary. The first one gets the further options.

        Raises:
            QgsProcessingException: with the message of roadseg.
            CancelledError: the user cancelled.
        """
        extra, self._extra = self._extra, []
        try:
            command = [*find_command(ProcessingConfig.getSetting(COMMAND) or ""), *words, *extra]
            self.feedback.pushCommandInfo(shlex.join(command))
            return run(
                command,
                folder=Path(QgsProcessingUtils.tempFolder()),
                show=Follower(self.feedback, self.translated),
                is_cancelled=self.feedback.isCanceled,
            )
        except CommandError as error:
            raise QgsProcessingException(self.translated(str(error))) from error

    def translated(self, message: str) -> str:
        """Return a message of roadseg with what the user sees in place of options and commands."""

        def title(option: re.Match[str]) -> str:
            name = _PARAMETERS.get(option[1], option[1].upper())
            parameter = self.algorithm.parameterDefinition(name)
            return f'"{parameter.description()}"' if parameter else option[0]

        return re.sub(r"--([a-z-]+)", title, message.replace("`roadseg predict`", '"Map roads"'))

    def loaded(self, path: Path, titles: dict[str, str]) -> str:
        """Give the layers of a destination their styles where QGIS loads it.

        Args:
            path: a GeoPackage, or one of its layers alone.
            titles: name in QGIS of each layer, from the bottom; "" leaves the name to QGIS.

        Returns:
            The source of the first layer.
        """
        waiting = self.context.layersToLoadOnCompletion()
        wanted = [waiting.pop(key) for key in list(waiting) if Path(key).absolute() == path]
        self.context.setLayersToLoadOnCompletion(waiting)
        sources = {f"{path}|layername={layer}": title for layer, title in titles.items()}
        for source, title in sources.items() if wanted else ():
            self.load(source, title or wanted[0].name, force=bool(title))
        return next(iter(sources))

    def load(self, source: str, title: str, *, force: bool = True) -> str:
        """Let QGIS load a layer with its style; return its source.

        QGIS puts layers over each other in the order of their sources, from 3.32 on by their key.
        """
        details = QgsProcessingContext.LayerDetails(title, self.context.project(), title)
        waiting = self.context.layersToLoadOnCompletion()
        details.forceName, details.layerSortKey = force, len(waiting)
        _STYLES.append(_DefaultStyle())
        details.setPostProcessor(_STYLES[-1])
        waiting[source] = details
        self.context.setLayersToLoadOnCompletion(waiting)
        return source


def advanced(parameter: Any) -> Any:
    """Return a parameter that the dialog shows under Advanced Parameters only."""
    parameter.setFlags(parameter.flags() | QgsProcessingParameterDefinition.Flag.FlagAdvanced)
    return parameter


def _is_only(path: str, layer: str) -> bool:
    """Return whether roadseg would read this layer of a file: its only one, or that of a graph."""
    file = gdal.OpenEx(path, gdal.OF_VECTOR)
    if file is None or file.GetDriver().ShortName == "OSM":
        return True
    layers = [file.GetLayer(number) for number in range(file.GetLayerCount())]
    names = {each.GetName() for each in layers if each.GetGeomType() != ogr.wkbNone}
    return names == {layer} or (names == {"nodes", "edges"} and layer == "edges")


class RoadsegAlgorithm(QgsProcessingAlgorithm):
    """An algorithm that runs a command of roadseg.

    Attributes:
        ID: part of its id after the colon.
        TITLE: its name in the toolbox.
        HELP: what it does, for the side of its dialog.
        TAGS: further words with which it is found.
        OUTPUTS: kind, name and title of results that are no parameters.
    """

    ID = TITLE = HELP = TAGS = ""
    OUTPUTS: tuple[tuple[Any, str, str], ...] = ()

    def inputs(self) -> list[Any]:
        """Return the parameters."""
        raise NotImplementedError

    def process(self, call: Call) -> Results:
        """Run the command, and return the results."""
        raise NotImplementedError

    def initAlgorithm(self, configuration: Any = None) -> None:
        title = "Further options of the roadseg command"
        extra = QgsProcessingParameterString(EXTRA, title, optional=True)
        for parameter in (*self.inputs(), advanced(extra)):
            self.addParameter(parameter)
        for kind, name, title in self.OUTPUTS:
            self.addOutput(kind(name, title))

    def processAlgorithm(
        self, parameters: dict[str, Any], context: QgsProcessingContext, feedback: Any
    ) -> Results:
        """Run the command; QGIS calls this outside of the thread of its window."""
        try:
            return self.process(Call(self, parameters, context, feedback))
        except CancelledError:
            feedback.pushInfo("Cancelled. roadseg has ended, and what it wrote is complete.")
            return {}
        except OSError as error:  # Such as an output in a folder that cannot be written.
            raise QgsProcessingException(
                f"{error.filename}: {error.strerror}; choose another place for the result"
            ) from error

    def createInstance(self) -> RoadsegAlgorithm:
        return type(self)()

    def name(self) -> str:
        return self.ID

    def displayName(self) -> str:
        return self.TITLE

    def shortHelpString(self) -> str:
        return self.HELP

    def tags(self) -> list[str]:
        return self.TAGS.split()

    def icon(self) -> Any:
        return self.provider().icon()
