"""Options of roads: of labels, of tracing graphs, and of measuring them."""

import itertools
from types import MappingProxyType
from typing import Annotated, Literal, LiteralString

import numpy as np
from pydantic import (
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from roadseg.options import Section, Text, setting
from roadseg.raster.windows import CERTAIN
from roadseg.roads.speeds import DEFAULT_BINS, BinUnit, SpeedBins, SpeedUnit

SchemeName = Literal["auto", "spacenet", "osm", "attribute", "constant"]


WidthRule = Literal["constant", "attribute", "lanes"]


# OpenStreetMap classes that are not for cars, no lines of roads, or not there.
NO_ROADS = (
    "abandoned",
    "bridleway",
    "bus_stop",
    "construction",
    "corridor",
    "cycleway",
    "elevator",
    "footway",
    "ladder",
    "path",
    "pedestrian",
    "planned",
    "platform",
    "proposed",
    "raceway",
    "razed",
    "rest_area",
    "services",
    "steps",
    "stopline",
    "via_ferrata",
)


_PixelValue = Annotated[int, Field(ge=-(2**31), lt=2**32)]

_Speed = Annotated[float, Field(ge=0.1, le=1000)]

ShiftMetres = Annotated[float, Field(ge=-100, le=100)]


def _in_one_sentence(kind: LiteralString, expected: str) -> WrapValidator:
    """Say in one sentence what a setting may be, whichever of several things was meant."""

    def check_all(value: object, check: ValidatorFunctionWrapHandler) -> object:
        try:
            return check(value)
        except ValidationError as error:
            raise PydanticCustomError(kind, "{expected}", {"expected": expected}) from error

    return WrapValidator(check_all)


ShiftRule = Annotated[
    Literal["none", "set", "scene"]
    | Annotated[tuple[ShiftMetres, ShiftMetres], Field(strict=False)],  # JSON has no tuples.
    _in_one_sentence(
        "shift", 'expected "none", "set", "scene", or metres east and north up to 100: [4.0, -2.5]'
    ),
]


class LabelOptions(Section):
    """The road labels, and how they become masks."""

    retired = MappingProxyType({"lane_m": 3.5})
    roads: tuple[Text, ...] = setting(
        (),
        "paths",
        "Road lines, polygons or raster masks: one file for all scenes, or one per scene by name.",
        max_length=1_000_000,
        fail_fast=True,
    )
    crs: Text | None = setting(None, "CRS", "CRS of label files without one.")
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
        25.0, "mph", "Speed of roads without a speed in their attributes.", ge=0.1, le=1000
    )
    exclude: tuple[Text, ...] = setting(
        NO_ROADS,
        "highway classes",
        "OpenStreetMap classes to leave out.",
        max_length=1000,
        fail_fast=True,
    )
    tunnels: bool = setting(
        default=False, unit="-", description="Keep roads in tunnels, which images do not show."
    )
    width: WidthRule = setting(
        "constant",
        "-",
        "Width of a road in the mask: constant (buffer_m), attribute (width_key), or lanes.",
    )
    buffer_m: float = setting(
        2.0,
        "metres",
        "Half the width of roads with constant or unknown width.",
        ge=0.01,
        le=1000,
    )
    width_key: Text = setting("width", "attribute", "Attribute that holds the width in metres.")
    bin_edges: tuple[_Speed, ...] = setting(
        DEFAULT_BINS.edges,
        "bin_unit",
        "Upper limits of the speed bins (inclusive); one more bin covers higher speeds.",
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
    shift: ShiftRule = setting(
        "none",
        "metres east and north",
        'How labels are moved before they become masks. "none"; [4.0, -2.5]: metres east and '
        'north; "set": one shift measured on all scenes; "scene": one per scene if it can be '
        "measured, otherwise that of the set.",
    )
    area: tuple[Text, ...] = setting(
        (),
        "paths",
        "Vector files with polygons in which labels are complete; everything outside is ignored "
        "in training and metrics. Empty: labels are complete everywhere.",
        max_length=1000,
        fail_fast=True,
    )
    licence: Text | None = setting(
        None, "text", "Licence of the labels, such as ODbL-1.0, for the model card."
    )

    @property
    def width_m(self) -> float:
        """Whole width of a road where nothing else is known."""
        return 2 * self.buffer_m

    @property
    def bins(self) -> SpeedBins:
        """The speed bins of the masks."""
        return SpeedBins(self.bin_edges, self.bin_unit)

    @model_validator(mode="after")
    def _edges_rise(self) -> "LabelOptions":
        if any(b <= a for a, b in itertools.pairwise(self.bin_edges)):
            raise ValueError(f"bin_edges: expected increasing numbers, got {self.bin_edges}")
        return self

    @model_validator(mode="after")
    def _attribute_has_key(self) -> "LabelOptions":
        if self.scheme == "attribute" and not self.speed_key:
            raise ValueError("speed_key: the scheme attribute needs the name of an attribute here")
        if self.speed_key and self.scheme != "attribute":
            raise ValueError('speed_key: has no effect unless scheme is "attribute"; set both')
        return self


Weight = Literal["time", "length"]

_USUAL_THRESHOLD = 0.4  # Where nothing says which one is best.
# Metres. A mask shows nothing in a gap, so that only short links are more often right than wrong.
_DEFAULT_GAP_M, _MASK_GAP_M = 50.0, 25.0


def _or_auto(limits: str) -> WrapValidator:
    return _in_one_sentence("number_or_auto", f'Input should be a number {limits}, or "auto"')


_Threshold = Annotated[
    Annotated[float, Field(gt=0, lt=1)] | Literal["auto"], _or_auto("above 0 and below 1")
]
_Gap = Annotated[
    Annotated[float, Field(ge=0, le=1000)] | Literal["auto"], _or_auto("from 0 to 1000")
]
_Part = Annotated[
    Annotated[float, Field(ge=0, le=1e7)] | Literal["auto"], _or_auto("from 0 to 10000000")
]
GraphFormat = Literal[
    "gpkg",
    "geojson",
    "graphml",
    "parquet",
    "osm",
    "csv",
    "pbf",
    "fgb",
    "shp",
]


class ThresholdOptions(Section):
    """From which probability on pixels are road."""

    threshold: _Threshold = setting(
        "auto",
        "probability",
        "Lowest probability that counts as road. auto: the threshold stored in the raster, "
        "measured on held-out chips, otherwise 0.4. Roads are traced at a higher one if `roadseg "
        "graph` found that they need it.",
    )

    def threshold_for(self, measured: float | None) -> float:
        """Return the probability from which on pixels of a raster are road, 0 to 1.

        Args:
            measured: the threshold of the network that predicted the raster, as it says itself;
                None if it does not, as masks and rasters of others.
        """
        if self.threshold != "auto":
            return self.threshold
        return _USUAL_THRESHOLD if measured is None else measured

    def level_for(self, measured: float | None) -> int:
        """Return the lowest byte of probability that is road; see `threshold_for`."""
        return int(np.ceil(self.threshold_for(measured) * CERTAIN))


class TraceOptions(ThresholdOptions):
    """From the pixels of roads to a road graph: how roads are found, pruned, linked and drawn."""

    retired = MappingProxyType(
        {
            "neat": False,
            "close_m": 0.0,
            "min_blob_m2": 30.0,
            "min_hole_m2": 30.0,
            "merge_nodes_m": 4.0,
            "max_turn_deg": 90.0,
            "block_px": 4096,
            "min_link_probability": 0.2,
            "precision": None,
            "simplify_m": 0.5,
        }
    )

    min_spur_m: float = setting(
        12.0, "metres", "Remove shorter dead ends (spurs).", ge=0, le=100_000
    )
    max_gap_m: _Gap = setting(
        "auto",
        "metres",
        "Longest gap across which a dead end is linked to the road ahead. auto: 50, and 25 on "
        "masks, which show nothing in a gap.",
    )
    min_confidence: float = setting(
        0.2,
        "probability",
        "Lowest confidence of links, and of dead ends if it was measured; no effect on masks.",
        ge=0,
        le=1,
    )
    min_component_m: _Part = setting(
        "auto",
        "metres",
        "Remove connected parts with less road than this. auto: 50; but 20 on masks, and for "
        "parts that reach the border of the scene.",
    )
    default_speed_mph: float = setting(
        25.0, "mph", "Speed of edges for which the probabilities show no speed.", ge=0.1, le=1000
    )

    def gap_for(self, *, is_mask: bool) -> float:
        """Return the longest gap in metres across which dead ends are linked.

        Args:
            is_mask: whether the raster holds nothing but 0 and 1.
        """
        if self.max_gap_m != "auto":
            return self.max_gap_m
        return _MASK_GAP_M if is_mask else _DEFAULT_GAP_M


class GraphOptions(TraceOptions):
    """From probabilities to the road graph."""

    retired = MappingProxyType({**TraceOptions.retired, "join_m": 5.0})
    formats: tuple[GraphFormat, ...] = setting(
        ("gpkg", "geojson", "graphml"),
        "-",
        "Formats of the graphs: gpkg, geojson, graphml, parquet, fgb, shp; osm (JOSM), csv "
        "(SpaceNet); pbf (routers).",
        min_length=1,
        max_length=100,
        fail_fast=True,
    )

    @model_validator(mode="after")
    def _gpkg_is_written(self) -> "GraphOptions":
        if "gpkg" not in self.formats:
            raise ValueError('formats: must include "gpkg", which evaluate reads')
        return self


class CompareOptions(Section):
    """Distances by which roads are compared with roads."""

    retired = MappingProxyType({"protocol": "spacenet"})
    spacing_m: float = setting(
        50.0, "metres", "APLS: distance between control points.", ge=0.1, le=100_000
    )
    snap_m: float = setting(
        4.0,
        "metres",
        "APLS: largest distance of a control point from the other graph.",
        ge=0.001,
        le=1000,
    )
    tolerance_m: float = setting(
        4.0,
        "metres",
        "Correctness and completeness: distance up to which roads count as the same.",
        ge=0.001,
        le=1000,
    )


class DiffOptions(Section):
    """Distance and length by which roads of two networks are the same."""

    tolerance_m: float = setting(
        8.0, "metres", "Distance up to which roads of both sides count as the same.", gt=0, le=1000
    )
    min_length_m: float = setting(
        20.0, "metres", "Leave out shorter connected pieces.", ge=0, le=1e7
    )


class ConflateOptions(DiffOptions):
    """Which roads are added to a map, and how far they are drawn to its ways."""

    max_gap_m: float = setting(
        25.0,
        "metres",
        "Longest gap across which a dead end is joined to a way of the map.",
        ge=0,
        le=1000,
    )
    min_confidence: float = setting(
        0.5, "0 to 1", "Leave out roads whose confidence is lower.", ge=0, le=1
    )


class AuditOptions(ThresholdOptions):
    """How far a way of a map may lie beside the road of the image, and into what it is cut."""

    min_shift_m: float = setting(
        4.0,
        "metres",
        "Distance from the middle of the road from which a way counts as shifted; on roads wider "
        "than four times this, a quarter of their width.",
        gt=0,
        le=20,
    )
    max_shift_m: float = setting(
        10.0, "metres", "Distance up to which a road belongs to a way.", ge=1, le=20
    )

    @model_validator(mode="after")
    def _shift_is_seen(self) -> "AuditOptions":
        if self.min_shift_m > self.max_shift_m:
            raise ValueError(
                f"min_shift_m: expected at most max_shift_m, {self.max_shift_m:g}, got "
                f"{self.min_shift_m:g}"
            )
        return self


class RouteOptions(Section):
    """Choice of the way between two places, and of how these are joined to the roads."""

    weight: Weight = setting("time", "-", "What the route minimises: time or length.")
    snap_m: float = setting(
        500.0,
        "metres",
        "Largest distance of start and destination from the nearest road.",
        ge=0,
        le=1e6,
    )
