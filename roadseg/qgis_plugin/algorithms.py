"""The algorithms: a command of roadseg each."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from qgis.core import (
    QgsProcessing,
    QgsProcessingOutputFile,
    QgsProcessingOutputNumber,
    QgsProcessingOutputRasterLayer,
    QgsProcessingOutputVectorLayer,
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

from .running import Call, Results, RoadsegAlgorithm

_LINES = [QgsProcessing.SourceType.TypeVectorLine]
_LINE = QgsProcessing.SourceType.TypeVectorLine


def _lines(name: str, title: str, *, optional: bool = False) -> Any:  # noqa: ANN401 - of QGIS
    return QgsProcessingParameterFeatureSource(name, title, _LINES, optional=optional)


def _number(name: str, title: str, default: float, least: float, most: float) -> Any:  # noqa: ANN401
    kind = QgsProcessingParameterNumber.Type.Double
    return QgsProcessingParameterNumber(name, title, kind, default, minValue=least, maxValue=most)


def _graph(title: str = "Roads") -> Any:  # noqa: ANN401 - of QGIS
    return QgsProcessingParameterVectorDestination("OUTPUT", title, _LINE)


class MapRoads(RoadsegAlgorithm):
    """`roadseg map`."""

    ID, TITLE = "maproads", "Map roads"
    TAGS = ("map", "images", "satellite", "aerial", "extract", "train")
    EXAMPLE = "--set imagery.bands=3,2,1"
    HELP = """Finds the roads in an image, and makes a road network of them.

Without known roads and without a network, it uses the network that comes with roadseg: good for a \
first look at towns, with pixels of 0.3 to 1 m. With known roads of the same area (such as those \
of OpenStreetMap), it first trains a network on them, which takes some minutes and gives a far \
better map. A folder of a network that was trained before (checkpoints/fold-0 in the folder of \
another map) maps further images of the same kind.

An extent limits the work to a part of the image. It is needed if the layer comes from a service, \
such as XYZ tiles: the extent is then drawn with the given size of pixels. Check that the licence \
of the images allows this.

The folder holds the map with a report (report.html). An interrupted map goes on if you choose \
the same folder and settings again."""

    def declare(self) -> None:
        """Declare the parameters and outputs."""
        self.addParameter(QgsProcessingParameterRasterLayer("INPUT", "Image"))
        self.addParameter(
            QgsProcessingParameterExtent(
                "EXTENT", "Extent (all of the image if empty)", optional=True
            )
        )
        self.addParameter(_lines("LABELS", "Known roads to learn from", optional=True))
        self.addParameter(_number("MINUTES", "Minutes to learn them", 20, 0.1, 100_000))
        self.addParameter(
            QgsProcessingParameterFile(
                "CHECKPOINT",
                "Folder of a trained network",
                QgsProcessingParameterFile.Behavior.Folder,
                optional=True,
            )
        )
        self.addParameter(_number("PIXEL", "Pixels to draw of a service, metres", 0.6, 0.05, 10))
        self.addParameter(QgsProcessingParameterFolderDestination("OUTPUT", "Folder of the map"))
        self.addOutput(QgsProcessingOutputVectorLayer("ROADS", "Roads", _LINE))
        self.addOutput(QgsProcessingOutputRasterLayer("PROBABILITY", "Probability of road"))
        self.addOutput(QgsProcessingOutputFile("REPORT", "Report"))

    def process(self, call: Call) -> Results:
        """Map the image, and load the roads over their probability."""
        folder = call.folder("OUTPUT")
        folder.mkdir(parents=True, exist_ok=True)
        pixel_m = float(call.number("PIXEL"))
        words = ["map", call.image("INPUT", "EXTENT", pixel_m, folder), "--output", str(folder)]
        words += call.area("EXTENT", folder)
        if call.is_given("LABELS"):
            words += ["--labels", call.roads("LABELS"), "--minutes", call.number("MINUTES")]
        if call.is_given("CHECKPOINT"):
            words += ["--checkpoint", str(call.folder("CHECKPOINT"))]
        summary = call.run(*words)
        scene = summary["graphs"]["scenes"][0]
        raster = folder / "probabilities" / f"{scene}.tif"
        roads = folder / "graphs" / f"{scene}.gpkg"
        return {
            "OUTPUT": str(folder),
            "PROBABILITY": call.loaded(raster, {"": "Probability of road"}, always=True),
            "ROADS": call.loaded(roads, {"edges": "Roads"}, always=True),
            "REPORT": summary["report"],
        }


class TraceMask(RoadsegAlgorithm):
    """`roadseg graph`."""

    ID, TITLE = "tracemask", "Trace a mask"
    TAGS = ("graph", "vectorize", "skeleton", "centreline", "probability")
    EXAMPLE = "--set graph.min_spur_m=15"
    HELP = """Turns a mask or probabilities of roads into a road network.

