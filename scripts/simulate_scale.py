#!/usr/bin/env python
"""Simulate what the roads of a country and of the world's land cost, from recorded times of tiles.

    scripts/simulate_scale.py scale.json [--price 0.04] [--watts 10] [--plot docs/scale.png]

`scale.json` is what `bench_scale.py` measured. A tile of 10 km is as many tiles of 1 km of the
record, drawn with their spread; built-up ground takes all of a tile's time for tracing, open
ground the share of its roads (--open). Workers (one core each) take tiles from a scheduler that
hands out one after the other; some tiles straggle, workers vanish and their tiles are done again
elsewhere. Joining reads all tiles in one process. Prints a table: core hours, energy, disk, money
and, for more and more cores, hours by the clock and how busy the cores are; --plot draws that.
"""

import argparse
import heapq
import json
import sys
from collections import deque
from dataclasses import dataclass
from pathlib import Path

import numpy as np

HOUR_S = 3600.0
BYTES_A_PIXEL = 3  # of an image without compression


@dataclass(frozen=True)
class Place:
    """Ground to map: its name, its area, and the share of it that is built up."""

    name: str
    km2: float
    built_up: float


@dataclass(frozen=True)
class Tiles:
    """Tiles to make: CPU seconds of each, and totals of their results."""

    seconds: np.ndarray
    road_km: float
    megapixels: float


def main():
    """Simulate and print."""
    options = parse()
    record = json.loads(options.record.read_text())
    places = [
        Place("Germany", 357_000, options.germany_built_up),
        Place("the world's land", 149_000_000, options.world_built_up),
    ]
    rng = np.random.default_rng(options.seed)
    print(f"recorded on: {record['processor']}")
    rows = {}
    for place in places:
        tiles = draw(record, place, options, rng)
        summarise(record, place, tiles, options)
        rows[place.name] = scale(record, tiles, options, rng)
    if options.plot:
        plot(options.plot, rows)


