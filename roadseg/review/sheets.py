"""Sheets: the maps of a run under review, with their roads, pictures and probabilities."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import shapely

from roadseg.arrays import Bytes, Floats
from roadseg.raster.extents import ScenePart
from roadseg.raster.grid import Grid, reproject, reproject_points
from roadseg.raster.windows import Window
from roadseg.report.map_data import MapArea, Precision, encode_column, encode_lines
from roadseg.report.pictures import photo_uri, probability_uri, read_photo, read_road
from roadseg.report.scenes import ReportScene, ReportScenes
from roadseg.review.apply import Change, Revision
from roadseg.review.edits import Edit
from roadseg.review.order import worth_of_looks
from roadseg.roads.graph.joining import disjoint_union, to_crs, touching
from roadseg.roads.graph.road_graph import RoadGraph, graph_from_lines
from roadseg.roads.labels.traffic import assumed_speeds
from roadseg.roads.masks.tiled_probabilities import as_one, group_tiles
from roadseg.roads.tracing.link_paths import trace_links
from roadseg.roads.tracing.trace import PixelSource

TILE_PX = 1024  # Side of the pictures that the page asks for.

_MOST_BYTES = 4_000_000  # Of a picture.
_APART_M = 9_000.0  # Metres from a map; areas with maps of their own are 20 km apart.
_DRAWN = Precision(step_m=0.01, tolerance_m=0.0)
_LEVELS = 24  # Each halves the pixels of the one before.
_MARGIN_M, _MARGIN_SHARE = 20.0, 0.3  # By how much a path may leave the box around its ends.
_MOST_PX = 60_000  # Pixels of the box; a larger one is searched in coarser pixels.


class Sheet:
    """The roads of one area, under review.

    Attributes:
        area: what the map shows.
        place: the name of its scene, if this has no georeference; else empty.
        revision: its roads as they are now.
    """

    def __init__(self, shown: ReportScenes, number: int) -> None:
        """Take the roads of an area, all of its scenes together."""
        self.area: MapArea = shown.areas[number]
        self._shown = shown
        self.scenes: list[ReportScene] = [shown.scenes[row] for row in self.area.scenes]
        self.place = self.scenes[0].name if self.scenes[0].grid.is_local else ""
        graphs = [graph for _, _, graph in shown.graphs_on(number)]
        self.graph = _disjoint_union(graphs, self.area)
        self.revision = Revision(self.graph)
        known = "confidence" if "confidence" in self.graph.attributes else "probability"
        self.worth = worth_of_looks(self.revision.base, self.graph.column(known, np.nan))

    def begin_again(self) -> None:
        """Forget all that was done to the roads."""
        self.revision = Revision(self.graph)

    def holds(self, edit: Edit) -> bool:
        """Return whether an edit, in the CRS of the map, lies on it."""
        if self.place or edit.place:
            return edit.place == self.place
        west, south, east, north = shapely.total_bounds(self.area.outlines)
        return bool(shapely.box(west, south, east, north).distance(edit.line) < _APART_M)

    def least_cost_path(self, start: Floats, goal: Floats) -> shapely.LineString:
        """Return the path of a new road between two places; straight without probabilities."""
        points = shapely.points([start, goal])
        for pixels, ground in self._pixels:
            if shapely.contains(ground, points).all():
                crs = pixels.grid.metric_crs
                ends = reproject_points(np.array([start, goal]), self.area.crs, crs)
                line = np.array([draw_path(ends[0], ends[1], pixels)])
                xy = shapely.get_coordinates(reproject(line, crs, self.area.crs))
                xy[0], xy[-1] = start, goal
                return shapely.LineString(xy)
        return shapely.LineString([start, goal])

    def describe(self) -> dict[str, Any]:
        """Return map, scenes, and roads before all edits, as JSON values.

        Coordinates are relative to the origin of the map, and a road is known by its row.
        """
        base = self.revision.base
        known = {"confidence": "confidence", "kph": "speed_kph", "inferred": "inferred"}
        columns = {
            name: encode_column(attribute, base.attributes[attribute])["values"]
            for name, attribute in known.items()
            if attribute in base.attributes
        }
        if "kph" in columns:
            for row in np.flatnonzero(assumed_speeds(base.attributes, len(base.lines))):
                columns["kph"][row] = None  # As if there were none.
        return {
            "box": self.area.box,
            "scenes": [self._scene(scene) for scene in self.scenes],
            "lines": encode_lines(base.lines, self.area.origin, _DRAWN),
            "length": base.length_m.round(1).tolist(),
            "worth": [float(f"{worth:.4g}") for worth in self.worth],
            **columns,
        }

    def describe_change(self, change: Change) -> dict[str, Any]:
        """Return what a change means for the page; lines only of roads that have new ones.

        What a road has of its source is not repeated; coordinates are in steps of `lines`.
        """
        changed: list[dict[str, Any]] = []
        for number, road in change.after.items():
            told = {"id": number, "source": road.source, "edited": road.edited}
            told["length"] = round(road.line.length, 1)
            if road.kph is not None:
                told["kph"] = round(road.kph, 1)
            former = change.before.get(number)
            if former is None or former.line is not road.line:
                xy = shapely.get_coordinates(road.line) - self.area.origin
                told["xy"] = np.rint(xy / _DRAWN.step_m).astype(np.int64).ravel().tolist()
            changed.append(told)
        return {
            "removed": [number for number in change.before if number not in change.after],
            "changed": changed,
        }

    def picture(self, scene: int, layer: str, tile: tuple[int, int, int]) -> dict[str, Any] | None:
        """Return a picture of a part of a scene with its box on the map; None if it has none.

        Args:
            layer: "image" or "probability".
            tile: level, row and column: squares of 1,024 pixels, each of which is 2^level pixels of
                the raster wide.

        Raises:
            DataError: if the raster cannot be read.
        """
        own = self.scenes[scene]
        raster = own.image if layer == "image" else own.probability
        level, row, col = tile
        if raster is None or not 0 <= level < _LEVELS or min(row, col) < 0:
            return None
        side, grid = TILE_PX << level, raster.grid
        height, width = grid.height - row * side, grid.width - col * side
        if min(height, width) <= 0:
            return None
        window = Window(row * side, col * side, min(side, height), min(side, width))
        crs = self.area.crs
        if layer == "image" and own.image:
            facts = replace(own.image, grid=own.image.whole_grid, part=None, scene_grid=None)
            facts = facts.cut(ScenePart(own.image.in_scene(window)))
            flat = read_photo(facts, self._shown.scaling, crs, side_px=TILE_PX)
            uri = photo_uri(flat, most_bytes=_MOST_BYTES)
        elif own.probability:
            flat = read_road(own.probability, crs, side_px=TILE_PX, window=window)
            uri = probability_uri(flat, most_bytes=_MOST_BYTES)
        box = np.subtract(flat.bounds, [*self.area.origin, *self.area.origin]).round(3)
        return {"picture": uri, "box": box.tolist()} if uri else None

    @cached_property
    def _pixels(self) -> list[tuple[PixelSource, shapely.Geometry]]:
        """The probabilities, those of adjoining scenes on common pixels as one, and their ground.

        Those of several scenes come first.
        """
        files = [scene.probability for scene in self.scenes if scene.probability]
        grounds = [file.grid.footprint_in(self.area.crs) for file in files]
        pairs = touching(np.array(grounds, dtype=object), within_m=1.0)
        groups = group_tiles([file.grid for file in files], pairs)
        pixels = [
            (
                files[rows[0]] if len(rows) == 1 else as_one([files[row] for row in rows]),
                shapely.union_all([grounds[row] for row in rows]).buffer(1.0),
            )
            for rows in groups
        ]
        return sorted(pixels, key=lambda each: -float(shapely.area(each[1])))

    def _scene(self, scene: ReportScene) -> dict[str, Any]:
        layers = {"image": scene.image, "probability": scene.probability}
        return {
            "name": scene.name,
            "layers": {name: self._frame(each.grid) for name, each in layers.items() if each},
        }

    def _frame(self, grid: Grid) -> dict[str, Any]:
        """Return size, first corner, and the sides along a row and down of a raster on the map."""
        corners = reproject_points(grid.to_map(grid.corners[[0, 1, 3]]), grid.crs, self.area.crs)
        first, right, down = corners - self.area.origin
        sides = {"corner": first, "right": right - first, "down": down - first}
        return {
            "size": [grid.height, grid.width],
            **{name: side.round(3).tolist() for name, side in sides.items()},
        }


def draw_path(start: Floats, goal: Floats, pixels: PixelSource) -> shapely.LineString:
    """Return the least-cost path from one place to another, straight where that is about as good.

    It is found and simplified as `tracing` does it for links across gaps.

    Args:
        start: shape (2,), x and y in the metric CRS of the pixels.
        goal: the same.
        pixels: probabilities; paths outside of them are not looked for.

    Raises:
        DataError: if they cannot be read.
    """
    grid, away = pixels.grid, np.abs(goal - start)
    margin_m = max(_MARGIN_M, _MARGIN_SHARE * float(np.hypot(*away)))
    box_px = np.prod((away + 2 * margin_m) / grid.pixel_size_m)
    by = min(max(math.ceil(math.sqrt(box_px / _MOST_PX)), 1), grid.height, grid.width)
    height, width = grid.height // by, grid.width // by

    def read_means(window: Window) -> Bytes:
        """Return the mean of `by` times `by` pixels each."""
        fine = pixels.read_road(Window(*(side * by for side in window)))
        blocks = fine.reshape(window.height, by, window.width, by)
        return np.asarray(np.rint(blocks.mean(axis=(1, 3))), dtype=np.uint8)

    paths = trace_links(
        *(start[np.newaxis], goal[np.newaxis]),
        grid=grid.crop(0, 0, height * by, width * by).with_shape(height, width),
        read_road=read_means,
        margin_m=margin_m,
    )
    line: shapely.LineString = paths.lines[0]
    return line


def _disjoint_union(graphs: Sequence[RoadGraph], area: MapArea) -> RoadGraph:
    """Return several graphs as one on a map."""
    if not graphs:
        return graph_from_lines(np.zeros(0, dtype=object), area.crs)
    graph, _ = disjoint_union([to_crs(graph, area.crs) for graph in graphs])
    return graph


def sheets_of(shown: ReportScenes) -> Sequence[Sheet]:
    """Return a sheet for each area of a run."""
    return [Sheet(shown, number) for number in range(len(shown.areas))]