A mask has whole numbers, in which 0 is background and 1 to 7 are roads (by speed). Probabilities \
are bytes from 0 to 255, or numbers from 0 to 1. Short gaps are closed; these roads are dashed."""

    def declare(self) -> None:
        """Declare the parameters."""
        self.addParameter(QgsProcessingParameterRasterLayer("INPUT", "Mask or probabilities"))
        self.addParameter(
            QgsProcessingParameterExtent(
                "EXTENT", "Extent (all of the raster if empty)", optional=True
            )
        )
        self.addParameter(_graph())

    def process(self, call: Call) -> Results:
        """Trace beside the destination, and put the network there when it is complete."""
        output = call.destination("OUTPUT")
        output.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".roadseg-", dir=output.parent) as name:
            folder = Path(name)
            image = call.image("INPUT", "EXTENT", 1, folder)
            words = ["graph", image, "--output", name, "--set", "graph.formats=gpkg"]
            summary = call.run(*words, *call.area("EXTENT", folder))
            (folder / f"{summary['scenes'][0]}.gpkg").replace(output)
        call.feedback.pushInfo(
            f"{summary['road_km']:g} km of roads in {summary['parts']} connected parts"
        )
        return {"OUTPUT": call.loaded(output, {"edges": ""})}


class CompareRoads(RoadsegAlgorithm):
    """`roadseg score` and `roadseg diff`."""

    ID, TITLE = "compareroads", "Compare with roads"
    TAGS = ("score", "diff", "accuracy", "APLS", "TOPO", "completeness", "correctness")
    EXAMPLE = "--tolerance-m 6"
    HELP = """Measures how well two layers of roads agree, and shows where they differ.

Correctness is the share of the compared roads that the reference has, completeness the share of \
the reference that the compared roads have. APLS compares lengths of routes, TOPO the roads around \
many places. All range from 0 to 1 (best).

The layers of the differences hold the roads that only one side has."""
    MEASURES = {  # noqa: RUF012 - never changed
        "CORRECTNESS": ("Correctness", ("buffer", "correctness")),
        "COMPLETENESS": ("Completeness", ("buffer", "completeness")),
        "QUALITY": ("Quality", ("buffer", "quality")),
        "APLS": ("APLS", ("apls", "length", "score")),
        "TOPO": ("TOPO F1", ("topo", "f1")),
    }

    def declare(self) -> None:
        """Declare the parameters and outputs."""
        self.addParameter(_lines("REFERENCE", "Reference (the roads that are right)"))
        self.addParameter(_lines("PREDICTED", "Roads to compare with it"))
        self.addParameter(_graph("Differences"))
        for name, (title, _) in self.MEASURES.items():
            self.addOutput(QgsProcessingOutputNumber(name, title))

    def process(self, call: Call) -> Results:
        """Measure both sides, then find the differences."""
        reference, predicted = call.roads("REFERENCE"), call.roads("PREDICTED")
        pooled = call.run("score", reference, predicted)["pooled"]
        results: Results = {}
        for name, (title, keys) in self.MEASURES.items():
            value = pooled
            for key in keys:
                value = value[key]
            results[name] = value
            call.feedback.pushInfo(f"{title}: {value:.3f}")
        output = call.destination("OUTPUT")
        words = ["diff", predicted, "--reference", reference, "--output", str(output)]
        call.run(*words)
        layers = {
            "missing_in_reference": "Only in the compared roads",
            "missing_in_predicted": "Only in the reference",
        }
        results["OUTPUT"] = call.loaded(output, layers)
        return results


class FindRoute(RoadsegAlgorithm):
    """`roadseg route`."""

    ID, TITLE = "route", "Route"
    TAGS = ("fastest", "shortest", "path", "navigation")
    EXAMPLE = "--snap-m 100"
    HELP = """Finds the fastest or shortest way by car between two places on a road network.

