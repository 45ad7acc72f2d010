#!/usr/bin/env python
"""Measure what linking across gaps mends in damaged road masks, and how many links are false.

    scripts/bench_links.py FOLDER... [--seed 0] [--max-gap 25] [--soft] [--plot FOLDER]
    scripts/bench_links.py --time [--ends 5000]

Each FOLDER has masks/*.tif and roads/*.geojson by the same names. Masks that adjoin make one scene,
roads within two pixels of the border of a mask being continued to it.
Over 10 % of the length of the roads, gaps of 3 to 15 m are cut into the mask, half the width of the
road or more away from junctions, where they would not go across; and blobs of 2 to 5 m radius are
put beside the roads, one for four gaps. Both masks become graphs as by `roadseg graph`; APLS by
length of the damaged one, without links and with, is taken against the graph of the whole mask and
against the labelled centrelines.

A link is false if its middle is off the road, that is, not in the whole mask and more than 4 m from
its centrelines, or if its ends are more than three times as far apart by road there as the link is
long (of less than 4 m: as 4 m). Links whose middle is more than 4 m from a centreline, on the road
or not, are counted as beside it.

With `--soft` the masks become probabilities: blurred, with noise, and 0.1 to 0.3 left in the gaps,
through which links go by least cost. `--plot` draws every scene: the damaged mask, roads in blue,
links in green, false ones in red. `--time` links a made street grid with so many dead ends.
"""

import argparse
import math
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyogrio.raw
import rasterio
import shapely
from affine import Affine
from matplotlib.figure import Figure
from pyproj import CRS
from rasterio.features import rasterize
from scipy import ndimage
from shapely.ops import substring

from roadseg.raster.grid import DEGREES, Grid, transformer
from roadseg.roads.graph.road_graph import RoadGraph, graph_from_lines
from roadseg.roads.graph.shortest_paths import Routes, snap_to_edges
from roadseg.roads.masks.probabilities import Probability
from roadseg.roads.metrics.apls import apls
from roadseg.roads.options import TraceOptions
from roadseg.roads.tracing.linking import link_gaps
from roadseg.roads.tracing.trace import find_graph

GAPS_M = 3.0, 15.0
SHARE = 0.1  # of the length of roads that is cut out
BLOBS_M = 2.0, 5.0
GAPS_PER_BLOB = 4
NEAR_M, APART = 4.0, 3.0  # a true link is this near a road, and no shorter by this factor
CERTAIN = 255
THRESHOLD = 0.4
COUNTS = "false", "beside"


@dataclass(frozen=True)
class Scene:
    """A true mask of roads and the labelled centrelines.

    Attributes:
        name: of the first file.
        mask: shape (row, col).
        grid: where the pixels lie.
        labels: centrelines in the metric CRS of the grid.
    """

    name: str
    mask: np.ndarray
    grid: Grid
    labels: RoadGraph


@dataclass(frozen=True)
class Result:
    """The effect of linking on one scene: APLS without and with links against two references."""

    whole: tuple[float, float]
    labelled: tuple[float, float]
    links: int
    false: int
    beside: int
    cpu_s: float


def read_scenes(folder: Path, *, apart: bool) -> list[Scene]:
    """Read the masks of a folder, those that adjoin as one unless apart."""
    tiles = []
    for path in sorted((folder / "masks").glob("*.tif")):
        with rasterio.open(path) as source:
            tiles.append(
                (path, _to_border(source.read(1) > 0), source.transform, source.crs.to_wkt())
            )
    places = [(tile[2], tile[1].shape) for tile in tiles]
    parts = [[row] for row in range(len(tiles))] if apart else _adjoining(places)
    return [_scene(folder, [tiles[row] for row in part]) for part in parts]


def _to_border(mask: np.ndarray) -> np.ndarray:
    """Continue roads to the border of their tile: some masks end one or two pixels before it."""
    return np.pad(mask[2:-2, 2:-2], 2, mode="edge")


def _adjoining(places: list[tuple[Affine, tuple[int, int]]]) -> list[list[int]]:
    """Group tiles that share a side."""
    boxes = [
        shapely.box(t.c, t.f + shape[0] * t.e, t.c + shape[1] * t.a, t.f) for t, shape in places
    ]
    pixel = abs(places[0][0].a)
    outline = shapely.get_parts(shapely.union_all(shapely.buffer(boxes, pixel, join_style="mitre")))
    return [
        [row for row, box in enumerate(boxes) if part.contains(box.centroid)] for part in outline
    ]


