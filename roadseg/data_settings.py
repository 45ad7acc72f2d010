"""The settings of the data: scenes and road labels."""

import itertools
from typing import Annotated

from pydantic import Field, model_validator

from roadseg.core.schemes import NO_ROADS, SchemeName, WidthRule
from roadseg.core.speeds import DEFAULT_BINS, BinUnit, SpeedUnit
from roadseg.section import Section, Text, setting

_Band = Annotated[int, Field(ge=1, le=65_536)] | Text
_PixelValue = Annotated[int, Field(ge=-(2**31), lt=2**32)]
_Speed = Annotated[float, Field(ge=0.1, le=1000)]


class ImageryConfig(Section):
    """The scenes, and how their pixels become the input of the network."""

    images: tuple[Text, ...] = setting(
        (),
        "paths",
        "Scenes: files, folders or globs of GeoTIFF/VRT, relative to the config file.",
        max_length=1_000_000,
        fail_fast=True,
    )
    bands: tuple[_Band, ...] | None = setting(
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
        (2.0, 98.0), "percent", "Percentiles over all scenes that become 0 and 255 (not of uint8)."
    )
    licence: Text | None = setting(
        None, "text", "Licence of the images, such as CC-BY-4.0, for the model card."
    )

    @model_validator(mode="after")
    def _percentiles_rise(self) -> "ImageryConfig":
        low, high = self.percentiles
        if not 0 <= low < high <= 100:  # noqa: PLR2004 - percent
            raise ValueError(
                f"percentiles: expected two numbers that rise from 0 to 100, got {[low, high]}"
            )
        return self


class LabelsConfig(Section):
    """The road labels, and how they become masks."""

    roads: tuple[Text, ...] = setting(
        (),
        "paths",
        "Road lines, polygons or raster masks: one file for all scenes, or one a scene by name.",
        max_length=1_000_000,
        fail_fast=True,
    )
    crs: Text | None = setting(None, "CRS", "CRS of label files that name none.")
    scheme: SchemeName = setting(
        "auto",
        "-",
        "What the attributes mean: spacenet, osm, attribute (speed_key), constant "
        "(default_speed_mph); auto chooses by the keys of each file.",
    )
    speed_key: Text | None = setting(
        None, "attribute", "Attribute that holds the speed, for the scheme attribute."
    )
    speed_unit: SpeedUnit = setting("mph", "-", "Unit of the values of speed_key.")
    default_speed_mph: float = setting(
        25.0, "mph", "Speed of roads whose attributes say nothing of it.", ge=0.1, le=1000
    )
    exclude: tuple[Text, ...] = setting(
        NO_ROADS,
        "highway classes",
        "OpenStreetMap classes that are left out.",
        max_length=1000,
        fail_fast=True,
    )
    tunnels: bool = setting(
        default=False, unit="-", description="Whether roads in tunnels are kept, though unseen."
    )
    width: WidthRule = setting(
        "constant",
        "-",
        "Width of a road in the mask: constant (buffer_m), attribute (width_key), or lanes.",
    )
    buffer_m: float = setting(
        2.0,
        "metres",
        "Half the width of a road whose width is constant, or is not known otherwise.",
        ge=0.01,
        le=1000,
    )
    width_key: Text = setting("width", "attribute", "Attribute that holds the width in metres.")
    lane_m: float = setting(
        3.5, "metres", "Width of a lane, for the width by lanes.", ge=0.01, le=100
    )
    bin_edges: tuple[_Speed, ...] = setting(
        DEFAULT_BINS.edges,
        "bin_unit",
        "Upper limits of the speed bins, each in the bin below; one more bin lies above the last.",
        min_length=1,
        max_length=30,
    )
    bin_unit: BinUnit = setting("mph", "-", "Unit of bin_edges.")
    mask_speeds_mph: dict[_PixelValue, _Speed] | None = setting(
        None,
        "mph",
        "Speed of each value of raster masks; other values are background. "
        "null: every value but 0 and nodata is road with default_speed_mph.",
        max_length=65_536,
    )
    licence: Text | None = setting(
        None, "text", "Licence of the labels, such as ODbL-1.0, for the model card."
    )

    @model_validator(mode="after")
    def _edges_rise(self) -> "LabelsConfig":
        if any(b <= a for a, b in itertools.pairwise(self.bin_edges)):
            raise ValueError(f"bin_edges: expected numbers that rise, got {self.bin_edges}")
        return self

    @model_validator(mode="after")
    def _attribute_has_key(self) -> "LabelsConfig":
        if self.scheme == "attribute" and not self.speed_key:
            raise ValueError("speed_key: expected the name of an attribute, as scheme needs it")
        if self.speed_key and self.scheme != "attribute":
            raise ValueError('speed_key: is read only if scheme is "attribute"; set that too')
        return self