def parse():
    """Read the options: the assumptions."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("record", type=Path, help="JSON file of bench_scale.py")
    add = parser.add_argument
    add("--gsd", type=float, default=0.5, help="metres of a pixel of the images")
    add("--tile-km", type=int, default=10, help="side of a tile")
    add("--germany-built-up", type=float, default=0.15, help="share of settlement and traffic")
    add("--world-built-up", type=float, default=0.01, help="share of built-up land")
    add("--open", type=float, default=0.15, help="roads on open ground, as a share of built-up")
    add("--watts", type=float, default=10.0, help="of a busy core, with its share of the machine")
    add("--price", type=float, default=0.04, help="of a core hour, in any currency")
    add("--stragglers", type=float, default=0.01, help="share of tiles that take --slower times")
    add("--slower", type=float, default=5.0, help="how much longer stragglers take")
    add("--lost-after-h", type=float, default=200.0, help="mean life of a worker")
    add("--restart-s", type=float, default=60.0, help="until a lost worker is back")
    add("--shards", type=int, default=1, help="schedulers that each have a part of the tiles")
    add("--cores", type=int, nargs="+", default=[2, 16, 64, 256, 1024, 4096, 16_384])
    add("--most-simulated", type=int, default=200_000, help="tiles; of more the time is scaled")
    add("--seed", type=int, default=0)
    add("--plot", type=Path, help="PNG to write")
    return parser.parse_args()


def per_megapixel(rows):
    """Fit CPU seconds = start + slope x megapixels; return the start and the slope."""
    x = np.array([row["megapixels"] for row in rows])
    y = np.array([row["cpu_s"] for row in rows])
    slope, start = np.polyfit(x, y, 1)
    return max(start, 0.0), slope


def draw(record, place, options, rng):
    """Draw the CPU seconds of the tiles of a place, with prediction and tracing."""
    of_tiles = record["of_tiles"]
    mp = 1e6 * options.tile_km**2 / options.gsd**2 / 1e6  # of a tile without its halo
    halo = ((options.tile_km * 1000 + 512) / (options.tile_km * 1000)) ** 2
    trace = np.array([row["cpu_seconds"] / row["megapixels"] for row in of_tiles])
    density = np.array([row["road_km"] / row["km2"] for row in of_tiles])
    _, predict = per_megapixel(record["predict"])
    count = max(round(place.km2 / options.tile_km**2), 1)
    # The built-up share varies from tile to tile; its mean is that of the place.
    concentration = 2.0
    shape = place.built_up * concentration, (1 - place.built_up) * concentration
    built_up = rng.beta(*shape, size=count)
    busy = built_up + (1 - built_up) * options.open
    pick = rng.integers(len(of_tiles), size=count)
    # Even without a road all pixels are read.
    floor = record["blank"]["of_tiles_s"] / record["blank"]["megapixels"]
    seconds = mp * predict + mp * halo * (floor + np.maximum(trace[pick] - floor, 0) * busy)
    road_km = float((density[pick] * busy).sum() * options.tile_km**2)
    return Tiles(seconds, road_km, mp * count)


def summarise(record, place, tiles, options):
    """Print what a place costs in total."""
    hours = tiles.seconds.sum() / HOUR_S
    lost = hours * mean_lost(tiles, options)
    total = hours + lost
    bytes_of_graphs = tiles.road_km * record["bytes_per_road_km"]
    bytes_of_rasters = place.km2 * record["predict"][-1]["bytes_per_km2"]
    print(
        f"{place.name}: {place.km2:,.0f} km2, {len(tiles.seconds):,} tiles of "
        f"{options.tile_km} km, {tiles.megapixels / 1e6:,.2f} terapixels of {options.gsd:g} m, "
        f"{tiles.road_km:,.0f} km of roads\n"
        f"  core hours {total:,.0f} (of these {lost:,.0f} lost and done again)\n"
        f"  energy     {total * options.watts / 1000:,.0f} kWh at {options.watts:g} W a core\n"
        f"  images     {tiles.megapixels * BYTES_A_PIXEL / 1e6:,.1f} TB to read, "
        f"{tiles.megapixels * BYTES_A_PIXEL / tiles.seconds.sum():.1f} MB/s for each core\n"
        f"  disk       {bytes_of_rasters / 1e12:,.2f} TB of probabilities, "
        f"{bytes_of_graphs / 1e9:,.1f} GB of graphs\n"
        f"  money      {total * options.price:,.0f} at {options.price:g} a core hour"
    )


def mean_lost(tiles, options):
    """Return the share of work that is lost with workers: half a tile each time."""
    return float(tiles.seconds.mean()) / 2 / (options.lost_after_h * HOUR_S)


def scale(record, tiles, options, rng):
    """Print the time by the clock on more and more cores; return cores, hours and busy shares."""
    seconds = tiles.seconds
    factor = max(len(seconds) / options.most_simulated, 1.0)
    some = seconds if factor == 1 else rng.choice(seconds, options.most_simulated, replace=False)
    dispatch_s = record["dask"]["wall_ms"] / 1000
    join_s = join_seconds(record, tiles.road_km)
    print("  cores     hours   busy   join h")
    rows = []
    for cores in options.cores:
        # A sample of the tiles on a sample of the cores has the time of all on all.
        used = max(round(cores / factor), 1)
        clock = simulate(some, used, dispatch_s * factor / options.shards, options, rng)
        clock *= len(seconds) / len(some) / (cores / used)
        busy = seconds.sum() / (clock * cores)
        print(f"  {cores:6,} {clock / HOUR_S:8,.1f} {busy:6.1%} {join_s / HOUR_S:8.2f}")
        rows.append((cores, clock / HOUR_S, join_s / HOUR_S, busy))
    limit = float(seconds.mean()) / dispatch_s * options.shards
    print(
        f"  one tile takes {seconds.mean() / 60:.1f} core minutes on average, "
        f"{seconds.max() / 60:.1f} at most; a scheduler keeps {limit:,.0f} cores busy"
    )
    return rows


def join_seconds(record, road_km):
    """Return the time of joining so many kilometres in one process, from the slope measured."""
    rows = record["join"]
    per_tile = np.polyfit([r["tiles"] for r in rows], [r["cpu_s"] for r in rows], 1)[0]
    km_per_tile = np.mean([row["road_km"] for row in record["of_tiles"]])
    return per_tile / km_per_tile * road_km


def simulate(seconds, cores, dispatch_s, options, rng):
    """Run tiles on workers; return the seconds by the clock until the last has ended.

    Events: a worker is free, and takes the next tile when the scheduler, which handles one at a
    time, has handed it out. Some tiles straggle. A worker lives for a random time; a tile that it
    loses goes to the end of the queue, and the worker comes back after a while.
    """
    queue = deque(rng.permutation(seconds).tolist())
    slow = iter(rng.random(4 * len(queue) + 100_000) < options.stragglers)
    lives = rng.exponential(options.lost_after_h * HOUR_S, cores)
    workers = [(0.0, number) for number in range(cores)]
    heapq.heapify(workers)
    scheduler_free = end = 0.0
    while queue:
        free, worker = heapq.heappop(workers)
        begin = max(free, scheduler_free) + dispatch_s
        scheduler_free = begin
        tile = queue.pop()
        work = tile * (options.slower if next(slow) else 1.0)
        if begin + work > lives[worker]:
            lost_at = max(lives[worker], begin)
            queue.appendleft(tile)
            back = lost_at + options.restart_s
            lives[worker] = back + rng.exponential(options.lost_after_h * HOUR_S)
            heapq.heappush(workers, (back, worker))
            continue
        end = max(end, begin + work)
        heapq.heappush(workers, (begin + work, worker))
    return end


def plot(path, rows):
    """Draw hours by the clock over cores."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 3.8), layout="constrained")
    for name, row in rows.items():
        cores, hours, join, _ = np.array(row).T
        (line,) = axes.loglog(cores, hours, "o-", label=f"{name}: predict and trace")
        axes.loglog(cores, hours[0] * cores[0] / cores, ":", color=line.get_color(), lw=1)
        axes.axhline(
            join[0], ls="--", color=line.get_color(), lw=1, label=f"{name}: join in one process"
        )
    axes.set(xlabel="cores", ylabel="hours by the clock")
    axes.grid(which="both", alpha=0.2)
    axes.legend(fontsize=8)
    figure.savefig(path, dpi=150)
    plt.close(figure)


if __name__ == "__main__":
    sys.exit(main())
