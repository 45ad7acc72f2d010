"""STAC: items of a file, a collection or a search, and the images that they name."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import shapely
from shapely.errors import ShapelyError
from shapely.geometry import shape

from roadseg.commands.services.images.fetching import Credit, Fetch, joined_texts, plain, slug
from roadseg.commands.services.images.map_services import with_query
from roadseg.commands.services.images.rasters import RASTER_SUFFIXES, RemoteRaster
from roadseg.errors import ConfigError, DataError
from roadseg.roads.labels.areas import Area
from roadseg.system.records import parse_json
from roadseg.system.text import first
from roadseg.system.web.answers import Answer, BadAnswerError, join_address, split_address
from roadseg.system.web.client import Client
from roadseg.system.web.keys import without_keys

Json = Mapping[str, Any]

PREFIX = "stac:"

_MOST_ITEMS = 2000
_PAGE = 100  # Items that are asked for at once.
_IMAGE = re.compile(r"image/(tiff|vnd\.stac\.geotiff|jp2)", re.IGNORECASE)
_MAIN = ("visual", "image", "data")  # Roles and names of the asset that is meant if none is named.


def read_json_answer(answer: Answer) -> Json:
    """Return the JSON object of an answer.

    Raises:
        BadAnswerError: if it is something else.
    """
    try:
        return _parse_object(answer.text.removeprefix("\ufeff"))
    except ValueError as error:
        raise BadAnswerError(f"found {answer.description}, expected a JSON object") from error


def stac_rasters(fetch: Fetch) -> list[RemoteRaster]:
    """Return the images of the STAC items that touch the area of a fetch.

    Its source is `stac:` and the address of a search; or the address or path of the JSON of an
    item, an ItemCollection or a Collection.

    Raises:
        ConfigError: if the asset has to be chosen, or is not there.
        DataError: if there is no item in the area, or one cannot be read.

    Source: STAC 1.0 and 1.1, and STAC API 1.0: Item Search, Features.
    """
    source, area, client = fetch.request.source, fetch.area, fetch.client
    touching = (item for item in _items(source, area, client) if _touches(item[1], area))
    items = list(islice(touching, _MOST_ITEMS + 1))
    if len(items) > _MOST_ITEMS:
        raise ConfigError(
            f"{without_keys(source)}: more than {_MOST_ITEMS} items in the area; choose a smaller "
            "area, or narrow the search, such as by &datetime="
        )
    if not items:
        raise DataError(f"{without_keys(source)}: found no item that touches {area.text}")
    credits_of: dict[str, Credit] = {}
    rasters = [_raster(base, item, client, fetch.request.asset, credits_of) for base, item in items]
    names = [raster.name for raster in rasters]
    if double := {name for name, times in Counter(names).items() if times > 1}:
        raise DataError(
            f"{without_keys(source)}: several items have the id {first(sorted(double), 1)}"
        )
    return rasters


def _items(source: str, area: Area, client: Client) -> Iterator[tuple[str, Json]]:
    """Yield items, each with the address to which its own are relative."""
    if source.startswith(PREFIX):
        address = source.removeprefix(PREFIX)
        parts = split_address(address)
        if not parts.path.rstrip("/").endswith(("/search", "/items")):  # But that of its API.
            address = parts._replace(path=f"{parts.path.rstrip('/')}/search").geturl()
        yield from _pages(_in_box(address, area), client)
        return
    found = _read(source, client)
    if "://" not in source:
        source = str(Path(source).resolve())
    kind = found.get("type")
    if kind == "Feature":
        yield source, found
    elif kind == "FeatureCollection":
        yield from _page_items(source, found)
    elif kind == "Collection":
        yield from _collection_items(source, found, area, client)
    else:
        raise ConfigError(
            f"{without_keys(source)}: found JSON of type {kind or 'unknown'}, expected a STAC "
            "item, an ItemCollection or a Collection; for a search, write stac:URL?collections=NAME"
        )


def _in_box(address: str, area: Area) -> str:
    box = ",".join(f"{number:.7f}" for number in area.degrees.bounds)
    page = {} if "limit=" in address else {"limit": str(_PAGE)}
    return with_query(address, {"bbox": box} | page)


def _pages(address: str, client: Client) -> Iterator[tuple[str, Json]]:
    """Yield the items of all pages of an answer."""
    seen = set[str]()
    while address not in seen:
        seen.add(address)
        page = client.get(address, read_json_answer)
        if not isinstance(page.get("features"), list):
            raise DataError(
                f"{without_keys(address)}: found JSON without features, expected an ItemCollection"
            )
        yield from _page_items(address, page)
        link = _link(page, "next")
        if link is None or not page["features"]:  # Some servers name a next page without end.
            return
        address = join_address(address, str(link["href"]))


def _page_items(address: str, page: Json) -> Iterator[tuple[str, Json]]:
    yield from ((address, item) for item in _list(page.get("features")) if isinstance(item, dict))


def _collection_items(
    source: str, collection: Json, area: Area, client: Client
) -> Iterator[tuple[str, Json]]:
    """Yield the items of a collection: by its API, or one after the other."""
    if link := _link(collection, "items"):
        yield from _pages(_in_box(join_address(source, str(link["href"])), area), client)
        return
    links = [each for each in _links(collection) if each.get("rel") == "item"]
    if not links or len(links) > _MOST_ITEMS:
        raise ConfigError(
            f"{without_keys(source)}: found a collection with {len(links)} items, expected 1 to "
            f"{_MOST_ITEMS}; name a search instead, stac:URL?collections=NAME"
        )
    for each in links:
        address = join_address(source, str(each["href"]))
        yield address, _read(address, client)


def _read(source: str, client: Client) -> Json:
    """Read the JSON object at an address, or of a file."""
    if "://" in source:
        return client.get(source, read_json_answer)
    try:
        return _parse_object(Path(source))
    except (OSError, ValueError) as error:
        raise DataError(f"{source}: cannot be read as a JSON object ({error})") from error


def _parse_object(source: Path | str) -> Json:
    value = parse_json(source)
    if not isinstance(value, dict):
        raise ValueError(f"found {type(value).__name__}")  # noqa: TRY004 - bad input, as other JSON
    return value


def _links(entity: Json) -> Sequence[Json]:
    return [each for each in _list(entity.get("links")) if "href" in _object(each)]


def _link(entity: Json, rel: str) -> Json | None:
    return next((each for each in _links(entity) if each.get("rel") == rel), None)


def _touches(item: Json, area: Area) -> bool:
    """Return whether the geometry of an item touches the area; True if it has none."""
    if not item.get("geometry"):
        return True
    try:
        return bool(shapely.intersects(shape(item["geometry"]), area.degrees))
    except (ShapelyError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise DataError(f"item {item.get('id')}: its geometry cannot be read ({error})") from error


def _raster(
    base: str, item: Json, client: Client, wanted: str | None, credits_of: dict[str, Credit]
) -> RemoteRaster:
    name = _asset(item, wanted)
    href = str(item["assets"][name].get("href") or "")
    address = join_address(base, href)
    if not href or split_address(address).scheme in {"", "file"}:
        raise DataError(
            f"item {item.get('id')}: its asset {name} is at {href!r}, expected an address on a "
            "server or in a bucket"
        )
    return RemoteRaster(
        address=address,
        name=slug(str(item.get("id") or "")) or "item",
        service="STAC",
        layer=name,
        credit=_credit(base, item, client, credits_of),
    )


def _asset(item: Json, wanted: str | None) -> str:
    """Return the name of the asset of an item that is the image."""
    assets: dict[str, Json] = {
        k: v for k, v in _object(item.get("assets")).items() if isinstance(v, dict)
    }
    if wanted is not None:
        if wanted not in assets:
            raise ConfigError(
                f"item {item.get('id')}: has no asset {wanted!r}; it has {first(assets) or 'none'}"
            )
        return wanted
    images: dict[str, Json] = {name: asset for name, asset in assets.items() if _is_image(asset)}
    for main in _MAIN:
        meant = [n for n, a in images.items() if n == main or main in _list(a.get("roles"))]
        if len(meant) == 1:
            return meant[0]
    if len(images) == 1:
        return next(iter(images))
    listed = first(images or assets, 20)
    raise ConfigError(
        f"item {item.get('id')}: has {len(images)} images, name one with --asset: "
        f"{listed or 'none'}"
    )


def _is_image(asset: Json) -> bool:
    path = split_address(str(asset.get("href", ""))).path.lower()
    return bool(_IMAGE.match(str(asset.get("type", "")))) or path.endswith(RASTER_SUFFIXES)


def _credit(base: str, item: Json, client: Client, known: dict[str, Credit]) -> Credit:
    """Return what an item, or its collection, says of its images."""
    properties = _object(item.get("properties"))
    own = _terms(properties)
    link = _link(item, "collection")
    if not (own.attribution and own.licence) and link and "://" in base:
        address = join_address(base, str(link["href"]))
        if address not in known:
            known[address] = _terms(client.find(address, read_json_answer) or {})
        shared = known[address]
        own = Credit(own.attribution or shared.attribution, own.licence or shared.licence)
    dates = [properties.get(name) for name in ("start_datetime", "end_datetime")]
    date = properties.get("datetime") or "/".join(str(each) for each in dates if each)
    return Credit(own.attribution, own.licence, plain(str(date)))


def _terms(entity: Json) -> Credit:
    owners = [
        str(each.get("name") or "")
        for each in map(_object, _list(entity.get("providers")))
        if {"producer", "licensor"} & set(map(str, _list(each.get("roles")) or ("producer",)))
    ]
    return Credit(joined_texts(owners), plain(str(entity.get("license") or "")))


def _object(value: object) -> Json:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
