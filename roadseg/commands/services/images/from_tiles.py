"""Fetch the tiles of a service as one image."""

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import chain, islice

from roadseg.commands.services.images.fetching import (
    FETCHED,
    THERE,
    WANTED,
    Fetch,
    FetchedImage,
    FetchSummary,
    day_of,
    is_fetched,
    slug,
    write_record,
)
from roadseg.commands.services.images.levels import (
    Level,
    TilePlan,
    choose_level,
    plan_tiles,
    with_tile_px,
    xyz_level,
)
from roadseg.commands.services.images.tiles import (
    Tile,
    TileReader,
    TileService,
    write_image,
)
from roadseg.errors import ConfigError, DataError
from roadseg.system.text import count, size_text
from roadseg.system.web.answers import split_address
from roadseg.system.web.keys import without_keys

_FINEST_ZOOM = 24
_USUAL_BYTES = 25_000  # Of a tile, if those that are tried first are missing.
_TRIED = 5  # Tiles that are tried for one that tells the size of all.
_LOOKED_UP = 200_000  # Tiles; of more it is not looked up which are in the cache.


def template_service(fetch: Fetch) -> TileService:
    """Choose a zoom of the tiles of a template; tiles of 512 pixels show the same ground finer.

    Raises:
        ConfigError: if the template lacks a place, or the size of pixels has to be chosen.
        DataError: if its tiles have another size.
    """
    template = fetch.request.source
    check_template(template)
    levels = [xyz_level(zoom) for zoom in range(_FINEST_ZOOM + 1)]
    level = choose_level(levels, fetch)
    service = _service(template, level)
    plan = plan_tiles(level, fetch.area)
    sample = _sample(plan, TileReader(service, fetch.client, fetch.cache, any_size=True))
    rows, cols = level.tile_px if sample is None else sample.pixels.shape[:2]
    if (rows, cols) == level.tile_px:
        return service
    if rows != cols or rows % 128:
        raise DataError(
            f"{without_keys(service.address(*plan.middle()))}: found a tile of {rows} x {cols} "
            "pixels, expected 256 x 256 or 512 x 512"
        )
    return _service(template, choose_level([with_tile_px(each, rows) for each in levels], fetch))


def _service(template: str, level: Level) -> TileService:
    def address(row: int, col: int) -> str:
        return tile_address(template, int(level.name), row, col)

    return TileService("XYZ tiles", "", level, address)


def fetch_tiles(fetch: Fetch, address: str, choose: Callable[[Fetch], TileService]) -> FetchSummary:
    """Fetch tiles as one image.

    Args:
        address: of the service, which the image is named by.
        choose: returns the level of a layer that is fetched.

    Raises:
        ConfigError: if it is more than the limit.
        DataError: if a tile cannot be fetched, or all are missing.
        OutputError: if the image cannot be written, or another one has its name.
    """
    service = choose(fetch)
    plan, level = plan_tiles(service.level, fetch.area), service.level.name
    origin = fetch.origin(service.kind, service.credit, layer=service.layer, level=level)
    size = f"z{level}" if level.isdecimal() else level.replace(" ", "")
    path = fetch.path(host_of(address), service.layer, size, day_of(service.credit))
    reader = TileReader(service, fetch.client, fetch.cache)
    image, expected = FetchedImage.on(plan.grid, path, THERE, service.credit), "nothing to fetch"
    if not is_fetched(path, origin):
        expected = _what_to_fetch(fetch, plan, reader)
        image = replace(image, state=WANTED)
        if not fetch.dry_run:
            write_image(path, plan, reader, origin)
            write_record(path, origin, {"gsd_m": image.gsd_m, "tiles": reader.counts})
            remarks = {
                "missing": "that the service does not have are no data",
                "repeated": "with the picture of another tile: look at them, as some services send "
                "one where they have no image at this level",
            }
            told = [
                f"{count(reader.counts[kind], 'tile')} {remark}"
                for kind, remark in remarks.items()
                if reader.counts[kind]
            ]
            image = replace(image, state=FETCHED, remarks=told)
    return FetchSummary([image], expected, fetch.client.received / 1e6)


