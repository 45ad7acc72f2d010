"""Fetch the parts of rasters that lie in an area, each as an image."""

import math
from collections.abc import Sequence

from pyproj import CRS

from roadseg.commands.services.images.fetching import Fetch, FetchedImage, FetchSummary
from roadseg.commands.services.images.rasters import (
    RemoteRaster,
    copy_part,
    open_remote,
    plan_cut,
)
from roadseg.commands.services.images.records import Credit, Origin, is_fetched, write_record
from roadseg.errors import ConfigError, DataError
from roadseg.raster.grid import Grid
from roadseg.system.text import count, size_text
from roadseg.system.web.keys import without_keys


def fetch_rasters(fetch: Fetch, rasters: Sequence[RemoteRaster]) -> FetchSummary:
    """Fetch the part of each raster that lies in the area.

    Raises:
        ConfigError: if it is more than the limit, or one name is given for several images.
        DataError: if a raster cannot be read, or none touches the area.
        OutputError: if an image cannot be written, or another one has its name.
    """
    if fetch.request.name and len(rasters) > 1:
        raise ConfigError(f"--name: found {len(rasters)} images, expected one; leave the name out")
    plans = {raster: plan for raster in rasters if (plan := _plan(fetch, raster)) is not None}
    if not plans:
        raise DataError(f"{without_keys(fetch.request.source)}: lies outside of {fetch.area.text}")
    size_mb = sum(size for image, size in plans.values() if image.state != "there already") / 1e6
    expected = f"about {size_text(size_mb)}"
    fetch.require_within_limit(size_mb, f"{count(len(plans), 'image')}, {expected}")
    images = [
        image if fetch.dry_run or image.state == "there already" else _copy(fetch, raster, image)
        for raster, (image, _) in plans.items()
    ]
    return FetchSummary(images, expected, fetch.client.received / 1e6)


def _plan(fetch: Fetch, raster: RemoteRaster) -> tuple[FetchedImage, int] | None:
    """Return the image that a raster gives and the bytes to fetch; None outside of the area."""
    with open_remote(raster, fetch.client, fetch.cache) as (source, size):
        plan = plan_cut(raster, source, size, fetch.area)
        if plan is None:
            return None
        path, origin = fetch.path(raster.name), _origin(fetch, raster)
        whole = Grid(CRS.from_wkt(source.crs.to_wkt()), source.transform, *source.shape)
    grid = whole.crop(*plan.window)
    state = "there already" if is_fetched(path, origin) else "to be fetched"
    image = FetchedImage(
        path,
        state,
        grid.height,
        grid.width,
        round(math.sqrt(math.prod(grid.pixel_size_m)), 4),
        ":".join(grid.crs.to_authority() or [grid.crs.name]),
        origin.credit.copyright,
        [],
    )
    return image, plan.size


def _origin(fetch: Fetch, raster: RemoteRaster) -> Origin:
    return fetch.origin(
        raster.service, raster.credit, source=without_keys(raster.address), layer=raster.layer
    )


def _copy(fetch: Fetch, raster: RemoteRaster, image: FetchedImage) -> FetchedImage:
    with open_remote(raster, fetch.client, fetch.cache) as (source, size):
        plan = plan_cut(raster, source, size, fetch.area)
        if plan is None:
            raise DataError(f"{without_keys(raster.address)}: changed while it was fetched")
        origin = _origin(fetch, raster)
        # What the file itself says of its owner counts where the service says nothing.
        own = source.tags().get("TIFFTAG_COPYRIGHT", "").strip()
        if own and not origin.credit.copyright:
            credit = Credit(own, "", origin.credit.date)
            origin = fetch.origin(raster.service, credit, source=origin.source, layer=raster.layer)
        copy_part(image.image, source, plan.window, origin)
    write_record(image.image, origin, {"gsd_m": image.gsd_m})
    return FetchedImage(
        image.image,
        "fetched",
        image.height,
        image.width,
        image.gsd_m,
        image.crs,
        origin.credit.copyright,
        [],
    )
