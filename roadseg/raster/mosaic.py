"""Mosaics: adjoining images as one scene, in a VRT that names them and holds no pixels."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree.ElementTree import Element, SubElement, tostring

import numpy as np
from pyproj import CRS
from rasterio.enums import ColorInterp, MaskFlags

from roadseg.arrays import Ints
from roadseg.errors import DataError
from roadseg.raster.grid import Grid, grid_of
from roadseg.raster.images import open_whole
from roadseg.raster.windows import Window
from roadseg.system.files import atomic_write, is_virtual
from roadseg.system.progress import counted

_OFF_PX = 0.01  # Pixels; corners of a tile may lie so far off those of the first.
_TYPES = {  # Each type of pixels by its name in GDAL.
    "uint8": "Byte",
    "int8": "Int8",
    "uint16": "UInt16",
    "int16": "Int16",
    "uint32": "UInt32",
    "int32": "Int32",
    "float32": "Float32",
    "float64": "Float64",
}
_COLOURS = {
    ColorInterp.gray: "Gray",
    ColorInterp.red: "Red",
    ColorInterp.green: "Green",
    ColorInterp.blue: "Blue",
    ColorInterp.alpha: "Alpha",
}


@dataclass(frozen=True)
class _Tile:
    """Facts from the header of an image.

    Attributes:
        nodata: value of each band that means no data, as text, so that nan equals itself.
        block: rows and columns of its blocks.
        is_masked: whether it has a mask beside its bands.
    """

    path: Path
    grid: Grid
    dtypes: tuple[str, ...]
    nodata: tuple[str | None, ...]
    colours: tuple[ColorInterp, ...]
    names: tuple[str | None, ...]
    block: tuple[int, int]
    is_masked: bool

    @property
    def has_alpha(self) -> bool:
        return ColorInterp.alpha in self.colours


def write_mosaic(path: Path, images: Sequence[Path], *, crs: CRS | None = None) -> None:
    """Write adjoining images as one scene: a VRT on the pixels of the first.

    Where they overlap, the last one with data is seen; where there is none, there is no data.
    Only headers are read. A VRT that is there already and says the same stays as it is.

    Args:
        images: with one CRS, pixel size, number of bands and type of pixels, and their corners
            on common pixels; their sizes may differ.
        crs: coordinate system of images that do not name their own.

    Raises:
        DataError: if there is no image, or one cannot be read or does not fit the first.
        OutputError: if the file cannot be written.
    """
    text = mosaic_text(path, images, crs=crs)
    if not path.is_file() or path.read_bytes() != text:
        with atomic_write(path) as partial:
            partial.write_bytes(text)


def mosaic_text(path: Path, images: Sequence[Path], *, crs: CRS | None = None) -> bytes:
    """Return what `write_mosaic` writes; it takes and raises the same."""
    if not images:
        raise DataError(f"{path}: a mosaic needs at least one image")
    shown = counted(images, "look at", total=len(images), unit="tiles")
    tiles = [_read_tile(image, crs) for image in shown]
    for tile in tiles:
        _require_alike(tile, tiles[0])
    text: bytes = tostring(_vrt(path, tiles), encoding="utf-8")
    return text


def _read_tile(image: Path, crs: CRS | None) -> _Tile:
    with open_whole(image) as source:
        if ColorInterp.palette in source.colorinterp:
            raise DataError(
                f"{image}: has a colour table, expected bands of colours for a mosaic; convert "
                f"each tile: gdal_translate -expand rgb {image.name} rgb_{image.name}"
            )
        return _Tile(
            path=image,
            grid=grid_of(image, source, crs=crs, gsd_m=None),
            dtypes=tuple(source.dtypes),
            nodata=tuple(None if value is None else f"{value:.17g}" for value in source.nodatavals),
            colours=tuple(source.colorinterp),
            names=tuple(source.descriptions),
            block=source.block_shapes[0],
            is_masked=source.mask_flag_enums[0] == [MaskFlags.per_dataset],
        )


def _require_alike(tile: _Tile, first: _Tile) -> None:
    """Check that a tile has the CRS and the bands of the first, and pixels that GDAL mixes."""
    if tile.grid.crs != first.grid.crs:
        raise DataError(
            f"{tile.path}: found {tile.grid.crs.name}, expected {first.grid.crs.name} as in "
            f"{first.path}; {_warp(first)}"
        )
    for kind, first_kind in zip(_kinds(tile), _kinds(first), strict=True):
        if kind != first_kind:
            raise DataError(
                f"{tile.path}: found {kind}, expected {first_kind} as in {first.path}; convert "
                "it with gdal_translate (-b, -ot, -a_nodata), or leave it out"
            )
    if unknown := set(tile.dtypes) - _TYPES.keys():
        raise DataError(
            f"{tile.path}: pixels of {unknown.pop()} found, expected one of {', '.join(_TYPES)}; "
            "convert it with gdal_translate -ot"
        )


def _kinds(tile: _Tile) -> tuple[str, ...]:
    """Return what the bands of a tile are, in words that are compared and shown."""
    return (
        f"{len(tile.dtypes)} bands",
        f"pixels of {' and '.join(dict.fromkeys(tile.dtypes))}",
        f"nodata {' and '.join(dict.fromkeys(map(str, tile.nodata)))}",
        "an alpha band" if tile.has_alpha else "no alpha band",
    )


def _place(tile: _Tile, first: _Tile) -> Window:
    """Return where a tile lies, counted from the first pixel of the first.

    Raises:
        DataError: if its pixels do not lie on those of the first.
    """
    place = place_tile(tile.grid, first.grid, off_px=_OFF_PX)
    if place is not None:
        return place
    corners = tile.grid.corners
    corners_px = first.grid.to_pixel(tile.grid.to_map(corners))
    first_corner_off = np.abs(corners_px[0] - corners_px[0].round()).max()
    if np.abs(corners_px - corners_px[0] - corners).max() > _OFF_PX:
        differ = f"pixels of {_pixel_size(tile)}, expected {_pixel_size(first)}"
    else:
        differ = f"corners {first_corner_off:.2f} pixels off, expected a common pixel grid"
    raise DataError(f"{tile.path}: found {differ} as in {first.path}; {_warp(first)}")


def _pixel_size(tile: _Tile) -> str:
    """Return the sides of the pixels in units of the CRS, as gdalwarp takes them."""
    a, b, _, d, e, _ = tile.grid.transform[:6]
    return f"{np.hypot(a, d):.12g} {np.hypot(b, e):.12g}"


def _warp(first: _Tile) -> str:
    name = ":".join(first.grid.crs.to_authority() or ["<its CRS>"])
    return (
        f"first warp all images to one grid: gdalwarp -t_srs {name} -tap -tr "
        f"{_pixel_size(first)} <image> <new file>"
    )


def _vrt(path: Path, tiles: Sequence[_Tile]) -> Element:
    """Return the text of the VRT. Source: "VRT -- GDAL Virtual Format" in GDAL's documentation."""
    first, places = tiles[0], [_place(tile, tiles[0]) for tile in tiles]
    grid, inside = cover_tiles(first.grid, places)
    root = Element("VRTDataset", rasterXSize=str(grid.width), rasterYSize=str(grid.height))
    SubElement(root, "SRS").text = first.grid.crs.to_wkt()
    a, b, c, d, e, f = grid.transform[:6]
    SubElement(root, "GeoTransform").text = ", ".join(map(repr, map(float, (c, a, b, f, d, e))))
    names = [_name(tile.path, path) for tile in tiles]
    placed = list(zip(tiles, names, inside, strict=True))
    for number in range(1, len(first.dtypes) + 1):
        band = _add_band(root, first, number)
        for tile, name, window in placed:
            _add_source(band, tile, name, window, number)
    if any(tile.is_masked for tile in tiles) or not (any(first.nodata) or first.has_alpha):
        mask = SubElement(SubElement(root, "MaskBand"), "VRTRasterBand", dataType="Byte")
        for tile, name, window in placed:
            _add_source(mask, tile, name, window, None)
    return root


