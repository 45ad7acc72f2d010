"""Overviews of a raster in pieces."""

import numpy as np
import pytest

from roadseg.raster import overviews as module
from roadseg.raster.overviews import halved, write_overviews
from roadseg.raster.raw_strips import HAS_DATA, OpenRawFile, Piece, RawFile
from roadseg.raster.windows import Window

HEIGHT, WIDTH, BANDS = 1100, 1333, 2
RANDOM = np.random.default_rng(0)
KNOWN = RANDOM.random((HEIGHT, WIDTH)) > 0.3
KNOWN[:600] = True  # the upper piece has no gaps
VALUES = RANDOM.integers(0, 256, (HEIGHT, WIDTH, BANDS), dtype=np.uint8) * KNOWN[..., None]


def raw(path, pixels):
    file = RawFile(path, *pixels.shape)
    opened = OpenRawFile(file)
    opened.write(pixels, 0, 0)
    opened.close()
    return file


def gaps_of(start, stop):
    return KNOWN[start:stop, :, None] * np.uint8(HAS_DATA)


@pytest.fixture
def pieces(tmp_path):
    return [
        Piece(0, raw(tmp_path / "a", VALUES[:512]), None),
        Piece(512, raw(tmp_path / "b", VALUES[512:768]), raw(tmp_path / "c", gaps_of(512, 768))),
        Piece(768, raw(tmp_path / "d", VALUES[768:]), raw(tmp_path / "e", gaps_of(768, HEIGHT))),
    ]


@pytest.mark.parametrize("cols", [64, 2048])
def test_they_are_those_of_the_whole_raster(pieces, tmp_path, monkeypatch, cols):
    monkeypatch.setattr(module, "_COLS", cols)
    found = write_overviews(pieces, tmp_path, height=HEIGHT, width=WIDTH, bands=BANDS)
    pixels, known = VALUES, KNOWN
    assert [(file.height, file.width) for file in found] == [(550, 667), (275, 334)]
    for file in found:
        pixels, known = halved(pixels, known)
        read = file.read(Window(0, 0, file.height, file.width))
        assert np.array_equal(read, pixels)


def test_a_small_raster_has_none(tmp_path):
    piece = Piece(0, raw(tmp_path / "a", VALUES[:512, :512]), None)
    assert write_overviews([piece], tmp_path, height=512, width=512, bands=BANDS) == []
