"""Files of a network in tiles: the graph of each, its STAC item, and the STAC collection of all.

`<folder>/<square of 100 km>/<tile>.gpkg`, other formats and `<tile>.json` beside it, and
`<folder>/collection.json`. The item is written after its graph, so a tile that has one is whole.
"""

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, cast

import numpy as np
import shapely
from pydantic import BaseModel, Field

from roadseg.errors import ConfigError, DataError
from roadseg.roads.formats.by_suffix import write_graphs
from roadseg.roads.formats.files import read_gpkg, write_gpkg
from roadseg.roads.graph.road_graph import RoadGraph
from roadseg.roads.tiles.borders import border_ids
from roadseg.roads.tiles.tiling import Tile, check_km, parse_tile
from roadseg.system.records import installed_version, key_of, read_json, write_json
from roadseg.system.schemas import TOLERANT, check

COLLECTION = "collection.json"
BORDER = "border"  # Column of nodes with their id on the border of a tile.
GRID = "https://stac-extensions.github.io/grid/v1.1.0/schema.json"
PROJ = "https://stac-extensions.github.io/projection/v2.0.0/schema.json"
FILE = "https://stac-extensions.github.io/file/v2.1.0/schema.json"

_STAC = "1.1.0"
_ID = "road-networks"  # Of the collection.
_DEGREE_DECIMALS = 7
_ITEMS = "*/[!.]*.json"  # Not what is being written.
_SHA256 = "1220"  # This begins the multihash of a digest of SHA-256.
_GPKG_TYPE = "application/geopackage+sqlite3"
_M2, _M = 1_000_000, 1000


