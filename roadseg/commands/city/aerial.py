"""The demo city from above: paint its streets and scenery into the pixels of a scene."""

from collections.abc import Sequence

import numpy as np
import shapely
from affine import Affine
from numpy.typing import NDArray
from rasterio.features import rasterize
from scipy.ndimage import gaussian_filter, zoom
from shapely.geometry.base import BaseGeometry

from roadseg.arrays import Bytes, Floats32
from roadseg.commands.city import scenery
from roadseg.commands.city.pavement import draw_surface, draw_traffic, paved_area
from roadseg.commands.city.scenery import DEMO, Shape, World
from roadseg.commands.city.streets import Street, cut_streets, find_dead_ends, find_junctions

_BORDER_M = 30.0  # Metres painted around a scene, so that shadows and crowns reach into it.


def draw_scene(
    streets: list[Street],
    *,
    x_m: float,
    y_m: float,
    size_px: int = 1300,
    gsd_m: float = 0.3,
    seed: int,
    world: World = DEMO,
) -> Bytes:
    """Paint a square scene of the city as a satellite would see it.

    Pixel (row, col) shows the ground from x_m + col * gsd_m eastwards; row 0 is the north edge.

    Args:
        x_m: west edge of the scene, local metres.
        y_m: south edge of the scene, local metres.
        size_px: rows and columns.
        gsd_m: ground size of a pixel, metres.
        seed: number that starts all random choices but those of the streets: houses, trees,
            colours, haze and noise.

    Returns:
        Red, green and blue, shape (3, size_px, size_px).
    """
    rng = np.random.default_rng((seed, 2))
    size_m = size_px * gsd_m
    area = shapely.box(x_m, y_m, x_m + size_m, y_m + size_m).buffer(_BORDER_M, join_style="mitre")
    shapes = _draw_contents(streets, area, rng, world)
    # Shapes are rasterised at half the pixel size, so that edges can be blended.
    transform = Affine(gsd_m / 2, 0, x_m, 0, -gsd_m / 2, y_m + size_m)
    texture = 0.7 * _noise(size_px, 2, rng) + 0.7 * _noise(size_px, 12, rng)
    image = _draw_bare_ground(size_px, gsd_m, rng, world)
    # Shadows fall on what is flat, and not on what stands.
    image = _paint(image, [s for s in shapes if s.height_m == 0], transform, texture)
    image = _cast_shadows(image, [s for s in shapes if s.height_m > 0], transform, world)
    image = _paint(image, [s for s in shapes if s.height_m > 0], transform, texture)
    return _photograph(image, rng)


def to_uint16(image: Bytes, *, seed: int) -> NDArray[np.uint16]:
    """Return a scene as 11-bit satellite counts: another linear range in each band, and noise.

    Args:
        image: shape (3, row, col).
        seed: number that starts the random choice of the ranges and the noise.

    Returns:
        The same shape, values 0..2047, most of them between 100 and 1400.
    """
    rng = np.random.default_rng((seed, 3))
    darkest = rng.uniform(100, 180, size=(3, 1, 1))
    per_level = rng.uniform(3.6, 4.8, size=(3, 1, 1))
    counts = darkest + per_level * image + rng.normal(0, 4, size=image.shape)
    return np.clip(np.round(counts), 0, 2047).astype(np.uint16)


def _draw_contents(
    streets: list[Street], area: shapely.Polygon, rng: np.random.Generator, world: World
) -> list[Shape]:
    """Return everything to paint in an area, in painting order."""
    ends = [end for end in find_dead_ends(streets) if area.intersects(shapely.Point(end))]
    local = cut_streets(streets, area)
    paved = paved_area(local, ends)
    blocks = scenery.draw_blocks(local, area, rng)
    homes = scenery.draw_homes(local, paved, blocks, rng)
    shops, lots = scenery.draw_shops(local, paved, blocks, rng)
    taken = shapely.union_all([paved, *homes, *shops, *lots])
    return [
        *scenery.draw_ground(blocks, rng, world),
        *scenery.draw_clutter(area, paved, rng, world),
        *scenery.draw_driveways(homes, local, world.concrete, width_m=3.0, rng=rng),
        *scenery.draw_driveways([*shops, *lots], local, world.asphalt, width_m=6.0, rng=rng),
        *scenery.draw_pools(homes, local, rng, world),
        *(shape for lot in lots for shape in scenery.draw_parking(lot, rng, world)),
        *draw_surface(local, paved, ends, find_junctions(streets), rng=rng, world=world),
        *draw_traffic(local, rng, world),
        *(shape for home in homes for shape in scenery.draw_gable_roof(home, rng, world)),
        *(shape for shop in shops for shape in scenery.draw_flat_roof(shop, rng, world)),
        *scenery.draw_trees(local, area, blocks, taken, rng=rng, world=world),
    ]


