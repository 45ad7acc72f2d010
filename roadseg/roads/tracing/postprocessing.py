"""Tidying: traced roads pruned, linked across gaps, and simplified."""

from dataclasses import dataclass

import numpy as np
import shapely
from scipy.spatial import cKDTree

from roadseg.arrays import Floats
from roadseg.raster.grid import Grid
from roadseg.roads.graph.cleaning import (
    drop_components,
    merge_chains,
    prune_spurs,
    simplify_lines,
)
from roadseg.roads.graph.neatnet import neatened
from roadseg.roads.graph.nodes import merge_near_junctions
from roadseg.roads.graph.road_graph import RoadGraph
from roadseg.roads.options import TraceOptions
from roadseg.roads.tracing.coarse_mask import Sketch
from roadseg.roads.tracing.end_repair import draw_out_ends, straighten_ends
from roadseg.roads.tracing.least_cost import ReadRoad
from roadseg.roads.tracing.linking import INFERRED, link_gaps

_BORDER_M = 2.0  # a dead end this close to the scene's border goes on outside of it
_FORK_M = 30.0  # the skeleton of a blunt end forks into corners up to so far from its middle


def tidied(
    graph: RoadGraph, how: TraceOptions, *, sketch: Sketch, grid: Grid, read_road: ReadRoad
) -> RoadGraph:
    """Return the network of traced roads; its edges have `inferred` and `confidence`.

    Args:
        graph: roads as traced, in the metric CRS of the grid, without attributes.
        how: settings.
        sketch: what is road in the scene.
        grid: of the scene.
        read_road: reads a window of the probability of any road, bytes.
    """
    scene = _Scene(how, sketch, grid, read_road)
    graph = scene.linked(merge_chains(graph))
    graph = drop_components(graph, min_component_m=how.min_component_m)
    graph = neatened(graph) if how.neat else graph
    return simplify_lines(graph, tolerance_m=how.simplify_m)


@dataclass(frozen=True)
class _Scene:
    """A raster, and what is done to the roads traced on it."""

    how: TraceOptions
    sketch: Sketch
    grid: Grid
    read_road: ReadRoad

    def linked(self, graph: RoadGraph) -> RoadGraph:
        """Prune and link; ends that are linked start in the middle of the end of their road.

        Thinning ends a road half its width early and bends it into a corner, so gaps are looked
        for between ends that are straight and drawn out, at first by straight links, which need
        no pixels. Ends from which no link starts are then left as they were.
        """
        if self.how.max_gap_m == 0:
            return link_gaps(self._pruned(graph), max_gap_m=0)
        drawn = self._pruned(self._drawn_out(graph, self._border))
        stays = self._and_others(graph, _tips(self._with_links(drawn, self._border)))
        pruned = self._pruned(self._drawn_out(graph, stays))
        return self._with_links(pruned, stays, read_road=self.read_road)

    @property
    def _border(self) -> shapely.Geometry:
        return self.grid.footprint_m.exterior

    def _drawn_out(self, graph: RoadGraph, stays: shapely.Geometry) -> RoadGraph:
        for change in (straighten_ends, draw_out_ends):
            graph = change(graph, sketch=self.sketch, border=stays, border_m=_BORDER_M)
        return graph

    def _pruned(self, graph: RoadGraph) -> RoadGraph:
        graph = prune_spurs(
            graph, min_spur_m=self.how.min_spur_m, border=self._border, border_m=_BORDER_M
        )
        return merge_near_junctions(graph, within_m=self.how.merge_nodes_m)

    def _with_links(
        self,
        graph: RoadGraph,
        stays: shapely.Geometry,
        *,
        read_road: ReadRoad | None = None,
    ) -> RoadGraph:
        by_raster = read_road is not None
        return link_gaps(
            graph,
            max_gap_m=self.how.max_gap_m,
            max_turn_deg=self.how.max_turn_deg,
            min_probability=self.how.min_link_probability if by_raster else 0,
            grid=self.grid,
            read_road=read_road,
            border=stays,
            border_m=_BORDER_M,
        )

    def _and_others(self, graph: RoadGraph, tips: Floats) -> shapely.Geometry:
        """Return the border together with the dead ends that are far from all tips of links.

        Those of short lone pieces are left out: patches go, also where no link starts.
        """
        is_end = graph.degree == 1
        is_lone = is_end[graph.ends].all(axis=1) & (graph.length_m < self.how.max_gap_m)
        is_end[graph.ends[is_lone]] = False
        ends = graph.nodes[is_end]
        if len(tips):
            ends = ends[cKDTree(tips).query(ends, distance_upper_bound=_FORK_M)[0] > _FORK_M]
        return shapely.GeometryCollection([self._border, *shapely.points(ends)])


def _tips(graph: RoadGraph) -> Floats:
    """Return where links start and end."""
    is_link = graph.attributes[INFERRED] == 1
    return np.asarray(graph.nodes[np.unique(graph.ends[is_link])])
