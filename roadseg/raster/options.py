"""Options of scenes: how their pixels become the input of the network."""

from types import MappingProxyType
from typing import Annotated

from pydantic import Field

from roadseg.options import Section, Text, setting

_Band = Annotated[int, Field(ge=1, le=65_536)] | Text
Bands = tuple[_Band, ...]


def box_numbers(text: str) -> list[float] | None:
    """Return the numbers that a text lists with commas between; None if it is the name of a file.

    A single number is a name.
    """
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        return None
    return numbers if len(numbers) > 1 else None


class ImageryOptions(Section):
    """The images, and how their pixels become the input of the network."""

    retired = MappingProxyType({"percentiles": [2.0, 98.0]})
    images: tuple[Text, ...] = setting(
        (),
        "paths",
        "Images: files, folders or globs of GeoTIFF/VRT, relative to the config file.",
        max_length=1_000_000,
        fail_fast=True,
    )
    bands: Bands | None = setting(
        None,
        "band numbers or names",
        "Bands to use, by number from 1 or by description; null: all but alpha.",
        min_length=1,
        max_length=1000,
    )
    crs: Text | None = setting(None, "CRS", "CRS of images without one, such as EPSG:32611.")
    gsd_m: float | None = setting(
        None,
        "metres",
        "Resample images to this pixel size; null: keep theirs. For images without georeference: "
        "the size of their pixels.",
        ge=0.001,
        le=10_000,
    )
    nodata: float | None = setting(
        None, "pixel value", "Pixels with this value in every band have no data."
    )
    area: Text | None = setting(
        None,
        "path or degrees",
        "Area to work in: a vector file with polygons, or minx,miny,maxx,maxy in degrees; the rest "
        "of the images is not read and has no data. null: everywhere.",
    )
    chip_px: int = setting(
        1300,
        "pixels",
        "Largest side of a chip; larger images are cut into chips for training.",
        ge=32,
        le=100_000,
    )
    licence: Text | None = setting(
        None, "text", "Licence of the images, such as CC-BY-4.0, for the model card."
    )
