"""The algorithms: a command of roadseg each."""

from __future__ import annotations

import re
import tempfile
import webbrowser
from pathlib import Path
from typing import Any

from qgis import core

from .process import improvement_lines, quality_lines
from .running import Results, RoadsegAlgorithm, advanced

_LINE = core.QgsProcessing.SourceType.TypeVectorLine


def _lines(name: str, title: str, *, optional: bool = False) -> Any:
    return core.QgsProcessingParameterFeatureSource(name, title, [_LINE], optional=optional)


def _number(name: str, title: str, default: float, least: float, most: float) -> Any:
    kind = core.QgsProcessingParameterNumber.Type.Double
    number = core.QgsProcessingParameterNumber(name, title, kind, default, False, least, most)
    number.setMetadata({"widget_wrapper": {"decimals": 2}})
    return number


def _extent() -> Any:
    return core.QgsProcessingParameterExtent(
        "EXTENT", "Extent (if empty, all of it)", optional=True
    )


def _folder(name: str, title: str, *, optional: bool = False) -> Any:
    kind = core.QgsProcessingParameterFile.Behavior.Folder
    return core.QgsProcessingParameterFile(name, title, kind, optional=optional)


def _output(title: str) -> Any:
    return core.QgsProcessingParameterVectorDestination("OUTPUT", title, _LINE)


class MapRoads(RoadsegAlgorithm):
    """`roadseg map`."""

    ID, TITLE, COMMANDS = "maproads", "Map roads", ("map", "predict")
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

To review the map later, choose its folder at the bottom: QGIS deletes temporary ones. The report \
opens from Processing > Results Viewer. An interrupted map goes on when it is started again with \
the same folder and settings."""
    OUTPUTS = (
        (core.QgsProcessingOutputVectorLayer, "ROADS", "Roads"),
        (core.QgsProcessingOutputRasterLayer, "PROBABILITY", "Probability of road"),
        (core.QgsProcessingOutputHtml, "REPORT", "Report"),
    )

    def inputs(self) -> list[Any]:
        pixel = _number("PIXEL", "Pixel size for layers of a service, in metres", 0.6, 0.05, 10)
        return [
            core.QgsProcessingParameterRasterLayer("INPUT", "Image"),
            _extent(),
            _lines("LABELS", "Known roads to train on", optional=True),
            _number("MINUTES", "Minutes of training on known roads", 20, 0.1, 100_000),
            core.QgsProcessingParameterBoolean(
                "ADAPT", "Without known roads: adapt to the image", False
            ),
            _folder("CHECKPOINT", "Folder of a trained network", optional=True),
            advanced(pixel),
            core.QgsProcessingParameterFolderDestination("OUTPUT", "Folder of the map"),
        ]

    def process(self) -> Results:
        """Map the image, and load the roads over their probability."""
        folder = self.folder("OUTPUT")
        # Where roadseg keeps what it fetched; a folder with other files is refused as output.
        sources = folder / "sources"
        sources.mkdir(parents=True, exist_ok=True)
        if self.raster("INPUT").providerType() == "gdal":
            image = self.image("INPUT")
        else:
            image = self.drawn("INPUT", "EXTENT", float(self.number("PIXEL")), sources)
        words = ["map", image, "--output", str(folder), *self.area("EXTENT", sources)]
        if self.is_given("LABELS"):
            words += ["--labels", self.roads("LABELS"), "--minutes", self.number("MINUTES")]
        if self.is_given("CHECKPOINT"):
            words += ["--checkpoint", str(self.folder("CHECKPOINT"))]
        if self.parameterAsBool(*self.given("ADAPT")):
            words.append("--adapt")
        summary = self.roadseg(*words)
        for line in quality_lines(summary):
            self.feedback.pushInfo(line)
        scene = summary["graphs"]["scenes"][0]
        # The dot sorts the raster before the roads, and thus below them.
        raster, roads = f"./probabilities/{scene}.tif", f"graphs/{scene}.gpkg|layername=edges"
        return {
            "OUTPUT": str(folder),
            "PROBABILITY": self.load(f"{folder}/{raster}", "Probability of road"),
            "ROADS": self.load(f"{folder}/{roads}", "Roads"),
            "REPORT": summary["report"],
        }


class ReviewMap(RoadsegAlgorithm):
    """`roadseg review`."""

    ID, TITLE, COMMANDS = "reviewmap", "Review a map", ("review",)
    TAGS = "roads streets correct edit accept reject draw"
    HELP = """Opens a page in your browser, on which you accept, reject, draw and correct the \
