"""tiles list: the tiles that an area touches. Reads an area, writes a layer if asked to."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import geopandas as gpd
import numpy as np

from roadseg.errors import ConfigError
from roadseg.raster.grid import DEGREES
from roadseg.roads.colours import FOUND, MISSED
from roadseg.roads.formats.gpkg_styles import (
    STYLE_LAYER,
    area_renderer,
    category_renderer,
    layer_styles,
)
from roadseg.roads.formats.layers import write_gpkg_layers, write_layer
from roadseg.roads.labels.areas import read_area
from roadseg.roads.tiles.tile_files import is_done
from roadseg.roads.tiles.tiling import NORTHMOST, SOUTHMOST, Tile, tiles_on
from roadseg.system.files import require_suffix, whole
from roadseg.system.text import Summary, count
from roadseg.system.units import area_text

_SUFFIXES = (".gpkg", ".geojson")
_M2 = 1_000_000
_SHOWN = 20  # Ids that are printed; a layer or --json has all.


@dataclass(frozen=True)
class TileList(Summary):
    """The tiles of an area.

    Attributes:
        tiles: their ids.
        km2: ground of all of them.
        done: ids of those that a folder has; None if none was given.
        output: layer that was written; None without one.
    """

    tiles: list[str]
    km2: float
    done: list[str] | None = None
    output: str | None = None

    def __str__(self) -> str:
        """Return the ids, the first of them if there are many."""
        what = f"{count(len(self.tiles), 'tile')}, {area_text(self.km2)} in all"
        if self.done is not None:
            what += f", {len(self.done)} done"
        more = ["..."] if len(self.tiles) > _SHOWN else []
        rows = [what, *([self.output] if self.output else [])]
        return "\n".join(["; ".join(rows), " ".join([*self.tiles[:_SHOWN], *more])])


def run(area: str, *, km: int, folder: Path | None = None, output: Path | None = None) -> TileList:
    """List the tiles that an area touches.

    Args:
        area: vector file with polygons, or a box in degrees.
        km: side of the tiles.
        folder: of tiles, in which is looked which are done; None for none.
        output: GeoPackage or GeoJSON to write, with a polygon for each tile; None for none.

    Raises:
        ConfigError: the area is no box, too large or beyond all tiles, or the output has another
            suffix.
        DataError: the file cannot be read.
        OutputError: the layer cannot be written.
    """
    require_suffix(output, *_SUFFIXES)
    tiles = tiles_on(read_area(area).degrees, km=km)
    if not tiles:
        raise ConfigError(
            f"{area}: found no tile; there are tiles from {SOUTHMOST:g} to {NORTHMOST:g} degrees "
            "of latitude"
        )
    done = None if folder is None else [tile for tile in tiles if is_done(folder, tile)]
    if output is not None:
        _write(output, tiles, done)
    km2 = sum(tile.ground.area for tile in tiles) / _M2
    ids = None if done is None else [tile.id for tile in done]
    return TileList(
        [tile.id for tile in tiles], round(km2, 4), ids, None if output is None else str(output)
    )


def _write(path: Path, tiles: list[Tile], done: list[Tile] | None) -> None:
    columns: dict[str, Any] = {
        "tile": [tile.id for tile in tiles],
        "epsg": [tile.crs.to_epsg() for tile in tiles],
        "km2": [tile.ground.area / _M2 for tile in tiles],
    }
    if done is not None:
        columns["done"] = np.isin([tile.id for tile in tiles], [t.id for t in done]).astype(int)
    outlines = [tile.degrees for tile in tiles]
    layer = gpd.GeoDataFrame(columns, geometry=outlines, crs=DEGREES)
    with whole(path) as partial:
        if path.suffix.lower() != ".gpkg":
            write_layer(partial, layer, "GeoJSON", layer="tiles", geometry_type="Polygon")
            return
        renderer = (
            area_renderer(FOUND)
            if done is None
            else category_renderer("done", {0: MISSED, 1: FOUND}, are_areas=True)
        )
        layers = {"tiles": layer, STYLE_LAYER: layer_styles({"tiles": renderer})}
        write_gpkg_layers(partial, layers, geometry_types={"tiles": "Polygon"})
