import pytest
import rasterio
from affine import Affine
from rasterio.errors import NotGeoreferencedWarning

from roadseg.commands.stages import train
from roadseg.learn.training.rehearsal import Pace


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


@pytest.fixture
def steady_pace(monkeypatch):
    """Let each rehearsal find the same pace, however busy this machine is."""
    pace = Pace(window_s=0.1, held_out_s=0.01)
    monkeypatch.setattr(train, "measure_pace", lambda *_, **__: pace)
