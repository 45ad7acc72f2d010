"""Pairing: find the files on both sides of a comparison, and which of them belong together."""

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from roadseg.errors import DataError
from roadseg.raster.inputs import match_names, stem
from roadseg.roads.formats.by_suffix import READERS
from roadseg.system.files import FOLDER_SUFFIXES, LINE_SUFFIXES, MASK_SUFFIXES, is_virtual
from roadseg.system.text import first
from roadseg.system.workspace import ROAD_NETWORK, Workspace

if TYPE_CHECKING:
    from roadseg.roads.formats.spacenet_csv import WktCsv

_CSV = ".csv"
# Of files of one name the first of these formats is taken.
_VECTORS = (LINE_SUFFIXES[0], *READERS, *LINE_SUFFIXES[1:], *FOLDER_SUFFIXES)
_KINDS = (_VECTORS, (".json",), (_CSV,), MASK_SUFFIXES)  # The first kind in a folder counts.


@dataclass(frozen=True)
class RoadSource:
    """A file, or an image in a table, with the roads of one place.

    Attributes:
        table: its lines if it is a WKT CSV, else None.
    """

    path: Path
    table: "WktCsv | None" = None
    image: str = ""

    def __str__(self) -> str:
        """Return the file and the image in it, as a person would name them."""
        return f"{self.path}, image {self.image}" if self.table else str(self.path)


def find_sources(path: Path) -> dict[str, RoadSource]:
    """Find the roads in a file or a folder, and give each a name.

    A file is named by its stem, the images of a WKT CSV by their ids. Of a folder (not its
    subfolders), files of lines and graphs count, or else .json, or else CSVs, or else rasters; of
    several of one name (`city.gpkg` and `city.geojson`) the first of these formats. Beside others,
    the files that report, review and split write into a run do not count.

    Raises:
        DataError: there is nothing of the kind, it is a run folder, a CSV cannot be read, or two
            images have one id.
    """
    if not (is_virtual(path) or path.exists()):
        raise DataError(f"{path} does not exist; expected a file or a folder with roads")
    if is_virtual(path) or not path.is_dir() or path.suffix.lower() in FOLDER_SUFFIXES:
        return _named([path])
    files = sorted(file for file in path.iterdir() if not file.name.startswith("."))
    run = Workspace(path)
    others = [file for file in files if file not in (run.package, run.edits, run.fold_layer)]
    if run.graphs.is_dir() and not any(file.suffix.lower() in _VECTORS for file in others):
        raise DataError(
            f"{path}: a run folder, expected roads; use {run.graphs}, or one file in it"
        )
    for some, suffixes in itertools.product((others, files), _KINDS):
        alike = [file for file in some if file.suffix.lower() in suffixes]
        if alike:
            best: dict[str, Path] = {}
            for file in sorted(alike, key=lambda file: suffixes.index(file.suffix.lower())):
                best.setdefault(stem(file), file)
            return _named(sorted(best.values()))
    raise DataError(f"{path}: no files with roads in this folder, such as .geojson or .gpkg")


def only_source(path: Path) -> RoadSource:
    """Return the roads in a file or a folder with those of one place.

    Raises:
        DataError: there are those of several places, or as `find_sources`.
    """
    found = find_sources(path)
    sources = list(found.values())
    if len(sources) != 1:
        raise DataError(
            f"{path}: contains roads of {len(sources)} places, expected one; use the file of one "
            f"place, such as {found.get(ROAD_NETWORK, sources[0])}"
        )
    return sources[0]


def match_sources(
    reference: Mapping[str, RoadSource], predicted: Mapping[str, RoadSource]
) -> tuple[dict[str, str | None], list[str]]:
    """Find for each place of the reference what was predicted there.

    Two single files belong together whatever their names; all others as `match` says.

    Returns:
        The name of the prediction for each name of the reference, None where there is none; and
        the predictions that are left over.

    Raises:
        DataError: names are ambiguous, no prediction fits any reference, or a CSV has image ids
            that no reference fits.
    """
    has_table = any(source.table for source in (*reference.values(), *predicted.values()))
    if len(reference) == len(predicted) == 1 and not has_table:
        return {next(iter(reference)): next(iter(predicted))}, []
    matched = match(list(reference), list(predicted))
    # A prediction that fits two places cannot belong to both.
    used = Counter(name for name in matched.values() if name is not None)
    twice = next((name for name, times in used.items() if times > 1), None)
    if twice is not None:
        places = [place for place, name in matched.items() if name == twice]
        raise DataError(
            f"{predicted[twice]} matches both {places[0]} and {places[1]}; rename one of them"
        )
    left = [name for name in predicted if name not in used]
    unknown = [name for name in left if predicted[name].table]
    if unknown or not used:
        unknown = unknown or left
        raise DataError(
            f"{predicted[unknown[0]].path}: {len(unknown)} of {len(predicted)} names match no "
            f"reference ({first(unknown)}); expected {first(list(reference))}; compare one file "
            "with one file, or a folder with a folder"
        )
    return matched, left


def _named(files: Iterable[Path]) -> dict[str, RoadSource]:
    named: dict[str, RoadSource] = {}
    for file in files:
        for name, source in _sources(file):
            if named.setdefault(name, source) != source:
                raise DataError(
                    f"{named[name]} and {source} have the same name; rename one of them"
                )
    return named


def _sources(file: Path) -> list[tuple[str, RoadSource]]:
    if file.suffix.lower() != _CSV or not _has_image_ids(file):
        return [(stem(file), RoadSource(file))]
    from roadseg.roads.formats.spacenet_csv import read_wkt_csv

    table = read_wkt_csv(file)
    return [(image, RoadSource(file, table, image)) for image in table.images]


def _has_image_ids(table: Path) -> bool:
    """Return whether a table is SpaceNet's; another one holds lines on the ground."""
    with suppress(OSError), table.open("rb") as file:
        return b"ImageId" in file.readline()
    return True  # Why it cannot be read is said when it is.


def match(reference: list[str], predicted: list[str]) -> dict[str, str | None]:
    """Match names by their parts, whichever of both has more of them; None where none fits.

    Raises:
        DataError: a name fits two others equally well.
    """
    try:
        matched = match_names(reference, predicted)
        used = set(matched.values())
        # What is left is matched the other way round, for names with more parts than the reference.
        rest = [name for name in predicted if name not in used]
        alone = [place for place, name in matched.items() if name is None]
        for name, place in match_names(rest, alone).items():
            if place is not None and matched[place] is None:
                matched[place] = name
    except ValueError as error:
        raise DataError(str(error)) from error
    return matched
