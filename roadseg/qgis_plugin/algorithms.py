"""The algorithms: a command of roadseg each."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from qgis.core import (
    QgsProcessing,
    QgsProcessingOutputHtml,
    QgsProcessingOutputNumber,
    QgsProcessingOutputRasterLayer,
    QgsProcessingOutputVectorLayer,
    QgsProcessingParameterBoolean,
    QgsProcessingParameterEnum,
    QgsProcessingParameterExtent,
    QgsProcessingParameterFeatureSource,
    QgsProcessingParameterFile,
    QgsProcessingParameterFileDestination,
    QgsProcessingParameterFolderDestination,
    QgsProcessingParameterNumber,
    QgsProcessingParameterPoint,
    QgsProcessingParameterRasterLayer,
    QgsProcessingParameterVectorDestination,
)

from .running import Call, Results, RoadsegAlgorithm, advanced

_LINE = QgsProcessing.SourceType.TypeVectorLine


def _lines(name: str, title: str, *, optional: bool = False) -> Any:
    return QgsProcessingParameterFeatureSource(name, title, [_LINE], optional=optional)


def _number(name: str, title: str, default: float, least: float, most: float) -> Any:
    kind = QgsProcessingParameterNumber.Type.Double
    number = QgsProcessingParameterNumber(name, title, kind, default, False, least, most)
    number.setMetadata({"widget_wrapper": {"decimals": 2}})
    return number


def _extent() -> Any:
    return QgsProcessingParameterExtent("EXTENT", "Extent (if empty, all of it)", optional=True)


def _output(title: str) -> Any:
    return QgsProcessingParameterVectorDestination("OUTPUT", title, _LINE)


class MapRoads(RoadsegAlgorithm):
    """`roadseg map`."""

    ID, TITLE = "maproads", "Map roads"
    TAGS = "roads streets map images satellite aerial extract train"
    HELP = """Finds the roads in an image, and makes a road network of them.

- With an image alone, it uses the network that comes with roadseg: a first look at towns, with \
pixels of 0.3 to 1 m. This takes some seconds for a small image. If you let it adapt to the image, \
it first learns for two minutes from the roads that it is sure of, and finds more.
- With known roads of the same ground, such as those of OpenStreetMap, it trains a network on \
them first. This gives by far the best map.
- With the folder of a trained network (checkpoints/fold-0 in the folder of another map), it maps \
further images of the same kind.

An extent limits the work to a part of the image. It is needed for a layer of a service, such as \
XYZ tiles, which is drawn with the size of pixels in Advanced Parameters. Check that its licence \
allows this.

The report opens from Processing > Results Viewer. An interrupted map goes on when it is started \
again with the same folder and settings."""
    OUTPUTS = (
        (QgsProcessingOutputVectorLayer, "ROADS", "Roads"),
        (QgsProcessingOutputRasterLayer, "PROBABILITY", "Probability of road"),
        (QgsProcessingOutputHtml, "REPORT", "Report"),
    )

    def inputs(self) -> list[Any]:
        """Return the parameters."""
        folder = QgsProcessingParameterFile.Behavior.Folder
        pixel = _number("PIXEL", "Pixel size for layers of a service, in metres", 0.6, 0.05, 10)
        return [
            QgsProcessingParameterRasterLayer("INPUT", "Image"),
            _extent(),
            _lines("LABELS", "Known roads to train on", optional=True),
            _number("MINUTES", "Minutes of training on known roads", 20, 0.1, 100_000),
            QgsProcessingParameterBoolean(
                "ADAPT", "Without known roads: adapt to the image", False
            ),
            QgsProcessingParameterFile(
                "CHECKPOINT", "Folder of a trained network", folder, optional=True
            ),
            advanced(pixel),
            QgsProcessingParameterFolderDestination("OUTPUT", "Folder of the map"),
        ]

    def process(self, call: Call) -> Results:
        """Map the image, and load the roads over their probability."""
        folder = call.folder("OUTPUT")
        # Where roadseg keeps what it fetched; a folder with other files is refused as output.
        sources = folder / "sources"
        sources.mkdir(parents=True, exist_ok=True)
        if call.raster("INPUT").providerType() == "gdal":
            image = call.image("INPUT")
        else:
            image = call.drawn("INPUT", "EXTENT", float(call.number("PIXEL")), sources)
        words = ["map", image, "--output", str(folder), *call.area("EXTENT", sources)]
        if call.is_given("LABELS"):
            words += ["--labels", call.roads("LABELS"), "--minutes", call.number("MINUTES")]
        if call.is_given("CHECKPOINT"):
            words += ["--checkpoint", str(call.folder("CHECKPOINT"))]
        if call.is_on("ADAPT"):
            words.append("--adapt")
        summary = call.run(*words)
        scene = summary["graphs"]["scenes"][0]
        # The dot sorts the raster before the roads, and thus below them.
        raster, roads = f"./probabilities/{scene}.tif", f"graphs/{scene}.gpkg|layername=edges"
        return {
            "OUTPUT": str(folder),
            "PROBABILITY": call.load(f"{folder}/{raster}", "Probability of road"),
            "ROADS": call.load(f"{folder}/{roads}", "Roads"),
            "REPORT": summary["report"],
        }


class TraceMask(RoadsegAlgorithm):
    """`roadseg graph`."""

    ID, TITLE = "tracemask", "Trace a mask"
    TAGS = "roads streets graph network vectorize skeleton centreline probability"
    HELP = """Turns a mask or probabilities of roads into a road network.