@dataclass(frozen=True)
class TileFacts:
    """What is known of the making of a tile.

    Attributes:
        settings: of what made it.
        inputs: fingerprint of each input by name.
        figures: further figures, such as seconds; they do not decide whether it is up to date.
    """

    settings: Mapping[str, Any]
    inputs: Mapping[str, str]
    figures: Mapping[str, float] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Digest of the settings, which hold for other tiles as well, and the inputs."""
        return key_of(self.settings, self.inputs)


class _Asset(BaseModel):
    """What is read of an asset."""

    model_config = TOLERANT

    href: str


class _Properties(BaseModel):
    """What is read of the properties of an item."""

    model_config = TOLERANT

    datetime: str
    road_km: float = Field(alias="roadseg:road_km")
    key: str = Field(alias="roadseg:key")


class _Item(BaseModel):
    """What is read of the item of a tile, which STAC lets have more."""

    model_config = TOLERANT

    id: str
    bbox: tuple[float, float, float, float]
    assets: Annotated[dict[str, _Asset], Field(min_length=1)]
    properties: _Properties


def tile_path(folder: Path, tile: Tile, suffix: str = "gpkg") -> Path:
    """Return the path of a file of a tile."""
    return folder / tile.square_id / f"{tile.id}.{suffix}"


def is_done(folder: Path, tile: Tile, key: str | None = None) -> bool:
    """Return whether a tile is there as a whole, and made from what has a key, if one is given.

    Raises:
        DataError: if its item is no STAC item of roadseg.
    """
    path = tile_path(folder, tile, "json")
    if not path.exists():
        return False
    item = _read_item(path)
    if key not in (None, item["properties"]["roadseg:key"]):
        return False
    assets = item["assets"].values()
    return all(_is_whole(path.parent / asset["href"], asset) for asset in assets)


def _is_whole(file: Path, asset: Mapping[str, Any]) -> bool:
    """Return whether a file is the one that an item describes; of a folder nothing is known."""
    size, checksum = asset.get("file:size"), asset.get("file:checksum")
    if checksum is None:
        return file.is_dir()
    return file.is_file() and file.stat().st_size == size and _checksum(file) == checksum


def write_tile(
    folder: Path, tile: Tile, graph: RoadGraph, facts: TileFacts, *, formats: Collection[str]
) -> dict[str, Any]:
    """Write the graph of a tile, and then its item; return the item.

    Args:
        folder: of all tiles.
        tile: the tile.
        graph: its roads, in the CRS of its zone.
        facts: how it was made.
        formats: of the graph; GeoPackage is always written.

    Raises:
        OutputError: if a file cannot be written.
    """
    path = tile_path(folder, tile)
    item_path = path.with_suffix(".json")
    # Without its item a tile is not done, whatever is left of it when this is interrupted.
    item_path.unlink(missing_ok=True)
    ids = border_ids(graph.nodes, graph.crs, km=tile.km)
    write_gpkg(path, graph, node_columns={BORDER: ids})
    others = [name for name in formats if name not in ("gpkg", "csv")]
    write_graphs(path.parent, tile.id, graph, formats=others)
    files = [path, *(path.with_suffix(f".{name}") for name in others)]
    item = _item(tile, graph, facts, files)
    write_json(item_path, item)
    return item


def read_tile(folder: Path, tile: Tile) -> RoadGraph:
    """Read the graph of a tile.

    Raises:
        DataError: if it is missing or not that of its item, or has another CRS than its tile.
    """
    path = tile_path(folder, tile)
    if not is_done(folder, tile):
        raise DataError(
            f"{path}: is missing, or not the file that {tile.id}.json describes; make the tile "
            "again"
        )
    graph = read_gpkg(path)
    if graph.crs.to_epsg() != tile.crs.to_epsg():
        raise DataError(
            f"{path}: found {graph.crs.name}, expected {tile.crs.name}, the zone of its tile; "
            "make the tile again"
        )
    return graph


def settings_of(folder: Path, tile: Tile) -> str | None:
    """Return a digest of the settings that made a tile; None if its item does not say."""
    digest = _read_item(tile_path(folder, tile, "json"))["properties"].get("roadseg:settings")
    return None if digest is None else str(digest)


def inputs_of(folder: Path, tile: Tile) -> list[str]:
    """Return the names of the files that a tile was made from; none if there is no such tile."""
    path = tile_path(folder, tile, "json")
    if not path.exists():
        return []
    inputs = _read_item(path)["properties"].get("roadseg:inputs")
    return list(inputs) if isinstance(inputs, dict) else []


def tiles_in(folder: Path) -> list[Tile]:
    """Return the tiles of a folder that have an item, sorted.

    Raises:
        ConfigError: if there is none, or they are not equally large.
        DataError: if a file is not an item in its place.
    """
    tiles = sorted(map(_tile_at, folder.glob(_ITEMS)))
    if not tiles:
        raise ConfigError(
            f"{folder}: found no tiles; expected a folder of `roadseg tiles trace` or `roadseg "
            "tiles cut`"
        )
    sides = sorted({tile.km for tile in tiles})
    if len(sides) > 1:
        raise ConfigError(
            f"{folder}: holds tiles of {sides[0]} km and of {sides[1]} km; keep each in a folder "
            "of its own"
        )
    return tiles


def check_side(folder: Path, km: int) -> None:
    """Refuse a side that no tile has, and a folder that holds tiles of another side.

    Raises:
        ConfigError: if so.
    """
    check_km(km)
    path = next(folder.glob(_ITEMS), None)
    if path is not None and (other_km := _tile_at(path).km) != km:
        raise ConfigError(
            f"{folder}: holds tiles of {other_km} km, expected {km} km; use another folder, or "
            f"--km {other_km}"
        )


def write_collection(folder: Path) -> Path:
    """Write the collection of all tiles of a folder that are done, from their items."""
    path = folder / COLLECTION
    item_paths: list[Path] = []
    # Where another process has finished tiles meanwhile, it is written again with these.
    while (latest := sorted(folder.glob(_ITEMS))) != item_paths:
        item_paths = latest
        items = []
        for item_path in item_paths:
            with suppress(FileNotFoundError):  # Another process is making it again.
                items.append(_read_item(item_path))
        write_json(path, _collection(items))
    return path


def _tile_at(path: Path) -> Tile:
    try:
        tile = parse_tile(path.stem)
    except ConfigError as error:
        raise DataError(f"{path}: expected the STAC item of a tile; remove this file") from error
    if path.parent.name != tile.square_id:
        raise DataError(f"{path}: found a tile of {tile.square_id} there; remove this copy")
    return tile


def _read_item(path: Path) -> dict[str, Any]:
    item = read_json(path) if path.exists() else None
    if item is None:
        raise FileNotFoundError(path)
    expected = "expected the STAC item of this tile; delete it, and make the tile again"
    try:
        tile_id = check(item, _Item).id
    except ValueError as error:
        raise DataError(f"{path}: {expected} ({error})") from error
    if tile_id != path.stem:
        raise DataError(f"{path}: {expected} (it is that of {tile_id:.60})")
    return cast("dict[str, Any]", item)


def _item(tile: Tile, graph: RoadGraph, facts: TileFacts, files: Sequence[Path]) -> dict[str, Any]:
    """Describe a tile.

    Source: STAC 1.1.0 with the extensions grid 1.1.0, projection 2.0.0 and file 2.1.0.
    """
    outline = shapely.set_precision(tile.degrees, 10.0**-_DEGREE_DECIMALS)
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    figures = {f"roadseg:{name}": value for name, value in facts.figures.items()}
    up = {"href": f"../{COLLECTION}", "type": "application/json"}
    return {
        "type": "Feature",
        "stac_version": _STAC,
        "stac_extensions": [GRID, PROJ, FILE],
        "id": tile.id,
        "collection": _ID,
        "geometry": json.loads(shapely.to_geojson(outline)),
        "bbox": _bbox(shapely.bounds(outline).tolist()),
        "properties": {
            "datetime": now,
            "created": now,
            "grid:code": f"MGRS-{tile.id}",
            "proj:code": f"EPSG:{tile.crs.to_epsg()}",
            "proj:bbox": [round(value, 3) for value in tile.ground.bounds],
            "roadseg:version": installed_version("roadseg") or "",
            "roadseg:key": facts.key,
            "roadseg:settings": key_of(facts.settings, {}),
            "roadseg:inputs": dict(facts.inputs),
            "roadseg:km2": round(tile.ground.area / _M2, 6),
            "roadseg:road_km": round(float(graph.length_m.sum()) / _M, 3),
            "roadseg:nodes": len(graph.nodes),
            "roadseg:edges": len(graph.lines),
            **figures,
        },
        "links": [{"rel": rel, **up} for rel in ("root", "parent", "collection")],
        "assets": {path.suffix[1:]: _asset(path) for path in files},
    }


def _asset(path: Path) -> dict[str, Any]:
    asset: dict[str, Any] = {"href": f"./{path.name}", "roles": ["data"]}
    if path.suffix == ".gpkg":
        asset["type"] = _GPKG_TYPE
    if path.is_file():
        asset |= {"file:size": path.stat().st_size, "file:checksum": _checksum(path)}
    return asset


def _checksum(path: Path) -> str:
    """Return the multihash of a file."""
    with path.open("rb") as file:
        return _SHA256 + hashlib.file_digest(file, "sha256").hexdigest()


def _collection(items: Sequence[dict[str, Any]]) -> dict[str, Any]:
    made = sorted(item["properties"]["datetime"] for item in items)
    boxes = shapely.box(*np.array([item["bbox"] for item in items]).reshape(-1, 4).T)
    bounds = shapely.total_bounds(boxes).tolist() if items else [-180.0, -90.0, 180.0, 90.0]
    total = sum(item["properties"]["roadseg:road_km"] for item in items)
    return {
        "type": "Collection",
        "stac_version": _STAC,
        "id": _ID,
        "title": "Road networks by tile",
        "description": f"{len(items)} tiles with {total:.1f} km of roads, made by roadseg. Edges "
        "are cut at the borders of tiles; nodes with the same `border` are one.",
        "license": "other",
        "extent": {
            "spatial": {"bbox": [_bbox(bounds)]},
            "temporal": {"interval": [[made[0], made[-1]] if made else [None, None]]},
        },
        "links": [
            {"rel": "root", "href": f"./{COLLECTION}", "type": "application/json"},
            *map(_link, items),
        ],
    }


def _link(item: Mapping[str, Any]) -> dict[str, Any]:
    square = parse_tile(item["id"]).square_id
    return {
        "rel": "item",
        "href": f"./{square}/{item['id']}.json",
        "type": "application/geo+json",
        "title": item["id"],
    }


def _bbox(bounds: Sequence[float]) -> list[float]:
    return [round(value, _DEGREE_DECIMALS) for value in bounds]