def _add_band(root: Element, first: _Tile, number: int) -> Element:
    place = number - 1
    band = SubElement(root, "VRTRasterBand", dataType=_TYPES[first.dtypes[place]], band=str(number))
    colour = _COLOURS.get(first.colours[place])
    values = {"Description": first.names[place], "ColorInterp": colour}
    for key, value in (values | {"NoDataValue": first.nodata[place]}).items():
        if value:
            SubElement(band, key).text = value
    return band


def _add_source(band: Element, tile: _Tile, name: str, window: Window, number: int | None) -> None:
    """Add a band of a tile to a band, or the mask of a tile where `number` is None."""
    nodata = tile.nodata[number - 1] if number else None
    is_holey = tile.is_masked or tile.has_alpha
    source = SubElement(band, "ComplexSource" if nodata or is_holey else "SimpleSource")
    is_relative = str(int(not is_virtual(tile.path)))
    SubElement(source, "SourceFilename", relativeToVRT=is_relative).text = name
    SubElement(source, "SourceBand").text = str(number) if number else "mask,1"
    _add_properties(source, tile, number)
    _add_rectangle(source, "SrcRect", window._replace(row=0, col=0))
    _add_rectangle(source, "DstRect", window)
    if nodata:
        SubElement(source, "NODATA").text = nodata
    if is_holey:
        SubElement(source, "UseMaskBand").text = "true"


