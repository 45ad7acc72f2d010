"""The page for a client: what it says of a run, and the map that it shows."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import shapely

from roadseg.learn.network.installed_weights import NAME
from roadseg.report.pictures import mosaic, read_photo
from roadseg.report.plots.one_page import MAP_PX, MapPicture, OnePage
from roadseg.report.scenes import ReportScenes
from roadseg.roads.graph.joining import to_crs
from roadseg.roads.graph.road_graph import RoadGraph
from roadseg.roads.labels.areas import work_area
from roadseg.roads.metrics.road_lengths import RoadLengths, classes_of
from roadseg.roads.tracing.edge_confidence import mean_confidence
from roadseg.system.text import count
from roadseg.system.units import area_text, road_unit, to_road_unit
from roadseg.system.workspace import ADAPTED


def client_page(
    shown: ReportScenes, facts: Mapping[str, Any], lengths: RoadLengths, *, area: str | None
) -> OnePage:
    """Return the contents of the page; it shows the map that has the most roads.

    Args:
        facts: what the page of the report says of the run.
        area: `imagery.area`, whose polygons are drawn.
    """
    by_map = [[graph for _, _, graph in shown.graphs_on(at)] for at in range(len(shown.areas))]
    roads_m = [sum(float(graph.length_m.sum()) for graph in graphs) for graphs in by_map]
    at = int(np.argmax(roads_m))
    known = [
        (sure, float(graph.length_m.sum()))
        for graphs in by_map
        for graph in graphs
        if (sure := mean_confidence(graph)) is not None
    ]
    found = facts["summaries"].get("evaluate")
    figures = [
        ("Roads", f"{to_road_unit(sum(roads_m) / 1000):.1f}", road_unit()),
        ("Area", area_text(facts["km2"]).split()[0], f"{road_unit()}²"),
        ("Images", f"{len(shown.scenes)}", ""),
    ]
    notes = []
    if known:
        means, weights = zip(*known, strict=True)
        confidence = float(np.average(means, weights=weights))
        figures.append(("Confidence", f"{confidence:.2f}", ""))
        notes.append(
            f"The mean confidence of the roads is {confidence:.2f}: as the network sees it, "
            f"{confidence:.0%} of their length is really there."
        )
    if found:
        named = {"correctness": "Correctness", "completeness": "Completeness"}
        named |= {"apls_length": "APLS"}
        figures += [(name, f"{found[key]:.2f}", "") for key, name in named.items()]
        notes.append(
            f"Measured on {count(found['chips'], 'held-out chip')}, from which its network did "
            f"not learn: {found['correctness']:.0%} of the mapped roads are real (correctness), "
            f"and {found['completeness']:.0%} of the known roads were found (completeness). APLS "
            "compares routes: 1 is perfect."
        )
    else:
        notes.append("The accuracy was not measured, as there are no known roads to compare with.")
    if ADAPTED in shown.models:
        notes.append(
            "Mapped with a network that learned from its own first map of these images, without "
            "known roads: expect missed and false roads."
        )
    elif NAME in shown.models:
        notes.append(
            "Mapped with the starter, a network that was trained on other places: expect missed "
            "and false roads."
        )
    if len(by_map) > 1:
        notes.append(f"The picture shows one of {len(by_map)} maps, the one with the most roads.")
    return OnePage(
        title=facts["title"],
        subtitle=f"Road network from {count(len(shown.scenes), 'image')} · {facts['made']}",
        picture=_picture(shown, by_map[at], at, area=area),
        figures=figures,
        lengths=lengths,
        notes=notes,
        credits=[*facts["credits"], f"Made with roadseg {facts['versions']['roadseg']}"],
    )


def _picture(
    shown: ReportScenes, graphs: Sequence[RoadGraph], at: int, *, area: str | None
) -> MapPicture:
    """Return one of the maps with its images and roads."""
    ground = shown.areas[at]
    west, south, east, north = shapely.total_bounds(ground.outlines).tolist()
    photos = []
    for row, outline in zip(ground.scenes, ground.outlines, strict=True):
        left, low, right, high = outline.bounds
        share = max(right - left, high - low) / max(east - west, north - south)
        side_px = max(round(MAP_PX * share), 2)
        if image := shown.scenes[row].image:
            photos.append(read_photo(image, shown.scaling, ground.crs, side_px=side_px))
    polygons, shown_m = work_area(area), shapely.union_all(ground.outlines)
    named = polygons.by_name() if polygons else {}
    cut = {n: shapely.intersection(shown_m, ground.inside(part)) for n, part in named.items()}
    lines = [to_crs(graph, ground.crs).lines for graph in graphs]
    return MapPicture(
        ground.crs,
        (west, south, east, north),
        mosaic(photos, (west, south, east, north), side_px=MAP_PX),
        np.concatenate([np.zeros(0, dtype=object), *lines]),
        [name for graph in graphs for name in classes_of(graph)],
        {name: polygon for name, polygon in cut.items() if polygon.area},
    )
