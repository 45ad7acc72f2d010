"""WMTS: the layers and tile matrices of a Web Map Tile Service."""

from collections.abc import Iterator
from urllib.parse import quote

from pyproj import CRS
from pyproj.exceptions import CRSError

from roadseg.commands.services.images.capabilities import (
    Element,
    choose_layer,
    link_of,
    own_query,
    terms_of,
    text_of,
    with_query,
)
from roadseg.commands.services.images.fetching import Credit, Fetch, plain
from roadseg.commands.services.images.levels import WEB_MERCATOR, Level, choose_level
from roadseg.commands.services.images.tiles import TileService
from roadseg.errors import DataError
from roadseg.system.text import first
from roadseg.system.web.answers import join_address

_PIXEL_M = 0.00028  # Metres; the side of a pixel to which scale denominators refer.
_FORMATS = ("image/png", "image/jpeg", "image/jpg", "image/webp", "image/png8")
_METRES_PER_DEGREE = 111_319.49079327358  # At the equator of WGS 84, as the standard has it.
# Other names of Web Mercator.
_MERCATORS = ("900913", "3785", "102100", "102113")


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
    layers = {text_of(each, "Identifier"): each for each in root.findall("Contents/Layer")}
    titles = {name: text_of(each, "Title") for name, each in layers.items()}
    chosen = layers[name := choose_layer(titles, fetch.request.layer, kind="WMTS")]
    linked = [text_of(link, "TileMatrixSet") for link in chosen.findall("TileMatrixSetLink")]
    sets = {text_of(each, "Identifier"): each for each in root.findall("Contents/TileMatrixSet")}
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
    template = _template(root, chosen, address) | {"tilematrixset": best, "tilematrix": level.name}
    credit = terms_of(
        root.find("ServiceIdentification"), text_of(root, "ServiceProvider/ProviderName")
    )
    times = (
        plain(text_of(each, "Default"))
        for each in chosen.findall("Dimension")
        if text_of(each, "Identifier").lower() == "time"
    )
    dated = Credit(credit.attribution, credit.licence, next(times, ""))
    return TileService("WMTS", name, level, lambda row, col: _fill(template, row, col), dated)


def _levels(matrices: Element) -> Iterator[Level]:
    """Yield the levels of a set of matrices, from the coarsest; none if its CRS is unknown."""
    text = text_of(matrices, "SupportedCRS")
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
    name = text_of(matrix, "Identifier")
    unit_m = _METRES_PER_DEGREE if crs.is_geographic else crs.axis_info[0].unit_conversion_factor
    corner = text_of(matrix, "TopLeftCorner").replace(",", " ").split()
    sides = ("TileHeight", "TileWidth", "MatrixHeight", "MatrixWidth")
    try:
        left, top = map(float, reversed(corner) if is_swapped else corner)
        scale = float(text_of(matrix, "ScaleDenominator"))
        high, wide, rows, cols = (int(text_of(matrix, part)) for part in sides)
    except ValueError as error:
        raise DataError(
            f"level {name:.40} of the WMTS: expected a corner, a scale and sizes ({error})"
        ) from error
    pixel = scale * _PIXEL_M / unit_m
    return Level(name, crs, left, top, pixel, (high, wide), (rows, cols))


def _template(root: Element, layer: Element, address: str) -> dict[str, str]:
    """Return what the addresses of tiles are made from: a template, or a question."""
    style = next(
        (text_of(s, "Identifier") for s in layer.findall("Style") if s.get("isDefault") == "true"),
        text_of(layer, "Style/Identifier"),
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
            f"layer {text_of(layer, 'Identifier')}: found tiles of {first(offered) or 'no type'}, "
            f"expected one of {', '.join(_FORMATS)}"
        )
    dimensions = {
        text_of(each, "Identifier").lower(): text_of(each, "Default")
        for each in layer.findall("Dimension")
    }
    name = text_of(layer, "Identifier")
    values = {"layer": name, "style": style, "format": form} | dimensions
    if resources:
        own = own_query(address, resources[form], _ASKED)
        return values | {"": with_query(resources[form], own) if own else resources[form]}
    operations = root.findall("OperationsMetadata/Operation")
    links = [
        link_of(get)
        for each in operations
        if each.get("name") == "GetTile"
        for get in each.findall("DCP/HTTP/Get")
    ]
    asked = {"service": "WMTS", "request": "GetTile", "version": "1.0.0"}
    asked |= {name: f"{{{name}}}" for name in [*values, *_PLACES]}
    base = join_address(address, links[0]) if links else address
    asked |= own_query(address, base, {*_ASKED, *asked})
    return values | {"": with_query(base, asked, leave_out=_ASKED)}


_ASKED = ("service", "request", "version", "acceptversions", "format", "updatesequence", "sections")
_PLACES = ("tilematrixset", "tilematrix", "tilerow", "tilecol")


def _fill(template: dict[str, str], row: int, col: int) -> str:
    """Return the address of a tile; places are found in upper or lower case."""
    values = template | {"tilerow": str(row), "tilecol": str(col)}
    parts = values[""].split("{")
    filled = [parts[0]]
    for part in parts[1:]:
        name, brace, rest = part.partition("}")
        value = values.get(name.lower())
        is_place = brace and value is not None and name
        filled.append(quote(str(value), safe=":") + rest if is_place else "{" + part)
    return "".join(filled)
