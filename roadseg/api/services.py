"""Data from services: the images and the roads of an area."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from roadseg.api.files import AnyPath
from roadseg.api.notebooks import progress_in_notebook

if TYPE_CHECKING:
    from roadseg.commands.services.fetch_roads import FetchRoadsSummary
    from roadseg.commands.services.images.fetching import FetchSummary

AnyArea = AnyPath | Sequence[float]


def fetch_images(
    source: AnyPath,
    area: AnyArea,
    output: AnyPath,
    *,
    zoom: int | None = None,
    gsd_m: float | None = None,
    layer: str | None = None,
    asset: str | None = None,
    name: str | None = None,
    cache: AnyPath | None = None,
    limit_mb: float = 1000.0,
    headers: Sequence[str] = (),
    hosts: Sequence[str] = (),
    dry_run: bool = False,
) -> "FetchSummary":
    """Fetch images of an area as GeoTIFFs, like `roadseg fetch images`.

    Args:
        source: a template of tiles, the address of a WMTS, a WMS or a raster, or a STAC item,
            collection or search, with `{env:NAME}` in the place of a key.
        area: a vector file with polygons, or a box in degrees: minx, miny, maxx, maxy.
        zoom: level of the tiles, instead of `gsd_m`.
        gsd_m: pixel size on the ground in metres, for tiles and a WMS.
        layer: of a WMTS or WMS.
        asset: of STAC items.
        name: of the image, without suffix.
        cache: folder for what was fetched, instead of that of the user.
        limit_mb: megabytes to fetch, at most.
        headers: for the host of the source, such as "X-Key: {env:MY_KEY}".
        hosts: further hosts to which the source may redirect.
        dry_run: whether to tell only how much would be fetched.

    Raises:
        ConfigError: if an argument cannot be used, something has to be chosen, or it is too much.
        DataError: if the source cannot be read, or has nothing in the area.
        OutputError: if an image cannot be written.
    """
    from roadseg.commands.services.fetch_images import run
    from roadseg.commands.services.images.fetching import ImageRequest

    request = ImageRequest(
        source=str(source),
        area=area_words(area),
        output=Path(output),
        zoom=zoom,
        gsd_m=gsd_m,
        layer=layer,
        asset=asset,
        name=name,
        cache=None if cache is None else Path(cache),
        limit_mb=limit_mb,
        headers=tuple(headers),
        hosts=tuple(hosts),
    )
    with progress_in_notebook():
        return run(request, dry_run=dry_run)


def area_words(area: AnyArea) -> str:
    """Return an area as the commands take it."""
    return str(area) if isinstance(area, str | Path) else ",".join(map(str, area))


def fetch_roads(
    area: AnyArea,
    output: AnyPath,
    *,
    source: AnyPath = "overpass",
    server: str | None = None,
    release: str | None = None,
    limit_km2: float = 10_000.0,
    force: bool = False,
) -> "FetchRoadsSummary":
    """Fetch the roads of an area as road labels, like `roadseg fetch roads`.

    Args:
        area: a vector file with polygons, or a box in degrees: minx, miny, maxx, maxy.
        output: the file to write; its suffix chooses the format.
        source: "overpass", "overture", a file of OpenStreetMap data, or the path or address of
            Overture's segments.
        server: address of an Overpass server, instead of the public one.
        release: of Overture, instead of the newest one.

    Raises:
        ConfigError: if an argument cannot be used, or the output exists.
        DataError: if the area or the source cannot be read, or there is no road in the area.
        OutputError: if the file cannot be written.
    """
    from roadseg.commands.services.fetch_roads import RoadRequest, run

    request = RoadRequest(
        area=area_words(area),
        output=Path(output),
        source=str(source),
        server=server,
        release=release,
        limit_km2=limit_km2,
        force=force,
    )
    with progress_in_notebook():
        return run(request)
