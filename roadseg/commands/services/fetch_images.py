"""fetch images: images of an area from a service. Writes GeoTIFFs, and a record beside each."""

from pathlib import Path

from roadseg.commands.services.images.fetching import Fetch, FetchSummary, ImageRequest, slug
from roadseg.commands.services.images.map_services import (
    Element,
    capabilities_address,
    query_of,
    read_xml,
    wms_service,
    wmts_service,
)
from roadseg.commands.services.images.rasters import RemoteRaster, fetch_rasters, is_raster
from roadseg.commands.services.images.stac import PREFIX, read_json_answer, stac_rasters
from roadseg.commands.services.images.tiles import fetch_tiles, is_template, template_service
from roadseg.errors import ConfigError, DataError
from roadseg.roads.labels.areas import read_area
from roadseg.system.files import user_cache, with_home
from roadseg.system.web.answers import Answer, split_address
from roadseg.system.web.cache import Cache
from roadseg.system.web.client import Client, RequestPolicy
from roadseg.system.web.keys import with_keys, without_keys

_JSON_SUFFIXES = (".json", ".geojson")
_PICTURE_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp")
_KINDS = (
    "a template of tiles, the address of a WMTS, a WMS or a raster, or a STAC item, collection or "
    "search"
)


def run(
    request: ImageRequest, *, dry_run: bool = False, policy: RequestPolicy | None = None
) -> FetchSummary:
    """Fetch images of an area.

    Earlier answers are read from the cache, and images that exist already are kept.

    Args:
        dry_run: whether only to plan; the service is asked for its capabilities and one tile.
        policy: limits for requests; by default those of the request.

    Raises:
        ConfigError: if a choice is missing, such as a layer, or the amount exceeds the limit.
        DataError: if the service cannot be read, or has nothing in the area.
        OutputError: if an image cannot be written.
    """
    if request.zoom is not None and request.gsd_m is not None:
        raise ConfigError("--zoom and --gsd-m: both choose the size of the pixels; give one")
    area = read_area(request.area)
    policy = policy or RequestPolicy(per_second=request.rate, hosts=frozenset(request.hosts))
    client = Client(
        home=request.source.removeprefix(PREFIX),
        extra=request.headers,
        policy=policy,
        # A plan is an estimate; this is where it ends if that was far off.
        most_bytes=round(2e6 * request.limit_mb),
    )
    cache = Cache(with_home(request.cache) if request.cache else user_cache() / "web")
    with client:
        return _fetch(Fetch(request, area, client, cache, dry_run))


def is_service(source: str) -> bool:
    """Return whether a source is a service from which images have to be fetched."""
    address = source.lower()
    if source.startswith(PREFIX) or ("://" in source and is_template(source)):
        return True
    parts = split_address(address, ConfigError)
    if parts.scheme not in {"http", "https"} or is_raster(address):
        return False
    is_ogc = "wmts" in address or "wms" in parts.path or "service=wms" in parts.query
    return is_ogc or parts.path.endswith(_JSON_SUFFIXES)


def _fetch(fetch: Fetch) -> FetchSummary:
    """Fetch from a source of any kind."""
    request = fetch.request
    address = with_keys(request.source)
    if is_template(request.source):
        return fetch_tiles(fetch, request.source, template_service(fetch))
    path = split_address(address).path.lower()
    if request.source.startswith(PREFIX) or path.endswith(_JSON_SUFFIXES):
        return fetch_rasters(fetch, stac_rasters(fetch))
    if is_raster(address):
        name = slug(Path(split_address(without_keys(request.source)).path).stem)
        return fetch_rasters(fetch, [RemoteRaster(request.source, name or "image", "raster")])
    if "://" not in address:
        raise ConfigError(f"{without_keys(request.source):.200}: expected {_KINDS}")
    if path.endswith(_PICTURE_SUFFIXES):
        raise ConfigError(
            f"{without_keys(request.source):.200}: expected a template of tiles, with {{z}}, {{x}} "
            "and {y} in the places of the zoom, column and row of a tile"
        )
    return _fetch_service(fetch)


def _fetch_service(fetch: Fetch) -> FetchSummary:
    """Fetch from a service that answers with capabilities, or with JSON of STAC."""
    request = fetch.request
    given = query_of(request.source).get("service", "").upper()
    kind = given or ("WMTS" if "wmts" in request.source.lower() else "WMS")
    address = capabilities_address(request.source, kind)
    root = fetch.client.get(address, _read_service)
    if root is None:
        return fetch_rasters(fetch, stac_rasters(fetch))
    if root.find("Contents/Layer") is not None:
        service = wmts_service(root, address, fetch)
    elif root.find("Capability/Layer") is not None:
        service = wms_service(root, address, fetch)
    else:
        raise DataError(f"{without_keys(address)}: found XML <{root.tag}>, expected {_KINDS}")
    return fetch_tiles(fetch, address, service)


def _read_service(answer: Answer) -> Element | None:
    """Return the root of capabilities; None if the answer is JSON."""
    if answer.body.lstrip()[:1] == b"{":
        read_json_answer(answer)
        return None
    return read_xml(answer)
