"""Hostile rasters: scenes of absurd sizes, places, bands and values, and damaged files."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import rasterio
from affine import Affine
from harness import Case, spoiled
from numpy.typing import NDArray

Files = dict[str, Callable[..., None]]

_ROADS = 'labels.roads=["roads/city_0.geojson"]'
_COMMANDS = {
    "prepare": ["prepare", "--set", 'imagery.images=["{}"]', "--set", _ROADS],
    "graph": ["graph", "--output", "out", "{}", "--set", "graph.threshold=0.5"],
    "score": ["score", "{}", "roads/city_0.geojson", "--gsd-m", "1"],
    "init": ["init", "--labels", "roads", "--images", "{}", "--force"],
}
_HERE = Affine(1, 0, 660_000, 0, -1, 4_000_000)
_SOURCE = "images/city_0.tif"
_ONES = partial(np.ones, (1, 64, 64), "uint8")  # One band, as masks have.


def cases(count: int, rng: Random) -> Iterator[Case]:
    """Yield the attacks that are known, and then random ones up to a number."""
    known = [
        Case(f"{name} {command}", _words(command, name), partial(write, name=name))
        for (name, write), command in product(_known().items(), _COMMANDS)
    ]
    yield from known[:count]
    kinds: Files = {"spoiled.tif": _tif, "spoiled.vrt": _vrt, "spoiled.png": _png}
    for number in range(count - len(known)):
        name, make = rng.choice(list(kinds.items()))
        command = rng.choice(list(_COMMANDS))
        write = partial(_spoil, name=name, make=make, rng=rng)
        yield Case(f"{name} {number} {command}", _words(command, name), write)


def _words(command: str, name: str) -> list[str]:
    return [word.replace("{}", name) for word in _COMMANDS[command]]


def _spoil(folder: Path, *, name: str, make: Callable[..., None], rng: Random) -> None:
    make(folder, name=name)
    path = folder / name
    path.write_bytes(spoiled(path.read_bytes(), rng))


def _known() -> Files:
    return _values() | _places() | _sizes() | _texts()


def _values() -> Files:
    kinds: dict[str, tuple[float, str]] = {
        "zeros": (0, "u1"),
        "full": (255, "u1"),
        "nan": (np.nan, "f4"),
        "huge": (1e300, "f8"),
    }
    kinds |= {"infinite": (np.inf, "f4"), "negative": (-32768, "i2"), "complex": (1, "c8")}
    return {
        f"{name}.tif": partial(_write, pixels=partial(np.full, (1, 64, 64), value, dtype))
        for name, (value, dtype) in kinds.items()
    }


def _places() -> Files:
    places = {
        "pole": (Affine(1, 0, 0, 0, -1, 0), 3031),
        "north_pole": (Affine(1e-5, 0, 0, 0, -1e-5, 90), 4326),
        "beyond_pole": (Affine(1, 0, 0, 0, -1, 91), 4326),
        "south_of_all": (Affine(1, 0, 660_000, 0, -1, -4e9), 32611),
        "no_area": (Affine(0, 0, 660_000, 0, 0, 4_000_000), 32611),
        "sheared": (Affine(1, 1, 660_000, 1, 1, 4_000_000), 32611),
        "tiny_pixels": (Affine(1e-12, 0, 660_000, 0, -1e-12, 4_000_000), 32611),
        "vast_pixels": (Affine(1e12, 0, 660_000, 0, -1e12, 4_000_000), 32611),
        "nan_place": (Affine(1, 0, np.nan, 0, -1, 4_000_000), 32611),
        "infinite_place": (Affine(1, 0, np.inf, 0, -1, 4_000_000), 32611),
        "date_line": (Affine(1e-5, 0, 179.9997, 0, -1e-5, 0), 4326),
        "space": (Affine(1, 0, 1e30, 0, -1, 1e30), 3857),
        "geocentric": (_HERE, 4978),
    }
    return {
        f"{name}.tif": partial(_write, place=place, epsg=epsg)
        for name, (place, epsg) in places.items()
    }


def _sizes() -> Files:
    files: Files = {
        f"size_{height}_{width}.tif": partial(_write, pixels=partial(np.ones, (1, height, width)))
        for height, width in ((1, 1), (31, 64), (1, 10**5), (40, 10**6))
    }
    files |= {f"bands_{n}.vrt": partial(_vrt, bands=n) for n in (300, 5000, 60_000)}
    return files | {f"side_{n}.vrt": partial(_vrt, side=n) for n in (10**7 + 1, 2**31 - 1)}


def _texts() -> Files:
    texts = {
        "empty.tif": b"",
        "page.tif": b"<!doctype html><p>log in",
        "pointer.tif": b"version https://git-lfs.github.com/spec/v1",
        "itself.vrt": _vrt_text(source="itself.vrt"),
        "elsewhere.vrt": _vrt_text(source="/etc/passwd"),
        "network.vrt": _vrt_text(source="/vsicurl/http://127.0.0.1:9/a.tif"),
        "nested.vrt": b"<VRTDataset>" * 100_000,
        "entities.vrt": b'<!DOCTYPE a [<!ENTITY a "aaaa">]>' + _vrt_text(),
    }
    return {name: partial(_bytes, content=content) for name, content in texts.items()}


def _write(
    folder: Path,
    *,
    name: str,
    pixels: Callable[[], NDArray[Any]] = _ONES,
    place: Affine = _HERE,
    epsg: int = 32611,
) -> None:
    values = pixels()
    count, height, width = values.shape
    with rasterio.open(
        folder / name,
        "w",
        driver="GTiff",
        count=count,
        height=height,
        width=width,
        dtype=values.dtype,
        crs=f"EPSG:{epsg}",
        transform=place,
    ) as target:
        target.write(values)


def _bytes(folder: Path, *, name: str, content: bytes) -> None:
    (folder / name).write_bytes(content)


def _tif(folder: Path, *, name: str) -> None:
    _write(folder, name=name)


def _png(folder: Path, *, name: str) -> None:
    with rasterio.open(
        folder / name, "w", driver="PNG", count=1, height=64, width=64, dtype="uint8"
    ) as target:
        target.write(_ONES())


def _vrt(folder: Path, *, name: str, side: int = 64, bands: int = 1) -> None:
    (folder / name).write_bytes(_vrt_text(side=side, bands=bands))


def _vrt_text(source: str = _SOURCE, side: int = 64, bands: int = 1) -> bytes:
    band = (
        '<VRTRasterBand dataType="Byte" band="{}"><SimpleSource>'
        f'<SourceFilename relativeToVRT="1">{source}</SourceFilename><SourceBand>1</SourceBand>'
        '<SrcRect xOff="0" yOff="0" xSize="64" ySize="64"/>'
        f'<DstRect xOff="0" yOff="0" xSize="{side}" ySize="{side}"/>'
        "</SimpleSource></VRTRasterBand>"
    )
    text = "".join(band.replace("{}", str(number)) for number in range(1, bands + 1))
    return (
        f'<VRTDataset rasterXSize="{side}" rasterYSize="{side}"><SRS>EPSG:32611</SRS>'
        f"<GeoTransform>660000, 1, 0, 4000000, 0, -1</GeoTransform>{text}</VRTDataset>"
    ).encode()
