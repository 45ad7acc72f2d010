"""Rasters and a road graph made by code."""

import warnings

import numpy as np
import pytest
import rasterio
import shapely
from affine import Affine
from pyproj import CRS
from rasterio.enums import ColorInterp
from rasterio.errors import NotGeoreferencedWarning
from rasterio.shutil import copy

from roadseg.core.graphs import graph_from_lines
from roadseg.core.grid import LOCAL_CRS
from roadseg.core.travel import add_travel

PLACE = Affine(1, 0, 660000, 0, -1, 4000000)  # in UTM zone 11, pixels of 1 m
LINES = [
    [(0, 0), (300, 0)],
    [(300, 0), (300, 400)],
    [(0, 0), (150, 200), (300, 400)],
    [(0, 0), (150, 250), (300, 400)],  # parallel
    [(300, 400), (350, 400), (350, 450), (300, 400)],  # loop
    [(900, 900), (950, 900)],  # apart
]


def rising(bands, height, width, dtype):
    """Give pixels that rise from 0 along the rows of each band."""
    values = np.arange(bands * height * width).reshape(bands, height, width) % 199
    return values.astype(dtype)


@pytest.fixture
def write_raster(tmp_path):
    """Give a function that writes a raster: of given values, or of pixels that rise from 0.

    Its CRS is EPSG:32611 and its place PLACE, unless the options of rasterio say otherwise. The
    last band is alpha where `transparent`.
    """

    def write(
        values=None,
        *,
        name="scene.tif",
        bands=3,
        shape=(40, 40),
        dtype="uint8",
        transparent=False,
        names=None,
        **profile,
    ):
        values = rising(bands, *shape, dtype) if values is None else np.asarray(values)
        values = values if values.ndim == 3 else values[np.newaxis]
        count, height, width = values.shape
        size = {"count": count, "height": height, "width": width, "dtype": values.dtype.name}
        options = {"driver": "GTiff", "crs": "EPSG:32611", "transform": PLACE} | size | profile
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotGeoreferencedWarning)
            with rasterio.open(path, "w", **options) as target:
                if transparent:
                    target.colorinterp = [*target.colorinterp[:-1], ColorInterp.alpha]
                for number, text in enumerate(names or (), 1):
                    target.set_band_description(number, text)
                target.write(values)
        return path

    return write


@pytest.fixture
def save_as(write_raster):
    """Give a function that writes values in a format that GDAL can only copy to, without place."""

    def save(values, name, *, driver, **options):
        plain = write_raster(values, name="plain.tif", crs=None, transform=Affine.identity())
        path = plain.with_name(name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotGeoreferencedWarning)
            copy(plain, path, driver=driver, **options)
        return path

    return save


def drawn_roads(corner, crs):
    """Draw a triangle with a parallel edge and a loop, and a road apart."""
    lines = np.array([shapely.LineString(np.add(line, corner)) for line in LINES], dtype=object)
    return add_travel(graph_from_lines(lines, crs), np.array([50, 30, 20, 90, 30, 30]))


@pytest.fixture
def graph():
    """Give the drawn roads, near Barcelona."""
    return drawn_roads((430_000.1, 4_580_000.7), CRS.from_epsg(32631))


@pytest.fixture
def local():
    """Give the drawn roads of a scene without georeference."""
    return drawn_roads((0.125, -600), LOCAL_CRS)
