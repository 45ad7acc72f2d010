#!/usr/bin/env python
"""Measure what looks are worth: in the order of `roadseg review`, and in random order.

    roadseg map images/ --output run
    roadseg graph masks/*.tif --output reference
    python scripts/bench_review.py run:reference [MORE...]

A simulated reviewer looks at one edge after the other. It accepts an edge if at least half of its
length lies within 4 m of a road of the reference, and else rejects it; with --draw, it also draws
the roads of the reference that are missing within 30 m of the edge it looks at. After some looks
quality and APLS are measured on the edited graph: APLS is the mean over the scenes of a run, and
quality is that of all scenes together. The table gives
the looks that each order needs for a part of the gain of looking at all edges.
"""

import argparse
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import shapely

from roadseg.arrays import Bools, Floats, Ints
from roadseg.config import FILE_NAME, load_config
from roadseg.dataset.edge_calibration import TRUE_M
from roadseg.report.run_facts import found_layout, scene_names
from roadseg.report.scenes import read_scenes
from roadseg.review.apply import Revision
from roadseg.review.edits import Edit
from roadseg.review.sheets import Sheet, sheets_of
from roadseg.roads.graph.clipping import clip_graph
from roadseg.roads.graph.joining import to_crs
from roadseg.roads.graph.road_graph import RoadGraph, separate_edges, take_edges
from roadseg.roads.metrics.apls import apls
from roadseg.roads.metrics.buffer import lengths_near, match_lines
from roadseg.roads.metrics.differences import missing_roads
from roadseg.roads.options import CompareOptions
from roadseg.system.workspace import Workspace

OPTIONS = CompareOptions()
STEPS = 20  # Measurements along an order.
REACH_M = 30.0  # Metres from an edge within which the reviewer draws.
SNAP_M = 8.0  # Metres from a road up to which a drawn one leads to it.
LEAST_M = 10.0  # Metres; shorter missing roads are not drawn.
PARTS = (0.25, 0.5, 0.75)  # Of the gain, of which the looks are printed.


@dataclass(frozen=True)
class Case:
    """The roads of one map of a run, and what is true.

    Attributes:
        places: grounds of the scenes.
        parts: roads of the reference on each.
        tree: of the lines of the reference.
    """

    sheet: Sheet
    reference: RoadGraph
    places: Sequence[shapely.Geometry]
    parts: Sequence[RoadGraph]
    tree: shapely.STRtree


def read_case(run: Path, reference: Path) -> list[Case]:
    """Return the maps of a run with the roads of the reference on their ground."""
    truth = read_sheets(reference)
    cases = []
    for sheet in read_sheets(run):
        ground = shapely.union_all(sheet.area.outlines)
        roads = max((to_crs(each.graph, sheet.area.crs) for each in truth), key=near(ground))
        roads = clip_graph(roads, ground)
        places = sheet.area.outlines.tolist()
        parts = [clip_graph(roads, place) for place in places]
        cases.append(Case(sheet, roads, places, parts, shapely.STRtree(roads.lines)))
    return cases


def near(ground: shapely.Geometry) -> Callable[[RoadGraph], int]:
    """Return a function that counts the lines of a graph on some ground."""
    return lambda graph: int(shapely.intersects(graph.lines, ground).sum())


def read_sheets(folder: Path) -> Sequence[Sheet]:
    """Return the maps of a run, or of a folder with graphs."""
    path = folder / FILE_NAME
    config = load_config(path if path.is_file() else None)
    workspace = found_layout(Workspace(folder))
    return sheets_of(read_scenes(config, workspace, scene_names(workspace), with_labels=False))


def review(case: Case, order: Ints, *, draws: bool, at: Sequence[int]) -> list[tuple[float, float]]:
    """Return quality and APLS after each number of looks."""
    revision, real = Revision(case.sheet.graph), is_real(case)
    figures = [measure(case, revision.graph())] if 0 in at else []
    for look, row in enumerate(order.tolist(), 1):
        line = revision.base.lines[row]
        revision.apply(Edit("accept" if real[row] else "reject", line))
        if draws:
            draw_missing(case, revision, line.buffer(REACH_M))
        if look in at:
            figures.append(measure(case, revision.graph()))
    return figures


