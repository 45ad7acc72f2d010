"""tiles join: the networks of tiles as one. Reads tiles, writes a graph."""

import logging
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pyproj import CRS

from roadseg.errors import ConfigError
from roadseg.raster.grid import utm_epsg
from roadseg.roads.formats.by_suffix import format_of, write_graph
from roadseg.roads.labels.areas import read_area
from roadseg.roads.options import GraphOptions
from roadseg.roads.tiles.borders import join_tiles
from roadseg.roads.tiles.tile_files import read_tile, settings_of, tiles_in
from roadseg.roads.tiles.tiling import Tile, tiles_on
from roadseg.system.progress import counted
from roadseg.system.text import Summary, count
from roadseg.system.units import road_text

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class JoinSummary(Summary):
    """A network that was joined, in figures.

    Attributes:
        tiles: number of tiles.
        road_km: length of all roads.
        nodes: number.
        edges: number.
        shared: nodes at borders that the tiles on both sides had.
        near: ends at borders that were joined because they lay near each other.
        loose: ends at borders that were not joined, most of them at the edge of the tiles.
        output: file that was written.
    """

    tiles: int
    road_km: float
    nodes: int
    edges: int
    shared: int
    near: int
    loose: int
    output: str

    def __str__(self) -> str:
        """Return the figures in a sentence."""
        roads = f"{road_text(self.road_km)} of roads in {count(self.tiles, 'tile')}"
        graph = f"{roads}: {count(self.nodes, 'node')}, {count(self.edges, 'edge')}"
        at_borders = f"at borders {count(self.shared, 'node')} shared, {self.near} joined nearby"
        return f"{graph}; {at_borders}, {self.loose} loose; {self.output}"


def run(folder: Path, output: Path, *, area: str | None = None) -> JoinSummary:
    """Join the tiles of a folder to one network, in the UTM zone of its middle.

    Args:
        folder: of `roadseg tiles trace` or `roadseg tiles cut`.
        output: file or folder to write, in the format of its suffix.
        area: only tiles that this area touches; None for all.

    Raises:
        ConfigError: there are no tiles, none of the area, no format has this suffix, or the output
            lies among the tiles.
        DataError: a tile is missing, damaged or cannot be read.
        OutputError: the network cannot be written.
    """
    format_of(output)  # A suffix without a format is refused before anything is read.
    if output.resolve().parent.parent == folder.resolve():
        raise ConfigError(f"{output}: lies among the tiles; write the network elsewhere")
    tiles = tiles_in(folder)
    if area is not None:
        of_area = set(tiles_on(read_area(area).degrees, km=tiles[0].km))
        tiles = [tile for tile in tiles if tile in of_area]
        if not tiles:
            raise ConfigError(f"{folder}: found no tile of the area {area}, expected at least one")
    if (kinds := len({settings_of(folder, tile) for tile in tiles})) > 1:
        _log.warning(
            "%s: its tiles were made with %d different settings; for one network of one kind, "
            "make them all again with the same",
            *(folder, kinds),
        )
    graphs = {}
    for tile in counted(tiles, "read", total=len(tiles), unit="tiles"):
        graph = read_tile(folder, tile)
        if len(graph.lines):
            graphs[tile] = graph
    joined = join_tiles(graphs, crs=_middle_crs(tiles), within_m=GraphOptions().join_m)
    graph = joined.graph
    write_graph(output, graph, source=folder)
    return JoinSummary(
        tiles=len(tiles),
        road_km=round(float(graph.length_m.sum()) / 1000, 3),
        nodes=len(graph.nodes),
        edges=len(graph.lines),
        shared=joined.shared,
        near=joined.near,
        loose=joined.loose,
        output=str(output),
    )


def _middle_crs(tiles: list[Tile]) -> CRS:
    """Return the UTM zone of the tile in the middle, by longitude."""
    if len({tile.crs.to_epsg() for tile in tiles}) == 1:
        return tiles[0].crs
    middles = np.array([tile.degrees.centroid.coords[0] for tile in tiles])
    lon, lat = np.median(middles, axis=0).tolist()
    return CRS.from_epsg(utm_epsg(lon, lat))
