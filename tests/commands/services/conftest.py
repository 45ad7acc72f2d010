"""Fetches from the drawn world, without waiting."""

import numpy as np
import pytest
import rasterio

from roadseg.commands.services.fetch_images import run
from roadseg.commands.services.images.fetching import ImageRequest
from roadseg.system.web.client import RequestPolicy

AREA = "8.68,49.40,8.69,49.405"


@pytest.fixture
def fetch(world, tmp_path):
    """Give a function that fetches a path of the world, and returns the images of the summary."""

    def start(source, *, area=AREA, dry_run=False, **options):
        source = f"{world.address}{source}" if source.startswith("/") else source
        hosts = frozenset(options.pop("hosts", ()))
        quick = RequestPolicy(per_second=5000, first_wait_s=0.01, quiet_s=5.0, hosts=hosts)
        places = {"output": tmp_path / "images", "cache": tmp_path / "cache"} | options
        return run(ImageRequest(source=source, area=area, **places), dry_run=dry_run, policy=quick)

    return start


@pytest.fixture
def off(maps):
    """Give a function that returns by how much an image differs from the drawn world."""

    def difference(image):
        with rasterio.open(image) as source:
            box, shape = source.bounds, source.shape
            pixels = source.read([1, 2, 3]).astype(int)
            valid = source.dataset_mask() > 0
        drawn = np.moveaxis(maps.picture(*box, *shape), 2, 0)
        return np.abs(pixels - drawn)[:, valid].max()

    return difference