def _noise(size: int, cell_px: int, rng: np.random.Generator) -> Floats32:
    """Return smooth random texture of mean 0 and deviation 1 with blots `cell_px` pixels wide."""
    # Blots vary slowly, so that coarser noise that is enlarged looks the same and takes less time.
    step = max(cell_px / 4, 1)
    coarse = rng.normal(size=(int(size / step) + 2,) * 2).astype(np.float32)
    coarse = gaussian_filter(coarse, cell_px / step / 2)
    fine = zoom(coarse, step, order=1)[:size, :size] if step > 1 else coarse[:size, :size]
    return np.asarray(fine / coarse.std(), dtype=np.float32)


def _draw_bare_ground(size: int, gsd_m: float, rng: np.random.Generator, world: World) -> Floats32:
    """Mix grass and dry soil in blots of 60 and 8 m; return grey levels, shape (row, col, 3)."""
    blots = _noise(size, round(60 / gsd_m), rng) + 0.8 * _noise(size, round(8 / gsd_m), rng)
    soil = 1 / (1 + np.exp(-2.2 * (blots - rng.uniform(-0.2, 0.8))))[:, :, None]
    grain = _noise(size, 2, rng)[:, :, None] * 5
    ground = np.array(world.grass) * (1 - soil) + np.array(world.soil) * soil + grain
    return np.asarray(ground, dtype=np.float32)


def _paint(
    image: Floats32, shapes: Sequence[Shape], transform: Affine, texture: Floats32
) -> Floats32:
    """Paint shapes over an image, each over the ones before; edges are blended."""
    if not shapes:
        return image
    # The number of the topmost shape stands in each pixel; 0 is none, which has no opacity.
    ids = _rasterise(
        [shape.outline for shape in shapes], range(1, len(shapes) + 1), transform, image
    )
    opacity = np.array([0.0, *(shape.opacity for shape in shapes)], dtype=np.float32)
    grain = np.array([0.0, *(shape.grain for shape in shapes)], dtype=np.float32)
    colours = np.array([(0, 0, 0), *(shape.colour for shape in shapes)], dtype=np.float32)
    hidden, roughness = _halve(opacity[ids]), _halve(grain[ids]) * texture
    painted = np.empty_like(image)
    for band in range(3):
        layer = _halve((colours[:, band] * opacity)[ids])
        painted[:, :, band] = image[:, :, band] * (1 - hidden) + layer + roughness
    return painted


def _cast_shadows(
    image: Floats32, standing: Sequence[Shape], transform: Affine, world: World
) -> Floats32:
    """Darken the ground that lies behind each standing shape, away from the sun."""
    if not standing:
        return image
    outlines = np.array([shape.outline for shape in standing])
    heights = np.array([shape.height_m for shape in standing])
    # A shadow covers the outline, its copy at the shadow's tip, and all between them.
    steps = np.repeat(
        heights[:, None] * np.array(world.shadow), shapely.get_num_coordinates(outlines), axis=0
    )
    tips = shapely.set_coordinates(outlines.copy(), shapely.get_coordinates(outlines) + steps)
    swept = list(shapely.convex_hull(shapely.union(outlines, tips)))
    shaded = _halve(_rasterise(swept, [1] * len(swept), transform, image).astype(np.float32))
    return image * (1 - shaded[:, :, None] * (1 - np.array(world.shade, dtype=np.float32)))


def _rasterise(
    outlines: Sequence[BaseGeometry],
    values: Sequence[int],
    transform: Affine,
    image: Floats32,
) -> NDArray[np.uint16]:
    """Rasterise outlines at twice the image's resolution, 0 where there are none."""
    doubled = (2 * image.shape[0], 2 * image.shape[1])
    drawn = [
        (area, value) for area, value in zip(outlines, values, strict=True) if not area.is_empty
    ]
    if not drawn:
        return np.zeros(doubled, dtype=np.uint16)
    burnt = rasterize(drawn, doubled, transform=transform, dtype="uint16")
    return np.asarray(burnt, dtype=np.uint16)


def _halve(doubled: Floats32) -> Floats32:
    """Average every two by two pixels."""
    rows = doubled[::2] + doubled[1::2]
    return np.asarray((rows[:, ::2] + rows[:, 1::2]) / 4, dtype=np.float32)


def _photograph(image: Floats32, rng: np.random.Generator) -> Bytes:
    """Add the effects of air and camera: brightness and colour cast, blur and noise."""
    contrast, haze = rng.uniform(1.3, 1.5), rng.uniform(-34, -18)
    cast = contrast * rng.uniform(0.97, 1.03, size=3)
    blurred = gaussian_filter(image * cast + haze, (0.65, 0.65, 0))
    noisy = blurred + rng.normal(0, 2.5, size=blurred.shape)
    bands = np.moveaxis(np.clip(np.round(noisy), 0, 255), -1, 0)
    return np.ascontiguousarray(bands, dtype=np.uint8)
