"""Folds in files: folds.json, the chips of each fold, the user's file of folds, and a layer."""

import csv
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import shapely
from pyproj import CRS

from roadseg.arrays import Floats, Ints
from roadseg.dataset.chips import NO_ZONE, ChipList, ChipRecord
from roadseg.dataset.footprints import corners_degrees, nearest_m
from roadseg.errors import DataError
from roadseg.raster.grid import DEGREES
from roadseg.raster.inputs import IMAGE_SUFFIXES
from roadseg.roads.colours import fold_colour
from roadseg.system.files import atomic_write
from roadseg.system.records import write_json
from roadseg.system.schemas import Count, read_strict
from roadseg.system.stage_records import read_summary
from roadseg.system.workspace import Fold, FoldOrEach, Workspace, require

if TYPE_CHECKING:
    from xml.etree import ElementTree as ET

    import geopandas as gpd
    import pandas as pd

_COLUMNS = {"name", "fold"}


def write_folds(path: Path, folds: Mapping[str, int]) -> None:
    """Write the fold of every chip by its name."""
    write_json(path, dict(folds))


def read_folds(path: Path, chips: Sequence[ChipRecord]) -> dict[str, int]:
    """Read the fold of every chip by its name.

    Raises:
        MissingInputError: if there is no such file.
        DataError: if the file has other contents, or folds of other chips.
    """
    advice = "run `roadseg split --force`"
    path = require(path, made_by="split")
    folds: dict[str, int] = read_strict(path, dict[str, Count], advice=advice)
    if odd := {chip.name for chip in chips} ^ folds.keys():
        raise DataError(
            f"{path}: expected one fold for each chip and no others, found otherwise for "
            f"{min(odd)!r:.60}; {advice}"
        )
    return folds


@dataclass(frozen=True)
class Predicted:
    """The part of the summary of predict that later stages read.

    Attributes:
        scenes: names of the predicted scenes.
        fold: fold that the network held out; "each" if every chip was predicted by the network
            that held it out.
    """

    scenes: list[str]
    fold: FoldOrEach


def read_predicted(workspace: Workspace) -> Predicted:
    """Read the summary of predict.

    Raises:
        MissingInputError: if predict has not reached its end.
        DataError: if its record is damaged.
    """
    return read_summary(workspace.record("predict"), Predicted)


@dataclass(frozen=True)
class FoldChips:
    """The chips of a run, divided by a fold.

    Attributes:
        training: chips on which the network of the fold is trained.
        held_out: chips of the fold.
        buffer: chips of other folds that are nearer to held-out chips than `split.buffer_m`.
    """

    training: list[ChipRecord]
    held_out: list[ChipRecord]
    buffer: list[ChipRecord]


def part_chips(
    chips: Sequence[ChipRecord], folds: Mapping[str, int], fold: Fold, *, buffer_m: float
) -> FoldChips:
    """Divide chips by a fold, and keep their order; fold "all" holds none out.

    Args:
        folds: fold of each chip, by name.
        buffer_m: distance to held-out chips, in metres, below which chips are not trained on.
    """
    held_out = [chip for chip in chips if folds[chip.name] == fold]
    others = [chip for chip in chips if folds[chip.name] != fold]
    if buffer_m <= 0:
        return FoldChips(others, held_out, [])
    is_near = nearest_m(others, held_out) < buffer_m
    training, buffer = (list(itertools.compress(others, side)) for side in (~is_near, is_near))
    return FoldChips(training, held_out, buffer)


@dataclass(frozen=True)
class _Buffer:
    """The part of the summary of split that determines which chips are not trained on."""

    buffer_m: float = 0.0


def read_fold_chips(workspace: Workspace, chips: Sequence[ChipRecord], fold: Fold) -> FoldChips:
    """Divide the chips of a run by a fold as `part_chips` does.

    Raises:
        MissingInputError: if split has not reached its end.
        DataError: if folds.json does not have exactly these chips.
    """
    folds = read_folds(workspace.folds, chips)
    split = read_summary(workspace.record("split"), _Buffer)
    return part_chips(chips, folds, fold, buffer_m=split.buffer_m)


def metres_from_training(
    workspace: Workspace, chips: Sequence[ChipRecord], folds: Iterable[int]
) -> dict[str, float]:
    """Return the distances of held-out chips from the training chips of the same fold.

    Returns:
        Metres to the nearest training chip, by the name of the held-out chip. Chips without
        georeference, or without such a neighbour, are left out.

    Raises:
        MissingInputError: if split has not reached its end.
        DataError: if folds.json does not have exactly these chips.
    """
    metres: dict[str, float] = {}
    for fold in folds:
        parted = read_fold_chips(workspace, chips, fold)
        placed = [chip for chip in parted.held_out if chip.zone != NO_ZONE]
        nearest = nearest_m(placed, parted.training).tolist()
        near = {chip.name: far for chip, far in zip(placed, nearest, strict=True)}
        metres |= {name: far for name, far in near.items() if math.isfinite(far)}
    return metres


def held_out_chips(
    workspace: Workspace, listed: ChipList, predicted: Predicted
) -> dict[str, list[ChipRecord]]:
    """Return the held-out chips of the predicted scenes, by scene, in the order of chips.json."""
    folds = read_folds(workspace.folds, listed.chips)
    chips: dict[str, list[ChipRecord]] = {}
    for chip in listed.chips:
        is_held_out = predicted.fold in ("each", folds[chip.name])
        if is_held_out and chip.scene in predicted.scenes:
            chips.setdefault(chip.scene, []).append(chip)
    return chips