roads of a map. The roads that most need a look come first.

Press Finish on the page when you want to end. Then the corrected roads are loaded here; hide the \
layer "Roads" below them, which still shows those that you rejected. Every decision is kept at \
once, in the file edits.gpkg in the folder of the map, and you can go on later. "Improve a map" \
learns from the decisions."""

    def inputs(self) -> list[Any]:
        return [_folder("INPUT", "Folder of the map"), _output("Corrected roads")]

    def process(self) -> Results:
        """Serve the page until the user has finished; write the corrected roads."""
        output, folder = self.destination("OUTPUT"), str(self.folder("INPUT"))
        decided = self.roadseg("review", folder)["roads"]
        states = ", ".join(f"{number} {name}" for name, number in decided.items())
        self.feedback.pushInfo(f"Roads: {states}")
        # Roads in several coordinate systems get a file each.
        files = self.roadseg("review", folder, "--export", str(output))["exported"]
        return {"OUTPUT": self.loaded(output, {"edges": ""}, files=files)}

    def show(self, line: str) -> None:
        """Open the page as soon as its address is there."""
        address = re.search(r"http://\S+", line)
        super().show(f"The page is {address[0]} (end with Finish there)" if address else line)
        if address:
            webbrowser.open(address[0])


class ImproveMap(RoadsegAlgorithm):
    """`roadseg improve`."""

    ID, TITLE, COMMANDS = "improvemap", "Improve a map", ("improve",)
    TAGS = "roads streets train learn corrections edits review"
    HELP = """Trains the network of a map on what was decided in "Review a map", and maps its \
images again.

So decide about all roads of some places before, about false ones too. The new map lies in another \
folder; what was decided by hand stays as it is, and can be reviewed further there."""
    OUTPUTS = (
        (core.QgsProcessingOutputVectorLayer, "ROADS", "Improved roads"),
        (core.QgsProcessingOutputHtml, "REPORT", "Report"),
    )

    def inputs(self) -> list[Any]:
        return [
            _folder("INPUT", "Folder of the reviewed map"),
            _number("MINUTES", "Minutes of training", 2, 0.1, 100_000),
            core.QgsProcessingParameterFolderDestination("OUTPUT", "Folder of the new map"),
        ]

    def process(self) -> Results:
        """Train and map again; load the roads with all edits."""
        folder = self.folder("OUTPUT")
        words = ["improve", str(self.folder("INPUT")), "--output", str(folder)]
        summary = self.roadseg(*words, "--minutes", self.number("MINUTES"))
        for line in improvement_lines(summary):
            self.feedback.pushInfo(line)
        roads = [
            self.load(f"{path}|layername=edges", "Improved roads") for path in summary["roads"]
        ]
        return {"OUTPUT": str(folder), "ROADS": roads[0], "REPORT": f"{folder}/report.html"}


class TraceMask(RoadsegAlgorithm):
    """`roadseg graph`."""

    ID, TITLE, COMMANDS = "tracemask", "Trace a mask", ("graph",)
    TAGS = "roads streets graph network vectorize skeleton centreline probability"
    HELP = """Turns a mask or probabilities of roads into a road network.

