"""GeoPackage of a run: its roads, errors, chips and scenes in one file, with styles for QGIS."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import geopandas as gpd
import numpy as np
import pandas as pd

from roadseg.dataset.chips import ChipRecord
from roadseg.dataset.fold_files import fold_renderer, fold_table
from roadseg.raster.grid import DEGREES, is_local
from roadseg.report.scenes import ReportScene, ReportScenes
from roadseg.roads.colours import FALSE, MISSED, Rgb
from roadseg.roads.formats.gpkg_styles import (
    STYLE_LAYER,
    area_renderer,
    edge_renderer,
    edit_renderer,
    layer_styles,
    line_renderer,
    node_renderer,
)
from roadseg.roads.formats.layers import write_gpkg_layers
from roadseg.roads.formats.tables import edge_table, node_table
from roadseg.roads.graph.road_graph import RoadGraph
from roadseg.roads.tracing.edge_confidence import mean_confidence
from roadseg.system.files import atomic_write

if TYPE_CHECKING:
    from xml.etree import ElementTree as ET

_ERRORS: Mapping[str, Rgb] = {"missed": MISSED, "false": FALSE}
_SCENES: Rgb = (200, 200, 200)
_NUMBERS = ("osmid", "u", "v")  # Columns that number the nodes and edges of a graph.
_TYPES = {"nodes": "Point", "chips": "Polygon", "scenes": "Polygon"}
_GEOMETRY = "geometry"


def write_package(
    path: Path,
    shown: ReportScenes,
    *,
    folds: Mapping[str, int] | None,
    scores: Mapping[str, Any] | None,
    edits: gpd.GeoDataFrame | None,
) -> bool:
    """Write what a run has found on the ground as one GeoPackage.

    Layers: `edges` and `nodes` of all networks, as in the files of graphs, with the name of their
    scene or `network`; `missed` and `false` roads; `chips` with their fold and metrics; `scenes`
    with kilometres of roads and their mean confidence; `edits` of a review. The CRS is that of the
    first map if all scenes are on it, else EPSG:4326; lengths are metres in any case. Layers
    without anything are left out.

    Args:
        folds: of every chip, by its name; None if there are none.
        scores: metrics of chips, from `facts.read_scores`.
        edits: those in force with their `kind`; None if there are none.

    Returns:
        Whether it was written: scenes without georeference have no place in it.

    Raises:
        OutputError: if it cannot be written.
    """
    scenes = [scene for scene in shown.scenes if not scene.grid.is_local]
    if not scenes:
        return False
    crs = shown.areas[0].crs if len(shown.areas) == 1 else DEGREES
    graphs = [
        (name, graph)
        for number, area in enumerate(shown.areas)
        if not is_local(area.crs)
        for name, _, graph in shown.graphs_on(number)
    ]
    edges, nodes = _numbered(graphs)
    tables: dict[str, list[gpd.GeoDataFrame]] = {"edges": edges, "nodes": nodes}
    for scene, compared in zip(shown.scenes, shown.compared, strict=True):
        for kind, roads in compared.items():
            if not scene.grid.is_local and kind in _ERRORS and len(roads.lines):
                tables.setdefault(kind, []).append(_pieces(roads, scene.name))
    if folds and shown.chips:
        tables["chips"] = list(_chips(shown.chips, folds, scores))
    tables["scenes"] = [_scene(scene) for scene in scenes]
    if edits is not None and len(edits):
        tables["edits"] = [edits]
    layers = {
        name: pd.concat([table.to_crs(crs) for table in each], ignore_index=True)
        for name, each in tables.items()
        if each
    }
    styles: dict[str, ET.Element] = {name: line_renderer(_ERRORS[name]) for name in _ERRORS}
    styles |= {"nodes": node_renderer(), "scenes": area_renderer(_SCENES), "edits": edit_renderer()}
    if "edges" in layers:
        styles["edges"] = edge_renderer(layers["edges"])
    if "chips" in layers:
        styles["chips"] = fold_renderer(layers["chips"]["fold"].to_numpy())
    styles = {name: style for name, style in styles.items() if name in layers}
    with atomic_write(path) as partial:
        write_gpkg_layers(
            partial, {**layers, STYLE_LAYER: layer_styles(styles)}, geometry_types=_TYPES
        )
    return True


def _numbered(
    graphs: Sequence[tuple[str, RoadGraph]],
) -> tuple[list[gpd.GeoDataFrame], list[gpd.GeoDataFrame]]:
    """Return the tables of edges and nodes, whose numbers go on from graph to graph."""
    edges, nodes, before = [], [], np.zeros(2, dtype=np.int64)
    for name, graph in graphs:
        edge, node = edge_table(graph), node_table(graph)
        edge["osmid"] += before[0]
        edge[["u", "v"]] += before[1]
        node["osmid"] += before[1]
        for table in (edge, node):
            table.insert(len(_NUMBERS), "scene", name)
        before += len(edge), len(node)
        edges.append(edge)
        nodes.append(node)
    return edges, nodes


def _pieces(roads: RoadGraph, scene: str) -> gpd.GeoDataFrame:
    table = edge_table(roads).drop(columns=[*_NUMBERS, "key"])
    table.insert(0, "scene", scene)
    return table


def _chips(
    chips: Sequence[ChipRecord], folds: Mapping[str, int], scores: Mapping[str, Any] | None
) -> Iterator[gpd.GeoDataFrame]:
    """Yield the chips with a place, and the metrics of those that were measured."""
    table = fold_table(chips, np.array([folds[chip.name] for chip in chips]))
    if _GEOMETRY not in table:
        return
    if scores is not None:
        columns = ["name", *scores["columns"][1:]]
        metrics = pd.DataFrame(scores["rows"], columns=columns)
        new = [column for column in columns[1:] if column not in table]
        table = table.merge(metrics[["name", *new]], on="name", how="left")
    yield table[table.geometry.notna()]


def _scene(scene: ReportScene) -> gpd.GeoDataFrame:
    graph = scene.graph
    facts = {
        "name": scene.name,
        "km2": scene.grid.footprint_m.area / 1e6,
        "road_km": np.nan if graph is None else graph.length_m.sum() / 1000,
        "confidence": np.nan if graph is None else mean_confidence(graph),
    }
    return gpd.GeoDataFrame(
        {name: [value] for name, value in facts.items()},
        geometry=[scene.grid.footprint_m],
        crs=scene.grid.metric_crs,
    )