def _scene(folder: Path, tiles: list) -> Scene:
    first = tiles[0][2]
    corners = [(~first @ (tile[2].c, tile[2].f)) for tile in tiles]
    at = np.rint(np.array(corners)[:, ::-1]).astype(int)
    stop = max_stop(at, [tile[1].shape for tile in tiles])
    low = at.min(axis=0)
    mask = np.zeros(stop - low, dtype=bool)
    for (row, col), tile in zip(at - low, tiles, strict=True):
        mask[row : row + tile[1].shape[0], col : col + tile[1].shape[1]] = tile[1]
    transform = first * Affine.translation(int(low[1]), int(low[0]))
    grid = Grid(CRS.from_wkt(tiles[0][3]), transform, *mask.shape)
    files = [folder / "roads" / f"{tile[0].stem}.geojson" for tile in tiles]
    return Scene(tiles[0][0].stem, mask, grid, _labels(files, grid))


def max_stop(at: np.ndarray, shapes: list) -> np.ndarray:
    """Return the row and col after the last of all tiles."""
    return (at + np.array(shapes)).max(axis=0)


def _labels(files: list[Path], grid: Grid) -> RoadGraph:
    parts = [shapely.from_wkb(pyogrio.raw.read(file, columns=[])[2]) for file in files]
    lines = shapely.get_parts(np.concatenate(parts))
    to_metres = transformer(DEGREES, grid.metric_crs)
    moved = shapely.transform(lines, lambda xy: np.column_stack(to_metres.transform(*xy.T)))
    return graph_from_lines(moved, grid.metric_crs)


def network(road: np.ndarray, scene: Scene, options: argparse.Namespace, gap_m: float) -> RoadGraph:
    """Find the graph of bytes of probability as `roadseg graph` does, with links up to a length."""
    how = TraceOptions(
        threshold=THRESHOLD,
        max_gap_m=gap_m,
        min_confidence=options.min_probability,
    )
    return find_graph(Probability(scene.grid, road), how)