def is_real(case: Case) -> Bools:
    """Return which edges the reviewer accepts."""
    graph = case.sheet.graph
    close = lengths_near(graph.lines, case.reference.lines, tolerance_m=TRUE_M)
    return np.asarray(close >= graph.length_m / 2)


def draw_missing(case: Case, revision: Revision, view: shapely.Geometry) -> list[Edit]:
    """Draw the roads of the reference that are missing in a view, joined to those nearby."""
    edits = []
    truth = clip_graph(take_edges(case.reference, case.tree.query(view)), view)
    lines = [revision.roads[number].line for number in revision.near(view, SNAP_M)]
    there = separate_edges(np.array(lines, dtype=object), truth.crs, {})
    missing = missing_roads(truth, there, tolerance_m=OPTIONS.tolerance_m, min_length_m=LEAST_M)
    for line in missing.lines:
        xy = shapely.get_coordinates(line)
        xy[0], xy[-1] = (revision.snap(end, SNAP_M) for end in (xy[0], xy[-1]))
        if (xy != xy[0]).any():
            edits.append(Edit("draw", shapely.LineString(xy)))
            revision.apply(edits[-1])
    return edits


def measure(case: Case, graph: RoadGraph) -> tuple[float, float]:
    """Return quality and APLS of a graph."""
    quality = match_lines(case.reference, graph, tolerance_m=OPTIONS.tolerance_m).quality
    tree, scores = shapely.STRtree(graph.lines), []
    for place, truth in zip(case.places, case.parts, strict=True):
        found = clip_graph(take_edges(graph, np.sort(tree.query(place))), place)
        if len(truth.lines) + len(found.lines):
            score = apls(truth, found, spacing_m=OPTIONS.spacing_m, snap_m=OPTIONS.snap_m)
            scores.append(score.score)
    return quality, statistics.fmean(scores)


def looks_for(gain: Floats, looks: Ints, part: float) -> float:
    """Return the looks from which on a part of the last gain is reached, interpolated."""
    reached = np.maximum.accumulate(gain)
    return float(np.interp(part * gain[-1], reached, looks))


def main() -> None:
    """Read the options, measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pairs", nargs="+", metavar="RUN:REFERENCE")
    parser.add_argument("--draw", action="store_true", help="let the reviewer draw as well")
    parser.add_argument("--seeds", type=int, default=5, help="of random orders")
    given = parser.parse_args()
    for pair in given.pairs:
        run, reference = map(Path, pair.split(":"))
        for case in read_case(run, reference):
            print_case(run.name, case, draws=given.draw, seeds=given.seeds)


def print_case(name: str, case: Case, *, draws: bool, seeds: int) -> None:
    """Measure a map in both orders and print it."""
    edges = len(case.sheet.graph.lines)
    at = sorted({round(edges * step / STEPS) for step in range(STEPS + 1)})
    ours = np.argsort(-case.sheet.worth, kind="stable")
    curves = [np.array(review(case, ours, draws=draws, at=at))]
    for seed in range(seeds):
        order = np.random.default_rng(seed).permutation(edges)
        curves.append(np.array(review(case, order, draws=draws, at=at)))
    own, drawn = curves[0], np.mean(curves[1:], axis=0)
    print(f"{name}: {edges} edges, {len(case.places)} places")
    print(f"{'looks':>8}" + "".join(f"{each:>16}" for each in ("quality", "", "APLS", "")))
    print(f"{'':>8}" + "".join(f"{each:>16}" for each in ("our order", "random") * 2))
    for row, looks in enumerate(at):
        values = own[row, 0], drawn[row, 0], own[row, 1], drawn[row, 1]
        print(f"{looks:>8}" + "".join(f"{value:>16.3f}" for value in values))
    for column, figure in enumerate(("quality", "APLS")):
        gains = [curve[:, column] - curve[0, column] for curve in (own, drawn)]
        for part in PARTS:
            few, many = (looks_for(gain, np.array(at), part) for gain in gains)
            print(
                f"{part:.0%} of the gain in {figure}: {few:.0f} looks in our order, {many:.0f} in "
                f"random order: {few / many:.2f}"
            )


if __name__ == "__main__":
    main()