The network is the result of another algorithm of roadseg, or any layer of lines that meet where \
they share a vertex. Columns of OpenStreetMap, such as oneway and maxspeed, are followed."""

    def declare(self) -> None:
        """Declare the parameters and outputs."""
        self.addParameter(_lines("INPUT", "Road network"))
        self.addParameter(QgsProcessingParameterPoint("START", "Start"))
        self.addParameter(QgsProcessingParameterPoint("END", "Destination"))
        self.addParameter(
            QgsProcessingParameterEnum(
                "WEIGHT", "Find the", ["fastest way", "shortest way"], defaultValue=0
            )
        )
        self.addParameter(_graph("Route"))
        self.addOutput(QgsProcessingOutputNumber("SECONDS", "Time in seconds"))
        self.addOutput(QgsProcessingOutputNumber("KM", "Length in kilometres"))

    def process(self, call: Call) -> Results:
        """Find the route."""
        output = call.destination("OUTPUT")
        summary = call.run(
            *("route", call.roads("INPUT"), "--output", str(output)),
            *("--from", call.degrees("START"), "--to", call.degrees("END")),
            *("--weight", ("time", "length")[call.choice("WEIGHT")]),
        )
        seconds, km = summary["seconds"], summary["length_m"] / 1000
        call.feedback.pushInfo(f"{km:.3f} km" + (f" in {seconds:.0f} s" if seconds else ""))
        return {"OUTPUT": call.loaded(output, {"": ""}), "SECONDS": seconds, "KM": km}


class CheckMap(RoadsegAlgorithm):
    """`roadseg audit`."""

    ID, TITLE = "checkmap", "Check a map"
    TAGS = ("audit", "quality", "OpenStreetMap", "shifted")
    EXAMPLE = "--min-shift-m 6"
    HELP = """Checks the roads of a map against the probabilities of roads in an image.

Each road is divided into stretches: confirmed by the image, shifted (the road lies beside the \
line), not seen, or outside of the image. The probabilities are those of Map roads; a mask works \
as well."""

    def declare(self) -> None:
        """Declare the parameters."""
        self.addParameter(_lines("INPUT", "Roads of the map"))
        self.addParameter(
            QgsProcessingParameterRasterLayer("PROBABILITY", "Probabilities of roads, or a mask")
        )
        self.addParameter(_graph("Checked roads"))
        self.addParameter(
            QgsProcessingParameterFileDestination(
                "PAGE",
                "Page with the roads to look at first",
                "HTML files (*.html)",
                optional=True,
                createByDefault=False,
            )
        )

    def process(self, call: Call) -> Results:
        """Check the roads."""
        output = call.destination("OUTPUT")
        raster = call.image("PROBABILITY", "EXTENT", 1, output.parent)
        words = ["audit", call.roads("INPUT"), "--probabilities", raster, "--output", str(output)]
        results: Results = {}
        if call.is_given("PAGE"):
            results["PAGE"] = str(call.destination("PAGE"))
            words += ["--page", results["PAGE"]]
        summary = call.run(*words)
        for each in summary["statuses"]:
            call.feedback.pushInfo(f"{each['status']}: {each['km']:.2f} km ({each['share']:.0%})")
        results["OUTPUT"] = call.loaded(output, {"stretches": ""})
        return results


class AddMissingRoads(RoadsegAlgorithm):
    """`roadseg conflate`."""

    ID, TITLE = "addmissingroads", "Add missing roads"
    TAGS = ("conflate", "merge", "OpenStreetMap", "JOSM")
    EXAMPLE = "--max-gap-m 15"
    HELP = """Adds the roads that a map lacks, and connects them with its roads.

The merged network is loaded; new roads have a colour of their own. If the map is a file of \
OpenStreetMap (.osm or .osm.pbf), the folder also holds the changes for its tools (changes.osc, \
review.osm for JOSM). Look at every road before you upload any of them."""

    def declare(self) -> None:
        """Declare the parameters and outputs."""
        self.addParameter(_lines("PREDICTED", "Roads that may be new"))
        self.addParameter(_lines("INTO", "Map to extend"))
        self.addParameter(_number("CONFIDENCE", "Least confidence of new roads", 0.5, 0, 1))
        self.addParameter(
            _number("TOLERANCE", "Distance up to which roads are the same, metres", 8, 0.1, 1000)
        )
        self.addParameter(
            QgsProcessingParameterFolderDestination("OUTPUT", "Folder of the results")
        )
        self.addOutput(QgsProcessingOutputVectorLayer("MERGED", "Merged roads", _LINE))

    def process(self, call: Call) -> Results:
        """Merge the roads."""
        folder = call.folder("OUTPUT")
        summary = call.run(
            *("conflate", call.roads("PREDICTED"), "--into", call.roads("INTO")),
            *("--output", str(folder), "--min-confidence", call.number("CONFIDENCE")),
            *("--tolerance-m", call.number("TOLERANCE")),
        )
        call.feedback.pushInfo(
            f"{summary['added_km']:.2f} km of roads added; {summary['check_km']:.2f} km to check"
        )
        merged = call.loaded(folder / "merged.gpkg", {"edges": "Merged roads"}, always=True)
        return {"OUTPUT": str(folder), "MERGED": merged}


ALGORITHMS = (MapRoads, TraceMask, CompareRoads, FindRoute, CheckMap, AddMissingRoads)
