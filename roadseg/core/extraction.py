"""Extraction: from the pixels of roads to a road graph with speeds."""

import math

import numpy as np
from numpy.typing import NDArray

from roadseg.core.cleaning import drop_components, prune_spurs, simplify_lines
from roadseg.core.graphs import RoadGraph, graph_from_paths
from roadseg.core.grid import Grid
from roadseg.core.linking import link_gaps
from roadseg.core.skeletons import clean_mask, skeletonise, smooth_paths, trace_paths
from roadseg.core.speeds import KPH_PER_MPH, SpeedBins
from roadseg.core.travel import add_travel, look_up_speeds

CERTAIN = 255  # a probability of 1, kept as a byte
_SMOOTH_PX = 3  # neighbours on either side over which the pixel staircase is evened out
_BORDER_M = 2.0  # a dead end this close to the scene's border goes on outside of it

Bytes = NDArray[np.uint8]


def find_graph(
    road: Bytes,
    grid: Grid,
    *,
    bins: Bytes | None,
    speed_bins: SpeedBins | None,
    threshold: float,
    min_blob_m2: float,
    min_hole_m2: float,
    min_spur_m: float,
    max_gap_m: float,
    min_component_m: float,
    simplify_m: float,
    default_speed_mph: float,
) -> RoadGraph:
    """Find the road graph of a scene, in the scene's metric CRS, with speeds and travel times.

    Args:
        road: probability of any road, shape (row, col), 255 for certain.
        grid: where the pixels lie.
        bins: probability of each speed bin, shape (bin, row, col), alike; None if not known.
        speed_bins: which speeds these bins stand for; None if not known.
        threshold: a pixel is road where its probability, 0 to 1, is at least this.
        min_blob_m2: smaller patches of road are removed.
        min_hole_m2: smaller holes in roads are filled.
        min_spur_m: shorter dead ends are pruned.
        max_gap_m: longest gap across which a dead end is linked to the road ahead.
        min_component_m: connected pieces with less road than this are dropped.
        simplify_m: how far a line may move when it is simplified.
        default_speed_mph: speed of edges for which the bins show none.

    Raises:
        ValueError: if there is not one plane of probabilities for each speed bin.
    """
    pixel_m2 = math.prod(grid.pixel_size_m)
    is_road = clean_mask(
        road >= threshold * CERTAIN,
        min_blob_px=math.ceil(min_blob_m2 / pixel_m2),
        min_hole_px=math.ceil(min_hole_m2 / pixel_m2),
    )
    graph, border = _trace(is_road, grid), grid.footprint_m.exterior
    graph = prune_spurs(graph, min_spur_m=min_spur_m, border=border, border_m=_BORDER_M)
    graph = link_gaps(graph, max_gap_m=max_gap_m, border=border, border_m=_BORDER_M)
    graph = drop_components(graph, min_component_m=min_component_m)
    graph = simplify_lines(graph, tolerance_m=simplify_m)
    default_kph = default_speed_mph * KPH_PER_MPH
    if bins is None or speed_bins is None:
        return add_travel(graph, np.full(len(graph.lines), default_kph))
    kph = np.array(speed_bins.speeds_mph) * KPH_PER_MPH
    return add_travel(
        graph, look_up_speeds(graph, grid, bins, kph, certain=CERTAIN, default_kph=default_kph)
    )


def _trace(is_road: NDArray[np.bool_], grid: Grid) -> RoadGraph:
    paths = smooth_paths(trace_paths(skeletonise(is_road)), reach_px=_SMOOTH_PX)
    return graph_from_paths(
        grid.to_metric(paths.nodes),
        paths.ends,
        grid.to_metric(paths.points),
        paths.offsets,
        grid.metric_crs,
    )
