"""WMS: the layers of a Web Map Service, which draws any box."""

from contextlib import suppress

from pyproj import CRS
from pyproj.exceptions import CRSError

from roadseg.commands.services.images.capabilities import (
    Element,
    choose_layer,
    inherited,
    link_of,
    own_query,
    terms_of,
    text_of,
    with_query,
)
from roadseg.commands.services.images.fetching import Credit, Fetch, plain
from roadseg.commands.services.images.levels import WEB_MERCATOR, Level, drawn_level, xyz_level
from roadseg.commands.services.images.tiles import TileService
from roadseg.errors import ConfigError, DataError
from roadseg.system.text import first
from roadseg.system.web.answers import BadAnswerError, join_address, whole_number

_TILE_PX = 512  # Rows and columns of what is drawn by one request.
_LEAST_PX = 64  # Of the same; a service that draws fewer would be asked for ever.
_FORMATS = ("image/png", "image/png; mode=24bit", "image/jpeg", "image/webp")
_ASKED = (
    *("service", "request", "version", "layers", "styles", "crs", "srs", "bbox", "width"),
    *("height", "format", "transparent", "updatesequence"),
)


def wms_service(root: Element, address: str, fetch: Fetch) -> TileService:
    """Choose a layer of a WMS by its capabilities, and lay tiles over the area of a fetch.

    Args:
        root: of the capabilities, version 1.1.1 or 1.3.0.
        address: of the capabilities, whose other parameters, such as a key, maps need too.
        fetch: says which layer; without a size of pixels its zoom is one of Web Mercator, whose
            pixels are drawn.

    Raises:
        ConfigError: if the layer or the size of pixels has to be chosen.
        DataError: if the service draws no picture that can be used.

    Source: OpenGIS Web Map Service Implementation Specification 1.3.0 (OGC 06-042).
    """
    layer, zoom, gsd_m = fetch.request.layer, fetch.request.zoom, fetch.request.gsd_m
    parents = {child: parent for parent in root.iter() for child in parent}
    layers = {text_of(each, "Name"): each for each in root.iter("Layer") if text_of(each, "Name")}
    titles = {name: text_of(each, "Title") for name, each in layers.items()}
    chosen = layers[name := choose_layer(titles, layer, kind="WMS")]
    if gsd_m is None and zoom is None:
        raise ConfigError("choose the size of the pixels of a WMS: --gsd-m in metres on the ground")
    crs, code = _crs(chosen, parents, name)
    side = min([_TILE_PX, *_limits(root)])
    gsd_m = gsd_m or xyz_level(zoom or 0).gsd_m(fetch.area)
    level = drawn_level(crs, gsd_m, fetch.area, tile_px=side)
    question = _question(root, address) | {"layers": name}
    question |= {"width": str(side), "height": str(side)}
    base = question.pop("")
    is_new = question["version"] == "1.3.0"
    question |= {"crs" if is_new else "srs": code}
    is_swapped = is_new and crs.axis_info[0].direction == "north"

    def ask(row: int, col: int) -> str:
        return with_query(base, question | {"bbox": _box(level, row, col, is_swapped)})

    return TileService("WMS", name, level, ask, _credit(root, chosen, parents))


def _crs(layer: Element, parents: dict[Element, Element], name: str) -> tuple[CRS, str]:
    """Return a CRS that the service draws, and its code: Web Mercator, a metric one, or degrees."""
    names = [
        code
        for tag in ("CRS", "SRS")
        for each in inherited(layer, parents, tag)
        for code in (each.text or "").split()
    ]
    known: dict[str, CRS] = {}
    for code in dict.fromkeys(names):
        try:
            known[code] = CRS.from_user_input(code.replace("CRS:84", "OGC:CRS84"))
        except CRSError:
            continue
    for code, crs in known.items():
        if crs == WEB_MERCATOR:
            return crs, code
    projected = [(crs, code) for code, crs in known.items() if crs.is_projected]
    degrees = [(known[code], code) for code in ("EPSG:4326", "CRS:84") if code in known]
    if not projected + degrees:
        raise DataError(
            f"layer {name}: found no known coordinate system among {first(names) or 'none'}"
        )
    return (projected + degrees)[0]


def _limits(root: Element) -> list[int]:
    limits = []
    for name in ("MaxWidth", "MaxHeight"):
        # Services that state no limit, or one that cannot be, are asked for what is usual.
        with suppress(BadAnswerError):
            limits.append(whole_number(text_of(root, f"Service/{name}"), least=_LEAST_PX))
    return limits


def _question(root: Element, address: str) -> dict[str, str]:
    """Return the parameters of GetMap without the box, and under "" the address."""
    get = root.find("Capability/Request/GetMap/DCPType/HTTP/Get/OnlineResource")
    formats = [(each.text or "") for each in root.findall("Capability/Request/GetMap/Format")]
    form = next((each for each in _FORMATS if each in formats), "")
    if not form:
        raise DataError(
            f"the WMS draws {first(formats) or 'nothing'}, expected one of {', '.join(_FORMATS)}"
        )
    base = join_address(address, link_of(get))
    return own_query(address, base, _ASKED) | {
        "": base,
        "service": "WMS",
        "request": "GetMap",
        "version": "1.3.0" if root.get("version", "") >= "1.3" else "1.1.1",
        "styles": "",
        "format": form,
        "transparent": "TRUE",
    }


def _box(level: Level, row: int, col: int, is_swapped: bool) -> str:  # noqa: FBT001 - of the CRS
    """Return the box of a tile as a WMS takes it."""
    high, wide = (side * level.pixel for side in level.tile_px)
    west, north = level.left + col * wide, level.top - row * high
    south, east = north - high, west + wide
    box = (south, west, north, east) if is_swapped else (west, south, east, north)
    return ",".join(f"{number:.12g}" for number in box)


def _credit(root: Element, layer: Element, parents: dict[Element, Element]) -> Credit:
    """Return who is to be named, the terms, and the time of a layer."""
    named = [text_of(each, "Title") for each in inherited(layer, parents, "Attribution")]
    person = text_of(root, "Service/ContactInformation/ContactPersonPrimary/ContactOrganization")
    credit = terms_of(root.find("Service"), *(named or [person]))
    times = [
        e for e in inherited(layer, parents, "Dimension") if e.get("name", "").lower() == "time"
    ]
    return Credit(
        credit.attribution, credit.licence, plain(times[0].get("default")) if times else ""
    )
