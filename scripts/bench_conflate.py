#!/usr/bin/env python
"""Measure `roadseg conflate` where the answer is known: a map from which ways were taken.

Every n-th way of a file of OpenStreetMap is taken out of it. Masks of all roads are burnt at 1 m
with a width by class, that of one-way roads less, and traced; the graph is conflated into the map
that lacks the ways.

    python scripts/bench_conflate.py OSM.geojson.gz FOLDER [--every 20] [--window LON,LAT,KM]

The file is GeoJSON with the properties `osm_id` and `nodes` (ids of the nodes of each way). Prints
how many of the lost junctions are back within 5, 10 and 15 m. A junction is lost where three or
more ends of roads meet in the whole map, and fewer in the map without the ways. Prints also which
part of the added length lies within 5 m of a way that was taken out, APLS of the merged network
against the whole map, and CPU seconds and memory. FOLDER keeps all files; a mask
and a graph that are there already are used again.
"""

import argparse
import gzip
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import osmium
import rasterio
import shapely
from affine import Affine
from bench_noise import OTHER_WIDTH_M, WIDTHS_M
from pyproj import CRS
from rasterio.features import rasterize
from scipy.spatial import KDTree

from roadseg.raster.grid import DEGREES, reproject
from roadseg.roads.formats.any_roads import PixelPlacement, place_roads, read_drawn
from roadseg.roads.formats.pairing import RoadSource
from roadseg.roads.graph.road_graph import RoadGraph, graph_from_lines
from roadseg.roads.metrics.apls import apls

JUNCTION = 3  # Ends of edges.
BACK_M = (5.0, 10.0, 15.0)
SAME_M = 0.01
ONE_WAY = 0.6  # A carriageway is so wide as a part of both.
STRIP_PX = 4096
NO_TUNNEL = ("", "no")


