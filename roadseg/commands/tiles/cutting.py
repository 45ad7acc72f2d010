"""tiles cut: a network into tiles. Reads roads in any file, writes tiles."""

from pathlib import Path

from roadseg.commands.tiles.tracing import TilesSummary, summary_of
from roadseg.errors import ConfigError, DataError
from roadseg.roads.formats.any_roads import common_crs, find_placement, place_roads, read_drawn
from roadseg.roads.formats.pairing import only_source
from roadseg.roads.tiles.borders import cut_graph
from roadseg.roads.tiles.tile_files import (
    TileFacts,
    check_side,
    inputs_of,
    is_done,
    write_collection,
    write_tile,
)
from roadseg.system.fingerprints import fingerprint
from roadseg.system.text import first

_RULE = 1  # To be raised when the same network gives other tiles.


def run(network: Path, *, output: Path, km: int, force: bool = False) -> TilesSummary:
    """Cut a network at the borders of tiles, and write each with its STAC item.

    Args:
        network: file of roads of any kind that `score` reads.
        output: folder of the tiles; those that are not of this network stay.
        km: side of the tiles.
        force: also those that are up to date, or were made from other files.

    Raises:
        ConfigError: the folder holds tiles of another side, or one that has another origin.
        DataError: the network cannot be read, or has no place on earth that tiles cover.
        OutputError: a file cannot be written.
    """
    check_side(output, km)
    roads = read_drawn(only_source(network), find_placement(None, None), every_column=True)
    crs = common_crs(roads, None)
    graph = place_roads(roads, crs).graph
    try:
        tiles = cut_graph(graph, km=km)
    except ValueError as error:
        raise DataError(f"{network}: {error}") from error
    if not tiles:
        raise DataError(f"{network}: found no roads, expected some to cut into tiles")
    inputs = {network.name: fingerprint(network)}
    facts = dict.fromkeys(tiles, TileFacts({"cut": _RULE}, inputs))
    wanted = [tile for tile in tiles if force or not is_done(output, tile, facts[tile].key)]
    for tile in wanted:
        if not force and (others := set(inputs_of(output, tile)) - {network.name}):
            raise ConfigError(
                f"{output}: its tile {tile.id} was made from {first(sorted(others))}; use another "
                "folder, or --force to replace it"
            )
    made = [write_tile(output, tile, tiles[tile], facts[tile], formats=["gpkg"]) for tile in wanted]
    collection = write_collection(output)
    return summary_of(made, output, collection, kept=len(tiles) - len(wanted))
