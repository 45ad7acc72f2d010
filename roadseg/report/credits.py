"""Credits of a report: copyright and licences of the images and labels of a run."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from roadseg.config import Config
from roadseg.raster.images import open_raster
from roadseg.report.scenes import ReportScenes
from roadseg.roads.labels.origins import credits_of, read_origins
from roadseg.system.stage_records import Record
from roadseg.system.text import first

_COPYRIGHT = "TIFFTAG_COPYRIGHT"  # Where a GeoTIFF names its owner.
_SCHEME_SOURCES = {"osm": "© OpenStreetMap contributors"}


def credit_lines(config: Config, shown: ReportScenes, prepare: Record | None) -> list[str]:
    """Return a line for the images and one for the labels, each only if something is known.

    They name the copyright tags of images, the project behind the scheme of labels, the origins
    that are recorded beside fetched labels, and the licences in the config.

    Args:
        prepare: record of prepare, which counts the label files of each scheme.

    Raises:
        DataError: if an image or the record of a label file cannot be read.
    """
    images = [scene.image.path for scene in shown.scenes if scene.image]
    schemes = (prepare.summary or {}).get("schemes", {}) if prepare else {}
    origins = read_origins(shown.labels)
    fetched = [*credits_of(origins), *(origin.licence for origin in origins)]
    sources = [_SCHEME_SOURCES[scheme] for scheme in schemes if scheme in _SCHEME_SOURCES]
    # The record of fetched labels names the same project with the day of its data.
    sources = [each for each in sources if not any(text.startswith(each) for text in fetched)]
    names = {
        "Images": [*copyrights(images), *(each.imagery.licence for each in config.sets)],
        "Labels": [*fetched, *sources, *(each.labels.licence for each in config.sets)],
    }
    distinct = {what: list(dict.fromkeys(filter(None, each))) for what, each in names.items()}
    return [f"{what}: {first(each, 3)}" for what, each in distinct.items() if each]


def copyrights(images: Iterable[Path]) -> Iterator[str]:
    """Yield the copyright tag of each image; empty if it has none.

    Raises:
        DataError: if an image cannot be opened.
    """
    for path in images:
        with open_raster(path) as source:
            yield source.tags().get(_COPYRIGHT, "").strip()