A mask has whole numbers, in which 0 is background and 1 to 7 are roads (by speed). Probabilities \
are bytes from 0 to 255, or numbers from 0 to 1. Short gaps are closed; these roads are dashed."""

    def inputs(self) -> list[Any]:
        raster = core.QgsProcessingParameterRasterLayer("INPUT", "Mask or probabilities")
        return [raster, _extent(), _output("Roads")]

    def process(self) -> Results:
        """Trace beside the destination, and put the network there when it is complete."""
        output = self.destination("OUTPUT")
        output.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".roadseg-", dir=output.parent) as name:
            folder = Path(name)
            words = ["graph", self.image("INPUT"), "--output", name]
            words += ["--set", "graph.formats=gpkg", *self.area("EXTENT", folder)]
            summary = self.roadseg(*words)
            (folder / f"{summary['scenes'][0]}.gpkg").replace(output)
        self.feedback.pushInfo(
            f"{summary['road_km']:g} km of roads in {summary['parts']} connected parts"
        )
        return {"OUTPUT": self.loaded(output, {"edges": ""})}


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
        (core.QgsProcessingOutputNumber, "CORRECTNESS", "Correctness"),
        (core.QgsProcessingOutputNumber, "COMPLETENESS", "Completeness"),
        (core.QgsProcessingOutputNumber, "QUALITY", "Quality"),
        (core.QgsProcessingOutputNumber, "APLS", "APLS"),
        (core.QgsProcessingOutputNumber, "TOPO", "TOPO F1"),
    )

    def inputs(self) -> list[Any]:
        return [
            _lines("REFERENCE", "Reference (the roads that are right)"),
            _lines("PREDICTED", "Roads to compare with it"),
            _output("Differences"),
        ]

    def process(self) -> Results:
        output = self.destination("OUTPUT")
        reference, predicted = self.two_roads("REFERENCE", "PREDICTED")
        pooled = self.roadseg("score", reference, predicted)["pooled"]
        self.extra = []  # Further options are those of this command.
        buffer = pooled["buffer"]
        results: Results = {
            **{key.upper(): buffer[key] for key in ("correctness", "completeness", "quality")},
            "APLS": pooled["apls"]["length"]["score"],
        }
        if pooled["topo"]:  # Not measured for long networks.
            results["TOPO"] = pooled["topo"]["f1"]
        found = self.roadseg("diff", predicted, "--reference", reference, "--output", str(output))
        for _kind, name, title in self.OUTPUTS:
            if name in results:
                self.feedback.pushInfo(f"{title}: {results[name]:.3f}")
        layers = {}
        sides = ("PREDICTED", "REFERENCE")
        names = [self.parameterAsSource(*self.given(side)).sourceName() for side in sides]
        if names[0] == names[1]:  # As of two maps, each loaded as "Roads".
            names = [f"{names[0]} (compared)", f"{names[1]} (reference)"]
        for layer, side, name in zip(("reference", "predicted"), sides, names, strict=True):
            title = f"Only in {name}"
            layers[f"missing_in_{layer}"] = title
            self.feedback.pushInfo(f"{title}: {found[side.lower()]['only_km']:.2f} km")
        return {**results, "OUTPUT": self.loaded(output, layers)}


class FindRoute(RoadsegAlgorithm):
    """`roadseg route`."""

    ID, TITLE = "route", "Route"
    TAGS = "roads streets network fastest shortest path navigation"
    HELP = """Finds the fastest or shortest route by car between two places on a road network. To \
choose a place, press the button beside it, then click on the map.