def _what_to_fetch(fetch: Fetch, plan: TilePlan, reader: TileReader) -> str:
    """Return how many tiles are to be fetched, unless it is more than allowed."""
    sample = _sample(plan, reader)
    each = _USUAL_BYTES if sample is None else len(sample.body)
    total = sum(1 for _ in plan.places())
    cached = sum(map(reader.is_cached, plan.places())) if total <= _LOOKED_UP else 0
    size_mb = (total - cached) * each / 1e6
    grid = plan.grid
    expected = f"{count(total, 'tile')}, {cached} of them in the cache, about {size_text(size_mb)}"
    what = f"{expected}, for an image of {grid.height} x {grid.width} pixels"
    fetch.require_within_limit(size_mb, what)
    return expected


def _sample(plan: TilePlan, reader: TileReader) -> Tile | None:
    """Return a tile of the area; if it is missing, one of some others."""
    tried = chain([plan.middle()], islice(plan.places(), _TRIED - 1))
    return next((found for place in tried if (found := reader.find(place)) is not None), None)


_PLACE = re.compile(r"\{(-?[A-Za-z]\w*)(?::([^{}]*))?\}")
_SUBDOMAINS = "a,b,c"
_KNOWN = {"z", "zoom", "x", "y", "-y", "q", "s", "switch", "env"}


def is_template(source: str) -> bool:
    """Return whether an address has places for tiles."""
    return bool({name.lower() for name, _ in _PLACE.findall(source)} & {"x", "y", "-y", "q"})


def check_template(source: str) -> None:
    """Check that a template names every tile.

    Raises:
        ConfigError: if it lacks a place, or has an unknown one.
    """
    names = {name for name, _ in _PLACE.findall(source)}
    if "${" in source:
        raise ConfigError(f"{source:.200}: write {{z}}, {{x}} and {{y}} without the dollar signs")
    if unknown := sorted(names - _KNOWN):
        raise ConfigError(
            f"{source:.200}: {{{unknown[0]}}} is unknown; expected {{z}}, {{x}}, {{y}} or {{-y}}, "
            "{q}, {s} and {env:NAME}"
        )
    if "q" not in names and not ({"z", "zoom"} & names and "x" in names and {"y", "-y"} & names):
        raise ConfigError(
            f"{source:.200}: a template of tiles needs {{z}}, {{x}} and {{y}} (or {{-y}} if rows "
            "count from the south), or {q}"
        )


def tile_address(template: str, zoom: int, row: int, col: int) -> str:
    """Return the address of a tile, still with places for keys.

    Args:
        template: with {z} or {zoom}, {x}, {y} from the north or {-y} from the south, {q} for the
            quadkey, {s} or {switch:a,b,c} for hosts that share the work.
        row: from the north.
        col: from the west.
    """

    def value(place: re.Match[str]) -> str:
        name, argument = place[1], place[2]
        if name == "env":
            return place[0]
        if name in {"s", "switch"}:
            hosts = (argument or _SUBDOMAINS).split(",")
            return hosts[(row + col) % len(hosts)]
        return {
            "z": str(zoom),
            "zoom": str(zoom),
            "x": str(col),
            "y": str(row),
            "-y": str(2**zoom - 1 - row),
            "q": quadkey(zoom, row, col),
        }[name]

    return _PLACE.sub(value, template)


def host_of(address: str) -> str:
    """Return the host of an address without places, as a part of a file name."""
    host = split_address(_PLACE.sub("", without_keys(address))).hostname or ""
    return slug(host.strip("."))


def quadkey(zoom: int, row: int, col: int) -> str:
    """Return the quadkey of a tile: a digit for each level, from the coarsest."""
    return "".join(str((col >> bit & 1) + 2 * (row >> bit & 1)) for bit in reversed(range(zoom)))
