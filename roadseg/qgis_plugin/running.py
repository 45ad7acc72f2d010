"""What all algorithms share: layers as files for roadseg, its progress in QGIS, its results."""

from __future__ import annotations

import os
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
    QgsRasterFileWriter,
    QgsRasterPipe,
)

from .process import CancelledError, CommandError, find_command, percent, read_progress, run

COMMAND = "ROADSEG_COMMAND"  # The setting of Processing that names the executable.
DEGREES = QgsCoordinateReferenceSystem("EPSG:4326")
EXTRA = "EXTRA"

_TEXT_S = 30.0  # Seconds between two lines of the log about the same work.
_MOST_PIXELS = 100_000_000  # Of an image drawn from a service; more is a task for roadseg fetch.
# Suffixes of files with lines that roadseg reads as they are.
_READ_BY_ROADSEG = ("gpkg", "geojson", "json", "shp", "fgb", "parquet", "osm", "pbf", "gml", "kml")

Results = dict[str, Any]


class _DefaultStyle(QgsProcessingLayerPostProcessorInterface):
    """Gives a layer the style that roadseg wrote with it."""

    def postProcessLayer(self, layer: Any, context: Any, feedback: Any) -> None:  # noqa: ANN401, ARG002
        """Load the style in the GeoPackage, or beside the raster."""
        layer.loadDefaultStyle()
        layer.triggerRepaint()


_STYLE = _DefaultStyle()  # QGIS keeps no reference to it.


class Follower:
    """Shows what a command writes on stderr in QGIS's progress bar and log."""

    def __init__(self, feedback: Any) -> None:  # noqa: ANN401 - of QGIS
        """Begin without a line."""
        self._feedback, self._what, self._due = feedback, "", 0.0

    def __call__(self, line: str) -> None:
        """Show a line."""
        if progress := read_progress(line):
            self._feedback.setProgress(percent(progress["progress"]))
            what, now = progress["progress"][0]["what"], time.monotonic()
            if what != self._what or now > self._due:
                self._what, self._due = what, now + _TEXT_S
                self._feedback.setProgressText(progress["text"])
        elif line.startswith("WARNING: "):
            self._feedback.pushWarning(line[len("WARNING: ") :])
        elif not line.startswith("Error: "):  # That becomes the message of the algorithm.
            self._feedback.pushInfo(line[len("INFO: ") :] if line.startswith("INFO: ") else line)


