import pytest
import rasterio
from affine import Affine
from rasterio.errors import NotGeoreferencedWarning


@pytest.fixture(scope="session")
def write_nowhere():
    """Give the function that writes bytes, shape (band, row, col), without a place on earth."""

    def write(path, pixels):
        options = {"driver": "GTiff", "dtype": "uint8", "transform": Affine.identity()}
        bands, height, width = pixels.shape
        with (
            pytest.warns(NotGeoreferencedWarning),
            rasterio.open(path, "w", **options, count=bands, height=height, width=width) as target,
        ):
            target.write(pixels)

    return write
