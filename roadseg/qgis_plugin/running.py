"""What all algorithms share: layers as files for roadseg, its progress in QGIS, its results."""

from __future__ import annotations

import os
import re
import shlex
import time
from pathlib import Path
from typing import Any, cast

from osgeo import gdal, ogr
from processing.core.ProcessingConfig import ProcessingConfig
from qgis import core
from qgis.PyQt.QtCore import Qt

from .process import (
    CancelledError,
    CommandError,
    find_command,
    percent,
    read_progress,
    run,
    words_of,
)

COMMAND = "ROADSEG_COMMAND"  # The setting of Processing that names the executable.
DEGREES = core.QgsCoordinateReferenceSystem("EPSG:4326")
EXTRA = "EXTRA"
_FURTHER = "Further options of the roadseg command"

_TEXT_S = 30.0  # Seconds between two lines of the log about the same work.
_MOST_PIXELS = 100_000_000  # Of an image drawn from a service; more is a task for roadseg fetch.
# Suffixes of files with lines that roadseg reads as they are.
_READ_BY_ROADSEG = ("gpkg", "geojson", "json", "shp", "fgb", "parquet", "osm", "pbf", "gml", "kml")

# Parameters that are not named as the options of roadseg that they set.
_PARAMETERS = {"area": "EXTENT", "from": "START", "to": "END", "probabilities": "PROBABILITY"}

Results = dict[str, Any]


class _DefaultStyle(core.QgsProcessingLayerPostProcessorInterface):
    """Gives a layer the style that roadseg wrote into its GeoPackage, or beside its raster."""

    def postProcessLayer(self, layer: Any, context: Any, feedback: Any) -> None:
        layer.loadDefaultStyle()
        layer.triggerRepaint()


# A context of Processing deletes them, but Python has to keep their methods until then.
_STYLES: list[_DefaultStyle] = []


def advanced(parameter: Any) -> Any:
    """Return a parameter that the dialog shows under Advanced Parameters only."""
    parameter.setFlags(parameter.flags() | core.QgsProcessingParameterDefinition.Flag.FlagAdvanced)
    return parameter


