#!/usr/bin/env python
"""Measure how well traced lines are drawn: centrelines, junctions, ends and widths.

    scripts/bench_lines.py FOLDER [--part choose|report] [--plot FOLDER]

FOLDER holds `osm`, OpenStreetMap's roads of Monaco and of Rhein-Neckar, and may hold `san_diego`
and `tianjin`, each with masks/*.tif and roads/*.geojson by the same names.

Windows of 1 km of OpenStreetMap are burnt at 0.5 m with a width by the class of road, round ends
included, and traced with the defaults of `roadseg graph`. The lines are compared with those that
were burnt:

- distance of traced lines from the nearest true one, mean and 95th percentile;
- their angle with the true lines within 3 m, the best of them, mean by length;
- the same two for true lines that the traced ones miss: share of their length more than 3 m away;
- junctions, paired one to one within 10 m: share of the true ones found, share of the traced ones
  that are true, and the offset of pairs, median and 90th percentile;
- dead ends away from the border of the window, likewise, within 15 m;
- traced length by true length; mean difference of the width; APLS by length;
- lines that cross themselves or another line without a node, edges that are drawn twice (between
  the same nodes, less than 1 m apart), and edges without length.

True masks of San Diego and Tianjin are traced tile by tile: mean APLS against their centrelines.

The first half of the windows, and the western half of the tiles of a city, are there to choose
settings by (`--part choose`), the others to report (`--part report`); both are printed by default.
`--plot` draws the worst places: 60 m around junctions and ends that are missed, false or off.
"""

import argparse
import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import rasterio
import shapely
from affine import Affine
from bench_links import _labels as read_labels
from bench_noise import City, burn, read_city
from matplotlib.figure import Figure
from pyproj import CRS
from scipy.spatial import cKDTree

from roadseg.raster.grid import Grid
from roadseg.roads.graph.groups import greedy_matching
from roadseg.roads.graph.road_graph import RoadGraph, graph_from_lines
from roadseg.roads.masks.probabilities import Probability
from roadseg.roads.metrics.apls import apls
from roadseg.roads.options import TraceOptions
from roadseg.roads.tracing.trace import find_graph

PIXEL_M, SIDE_M = 0.5, 1000.0
CERTAIN = 255
NEAR_M = 3.0  # Traced and true lines of one road.
JUNCTION_M, END_M, BORDER_M = 10.0, 15.0, 3.0
JUNCTION = 3  # Edges that meet at a junction, at least.
MONACO, RHEIN_NECKAR = "monaco_highways.geojson", "rhein_neckar_highways.geojson.gz"
# South-western corners in UTM zone 32, metres: dense and loose towns, junctions of motorways.
WINDOWS = {
    "choose": {
        MONACO: [(372000, 4843000)],
        RHEIN_NECKAR: [
            (461000, 5481000), (466000, 5468000), (476000, 5472000), (460000, 5481000),
            (443000, 5484000),
        ],
    },
    "report": {
        MONACO: [(373000, 4844000)],
        RHEIN_NECKAR: [
            (454000, 5482000), (463000, 5486000), (456000, 5485000), (485000, 5470000),
            (468000, 5471000),
        ],
    },
}  # fmt: skip
CITIES = "san_diego", "tianjin"


@dataclass(frozen=True)
class Scene:
    """A mask of roads, and the lines that it was burnt from or that stand for it."""

    name: str
    mask: np.ndarray
    grid: Grid
    truth: RoadGraph


def window(city: City, low: tuple[int, int]) -> Scene:
    """Burn a window of a city; roads go on beyond its border."""
    box = shapely.box(*low, low[0] + SIDE_M, low[1] + SIDE_M)
    size = round(SIDE_M / PIXEL_M)
    grid = Grid(city.crs, Affine(PIXEL_M, 0, low[0], 0, -PIXEL_M, low[1] + SIDE_M), size, size)
    inside = shapely.dwithin(city.lines, box, 50.0)
    lines, widths_m = city.lines[inside], city.widths_m[inside]
    mask = burn(shapely.buffer(lines, widths_m / 2), grid)
    # Lines are joined before they are clipped, so that what meets inside is a junction.
    joined = graph_from_lines(lines, city.crs, {"width_m": widths_m})
    parts, row = shapely.get_parts(shapely.intersection(joined.lines, box), return_index=True)
    is_line = shapely.get_type_id(parts) == 1
    columns = {"width_m": joined.attributes["width_m"][row[is_line]]}
    return Scene(str(low), mask, grid, graph_from_lines(parts[is_line], city.crs, columns))


def traced(scene: Scene, options: TraceOptions = TraceOptions()) -> RoadGraph:  # noqa: B008
    """Find the graph of the mask as `roadseg graph` does."""
    road = scene.mask.astype(np.uint8) * CERTAIN
    return find_graph(Probability(scene.grid, road), options)


