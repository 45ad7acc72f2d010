"""Credits of a report: who is to be named for the images and the labels of a run."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from roadseg.config import Config
from roadseg.raster.images import open_raster
from roadseg.report.scenes import Shown
from roadseg.roads.labels.origins import credits_of, read_origins
from roadseg.system.stage_records import Record
from roadseg.system.text import first

_COPYRIGHT = "TIFFTAG_COPYRIGHT"  # Where a GeoTIFF names its owner.
_OF_SCHEME = {"osm": "© OpenStreetMap contributors"}


def credit_lines(config: Config, shown: Shown, prepare: Record | None) -> list[str]:
    """Return a line for the images and one for the labels; none where nothing is known.

    They name the copyright that the images carry, the project that labels of a scheme come from,
    whom the records beside labels name that were fetched, and the licences in the config.

    Args:
        config: of the run.
        shown: the scenes.
        prepare: record of prepare, which counts the label files of each scheme.

    Raises:
        DataError: if an image or the record of a label file cannot be read.
    """
    images = [scene.image.path for scene in shown.scenes if scene.image]
    schemes = (prepare.summary or {}).get("schemes", {}) if prepare else {}
    origins = read_origins(shown.labels)
    fetched = [*credits_of(origins), *(origin.licence for origin in origins)]
    sources = [_OF_SCHEME[scheme] for scheme in schemes if scheme in _OF_SCHEME]
    # A record names the same project, and the day of its data.
    sources = [each for each in sources if not any(text.startswith(each) for text in fetched)]
    sets = config.sets
    names = {
        "Images": [*copyrights(images), *(of.imagery.licence for of in sets)],
        "Labels": [*fetched, *sources, *(of.labels.licence for of in sets)],
    }
    return [f"{what}: {first(known, 3)}" for what, each in names.items() if (known := _known(each))]


def _known(names: Iterable[str | None]) -> Sequence[str]:
    return list(dict.fromkeys(name for name in names if name))


def copyrights(images: Iterable[Path]) -> Iterator[str]:
    """Yield the copyright that each image carries, such as one that was fetched; empty for none.

    Raises:
        DataError: if an image cannot be opened.
    """
    for path in images:
        with open_raster(path) as source:
            yield source.tags().get(_COPYRIGHT, "").strip()