A mask has whole numbers, in which 0 is background and 1 to 7 are roads (by speed). Probabilities \
are bytes from 0 to 255, or numbers from 0 to 1. Short gaps are closed; these roads are dashed."""

    def inputs(self) -> list[Any]:
        """Return the parameters."""
        raster = QgsProcessingParameterRasterLayer("INPUT", "Mask or probabilities")
        return [raster, _extent(), _output("Roads")]

    def process(self, call: Call) -> Results:
        """Trace beside the destination, and put the network there when it is complete."""
        output = call.destination("OUTPUT")
        output.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".roadseg-", dir=output.parent) as name:
            folder = Path(name)
            words = ["graph", call.image("INPUT"), "--output", name]
            words += ["--set", "graph.formats=gpkg", *call.area("EXTENT", folder)]
            summary = call.run(*words)
            (folder / f"{summary['scenes'][0]}.gpkg").replace(output)
        call.tell(f"{summary['road_km']:g} km of roads in {summary['parts']} connected parts")
        return {"OUTPUT": call.loaded(output, {"edges": ""})}


class CompareRoads(RoadsegAlgorithm):
    """`roadseg score` and `roadseg diff`."""

    ID, TITLE = "compareroads", "Compare with roads"
    TAGS = "roads streets score diff accuracy APLS TOPO completeness correctness quality"
    HELP = """Measures how well two layers of roads agree, and shows where they differ.

Correctness is the share of the compared roads that the reference has, completeness the share of \
the reference that the compared roads have. APLS compares lengths of routes, TOPO the roads around \
many places. All range from 0 to 1 (best).

The layers of differences hold the roads that only one side has."""
    OUTPUTS = (
        (QgsProcessingOutputNumber, "CORRECTNESS", "Correctness"),
        (QgsProcessingOutputNumber, "COMPLETENESS", "Completeness"),
        (QgsProcessingOutputNumber, "QUALITY", "Quality"),
        (QgsProcessingOutputNumber, "APLS", "APLS"),
        (QgsProcessingOutputNumber, "TOPO", "TOPO F1"),
    )

    def inputs(self) -> list[Any]:
        """Return the parameters."""
        return [
            _lines("REFERENCE", "Reference (the roads that are right)"),
            _lines("PREDICTED", "Roads to compare with it"),
            _output("Differences"),
        ]

    def process(self, call: Call) -> Results:
        """Measure both sides, then find the differences."""
        output = call.destination("OUTPUT")
        reference, predicted = call.two_roads("REFERENCE", "PREDICTED")
        pooled = call.run("score", reference, predicted)["pooled"]
        buffer = pooled["buffer"]
        results: Results = {
            **{key.upper(): buffer[key] for key in ("correctness", "completeness", "quality")},
            "APLS": pooled["apls"]["length"]["score"],
            "TOPO": pooled["topo"]["f1"],
        }
        found = call.run("diff", predicted, "--reference", reference, "--output", str(output))
        for (_kind, _name, title), value in zip(self.OUTPUTS, results.values(), strict=True):
            call.tell(f"{title}: {value:.3f}")
        layers = {}
        for layer, side in (("reference", "PREDICTED"), ("predicted", "REFERENCE")):
            title = f"Only in {call.title(side)}"
            layers[f"missing_in_{layer}"] = title
            call.tell(f"{title}: {found[side.lower()]['only_km']:.2f} km")
        return {**results, "OUTPUT": call.loaded(output, layers)}


class FindRoute(RoadsegAlgorithm):
    """`roadseg route`."""

    ID, TITLE = "route", "Route"
    TAGS = "roads streets network fastest shortest path navigation"
    HELP = """Finds the fastest or shortest way by car between two places on a road network. To \
choose a place, press the button beside it, then click on the map.