def main():
    """Measure and print."""
    options = parse()
    folder = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    features = read(options.osm, options.window)
    kept = [each for row, each in enumerate(features) if row % options.every != options.first]
    write_osm(folder / "whole.osm.pbf", features)
    write_osm(folder / "less.osm.pbf", kept)
    lines = np.array([shapely.LineString(f["geometry"]["coordinates"]) for f in features])
    crs = CRS.from_epsg(
        32600 + int((np.median(shapely.get_coordinates(lines)[:, 0]) + 180) // 6) + 1
    )
    lines = reproject(lines, DEGREES, crs)
    mask = folder / "mask.tif"
    if not mask.exists():
        burn(mask, lines, features, crs, options.pixel)
    if not (folder / "graph" / "mask.gpkg").exists():
        run("graph", "--output", folder / "graph", mask)
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    output = folder / "merged"
    run("conflate", folder / "graph" / "mask.gpkg", "--into", folder / "less.osm.pbf",
        "--output", output)  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - usage.ru_utime - usage.ru_stime
    whole = graph_from_lines(lines, crs)
    is_kept = np.arange(len(lines)) % options.every != options.first
    less = graph_from_lines(lines[is_kept], crs)
    merged = place(output / "merged.gpkg", crs)
    report(whole, less, merged, place(folder / "graph" / "mask.gpkg", crs))
    report_added(merged.lines[merged.attributes["added"] == 1], lines[~is_kept])
    print(f"conflate: {cpu_s:.1f} CPU s; peak of all commands {after.ru_maxrss / 1000:.0f} MB")


def parse():
    """Read the options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("osm", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--every", type=int, default=20, help="take out every n-th way")
    parser.add_argument("--first", type=int, default=0, help="row of the first way taken out")
    parser.add_argument("--pixel", type=float, default=1.0, help="side of a pixel, metres")
    parser.add_argument("--window", help="LON,LAT,KM: middle and side of a square")
    return parser.parse_args()


def place(path, crs):
    """Read a graph in metres with all its attributes."""
    drawn = read_drawn(RoadSource(path), PixelPlacement({}), every_column=True)
    return place_roads(drawn, crs).graph


def run(*words):
    """Run a command of roadseg."""
    subprocess.run([sys.executable, "-m", "roadseg", *map(str, words)], check=True)


def read(path, window):
    """Read the ways in the order of their ids, those within the window."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        features = json.load(file)["features"]
    features.sort(key=lambda each: each["properties"]["osm_id"])
    if window is None:
        return features
    lon, lat, km = map(float, window.split(","))
    high, wide = km / 222, km / 222 / np.cos(np.radians(lat))
    return [
        each
        for each in features
        if all(
            abs(x - lon) < wide and abs(y - lat) < high for x, y in each["geometry"]["coordinates"]
        )
    ]


def write_osm(path, features):
    """Write ways and their nodes as PBF."""
    path.unlink(missing_ok=True)
    nodes = {}
    for each in features:
        nodes.update(zip(each["properties"]["nodes"], each["geometry"]["coordinates"], strict=True))
    facts = {"timestamp": "2026-01-01T00:00:00Z"}
    with osmium.SimpleWriter(str(path)) as writer:
        for ref in sorted(nodes):
            place = tuple(nodes[ref])
            writer.add_node(osmium.osm.mutable.Node(id=ref, version=2, location=place, **facts))
        for each in features:
            tags = {
                k: str(v) for k, v in each["properties"].items() if k not in ("osm_id", "nodes")
            }
            way = each["properties"]
            writer.add_way(
                osmium.osm.mutable.Way(
                    id=way["osm_id"], version=3, nodes=way["nodes"], tags=tags, **facts
                )
            )


def burn(path, lines, features, crs, pixel_m):
    """Burn all roads but tunnels, strip by strip."""
    tags = [each["properties"] for each in features]
    seen = np.array([each.get("tunnel", "") in NO_TUNNEL for each in tags])
    classes = [each["highway"].removesuffix("_link") for each in tags]
    widths = np.array([WIDTHS_M.get(name, OTHER_WIDTH_M) for name in classes])
    widths *= np.where([each.get("oneway") == "yes" for each in tags], ONE_WAY, 1)
    areas = shapely.buffer(lines[seen], widths[seen] / 2)
    west, south, east, north = shapely.total_bounds(shapely.buffer(areas, 20))
    width, height = (int(side / pixel_m) + 1 for side in (east - west, north - south))
    profile = {
        "driver": "GTiff", "dtype": "uint8", "count": 1, "width": width, "height": height,
        "crs": crs.to_wkt(), "transform": Affine(pixel_m, 0, west, 0, -pixel_m, north),
        "tiled": True, "compress": "deflate",
    }  # fmt: skip
    tree = shapely.STRtree(areas)
    with rasterio.open(path, "w", **profile) as file:
        for top in range(0, height, STRIP_PX):
            rows = min(STRIP_PX, height - top)
            box = shapely.box(west, north - (top + rows) * pixel_m, east, north - top * pixel_m)
            here = areas[tree.query(box)]
            strip = np.zeros((rows, width), np.uint8)
            if len(here):
                transform = Affine(pixel_m, 0, west, 0, -pixel_m, north - top * pixel_m)
                strip = rasterize(here, strip.shape, transform=transform, default_value=255)
            file.write(strip.astype(np.uint8), 1, window=((top, top + rows), (0, width)))


def junctions(graph: RoadGraph):
    """Return the positions of nodes where three or more ends of edges meet."""
    return graph.nodes[graph.degree >= JUNCTION]


def report(whole, less, merged, predicted):
    """Print the measures."""
    kept = KDTree(junctions(less))
    all_there = junctions(whole)
    lost = all_there[kept.query(all_there)[0] > SAME_M]
    seen = KDTree(junctions(predicted)).query(lost)[0] <= BACK_M[0]
    apart = KDTree(junctions(merged)).query(lost)[0]
    for reach_m in BACK_M:
        back = np.asarray(apart <= reach_m)
        print(
            f"junctions within {reach_m:g} m: {len(lost)} lost, {back.sum()} back "
            f"({back.mean():.1%}); {seen.sum()} of them are junctions of the prediction to "
            f"{BACK_M[0]:g} m, of which {back[seen].sum()} are back ({back[seen].mean():.1%})"
        )
    for name, graph in (("less", less), ("merged", merged)):
        start = time.process_time()
        score = apls(whole, graph)
        print(f"APLS {name}: {score.score:.4f} ({time.process_time() - start:.0f} CPU s)")


def report_added(added, lost):
    """Print how much of what was added is near what was taken out, and the other way round."""
    for name, here, there in (("added", added, lost), ("taken out", lost, added)):
        row, hit = shapely.STRtree(there).query(here, predicate="dwithin", distance=BACK_M[0])
        near = np.split(there[hit], np.searchsorted(row, np.arange(1, len(here))))
        around = [shapely.union_all(shapely.buffer(each, BACK_M[0])) for each in near]
        inside = shapely.length(shapely.intersection(here, around)).sum()
        total = shapely.length(here).sum()
        print(f"{name}: {total / 1000:.2f} km, of which {inside / total:.2%} near the other")


if __name__ == "__main__":
    main()
