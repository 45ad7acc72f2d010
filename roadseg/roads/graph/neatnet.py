"""Neat graphs: dual carriageways drawn as one road and roundabouts as one junction, by neatnet."""

import importlib
import warnings
from dataclasses import replace
from types import ModuleType

import geopandas
import numpy as np
import shapely

from roadseg.arrays import Ints, Lines
from roadseg.errors import RoadsegError
from roadseg.roads.graph.cleaning import merge_chains
from roadseg.roads.graph.road_graph import (
    RoadGraph,
    graph_from_lines,
    part_attributes,
    sample_points,
)

_ANY_METRIC = "EPSG:32631"  # Any metric CRS, as neatnet takes none of places without georeference.
_FACE_INDEX = 7.0  # Log of area in m2 times compactness; a face below this is no block.
_FAR_M = 1000.0  # Metres between the roads and the squares, which do not touch them.
_SIDES_M = (200.0, 300.0)  # Metres; squares so large are taken for blocks.
_SPACING_M = 2.0  # Metres between the places where a line looks for the edge that it replaces.
_REMARKS = (
    "No topological corrections",  # There was nothing to do.
    "Topological corrections performed",  # There was little to do.
    "Could not create a connection",  # A face stays as it was.
    "The inplace keyword",  # Momepy 0.11 on new versions of pandas.
)
_FAILURES = (ValueError, KeyError, IndexError, TypeError, AttributeError, shapely.GEOSException)


def neaten(graph: RoadGraph) -> RoadGraph:
    """Replace dual carriageways by one road in their middle, and roundabouts by one junction.

    What is closed up are faces: areas that roads enclose, if they are narrower than about 29 m
    when long, or than 37 m when round, and narrow or round ones beside them. Dead ends inside of
    them go; junctions about 2 m apart become one. A graph that encloses nothing comes back as it
    is.

    A new edge has the attributes of the edge along which most of it runs, so that attributes
    which are measured are best measured afterwards; of `travel_time_s` its part by length.

    Args:
        graph: roads in metres.

    Raises:
        RoadsegError: if neatnet is not installed, or fails.

    Source: M. Fleischmann, A. Vybornova, J. Gaboardi, A. Brazdova, D. Dancejova, "Adaptive
    continuity-preserving simplification of street networks", Computers, Environment and Urban
    Systems 123, 2026, by their package neatnet. By itself it derives the limit for faces from
    those of the whole graph. We give the one that it falls back to, so that a road comes out
    alike in whatever scene it lies. Version 0.1.6 fails on fewer than two different faces even
    so; it is given two squares far away besides, which are taken out again.
    """
    neatnet = _load_neatnet()
    if shapely.is_empty(shapely.polygonize(graph.lines)):
        return graph
    neat = graph_from_lines(_run_neatnet(neatnet, graph.lines), graph.crs)
    source = _source_edges(graph, neat)
    attributes = part_attributes(graph.attributes, source, neat.length_m / graph.length_m[source])
    return merge_chains(replace(neat, attributes=attributes))


def _load_neatnet() -> ModuleType:
    try:
        return importlib.import_module("neatnet")
    except ImportError as error:
        raise RoadsegError(
            f"graph.neat needs the package neatnet ({error}); run `pip install 'roadseg[neat]'`"
        ) from error


def _run_neatnet(neatnet: ModuleType, lines: Lines) -> Lines:
    """Return the lines that neatnet makes of others, without the squares far away."""
    # neatnet needs two different faces at least; squares far away are such.
    far = shapely.bounds(shapely.multilinestrings(list(lines)))[2] + _FAR_M
    streets = geopandas.GeoDataFrame(geometry=[*lines, *_squares(lines)], crs=_ANY_METRIC)
    with warnings.catch_warnings():
        for remark in _REMARKS:
            warnings.filterwarnings("ignore", message=remark)
        try:
            neat = neatnet.neatify(streets, artifact_threshold=_FACE_INDEX).geometry.to_numpy()
        except _FAILURES as error:
            raise RoadsegError(
                f"neatnet cannot clean up this graph of {len(lines)} edges "
                f"({type(error).__name__}: {error}); set graph.neat=false"
            ) from error
    return np.asarray(neat[shapely.bounds(neat)[:, 0] < far - _FAR_M / 2], dtype=object)


def _squares(lines: Lines) -> list[shapely.LineString]:
    """Return closed lines far to the right of all others, one right of the other."""
    _, bottom, right, _ = shapely.total_bounds(lines).tolist()
    squares = []
    for side in _SIDES_M:
        right += _FAR_M
        square = shapely.box(right, bottom, right + side, bottom + side)
        squares.append(shapely.LineString(square.exterior.coords))
    return squares


def _source_edges(graph: RoadGraph, neat: RoadGraph) -> Ints:
    """Return the row of the old edge that lies nearest along most of each new edge."""
    points, edge = sample_points(neat, spacing_m=_SPACING_M)
    nearest = shapely.STRtree(graph.lines).nearest(shapely.points(points))
    # Each place votes for the old edge nearest to it; the most votes win.
    pairs, counts = np.unique(np.column_stack([edge, nearest]), axis=0, return_counts=True)
    order = np.lexsort((-counts, pairs[:, 0]))
    _, first = np.unique(pairs[order, 0], return_index=True)
    return np.asarray(pairs[order[first], 1], dtype=np.int64)
