"""Options of the scenes of a run, of one set or several, and of the split into folds."""

import re
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Literal

from pydantic import ConfigDict, SerializerFunctionWrapHandler, model_serializer, model_validator

from roadseg.errors import DataError
from roadseg.options import Section, Text, setting
from roadseg.raster.options import Bands, ImageryOptions
from roadseg.roads.options import LabelOptions

SET_NAMES = "expected a name of letters, digits, _ and -, of at most 64 characters"


def is_set_name(name: str) -> bool:
    """Return whether a name can be that of a set: a part of dotted keys and of names of files."""
    return bool(re.fullmatch(r"\w[\w-]{0,63}", name))


def _without_shared(schema: dict[str, Any]) -> None:
    """Take out of a JSON Schema what the labels of one set cannot have."""
    for key in SetLabelOptions.left_out:
        schema["properties"].pop(key, None)


class SetLabelOptions(LabelOptions):
    """Label options in which a set differs from the others; missing ones are inherited."""

    model_config = ConfigDict(json_schema_extra=_without_shared)
    left_out: ClassVar[tuple[str, ...]] = ("roads", "bin_edges", "bin_unit", "licence")

    @model_validator(mode="after")
    def _is_of_one_set(self) -> "SetLabelOptions":
        if shared := sorted(self.model_fields_set.intersection(self.left_out)):
            instead = "roads of the set" if shared[0] == "roads" else f"labels.{shared[0]}"
            raise ValueError(f"{shared[0]}: applies to all sets; set {instead}")
        return self

    @model_validator(mode="after")
    def _attribute_has_key(self) -> "SetLabelOptions":
        return self  # The other half may be inherited: whole options are checked, see `sets.py`.

    @model_serializer(mode="wrap")
    def _as_given(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        values: dict[str, Any] = serialize(self)
        return {key: value for key, value in values.items() if key in self.model_fields_set}


class SetOptions(Section):
    """Scenes of one city or sensor, with their own options."""

    images: tuple[Text, ...] = setting(
        (),
        "paths",
        "Images of the set, in the form of imagery.images.",
        max_length=1_000_000,
        fail_fast=True,
    )
    roads: tuple[Text, ...] = setting(
        (),
        "paths",
        "Label files of the set, in the form of labels.roads.",
        max_length=1_000_000,
        fail_fast=True,
    )
    weight: float = setting(
        1.0,
        "weight",
        "How often chips of the set are used in training, relative to other sets.",
        ge=0.001,
        le=1000,
    )
    bands: Bands | None = setting(
        None,
        "band numbers or names",
        "Bands to use; null: imagery.bands.",
        min_length=1,
        max_length=1000,
    )
    crs: Text | None = setting(
        None, "CRS", "CRS of images of the set without one; null: imagery.crs."
    )
    gsd_m: float | None = setting(
        None, "metres", "Pixel size; null: imagery.gsd_m.", ge=0.001, le=10_000
    )
    nodata: float | None = setting(
        None, "pixel value", "Value of pixels without data; null: imagery.nodata."
    )
    labels: SetLabelOptions = SetLabelOptions()


class RunImageryOptions(ImageryOptions):
    """The scenes of a run, of one set or of several."""

    sets: dict[str, SetOptions] = setting(
        {},
        "-",
        "Sets of scenes by name, such as one per city, with their own options. `images` and "
        "labels.roads must then be empty.",
        max_length=1000,
    )

    @model_validator(mode="after")
    def _sets_have_names(self) -> "RunImageryOptions":
        for name in self.sets:
            if not is_set_name(name):
                raise ValueError(f"sets: {SET_NAMES}, got {name!r:.80}")
        if self.sets and self.images:
            raise ValueError(
                "images: cannot be combined with sets, which have their own images; remove one "
                "of them"
            )
        return self


class SplitOptions(Section):
    """Options of the split of chips into folds."""

    retired = MappingProxyType({"group": None, "seed": 0})
    folds: int = setting(
        5, "folds", "Number of folds; 5 holds out 20 % of the chips.", ge=2, le=10_000
    )
    method: Literal["blocks", "places", "knndm", "random", "sets", "file"] = setting(
        "blocks",
        "-",
        "Which chips share a fold. blocks: those in one ground block; places: those no further "
        "than `block_m` from each other, and chains of them; knndm: so that the distances to the "
        "training ground are those of the images in `target`; random: none; sets: those of one "
        "set of imagery.sets (one fold per set); file: as `file` lists them.",
    )
    block_m: float = setting(
        500.0,
        "metres",
        "Side of a ground block, a square whose chips share a fold; between places, the least "
        "distance.",
        ge=1,
        le=1e7,
    )
    buffer_m: float = setting(
        0.0,
        "metres",
        "Chips nearer than this to a held-out chip are not trained on while it is held out.",
        ge=0,
        le=1e7,
    )
    target: tuple[Text, ...] = setting(
        (),
        "paths",
        "Images that are to be mapped, in the form of imagery.images, which need no labels.",
        max_length=1_000_000,
        fail_fast=True,
    )
    file: Path | None = setting(
        None,
        "path",
        "CSV with the columns name (of a chip or scene) and fold (from 0), or a folds.json.",
        strict=False,
    )

    @model_validator(mode="after")
    def _method_has_its_setting(self) -> "SplitOptions":
        if self.method == "knndm" and not self.target:
            raise ValueError("target: the method knndm needs the images that are to be mapped here")
        if self.method == "file" and self.file is None:
            raise ValueError("file: the method file needs a path here")
        return self

    @property
    def own_folds(self) -> Path:
        """The user's file of folds.

        Raises:
            DataError: if there is no such file.
        """
        if self.file is None or not self.file.is_file():
            raise DataError(
                f"split.file: {self.file} is not an existing file, expected a CSV or JSON file "
                "with the fold of each chip or scene"
            )
        return self.file
