"""Draw the places that `train_starter.py` learns from: scenes of many cities with their roads.

Their worlds, cameras and sizes are drawn at random, all of them from the number of the place.
"""

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import shapely
from affine import Affine
from PIL import Image
from pyproj import CRS
from scipy.ndimage import gaussian_filter

from roadseg.arrays import Bytes
from roadseg.commands.city.aerial import draw_scene
from roadseg.commands.city.scenery import DEMO, Colour, World
from roadseg.commands.city.streets import (
    ARTERIAL,
    COLLECTOR,
    RESIDENTIAL,
    Span,
    Street,
    cut_streets,
    draw_streets,
)
from roadseg.raster.grid import DEGREES, Grid, reproject
from roadseg.raster.tiff import new_profile, open_new
from roadseg.system.files import atomic_write
from roadseg.system.progress import counted

_CRS = CRS.from_epsg(32611)
_ORIGIN_M, _APART_M = (300_000.0, 4_000_000.0), 3_000.0  # Metres; no two places share a block.
_IN_A_ROW = 100
_EDGE_M = 10.0  # Metres of the plan around a scene.
_FULL = 255
_JPEG_SHARE = 0.6  # Share of the images that were once stored as JPEG.
_OLD_TOWN_ROOFS: Sequence[Colour] = (
    (150, 96, 78),
    (164, 120, 92),
    (132, 84, 66),
    (118, 117, 116),
)
# Grass and bare soil by season and climate.
_GROUNDS: Mapping[str, tuple[Colour, Colour]] = {
    "lush": ((60, 92, 48), (104, 98, 66)),
    "green": ((92, 106, 68), (152, 138, 108)),
    "dry": ((140, 128, 92), (166, 146, 112)),
    "brown": ((112, 100, 80), (128, 112, 90)),
    "desert": ((188, 166, 132), (204, 182, 148)),
    "snow": ((215, 218, 224), (190, 192, 196)),
}
_GROUND_SHARES = (0.25, 0.25, 0.2, 0.12, 0.12, 0.06)
_BARE_CROWNS: Mapping[str, Colour] = {"brown": (98, 88, 76), "snow": (92, 86, 80)}
# By kind of place: size of everything against the demo's; widths of pavement in metres, of
# arterials, collectors and residential streets; and roofs of homes.
_PLACES: Mapping[str, tuple[float, tuple[float, float, float], Sequence[Colour]]] = {
    "suburb": (1.0, (15.0, 10.5, 7.5), DEMO.home_roofs),
    "dense": (0.62, (13.0, 10.0, 7.5), DEMO.home_roofs),
    "old": (0.45, (12.0, 8.0, 5.0), _OLD_TOWN_ROOFS),
    "rural": (1.9, (11.0, 7.0, 4.5), DEMO.home_roofs),
    "modern": (1.5, (26.0, 16.0, 8.0), DEMO.shop_roofs),
}
_PLACE_SHARES = (0.28, 0.24, 0.22, 0.1, 0.16)
_PIXELS_M = (0.3, 0.4, 0.5, 0.5, 0.6, 0.8, 1.0)  # Ground sizes of pixels, each as probable.
_CLASSES = (ARTERIAL, COLLECTOR, RESIDENTIAL)


@dataclass(frozen=True)
class Setting:
    """A place to draw: its world, and how large it and its pixels are.

    Attributes:
        world: what it looks like.
        widths_m: least and largest width of the pavement by name of a street class.
        gsd_m: ground size of a pixel, metres.
        scale: size of blocks, houses and trees against those of the demo.
    """

    world: World
    widths_m: Mapping[str, Span]
    gsd_m: float
    scale: float


def write_places(folder: Path, numbers: Iterable[int], *, size_px: int = 640) -> None:
    """Write images and road lines of drawn places into images/ and roads/ of a folder.

    Everything but the size follows from the number of a place, so that it is the same each time.

    Args:
        folder: for the files; those that are there stay.
        numbers: of the places.
        size_px: rows and columns of the images.

    Raises:
        OutputError: if a file cannot be written.
    """
    wanted = list(numbers)
    for number in counted(wanted, "draw", total=len(wanted), unit="places"):
        image, roads = (
            folder / "images" / f"place_{number}.tif",
            folder / "roads" / f"place_{number}.geojson",
        )
        if not (image.exists() and roads.exists()):
            _write_place(image, roads, number, size_px)


