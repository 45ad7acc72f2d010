#!/usr/bin/env python
"""Measure how `roadseg graph` grows with the scene, against thinning alone.

    scripts/bench_graph.py --image chip.tif --labels chip.geojson [--sizes 1300 13000 40000]

The labelled roads of the chip become the probabilities of a network that errs: blurred, with dips
of confidence along the roads and false blobs beside them. Four by four of them, each with errors of
its own and every other one mirrored, are a tile, of which no decoded pixels are kept until it comes
again; repeated (a VRT, so that no large file is needed) it makes scenes of the given sides. For
every size `--rounds` times in turns, each in a process of its own: `thin` reads the road band and
thins it by skimage.skeletonize as a whole, which is left out above `--most-thinned`; `graph` is all
of `roadseg graph` but the imports: reading, thinning, tracing, pruning, linking, speeds, widths.
Prints CPU seconds, peak memory, what was found, and the ratio of CPU time, median and range over
the rounds.
"""

import argparse
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from xml.sax.saxutils import escape

import numpy as np
from scipy import ndimage

from roadseg.raster.grid import Grid
from roadseg.raster.images import read_grid
from roadseg.raster.tiff import new_profile, open_new
from roadseg.raster.windows import Window
from roadseg.roads.labels.roads import read_roads, roads_on
from roadseg.roads.masks.burning import areas_of_roads, burn_roads
from roadseg.roads.masks.probabilities import open_probability
from roadseg.roads.speeds import DEFAULT_BINS

CHIPS = 4  # of a tile, each way


def main():
    """Measure and print."""
    options = parse()
    if options.child:
        print(json.dumps(MEASURED[options.child[0]](Path(options.child[1]))))
        return
    with tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
        tile = mirrored_chips(Path(scratch) / "tile.tif", options)
        for size in options.sizes:
            scene = repeated(tile, Path(scratch) / f"{size}.vrt", size, options.bands)
            report(scene, size, options)