def read_fold_file(path: Path) -> dict[str, int]:
    """Read the fold of each chip or scene.

    The file is a CSV whose header has the columns name and fold (others are ignored), or a `.json`
    with one object, fold by name, like folds.json. Suffixes of image files are removed from the
    names, so that lists of CRESI can be used.

    Returns:
        Fold, 0 or more, by name, in the order of the file.

    Raises:
        DataError: if the file cannot be read, an entry has no name or no such fold, or a name
            has two folds.
    """
    if path.suffix.lower() == ".json":
        advice = "expected an object with the fold of each name, as in folds.json"
        entries: Iterable[tuple[str, Any]] = read_strict(
            path, dict[str, Count], advice=advice
        ).items()
    else:
        entries = _csv_entries(path)
    folds: dict[str, int] = {}
    for name, fold in entries:
        number = str(fold).strip()
        if not (name.strip() and number.isdecimal()):
            raise DataError(
                f"{path}: expected a name and a fold (a whole number from 0), got {name!r} and "
                f"{fold!r}"
            )
        stem, dot, suffix = name.strip().rpartition(".")
        is_image = stem and f"{dot}{suffix.lower()}" in IMAGE_SUFFIXES
        key = stem if is_image else name.strip()
        if folds.setdefault(key, int(number)) != int(number):
            raise DataError(
                f"{path}: {key} has the folds {folds[key]} and {number}; keep one of them"
            )
    if not folds:
        raise DataError(f"{path}: contains no chips or scenes; list a fold for each")
    return folds


def write_fold_layer(path: Path, chips: Sequence[ChipRecord], folds: Ints) -> None:
    """Write the footprint of every chip as GeoPackage, layer `chips`; see `fold_table`.

    If no scene has a georeference, the layer is a table without geometry. Table `layer_styles`
    tells QGIS to colour the chips by their fold.

    Raises:
        OutputError: if the file cannot be written.
    """
    from roadseg.roads.formats.gpkg_styles import STYLE_LAYER, layer_styles
    from roadseg.roads.formats.layers import write_gpkg_layers

    table = fold_table(chips, folds)
    layers = {"chips": table}
    if "geometry" in table:
        layers[STYLE_LAYER] = layer_styles({"chips": fold_renderer(folds)})
    with atomic_write(path) as partial:
        write_gpkg_layers(partial, layers, geometry_types={"chips": "Polygon"})


def fold_table(chips: Sequence[ChipRecord], folds: Ints) -> "pd.DataFrame":
    """Return the footprint of every chip, and name, scene, fold, road_share and valid_share.

    The CRS is the metric CRS of the scenes if all lie in one zone, else EPSG:4326. Chips of scenes
    without georeference have no geometry.
    """
    import pandas as pd

    columns = ("name", "scene", "road_share", "valid_share")
    table = pd.DataFrame({c: [getattr(chip, c) for chip in chips] for c in columns})
    table.insert(2, "fold", folds)
    zones = np.array([chip.zone for chip in chips], dtype=np.int64)
    return _on_the_ground(table, chips, zones) if np.any(zones != NO_ZONE) else table


def fold_renderer(folds: Ints) -> "ET.Element":
    """Return QGIS's renderer of chips by their fold."""
    from roadseg.roads.formats.gpkg_styles import category_renderer

    colours = {fold: fold_colour(fold) for fold in np.unique(folds).tolist()}
    return category_renderer("fold", colours, are_areas=True)


def road_by_fold(chips: Sequence[ChipRecord], folds: Ints) -> Floats:
    """Return the share of road among the valid pixels of each fold, shape (folds,).

    Args:
        folds: fold of each chip; every fold has a chip.
    """
    pixels = np.array([chip.window.height * chip.window.width for chip in chips])
    road, valid = np.array([(chip.road_share, chip.valid_share) for chip in chips]).T * pixels
    return np.bincount(folds, road) / np.maximum(np.bincount(folds, valid), 1)


def _on_the_ground(
    table: "pd.DataFrame", chips: Sequence[ChipRecord], zones: Ints
) -> "gpd.GeoDataFrame":
    import geopandas as gpd

    placed = zones != NO_ZONE
    corners = np.array([chip.corners_m for chip in chips])[placed]
    crs = CRS.from_epsg(int(zones[placed][0]))
    if len(np.unique(zones[placed])) > 1:
        crs, corners = DEGREES, corners_degrees(corners, zones[placed])
    shapes = np.full(len(chips), None, dtype=object)
    shapes[placed] = shapely.polygons(corners)
    return gpd.GeoDataFrame(table, geometry=shapes, crs=crs)


def _csv_entries(path: Path) -> Iterator[tuple[str, str | None]]:
    """Yield the name and the fold in each row."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file)
            names = rows.fieldnames or []
            if not set(names) >= _COLUMNS:
                raise DataError(
                    f"{path}: its first row is {','.join(names)[:60]!r}; expected a CSV with a "
                    "header row and the columns name and fold, separated by commas"
                )
            for row in rows:
                yield row["name"] or "", row["fold"]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path}: not a readable CSV file ({error})") from error