def _add_properties(source: Element, tile: _Tile, number: int | None) -> None:
    """Add the properties for which GDAL would otherwise open every tile."""
    rows, cols = tile.block
    SubElement(
        source,
        "SourceProperties",
        RasterXSize=str(tile.grid.width),
        RasterYSize=str(tile.grid.height),
        DataType=_TYPES[tile.dtypes[number - 1]] if number else "Byte",
        BlockXSize=str(cols),
        BlockYSize=str(rows),
    )


def _add_rectangle(source: Element, name: str, window: Window) -> None:
    row, col, height, width = map(str, window)
    SubElement(source, name, xOff=col, yOff=row, xSize=width, ySize=height)


def _name(image: Path, path: Path) -> str:
    """Return how a VRT names an image: relative to its own folder, but for GDAL's paths."""
    if is_virtual(image):
        return str(image)
    return os.path.relpath(image.resolve(), path.parent.resolve())


def place_tile(tile: Grid, grid: Grid, *, off_px: float) -> Window | None:
    """Return where a tile lies on the pixels of a grid, which may be outside of it.

    Args:
        tile: of the same CRS as the grid.
        grid: from whose first pixel rows and columns count; they may be negative.
        off_px: how far each corner of the tile may lie off the corners of pixels.

    Returns:
        None if a corner lies further off: the pixels have another size, direction or place.
    """
    corners_px = grid.to_pixel(tile.to_map(tile.corners))
    start = corners_px[0].round()
    if (
        not np.abs(corners_px - (start + tile.corners)).max() <= off_px
    ):  # Neither is it where that is NaN.
        return None
    return Window(int(start[0]), int(start[1]), tile.height, tile.width)


def cover_tiles(grid: Grid, places: Sequence[Window]) -> tuple[Grid, list[Window]]:
    """Return the smallest grid that contains all windows on a grid, and their positions in it.

    Args:
        grid: from whose first pixel the places count.
        places: one or more.
    """
    row, col = min(place.row for place in places), min(place.col for place in places)
    height = max(place.row + place.height for place in places) - row
    width = max(place.col + place.width for place in places) - col
    whole = Window(row, col, height, width)
    return grid.crop(*whole), [place.within(whole) for place in places]


def group_tiles(grids: Sequence[Grid], pairs: Ints, *, off_px: float) -> list[list[int]]:
    """Group rasters that touch each other and can be tiles of one raster.

    Args:
        pairs: shape (k, 2), the rows of those that touch.
        off_px: how far their corners may lie off the pixels of the first of their group.

    Returns:
        The rows of each group, rising, in the order of their first; a raster that fits no other
        is a group of its own.
    """
    beside: dict[int, set[int]] = {row: set() for row in range(len(grids))}
    for here, there in pairs.tolist():
        beside[here].add(there)
        beside[there].add(here)
    left = set(beside)
    return [_group(row, grids, beside, left, off_px) for row in beside if row in left]


def _group(
    first: int, grids: Sequence[Grid], beside: dict[int, set[int]], left: set[int], off_px: float
) -> list[int]:
    """Take a raster, and all that fit it and touch it one by one, out of those that are left."""
    left.discard(first)
    group, ahead = [first], [first]
    while ahead:
        for row in sorted(beside[ahead.pop()] & left):
            is_alike = grids[row].crs == grids[first].crs
            if is_alike and place_tile(grids[row], grids[first], off_px=off_px) is not None:
                left.discard(row)
                group.append(row)
                ahead.append(row)
    return sorted(group)