The network is the result of another algorithm of roadseg, or any layer of lines that meet where \
they share a vertex. Columns of OpenStreetMap, such as oneway and maxspeed, are followed."""
    OUTPUTS = (
        (QgsProcessingOutputNumber, "SECONDS", "Time in seconds"),
        (QgsProcessingOutputNumber, "KM", "Length in kilometres"),
    )

    def inputs(self) -> list[Any]:
        """Return the parameters."""
        ways = ["fastest way", "shortest way"]
        return [
            _lines("INPUT", "Road network"),
            QgsProcessingParameterPoint("START", "Start"),
            QgsProcessingParameterPoint("END", "Destination"),
            QgsProcessingParameterEnum("WEIGHT", "Find the", ways, defaultValue=0),
            _output("Route"),
        ]

    def process(self, call: Call) -> Results:
        """Find the route."""
        output = call.destination("OUTPUT")
        summary = call.run(
            *("route", call.roads("INPUT"), "--output", str(output)),
            *("--from", call.degrees("START"), "--to", call.degrees("END")),
            *("--weight", ("time", "length")[call.choice("WEIGHT")]),
        )
        seconds, km = summary["seconds"], summary["length_m"] / 1000
        call.tell(f"{km:.3f} km" + (f" in {seconds:.0f} s" if seconds else ""))
        return {"OUTPUT": call.loaded(output, {"edges": ""}), "SECONDS": seconds, "KM": km}


class CheckMap(RoadsegAlgorithm):
    """`roadseg audit`."""

    ID, TITLE = "checkmap", "Check a map"
    TAGS = "roads streets audit quality OpenStreetMap shifted"
    HELP = """Checks the roads of a map against the probabilities of roads in an image.

Each road is divided into stretches: confirmed by the image, shifted (the road lies beside the \
line), not seen, or without data. The probabilities are the layer "Probability of road" of Map \
roads; a mask works as well."""

    def inputs(self) -> list[Any]:
        """Return the parameters."""
        kinds = "HTML files (*.html)"
        return [
            _lines("INPUT", "Roads of the map"),
            QgsProcessingParameterRasterLayer("PROBABILITY", "Probabilities of roads, or a mask"),
            _output("Checked roads"),
            QgsProcessingParameterFileDestination(
                "PAGE", "Page with the roads to look at first", kinds, None, True, False
            ),
        ]

    def process(self, call: Call) -> Results:
        """Check the roads."""
        output = call.destination("OUTPUT")
        words = ["audit", call.roads("INPUT"), "--probabilities", call.image("PROBABILITY")]
        words += ["--output", str(output)]
        results: Results = {}
        if call.is_given("PAGE"):
            results["PAGE"] = str(call.destination("PAGE"))
            words += ["--page", results["PAGE"]]
        for each in call.run(*words)["statuses"]:
            call.tell(f"{each['status']}: {each['km']:.2f} km ({each['share']:.0%})")
        return {**results, "OUTPUT": call.loaded(output, {"stretches": ""})}


class AddMissingRoads(RoadsegAlgorithm):
    """`roadseg conflate`."""

    ID, TITLE = "addmissingroads", "Add missing roads"
    TAGS = "roads streets conflate merge OpenStreetMap JOSM"
    HELP = """Adds the roads that a map lacks, and connects them with its roads.

The merged network is loaded; new roads have a colour of their own. If the map is a file of \
OpenStreetMap (.osm or .osm.pbf), the folder also holds the changes for its tools (changes.osc, \
review.osm for JOSM). Look at every road before you upload any of them."""
    OUTPUTS = ((QgsProcessingOutputVectorLayer, "MERGED", "Merged roads"),)

    def inputs(self) -> list[Any]:
        """Return the parameters."""
        same = "Distance up to which roads are the same, in metres"
        return [
            _lines("PREDICTED", "Roads that may be new"),
            _lines("INTO", "Map to extend"),
            _number("CONFIDENCE", "Lowest confidence of new roads", 0.5, 0, 1),
            _number("TOLERANCE", same, 8, 0.1, 1000),
            QgsProcessingParameterFolderDestination("OUTPUT", "Folder of the results"),
        ]

    def process(self, call: Call) -> Results:
        """Merge the roads."""
        folder = call.folder("OUTPUT")
        predicted, into = call.two_roads("PREDICTED", "INTO")
        summary = call.run(
            *("conflate", predicted, "--into", into),
            *("--output", str(folder), "--min-confidence", call.number("CONFIDENCE")),
            *("--tolerance-m", call.number("TOLERANCE")),
        )
        call.tell(f"{summary['added_km']:.2f} km added; {summary['check_km']:.2f} km to check")
        merged = call.load(f"{folder}/merged.gpkg|layername=edges", "Merged roads")
        return {"OUTPUT": str(folder), "MERGED": merged}


ALGORITHMS = (MapRoads, TraceMask, CompareRoads, FindRoute, CheckMap, AddMissingRoads)
