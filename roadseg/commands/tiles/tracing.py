"""tiles trace: road networks tile by tile. Reads probabilities or masks, writes tiles."""

import logging
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import shapely

from roadseg.commands.stages.road_networks import with_origin
from roadseg.config import Config
from roadseg.errors import ConfigError, DataError
from roadseg.raster.grid import DEGREES, Grid, crs_setting, reproject
from roadseg.raster.mosaic import group_tiles
from roadseg.raster.sources import find_images
from roadseg.roads.formats.by_suffix import check_formats
from roadseg.roads.graph.road_graph import RoadGraph
from roadseg.roads.labels.areas import cut_at_date_line, gathered, read_area
from roadseg.roads.masks.probabilities import ProbabilityFile, open_probability
from roadseg.roads.masks.tiled_probabilities import OFF_PX, as_one, first_nearest
from roadseg.roads.options import GraphOptions
from roadseg.roads.tiles.tile_files import (
    TileFacts,
    check_side,
    is_done,
    tile_path,
    write_collection,
    write_tile,
)
from roadseg.roads.tiles.tiling import NORTHMOST, SOUTHMOST, Tile, parse_tile, tiles_on
from roadseg.roads.tiles.trace_tile import halo_m, touches, trace_tile
from roadseg.roads.tracing.trace import PixelSource
from roadseg.system.dry_runs import Plan, files
from roadseg.system.fingerprints import fingerprints
from roadseg.system.hosts.parallel import each
from roadseg.system.machine import peak_memory_mb
from roadseg.system.progress import counted
from roadseg.system.text import Summary, count, first
from roadseg.system.units import road_text

