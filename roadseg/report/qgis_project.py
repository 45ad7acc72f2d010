"""QGIS project: all layers of a run, in groups and with styles."""

import itertools
import os
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

import shapely
from pyproj import CRS

from roadseg.raster.images import RasterFacts, read_grid
from roadseg.raster.scaling import Scaling
from roadseg.report.map_data import MapArea
from roadseg.report.scenes import ReportScene, ReportScenes
from roadseg.roads.formats.gpkg_styles import column_aliases, edge_renderer, node_renderer
from roadseg.roads.graph.road_graph import RoadGraph
from roadseg.roads.masks.raster_styles import (
    QGIS_VERSION,
    as_text,
    mask_renderer,
    probability_renderer,
)
from roadseg.system.files import atomic_write
from roadseg.system.workspace import ROAD_NETWORK, Workspace

_COLOURS = ("red", "green", "blue")
_CHECKED, _UNCHECKED = "Qt::Checked", "Qt::Unchecked"


@dataclass(frozen=True)
class _Layer:
    """A layer of the project.

    Attributes:
        source: file, and after a bar the layer in it.
        geometry: "Line" or "Point" of vectors; empty for rasters.
    """

    name: str
    source: str
    crs: CRS
    renderer: ET.Element
    geometry: str = ""


@dataclass(frozen=True)
class _Group:
    """A group of layers, which are all visible at first or all hidden."""

    name: str
    layers: Sequence[_Layer]
    is_shown: bool = True