def along(graph: RoadGraph, *, spacing_m: float = 1.0) -> tuple[np.ndarray, ...]:
    """Return places along lines, their directions over 2 m, and the rows of their lines."""
    counts = np.maximum(np.rint(graph.length_m / spacing_m), 1).astype(int)
    row = np.repeat(np.arange(len(counts)), counts)
    at = (np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts) + 0.5) / counts[row]
    lines, at = graph.lines[row], at * graph.length_m[row]
    behind, here, ahead = (
        shapely.get_coordinates(
            shapely.line_interpolate_point(lines, np.clip(at + step, 0, graph.length_m[row]))
        )
        for step in (-1.0, 0.0, 1.0)
    )
    return here, np.arctan2(*(ahead - behind).T[::-1]), row


def angles(ways: tuple[np.ndarray, ...], others: tuple[np.ndarray, ...]) -> np.ndarray:
    """Return the least angle with lines within 3 m in degrees, NaN where there is none."""
    (here, angle, _), (there, others_angle, _) = ways, others
    pairs = cKDTree(here).sparse_distance_matrix(cKDTree(there), NEAR_M, output_type="ndarray")
    turn = np.abs((angle[pairs["i"]] - others_angle[pairs["j"]] + np.pi / 2) % np.pi - np.pi / 2)
    least = np.full(len(here), np.inf)
    np.minimum.at(least, pairs["i"], turn)
    return np.degrees(np.where(np.isfinite(least), least, np.nan))


def distances(points: np.ndarray, graph: RoadGraph) -> tuple[np.ndarray, np.ndarray]:
    """Return the nearest line of each place, and how far away it is."""
    shapes = shapely.points(points)
    row = shapely.STRtree(graph.lines).nearest(shapes)
    return row, shapely.distance(shapes, graph.lines[row])


def places(graph: RoadGraph, scene: Scene, *, ends: bool) -> np.ndarray:
    """Return the junctions of a graph, or its dead ends away from the border."""
    chosen = graph.degree == 1 if ends else graph.degree >= JUNCTION
    nodes = graph.nodes[chosen]
    border = scene.grid.footprint_m.exterior
    return nodes[shapely.distance(shapely.points(nodes), border) > BORDER_M] if ends else nodes


def pairs_of(true: np.ndarray, found: np.ndarray, within: float) -> tuple[np.ndarray, np.ndarray]:
    """Pair places one to one, the nearest first; rows of both, and their distances."""
    if not len(true) or not len(found):
        return np.empty((0, 2), dtype=np.int64), np.empty(0)
    near = cKDTree(true).sparse_distance_matrix(cKDTree(found), within, output_type="ndarray")
    near = near[np.lexsort([near["j"], near["i"], near["v"].round(6)])]
    near = near[greedy_matching(np.column_stack([near["i"], len(true) + near["j"]]))]
    return np.column_stack([near["i"], near["j"]]), near["v"]


def faults(graph: RoadGraph) -> dict[str, int]:
    """Count lines that no surveyor draws."""
    lines = graph.lines
    left, right = shapely.STRtree(lines).query(lines, predicate="crosses")
    cross = {tuple(sorted(pair)) for pair in zip(left.tolist(), right.tolist(), strict=True)}
    ends = np.sort(graph.ends, axis=1)
    order = np.lexsort(ends.T)
    alike = [
        (a, b)
        for a, b in itertools.pairwise(order)
        if (ends[a] == ends[b]).all() and shapely.hausdorff_distance(lines[a], lines[b]) < 1
    ]
    return {
        "self": int((~shapely.is_simple(lines)).sum()),
        "cross": len(cross),
        "twice": len(alike),
        "empty": int((graph.length_m < 0.01).sum()),  # noqa: PLR2004 - metres
    }


def measure(scene: Scene, graph: RoadGraph) -> dict[str, np.ndarray | float]:
    """Compare traced lines with true ones; figures that are pooled over the windows are arrays."""
    ways, true_ways = along(graph), along(scene.truth)
    nearest, distance = distances(ways[0], scene.truth)
    _, missed = distances(true_ways[0], graph)
    result: dict[str, np.ndarray | float] = {
        "distance": distance,
        "angle": angles(ways, true_ways),
        "missed": missed > NEAR_M,
        "width": np.abs(
            graph.attributes["width_m"][ways[2]] - scene.truth.attributes["width_m"][nearest]
        )[distance < NEAR_M],
        "metres": graph.length_m.sum(),
        "true metres": scene.truth.length_m.sum(),
        "APLS": apls(scene.truth, graph).score,
    }
    for name, ends, within in (("junction", False, JUNCTION_M), ("end", True, END_M)):
        true, found = (places(of, scene, ends=ends) for of in (scene.truth, graph))
        _, offset = pairs_of(true, found, within)
        result |= {name: offset, f"true {name}s": len(true), f"{name}s": len(found)}
    return result | faults(graph)