def _write_place(image: Path, roads: Path, number: int, size_px: int) -> None:
    rng = np.random.default_rng((number, 4))
    place = draw_setting(rng)
    # The plan is drawn at the size of the demo's, and its pixels are made larger or smaller.
    side_m = size_px * place.gsd_m / place.scale
    extent_m = (side_m + 2 * _EDGE_M, side_m + 2 * _EDGE_M)
    streets = draw_streets(extent_m=extent_m, seed=number, widths_m=place.widths_m)
    drawn = draw_scene(
        streets,
        x_m=_EDGE_M,
        y_m=_EDGE_M,
        size_px=size_px,
        gsd_m=place.gsd_m / place.scale,
        seed=number,
        world=place.world,
    )
    row, column = divmod(number, _IN_A_ROW)
    west, south = _ORIGIN_M[0] + _APART_M * column, _ORIGIN_M[1] + _APART_M * row
    north = south + size_px * place.gsd_m
    grid = Grid(_CRS, Affine(place.gsd_m, 0, west, 0, -place.gsd_m, north), size_px, size_px)
    pixels = photograph_again(drawn, rng)
    profile = new_profile(grid, count=len(pixels), dtype="uint8") | {"photometric": "rgb"}
    with atomic_write(image) as partial, open_new(partial, profile) as target:
        target.write(pixels)
    area = shapely.box(_EDGE_M, _EDGE_M, _EDGE_M + side_m, _EDGE_M + side_m)
    _write_roads(roads, cut_streets(streets, area), place.scale, (west, south))


def _write_roads(
    path: Path, streets: list[Street], scale: float, corner_m: tuple[float, float]
) -> None:
    """Write centrelines in degrees, with the width of their pavement."""
    plan = np.array([street.line for street in streets], dtype=object)
    lines = shapely.transform(plan, lambda xy: (xy - _EDGE_M) * scale + np.array(corner_m))
    features = [
        {
            "type": "Feature",
            "properties": {"width_m": round(street.width_m * scale, 2)},
            "geometry": shapely.geometry.mapping(line),
        }
        for line, street in zip(reproject(lines, _CRS, DEGREES), streets, strict=True)
    ]
    with atomic_write(path) as partial:
        text = json.dumps({"type": "FeatureCollection", "features": features})
        partial.write_text(text, encoding="utf-8")


def draw_setting(rng: np.random.Generator) -> Setting:
    """Draw a place at random: its kind, climate, season, sun, materials and pixel size.

    The widths are before the scaling, so that streets keep the widths of their kind.
    """
    size, widths, roofs = _PLACES[str(rng.choice(list(_PLACES), p=_PLACE_SHARES))]
    scale = size * float(rng.uniform(0.8, 1.25))
    broad = float(rng.uniform(0.8, 1.3)) / scale
    spans = {
        kind.name: (0.85 * broad * width, 1.15 * broad * width)
        for kind, width in zip(_CLASSES, widths, strict=True)
    }
    climate = str(rng.choice(list(_GROUNDS), p=_GROUND_SHARES))
    grass, soil = _GROUNDS[climate]
    trees = 0.05 if climate == "desert" else float(rng.choice([0.05, 0.3, 0.7, 1.0]))
    fresh, middle, old = _draw_pavements(rng)
    world = World(
        grass=_near(grass, rng, 10),
        soil=_near(soil, rng, 10),
        lawn=_near(grass, rng, 10),
        concrete=_near((160, 158, 152), rng, 16),
        asphalt=middle,
        fresh_asphalt=fresh,
        old_asphalt=old,
        centre_paint=DEMO.centre_paint if rng.random() < 1 / 2 else DEMO.white_paint,
        crown=_near(_BARE_CROWNS.get(climate, DEMO.crown), rng, 9),
        home_roofs=[_near(colour, rng, 18) for colour in roofs],
        shop_roofs=[_near(colour, rng, 18) for colour in DEMO.shop_roofs],
        shadow=_draw_sun(rng),
        shade=_scaled(DEMO.shade, float(rng.uniform(0.5, 1.3))),
        street_trees=min(0.8, trees),
        yard_trees=trees,
        cars=float(rng.uniform(0, 0.6)),
        clutter=float(rng.uniform(0, 90)) / scale**2,
    )
    return Setting(world, spans, gsd_m=float(rng.choice(_PIXELS_M)), scale=scale)


