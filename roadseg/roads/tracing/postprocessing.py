"""Postprocessing: traced roads pruned, linked across gaps, and simplified."""

from dataclasses import dataclass

import numpy as np
import shapely
from scipy.spatial import cKDTree

from roadseg.arrays import Floats
from roadseg.raster.grid import Grid
from roadseg.roads.graph.cleaning import (
    drop_components,
    merge_chains,
    merge_near_junctions,
    prune_spurs,
    simplify_lines,
)
from roadseg.roads.graph.neatnet import neaten
from roadseg.roads.graph.road_graph import RoadGraph
from roadseg.roads.options import TraceOptions
from roadseg.roads.tracing.coarse_mask import CoarseMask
from roadseg.roads.tracing.end_repair import draw_out_ends, straighten_ends
from roadseg.roads.tracing.linking import INFERRED, ReadRoad, link_gaps

_BORDER_M = 2.0  # Metres; a dead end this close to the border of the scene goes on outside of it.
_FORK_M = 30.0  # Metres from the middle of a wide end within which its skeleton forks into corners.


def postprocess(
    graph: RoadGraph, options: TraceOptions, *, mask: CoarseMask, grid: Grid, read_road: ReadRoad
) -> RoadGraph:
    """Return the network of traced roads; its edges have `inferred` and `confidence`.

    Args:
        graph: roads as traced, in the metric CRS of the grid, without attributes.
        options: how they are pruned, linked and simplified.
        mask: what is road in the scene.
        grid: of the scene.
        read_road: reads a window of the probability of any road, bytes.
    """
    scene = _Scene(options, mask, grid, read_road)
    graph = scene.prune_and_link(merge_chains(graph))
    graph = drop_components(graph, min_component_m=options.min_component_m)
    graph = neaten(graph) if options.neat else graph
    return simplify_lines(graph, tolerance_m=options.simplify_m)


@dataclass(frozen=True)
class _Scene:
    """A raster, and what is done to the roads traced on it."""

    options: TraceOptions
    mask: CoarseMask
    grid: Grid
    read_road: ReadRoad

    def prune_and_link(self, graph: RoadGraph) -> RoadGraph:
        """Prune roads and link them; links start in the middle of the end of their road.

        Thinning ends a road half its width early and bends it into a corner, so gaps are looked
        for between ends that are repaired: straight and drawn out.
        """
        border = self._border
        if self.options.max_gap_m > 0:
            # Straight links, which need no pixels, show at which dead ends links start at all.
            repaired = self._prune(self._repair_ends(graph, border))
            # All other dead ends count as border, so that they stay as thinning made them.
            border = self._border_and_far_ends(graph, _tips(self._link(repaired, border)))
            graph = self._repair_ends(graph, border)
        return self._link(self._prune(graph), border, read_road=self.read_road)

    @property
    def _border(self) -> shapely.Geometry:
        return self.grid.footprint_m.exterior

    def _repair_ends(self, graph: RoadGraph, border: shapely.Geometry) -> RoadGraph:
        for repair in (straighten_ends, draw_out_ends):
            graph = repair(graph, mask=self.mask, border=border, border_m=_BORDER_M)
        return graph

    def _prune(self, graph: RoadGraph) -> RoadGraph:
        graph = prune_spurs(
            graph, min_spur_m=self.options.min_spur_m, border=self._border, border_m=_BORDER_M
        )
        return merge_near_junctions(graph, within_m=self.options.merge_nodes_m)

    def _link(
        self, graph: RoadGraph, border: shapely.Geometry, *, read_road: ReadRoad | None = None
    ) -> RoadGraph:
        return link_gaps(
            graph,
            max_gap_m=self.options.max_gap_m,
            max_turn_deg=self.options.max_turn_deg,
            min_probability=self.options.min_link_probability if read_road is not None else 0,
            grid=self.grid,
            read_road=read_road,
            border=border,
            border_m=_BORDER_M,
        )

    def _border_and_far_ends(self, graph: RoadGraph, tips: Floats) -> shapely.Geometry:
        """Return the border together with the dead ends that are far from all tips of links.

        Those of short lone pieces are left out: patches go, also where no link starts.
        """
        is_end = graph.degree == 1
        is_lone = is_end[graph.ends].all(axis=1) & (graph.length_m < self.options.max_gap_m)
        is_end[graph.ends[is_lone]] = False
        ends = graph.nodes[is_end]
        if len(tips):
            ends = ends[cKDTree(tips).query(ends, distance_upper_bound=_FORK_M)[0] > _FORK_M]
        return shapely.GeometryCollection([self._border, *shapely.points(ends)])


def _tips(graph: RoadGraph) -> Floats:
    """Return where links start and end."""
    is_link = graph.attributes[INFERRED] == 1
    return np.asarray(graph.nodes[np.unique(graph.ends[is_link])])
