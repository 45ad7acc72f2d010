#!/usr/bin/env python
"""Measure `roadseg audit` on maps with known faults.

Labels of many places are taken as one map. Its ways are moved by up to 8 m, all by one vector or
each by its own; every tenth is deleted, and as many are invented: other ways, turned and put where
no road is. The map is held against rasters of the same places, masks or probabilities, of which the
names begin as those of the labels. What the audit says is compared with what was done.

    python scripts/bench_audit.py LABELS RASTERS [--half 1] [--suffix _google]

Settings were chosen on half 0 of the places, and are reported on half 1.
"""

import argparse
import logging
from collections import Counter
from pathlib import Path

import numpy as np
import shapely

from roadseg.roads.audit.audit import audit_ways
from roadseg.roads.audit.profiles import Cover
from roadseg.roads.audit.stretches import CONFIRMED, NO_DATA, NOT_SEEN, SHIFTED, STATUSES
from roadseg.roads.audit.ways import AuditedWays, read_ways
from roadseg.roads.masks.probabilities import open_probability
from roadseg.roads.options import AuditOptions

SHARE = 0.1  # Of the ways that are deleted, and that are invented.
STEP_M = 3.0
CLEAR_M = 0.5  # Metres from the distance at which a way becomes shifted.
CASES = {"not moved": (0.0, False), "as one": (8.0, False), "one by one": (8.0, True)}


def read_places(labels: Path, rasters: Path, half: int, suffix: str) -> tuple[list, Cover]:
    """Read the labels of the places that have a raster, and these rasters."""
    pairs = [
        (label, raster)
        for label in sorted(labels.glob("*.geojson"))
        for raster in rasters.glob(f"{label.stem}{suffix}.tif")
    ]
    cover = Cover.from_rasters([open_probability(raster) for _, raster in pairs[half::2]])
    return [read_ways(label).to_crs(cover.crs) for label, _ in pairs[half::2]], cover


def disturb(
    lines: np.ndarray, widths_m: np.ndarray, case: str, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Move, delete and invent ways; return them with their rows before, -1 for invented ones."""
    most_m, one_by_one = CASES[case]
    angle = rng.uniform(0, 2 * np.pi, len(lines) if one_by_one else 1)
    away = rng.uniform(0, most_m, len(angle))
    vectors = np.column_stack([np.cos(angle), np.sin(angle)]) * away[:, None]
    vectors = np.broadcast_to(vectors, (len(lines), 2))
    kept = np.flatnonzero(rng.random(len(lines)) >= SHARE)
    moved = [shapely.transform(lines[row], lambda xy, v=vectors[row]: xy + v) for row in kept]
    roads = shapely.STRtree(shapely.buffer(lines, widths_m / 2 + 4))
    invented = []
    while len(invented) < SHARE * len(lines):
        way = _turned(lines, rng)
        points = shapely.line_interpolate_point(way, np.linspace(0, 1, 30), normalized=True)
        on_road, _ = roads.query(points, predicate="intersects")
        if way.length > 40 and len(np.unique(on_road)) <= 8:  # noqa: PLR2004 - it may cross roads
            invented.append(way)
    return np.array([*moved, *invented], dtype=object), np.array([*kept, *[-1] * len(invented)])


def _turned(lines: np.ndarray, rng: np.random.Generator) -> shapely.LineString:
    """Return a way that was turned and put near another one."""
    way, near = lines[rng.integers(len(lines))], lines[rng.integers(len(lines))]
    middle = shapely.get_coordinates(way.centroid)[0]
    place = shapely.get_coordinates(near.interpolate(rng.random(), normalized=True))[0]
    turn = rng.uniform(0, 2 * np.pi)
    axes = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    to = place + rng.uniform(-60, 60, 2)
    return shapely.transform(way, lambda xy: (xy - middle) @ axes + to)


def _longer(line: shapely.LineString) -> shapely.LineString:
    """Return a line that goes 15 m on at both ends, so that moved ends have a road beside them."""
    xy = shapely.get_coordinates(line)
    ends = [a + 15 * (a - b) / np.linalg.norm(a - b) for a, b in ((xy[0], xy[1]), (xy[-1], xy[-2]))]
    return shapely.LineString([ends[0], *xy, ends[1]])


def measure(ways: list, cover: Cover, case: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return what the audit says of a disturbed map, every 3 m of its ways.

    Returns:
        Metres by true status and status, of all places and of clear ones; errors of offsets.
    """
    lines = np.concatenate([each.lines for each in ways])
    widths_m = np.concatenate([each.columns["width_m"] for each in ways]).astype(float)
    drawn, before = disturb(lines, widths_m, case, np.random.default_rng(seed))
    given = AuditedWays("map", cover.crs, drawn, {"row": np.arange(len(drawn))}, Counter())
    options = AuditOptions()
    found = audit_ways(given, cover.rasters, options)
    row = before[found.ways.columns["row"][found.way]]
    confusion = np.zeros((2, len(STATUSES), len(STATUSES)))  # of all places, and of clear ones
    errors = []
    for stretch, line in enumerate(found.lines):
        status = found.status[stretch]
        if status == NO_DATA:
            continue
        parts = max(1, round(line.length / STEP_M))
        points = line.interpolate((np.arange(parts) + 0.5) / parts, normalized=True)
        true, is_clear = np.full(parts, NOT_SEEN), np.ones(parts, dtype=bool)
        if row[stretch] >= 0:
            road = _longer(lines[row[stretch]])
            away = shapely.distance(points, road)
            limit = max(options.min_shift_m, widths_m[row[stretch]] / 4)
            true = np.where(away >= limit, SHIFTED, CONFIRMED)
            is_clear = np.abs(away - limit) >= CLEAR_M
            if np.isfinite(found.offset_m[stretch]):
                errors += [abs(abs(found.offset_m[stretch]) - np.median(away))] * parts
        np.add.at(confusion[0, :, status], true, line.length / parts)
        np.add.at(confusion[1, :, status], true[is_clear], line.length / parts)
    return confusion[:, :NO_DATA, :NO_DATA], np.array(errors)


def main() -> None:
    """Read the options and measure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("labels", type=Path)
    parser.add_argument("rasters", type=Path)
    parser.add_argument("--half", type=int, default=1, choices=(0, 1))
    parser.add_argument(
        "--suffix", default="", help="of the names of rasters after those of labels"
    )
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    logging.disable(logging.WARNING)  # The labels have no ids.
    ways, cover = read_places(options.labels, options.rasters, options.half, options.suffix)
    for case in CASES:
        runs = [measure(ways, cover, case, seed) for seed in range(options.seeds)]
        confusion = np.sum([run[0] for run in runs], axis=0)
        errors = np.concatenate([run[1] for run in runs])
        right, clear = (np.trace(each) / each.sum() for each in confusion)
        error = f"offset error {np.median(errors):.2f} m (median)"
        print(f"{case}: {right:.1%} right, {clear:.1%} where it is clear, {error}")
        for name, metres in zip(STATUSES, confusion[0] / 1000, strict=False):
            print(f"  {name:<10}" + "".join(f"{km:9.2f}" for km in metres))


if __name__ == "__main__":
    main()