def parse():
    """Read the options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--image", type=Path, help="chip whose place and pixels are used")
    parser.add_argument("--labels", type=Path, help="its roads")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1300, 13000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--most-thinned", type=int, default=20000, help="side, pixels")
    parser.add_argument("--dips", type=int, default=12, help="in a chip")
    parser.add_argument("--blobs", type=int, default=20, help="in a chip")
    parser.add_argument("--bands", type=int, choices=(1, 8), default=8, help="1: any road alone")
    parser.add_argument(
        "--scratch", type=Path, help="folder for the files; else that of the system"
    )
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is None and None in (options.image, options.labels):
        parser.error("--image and --labels are needed")
    return options


def report(scene, size, options):
    """Measure one size in rounds."""
    thins = ["thin"] * (size <= options.most_thinned)
    rounds = [
        {what: in_process(what, scene) for what in [*thins, "graph"]} for _ in range(options.rounds)
    ]
    cpu = {what: [one[what]["cpu_s"] for one in rounds] for what in rounds[0]}
    graph = rounds[0]["graph"]
    line = f"{size} px: graph {spread(cpu['graph'])} CPU s, {graph['peak_mb']} MB; {graph['roads']}"
    if thins:
        ratios = [one["graph"]["cpu_s"] / one["thin"]["cpu_s"] for one in rounds]
        line += f"; thinning alone {spread(cpu['thin'])} CPU s, ratio {spread(ratios)}"
    print(line, flush=True)


def spread(values):
    """Return median, lowest and highest as a text."""
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def in_process(what, scene):
    """Measure in a new process, so that memory is its own."""
    command = [sys.executable, __file__, "--child", what, str(scene)]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def thin(path):
    """Thin the roads of a scene as a whole."""
    from skimage.morphology import skeletonize

    scene = open_probability(path)
    is_road = scene.read_road(Window(0, 0, scene.grid.height, scene.grid.width)) >= 102  # noqa: PLR2004
    start = time.process_time()
    pixels = int(skeletonize(is_road).sum())
    return measured(start, f"{pixels} pixels")


def graph(path):
    """Find the graph of a scene."""
    from roadseg.roads.options import GraphOptions
    from roadseg.roads.tracing.trace import find_graph

    start = time.process_time()
    traced = find_graph(open_probability(path), GraphOptions())
    km = traced.length_m.sum() / 1000
    return measured(start, f"{len(traced.nodes)} nodes, {len(traced.lines)} edges, {km:.1f} km")


def measured(start, roads):
    """Return what was used since `start`."""
    cpu_s = time.process_time() - start
    status = Path("/proc/self/status").read_text()  # getrusage would count the parent's as well
    peak_mb = int(status.split("VmHWM:")[1].split()[0]) // 1024
    return {"cpu_s": cpu_s, "peak_mb": peak_mb, "roads": roads}


MEASURED = {"thin": thin, "graph": graph}


def mirrored_chips(path, options):
    """Write the probabilities of a chip and its mirror images, four by four."""
    grid = read_grid(options.image)
    roads, _ = roads_on(grid, read_roads(options.labels).roads)
    mask = burn_roads(areas_of_roads(roads, grid, bins=DEFAULT_BINS), grid)
    rng = np.random.default_rng(0)
    whole = Grid(grid.crs, grid.transform, CHIPS * grid.height, CHIPS * grid.width)
    profile = new_profile(whole, count=DEFAULT_BINS.count + 1, dtype="uint8")
    with open_new(path, profile) as target:
        for down, across in itertools.product(range(CHIPS), repeat=2):
            bands = erring(mask[:: (-1) ** down, :: (-1) ** across], rng, options)
            place = Window(down * grid.height, across * grid.width, grid.height, grid.width)
            target.write(bands, window=place.to_rasterio())
    return path


def erring(mask, rng, options):
    """Make probabilities of a mask: a band for each speed bin, and any road."""
    row, col = np.mgrid[: mask.shape[0], : mask.shape[1]]
    field = np.ones(mask.shape, dtype=np.float32)
    places = np.argwhere(mask > 0)
    for at in places[rng.integers(len(places), size=options.dips)]:
        field[np.hypot(row - at[0], col - at[1]) < rng.uniform(5, 25)] *= 0.15
    blobs = np.zeros(mask.shape, dtype=np.float32)
    for _ in range(options.blobs):
        (at_row, at_col), (high, wide) = rng.uniform(0, mask.shape), rng.uniform(3, 14, size=2)
        blobs[((row - at_row) / high) ** 2 + ((col - at_col) / wide) ** 2 < 1] = 0.75
    sure = [(mask == number).astype(np.float32) for number in range(1, DEFAULT_BINS.count + 1)]
    bins = [ndimage.gaussian_filter(one, 2) * field for one in sure]
    road = ndimage.gaussian_filter((mask > 0).astype(np.float32), 2) * field
    road = np.maximum(road, ndimage.gaussian_filter(blobs, 1.5))
    grain = ndimage.gaussian_filter(rng.normal(0, 0.1, mask.shape).astype(np.float32), 1)
    bands = np.stack([*bins, road + grain * (road > 0.02)])  # noqa: PLR2004 - near roads
    return np.rint(255 * np.clip(bands, 0, 1)).astype(np.uint8)


def repeated(tile, path, size, bands):
    """Write a VRT of a tile, its last bands, repeated to a scene of so many pixels each way."""
    grid, last = read_grid(tile), DEFAULT_BINS.count + 1
    places = [
        (row, col) for row in range(0, size, grid.height) for col in range(0, size, grid.width)
    ]
    transform = ", ".join(map(repr, grid.transform.to_gdal()))
    parts = [
        f'<VRTDataset rasterXSize="{size}" rasterYSize="{size}">',
        f"<SRS>{escape(grid.crs.to_wkt())}</SRS><GeoTransform>{transform}</GeoTransform>",
    ]
    for number, band in enumerate(range(last + 1 - bands, last + 1), start=1):
        parts.append(f'<VRTRasterBand dataType="Byte" band="{number}">')
        name = f"<SourceFilename>{tile}</SourceFilename><SourceBand>{band}</SourceBand>"
        for row, col in places:
            box = f'xSize="{min(grid.width, size - col)}" ySize="{min(grid.height, size - row)}"'
            here, there = f'xOff="0" yOff="0" {box}', f'xOff="{col}" yOff="{row}" {box}'
            parts.append(f"<SimpleSource>{name}<SrcRect {here}/><DstRect {there}/></SimpleSource>")
        parts.append("</VRTRasterBand>")
    path.write_text("\n".join([*parts, "</VRTDataset>"]))
    return path


if __name__ == "__main__":
    main()
