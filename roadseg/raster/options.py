"""Options of scenes: how their pixels become the input of the network."""

from typing import Annotated

from pydantic import Field, model_validator

from roadseg.options import Section, Text, setting

_Band = Annotated[int, Field(ge=1, le=65_536)] | Text
Bands = tuple[_Band, ...]


class ImageryOptions(Section):
    """The scenes, and how their pixels become the input of the network."""

    images: tuple[Text, ...] = setting(
        (),
        "paths",
        "Scenes: files, folders or globs of GeoTIFF/VRT, relative to the config file.",
        max_length=1_000_000,
        fail_fast=True,
    )
    bands: Bands | None = setting(
        None,
        "band numbers or names",
        "Bands to use, by number from 1 or by description; null takes all but alpha.",
        min_length=1,
        max_length=1000,
    )
    crs: Text | None = setting(None, "CRS", "CRS of scenes that name none, such as EPSG:32611.")
    gsd_m: float | None = setting(
        None,
        "metres",
        "Resample scenes to pixels of this size; null takes them as they are. "
        "For scenes without georeference it is the size of their pixels.",
        ge=0.001,
        le=10_000,
    )
    nodata: float | None = setting(
        None, "pixel value", "Pixels that have this value in every band hold no data."
    )
    chip_px: int = setting(
        1300,
        "pixels",
        "Scenes larger than this are cut into chips for training.",
        ge=32,
        le=100_000,
    )
    percentiles: tuple[float, float] = setting(
        (2.0, 98.0),
        "percent",
        "Percentiles of all pixels that become 0 and 255; scenes of type uint8 are not scaled.",
    )
    licence: Text | None = setting(
        None, "text", "Licence of the images, such as CC-BY-4.0, for the model card."
    )

    @model_validator(mode="after")
    def _percentiles_rise(self) -> "ImageryOptions":
        low, high = self.percentiles
        if not 0 <= low < high <= 100:  # noqa: PLR2004 - percent
            raise ValueError(
                f"percentiles: expected two numbers that rise from 0 to 100, got {[low, high]}"
            )
        return self