def line_of(rows: list[dict]) -> str:
    """Return the figures of all windows together, as one line."""
    pool = {
        key: np.concatenate([np.atleast_1d(row[key]) for row in rows]) for key in rows[0]
    }  # fmt: skip
    total = {key: value.sum() for key, value in pool.items()}
    parts = [
        f"distance {pool['distance'].mean():.3f} m, 95 % {np.percentile(pool['distance'], 95):.2f}",
        f"angle {np.nanmean(pool['angle']):.2f} deg",
        f"missed {pool['missed'].mean():.4f}",
        f"length {total['metres'] / total['true metres']:.4f}",
        f"width {np.nanmean(pool['width']):.2f} m",
        *(
            f"{name}s {np.median(pool[name]):.2f} m, 90 % {np.percentile(pool[name], 90):.2f}, "
            f"recall {len(pool[name]) / total[f'true {name}s']:.3f}, "
            f"precision {len(pool[name]) / total[f'{name}s']:.3f}"
            for name in ("junction", "end")
        ),
        *(f"{key} {total[key]}" for key in ("self", "cross", "twice", "empty")),
        f"APLS {pool['APLS'].mean():.4f}",
    ]
    return "; ".join(parts)


def tiles(folder: Path, part: str) -> Iterator[Scene]:
    """Read the true masks of the western or the eastern half of a city's tiles."""
    paths = sorted((folder / "masks").glob("*.tif"))
    lefts = []
    for path in paths:
        with rasterio.open(path) as source:
            lefts.append(source.transform.c)
    middle = np.median(lefts)
    for path, left in zip(paths, lefts, strict=True):
        if (left < middle) == (part == "choose"):
            yield tile(folder, path)


def tile(folder: Path, path: Path) -> Scene:
    """Read a true mask and its centrelines."""
    with rasterio.open(path) as source:
        mask = source.read(1) > 0
        grid = Grid(CRS.from_wkt(source.crs.to_wkt()), source.transform, *mask.shape)
    labels = read_labels([folder / "roads" / f"{path.stem}.geojson"], grid)
    return Scene(path.stem, mask, grid, labels)


def draw_worst(path: Path, scene: Scene, graph: RoadGraph, count: int) -> None:
    """Draw 60 m around places that are missed, false or off: mask, true lines, traced lines."""
    spots = []
    for ends, within in ((False, JUNCTION_M), (True, END_M)):
        true, found = (places(of, scene, ends=ends) for of in (scene.truth, graph))
        rows, offset = pairs_of(true, found, within)
        spots += [(within, place) for place in np.delete(true, rows[:, 0], axis=0)]
        spots += [(within, place) for place in np.delete(found, rows[:, 1], axis=0)]
        spots += list(zip(offset, true[rows[:, 0]], strict=True))
    spots.sort(key=lambda spot: -spot[0])
    figure = Figure(figsize=(20, 16))
    for ax, (size, place) in zip(figure.subplots(4, 5).flat, spots[:count], strict=False):
        low_x, low_y, high_x, high_y = scene.grid.footprint_m.bounds
        ax.imshow(scene.mask, extent=(low_x, high_x, low_y, high_y), cmap="Greys", alpha=0.4)
        for of, colour in ((scene.truth, "tab:green"), (graph, "tab:red")):
            for line in of.lines[shapely.dwithin(of.lines, shapely.Point(place), 45.0)]:
                ax.plot(*line.xy, color=colour, lw=1)
            ax.plot(*of.nodes[of.degree != 2].T, ".", color=colour)  # noqa: PLR2004
        ax.set_xlim(place[0] - 30, place[0] + 30)
        ax.set_ylim(place[1] - 30, place[1] + 30)
        ax.set_title(f"{place.round()} {size:.1f} m", fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=60)


def main() -> None:
    """Read the options, measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--part", choices=WINDOWS, action="append")
    parser.add_argument("--plot", type=Path, metavar="FOLDER", help="draw the worst places")
    parser.add_argument("--each", action="store_true", help="print every window and tile as well")
    options = parser.parse_args()
    for part in options.part or list(WINDOWS):
        report_windows(part, options)
        for name in CITIES:
            if (options.folder / name).exists():
                report_tiles(part, name, options)


def report_windows(part: str, options: argparse.Namespace) -> None:
    """Measure the drawn windows of a part."""
    rows, cpu_s = [], 0.0
    for name, corners in WINDOWS[part].items():
        city = read_city(options.folder / "osm" / name)
        for corner in corners:
            scene = window(city, corner)
            before = time.process_time()
            graph = traced(scene)
            cpu_s += time.process_time() - before
            rows.append(measure(scene, graph))
            if options.each:
                print(f"  {corner}: {line_of(rows[-1:])}", flush=True)
            if options.plot:
                draw_worst(options.plot / f"{part}-{corner[0]}.png", scene, graph, 20)
    print(f"{part}, drawn: {line_of(rows)}; {cpu_s:.2f} CPU s", flush=True)


def report_tiles(part: str, name: str, options: argparse.Namespace) -> None:
    """Measure the true masks of a part of a city."""
    scores = {
        scene.name: apls(scene.truth, traced(scene)).score
        for scene in tiles(options.folder / name, part)
    }
    if options.each:
        for tile_name, score in sorted(scores.items(), key=lambda item: item[1]):
            print(f"  {tile_name} {score:.3f}")
    print(f"{part}, {name}: APLS {np.mean([*scores.values()]):.4f} of {len(scores)} tiles")


if __name__ == "__main__":
    main()
