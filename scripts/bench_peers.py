#!/usr/bin/env python
"""Measure predicting and tracing beside the methods of other projects, side by side.

    scripts/bench_peers.py --image chip.tif --labels chip.geojson [--sizes 2048 4096]
        [--packages FOLDER]

The scenes to predict are IMAGE, mirrored to each size, and the network is the starter, as if it
had been trained on pixels of this size; the scenes to trace are the rasters of `bench_graph.py`.
FOLDER holds sknw and numba, as `pip install --target FOLDER --no-deps sknw numba llvmlite` puts
them there; without it, the methods that need them are left out.

roadseg     `roadseg predict`, from file to file, with the precision that this CPU is fast at.
float32     `roadseg predict` with --precision fp32.
window      What opengeos/geoai does by default, with the same network; this is the method, in the
            fewest steps, and not the package: windows of 512 px that overlap by 128 px, one by one
            in float32, whose probabilities are added up for the whole scene in memory, divided by
            how often each pixel was seen, and written at the end.
graph       `roadseg graph`, from file to file, with speeds, widths, confidence and three formats.
thin        `skimage.morphology.skeletonize` of the mask, and nothing else.
pixels      The same, then a graph of its pixels by sknw.
cresi       The steps of CRESI from a mask to lines of roads (its step 4, with its parameters for
            SpaceNet 5): remove small objects and holes, thin, graph of pixels, remove spurs,
            simplify, close gaps. This is our own short form, with a tree of the ends of roads
            where CRESI compares all with all; places on earth, speeds and files are later steps.

Each is measured in a process of its own, in turns for `--rounds` times, on one thread, without
imports and the compilation of sknw. Prints the median of the CPU seconds, the largest resident
memory, and the CPU seconds relative to those of roadseg in the same round.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from bench_graph import measured, mirrored_chips, repeated, spread

from roadseg.raster.images import read_grid

WINDOW_PX, OVERLAP_PX = 512, 128
ROAD = 102  # Probability, of 255, from which a pixel is road.
CRESI_ROAD = 77  # The same in CRESI: 0.3.
SMALL_PX = 300  # Objects and holes that are removed.
PAD_PX, EDGE_PX = 5, 7  # Around a mask, and dropped from the skeleton at each side.
SPUR_PX, BORDER_PX, SPUR_ROUNDS = 33, 4, 8
SIMPLE_PX = 2  # Tolerance of lines.
GAP_PX, LONG_GAP_PX, GAP_DEG = 24, 80, 30  # Any gap; gaps of roads that face each other.
FEWEST_POINTS = 3  # Of a line that is simplified.
ERRORS, ERRING_PX = (12, 20), 1300  # Dips and blobs of bench_graph, for a chip of so many pixels.


def main():
    """Measure and print."""
    options = parse()
    if options.child:
        what, *paths = options.child
        if options.packages:
            sys.path.append(str(options.packages))
        print(json.dumps(METHODS[what](*map(Path, paths))))
        return
    from bench_predict import mirrored  # It loads torch, whose memory not all methods need.

    with tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
        folder = Path(scratch)
        grid = read_grid(options.image)
        put_starter(folder / "network", grid)
        for size in options.sizes:
            image = mirrored(options.image, folder / f"image_{size}.tif", size)
            report(f"predict, {size} px", ["roadseg", "float32", "window"], image, options)
            image.unlink()
        share = grid.height * grid.width / ERRING_PX**2
        options.dips, options.blobs = (max(1, round(share * each)) for each in ERRORS)
        tile = mirrored_chips(folder / "tile.tif", options)
        with_sknw = ["pixels", "cresi"] if options.packages else []
        for size in options.graph_sizes:
            scene = repeated(tile, folder / f"{size}.vrt", size, 8)
            report(f"graph, {size} px", ["graph", "thin", *with_sknw], scene, options)


def parse():
    """Read the options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--image", type=Path, help="chip whose pixels and place are used")
    parser.add_argument("--labels", type=Path, help="its roads")
    parser.add_argument("--packages", type=Path, help="folder with sknw and numba")
    parser.add_argument("--sizes", type=int, nargs="+", default=[2048, 4096], help="to predict")
    parser.add_argument("--graph-sizes", type=int, nargs="+", default=[2048, 8192])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scratch", type=Path, help="folder for the files; else the system's")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is None and None in (options.image, options.labels):
        parser.error("--image and --labels are needed")
    return options


