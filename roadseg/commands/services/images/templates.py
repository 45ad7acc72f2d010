"""Templates of tiles: XYZ and TMS addresses with places for zoom, column and row."""

import re

from roadseg.commands.services.images.records import slug
from roadseg.errors import ConfigError
from roadseg.system.web.keys import without_keys
from roadseg.system.web.parsing import split_address

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
        zoom: level.
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