class Call:
    """One run of an algorithm: its parameters as roadseg takes them, and its results in QGIS."""

    def __init__(
        self,
        algorithm: QgsProcessingAlgorithm,
        parameters: dict[str, Any],
        context: QgsProcessingContext,
        feedback: Any,  # noqa: ANN401 - of QGIS
    ) -> None:
        """Keep what QGIS passes to `processAlgorithm`."""
        self.algorithm, self.parameters = algorithm, parameters
        self.context, self.feedback = context, feedback

    def text(self, name: str) -> str:
        """Return a text; empty if none is given."""
        return str(self.algorithm.parameterAsString(self.parameters, name, self.context))

    def folder(self, name: str) -> Path:
        """Return a folder that is read or written."""
        return Path(self.text(name)).absolute()

    def number(self, name: str) -> str:
        """Return a number as a word of a command."""
        return f"{self.algorithm.parameterAsDouble(self.parameters, name, self.context):g}"

    def choice(self, name: str) -> int:
        """Return the place of an item in the list of its parameter."""
        return int(self.algorithm.parameterAsEnum(self.parameters, name, self.context))

    def degrees(self, name: str) -> str:
        """Return a point in any coordinate system as longitude,latitude."""
        point = self.algorithm.parameterAsPoint(self.parameters, name, self.context, DEGREES)
        return f"{point.x():.8f},{point.y():.8f}"

    def is_given(self, name: str) -> bool:
        """Return whether an optional parameter has a value."""
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
        if not path:
            raise QgsProcessingException(f"The layer of {name} cannot be read.")
        return os.path.abspath(path)  # noqa: PTH100 - also right for /vsicurl/

    def image(self, name: str, extent: str, pixel_m: float, folder: Path) -> str:
        """Return the file of a raster layer; the extent of a service is drawn into a folder.

        Args:
            name: of the parameter with the layer.
            extent: name of that with the extent.
            pixel_m: size of the pixels to draw, metres.
            folder: where they are written.
        """
        layer = self.algorithm.parameterAsRasterLayer(self.parameters, name, self.context)
        if layer is None:
            raise QgsProcessingException("Choose a raster layer.")
        if layer.providerType() == "gdal":
            source = str(layer.source())
            return os.path.abspath(source) if Path(source).exists() else source  # noqa: PTH100
        if not self.is_given(extent):
            raise QgsProcessingException(
                f"{layer.name()} comes from a service: choose the extent to map, such as that of "
                "the map canvas."
            )
        box = self.algorithm.parameterAsExtent(self.parameters, extent, self.context, layer.crs())
        ruler = QgsDistanceArea()
        ruler.setSourceCrs(layer.crs(), self.context.transformContext())
        ruler.setEllipsoid("EPSG:7030")
        middle = box.center()
        sides = (
            (QgsPointXY(box.xMinimum(), middle.y()), QgsPointXY(box.xMaximum(), middle.y())),
            (QgsPointXY(middle.x(), box.yMinimum()), QgsPointXY(middle.x(), box.yMaximum())),
        )
        width, height = (max(1, round(ruler.measureLine(*side) / pixel_m)) for side in sides)
        if width * height > _MOST_PIXELS:
            raise QgsProcessingException(
                f"The extent has {width} x {height} pixels of {pixel_m:g} m; choose a smaller one."
            )
        path, partial = folder / "image.tif", folder / "partial.tif"
        self.feedback.setProgressText(f"Drawing {width} x {height} pixels of {layer.name()}")
        pipe = QgsRasterPipe()
        pipe.set(layer.dataProvider().clone())
        pipe.set(layer.renderer().clone())
        writer = QgsRasterFileWriter(str(partial))
        failure = writer.writeRaster(
            pipe, width, height, box, layer.crs(), self.context.transformContext(), self.feedback
        )
        if failure or self.feedback.isCanceled():
            partial.unlink(missing_ok=True)
            if self.feedback.isCanceled():
                raise CancelledError
            raise QgsProcessingException(f"{layer.name()} could not be drawn into {path}.")
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
        """Run a command of roadseg with the further options of its parameters; return its summary.

        Raises:
            QgsProcessingException: with the message of roadseg.
            CancelledError: the user cancelled.
        """
        try:
            command = [
                *find_command(ProcessingConfig.getSetting(COMMAND) or ""),
                *words,
                *shlex.split(self.text(EXTRA)),
            ]
            self.feedback.pushCommandInfo(shlex.join(command))
            return run(
                command,
                folder=Path(QgsProcessingUtils.tempFolder()),
                show=Follower(self.feedback),
                is_cancelled=self.feedback.isCanceled,
            )
        except CommandError as error:
            raise QgsProcessingException(str(error)) from error

    def loaded(self, path: Path, titles: dict[str, str], *, always: bool = False) -> str:
        """Let QGIS load layers of a result with their styles; return the source of the first.

        Args:
            path: a GeoPackage or raster. If it is the destination of a parameter, its layers are
                loaded only if the user wants that.
            titles: name in QGIS of each layer of the GeoPackage, in that order from the bottom;
                "" leaves the name to QGIS. The layer of a raster is "".
            always: load what is no destination.
        """
        waiting = self.context.layersToLoadOnCompletion()
        wanted = [waiting.pop(key) for key in list(waiting) if Path(key).absolute() == path]
        sources = [f"{path}|layername={layer}" if layer else str(path) for layer in titles]
        if wanted or always:
            for source, title in zip(sources, titles.values()):
                details = wanted[0] if wanted else None
                if title:
                    details = QgsProcessingContext.LayerDetails(title, self.context.project())
                    details.forceName = True
                details.setPostProcessor(_STYLE)
                waiting[source] = details
        self.context.setLayersToLoadOnCompletion(waiting)
        return sources[0]


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
        EXAMPLE: of a further option of its command.
    """

    ID = TITLE = HELP = EXAMPLE = ""
    TAGS: tuple[str, ...] = ()

    def process(self, call: Call) -> Results:
        """Run the command, and return the results."""
        raise NotImplementedError

    def declare(self) -> None:
        """Declare the parameters and outputs."""
        raise NotImplementedError

    def initAlgorithm(self, configuration: Any = None) -> None:  # noqa: ANN401, ARG002 - of QGIS
        """Declare the parameters; the further options of the command come last."""
        self.declare()
        extra = QgsProcessingParameterString(
            EXTRA, f"Further options of the command, such as {self.EXAMPLE}", optional=True
        )
        advanced = QgsProcessingParameterDefinition.Flag.FlagAdvanced
        extra.setFlags(extra.flags() | advanced)
        self.addParameter(extra)

    def processAlgorithm(
        self,
        parameters: dict[str, Any],
        context: QgsProcessingContext,
        feedback: Any,  # noqa: ANN401 - of QGIS
    ) -> Results:
        """Run the command; QGIS calls this outside of the thread of its window."""
        try:
            return self.process(Call(self, parameters, context, feedback))
        except CancelledError:
            feedback.pushInfo("Cancelled. roadseg has ended, and what it wrote is complete.")
            return {}

    def createInstance(self) -> RoadsegAlgorithm:
        """Return another one of the same kind."""
        return type(self)()

    def name(self) -> str:
        """Return the part of its id after the colon."""
        return self.ID

    def displayName(self) -> str:
        """Return its name in the toolbox."""
        return self.TITLE

    def shortHelpString(self) -> str:
        """Return what it does."""
        return self.HELP

    def tags(self) -> list[str]:
        """Return further words with which it is found."""
        return ["roads", "streets", "network", *self.TAGS]

    def icon(self) -> Any:  # noqa: ANN401 - of QGIS
        """Return the icon of its provider."""
        return self.provider().icon()
