"""Write a tiny scene with two crossing roads, in the form in which SpaceNet gives them."""

import json
import zlib
from pathlib import Path

import numpy as np
import rasterio
from affine import Affine
from pyproj import Transformer

ROAD_WIDTH_M = 4.0
GROUND, ROAD = 80, 200  # brightness of uint8 pixels; other types have FACTOR times as much
FACTOR = 40
NOISE = 8


def make_scene(
    folder: Path,
    name: str,
    *,
    size_px: int = 64,
    gsd_m: float = 1.0,
    origin: tuple[float, float] = (660000.0, 4000000.0),
    epsg: int = 32611,
    dtype: str = "uint8",
    bands: int = 3,
    speeds: tuple[float, float] = (25, 45),
) -> tuple[Path, Path]:
    """Write folder/images/<name>.tif and folder/roads/<name>.geojson.

    Args:
        folder: made where it is missing, with its two folders.
        name: of both files; it also decides the noise on the pixels.
        size_px: height and width.
        gsd_m: side of a pixel.
        origin: easting of the west edge and northing of the north edge, metres.
        epsg: a metric CRS of the image; the roads are in degrees.
        dtype: uint8, or another type for values of 11 bits and more.
        bands: number of bands, all alike but for the noise.
        speeds: mph of the road from west to east, a third of the way down, and of the road from
            north to south, in the middle. Both cross the whole scene, and share a vertex.

    Returns:
        The image and the labels.
    """
    roads = _roads(origin, size_px * gsd_m)
    pixels = _draw(roads, origin, size_px, gsd_m, bands=bands, seed=zlib.crc32(name.encode()))
    image, labels = folder / "images" / f"{name}.tif", folder / "roads" / f"{name}.geojson"
    for path in (image, labels):
        path.parent.mkdir(parents=True, exist_ok=True)
    values = pixels if dtype == "uint8" else pixels * FACTOR
    with rasterio.open(
        image,
        "w",
        driver="GTiff",
        crs=f"EPSG:{epsg}",
        transform=Affine(gsd_m, 0, origin[0], 0, -gsd_m, origin[1]),
        height=size_px,
        width=size_px,
        count=bands,
        dtype=dtype,
    ) as target:
        target.write(values.astype(dtype))
    labels.write_text(json.dumps(_labels(roads, speeds, epsg)))
    return image, labels


Road = tuple[tuple[float, float], ...]


def _roads(origin: tuple[float, float], side_m: float) -> tuple[Road, Road]:
    west, north = origin
    y, x = north - side_m / 3, west + side_m / 2
    return ((west, y), (x, y), (west + side_m, y)), ((x, north), (x, y), (x, north - side_m))


def _draw(
    roads: tuple[Road, Road],
    origin: tuple[float, float],
    size_px: int,
    gsd_m: float,
    *,
    bands: int,
    seed: int,
) -> np.ndarray:
    middle_m = (np.arange(size_px) + 0.5) * gsd_m
    (_, y), (x, _) = roads[0][0], roads[1][0]
    from_row = np.abs(origin[1] - middle_m - y) <= ROAD_WIDTH_M / 2
    from_col = np.abs(origin[0] + middle_m - x) <= ROAD_WIDTH_M / 2
    is_road = from_row[:, np.newaxis] | from_col
    noise = np.random.default_rng(seed).integers(-NOISE, NOISE + 1, (bands, size_px, size_px))
    return np.where(is_road, ROAD, GROUND) + noise


def _labels(roads: tuple[Road, Road], speeds: tuple[float, float], epsg: int) -> dict:
    to_degrees = Transformer.from_crs(epsg, 4326, always_xy=True)
    features = [
        {
            "type": "Feature",
            "properties": {
                "road_id": number,
                "road_type": "5",
                "lane_number": "2",
                "paved": "1",
                "inferred_speed_mph": mph,
                "inferred_speed_mps": mph * 0.44704,
            },
            "geometry": {
                "type": "LineString",
                "coordinates": [list(to_degrees.transform(*point)) for point in road],
            },
        }
        for number, (road, mph) in enumerate(zip(roads, speeds, strict=True))
    ]
    crs = {"type": "name", "properties": {"name": "urn:ogc:def:crs:OGC:1.3:CRS84"}}
    return {"type": "FeatureCollection", "crs": crs, "features": features}
