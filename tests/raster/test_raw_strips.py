"""Files of pixels and nothing else."""

import numpy as np
import pytest
import rasterio
from rasterio.errors import NotGeoreferencedWarning

from roadseg.raster.raw_strips import OpenRawFile, RawFile
from roadseg.raster.windows import Window

VALUES = np.random.default_rng(0).integers(0, 256, (6, 5, 3), dtype=np.uint8)
ALL = Window(0, 0, 6, 5)


@pytest.fixture
def file(tmp_path):
    return RawFile(tmp_path / "a.bip", 6, 5, 3)


@pytest.fixture
def written(file):
    opened = OpenRawFile(file)
    opened.write(VALUES[:, 2:], 0, 2)
    opened.write(VALUES[:, :2], 0, 0)
    opened.close()
    return file


def test_what_is_written_in_parts_is_read_in_others(written):
    assert written.path.stat().st_size == written.size == VALUES.size
    assert np.array_equal(written.read(ALL), VALUES)
    assert np.array_equal(written.read(Window(2, 1, 3, 3)), VALUES[2:5, 1:4])


def test_gdal_reads_it(written):
    written.describe()
    with pytest.warns(NotGeoreferencedWarning), rasterio.open(written.path) as source:
        assert np.array_equal(np.moveaxis(source.read(), 0, -1), VALUES)


def test_all_pixels_can_have_one_value(file):
    opened = OpenRawFile(file)
    opened.fill(7)
    opened.write(VALUES[1:2], 1, 0)
    opened.close()
    read = file.read(ALL)
    assert np.array_equal(read[1], VALUES[1])
    assert (np.delete(read, 1, axis=0) == 7).all()


@pytest.mark.parametrize("window", [ALL, Window(0, 1, 6, 4)])
def test_a_file_that_is_cut_short_is_not_read(written, window):
    written.path.write_bytes(written.path.read_bytes()[:-1])
    with pytest.raises(OSError, match="cut short"):
        written.read(window)
