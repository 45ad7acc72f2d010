import json
import shutil

import pytest
import rasterio
from affine import Affine
from rasterio.errors import NotGeoreferencedWarning

from roadseg.commands.stages import pipeline
from roadseg.config import load_config
from roadseg.system.workspace import Workspace


@pytest.fixture(scope="session")
def finished_city(tmp_path_factory, write_city):
    """Run all stages on a tiny city once; tests copy it before they change anything."""
    config_path = write_city(tmp_path_factory.mktemp("finished"))
    config = load_config(config_path)
    pipeline.run(config, Workspace(config.run), say=lambda *_: None)
    return config_path.parent


@pytest.fixture
def finished(finished_city, tmp_path):
    """Return config and workspace of a tiny city for which every stage is done."""
    folder = tmp_path / "city"
    shutil.copytree(finished_city, folder)
    settings = json.loads((folder / "roadseg.json").read_text())
    settings["imagery"]["images"] = [str(finished_city / "images")]
    settings["labels"]["roads"] = [str(finished_city / "roads")]
    (folder / "roadseg.json").write_text(json.dumps(settings))
    config = load_config(folder / "roadseg.json")
    return config, Workspace(config.run)


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
