"""Places: scenes of many different drawn cities, each with its roads, to learn from."""

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import shapely
from affine import Affine
from pyproj import CRS

from roadseg.commands.city.aerial import draw_scene
from roadseg.commands.city.cameras import photograph_again
from roadseg.commands.city.streets import Street, cut_streets, draw_streets
from roadseg.commands.city.worlds import draw_setting
from roadseg.raster.grid import DEGREES, Grid, reproject
from roadseg.raster.tiff import new_profile, open_new
from roadseg.system.files import whole
from roadseg.system.progress import counted

_CRS = CRS.from_epsg(32611)
_ORIGIN_M, _APART_M = (300_000.0, 4_000_000.0), 3_000.0  # Metres; no two places share a block.
_IN_A_ROW = 100
_EDGE_M = 10.0  # Metres of the plan around a scene.


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
    streets = draw_streets(extent_m=extent_m, seed=number, widths_m=place.world.widths_m)
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
    with whole(image) as partial, open_new(partial, profile) as target:
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
    with whole(path) as partial:
        text = json.dumps({"type": "FeatureCollection", "features": features})
        partial.write_text(text, encoding="utf-8")
