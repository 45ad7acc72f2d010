"""Submissions: road graphs of images as a CSV of SpaceNet's road challenges."""

import csv
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import shapely

from roadseg.core.graphs import TRAVEL_TIME, Floats, RoadGraph
from roadseg.core.grid import Grid, transformer
from roadseg.io.files import whole
from roadseg.io.graph_tables import is_local

_HEADER = ("ImageId", "WKT_Pix", "length_m", "travel_time_s")
_EMPTY = ("LINESTRING EMPTY", 0.0, 0.0)  # of an image without roads
_DECIMALS = 4  # of a pixel

Scene = tuple[str, RoadGraph, Grid]


def write_submission(path: Path, scenes: Iterable[Scene]) -> None:
    """Write the edges of the graphs of images, a row for each: ImageId, WKT_Pix, length, seconds.

    Lines are in pixels, x to the right and y down. The first pixel reaches from 0 to 1, so that its
    centre is (0.5, 0.5): these are positions on the ground brought to pixels by the image's affine,
    as in SpaceNet's labels and as its metric takes them. (CRESI writes the numbers of pixels, half
    a pixel to the upper left.) Parallel edges and loops are rows of their own; an image without
    roads is one row with LINESTRING EMPTY.

    Source: SpaceNet 5, columns ImageId, WKT_Pix, length_m and travel_time_s.

    Args:
        path: the file.
        scenes: for each image its id, its roads with `travel_time_s`, and where its pixels lie.

    Raises:
        ValueError: if a graph has no travel times, or only one of graph and grid has a place on
            earth.
        OutputError: if the file cannot be written.
    """
    with whole(path) as partial, partial.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(_HEADER)
        for name, graph, grid in scenes:
            writer.writerows((name, *row) for row in _rows(name, graph, grid))


def _rows(name: str, graph: RoadGraph, grid: Grid) -> Iterator[tuple[str, float, float]]:
    if len(graph.lines) == 0:
        yield _EMPTY
        return
    if TRAVEL_TIME not in graph.attributes:
        raise ValueError(f"{name}: a submission needs the attribute {TRAVEL_TIME}")
    if is_local(graph.crs) != grid.is_local:
        raise ValueError(f"{name}: either the graph or the grid has no place on earth")
    lines = shapely.transform(graph.lines, lambda xy: _pixels(xy, graph, grid))
    seconds = graph.attributes[TRAVEL_TIME].round(3)
    wkt = shapely.to_wkt(lines, rounding_precision=_DECIMALS)
    yield from zip(wkt, graph.length_m.round(3).tolist(), seconds.tolist(), strict=True)


def _pixels(xy: Floats, graph: RoadGraph, grid: Grid) -> Floats:
    """Convert x, y in metres to x, y in pixels."""
    if grid.is_local or graph.crs == grid.metric_crs:
        return grid.from_metric(xy)[:, ::-1]
    x, y = transformer(graph.crs, grid.crs).transform(*xy.T)
    return grid.to_pixel(np.column_stack([x, y]))[:, ::-1]