The network is the result of another algorithm of roadseg, or any layer of lines that meet where \
they share a vertex. Columns of OpenStreetMap, such as oneway and maxspeed, are followed."""
    OUTPUTS = (
        (core.QgsProcessingOutputNumber, "SECONDS", "Time in seconds"),
        (core.QgsProcessingOutputNumber, "KM", "Length in kilometres"),
    )

    def inputs(self) -> list[Any]:
        ways = ["fastest route", "shortest route"]
        return [
            _lines("INPUT", "Road network"),
            core.QgsProcessingParameterPoint("START", "Start"),
            core.QgsProcessingParameterPoint("END", "Destination"),
            core.QgsProcessingParameterEnum("WEIGHT", "Find the", ways, defaultValue=0),
            _output("Route"),
        ]

    def process(self) -> Results:
        output = self.destination("OUTPUT")
        summary = self.roadseg(
            *("route", self.roads("INPUT"), "--output", str(output)),
            *("--from", self.degrees("START"), "--to", self.degrees("END")),
            *("--weight", ("time", "length")[self.parameterAsEnum(*self.given("WEIGHT"))]),
        )
        seconds, km = summary["seconds"], summary["length_m"] / 1000
        self.feedback.pushInfo(f"{km:.3f} km" + (f" in {seconds:.0f} s" if seconds else ""))
        if seconds and (assumed := summary["assumed_share"]):
            self.feedback.pushInfo(
                f"On {assumed:.1%} of the length no speed is known: there it is assumed."
            )
        return {"OUTPUT": self.loaded(output, {"edges": ""}), "SECONDS": seconds, "KM": km}


class CheckMap(RoadsegAlgorithm):
    """`roadseg audit`."""

    ID, TITLE = "checkmap", "Check a map"
    TAGS = "roads streets audit quality OpenStreetMap shifted"
    HELP = """Checks the roads of a map against the probabilities of roads in an image.

Each road is divided into stretches: confirmed by the image, shifted (the road lies beside the \
line), not seen, or without data. Sort their table by doubt_m to see the most doubtful ones \
first. The probabilities are the layer "Probability of road" of Map roads; a mask works as \
well."""

    def inputs(self) -> list[Any]:
        return [
            _lines("INPUT", "Roads of the map"),
            core.QgsProcessingParameterRasterLayer(
                "PROBABILITY", "Probabilities of roads, or a mask"
            ),
            _output("Checked roads"),
        ]

    def process(self) -> Results:
        output = self.destination("OUTPUT")
        words = ["audit", self.roads("INPUT"), "--probabilities", self.image("PROBABILITY")]
        words += ["--output", str(output)]
        for each in self.roadseg(*words)["statuses"]:
            self.feedback.pushInfo(f"{each['status']}: {each['km']:.2f} km ({each['share']:.0%})")
        return {"OUTPUT": self.loaded(output, {"stretches": ""})}


class AddMissingRoads(RoadsegAlgorithm):
    """`roadseg conflate`."""

    ID, TITLE = "addmissingroads", "Add missing roads"
    TAGS = "roads streets conflate merge OpenStreetMap JOSM"
    HELP = """Adds the roads that a map lacks, and connects them with its roads.

The merged network is loaded; new roads have a colour of their own. If the map is a file of \
OpenStreetMap (.osm or .osm.pbf), the folder also holds the changes for its tools (changes.osc, \
review.osm for JOSM). Look at every road before you upload any of them."""
    OUTPUTS = ((core.QgsProcessingOutputVectorLayer, "MERGED", "Merged roads"),)

    def inputs(self) -> list[Any]:
        same = "Distance up to which roads are the same, in metres"
        return [
            _lines("PREDICTED", "Roads that may be new"),
            _lines("INTO", "Map to extend"),
            _number("CONFIDENCE", "Lowest confidence of new roads", 0.5, 0, 1),
            _number("TOLERANCE", same, 8, 0.1, 1000),
            core.QgsProcessingParameterFolderDestination("OUTPUT", "Folder of the results"),
        ]

    def process(self) -> Results:
        folder = self.folder("OUTPUT")
        predicted, into = self.two_roads("PREDICTED", "INTO")
        summary = self.roadseg(
            *("conflate", predicted, "--into", into),
            *("--output", str(folder), "--min-confidence", self.number("CONFIDENCE")),
            *("--tolerance-m", self.number("TOLERANCE")),
        )
        self.feedback.pushInfo(
            f"{summary['added_km']:.2f} km added; {summary['check_km']:.2f} km to check"
        )
        merged = self.load(f"{folder}/merged.gpkg|layername=edges", "Merged roads")
        return {"OUTPUT": str(folder), "MERGED": merged}


ALGORITHMS = (
    *(MapRoads, ReviewMap, ImproveMap, TraceMask),
    *(CompareRoads, FindRoute, CheckMap, AddMissingRoads),
)
