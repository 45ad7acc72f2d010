#!/usr/bin/env python
"""Draw what each step of `roadseg graph` does to a part of a scene.

    scripts/draw_steps.py --probability run/probabilities/a.tif --image a.tif --output steps.png
        [--row 0 --col 0 --size 600] [--set graph.max_gap_m=30]

Six panels: the image, the probability of road, its skeleton, the roads traced, the roads pruned and
merged, and the roads linked (links cyan), simplified and coloured by speed.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import numpy as np
import shapely

from roadseg.config import load_config
from roadseg.raster.images import open_raster
from roadseg.raster.windows import Window
from roadseg.roads.graph.cleaning import merge_chains, merge_near_junctions, prune_spurs
from roadseg.roads.masks.probabilities import Probability, open_probability
from roadseg.roads.tracing.blocks import join_blocks
from roadseg.roads.tracing.skeletons import skeletonise
from roadseg.roads.tracing.trace import MERGE_NODES_M, find_graph, find_paths

BORDER_M = 2.0


def main():
    """Read, trace and draw."""
    options = parse()
    window = Window(options.row, options.col, options.size, options.size)
    pixels, how = (
        read(options.probability, window),
        load_config(None, options.set).graph,
    )
    with open_raster(options.image, open_probability(options.probability).grid) as source:
        image = source.read([1, 2, 3], window=window.to_rasterio())
    traced = merge_chains(join_blocks([find_paths(pixels, how, whole(pixels))], pixels.grid)[0])
    border = pixels.grid.footprint_m.exterior
    pruned = prune_spurs(traced, min_spur_m=how.min_spur_m, border=border, border_m=BORDER_M)
    pruned = merge_near_junctions(pruned, within_m=MERGE_NODES_M)
    final = find_graph(pixels, how)
    figure, axes = mpl.pyplot.subplots(2, 3, figsize=(15, 10.4), layout="constrained")
    (shown, probability, skeleton), (first, second, third) = axes
    shown.imshow(np.moveaxis(image, 0, -1))
    probability.imshow(pixels.road, cmap="magma", vmin=0, vmax=255)
    is_road = pixels.road >= how.level_for(pixels.threshold)
    skeleton.imshow(np.where(skeletonise(is_road), 2, is_road))
    for axis, graph in ((first, traced), (second, pruned), (third, final)):
        axis.imshow(np.moveaxis(image, 0, -1), alpha=0.45)
        draw(axis, graph, pixels.grid)
    titles = ["image", "probability of road", "skeleton"]
    titles += [f"traced: {describe(traced)}", f"pruned and merged: {describe(pruned)}"]
    titles.append(f"linked, simplified, with speeds: {describe(final)}")
    for axis, title in zip(axes.flat, titles, strict=True):
        axis.set(title=title, xlim=(0, options.size), ylim=(options.size, 0))
        axis.set_axis_off()
    figure.savefig(options.output, dpi=options.dpi)


def parse():
    """Read the options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--probability", type=Path, required=True)
    parser.add_argument("--image", type=Path, required=True, help="of the same ground")
    parser.add_argument("--output", type=Path, required=True, help="PNG")
    parser.add_argument("--row", type=int, default=0)
    parser.add_argument("--col", type=int, default=0)
    parser.add_argument("--size", type=int, default=600, help="side of the part, pixels")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--dpi", type=int, default=80)
    return parser.parse_args()


def read(path, window):
    """Read a part of a scene as if it were one."""
    probability = open_probability(path)
    return Probability(
        probability.grid.crop(*window), *probability.read_all(window), probability.speed_bins
    )


def whole(pixels):
    """Return the window of all pixels."""
    return Window(0, 0, pixels.grid.height, pixels.grid.width)


def draw(axis, graph, grid):
    """Draw edges by speed, links cyan, and the nodes where roads end or meet."""
    speed, inferred = graph.column("speed_kph", np.nan), graph.column("inferred", 0.0)
    colours = mpl.colormaps["plasma"]
    for line, kph, is_link in zip(graph.lines, speed, inferred, strict=True):
        row, col = grid.from_metric(shapely.get_coordinates(line)).T
        colour = "tab:blue" if np.isnan(kph) else colours(min(kph / 110, 1))
        axis.plot(col, row, color="black" if is_link else "white", linewidth=5)
        axis.plot(col, row, color="cyan" if is_link else colour, linewidth=3)
    row, col = grid.from_metric(graph.nodes[graph.degree != 2]).T  # noqa: PLR2004
    axis.plot(col, row, "o", color="black", markersize=4)


def describe(graph):
    """Return the number of edges, and their length."""
    plain = merge_chains(replace(graph, attributes={}))
    return f"{len(plain.lines)} edges, {graph.length_m.sum() / 1000:.2f} km"


if __name__ == "__main__":
    mpl.use("Agg")
    import matplotlib.pyplot  # noqa: ICN001 - mpl.pyplot

    main()