def write_project(path: Path, workspace: Workspace, shown: ReportScenes) -> None:
    """Write a project of roads, probabilities, masks and images of all scenes with georeference.

    Paths in the run folder and beside it are relative, so that everything can be moved together.

    Source: the projects that QGIS saves.

    Raises:
        OutputError: if it cannot be written.
    """
    folder = path.absolute().parent
    scenes = [scene for scene in shown.scenes if not scene.grid.is_local]
    root = ET.Element("qgis", projectname=folder.name, version=QGIS_VERSION)
    ET.SubElement(root, "title").text = folder.name
    if scenes:
        ET.SubElement(root, "projectCrs").append(_crs(scenes[0].grid.metric_crs))
        properties = ET.SubElement(ET.SubElement(root, "properties"), "SpatialRefSys")
        ET.SubElement(properties, "ProjectionsEnabled", type="int").text = "1"
        _add_view(root, shown.areas[0])  # Those without a georeference come last.
    _add_layers(
        root, [group for group in _groups(scenes, workspace, shown, folder) if group.layers]
    )
    with (
        atomic_write(path) as partial,
        zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        # Without a date, equal projects have equal bytes.
        member = zipfile.ZipInfo(f"{path.stem}.qgs")
        member.external_attr = 0o644 << 16
        archive.writestr(member, as_text(root), zipfile.ZIP_DEFLATED)


def _add_layers(root: ET.Element, groups: Sequence[_Group]) -> None:
    """Add the layers of all groups, and the layer tree."""
    tree, layers = ET.SubElement(root, "layer-tree-group"), ET.SubElement(root, "projectlayers")
    # QGIS replaces ids of up to 10 characters, and then does not find the layer in the tree.
    names = (f"roadseg_layer_{number}" for number in itertools.count(1))
    for group in groups:
        state = _CHECKED if group.is_shown else _UNCHECKED
        facts = {"name": group.name, "expanded": "0", "checked": state}
        branch = ET.SubElement(tree, "layer-tree-group", facts)
        for layer, name in zip(group.layers, names, strict=False):
            facts = {"id": name, "name": layer.name, "checked": state, "expanded": "0"}
            ET.SubElement(branch, "layer-tree-layer", facts)
            layers.append(_layer(layer, name))


def _groups(
    scenes: Sequence[ReportScene], workspace: Workspace, shown: ReportScenes, folder: Path
) -> Iterator[_Group]:
    """Yield the groups of layers from top to bottom."""

    def near(file: Path) -> str:
        if not file.is_relative_to(folder.parent):
            return str(file)
        relative = Path(os.path.relpath(file, folder)).as_posix()
        return relative if relative.startswith("..") else f"./{relative}"

    def roads(name: str, graph: RoadGraph) -> Iterator[_Layer]:
        source = near(workspace.graph(name).absolute())
        style = edge_renderer(graph.attributes)
        nodes, edges = (f"{source}|layername={layer}" for layer in ("nodes", "edges"))
        # The first layer is the active one when the project opens.
        yield _Layer(f"{name}, roads", edges, graph.crs, style, "Line")
        yield _Layer(f"{name}, nodes", nodes, graph.crs, node_renderer(), "Point")

    graphs = [(scene.name, scene.graph) for scene in scenes if scene.graph]
    networks = [(ROAD_NETWORK, network) for network in shown.networks.values()][:1]
    apart = [graph for graph in graphs if not networks or graph[0] not in shown.joined]
    joined = [graph for graph in graphs if graph[0] in shown.joined and networks]
    yield _Group("roads", [layer for graph in networks + apart for layer in roads(*graph)])
    single = [layer for graph in joined for layer in roads(*graph)]
    yield _Group("roads of single scenes", single, is_shown=False)
    probabilities = [
        _Layer(
            f"{scene.name}, probability",
            near(scene.probability.path.absolute()),
            scene.grid.crs,
            probability_renderer(scene.probability.speed_bins or shown.bins),
        )
        for scene in scenes
        if scene.probability and not scene.probability.is_mask
    ]
    # Sure roads have the colour of high probabilities, and would hardly be seen on them.
    yield _Group("probability of road", probabilities, is_shown=not graphs)
    masks = [
        _Layer(f"{scene.name}, mask", near(mask.absolute()), mask_crs, mask_renderer(shown.bins))
        for scene in scenes
        if (mask := workspace.mask(scene.name)).exists()
        and (mask_crs := read_grid(mask).crs) is not None
    ]
    yield _Group("masks of the labels", masks, is_shown=False)
    images = [
        _Layer(
            f"{scene.name}, image",
            near(scene.image.path.absolute()),
            scene.image.grid.crs,
            _image_renderer(scene.image, shown.scaling),
        )
        for scene in scenes
        if scene.image and not scene.image.grid.is_local
    ]
    yield _Group("images", images)


def _image_renderer(image: RasterFacts, scaling: Scaling | None) -> ET.Element:
    """Return the renderer of an image: its first three bands, or its first one in grey."""
    is_grey = len(image.bands) < len(_COLOURS)
    kind = "singlebandgray" if is_grey else "multibandcolor"
    renderer = ET.Element("rasterrenderer", type=kind, opacity="1", alphaBand="-1")
    ranges = scaling.ranges.get(image.dtype) if scaling else None
    for number, colour in enumerate(("gray",) if is_grey else _COLOURS):
        renderer.set(f"{colour}Band", str(image.bands[number]))
        if ranges is None:
            continue
        name = "contrastEnhancement" if is_grey else f"{colour}ContrastEnhancement"
        stretch = ET.SubElement(renderer, name)
        for limit, value in zip(("minValue", "maxValue"), ranges[number], strict=True):
            ET.SubElement(stretch, limit).text = f"{value:g}"
        ET.SubElement(stretch, "algorithm").text = "StretchToMinimumMaximum"
    return renderer


def _layer(layer: _Layer, name: str) -> ET.Element:
    """Return a layer as an element of the project."""
    kind = "vector" if layer.geometry else "raster"
    element = ET.Element("maplayer", type=kind)
    if layer.geometry:
        element.set("geometry", layer.geometry)
    texts = {"id": name, "datasource": layer.source, "layername": layer.name}
    for tag, text in texts.items():
        ET.SubElement(element, tag).text = text
    ET.SubElement(element, "srs").append(_crs(layer.crs))
    if layer.geometry:
        ET.SubElement(element, "provider", encoding="UTF-8").text = "ogr"
        element.extend([layer.renderer, column_aliases()])
    else:
        ET.SubElement(element, "provider").text = "gdal"
        ET.SubElement(element, "pipe").append(layer.renderer)
    return element


def _crs(crs: CRS) -> ET.Element:
    """Return a CRS as WKT, with the number of its authority if it has one."""
    element = ET.Element("spatialrefsys")
    ET.SubElement(element, "wkt").text = crs.to_wkt()
    if authority := crs.to_authority():
        ET.SubElement(element, "authid").text = ":".join(authority)
    return element


def _add_view(root: ET.Element, area: MapArea) -> None:
    """Add the initial extent of the map: all scenes of an area."""
    canvas = ET.SubElement(root, "mapcanvas", name="theMapCanvas")
    extent = ET.SubElement(canvas, "extent")
    bounds = shapely.total_bounds(area.outlines)
    for tag, value in zip(("xmin", "ymin", "xmax", "ymax"), bounds.tolist(), strict=True):
        ET.SubElement(extent, tag).text = f"{value:.3f}"
    ET.SubElement(canvas, "destinationsrs").append(_crs(area.crs))