_RULE = 1  # To be raised when the same pixels give other tiles.
_DEG_M = 111_000.0  # Metres of a degree of latitude, about.
_STEPS = 16  # Parts of each side of an outline that bends in degrees.
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TilesSummary(Summary):
    """Tiles that were made, in figures.

    Attributes:
        made: ids of those made now.
        kept: number of those that were up to date.
        nodes: in those made now.
        edges: in those made now.
        road_km: in those made now.
        folder: of all tiles.
        collection: the catalogue of all tiles that are done.
        failed: why tiles were skipped, by id.
    """

    made: list[str]
    kept: int
    nodes: int
    edges: int
    road_km: float
    folder: str
    collection: str
    failed: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return the figures in a sentence."""
        if not (self.made or self.failed or self.kept):
            return f"no tile to make; {self.collection}"
        if not (self.made or self.failed):
            same = f"{count(self.kept, 'tile')} up to date; use --force to make them again"
            return f"{same}; {self.collection}"
        roads = f"{road_text(self.road_km)} of roads in {count(len(self.made), 'tile')}"
        parts = [
            f"{roads}: {count(self.nodes, 'node')}, {count(self.edges, 'edge')}",
            self.collection,
        ]
        if self.kept:
            parts.append(f"{count(self.kept, 'tile')} already up to date")
        if self.failed:
            parts.append(f"{count(len(self.failed), 'tile')} skipped")
        return "; ".join(parts)


@dataclass(frozen=True)
class TileChoice:
    """A choice of tiles, of those that rasters show.

    Attributes:
        area: only tiles that this area touches; None for all.
        tiles: only tiles of these ids; empty for all.
        km: side of the tiles, unless `tiles` says it.
        shard: number of a part, from 1, and number of parts, of which each has every N-th tile.
    """

    area: str | None = None
    tiles: Sequence[str] = ()
    km: int = 10
    shard: tuple[int, int] | None = None


_ALL = TileChoice()


@dataclass(frozen=True)
class TileToTrace:
    """A tile whose roads are wanted.

    Attributes:
        tile: the tile.
        names: of the rasters that show it or its halo, in their order.
        rasters: these.
        facts: what its network is made from.
    """

    tile: Tile
    names: tuple[str, ...]
    rasters: tuple[ProbabilityFile, ...]
    facts: TileFacts


def run(
    config: Config,
    images: Iterable[str],
    *,
    output: Path,
    choice: TileChoice = _ALL,
    force: bool = False,
) -> TilesSummary:
    """Trace the tiles that rasters show, and write each with its STAC item.

    Tiles that are there and were made from the same rasters with the same settings are kept, so
    that after a change only those are made again that it touches.

    Args:
        config: its section `graph` says how roads are traced.
        images: masks or probability rasters, as `find_images` takes them.
        output: folder of the tiles.
        choice: which tiles.
        force: also those that are up to date.

    Raises:
        ConfigError: an id or the area cannot be, or the folder holds tiles of another side.
        DataError: a raster cannot be read or has no georeference, or all tiles failed.
        OutputError: a file cannot be written.
    """
    jobs = _jobs(config, images, output, choice)
    wanted = [job for job in jobs if force or not is_done(output, job.tile, job.facts.key)]
    formats = _formats(config)
    made: list[dict[str, Any]] = []
    failed: dict[str, str] = {}
    outcomes = each(
        partial(_make, output, config.graph, formats),
        wanted,
        executor=config.compute.executor,
    )
    for outcome in counted(outcomes, "tiles", total=len(wanted), unit="tiles"):
        name = wanted[outcome.index].tile.id
        if outcome.error is None:
            made.append(cast("dict[str, Any]", outcome.result))
        elif config.compute.on_error == "stop":
            write_collection(output)
            raise outcome.error
        else:
            _log.warning("skipped %s: %s", name, outcome.error)
            failed[name] = str(outcome.error)
    if failed and not made:
        reason = next(iter(failed.values()))
        raise DataError(f"all {count(len(failed), 'tile')} failed, the first: {reason}")
    collection = write_collection(output)
    return summary_of(made, output, collection, kept=len(jobs) - len(wanted), failed=failed)


def plan(
    config: Config,
    images: Iterable[str],
    *,
    output: Path,
    choice: TileChoice = _ALL,
    force: bool = False,
) -> Plan:
    """Return what `run` would do."""
    jobs = _jobs(config, images, output, choice)
    wanted = [job for job in jobs if force or not is_done(output, job.tile, job.facts.key)]
    rasters = {raster.path for job in wanted for raster in job.rasters}
    why = f"{len(wanted)} of {count(len(jobs), 'tile')} are missing or not up to date"
    writes = [str(tile_path(output, job.tile)) for job in wanted]
    return Plan(
        "tiles", runs=bool(wanted), why=why, reads=[files("images", sorted(rasters))], writes=writes
    )


def summary_of(
    made: Sequence[dict[str, Any]],
    folder: Path,
    collection: Path,
    *,
    kept: int = 0,
    failed: dict[str, str] | None = None,
) -> TilesSummary:
    """Sum up the items of tiles that were made."""
    properties = [item["properties"] for item in made]
    return TilesSummary(
        made=sorted(item["id"] for item in made),
        kept=kept,
        nodes=sum(each["roadseg:nodes"] for each in properties),
        edges=sum(each["roadseg:edges"] for each in properties),
        road_km=round(sum(each["roadseg:road_km"] for each in properties), 3),
        folder=str(folder),
        collection=str(collection),
        failed=failed or {},
    )


def _formats(config: Config) -> list[str]:
    """Return the formats of the tiles; lines of a CSV are in pixels of a scene."""
    formats: list[str] = [name for name in config.graph.formats if name != "csv"]
    check_formats(formats)
    return formats


def _jobs(
    config: Config, images: Iterable[str], output: Path, choice: TileChoice
) -> list[TileToTrace]:
    """Find the tiles to trace, each with the rasters that show it or its halo."""
    chosen = [parse_tile(name) for name in dict.fromkeys(choice.tiles)]
    if len(sides := {tile.km for tile in chosen}) > 1:
        raise ConfigError(f"{first(choice.tiles)}: expected tiles that are equally large")
    km = sides.pop() if sides else choice.km
    check_side(output, km)
    ground = None if choice.area is None else read_area(choice.area).degrees
    paths = find_images(images)
    crs, gsd_m = crs_setting(config.imagery.crs, "imagery.crs"), config.imagery.gsd_m
    rasters = {name: open_probability(paths[name], crs=crs, gsd_m=gsd_m) for name in sorted(paths)}
    for raster in rasters.values():
        if raster.grid.is_local:
            raise DataError(
                f"{raster.path}: has no georeference, expected one, as tiles are places on earth"
            )
    tiles = _tiles_shown(rasters, ground, chosen, km)
    number, parts = choice.shard or (1, 1)
    return _with_facts(config, tiles[number - 1 :: parts], rasters)


def _tiles_shown(
    rasters: dict[str, ProbabilityFile],
    ground: shapely.MultiPolygon | None,
    chosen: Sequence[Tile],
    km: int,
) -> list[Tile]:
    """Return the tiles that rasters show, of those chosen and on the ground, if any are given."""
    shown = shapely.union_all([_outline_degrees(raster.grid) for raster in rasters.values()])
    tiles = tiles_on(shown if ground is None else shapely.intersection(shown, ground), km=km)
    if chosen:
        if missing := sorted(set(chosen) - set(tiles)):
            where = "images show them" if ground is None else "images show them within the area"
            raise ConfigError(
                f"{first([tile.id for tile in missing])}: found no ground of "
                f"{count(len(missing), 'tile')}, expected that {where}"
            )
        return sorted(set(chosen))
    if not tiles:
        who = "the images show" if ground is None else "both the images and the area show"
        raise ConfigError(
            f"found no tile that {who}; there are tiles from {SOUTHMOST:g} to {NORTHMOST:g} "
            "degrees of latitude"
        )
    return tiles


def _with_facts(
    config: Config, tiles: Sequence[Tile], rasters: dict[str, ProbabilityFile]
) -> list[TileToTrace]:
    """Return the tiles with the rasters that show them, and with what they are made from."""
    names = list(rasters)
    outlines = [_outline_degrees(raster.grid) for raster in rasters.values()]
    halo = max((halo_m(raster) for raster in rasters.values()), default=0.0)
    around: dict[Tile, list[str]] = {}
    tree = shapely.STRtree(outlines)
    for tile in tiles:
        near = np.sort(tree.query(_with_margin(tile.degrees, halo)))
        around[tile] = [names[row] for row in near if touches(tile, rasters[names[row]])]
    used = {name for of_tile in around.values() for name in of_tile}
    digests = fingerprints(rasters[name].path for name in sorted(used))
    settings = {"graph": config.graph.model_dump(mode="json"), "rule": _RULE}
    jobs = []
    for tile, of_tile in around.items():
        inputs = {name: digests[rasters[name].path] for name in of_tile}
        near_rasters = tuple(rasters[name] for name in of_tile)
        jobs.append(TileToTrace(tile, tuple(of_tile), near_rasters, TileFacts(settings, inputs)))
    return jobs


def _make(
    folder: Path, options: GraphOptions, formats: Sequence[str], job: TileToTrace
) -> dict[str, Any]:
    """Trace one tile and write it; return its STAC item."""
    begun, cpu = time.monotonic(), time.process_time()
    graph, pixels = trace_tile(job.tile, _on_common_pixels(job.rasters), options)
    graph = _with_sources(graph, job)
    figures: dict[str, float] = {
        "megapixels": round(pixels / 1e6, 3),
        "seconds": round(time.monotonic() - begun, 3),
        "cpu_seconds": round(time.process_time() - cpu, 3),
    }
    if (peak := peak_memory_mb()) is not None:
        figures["peak_mb"] = round(peak, 1)
    facts = replace(job.facts, figures=figures)
    return write_tile(folder, job.tile, graph, facts, formats=formats)


def _on_common_pixels(rasters: Sequence[ProbabilityFile]) -> list[PixelSource]:
    """Return rasters that share a pixel grid and speed bins as one, in the order of the first."""
    pairs = [
        (here, there)
        for there in range(len(rasters))
        for here in range(there)
        if rasters[here].speed_bins == rasters[there].speed_bins
    ]
    rows = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    groups = group_tiles([raster.grid for raster in rasters], rows, off_px=OFF_PX)
    return [
        as_one([rasters[row] for row in group]) if len(group) > 1 else rasters[group[0]]
        for group in groups
    ]


def _with_sources(graph: RoadGraph, job: TileToTrace) -> RoadGraph:
    """Return the graph with the raster that each edge was seen in, and what predicted that."""
    if len(graph.lines) == 0:
        return graph
    outlines = [raster.grid.footprint_in(job.tile.crs) for raster in job.rasters]
    middles = shapely.line_interpolate_point(graph.lines, 0.5, normalized=True)
    nearest = first_nearest(outlines, middles)
    return with_origin(graph, job.names, [raster.model for raster in job.rasters], nearest)


def _outline_degrees(grid: Grid) -> shapely.Geometry:
    """Return the outline of a raster in degrees, cut at the date line if it lies there."""
    dense = shapely.segmentize(grid.footprint, grid.footprint.length / 4 / _STEPS)
    outline: shapely.Geometry = reproject(np.array([dense]), grid.crs, DEGREES)[0]
    return cut_at_date_line(gathered(outline))


def _with_margin(outline: shapely.Polygon, margin_m: float) -> shapely.Geometry:
    """Return a box around an outline in degrees, on both sides of the date line if need be."""
    west, south, east, north = outline.bounds
    up = margin_m / _DEG_M
    aside = up / max(float(np.cos(np.radians(max(abs(south), abs(north))))), 0.05)
    box = shapely.box(west - aside, south - up, east + aside, north + up)
    if west - aside >= -180 and east + aside <= 180:  # noqa: PLR2004 - degrees
        return box
    turn = 360 if west < 0 else -360
    moved = shapely.transform(box, lambda xy: np.column_stack([xy[:, 0] + turn, xy[:, 1]]))
    return shapely.union(box, moved)