def _draw_sun(rng: np.random.Generator) -> tuple[float, float]:
    """Return metres east and north that a shadow reaches per metre of height."""
    azimuth, reach = rng.uniform(0, 2 * np.pi), rng.uniform(0.2, 1.6)
    return float(reach * np.cos(azimuth)), float(reach * np.sin(azimuth))


def _draw_pavements(rng: np.random.Generator) -> tuple[Colour, Colour, Colour]:
    """Return colours of fresh, middle and old pavement: of asphalt, concrete, dirt, or mixed."""
    material = str(rng.choice(["asphalt", "concrete", "dirt", "mixed"], p=(0.5, 0.25, 0.1, 0.15)))
    limits = {"asphalt": (60, 125), "concrete": (135, 185), "dirt": (130, 170), "mixed": (90, 150)}
    grey = rng.uniform(*limits[material])
    tint = np.array([14, 2, -18]) if material == "dirt" else np.zeros(3)
    spread = 30 if material == "mixed" else 10
    levels = grey + rng.normal(0, spread, 3)[:, None] + rng.normal(0, 4, (3, 3)) + tint
    fresh, middle, old = ((float(r), float(g), float(b)) for r, g, b in levels)
    return fresh, middle, old


def _near(colour: Colour, rng: np.random.Generator, spread: float) -> Colour:
    """Return a colour of another brightness, and a little of another hue."""
    return _as_colour(np.array(colour) + rng.normal(0, spread) + rng.normal(0, spread / 2, 3))


def _scaled(colour: Colour, factor: float) -> Colour:
    return _as_colour(np.array(colour) * factor)


def _as_colour(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> Colour:
    red, green, blue = values.tolist()
    return red, green, blue


def photograph_again(image: Bytes, rng: np.random.Generator) -> Bytes:
    """Return an image as another camera might have taken it.

    Saturation, contrast, brightness, colour of each band, gamma, blur, noise and JPEG are drawn at
    random, in this order.

    Args:
        image: red, green and blue, shape (3, row, col).
        rng: random generator that chooses how.

    Returns:
        The same shape.
    """
    pixels = image.astype(np.float64)
    grey = pixels.mean(axis=0, keepdims=True)
    pixels = grey + (pixels - grey) * rng.uniform(0.3, 1.4)
    pixels = (pixels - pixels.mean()) * rng.uniform(0.5, 1.2) + rng.uniform(60, 150)
    pixels = pixels * (1 + rng.normal(0, 0.06, (3, 1, 1))) + rng.normal(0, 5, (3, 1, 1))
    pixels = _FULL * np.clip(pixels / _FULL, 0, 1) ** rng.uniform(0.75, 1.35)
    blur = abs(rng.normal(0, 0.7))
    pixels = gaussian_filter(pixels, (0, blur, blur))
    pixels = pixels + rng.normal(0, abs(rng.normal(0, 5)), pixels.shape)
    taken = np.clip(np.round(pixels), 0, _FULL).astype(np.uint8)
    if rng.random() < _JPEG_SHARE:
        taken = _as_jpeg(taken, quality=int(rng.uniform(40, 95)))
    return np.ascontiguousarray(taken)


def _as_jpeg(image: Bytes, *, quality: int) -> Bytes:
    file = io.BytesIO()
    Image.fromarray(np.moveaxis(image, 0, -1)).save(file, "JPEG", quality=quality)
    pixels = np.moveaxis(np.asarray(Image.open(file)), -1, 0)
    return cast("Bytes", pixels)
