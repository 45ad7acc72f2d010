"""Map sources: images and labels from services, fetched into the folder of a map."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import shapely

from roadseg.commands.services import fetch_images, fetch_roads
from roadseg.commands.services.images.fetching import FetchOptions, ImageRequest
from roadseg.errors import ConfigError
from roadseg.raster.grid import DEGREES, crs_setting
from roadseg.raster.images import read_grid
from roadseg.raster.inputs import image_paths
from roadseg.raster.options import ImageryOptions
from roadseg.roads.labels.areas import area_content
from roadseg.system.records import parse_json, write_json
from roadseg.system.web.keys import without_keys

_OVERPASS = "overpass"

Say = Callable[[str, object], None]
Files = dict[str, list[str]]  # Names in the folder, by the service that they come from.

_RECORD = "fetched.json"
_WITHOUT_EFFECT = {"limit_mb", "headers", "hosts"}  # Options that change no pixel.


def fetch_sources(
    images: Sequence[str],
    labels: Sequence[str],
    folder: Path,
    *,
    imagery: ImageryOptions,
    options: FetchOptions,
    is_begun: bool,
    say: Say,
) -> tuple[list[str], list[str]]:
    """Fetch the images and labels of a map from services.

    A record in the folder says what was fetched, so that an interrupted map resumes without new
    requests.

    Args:
        images: files, folders, globs, or addresses of rasters and services.
        labels: files, folders, globs, or "overpass".
        is_begun: whether the map was already begun with the fetched files.
        say: called with "fetch" and the summary of each fetch.

    Returns:
        Images and labels, with services replaced by files in the folder.

    Raises:
        ConfigError: if services need an area or an option, or the folder contains another map.
        DataError: if a service cannot be read, or has nothing in the area.
        OutputError: if a file cannot be written.
    """
    services = [image for image in images if fetch_images.is_service(image)]
    roads = [each for each in labels if each == _OVERPASS]
    if not services and options != FetchOptions():
        raise ConfigError(
            "options of a service, such as --zoom or --gsd-m, need one among the images, such as "
            "'https://tiles.example.org/{z}/{x}/{y}.jpg'"
        )
    if not (services or roads):
        return list(images), list(labels)
    area = imagery.area or _box_around(images, services, imagery)
    asked = {
        "images": list(map(without_keys, services)),
        "labels": roads,
        "area": area_content(area),
        **{name: value for name, value in asdict(options).items() if name not in _WITHOUT_EFFECT},
    }
    record = folder / _RECORD
    before = _files_of(record, asked)
    if before is None and is_begun:
        raise ConfigError(
            f"{folder.parent}: this folder already contains the map of other images, labels or "
            "another area; use another --output, or delete it"
        )
    files = before or {}
    names = [name for several in files.values() for name in several]
    if not names or not all((folder / name).is_file() for name in names):
        files = {}
        for image in services:
            done = fetch_images.run(
                ImageRequest(source=image, area=area, output=folder / "images", **asdict(options))
            )
            say("fetch", done)
            fetched = [str(each.image.relative_to(folder)) for each in done.images]
            files[without_keys(image)] = fetched
        if roads:
            path = folder / f"{_OVERPASS}.gpkg"
            say("fetch", fetch_roads.run(area, path, force=True))
            files[_OVERPASS] = [path.name]
        write_json(record, {"asked": asked, "files": files})
    paths = {source: [str(folder / name) for name in names] for source, names in files.items()}
    found_images, found_labels = (
        [path for each in sources for path in paths.get(without_keys(each), [each])]
        for sources in (images, labels)
    )
    return found_images, found_labels


def _files_of(record: Path, asked: dict[str, Any]) -> Files | None:
    """Return the files of an earlier, equal fetch; None if there was none."""
    try:
        written = parse_json(record)
        files: Files = {source: list(names) for source, names in written["files"].items()}
        return files if written["asked"] == asked else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _box_around(images: Sequence[str], services: Sequence[str], imagery: ImageryOptions) -> str:
    """Return the box in degrees around images, for labels of a service."""
    if services:
        raise ConfigError(
            f"{without_keys(services[0])}: is a service, which has images of more than you want; "
            "add --area with a vector file or a box minx,miny,maxx,maxy in degrees"
        )
    if not images:
        raise ConfigError(
            "labels from a service are those of an area: add --area, or name the images"
        )
    crs = crs_setting(imagery.crs, "imagery.crs")
    grids = [read_grid(path, crs=crs) for path in image_paths(images)]
    west, south, east, north = shapely.total_bounds([g.footprint_in(DEGREES) for g in grids])
    return f"{west:.6f},{south:.6f},{east:.6f},{north:.6f}"