def report(title, methods, scene, options):
    """Measure methods in turns, and print a line for each."""
    rounds = [
        {what: in_process(what, scene, options) for what in methods} for _ in range(options.rounds)
    ]
    print(title)
    for what in methods:
        used = [one[what] for one in rounds]
        ratios = [one[what]["cpu_s"] / one[methods[0]]["cpu_s"] for one in rounds]
        print(
            f"  {what:8} {statistics.median(one['cpu_s'] for one in used):7.2f} CPU s  "
            f"{max(one['peak_mb'] for one in used):5} MB  ratio {spread(ratios)}  "
            f"{used[0]['roads']}",
            flush=True,
        )


def in_process(what, scene, options):
    """Measure in a new process on one thread, so that memory is its own."""
    output = scene.with_suffix(".out")
    output.mkdir(exist_ok=True)
    packages = ["--packages", str(options.packages)] if options.packages else []
    command = [sys.executable, __file__, *packages, "--child", what, str(scene), str(output)]
    done = subprocess.run(
        command,
        check=True,
        stdout=subprocess.PIPE,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    return json.loads(done.stdout.splitlines()[-1])


# Predicting


def put_starter(folder, grid):
    """Write the starter as a network for the pixel size of a grid."""
    from roadseg.learn.network.checkpoint_facts import read_checkpoint_facts
    from roadseg.learn.network.checkpoints import read_tensors, save_checkpoint
    from roadseg.learn.network.installed_weights import starter_folder

    facts = read_checkpoint_facts(starter_folder(), "best")
    facts |= {"gsd_m": sum(grid.pixel_size_m) / 2}
    # `read_tensors` gives float32, and the other methods see windows in one size.
    for name in ("stored_as", "gsd_range_m", "pixel_sizes_m"):
        facts.pop(name, None)
    save_checkpoint(folder, "best", read_tensors(starter_folder(), "best"), facts)


def predicted(precision, image, output):
    """Predict by `roadseg predict`."""
    from roadseg.commands.stages.predict import run_images
    from roadseg.config import load_config

    config = load_config(None, [f"compute.precision={precision}", "predict.engine=eager"])
    start = time.process_time()
    network = image.with_name("network")
    run_images(config, [str(image)], checkpoints=[network], output=output, force=True)
    return measured(start, megabytes(output / image.name))


def window(image, output):
    """Predict by a sliding window, with all of the scene in memory."""
    import rasterio
    import torch

    from roadseg.learn.network.checkpoints import load_checkpoint
    from roadseg.learn.network.models import Normalise

    start = time.process_time()
    trained = load_checkpoint(image.with_name("network"))
    network = torch.nn.Sequential(Normalise(trained.scaling), trained.model).eval()
    with rasterio.open(image) as source:
        pixels, profile = source.read(), source.profile
    classes, (height, width) = trained.facts["classes"], pixels.shape[1:]
    total = np.zeros((classes, height, width), dtype=np.float32)
    seen = np.zeros((height, width), dtype=np.float32)
    with torch.inference_mode():
        for row in starts(height):
            for col in starts(width):
                part = np.s_[row : row + WINDOW_PX, col : col + WINDOW_PX]
                scaled = trained.scaling.apply(pixels[:, *part])
                logits = network(torch.from_numpy(scaled)[None])
                total[:, *part] += logits[0].sigmoid().numpy()
                seen[part] += 1
    total /= seen
    path = output / "window.tif"
    kept = {name: profile[name] for name in ("driver", "crs", "transform", "height", "width")}
    with rasterio.open(path, "w", **kept, count=classes, dtype="float32") as target:
        target.write(total)
    return measured(start, megabytes(path))


def starts(length):
    """Return where windows begin that cover a side; the last one ends with it."""
    last = max(length - WINDOW_PX, 0)
    return sorted({*range(0, last, WINDOW_PX - OVERLAP_PX), last})


def megabytes(path):
    """Return the size of a file as a text."""
    return f"{path.stat().st_size / 1e6:.0f} MB written"


# Tracing


def graph(scene, output):
    """Trace by `roadseg graph`, with speeds, widths, confidence, and its three files."""
    import roadseg.roads.formats.graphml  # noqa: F401 - loaded when it writes
    from roadseg.commands.stages.graph import run_images
    from roadseg.config import load_config

    config = load_config(None)
    start = time.process_time()
    done = run_images(config, [str(scene)], output=output)
    return measured(start, f"{done.nodes} nodes, {done.edges} edges")


def thin(scene, _output):
    """Thin the mask."""
    from skimage.morphology import skeletonize

    start = time.process_time()
    skeleton = skeletonize(road_band(scene) >= ROAD)
    return measured(start, f"{int(skeleton.sum())} pixels")


def pixels(scene, _output):
    """Thin the mask, and build a graph of the pixels."""
    from skimage.morphology import skeletonize

    build = compiled_sknw()
    start = time.process_time()
    found = build(skeletonize(road_band(scene) >= ROAD).astype(np.uint16), multi=True)
    return measured(start, f"{found.number_of_nodes()} nodes, {found.number_of_edges()} edges")


def cresi(scene, _output):
    """Find lines of roads by the steps of CRESI."""
    import cv2
    from skimage.morphology import remove_small_holes, remove_small_objects, skeletonize

    build = compiled_sknw()
    start = time.process_time()
    mask = np.pad(road_band(scene), PAD_PX, mode="edge") > CRESI_ROAD
    mask = remove_small_objects(mask, max_size=SMALL_PX - 1)
    mask = remove_small_holes(mask, max_size=SMALL_PX - 1)
    skeleton = skeletonize(mask)[EDGE_PX:-EDGE_PX, EDGE_PX:-EDGE_PX]
    roads = build(np.pad(skeleton, EDGE_PX - PAD_PX).astype(np.uint16), multi=True)
    remove_spurs(roads, skeleton.shape)
    lines = []
    for first, last, edge in roads.edges(data=True):
        points = np.vstack([roads.nodes[first]["o"], edge["pts"], roads.nodes[last]["o"]])
        points = points.astype(np.int32)[:, None, ::-1]
        if len(points) > FEWEST_POINTS:
            points = cv2.approxPolyDP(points, SIMPLE_PX, closed=False)
        lines.append(points[:, 0])
    links = closed_gaps(roads, lines)
    return measured(start, f"{len(lines)} lines, {links} links")


def remove_spurs(roads, shape):
    """Remove short roads with a free end, unless they end at the border, and loops."""
    for _ in range(SPUR_ROUNDS):
        spurs = [
            node for node, degree in roads.degree() if degree == 1 and is_spur(roads, node, shape)
        ]
        if not spurs:
            break
        roads.remove_nodes_from(spurs)
    roads.remove_edges_from([edge for edge in roads.edges(keys=True) if edge[0] == edge[1]])


def is_spur(roads, node, shape):
    """Return whether the only road of a node is short and does not reach the border."""
    ((_, other, edge),) = roads.edges(node, data=True)
    places = np.array([roads.nodes[each]["o"] for each in (node, other)])
    is_inside = (places > BORDER_PX).all() and (places < np.array(shape) - BORDER_PX).all()
    return edge["weight"] < SPUR_PX and is_inside


def closed_gaps(roads, lines):
    """Link the ends of roads that are near, or that face each other; return how many links."""
    from scipy.spatial import cKDTree

    degree = dict(roads.degree())
    places, ways = [], []
    for (first, last), line in zip(roads.edges(), lines, strict=True):
        for node, (end, before) in ((first, line[:2]), (last, line[:-3:-1])):
            if degree[node] == 1:
                places.append(end)
                ways.append(end - before)
    if not places:
        return 0
    places, ways = np.array(places, dtype=float), np.array(ways, dtype=float)
    pairs = cKDTree(places).query_pairs(LONG_GAP_PX, output_type="ndarray")
    across = places[pairs[:, 1]] - places[pairs[:, 0]]
    away = np.hypot(*across.T)
    angle = np.degrees(np.arctan2(ways[:, 1], ways[:, 0]))
    turn = np.abs((angle[pairs[:, 0]] - angle[pairs[:, 1]] + 90) % 180 - 90)
    along = ways[pairs[:, 0]] / np.maximum(np.hypot(*ways[pairs[:, 0]].T), 1e-9)[:, None]
    beside = np.abs(along[:, 0] * across[:, 1] - along[:, 1] * across[:, 0])
    fits = (away < GAP_PX) | ((beside < GAP_PX) & (turn < GAP_DEG))
    used, links = set(), 0
    for first, last in pairs[fits][np.argsort(away[fits])].tolist():
        if not {first, last} & used:
            used |= {first, last}
            links += 1
    return links


def compiled_sknw():
    """Return sknw's function for graphs of pixels, which it compiles when it is first called."""
    import sknw

    sknw.build_sknw(np.eye(9, dtype=np.uint16), multi=True)
    return sknw.build_sknw


def road_band(scene):
    """Read the probability of any road of a scene."""
    import rasterio

    with rasterio.open(scene) as source:
        return source.read(source.count)


METHODS = {
    "roadseg": lambda *paths: predicted("auto", *paths),
    "float32": lambda *paths: predicted("fp32", *paths),
    **{each.__name__: each for each in (window, graph, thin, pixels, cresi)},
}

if __name__ == "__main__":
    main()