class RoadsegAlgorithm(core.QgsProcessingAlgorithm):
    """An algorithm that runs a command of roadseg: its parameters as words, its results in QGIS.

    QGIS makes an instance for each run, and calls `processAlgorithm` outside of the thread of its
    window. Methods that take the name of a parameter return what the user has given for it.

    An algorithm has `inputs()`, its parameters, and `process()`, which runs the command and returns
    the results.

    Attributes:
        ID: part of its id after the colon.
        TITLE: its name in the toolbox.
        HELP: what it does, for the side of its dialog.
        TAGS: further words with which it is found.
        COMMANDS: of roadseg, in place of which messages name the algorithm.
        OUTPUTS: kind, name and title of results that are not parameters.
    """

    ID = TITLE = HELP = TAGS = ""
    COMMANDS: tuple[str, ...] = ()
    OUTPUTS: tuple[tuple[Any, str, str], ...] = ()

    def initAlgorithm(self, configuration: Any = None) -> None:
        extra = core.QgsProcessingParameterString(EXTRA, _FURTHER, optional=True)
        for parameter in (*self.inputs(), advanced(extra)):
            self.addParameter(parameter)
        for kind, name, title in self.OUTPUTS:
            self.addOutput(kind(name, title))

    def processAlgorithm(self, parameters: dict[str, Any], context: Any, feedback: Any) -> Results:
        self.parameters, self.context, self.feedback = parameters, context, feedback
        self.extra = words_of(self.text(EXTRA))
        self._work, self._due = "", 0.0
        try:
            return cast("Results", self.process())
        except CancelledError:
            feedback.pushInfo("Cancelled. roadseg has ended, and what it wrote is complete.")
            return {}
        except OSError as error:  # Such as an output in a folder that cannot be written.
            raise core.QgsProcessingException(
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

    def given(self, name: str) -> tuple[dict[str, Any], str, Any]:
        """Return what QGIS's methods that read a parameter take."""
        return self.parameters, name, self.context

    def is_given(self, name: str) -> bool:
        return self.parameters.get(name) not in (None, "")

    def text(self, name: str) -> str:
        return str(self.parameterAsString(*self.given(name)))

    def number(self, name: str) -> str:
        return f"{self.parameterAsDouble(*self.given(name)):g}"

    def folder(self, name: str) -> Path:
        return Path(self.text(name)).absolute()

    def degrees(self, name: str) -> str:
        """Return a point in any coordinate system as longitude,latitude."""
        point = self.parameterAsPoint(*self.given(name), DEGREES)
        return f"{point.x():.8f},{point.y():.8f}"

    def destination(self, name: str) -> Path:
        """Return the GeoPackage of an output."""
        return Path(self.parameterAsOutputLayer(*self.given(name))).absolute()

    def roads(self, name: str) -> str:
        """Return a file with the lines of a layer: its own, if roadseg reads the same lines there.

        Selected or filtered features, layers that are not files, and one of several layers of a
        file are copied into a temporary GeoPackage.
        """
        path, layer = self.parameterAsCompatibleSourceLayerPathAndLayerName(
            *self.given(name), _READ_BY_ROADSEG, "gpkg", self.feedback
        )
        if layer and not _is_only(path, layer):
            path = self.parameterAsCompatibleSourceLayerPath(
                *self.given(name), [], "gpkg", self.feedback
            )
        return os.path.abspath(str(path))  # noqa: PTH100 - as for rasters

    def two_roads(self, *names: str) -> list[str]:
        """Return files with the lines of two layers, which have to differ."""
        files = [self.roads(name) for name in names]
        if files[0] == files[1]:
            raise core.QgsProcessingException("Both are the same layer: choose two different ones.")
        return files

    def raster(self, name: str) -> Any:
        """Return a raster layer."""
        if layer := self.parameterAsRasterLayer(*self.given(name)):
            return layer
        raise core.QgsProcessingException("The raster layer cannot be opened.")

    def image(self, name: str) -> str:
        """Return the file or address of a raster layer that GDAL reads."""
        layer = self.raster(name)
        if layer.providerType() != "gdal":
            raise core.QgsProcessingException(
                f"{layer.name()} comes from a service: choose a raster file."
            )
        source = str(layer.source())
        return os.path.abspath(source) if Path(source).exists() else source  # noqa: PTH100

    def drawn(self, name: str, extent: str, pixel_m: float, folder: Path) -> str:
        """Draw an extent of a layer, such as one of a service, into a folder; return the image.

        Args:
            name: of the parameter with the layer.
            extent: name of that with the extent.
            pixel_m: size of the pixels to draw, metres.
            folder: where they are written.
        """
        layer, transforms = self.raster(name), self.context.transformContext()
        if not self.is_given(extent):
            raise core.QgsProcessingException(
                f"{layer.name()} comes from a service: choose an extent, such as that of the map, "
                "with the button beside Extent."
            )
        box = self.parameterAsExtent(*self.given(extent), layer.crs())
        width, height = (max(1, round(m / pixel_m)) for m in _size_m(box, layer.crs(), transforms))
        if width * height > _MOST_PIXELS:
            raise core.QgsProcessingException(
                f"The extent has {width} x {height} pixels of {pixel_m:g} m; choose a smaller one."
            )
        self.feedback.setProgressText(f"Drawing {width} x {height} pixels of {layer.name()}")
        pipe = core.QgsRasterPipe()
        pipe.set(layer.dataProvider().clone())
        pipe.set(layer.renderer().clone())
        path, partial = folder / "image.tif", folder / "partial.tif"
        drawing = core.QgsRasterBlockFeedback()
        # The user cancels in the thread of the window.
        self.feedback.canceled.connect(drawing.cancel, Qt.ConnectionType.DirectConnection)
        failure = core.QgsRasterFileWriter(str(partial)).writeRaster(
            pipe, width, height, box, layer.crs(), transforms, drawing
        )
        if self.feedback.isCanceled():
            partial.unlink(missing_ok=True)
            raise CancelledError
        if failure != core.QgsRasterFileWriter.WriterError.NoError:
            raise core.QgsProcessingException(f"{layer.name()} could not be drawn into {partial}.")
        partial.replace(path)
        return str(path)

    def area(self, name: str, folder: Path) -> list[str]:
        """Return the words that limit a command to an extent, which is written into a folder."""
        if not self.is_given(name):
            return []
        path = folder / "area.geojson"
        outline = self.parameterAsExtentGeometry(*self.given(name), DEGREES)
        path.write_text(outline.asJson(8), encoding="utf-8")
        return ["--area", str(path)]

    def roadseg(self, *words: str) -> Results:
        """Run a command of roadseg with the further options; return its summary.

        Raises:
            QgsProcessingException: with the message of roadseg.
            CancelledError: the user cancelled.
        """
        try:
            program = find_command(ProcessingConfig.getSetting(COMMAND) or "")
            command = [*program, *words, *self.extra]
            self.feedback.pushCommandInfo(shlex.join(command))
            return run(
                command,
                folder=Path(core.QgsProcessingUtils.tempFolder()),
                show=self.show,
                is_cancelled=self.feedback.isCanceled,
            )
        except CommandError as error:
            raise core.QgsProcessingException(self._translated(str(error))) from error

    def show(self, line: str) -> None:
        """Show what a command writes on stderr in QGIS's progress bar and log."""
        if progress := read_progress(line):
            self.feedback.setProgress(percent(progress["progress"]))
            work, now = progress["progress"][0]["what"], time.monotonic()
            if work != self._work:  # It may be short, and then has no text.
                self._work, self._due = work, now
            elif now >= self._due:
                self._due = now + _TEXT_S
                self.feedback.setProgressText(progress["text"])
        elif line.startswith("WARNING: "):
            self.feedback.pushWarning(self._translated(line.removeprefix("WARNING: ")))
        elif not line.startswith("Error: "):  # That becomes the message of the algorithm.
            self.feedback.pushInfo(line.removeprefix("INFO: "))

    def _translated(self, message: str) -> str:
        """Return a message of roadseg with what the user sees in place of options and commands."""

        def title(option: re.Match[str]) -> str:
            name = _PARAMETERS.get(option[1], option[1].upper())
            parameter = self.parameterDefinition(name)
            return f'"{parameter.description()}"' if parameter else option[0]

        def algorithm(command: re.Match[str]) -> str:
            algorithms = RoadsegAlgorithm.__subclasses__()
            named = (f'"{each.TITLE}"' for each in algorithms if command[1] in each.COMMANDS)
            return next(named, command[0])

        message = re.sub(r"`roadseg ([a-z]+)[^`]*`", algorithm, message)
        text = re.sub(r"--([a-z-]+)", title, message)
        if re.search(r"--[a-z]", text):
            text += f' (options that begin with -- go into Advanced Parameters > "{_FURTHER}")'
        return text

    def loaded(self, path: Path, titles: dict[str, str], *, files: list[str] | None = None) -> str:
        """Give the layers of a destination their styles where QGIS loads it.

        Args:
            path: a GeoPackage, or one of its layers alone.
            titles: name in QGIS of each layer, from the bottom; "" leaves the name to QGIS.
            files: those that were written in its place, if there are several.

        Returns:
            The source of the first layer.
        """
        waiting = self.context.layersToLoadOnCompletion()
        wanted = [waiting.pop(key) for key in list(waiting) if Path(key).absolute() == path]
        self.context.setLayersToLoadOnCompletion(waiting)
        sources = {
            f"{file}|layername={layer}": title
            for file in files or [str(path)]
            for layer, title in titles.items()
        }
        for source, title in sources.items() if wanted else ():
            self.load(source, title or wanted[0].name, force=bool(title))
        return next(iter(sources))

    def load(self, source: str, title: str, *, force: bool = True) -> str:
        """Let QGIS load a layer with its style; return its source.

        QGIS puts layers over each other in the order of their sources, from 3.32 on by their key.
        """
        details = core.QgsProcessingContext.LayerDetails(title, self.context.project(), title)
        waiting = self.context.layersToLoadOnCompletion()
        details.forceName, details.layerSortKey = force, len(waiting)
        _STYLES.append(_DefaultStyle())
        details.setPostProcessor(_STYLES[-1])
        waiting[source] = details
        self.context.setLayersToLoadOnCompletion(waiting)
        return source


def _is_only(path: str, layer: str) -> bool:
    """Return whether roadseg would read this layer of a file: its only one, or that of a graph."""
    file = gdal.OpenEx(path, gdal.OF_VECTOR)
    if file is None or file.GetDriver().ShortName == "OSM":
        return True
    layers = [file.GetLayer(number) for number in range(file.GetLayerCount())]
    names = {each.GetName() for each in layers if each.GetGeomType() != ogr.wkbNone}
    return names == {layer} or (names == {"nodes", "edges"} and layer == "edges")


def _size_m(box: Any, crs: Any, transforms: Any) -> list[float]:
    """Return the width and the height of a rectangle in metres on the ground."""
    ruler = core.QgsDistanceArea()
    ruler.setSourceCrs(crs, transforms)
    ruler.setEllipsoid("EPSG:7030")  # That of WGS 84.
    x, y = box.center().x(), box.center().y()
    across = (box.xMinimum(), y), (box.xMaximum(), y)
    up = (x, box.yMinimum()), (x, box.yMaximum())
    return [ruler.measureLine(*(core.QgsPointXY(*end) for end in line)) for line in (across, up)]
