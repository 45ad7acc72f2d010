"""Map services: layers and tiles of a WMTS, and layers of a WMS, which draws any box.

Both answer with capabilities, XML that names layers, levels and terms of use.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from urllib.parse import parse_qsl, quote
from xml.etree import ElementTree as ET

from pyproj import CRS
from pyproj.exceptions import CRSError

from roadseg.commands.services.images.fetching import Credit, Fetch, joined_texts, plain
from roadseg.commands.services.images.levels import (
    WEB_MERCATOR,
    Level,
    choose_level,
    drawn_level,
    xyz_level,
)
from roadseg.commands.services.images.tiles import TileService
from roadseg.errors import ConfigError, DataError
from roadseg.system.text import first
from roadseg.system.web.answers import (
    Answer,
    BadAnswerError,
    join_address,
    split_address,
    whole_number,
)

_LINK = "{http://www.w3.org/1999/xlink}href"
_NO_TERMS = {"none", "no conditions apply", "keine"}
_LISTED = 40  # Names of layers that an error lists.
_FORMATS = (
    *("image/png", "image/png; mode=24bit", "image/jpeg", "image/jpg", "image/webp"),
    "image/png8",
)
# Of a WMTS: the side of a pixel to which scale denominators refer, in metres; a degree at the
# equator of WGS 84, as the standard has it; and other names of Web Mercator.
_PIXEL_M = 0.00028
_METRES_PER_DEGREE = 111_319.49079327358
_MERCATORS = ("900913", "3785", "102100", "102113")
_OF_TILES = (  # Parameters that say what was asked for.
    *("service", "request", "version", "acceptversions", "format", "updatesequence", "sections"),
)
_PLACE = re.compile(r"\{([^{}]+)\}")
_PLACES = ("tilematrixset", "tilematrix", "tilerow", "tilecol")
# Of a WMS: rows and columns of what is drawn by one request, and the fewest; a service that draws
# fewer would be asked for ever.
_TILE_PX, _LEAST_PX = 512, 64
_OF_MAPS = (
    *("service", "request", "version", "layers", "styles", "crs", "srs", "bbox", "width"),
    *("height", "format", "transparent", "updatesequence"),
)

Element = ET.Element


def read_xml(answer: Answer) -> Element:
    """Return the root of XML, with names without their namespaces.

    Raises:
        BadAnswerError: if the answer is not XML.
    """
    # A text that declares entities could become very large; no service needs them.
    if b"<!ENTITY" in answer.body:
        raise BadAnswerError("found XML that declares entities, expected capabilities")
    try:
        root = ET.fromstring(answer.body)  # noqa: S314 - without entities
    except (ET.ParseError, LookupError) as error:  # Or an unknown encoding.
        raise BadAnswerError(f"found {answer.description}, expected capabilities in XML") from error
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    if "exception" in root.tag.lower():
        raise BadAnswerError(f"the service refuses: {answer.description}")
    return root


def _text_of(element: Element, path: str) -> str:
    """Return the text at a path below an element; empty if there is none."""
    return (element.findtext(path) or "").strip()


def _link_of(element: Element | None) -> str:
    """Return the address in an element of XLink; empty if there is none."""
    return "" if element is None else element.get(_LINK, "").strip()


def _credit(service: Element | None, attributions: Iterable[str], date: str) -> Credit:
    """Return the terms in the part of capabilities that describes the service."""
    terms = [] if service is None else [_text_of(service, n) for n in ("AccessConstraints", "Fees")]
    licence = joined_texts([each for each in terms if each.lower() not in _NO_TERMS])
    return Credit(joined_texts(list(attributions)), licence, plain(date))


def _choose_layer(
    layers: Iterable[Element], key: str, wanted: str | None, *, kind: str
) -> tuple[str, Element]:
    """Return the name of a layer, and the layer; if none is wanted, the only one.

    Args:
        layers: of which those without a name cannot be chosen.
        key: element with the name of a layer.

    Raises:
        ConfigError: if there is no such layer, or a choice of several; the error lists them.
    """
    named = {name: each for each in layers if (name := _text_of(each, key))}
    if wanted is None and len(named) == 1:
        return next(iter(named.items()))
    if wanted in named:
        return wanted, named[wanted]
    titles = {name: _text_of(each, "Title") for name, each in named.items()}
    listed = [f"{name} ({title})" if title else name for name, title in titles.items()]
    asked = "name one with --layer" if wanted is None else f"there is no layer {wanted!r}"
    listing = first(listed, _LISTED) or "none"
    raise ConfigError(f"the {kind} has {len(named)} layers, {asked}: {listing}")


def query_of(address: str) -> dict[str, str]:
    """Return the parameters of an address, with names in lower case and places for keys."""
    return {name.lower(): value for name, value in parse_qsl(split_address(address).query)}


def _own_query(address: str, other: str, asked: Collection[str]) -> dict[str, str]:
    """Return the parameters of an address that another one of its host needs too, such as a key.

    Args:
        other: address that the service names.
        asked: names of parameters that say what was asked for.
    """
    if split_address(address).hostname != split_address(other).hostname:
        return {}
    return {name: value for name, value in query_of(address).items() if name not in asked}


def with_query(address: str, parameters: dict[str, str], *, leave_out: tuple[str, ...] = ()) -> str:
    """Return an address with parameters, and those that it has itself under other names.

    Places for keys stay as they are.
    """
    parts = split_address(address)
    own = parse_qsl(parts.query, keep_blank_values=True)
    names = {name.lower() for name in parameters} | set(leave_out)
    kept = [(name, value) for name, value in own if name.lower() not in names]
    pairs = [*kept, *parameters.items()]
    query = "&".join(f"{quote(name)}={quote(value, safe=',:/{}')}" for name, value in pairs)
    return parts._replace(query=query, fragment="").geturl()


def capabilities_address(address: str, service: str) -> str:
    """Return where the capabilities of a service are: an XML file, or the answer to a question."""
    query = query_of(address)
    if split_address(address).path.lower().endswith(".xml") or query.get("request"):
        return address
    return with_query(address, {"service": service, "request": "GetCapabilities"})


def _inherited(layer: Element, parents: dict[Element, Element], tag: str) -> Iterator[Element]:
    """Yield the elements of a name in a layer and in those around it."""
    around: Element | None = layer
    while around is not None:
        yield from around.findall(tag)
        around = parents.get(around)


def wmts_service(root: Element, address: str, fetch: Fetch) -> TileService:
    """Choose a layer and a level of a WMTS by its capabilities.

    Args:
        address: of the capabilities, whose other parameters, such as a key, tiles need too.
        fetch: says which layer, and the level or the size of pixels, see `choose_level`.

    Raises:
        ConfigError: if the layer or the level has to be chosen, or is not there.
        DataError: if the layer has no tiles that can be used.

    Source: OpenGIS Web Map Tile Service Implementation Standard 1.0.0 (OGC 07-057r7).
    """
    layers, wanted = root.findall("Contents/Layer"), fetch.request.layer
    name, chosen = _choose_layer(layers, "Identifier", wanted, kind="WMTS")
    linked = [_text_of(link, "TileMatrixSet") for link in chosen.findall("TileMatrixSetLink")]
    sets = {_text_of(each, "Identifier"): each for each in root.findall("Contents/TileMatrixSet")}
    levels = {each: list(_levels(sets[each])) for each in linked if each in sets}
    usable = {each: found for each, found in levels.items() if found}
    if not usable:
        raise DataError(
            f"layer {name} has no set of tiles in a known coordinate system "
            f"(found {first(linked) or 'none'})"
        )
    # Web Mercator is what most tools expect.
    best = next(
        (s for s, found in usable.items() if found[0].crs == WEB_MERCATOR), next(iter(usable))
    )
    level = choose_level(usable[best], fetch)
    template, values = _template(root, chosen, address)
    values |= {"tilematrixset": best, "tilematrix": level.name}
    times = (
        _text_of(each, "Default")
        for each in chosen.findall("Dimension")
        if _text_of(each, "Identifier").lower() == "time"
    )
    provider = _text_of(root, "ServiceProvider/ProviderName")
    credit = _credit(root.find("ServiceIdentification"), [provider], next(times, ""))

    def tile_address(row: int, col: int) -> str:
        return _filled(template, values | {"tilerow": str(row), "tilecol": str(col)})

    return TileService("WMTS", name, level, tile_address, credit)


def _levels(matrices: Element) -> Iterator[Level]:
    """Yield the levels of a set of matrices, from the coarsest; none if its CRS is unknown."""
    text = _text_of(matrices, "SupportedCRS")
    try:
        crs = WEB_MERCATOR if text.rpartition(":")[2] in _MERCATORS else CRS.from_user_input(text)
    except CRSError:
        return
    if not (crs.is_projected or crs.is_geographic):
        return
    # Names of the form urn:... have the axes in the order of the CRS, often north first.
    is_swapped = crs.axis_info[0].direction == "north" and "urn:" in text
    levels = [_level(each, crs, is_swapped=is_swapped) for each in matrices.findall("TileMatrix")]
    yield from sorted(levels, key=lambda level: -level.pixel)


def _level(matrix: Element, crs: CRS, *, is_swapped: bool) -> Level:
    name = _text_of(matrix, "Identifier")
    unit_m = _METRES_PER_DEGREE if crs.is_geographic else crs.axis_info[0].unit_conversion_factor
    corner = _text_of(matrix, "TopLeftCorner").replace(",", " ").split()
    sides = ("TileHeight", "TileWidth", "MatrixHeight", "MatrixWidth")
    try:
        left, top = map(float, reversed(corner) if is_swapped else corner)
        scale = float(_text_of(matrix, "ScaleDenominator"))
        high, wide, rows, cols = (int(_text_of(matrix, part)) for part in sides)
    except ValueError as error:
        raise DataError(
            f"level {name:.40} of the WMTS: expected a corner, a scale and sizes ({error})"
        ) from error
    pixel = scale * _PIXEL_M / unit_m
    return Level(name, crs, left, top, pixel, (high, wide), (rows, cols))


def _template(root: Element, layer: Element, address: str) -> tuple[str, dict[str, str]]:
    """Return the template of the addresses of tiles, and the values of all tiles for its places."""
    style = next(
        (_text_of(s, "Identifier") for s in layer.findall("Style") if s.get("isDefault") == "true"),
        _text_of(layer, "Style/Identifier"),
    )
    formats = [(each.text or "").strip() for each in layer.findall("Format")]
    resources = {
        each.get("format", ""): join_address(address, each.get("template", ""))
        for each in layer.findall("ResourceURL")
        if each.get("resourceType") == "tile" and each.get("template")
    }
    offered = [*resources] or formats
    form = next((each for each in _FORMATS if each in offered), "")
    if not form:
        raise DataError(
            f"layer {_text_of(layer, 'Identifier')}: found tiles of {first(offered) or 'no type'}, "
            f"expected one of {', '.join(_FORMATS)}"
        )
    dimensions = {
        _text_of(each, "Identifier").lower(): _text_of(each, "Default")
        for each in layer.findall("Dimension")
    }
    name = _text_of(layer, "Identifier")
    values = {"layer": name, "style": style, "format": form} | dimensions
    if resources:
        own = _own_query(address, resources[form], _OF_TILES)
        return with_query(resources[form], own) if own else resources[form], values
    operations = root.findall("OperationsMetadata/Operation")
    links = [
        _link_of(get)
        for each in operations
        if each.get("name") == "GetTile"
        for get in each.findall("DCP/HTTP/Get")
    ]
    asked = {"service": "WMTS", "request": "GetTile", "version": "1.0.0"}
    asked |= {name: f"{{{name}}}" for name in [*values, *_PLACES]}
    base = join_address(address, links[0]) if links else address
    asked |= _own_query(address, base, {*_OF_TILES, *asked})
    return with_query(base, asked, leave_out=_OF_TILES), values


def _filled(template: str, values: dict[str, str]) -> str:
    """Return a template with values in its places, whose names are in upper or lower case."""

    def value(place: re.Match[str]) -> str:
        known = values.get(place[1].lower())
        return place[0] if known is None else quote(known, safe=":")

    return _PLACE.sub(value, template)


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
    name, chosen = _choose_layer(root.iter("Layer"), "Name", layer, kind="WMS")
    if gsd_m is None and zoom is None:
        raise ConfigError("choose the size of the pixels of a WMS: --gsd-m in metres on the ground")
    crs, code = _crs(chosen, parents, name)
    side = min([_TILE_PX, *_limits(root)])
    gsd_m = gsd_m or xyz_level(zoom or 0).gsd_m(fetch.area)
    level = drawn_level(crs, gsd_m, fetch.area, tile_px=side)
    base, question = _question(root, address)
    question |= {"layers": name, "width": str(side), "height": str(side)}
    is_new = question["version"] == "1.3.0"
    question |= {"crs" if is_new else "srs": code}
    is_swapped = is_new and crs.axis_info[0].direction == "north"

    def tile_address(row: int, col: int) -> str:
        return with_query(base, question | {"bbox": _box(level, row, col, is_swapped)})

    named = [_text_of(each, "Title") for each in _inherited(chosen, parents, "Attribution")]
    person = _text_of(root, "Service/ContactInformation/ContactPersonPrimary/ContactOrganization")
    dimensions = _inherited(chosen, parents, "Dimension")
    times = (e.get("default", "") for e in dimensions if e.get("name", "").lower() == "time")
    credit = _credit(root.find("Service"), named or [person], next(times, ""))
    return TileService("WMS", name, level, tile_address, credit)


def _crs(layer: Element, parents: dict[Element, Element], name: str) -> tuple[CRS, str]:
    """Return a CRS that the service draws, and its code: Web Mercator, a metric one, or degrees."""
    names = [
        code
        for tag in ("CRS", "SRS")
        for each in _inherited(layer, parents, tag)
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
            limits.append(whole_number(_text_of(root, f"Service/{name}"), least=_LEAST_PX))
    return limits


def _question(root: Element, address: str) -> tuple[str, dict[str, str]]:
    """Return the address of GetMap, and its parameters without layer, size and box."""
    get = root.find("Capability/Request/GetMap/DCPType/HTTP/Get/OnlineResource")
    formats = [(each.text or "") for each in root.findall("Capability/Request/GetMap/Format")]
    form = next((each for each in _FORMATS if each in formats), "")
    if not form:
        raise DataError(
            f"the WMS draws {first(formats) or 'nothing'}, expected one of {', '.join(_FORMATS)}"
        )
    base = join_address(address, _link_of(get))
    return base, _own_query(address, base, _OF_MAPS) | {
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