def damaged(scene: Scene, roads: RoadGraph, rng: np.random.Generator) -> tuple:
    """Return the mask with gaps and blobs, and where the gaps are."""
    cuts, pixel_m = [], sum(scene.grid.pixel_size_m) / 2
    half_m = ndimage.distance_transform_edt(scene.mask) * pixel_m
    left_m, lengths = SHARE * roads.length_m.sum(), roads.length_m
    junctions = shapely.union_all(shapely.points(roads.nodes[roads.degree > 2]))  # noqa: PLR2004
    while left_m > 0:
        gap_m = rng.uniform(*GAPS_M)
        line = roads.lines[rng.choice(len(lengths), p=lengths / lengths.sum())]
        begin = rng.uniform(0, max(line.length - gap_m, 0))
        part = substring(line, begin, min(begin + gap_m, line.length))
        row, col = scene.grid.from_metric(np.array(part.centroid.coords))[0].astype(int)
        reach = half_m[max(row - 4, 0) : row + 5, max(col - 4, 0) : col + 5].max(initial=4.0)
        if part.distance(junctions) < reach:
            continue
        cuts.append(part.buffer(1.3 * reach + 1, cap_style="flat"))
        left_m -= part.length
    gaps = _burnt(cuts, scene.grid)
    low_x, low_y, high_x, high_y = scene.grid.footprint_m.bounds
    sites = rng.uniform((low_x, low_y), (high_x, high_y), (len(cuts) // GAPS_PER_BLOB, 2))
    radii = rng.uniform(*BLOBS_M, len(sites))
    blobs = _burnt(list(shapely.buffer(shapely.points(sites), radii)), scene.grid)
    return (scene.mask & ~gaps) | blobs, gaps & scene.mask


def _burnt(shapes_m: list, grid: Grid) -> np.ndarray:
    if not shapes_m:
        return np.zeros((grid.height, grid.width), dtype=bool)
    to_pixels = [shapely.transform(s, lambda xy: grid.from_metric(xy)[:, ::-1]) for s in shapes_m]
    return rasterize(to_pixels, (grid.height, grid.width)).astype(bool)


def probability(mask: np.ndarray, gaps: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Make probabilities, 255 for certain, of a damaged mask: soft, noisy, faint in the gaps."""
    faint = ndimage.gaussian_filter(rng.uniform(-1, 1, mask.shape), 8)
    values = 0.95 * mask + gaps * (0.2 + 0.1 * faint / np.abs(faint).max())
    soft = ndimage.gaussian_filter(values, 1.5)
    noise = ndimage.gaussian_filter(rng.normal(0, 1, mask.shape), 3)
    soft += 0.04 * noise / noise.std()
    return np.rint(np.clip(soft, 0, 1) * CERTAIN).astype(np.uint8)


def false_links(linked: RoadGraph, truth: RoadGraph, scene: Scene) -> tuple:
    """Return which links are false, and which go beside the centreline, both of shape (links,)."""
    links = np.flatnonzero(linked.attributes["inferred"])
    lines, tree = linked.lines[links], shapely.STRtree(truth.lines)
    middles = shapely.line_interpolate_point(lines, 0.5, normalized=True)
    near, _ = tree.query(middles, predicate="dwithin", distance=NEAR_M)
    is_beside = ~np.isin(np.arange(len(links)), near)
    pixels = np.floor(scene.grid.from_metric(shapely.get_coordinates(middles))).astype(int)
    rows, cols = np.clip(pixels, 0, np.array(scene.mask.shape) - 1).T
    is_off = is_beside & ~scene.mask[rows, cols]
    ends = (
        shapely.get_coordinates(shapely.get_point(lines, 0)),
        shapely.get_coordinates(shapely.get_point(lines, -1)),
    )
    routes = Routes.through(truth, "length_m")
    (starts, has_start), (goals, has_goal) = (
        snap_to_edges(xy, truth, snap_m=3 * NEAR_M) for xy in ends
    )
    by_road = np.array(
        [routes.costs_to(goals.take([i]))(starts.take([i]))[0, 0] for i in range(len(links))]
    )
    detour = by_road > APART * np.maximum(shapely.length(lines), NEAR_M)
    return is_off | (has_start & has_goal & detour), is_beside


def measure(scene: Scene, options: argparse.Namespace) -> Result | None:
    """Damage a scene and mend it; None if it has no roads."""
    rng = np.random.default_rng(options.seed)
    certain = scene.mask * np.uint8(CERTAIN)
    whole = network(certain, scene, options, options.max_gap)
    if whole.length_m.sum() == 0:
        return None
    mask, gaps = damaged(scene, whole, rng)
    road = probability(mask, gaps, rng) if options.soft else mask * np.uint8(CERTAIN)
    broken = network(road, scene, options, 0.0)
    before = time.process_time()
    linked = network(road, scene, options, options.max_gap)
    cpu_s = time.process_time() - before
    is_false, is_beside = false_links(linked, whole, scene)
    if options.plot:
        draw(options.plot / f"{scene.name}.png", scene, mask, linked, is_false)
    of_whole, labelled = (
        (apls(reference, broken).score, apls(reference, linked).score)
        for reference in (whole, scene.labels)
    )
    links, false, beside = len(is_false), int(is_false.sum()), int(is_beside.sum())
    return Result(of_whole, labelled, links, false, beside, cpu_s)


def draw(path: Path, scene: Scene, mask: np.ndarray, linked: RoadGraph, is_false: np.ndarray):
    """Draw roads and links on the damaged mask."""
    height, width = mask.shape
    figure = Figure(figsize=(width / 100, height / 100), layout="constrained")
    axes = figure.subplots()
    axes.imshow(1.0 * scene.mask + mask, cmap="Greys", vmax=4)
    colours = np.where(linked.attributes["inferred"] == 1, "limegreen", "royalblue").astype(object)
    colours[np.flatnonzero(linked.attributes["inferred"])[is_false]] = "red"
    for line, colour in zip(linked.lines, colours, strict=True):
        rows, cols = scene.grid.from_metric(shapely.get_coordinates(line)).T
        axes.plot(cols - 0.5, rows - 0.5, color=colour, marker=".", markersize=1, linewidth=1)
    axes.set_axis_off()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def street_grid(ends: int, rng: np.random.Generator) -> tuple[RoadGraph, Grid]:
    """Make a grid of streets in 0.5 m pixels, cut so that it has about so many dead ends."""
    side = math.ceil(math.sqrt(ends / 4))
    corner = np.array([500_000.0, 3_000_000.0])
    steps = np.arange(0, 100.0, 0.5)
    lines = []
    for row, col in np.ndindex(side, side):
        gap_m, wave = rng.uniform(5, 25, 2), rng.uniform(-1, 1, 2)
        along = [steps[(steps < 50 - gap / 2) | (steps > 50 + gap / 2)] for gap in gap_m]
        bend = [w * np.sin(s / 100 * np.pi) ** 2 * 6 for w, s in zip(wave, along, strict=True)]
        for flip, (s, b, gap) in enumerate(zip(along, bend, gap_m, strict=True)):
            xy = np.column_stack([s, b])[:, :: -1 if flip else 1] + 100.0 * np.array([col, row])
            node = 100.0 * (np.array([col, row]) + [1, 0][:: -1 if flip else 1])
            xy = np.vstack([xy, node])
            lines += [xy[: np.sum(s < 50 - gap / 2)], xy[np.sum(s < 50 - gap / 2) :]]
    crs = CRS.from_epsg(32611)
    graph = graph_from_lines(np.array([shapely.LineString(xy + corner) for xy in lines]), crs)
    high = 3_000_000.0 + 100 * (side + 1)
    size = 200 * (side + 1)
    return graph, Grid(crs, Affine(0.5, 0, 500_000.0, 0, -0.5, high), size, size)


def report_time(options: argparse.Namespace) -> None:
    """Print the CPU seconds of linking with straight links, and through a raster of noise."""
    rng = np.random.default_rng(options.seed)
    graph, grid = street_grid(options.ends, rng)
    noise = rng.integers(10, 90, (2048, 2048), dtype=np.uint8)

    def read_road(window):
        row, col, height, width = window
        rows, cols = np.arange(row, row + height) % 2048, np.arange(col, col + width) % 2048
        return noise[np.ix_(rows, cols)]

    print(f"{len(graph.lines):,} edges, {(graph.degree == 1).sum():,} dead ends")
    for name, raster in (("straight", {}), ("raster", {"grid": grid, "read_road": read_road})):
        before = time.process_time()
        linked = link_gaps(graph, max_gap_m=options.max_gap, **raster)
        cpu_s = time.process_time() - before
        print(f"{name:<10}{cpu_s:6.2f} CPU s{linked.attributes['inferred'].sum():>8,} links")


def report(folder: Path, options: argparse.Namespace) -> None:
    """Print the means over the scenes of a folder."""
    results = [
        result
        for scene in read_scenes(folder, apart=options.apart)
        if (result := measure(scene, options))
    ]
    links = sum(result.links for result in results)
    false, beside = (
        100 * sum(getattr(result, n) for result in results) / max(links, 1) for n in COUNTS
    )
    whole, labelled = (
        np.mean([getattr(result, name) for result in results], axis=0)
        for name in ("whole", "labelled")
    )
    print(f"{folder.name:<12}{len(results):>7}", end="")
    print("".join(f"{a:>9.3f}{b:>7.3f}" for a, b in (whole, labelled)), end="")
    print(f"{links:>8}{false:>9.2f}{beside:>10.2f}{sum(result.cpu_s for result in results):>8.2f}")


def main() -> None:
    """Read the options and measure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--max-gap", type=float, default=25.0, metavar="M")
    parser.add_argument("--min-probability", type=float, default=0.0)
    parser.add_argument("--apart", action="store_true", help="take each mask by itself")
    parser.add_argument("--soft", action="store_true", help="make probabilities of the masks")
    parser.add_argument("--plot", type=Path, metavar="FOLDER")
    parser.add_argument("--time", action="store_true", help="measure CPU time on made streets")
    parser.add_argument("--ends", type=int, default=5000, help="dead ends of these")
    options = parser.parse_args()
    if options.time:
        report_time(options)
        return
    print(f"{'':<12}{'scenes':>7}{'APLS whole':>16}{'labelled':>16}{'links':>8}", end="")
    print(f"{'false %':>9}{'beside %':>10}{'CPU s':>8}")
    for folder in options.folders:
        report(folder, options)


if __name__ == "__main__":
    main()
